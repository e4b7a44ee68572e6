"""Shell completion of server, toolset and tool names.

Completion starts no servers. Server and toolset names come from the configuration. Tool names come from earlier
commands, which save them in the user's cache folder, in one small file per configuration, address or command.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click
from tools_search_hosts import SEPARATOR, ConfigurationError
from tools_search_hosts.json_values import as_list
from tools_search_hosts.locations import cache_folder

from tools_search_client.cli.host_files import file_of_host, workspace_of
from tools_search_client.federation.configuration import Configuration, load_configuration
from tools_search_client.found import FoundTool

CONFIG_VARIABLE: Final = "TOOLS_SEARCH_CONFIG"
"""The environment variable that names the configuration to use if no option does."""

_MAX_NAMES: Final = 10_000
_MAX_BYTES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class SeenNames:
    """The tool names seen so far for one configuration, address or command."""

    source: str

    def remember(self, tools: Iterable[FoundTool], *, are_all: bool = False) -> None:
        """Save the names of `tools`. Errors are ignored, because the names only help with completion."""
        kept = [] if are_all else self.read()
        names = list(dict.fromkeys([*(tool.name for tool in tools), *kept]))[:_MAX_NAMES]
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft = self._path.with_suffix(f".{os.getpid()}")
            draft.write_text(json.dumps(names), encoding="utf-8")
            draft.replace(self._path)

    def read(self) -> list[str]:
        """Return the saved names."""
        with suppress(OSError, ValueError):
            if self._path.stat().st_size <= _MAX_BYTES:
                names = as_list(json.loads(self._path.read_text(encoding="utf-8")))
                return [name for name in names if isinstance(name, str)]
        return []

    @property
    def _path(self) -> Path:
        digest = hashlib.sha256(self.source.encode("utf-8", "surrogatepass")).hexdigest()[:32]
        return cache_folder("tools-search-client") / f"names-{digest}.json"


def seen_names(options: Mapping[str, Any]) -> SeenNames:
    """Return the names seen for the servers that a command's options choose."""
    path = chosen_file(options)
    return SeenNames(str(path.resolve()) if path else str(options.get("url") or options.get("command_line")))


def complete_server(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the server names that start with `begun`."""
    configuration = _configuration(context)
    return [entry.name for entry in configuration.servers if entry.name.startswith(begun)] if configuration else []


def complete_toolset(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the toolset names that start with `begun`."""
    configuration = _configuration(context)
    return [name for name in configuration.tool_sets if name.startswith(begun)] if configuration else []


def complete_tool(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the tool names seen earlier that start with `begun`: full names, or else bare ones."""
    with suppress(click.UsageError):
        names = list(seen_names(context.params).read())
        bare = [name.partition(SEPARATOR)[2] for name in names]
        return [name for name in names if name.startswith(begun)] or [name for name in bare if name.startswith(begun)]
    return []


def _configuration(context: click.Context) -> Configuration | None:
    with suppress(click.UsageError, ConfigurationError):
        path = chosen_file(context.params)
        return path and load_configuration(path, workspace=workspace_of(path))
    return None


def chosen_file(options: Mapping[str, Any]) -> Path | None:
    """Return the configuration file a command's options choose; `None` for an address, a command, or no choice.

    Raises `click.UsageError` if the chosen host has no configuration.
    """
    if options.get("config"):
        return Path(options["config"])
    if options.get("host"):
        return file_of_host(options["host"])
    is_open = not options.get("url") and not options.get("command_line")
    return Path(os.environ[CONFIG_VARIABLE]) if is_open and os.environ.get(CONFIG_VARIABLE) else None
