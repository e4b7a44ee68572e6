"""Where answers go: tables on a terminal, plain lines into a pipe, JSON for programs.

Every cell is text, never markup: servers do not decide what is bold, where a link leads or what the cursor does.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from tools_search_client.text import one_line, printable, shorten

__all__ = ["print_json", "print_note", "print_table", "print_text", "waiting", "working"]

Row = Sequence[str]

_SHORT_SECONDS: Final = 2
_REFRESH_SECONDS: Final = 0.25


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    click.echo(json.dumps(value, indent=2))


def print_text(text: str) -> None:
    """Print what a server wrote, line by line, without what a terminal would obey."""
    click.echo(printable(text))


def print_note(text: str) -> None:
    """Print a remark on standard error, where it spoils no pipe."""
    click.echo(one_line(text), err=True)


@contextmanager
def waiting(text: str) -> Generator[None]:
    """Show on a terminal that something takes its time; say nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(text)):
        yield


@contextmanager
def working(text: str, *, every: float = 10) -> Generator[Callable[[str], None]]:
    """Show what takes its time, for how long it does, and how far it is; nothing where it is over within two seconds.

    A terminal has one line of it, kept up to date; elsewhere a line is written now and then. Both on standard error.

    Args:
        text: What it is.
        every: Seconds between two lines where there is no terminal.

    Yields:
        What to call to say how far it is.
    """
    console = Console(stderr=True)
    started, over, far = monotonic(), Event(), [""]

    def line() -> str:
        return one_line(f"{text}{far[0] and ': '}{far[0]} ({monotonic() - started:.0f} s)")

    def follow() -> None:
        if over.wait(_SHORT_SECONDS):
            return
        if not console.is_terminal:
            print_note(f"   … {line()}")
            while not over.wait(every):
                print_note(f"   … {line()}")
            return
        with console.status(Text(line())) as status:
            while not over.wait(_REFRESH_SECONDS):
                status.update(Text(line()))

    thread = Thread(target=follow)
    thread.start()
    try:
        yield lambda how_far: far.__setitem__(0, how_far)
    finally:
        over.set()
        thread.join()


def print_table(headings: Row, rows: Sequence[Row], *, details: Sequence[str] | None = None) -> None:
    """Print rows on standard output: a table on a terminal, tab-separated lines elsewhere.

    Args:
        headings: One per column.
        rows: As many cells each as there are headings.
        details: One text per row that explains it: on a line of its own on a terminal, last in the line elsewhere.
    """
    if sys.stdout.isatty():
        _print_rich(headings, rows, details)
        return
    extra = [""] * len(rows) if details is None else details
    lines = [headings if details is None else (*headings, "description")]
    lines += [row if details is None else (*row, detail) for row, detail in zip(rows, extra, strict=True)]
    for line in lines:
        click.echo("\t".join(one_line(cell) for cell in line))


def _print_rich(headings: Row, rows: Sequence[Row], details: Sequence[str] | None) -> None:
    console = Console(highlight=False)
    cells = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    console.print(Text(_aligned(cells[0], widths), style="bold"), no_wrap=True, overflow="ellipsis")
    for position, row in enumerate(cells[1:]):
        console.print(Text(_aligned(row, widths)), no_wrap=True, overflow="ellipsis")
        if details is not None and details[position]:
            console.print(Text("    " + shorten(details[position], max(1, console.width - 4)), style="dim"))


def _aligned(row: Row, widths: Sequence[int]) -> str:
    return "  ".join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
