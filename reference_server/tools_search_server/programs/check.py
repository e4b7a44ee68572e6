"""`--check`: what each server of a configuration offers, or why it cannot be used."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from shutil import get_terminal_size
from typing import Final

import anyio
import click
from tools_search_hosts.toolsets import EVERYTHING

from tools_search_server.base.redaction import printable
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.views import Views
from tools_search_server.programs.health import Health, gateway_health, lost_by_toolsets
from tools_search_server.programs.serving import ignore_signals, stop_on_signal
from tools_search_server.programs.status import print_servers
from tools_search_server.upstreams.listing import PROMPTS, RESOURCES, TEMPLATES

_WIDTH_OF_A_FILE: Final = 100


async def check(gateway: Gateway, always: AlwaysAvailable, as_json: bool = False) -> bool:
    """Start every server, print what it offers, and stop them all.

    Args:
        gateway: The servers.
        always: The always-available tools of the configuration.
        as_json: Whether to print JSON.

    Returns:
        Whether all servers and their lists can be used, and all always-available tools exist.
    """
    stop = anyio.Event()
    health: Health = {}
    unknown: Sequence[str] = ()
    notes: Sequence[str] = ()
    offered: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
    stop_on_signal(stop)
    async with gateway.running(), anyio.create_task_group() as tasks:
        tasks.start_soon(_set_when_read, gateway, stop)
        await stop.wait()
        health = gateway_health(gateway)
        unknown = always.unknown(gateway.tools)
        views = Views(gateway)
        notes = [*always.left_out(views.of(EVERYTHING)), *lost_by_toolsets(views, gateway.access.toolsets)]
        offered = {upstream.name: (list(upstream.tools), upstream.features) for upstream in gateway.upstreams}
        tasks.cancel_scope.cancel()
    ignore_signals()
    servers = health["servers"]
    is_well = health["status"] == "ok" and not any(server["reason"] for server in servers) and not unknown
    if as_json:
        detailed = [
            server | dict(zip(("tools", "features"), map(list, offered[server["name"]]), strict=True))
            for server in servers
        ]
        document = {"ok": is_well, "servers": detailed, "unknownAlwaysAvailable": list(unknown), "notes": [*notes]}
        click.echo(json.dumps(document, indent=2))
        return is_well
    print_servers(servers)
    for name, (tools, features) in offered.items():
        lines = [f"{what}: {', '.join(listed)}" for what, listed in (("tools", tools), ("also", features)) if listed]
        if lines:
            click.echo(f"\n{printable(name)}")
        for line in lines:
            _print_wrapped(line)
    for name in unknown:
        click.echo(f"\n`always_available` names {printable(repr(name))}, but no tool has that name")
    for note in notes:
        click.echo(f"\n{printable(note)}")
    return is_well


async def _set_when_read(gateway: Gateway, stop: anyio.Event) -> None:
    """Set `stop` when each server has answered or failed, and has listed its prompts and resources too."""
    for upstream in gateway.upstreams:
        await upstream.settled.wait()
    async with anyio.create_task_group() as tasks:
        for upstream in gateway.upstreams:
            if (lists := upstream.lists) is not None:
                for kind in (PROMPTS, RESOURCES, TEMPLATES):
                    tasks.start_soon(lists.entries, kind)
    stop.set()


def _print_wrapped(line: str) -> None:
    width = get_terminal_size().columns if sys.stdout.isatty() else _WIDTH_OF_A_FILE
    shown = textwrap.fill(
        printable(line), width, initial_indent="  ", subsequent_indent="    ",
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
    click.echo(shown)
