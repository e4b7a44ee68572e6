"""`Target`: the servers that a command works with, and the options that choose them."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from tools_search_hosts import Input, writers_warning
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, default_ranker

from tools_search_client.cli.output import print_note, waiting
from tools_search_client.cli.running import run_until_signal
from tools_search_client.federation.configuration import Configuration, command_server, load_configuration, url_server
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.servers.connection import ConnectionOptions, Negotiation
from tools_search_client.servers.discovery import CALL_SECONDS
from tools_search_client.text import one_line

T = TypeVar("T")
Command = TypeVar("Command", bound=Callable[..., Any])

_SECONDS = click.FloatRange(min=0, min_open=True)


@dataclass(frozen=True, slots=True)
class Target:
    """The servers of a command, and the options for connections to them."""

    configuration: Configuration
    options: FederationOptions

    @property
    def timeout(self) -> float:
        """Seconds to wait for the slowest server."""
        return self.options.connect_timeout

    def ask(self, question: Callable[[Federation], Awaitable[T]]) -> T:
        """Return the answer of the open servers, and show on a terminal that they are asked.

        Raises:
            InterruptionError: A signal came first.
        """

        async def run() -> T:
            async with open_federation(self.configuration, self.options) as servers:
                return await question(servers)

        with waiting("asking the servers …"):
            return run_until_signal(run)

    def with_call_timeout(self, seconds: float, *, follow_changes: bool = False) -> Target:
        """Return a target whose tools are given up after `seconds` without a report of progress.

        Args:
            seconds: The time.
            follow_changes: Whether servers are asked to report changes of their tools.
        """
        discovery = replace(self.options.connection.discovery, call_timeout=seconds)
        connection = replace(self.options.connection, discovery=discovery, follow_changes=follow_changes)
        return replace(self, options=replace(self.options, connection=connection))

    def with_least_confidence(self, least_confidence: float | None) -> Target:
        """Return a target with another `least_confidence` than the configuration states, where one is given."""
        tool_discovery = self.configuration.tool_discovery
        if least_confidence is not None:
            tool_discovery = replace(tool_discovery, least_confidence=least_confidence)
        ranker = default_ranker(tool_discovery.least_confidence)
        connection = self.options.connection
        connection = replace(connection, discovery=replace(connection.discovery, ranker=ranker))
        configuration = replace(self.configuration, tool_discovery=tool_discovery)
        return Target(configuration, replace(self.options, connection=connection))


call_timeout_option = click.option(
    "--call-timeout",
    type=_SECONDS,
    default=CALL_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long a tool may run without reporting progress.",
)

least_confidence_option = click.option(
    "--least-confidence",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Where this client ranks, leave out tools that are less likely to fit than this. Default: "
    f"`tool_discovery` of the configuration, or {DEFAULT_LEAST_CONFIDENCE}.",
)

_SERVER_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="Servers of a host: a JSON file with `mcpServers` (or `servers`).",
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
        help="A header of every request to --url; may be repeated.",
    ),
    click.option(
        "--timeout",
        type=_SECONDS,
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the slowest server.",
    ),
    click.option(
        "--era",
        type=click.Choice(["auto", "legacy"]),
        default="auto",
        show_default=True,
        help="auto: the newest protocol that each server supports; legacy: the handshake of 2025 and earlier.",
    ),
    click.option("--verbose", is_flag=True, help="Show the protocol library's log on standard error."),
]


def server_options(command: Command) -> Command:
    """Add the options that choose servers; the command gets them as one argument `target`."""

    @wraps(command)
    def with_target(
        *,
        url: str | None,
        command_line: str | None,
        config: Path | None,
        headers: tuple[str, ...],
        timeout: float,
        era: Negotiation,
        verbose: bool,
        **others: Any,
    ) -> Any:
        # The protocol library's own remarks stay off the terminal: failures are reported by this program.
        handler: logging.Handler = logging.StreamHandler() if verbose else logging.NullHandler()
        logging.basicConfig(level=logging.DEBUG if verbose else logging.CRITICAL, handlers=[handler])
        # A command is over before a subscription could report anything.
        connection = ConnectionOptions(negotiation=era, follow_changes=False)
        options = FederationOptions(connection=connection, connect_timeout=timeout)
        target = Target(_configuration(url, command_line, config, headers), options)
        return command(target=target.with_least_confidence(None), **others)

    decorated: Any = with_target
    for option in reversed(_SERVER_OPTIONS):
        decorated = option(decorated)
    return cast("Command", decorated)


def _configuration(
    url: str | None, command_line: str | None, config: Path | None, headers: tuple[str, ...]
) -> Configuration:
    if sum(given is not None for given in (url, command_line, config)) != 1:
        raise click.UsageError("say which servers: exactly one of --config, --url and --command")
    if headers and url is None:
        raise click.UsageError("--header goes with --url; a configuration file has `headers` per server")
    if url is not None:
        return url_server(url, dict(map(_header, headers)))
    if config is None:
        return command_server(command_line or "")
    can_ask = all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr))  # a closed stream is `None`
    configuration = load_configuration(config, ask=_ask_for if can_ask else None)
    if warning := writers_warning(config):
        print_note(f"Warning: {warning}")
    return configuration


def _ask_for(wanted: Input) -> str | None:
    """Ask for an input of the file, as an editor would; a secret is not shown."""
    text = one_line(wanted.description) or wanted.key
    hides = wanted.is_secret
    return click.prompt(text, default=wanted.default, hide_input=hides, show_default=not hides, err=True)


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not name.strip():
        raise click.UsageError("--header must be like 'Authorization: Bearer abc'")
    return name.strip(), value.strip()
