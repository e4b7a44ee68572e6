"""`ServerSelection`: the servers a command uses, and the options that choose them."""

from __future__ import annotations

import logging
import math
import os
import shlex
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click
from tools_search_hosts import EraChoice, Input, ServerEntry, Toolset, writers_warning
from tools_search_hosts.configuration import NO_SERVERS
from tools_search_hosts.locations import HOSTS
from tools_search_hosts.toolsets import EVERYTHING, closest

from tools_search_client.cli.completion import (
    CONFIG_VARIABLE,
    SeenNames,
    chosen_file,
    complete_server,
    complete_tool,
    complete_toolset,
    seen_names,
)
from tools_search_client.cli.host_files import found_files, workspace_of
from tools_search_client.cli.output import print_note, waiting
from tools_search_client.cli.running import can_be_asked, interruptible_question, run_until_signal
from tools_search_client.errors import ConfigurationError, LocalError, ServerTimeoutError
from tools_search_client.remedies import MORE_TIME
from tools_search_client.text import one_line

if TYPE_CHECKING:
    from tools_search_client.federation.configuration import Configuration
    from tools_search_client.federation.federation import Federation, FederationOptions
    from tools_search_client.found import FederatedListing, FoundTool

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

LOG_VARIABLE: Final = "LOG_LEVEL"

_LEVELS: Final = ("CRITICAL", "ERROR", "WARNING", "INFO", "DEBUG")

_DEADLINE: Final = 30.0
"""In seconds. Long, because a command might have to start every server first."""


class ServerCommand(click.Command):
    """A command that has `server_options`."""

    allow_extra_args = True

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the arguments. Raises `UsageError` for any beyond those that the command has."""
        has_command_line = "--" in args
        extra = super().parse_args(ctx, args)
        if extra and not ctx.resilient_parsing:
            words = shlex.join(extra)
            if has_command_line:
                problem = f"a server is named by an option: --command {shlex.quote(words)}"
            elif any(parameter.name in ("query", "question") for parameter in self.params):
                problem = f"unexpected after the text: {words}; put several words in quotes"
            else:
                problem = f"unexpected: {words}; choose servers with --config, --host, --url, --command or --server"
            ctx.fail(problem)
        return extra


class FiniteRange(click.FloatRange):
    """A range of finite numbers. Click itself takes NaN to be in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the number."""
        number = super().convert(value, param, ctx)
        return number if math.isfinite(number) else self.fail(f"{value!r} is not a finite number.", param, ctx)


SECONDS: Final = FiniteRange(min=0, min_open=True)


@dataclass(frozen=True, slots=True)
class ServerSelection:
    """A command's servers, and the options for connecting to them."""

    configuration: Configuration
    """Contains only the selected servers."""
    options: FederationOptions
    toolset: Toolset
    seen: SeenNames
    is_whole: bool
    """Whether these are all servers of the configuration."""

    def shows(self, tool: FoundTool) -> bool:
        """Return whether the toolset contains `tool`."""
        rule = self.toolset.rule(tool.server)
        return rule is not None and rule.shows(tool.tool.name)

    async def resolve(self, servers: Federation, name: str) -> FoundTool:
        """Return the tool that `name` means.

        Raises:
            LocalError: The name matches no tool, several tools, or one that the toolset hides.
            ServerError: The server failed.
        """
        try:
            tool = await servers.resolve(name)
        except ServerTimeoutError as error:
            raise ServerTimeoutError(f"the server of {name!r} failed: {error}: {MORE_TIME}") from error
        self.seen.remember([tool])
        if not self.shows(tool):
            raise LocalError(f"{tool.name} is not in the toolset {self.toolset.name!r}")
        return tool

    async def list(self, servers: Federation) -> FederatedListing:
        """Return every tool in the toolset."""
        listing = await servers.list()
        self.seen.remember(listing.tools, are_all=self.is_whole and not listing.failed)
        return replace(listing, tools=tuple(filter(self.shows, listing.tools)))

    def ask(self, question: Callable[[Federation], Awaitable[T]]) -> T:
        """Connect to the servers, ask them `question`, and return the answer; a terminal shows a spinner."""
        from tools_search_client.federation.federation import open_federation

        async def run() -> T:
            async with open_federation(self.configuration, self.options) as servers:
                return await question(servers)

        with waiting("asking the servers …"):
            return run_until_signal(run)


call_timeout_option = click.option(
    "--call-timeout",
    type=SECONDS,
    metavar="SECONDS",
    help="How long a tool can run without reporting progress. Default: `call_timeout` in the configuration, or 120.",
)

least_confidence_option = click.option(
    "--least-confidence",
    type=FiniteRange(0, 1),
    metavar="SHARE",
    help="When this client ranks, leave out tools less likely to fit than this. Default: `tool_discovery` in the "
    "configuration, or 0.02.",
)

toolset_option = click.option(
    "--toolset",
    "toolset_name",
    metavar="NAME",
    shell_complete=complete_toolset,
    help="Use only the tools in this toolset from the configuration.",
)

tool_argument = click.argument("name", shell_complete=complete_tool)

_SERVER_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help=f"A host's configuration file: JSON, TOML or YAML. Default: the variable {CONFIG_VARIABLE}.",
    ),
    click.option(
        "--host", type=click.Choice(list(HOSTS)), help="Read the configuration file of this host on this machine."
    ),
    click.option("--url", metavar="URL", help="One server over Streamable HTTP."),
    click.option(
        "--command",
        "command_line",
        metavar='"PROGRAM ARG…"',
        help="One server over stdio: the command that starts it (no shell).",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        metavar='"NAME: VALUE"',
        help="A header to send with every request to --url; can be repeated.",
    ),
    click.option(
        "--timeout",
        type=SECONDS,
        metavar="SECONDS",
        help="How long to wait for the slowest server. Default: `deadline` in the configuration, or 30.",
    ),
    click.option(
        "--era",
        type=click.Choice(["auto", "legacy"]),
        help="auto: the newest protocol that each server supports; legacy: the handshake of 2025 and earlier. "
        "Default: `era` in the configuration, or auto.",
    ),
    click.option(
        "--server",
        "among",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_server,
        help="Use only this server from the configuration; can be repeated.",
    ),
    click.option(
        "-v",
        "--verbose",
        count=True,
        help=f"Show the log on standard error; -vv adds debug messages. Default: {LOG_VARIABLE}, a level such as INFO.",
    ),
]


def server_options(*, follow_changes: bool = False, optional: bool = False) -> Callable[[Command], Command]:
    """Add the options that choose servers. The command gets them as one `selection` argument.

    `selection` includes `least_confidence_option`, `call_timeout_option` and `toolset_option` if the command has them.

    Args:
        follow_changes: Whether to follow servers' list changes; most commands finish before any could arrive.
        optional: Whether the user can leave out the servers; the command then gets `None`.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def with_target(
            *,
            headers: tuple[str, ...],
            timeout: float | None,
            era: EraChoice | None,
            among: tuple[str, ...],
            verbose: int,
            least_confidence: float | None = None,
            call_timeout: float | None = None,
            toolset_name: str | None = None,
            **others: Any,
        ) -> Any:
            from tools_search_client.federation.federation import FederationOptions
            from tools_search_client.servers.connection import ConnectionOptions
            from tools_search_client.servers.oauth import OAuth

            _show_log(verbose)
            chosen = {name: others.pop(name) for name in ("config", "host", "url", "command_line")}
            if optional and all(given is None for given in chosen.values()) and chosen_file(chosen) is None:
                return command(selection=None, **others)
            configuration = _configuration(chosen, headers, among)
            stated = configuration.tool_discovery
            given = {"deadline": timeout or stated.deadline or _DEADLINE, "era": era}
            given |= dict.fromkeys(("connect_timeout", "request_timeout", "grace"), timeout)
            given |= {"least_confidence": least_confidence, "call_timeout": call_timeout}
            stated = replace(stated, **{name: value for name, value in given.items() if value is not None})
            toolset = _toolset(configuration, toolset_name)
            entries = _among(configuration, among, toolset)
            # Cleared, so that an option takes precedence over what the file states for a single server.
            of_entries = {"start_seconds": timeout, "call_seconds": call_timeout, "era": era}
            overridden = {name: None for name, value in of_entries.items() if value is not None}
            entries = tuple(replace(entry, **overridden) for entry in entries)
            is_whole = len(entries) == len(configuration.servers)
            configuration = replace(configuration, servers=entries, tool_discovery=stated)
            follows = follow_changes and stated.follow_changes
            connection = ConnectionOptions(follow_changes=follows, auth=OAuth())
            options = FederationOptions(connection=connection)
            selection = ServerSelection(configuration, options, toolset, seen_names(chosen), is_whole)
            return command(selection=selection, **others)

        decorated: Any = with_target
        for option in reversed(_SERVER_OPTIONS):
            decorated = option(decorated)
        return cast("Command", decorated)

    return decorate


class _PrintableFormatter(logging.Formatter):
    """Puts each record on one line, because records quote servers."""

    def format(self, record: logging.LogRecord) -> str:
        return one_line(super().format(record))


class _NoteHandler(logging.Handler):
    """Shows each record as a note."""

    def emit(self, record: logging.LogRecord) -> None:
        print_note(f"Warning: {record.getMessage()}")


def _show_log(verbose: int) -> None:
    """Show log messages at or above the level; without a level, only warnings about sign-ins."""
    stated = os.environ.get(LOG_VARIABLE, "").upper()
    level = ("", "INFO", "DEBUG")[min(verbose, 2)] or stated
    if level and level not in _LEVELS:
        raise click.UsageError(f"{LOG_VARIABLE} must be one of {', '.join(_LEVELS)}")
    handler: logging.Handler = logging.StreamHandler() if level else logging.NullHandler()
    handler.setFormatter(_PrintableFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=level or logging.CRITICAL, handlers=[handler])
    sign_ins = logging.getLogger("tools_search_client.servers.oauth")
    sign_ins.setLevel(level or logging.WARNING)
    sign_ins.handlers = [] if level else [_NoteHandler()]


def _toolset(configuration: Configuration, name: str | None) -> Toolset:
    if name is not None and name not in configuration.tool_sets:
        raise click.UsageError(f"no toolset is named {name!r}; {closest(name, configuration.tool_sets)}")
    return EVERYTHING if name is None else configuration.tool_sets[name]


def _among(configuration: Configuration, names: tuple[str, ...], toolset: Toolset) -> tuple[ServerEntry, ...]:
    """Return the named servers (all of them if `names` is empty) that the toolset shows."""
    known = [entry.name for entry in configuration.servers]
    for name in names:
        if name not in known:
            raise click.UsageError(f"no server is named {name!r}; {closest(name, known)}")
    wanted = [entry for entry in configuration.servers if not names or entry.name in names]
    return tuple(entry for entry in wanted if toolset.rule(entry.name) is not None)


def _configuration(chosen: Mapping[str, Any], headers: tuple[str, ...], among: tuple[str, ...]) -> Configuration:
    from tools_search_client.federation.configuration import command_server, url_server

    if sum(given is not None for given in chosen.values()) > 1:
        raise click.UsageError("use only one of --config, --host, --url and --command")
    if among and (chosen["url"] or chosen["command_line"]):
        raise click.UsageError("--server chooses among the servers of --config or --host")
    if headers and chosen["url"] is None:
        raise click.UsageError("--header requires --url; in a configuration file, set `headers` for each server")
    if chosen["url"] is not None:
        return url_server(chosen["url"], dict(map(_header, headers)), name="")
    if chosen["command_line"] is not None:
        return command_server(chosen["command_line"], name="")
    return _of_file(chosen)


def _of_file(chosen: Mapping[str, Any]) -> Configuration:
    from tools_search_client.federation.configuration import load_configuration

    path = chosen_file(chosen)
    if path is None:
        options = [found.option for found in found_files() if found.servers]
        offers = f" (available here: {', '.join(options)})" if options else ""
        raise click.UsageError(f"choose servers with --config, --host, --url or --command{offers}")
    ask = _ask_for if can_be_asked() else None
    try:
        configuration = load_configuration(path, ask=ask, workspace=workspace_of(path))
        if not configuration.servers:
            raise ConfigurationError(str(path), [NO_SERVERS])
    except ConfigurationError as error:
        if any(chosen.values()):
            raise
        raise ConfigurationError(f"{path}, which {CONFIG_VARIABLE} names,", error.problems) from error
    if warning := writers_warning(path):
        print_note(f"Warning: {warning}")
    return configuration


def _ask_for(wanted: Input) -> str | None:
    """Prompt for an input that the file declares; a secret is not echoed."""
    text = one_line(wanted.description) or wanted.key
    hides = wanted.is_secret
    with nullcontext() if hides else interruptible_question():  # Click itself ends the line of a secret
        return click.prompt(text, default=wanted.default, hide_input=hides, show_default=not hides, err=True)


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not name.strip():
        raise click.UsageError("--header must look like 'Authorization: Bearer abc'")
    return name.strip(), value.strip()
