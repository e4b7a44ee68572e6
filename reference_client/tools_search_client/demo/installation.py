"""Servers that need a separate environment, installed once into a cache folder, if the user asks for them.

One is still written for the SDK before 2.0 and shows the legacy protocol; three are Node programs. A machine without
Node, or without a network, runs the demo with the others and says so.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Final

_LEGACY_PACKAGES: Final = ("mcp-server-sqlite==2025.4.25", "mcp>=1.20,<2")
_NODE_PACKAGES: Final = (
    "@modelcontextprotocol/server-everything@2026.8.31",
    "@modelcontextprotocol/server-filesystem@2026.8.31",
    "@modelcontextprotocol/server-memory@2026.8.31",
)
_MIN_NODE: Final = 18
_INSTALL_SECONDS: Final = 1800
"""For one installer on a slow line; the time that it takes is shown."""

DOWNLOAD: Final = "about 40 MB"
"""The download of pip and npm together."""
ON_DISK: Final = "about 125 MB"


@dataclass(frozen=True, slots=True)
class Installation:
    """The servers that are installed, the reasons why others are not, and the time that it took."""

    legacy_server: Path | None
    """The program `mcp-server-sqlite`."""
    node_programs: Path | None
    """The folder of the Node servers' programs."""
    notes: tuple[str, ...]
    seconds: float


class _InstallationError(Exception):
    """A reason to do without a server."""


def cache_folder() -> Path:
    """Return the folder of the extra servers, kept across runs."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path("~/.cache").expanduser())
    return Path(base) / "mcp-ext-tools-search" / "demo"


def install_extra_servers(folder: Path, say: Callable[[str], None]) -> Installation:
    """Install the servers that `folder` lacks; a failure becomes a note, never an error.

    Args:
        folder: The cache; several runs may use it at once.
        say: Called with the name of each installation, since it takes a while.
    """
    started = perf_counter()
    notes: list[str] = []

    def attempt(what: str, install: Callable[[Path, Callable[[str], None]], Path]) -> Path | None:
        try:
            return install(folder, say)
        except _InstallationError as error:
            notes.append(f"without {what}: {error}")
            return None

    legacy = node = None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one run installs while others wait for it
            legacy = attempt("the sqlite server (legacy protocol)", _legacy_environment)
            node = attempt("the Node servers", _node_programs)
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a folder of yours"
        notes = [f"without the extra servers: {folder} cannot be written ({error.strerror}); {advice}"]
        legacy = node = None
    return Installation(legacy, node, tuple(notes), perf_counter() - started)


def _legacy_environment(folder: Path, say: Callable[[str], None]) -> Path:
    home = folder / "python-legacy"
    if not _is_complete(home, _LEGACY_PACKAGES):
        say(f"installing {_LEGACY_PACKAGES[0]} into a separate environment")
        _run([sys.executable, "-m", "venv", "--clear", str(home)])
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, "--retries", "1", *_LEGACY_PACKAGES])
        _mark_complete(home, _LEGACY_PACKAGES)
    return home / "bin" / "mcp-server-sqlite"


def _node_programs(folder: Path, say: Callable[[str], None]) -> Path:
    npm = shutil.which("npm")
    if npm is None or _node_version() < _MIN_NODE:
        raise _InstallationError(f"Node.js {_MIN_NODE} or newer is not on this machine")
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
            command, capture_output=True, text=True, errors="replace", check=False, timeout=_INSTALL_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _InstallationError(str(error)) from error
    if done.returncode:
        raise _InstallationError(_reason(done.stderr or done.stdout) or f"{command[0]} ended with {done.returncode}")


def _reason(output: str) -> str:
    """Return the most useful line: the last one of pip; npm begins with a code and ends with advice."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    useful = [line for line in lines if " failed" in line or line.startswith("npm error code")]
    return (useful[-1:] or lines[-1:] or [""])[0]


def _is_complete(home: Path, packages: Sequence[str]) -> bool:
    stamp = home / "complete.txt"
    return stamp.is_file() and stamp.read_text(encoding="utf-8") == "\n".join(packages)


def _mark_complete(home: Path, packages: Sequence[str]) -> None:
    (home / "complete.txt").write_text("\n".join(packages), encoding="utf-8")
