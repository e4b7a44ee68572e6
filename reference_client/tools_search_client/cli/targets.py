"""Options by which every command is told which servers it is about."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from tools_search_hosts import Input, writers_warning
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, default_ranker

from tools_search_client.cli.screen import print_note
from tools_search_client.federation.configuration import Configuration, command_server, load_configuration, url_server
from tools_search_client.federation.federation import FederationOptions
from tools_search_client.servers.connection import ConnectionOptions, Negotiation
from tools_search_client.servers.discovery import CALL_SECONDS, DiscoveryOptions
from tools_search_client.text import one_line

__all__ = ["Target", "call_timeout_option", "least_confidence_option", "server_options"]

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Target:
    """Which servers a command is about, and how they are spoken to."""

    configuration: Configuration
    options: FederationOptions
    timeout: float
    """Seconds to wait for the slowest server."""

    def options_for_calls(self, seconds: float) -> FederationOptions:
        """Return the options under which a called tool is given up after `seconds`."""
        return self._with(replace(self.options.connection.discovery, call_timeout=seconds)).options

    def finding_nothing_below(self, least_confidence: float | None) -> Target:
        """Return the same with another `least_confidence` than the configuration states, where one is given."""
        stated = self.configuration.tool_discovery
        discovery = stated if least_confidence is None else replace(stated, least_confidence=least_confidence)
        ranker = default_ranker(discovery.least_confidence)
        target = self._with(replace(self.options.connection.discovery, ranker=ranker))
        return replace(target, configuration=replace(self.configuration, tool_discovery=discovery))

    def _with(self, discovery: DiscoveryOptions) -> Target:
        connection = replace(self.options.connection, discovery=discovery)
        return replace(self, options=replace(self.options, connection=connection))


call_timeout_option = click.option(
    "--call-timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=CALL_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the tool itself may take without a report of its progress.",
)
"""The option of the commands that call tools, given to them as `call_timeout`."""


least_confidence_option = click.option(
    "--least-confidence",
    type=click.FloatRange(0, 1),
    metavar="SHARE",
    help="Find nothing where a tool fits less likely, when tools are ranked here; else as `tool_discovery` of the "
    f"configuration says, or {DEFAULT_LEAST_CONFIDENCE}.",
)
"""The option of the commands that rank, given to them as `least_confidence`."""


def server_options(command: Command) -> Command:
    """Add the options that choose servers; the command gets them as one argument `target`."""

    @wraps(command)
    def wrapped(**arguments: Any) -> Any:
        names = ("url", "command_line", "config", "headers", "timeout", "era", "verbose")
        chosen = {name: arguments.pop(name) for name in names}
        return command(target=_target(**chosen), **arguments)

    decorated: Any = wrapped
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return cast("Command", decorated)


_OPTIONS: list[Callable[[Any], Any]] = [
    click.option(
        "--config",
        type=click.Path(path_type=Path, dir_okay=False),
        metavar="FILE",
        help="The servers of a host: a JSON file with `mcpServers` (or `servers`).",
    ),
    click.option("--url", metavar="URL", help="One server, reached over Streamable HTTP."),
    click.option(
        "--command",
        "command_line",
        metavar='"PROGRAM ARG…"',
        help="One server, started as a process (no shell) and spoken to over stdio.",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        metavar='"NAME: VALUE"',
        help="Sent with every request to --url; may be repeated.",
    ),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=30.0,
        show_default=True,
        metavar="SECONDS",
        help="How long to wait for the slowest server to say what it offers.",
    ),
    click.option(
        "--era",
        type=click.Choice(["auto", "legacy"]),
        default="auto",
        show_default=True,
        help="auto: the newest protocol that each server knows; legacy: the handshake of 2025 and before.",
    ),
    click.option("--verbose", is_flag=True, help="Show what the protocol library logs, on standard error."),
]


def _target(
    *,
    url: str | None,
    command_line: str | None,
    config: Path | None,
    headers: tuple[str, ...],
    timeout: float,
    era: Negotiation,
    verbose: bool,
) -> Target:
    if sum(given is not None for given in (url, command_line, config)) != 1:
        raise click.UsageError("say which servers: exactly one of --config, --url and --command")
    if headers and url is None:
        raise click.UsageError("--header goes with --url; a configuration file has `headers` per server")
    _set_up_logging(verbose=verbose)
    if config is not None:
        can_ask = all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr))  # none where it is closed
        configuration = load_configuration(config, ask=_asked if can_ask else None)
        if warning := writers_warning(config):
            print_note(f"Warning: {warning}")
    elif url is not None:
        configuration = url_server(url, dict(map(_header, headers)))
    else:
        configuration = command_server(command_line or "")
    # A command is over before a subscription would tell it anything.
    connection = ConnectionOptions(negotiation=era, follow_changes=False)
    options = FederationOptions(connection=connection, connect_timeout=timeout)
    return Target(configuration, options, timeout).finding_nothing_below(None)


def _asked(wanted: Input) -> str | None:
    """Ask for what an editor would ask for; what is secret is not shown."""
    text = one_line(wanted.description) or wanted.key
    shows, hides = not wanted.is_secret, wanted.is_secret
    return click.prompt(text, default=wanted.default, hide_input=hides, show_default=shows, err=True)


def _header(text: str) -> tuple[str, str]:
    name, separator, value = text.partition(":")
    if not separator or not name.strip():
        raise click.UsageError("--header must be like 'Authorization: Bearer abc'")
    return name.strip(), value.strip()


def _set_up_logging(*, verbose: bool) -> None:
    """Keep the library's own remarks off the terminal unless they are asked for: failures are reported by us."""
    handler: logging.Handler = logging.StreamHandler() if verbose else logging.NullHandler()
    logging.basicConfig(level=logging.DEBUG if verbose else logging.CRITICAL, handlers=[handler])
