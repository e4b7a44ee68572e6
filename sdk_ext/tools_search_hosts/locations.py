"""Locations of hosts' configuration files and of programs' caches.

A project's file may come from an untrusted repository and names programs to start, so hosts ask their users before they
trust it. Therefore users' files can be selected by host, while projects' files are only shown.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOSTS: Final[Mapping[str, str]] = {
    "claude-code": "Claude Code",
    "claude-desktop": "Claude Desktop",
    "codex": "Codex",
    "cursor": "Cursor",
    "goose": "Goose",
    "vscode": "VS Code",
    "zed": "Zed",
}
"""The hosts with known files, by the names that users type."""

_PROJECT_FILES: Final = (
    ("claude-code", ".mcp.json"),
    ("codex", ".codex/config.toml"),
    ("cursor", ".cursor/mcp.json"),
    ("vscode", ".vscode/mcp.json"),
    ("vscode", ".vscode/settings.json"),
    ("zed", ".zed/settings.json"),
)


@dataclass(frozen=True, slots=True)
class HostPath:
    """A location of a host's configuration file, which may not exist."""

    host: str
    path: Path
    is_project: bool = False
    """Whether it belongs to a project rather than to the user."""


def host_paths(
    *, environment: Mapping[str, str] | None = None, home: Path | None = None, platform: str = sys.platform
) -> list[HostPath]:
    """Return the locations of the user's files, whether or not they exist, each host's preferred one first.

    By default, they are those of this process. Variables of the environment can change them.
    """
    variables = os.environ if environment is None else environment
    home = home or home_folder()

    def folder(variable: str, otherwise: Path) -> Path:
        return Path(variables.get(variable) or otherwise)

    config = folder("XDG_CONFIG_HOME", home / ".config")
    of_programs = home / "Library/Application Support" if platform == "darwin" else config
    return [
        HostPath("claude-code", folder("CLAUDE_CONFIG_DIR", home) / ".claude.json"),
        HostPath("claude-desktop", of_programs / "Claude/claude_desktop_config.json"),
        HostPath("codex", folder("CODEX_HOME", home / ".codex") / "config.toml"),
        HostPath("cursor", home / ".cursor/mcp.json"),
        HostPath("goose", config / "goose/config.yaml"),
        HostPath("vscode", of_programs / "Code/User/mcp.json"),
        HostPath("vscode", of_programs / "Code/User/settings.json"),
        HostPath("zed", config / "zed/settings.json"),
    ]


def home_folder() -> Path:
    """Return this user's home folder, or `/`, as container runtimes do, for a user without one."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def cache_folder(program: str) -> Path:
    """Return this user's cache folder for `program`."""
    return _own_folder("XDG_CACHE_HOME", ".cache") / program


def state_folder(program: str) -> Path:
    """Return this user's folder for what `program` keeps between runs."""
    return _own_folder("XDG_STATE_HOME", ".local/state") / program


def _own_folder(variable: str, otherwise: str) -> Path:
    stated = Path(os.environ.get(variable, ""))  # relative paths are ignored, as their specification requires
    return stated if stated.is_absolute() else home_folder() / otherwise


def real_path(path: Path) -> Path:
    """Return `path` without symbolic links, except those that form a loop, on which `Path.resolve` can fail."""
    return Path(os.path.realpath(path))


def project_folder(folder: Path) -> Path:
    """Return the nearest enclosing folder that is a Git repository, or `folder` itself if there is none."""
    folder = folder.resolve()
    return next((around for around in (folder, *folder.parents) if (around / ".git").exists()), folder)


def project_paths(project: Path) -> list[HostPath]:
    """Return the locations of a project's files, whether or not they exist."""
    return [HostPath(host, project / path, is_project=True) for host, path in _PROJECT_FILES]
