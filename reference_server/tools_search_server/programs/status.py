"""Shows operators the state of a gateway: `status` for a running one, `--check` for a configuration."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

import anyio
import click
from tools_search_hosts.counts import number_of
from tools_search_hosts.json_values import is_list, is_object
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.programs.database import show_catalogs

if TYPE_CHECKING:
    from tools_search_server.compat.always_available import AlwaysAvailable
    from tools_search_server.gateway.gateway import Gateway

TOKEN_VARIABLE: Final = "TOOLS_SEARCH_TOKEN"  # noqa: S105 - a name

_SECONDS: Final = 10
_UNAUTHORIZED: Final = 401

_TABLE_WIDTH: Final = 200
_TEXT_WIDTH: Final = 100
"""Columns when standard output is not a terminal."""

_MAX_NAMES: Final = 100
"""Maximum names of a server's tools that `--check` prints. With `--json` it prints all."""

_COLUMNS: Final = ("server", "state", "since", "tools", "protocol", "why")
_FOR_WIDE_TERMINALS: Final = {"since", "protocol"}
_WIDE: Final = 90
_STYLES: Final = {"ready": "green", "idle": "cyan", "starting": "yellow", "down": "red"}

_EPILOG: Final = """\b
Examples:
  tools-search-server status
  tools-search-server status --url http://127.0.0.1:9000/mcp --token-file token.txt --json"""


@click.command(epilog=_EPILOG, short_help="Show the servers of a running gateway, or the catalogs in a database.")
@click.option("--url", default="http://127.0.0.1:8000/mcp", show_default=True, help="URL that the gateway printed.")
@click.option("--token-file", type=click.Path(path_type=Path), metavar="FILE",
              help=f"File with a bearer token, if the gateway has principals; default: {TOKEN_VARIABLE}.")  # fmt: skip
@click.option("--database", metavar="DATABASE", help="Show the catalogs in this database instead.")
@click.option("--json", "as_json", is_flag=True, help="Print the whole health document.")
def status(*, url: str, token_file: Path | None, database: str | None, as_json: bool) -> None:
    """Show the servers of a running gateway: their states, since when (UTC), and why.

    Exit codes: 0 if every server is ready or idle; 1 if one is not, or the gateway does not answer.
    """
    if database is not None:
        sys.exit(0 if show_catalogs(database, as_json=as_json) else 1)
    token = os.environ.get(TOKEN_VARIABLE) or None  # never from the command line, which other local users can see
    if token_file is not None:
        try:
            token = token_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            advice = "Name a file that contains only the token."
            raise click.UsageError(f"{token_file} cannot be read: {error}. {advice}") from None
    from tools_search_server.base.redaction import printable

    health = _asked(url, token)
    if as_json:
        click.echo(json.dumps(health, indent=2))
    else:
        if is_list(servers := health.get("servers")):
            _print_servers(servers)
        else:
            click.echo(
                f"servers are shown only on the gateway's machine or with a token: --token-file or {TOKEN_VARIABLE}",
                err=True,
            )
        if is_object(state := health.get("replication")):
            click.echo(printable(f"list changes to replicas: {state.get('state')} since {state.get('since')}"))
        if is_object(searches := health.get("searches")):
            _print_searches(searches)
        for warning in health.get("warnings") or ():
            click.echo(printable(f"warning: {warning}"))
        counts = [f"{health[name]} {name}" for name in ("ready", "idle", "starting", "down") if name in health]
        counts += [number_of(health["tools"], "tool")] if "tools" in health else []
        click.echo(printable(f"{health['status']}: {', '.join(counts)}" if counts else str(health["status"])))
    sys.exit(0 if health["status"] == "ok" else 1)


async def check(gateway: Gateway, always: AlwaysAvailable, as_json: bool = False) -> bool:
    """Start every server, print its features, and stop them all.

    Returns:
        Whether all servers and their lists can be used, and all always-available tools exist.
    """
    from tools_search_server.gateway.views import Views
    from tools_search_server.programs.health import gateway_health, lost_by_toolsets
    from tools_search_server.programs.serving import ignore_signals, stop_on_signal
    from tools_search_server.upstreams import stderr_log
    from tools_search_server.upstreams.listing import ITEM_KINDS

    stop = anyio.Event()

    async def read() -> None:
        for upstream in gateway.upstreams:
            await upstream.settled.wait()
        async with anyio.create_task_group() as lists:
            for upstream in gateway.upstreams:
                if upstream.lists is not None:
                    for kind in ITEM_KINDS:
                        lists.start_soon(upstream.lists.entries, kind)
        stop.set()

    health: Mapping[str, Any] = {}
    document: dict[str, Any] = {}
    output = _LastOutput()
    stderr_log.logger.addHandler(output)
    # An interrupted check shows what is known so far, and leaves no process behind.
    stop_on_signal(stop)
    async with gateway.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        await stop.wait()
        health = gateway_health(gateway)
        views = Views(gateway)
        unknown = always.unknown(gateway.tools)
        states = zip(health["servers"], gateway.upstreams, strict=True)
        document = {
            "ok": health["status"] == "ok" and not unknown and not any(state["reason"] for state in health["servers"]),
            "servers": [
                {
                    **state,
                    "tools": [*upstream.tools],
                    "features": upstream.greeting.features,
                    "lastOutput": output.of.get(upstream.name) if state["reason"] else None,
                }
                for state, upstream in states
            ],
            "unknownAlwaysAvailable": unknown,
            "notes": [*always.left_out(views.of(EVERYTHING)), *lost_by_toolsets(views, gateway.access.toolsets)],
        }
        tasks.cancel_scope.cancel()
    ignore_signals()
    stderr_log.logger.removeHandler(output)
    if as_json:
        click.echo(json.dumps(document, indent=2))
    else:
        _print_servers(health["servers"])
        _print_offers(document)
    return document["ok"]


class _LastOutput(logging.Handler):
    """Keeps the last line that each server wrote to standard error, as it is logged: with secrets masked.

    What the runtimes of servers print after an error (its stack, details, their version) is no last line.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.of: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        server = str(record.__dict__.get("server"))
        said = record.getMessage().removeprefix(f"{server}: ")
        if not (server in self.of and _AFTER_ERRORS.match(said)):
            self.of[server] = said


_AFTER_ERRORS: Final = re.compile(r"\s|[\]}]|Node\.js v")
"""How lines after an error begin."""


_NOUNS: Final = {"resourceTemplates": "resource templates"}


def _print_searches(searches: Mapping[str, Any]) -> None:
    from tools_search_server.base.redaction import printable

    followed = f"{searches['called']} led to a call, {searches['notCalled']} did not"
    click.echo(f"searches since {searches['since']}: {searches['nothing']} found nothing, {followed}")
    for member, counts in searches.get("others", {}).items():
        found = f"{counts['nothing']} found nothing, {counts['found']} found something"
        click.echo(f"searches for {_NOUNS.get(member, member)}: {found}")
    for query in searches.get("queries", ()):
        outcome = "found nothing" if query["outcome"] == "nothing" else "no call"
        searched = query.get("searched", "tools")
        what = "" if searched == "tools" else f" among {_NOUNS.get(searched, searched)}"
        click.echo(printable(f"  {outcome}{what}, {number_of(query['count'], 'time')}: {query['query']}"))


def _print_offers(document: Mapping[str, Any]) -> None:
    from tools_search_server.base.redaction import printable

    width = get_terminal_size().columns if sys.stdout.isatty() else _TEXT_WIDTH
    wrapper = textwrap.TextWrapper(
        width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False, break_long_words=False
    )
    for server in document["servers"]:
        said = [server["lastOutput"]] if server["lastOutput"] else []
        tools = server["tools"][:_MAX_NAMES]
        if len(tools) < len(server["tools"]):
            tools.append(f"and {len(server['tools']) - _MAX_NAMES} more")
        if tools or server["features"] or said:
            click.echo(f"\n{printable(server['name'])}")
        for what, listed in (("tools", tools), ("also", server["features"]), ("last output", said)):
            if listed:
                click.echo(wrapper.fill(printable(f"{what}: {', '.join(listed)}")))
    for name in document["unknownAlwaysAvailable"]:
        click.echo(f"\n`always_available` names {printable(repr(name))}, but no tool has that name")
    for note in document["notes"]:
        click.echo(f"\n{printable(note)}")


def _asked(url: str, token: str | None) -> dict[str, Any]:
    import httpx2

    from tools_search_server.programs.health import HEALTH_PATH

    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    try:
        # Ignore the environment's proxies, which httpx would use even for loopback.
        answer = httpx2.get(urljoin(url, HEALTH_PATH), headers=headers, timeout=_SECONDS, trust_env=False)
    except (httpx2.InvalidURL, httpx2.UnsupportedProtocol, ValueError):
        raise click.UsageError(f"{url!r} is not a URL. Write for example http://127.0.0.1:8000/mcp.") from None
    except httpx2.HTTPError as error:
        reason = f"{error}" or type(error).__name__
        raise click.ClickException(f"no gateway answers at {url}: {reason}. Was it started with --http?") from None
    if answer.status_code == _UNAUTHORIZED:
        raise click.ClickException(f"the gateway at {url} does not accept this token.")
    try:
        health = answer.json() if answer.is_success else None
    except ValueError:
        health = None
    if not is_object(health) or "status" not in health:
        raise click.ClickException(f"the server at {url} is not a tools-search gateway (HTTP {answer.status_code}).")
    return health


def _print_servers(servers: Sequence[Mapping[str, Any]]) -> None:
    """Print the `servers` of a health document to standard output."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from tools_search_server.base.redaction import printable

    console = Console(width=None if sys.stdout.isatty() else _TABLE_WIDTH)
    shown = [name for name in _COLUMNS if console.width >= _WIDE or name not in _FOR_WIDE_TERMINALS]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(name, overflow="fold", no_wrap=name != "why", justify="right" if name == "tools" else "left")
    for server in servers:
        state = str(server.get("state", ""))
        cells = (
            server.get("name", ""), state, str(server.get("since", ""))[:19].replace("T", " "),
            "many" if server.get("tools", "") is None else server.get("tools", ""),
            server.get("protocol") or "", server.get("reason", ""),
        )  # fmt: skip
        styles = {"state": _STYLES.get(state, "")}
        row: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
        table.add_row(*(Text(printable(str(row[name])), styles.get(name, "")) for name in shown))
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        click.echo(line.rstrip())
