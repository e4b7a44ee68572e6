"""Find MCP hosts' configuration files on this machine."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from tools_search_hosts import ConfigurationError, inspect_host_file
from tools_search_hosts.configuration import NO_SERVERS
from tools_search_hosts.locations import (
    HOSTS,
    HostPath,
    home_folder,
    host_paths,
    project_folder,
    project_paths,
    real_path,
)


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A known host's configuration file."""

    host: str
    path: Path
    is_project: bool
    option: str
    """The command-line option that selects it."""
    servers: tuple[str, ...]
    """The names of the enabled servers."""
    problem: str | None = None
    """Why it cannot be read, if it cannot."""

    def to_json(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        scope = "project" if self.is_project else "user"
        place = {"host": self.host, "scope": scope, "file": str(self.path), "option": self.option}
        return place | {"servers": self.servers, "problem": self.problem}


def found_files() -> list[FoundFile]:
    """Return the existing files that name servers or cannot be read: the user's first, then the project's."""
    found: list[FoundFile] = []
    chosen: set[str] = set()
    for place in [*host_paths(), *project_paths(project_folder(Path.cwd()))]:
        servers, problem = _content(place)
        is_known = any(
            file.path == place.path for file in found
        )  # in the home folder, the user's file is also the project's
        if (servers or problem) and not is_known:
            is_first = not place.is_project and place.host not in chosen
            option = f"--host {place.host}" if is_first else f"--config {shlex.quote(_nearby(place.path))}"
            chosen.add(place.host)
            found.append(FoundFile(place.host, place.path, place.is_project, option, servers, problem))
    return found


def file_of_host(host: str) -> Path:
    """Return the user's configuration for a host: the first file that names servers or cannot be read.

    Raises:
        click.UsageError: There is none; the message lists the places searched.
    """
    places = [place for place in host_paths() if place.host == host]
    for place in places:
        if any(_content(place)):
            return place.path
    looked = " nor ".join(shown_path(place.path) for place in places)
    of_project = [file.option for file in found_files() if file.host == host]
    remedy = f"; if you trust the project's file, use {of_project[0]}" if of_project else ""
    raise click.UsageError(f"{HOSTS[host]} has no servers in {looked}{remedy}")


def workspace_of(path: Path) -> Path | None:
    """Return the project to use with a user's configuration; `None` if the file is the project's own."""
    users = {real_path(place.path) for place in host_paths()}
    return project_folder(Path.cwd()) if real_path(path) in users else None


def shown_path(path: Path) -> str:
    """Return a path for display, relative to the home folder if it is inside it."""
    home = home_folder()
    return f"~/{path.relative_to(home)}" if path.is_relative_to(home) else str(path)


def _nearby(path: Path) -> str:
    """Return a path for the command line, relative to the working folder if it is inside it."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _content(place: HostPath) -> tuple[tuple[str, ...], str | None]:
    """Return the server names in a file (none if it does not exist), and why it cannot be used.

    Many hosts keep other settings in the same file, so a file that names no servers is not a mistake.
    """
    try:
        file, problems = inspect_host_file(place.path, workspace=workspace_of(place.path))
    except ConfigurationError as error:
        is_absent = isinstance(error.__cause__, FileNotFoundError | NotADirectoryError)
        return (), None if is_absent else "; ".join(error.problems)
    problem = "; ".join(problems) or NO_SERVERS if file.states_servers and not file.servers else None
    return tuple(server.name for server in file.servers), problem
