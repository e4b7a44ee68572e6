"""Shell completion of server, toolset and tool names.

Completion starts no servers. Server and toolset names come from the configuration. Tool names come from earlier
commands, which save them in the user's cache folder, in one small file per configuration, address or command.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)
from tools_search_hosts import SEPARATOR, ConfigurationError, HostFile, inspect_host_file
from tools_search_hosts.json_values import as_list, as_object
from tools_search_hosts.locations import cache_folder, real_path

from tools_search_client.cli.host_files import file_of_host, workspace_of

if TYPE_CHECKING:
    from tools_search_client.found import FoundTool

CONFIG_VARIABLE: Final = "TOOLS_SEARCH_CONFIG"
"""The environment variable that names the configuration to use if no option does."""

_MAX_NAMES: Final = 10_000
_MAX_BYTES: Final = 1_000_000


_OPTION: Final = re.compile(r"--[^=]+=")


@add_completion_class
class JoinedBash(BashComplete):
    """Completion for bash, which divides words at `=`, `:` and `@`: `--url=http://host` comes in five parts.

    Only the part after the last of these is replaced by what is offered; an `@` belongs to what comes after it.
    """

    source_template = BashComplete.source_template.replace(
        "compopt -o default",
        """if [[ $value == @* ]]; then
                for path in $(compgen -f -- "${value:1}"); do
                    [[ -d $path ]] && path+=/ && compopt -o nospace
                    COMPREPLY+=("@$(printf %%q "$path")")
                done
            else
                compopt -o default
            fi""",
    )

    typed = ""
    """What stays of the word on the line."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words before the one to complete, and that one."""
        words, index = split_arg_string(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        joined: list[str] = []
        is_open = False
        for word in [*words, ""][: index + 1]:
            is_break = not word.strip("=:@") and word != ""
            if joined and (is_open or (is_break and word[0] != "@")):
                joined[-1] += word
            else:
                joined.append(word)
            is_open = is_break
            self.typed = joined[-1] if is_break else joined[-1].removesuffix(word)
        return joined[1:-1], joined[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return the form that the shell's function reads."""
        if item.type == "plain":
            item.value = item.value.removeprefix(_OPTION.sub("", self.typed, count=1))
        elif self.typed == "@":
            item.value = f"@{item.value}"
        return super().format_completion(item)


class _WholeWords(ShellComplete):
    """Completion for shells that replace the whole word, also in `--option=value`, `@FILE` and `name=FILE`."""

    typed = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        words, self.typed = super().get_completion_args()
        return words, self.typed

    def format_completion(self, item: CompletionItem[Any]) -> str:
        if item.type == "plain":
            option = _OPTION.match(self.typed)
            item.value = (option[0] if option else "") + item.value
        else:  # the shell itself completes the path, which comes after this
            item.value = f"{self.typed.removesuffix(item.value)},{item.value}"
        return super().format_completion(item)


@add_completion_class
class WholeZsh(_WholeWords, ZshComplete):
    """Completion for zsh."""

    source_template = ZshComplete.source_template.replace("_path_files", "compset -p ${#${key%%%%,*}}; _path_files")


@add_completion_class
class WholeFish(_WholeWords, FishComplete):
    """Completion for fish, which splits what it is offered at commas: paths and help may contain some."""

    source_template = FishComplete.source_template.replace(
        "__fish_complete_path $metadata[2];",
        """for path in (__fish_complete_path (string join , -- $metadata[3..-1]));
                echo "$metadata[2]$path";
            end;""",
    ).replace("echo $metadata[2];", "string join , -- $metadata[2..-1];")


@dataclass(frozen=True, slots=True)
class SeenNames:
    """The tool names seen so far for one configuration, address or command."""

    source: str

    def remember(self, tools: Iterable[FoundTool], *, are_all: bool = False) -> None:
        """Save the names of `tools`. Errors are ignored, because the names only help with completion."""
        kept = [] if are_all else self.read()
        names = list(dict.fromkeys([*(tool.name for tool in tools), *kept]))[:_MAX_NAMES]
        from tools_search_ranking.private_files import replace_private_file

        with suppress(OSError):
            replace_private_file(self._path, json.dumps(names).encode())

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
    return SeenNames(str(real_path(path)) if path else str(options.get("url") or options.get("command_line")))


def complete_server(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the server names that start with `begun`."""
    file = _host_file(context)
    return [entry.name for entry in file.servers if entry.name.startswith(begun)] if file else []


def complete_toolset(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the toolset names that start with `begun`."""
    file = _host_file(context)
    return [name for name in as_object(file.members.get("tool_sets")) if name.startswith(begun)] if file else []


def complete_tool(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """Return the tool names seen earlier that start with `begun`: full names, or else bare or `server:tool` ones."""
    with suppress(click.UsageError):
        names = seen_names(context.params).read()
        bare = [name.partition(SEPARATOR)[2] for name in names]
        qualified = [name.replace(SEPARATOR, ":", 1) for name in names]
        offers = ([name for name in form if name.startswith(begun)] for form in (names, bare, qualified))
        return next(filter(None, offers), list[str]())
    return []


def complete_argument(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem[Any]]:
    """Return what makes the shell complete the path in `@FILE` and in `name=PATH`; nothing for other words."""
    path = re.fullmatch(r"(?:@|[^=]*[^=:]=)(.*)", begun, re.DOTALL)
    return [CompletionItem(path[1], type="file")] if path else []


def _host_file(context: click.Context) -> HostFile | None:
    with suppress(click.UsageError, ConfigurationError):
        path = chosen_file(context.params)
        return path and inspect_host_file(path, workspace=workspace_of(path))[0]
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
