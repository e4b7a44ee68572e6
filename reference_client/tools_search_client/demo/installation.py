"""Optional servers that need a separate environment, installed once into a cache folder.

One uses an SDK older than 2.0 and shows the legacy protocol; three are Node programs. Without Node or a network, the
demo runs with the other servers and says so.
"""

from __future__ import annotations

import fcntl
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
"""Limit for one installer on a slow connection; the elapsed time is shown."""

DOWNLOAD: Final = "about 40 MB"
"""Combined downloads by pip and npm."""
ON_DISK: Final = "about 125 MB"


@dataclass(frozen=True, slots=True)
class Installation:
    """The installed servers, the reasons why others are missing, and the time it took in seconds."""

    legacy_server: Path | None
    """The program `mcp-server-sqlite`."""
    node_programs: Path | None
    """The folder of the Node servers' programs."""
    notes: tuple[str, ...]
    seconds: float


class _InstallationError(Exception):
    """A server could not be installed."""


def install_extra_servers(folder: Path, say: Callable[[str], None]) -> Installation:
    """Install the servers missing from `folder`, which concurrent runs can share. Failures become notes."""
    started = perf_counter()
    legacy, node = folder / "python-legacy", folder / "node"
    installed: dict[Path, Path] = {}
    notes: list[str] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # one run installs while the others wait
            for what, home, install in (
                ("sqlite server (legacy protocol)", legacy, _install_legacy_server),
                ("Node servers", node, _install_node_servers),
            ):
                try:
                    installed[home] = install(home, say)
                except _InstallationError as error:
                    notes.append(f"no {what}: {error}")
    except OSError as error:
        advice = "set XDG_CACHE_HOME to a writable folder"
        notes = [f"no extra servers: cannot write to {folder} ({error.strerror}); {advice}"]
        installed = {}
    return Installation(installed.get(legacy), installed.get(node), tuple(notes), perf_counter() - started)


def _install_legacy_server(home: Path, say: Callable[[str], None]) -> Path:
    """Install the sqlite server and return its program."""
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _install(
        home,
        _LEGACY_PACKAGES,
        [sys.executable, "-m", "venv", "--clear", str(home)],
        [*pip, "--retries", "1", *_LEGACY_PACKAGES],
        announce=lambda: say(f"installing {_LEGACY_PACKAGES[0]} into a separate environment"),
    )
    return home / "bin" / "mcp-server-sqlite"


def _install_node_servers(home: Path, say: Callable[[str], None]) -> Path:
    """Install the Node servers and return the folder of their programs."""
    npm, node = shutil.which("npm"), shutil.which("node")
    shown = node and subprocess.run([node, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    version = re.match(r"v(\d+)", shown or "")
    if npm is None or version is None or int(version[1]) < _MIN_NODE:
        raise _InstallationError(f"Node.js {_MIN_NODE} or newer is not installed")
    options = ["--no-audit", "--no-fund", "--loglevel=error", "--fetch-retries=1", "--prefix", str(home)]
    install = [npm, "install", *options, *_NODE_PACKAGES]
    _install(home, _NODE_PACKAGES, install, announce=lambda: say("installing three Node servers"))
    return home / "node_modules" / ".bin"


def _install(home: Path, packages: Sequence[str], *commands: Sequence[str], announce: Callable[[], None]) -> None:
    """Run the commands that install packages, unless they are already installed."""
    stamp, complete = home / "complete.txt", "\n".join(packages)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == complete:
        return
    announce()
    home.mkdir(parents=True, exist_ok=True)
    for command in commands:
        try:
            done = subprocess.run(  # noqa: S603
                command, capture_output=True, text=True, errors="replace", check=False, timeout=_INSTALL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _InstallationError(str(error)) from error
        if done.returncode:
            # pip's last line is the most useful one; npm begins with a code and ends with advice.
            lines = [line.strip() for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            useful = [line for line in lines if " failed" in line or line.startswith("npm error code")]
            reason = [f"{command[0]} exited with code {done.returncode}", *lines[-1:], *useful][-1]
            raise _InstallationError(reason)
    stamp.write_text(complete, encoding="utf-8")
