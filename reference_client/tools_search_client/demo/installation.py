"""Servers that cannot stand in this environment, installed once into a cache folder, if they are asked for.

One is still written for the SDK before 2.0 and shows the legacy protocol, so it gets an environment of its own; three
are Node programs. A machine without Node, or without a network, runs the demo with what there is and says so.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

__all__ = ["DOWNLOAD", "ON_DISK", "Installation", "cache_folder", "install_extra_servers"]

_LEGACY_PACKAGES: Final = ("mcp-server-sqlite==2025.4.25", "mcp>=1.20,<2")
_NODE_PACKAGES: Final = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
)
_LEAST_NODE: Final = 18
_PATIENCE_SECONDS: Final = 1800
"""For one installer on a slow line; how long it takes is shown."""

DOWNLOAD: Final = "about 40 MB"
"""What is fetched, by pip and npm together."""
ON_DISK: Final = "about 125 MB"


@dataclass(frozen=True, slots=True)
class Installation:
    """What is installed, what is not and why, and how long it took."""

    legacy_server: Path | None
    """The program `mcp-server-sqlite`."""
    node_programs: Path | None
    """The folder of the Node servers' programs."""
    notes: tuple[str, ...]
    seconds: float


def cache_folder() -> Path:
    """Return where the extra servers live, across runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "mcp-ext-tools-search" / "demo"


def install_extra_servers(folder: Path, say: Callable[[str], None]) -> Installation:
    """Install what is missing in `folder`; what cannot be installed is a note, never an error.

    Args:
        folder: The cache; several runs may use it at once.
        say: Called with what is being installed, since it takes a while.
    """
    started = perf_counter()
    notes: list[str] = []
    try:
        with _alone(folder):
            legacy = _attempt(notes, "the sqlite server (legacy protocol)", lambda: _legacy_environment(folder, say))
            node = _attempt(notes, "the Node servers", lambda: _node_programs(folder, say))
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a folder of yours"
        notes.append(f"without the extra servers: {folder} cannot be written ({error.strerror}); {advice}")
        return Installation(None, None, tuple(notes), perf_counter() - started)
    return Installation(legacy, node, tuple(notes), perf_counter() - started)


class _CannotInstall(Exception):
    """A reason to do without."""


def _attempt(notes: list[str], what: str, install: Callable[[], Path]) -> Path | None:
    try:
        return install()
    except _CannotInstall as error:
        notes.append(f"without {what}: {error}")
        return None


def _legacy_environment(folder: Path, say: Callable[[str], None]) -> Path:
    home = folder / "python-legacy"
    python = home / "bin" / "python"
    if not _is_complete(home, _LEGACY_PACKAGES):
        say(f"installing {_LEGACY_PACKAGES[0]} into an environment of its own")
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
        _run([*pip, *_LEGACY_PACKAGES])
        _mark_complete(home, _LEGACY_PACKAGES)
    return home / "bin" / "mcp-server-sqlite"


def _node_programs(folder: Path, say: Callable[[str], None]) -> Path:
    npm = shutil.which("npm")
    if npm is None or _node_version() < _LEAST_NODE:
        raise _CannotInstall(f"Node.js {_LEAST_NODE} or newer is not on this machine")
    home = folder / "node"
    if not _is_complete(home, _NODE_PACKAGES):
        say("installing three Node servers")
        home.mkdir(parents=True, exist_ok=True)
        options = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--prefix", str(home)]
        _run([npm, "install", *options, *_NODE_PACKAGES])
        _mark_complete(home, _NODE_PACKAGES)
    return home / "node_modules" / ".bin"


def _node_version() -> int:
    """Return the major version of Node, 0 where there is none."""
    node = shutil.which("node")
    if node is None:
        return 0
    shown = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = re.match(r"v(\d+)", shown.stdout)
    return int(version[1]) if version else 0


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_PATIENCE_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _CannotInstall(str(error)) from error
    if done.returncode:
        raise _CannotInstall(_reason(done.stderr or done.stdout) or f"{command[0]} ended with {done.returncode}")


def _reason(said: str) -> str:
    """Return the line that says most: pip ends with it, npm begins with a code and ends with advice."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    telling = [line for line in lines if " failed" in line or line.startswith("npm error code")]
    return (telling[-1:] or lines[-1:] or [""])[0]


def _is_complete(home: Path, packages: Sequence[str]) -> bool:
    stamp = home / "complete.txt"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == _stamp(packages)


def _mark_complete(home: Path, packages: Sequence[str]) -> None:
    (home / "complete.txt").write_text(_stamp(packages), encoding="utf-8")


def _stamp(packages: Sequence[str]) -> str:
    return "\n".join(packages)


@contextmanager
def _alone(folder: Path) -> Generator[None]:
    """Let one run install while others wait for it."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
