"""Servers and their states as a table for people."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

from tools_search_server.base.redaction import printable

_WIDTH_OF_A_FILE: Final = 200
_COLUMNS: Final = ("server", "state", "since", "tools", "protocol", "why")
_FOR_WIDE_TERMINALS: Final = {"since", "protocol"}
_WIDE: Final = 90
_STYLES: Final = {"ready": "green", "idle": "cyan", "starting": "yellow", "down": "red"}


def print_servers(servers: Sequence[Mapping[str, Any]]) -> None:
    """Print the `servers` of a health document to standard output."""
    # Only this prints tables, and importing what draws them takes a tenth of the time in which a server starts.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(width=None if sys.stdout.isatty() else _WIDTH_OF_A_FILE)
    shown = [name for name in _COLUMNS if console.width >= _WIDE or name not in _FOR_WIDE_TERMINALS]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in shown:
        table.add_column(name, overflow="fold", no_wrap=name != "why", justify="right" if name == "tools" else "left")
    for server in servers:
        state = str(server.get("state", ""))
        cells = (
            server.get("name", ""), state, str(server.get("since", ""))[:19].replace("T", " "),
            _count(server), server.get("protocol") or "", server.get("reason", ""),
        )  # fmt: skip
        styles = {"state": _STYLES.get(state, "")}
        row: dict[str, Any] = dict(zip(_COLUMNS, cells, strict=True))
        table.add_row(*(Text(printable(str(row[name])), styles.get(name, "")) for name in shown))
    with console.capture() as drawn:
        console.print(table)
    for line in drawn.get().splitlines():
        click.echo(line.rstrip())


def _count(server: Mapping[str, Any]) -> Any:
    """Return how many tools a server has; of those that are not indexed here it may not tell."""
    return "many" if server.get("tools", "") is None else server.get("tools", "")
