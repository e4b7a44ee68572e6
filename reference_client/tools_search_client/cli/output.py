"""Output of the commands: tables on a terminal, plain lines into a pipe, JSON for programs; exit codes and help pages.

Every cell is text, never markup: servers do not decide what is bold, where a link leads or where the cursor goes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

import click
from mcp_types import Prompt, Resource, ResourceTemplate, TextContent, TextResourceContents, Tool
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from tools_search_client.found import FoundItem, FoundTool, ServerReport
from tools_search_client.remedies import with_remedy
from tools_search_client.text import one_line, printable, shorten

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCOMPLETE: Final = 3
EXIT_SIGNAL: Final = 128
"""Added to the number of the signal that ended the program."""

HOW_TO_ALLOW: Final = "add --yes to call it, or name it in `alwaysAllow` of its server in the configuration"

_EXIT_CODES: Final = """\b
Exit codes:
  0  answered, even if some servers failed (they are reported)
  1  every server failed, or the called tool did
  2  usage error: options, configuration, unknown tool, no consent to a call
  3  nothing was found, but some servers failed and might have had it
  128 and more  ended by a signal: 130 is Ctrl-C, 141 a closed pipe"""

_SHORT_SECONDS: Final = 2
_REFRESH_SECONDS: Final = 0.25
_NOTE_SECONDS: Final = 10
"""Between two lines of progress where there is no terminal."""

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object instead.")


def epilog(*examples: str, exit_codes: str = _EXIT_CODES) -> str:
    """Return the end of a command's help: examples, each without the program's name, and its exit codes."""
    lines = "\n".join(f"  tools-search-client {example}" for example in examples)
    return f"\b\nExamples:\n{lines}\n\n{exit_codes}"


def print_json(value: Any) -> None:
    """Print one JSON value on standard output, in ASCII: every character that a terminal would obey is escaped."""
    click.echo(json.dumps(value, indent=2))


def model_json(value: BaseModel) -> dict[str, Any]:
    """Return what a server stated as `--json` prints it: complete, nothing in it shortened or cleaned."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def tool_json(tool: FoundTool) -> dict[str, Any]:
    """Return a tool as `--json` prints it."""
    return {"name": tool.name, "server": tool.server, "tool": model_json(tool.tool)}


def hit_json(found: FoundTool | FoundItem[Any]) -> dict[str, Any]:
    """Return as `--json` prints it how something was found and ranked."""
    hit = found.hit
    ranks = {"foundBy": found.mode, "weight": round(found.weight, 6), "ownRank": found.own_rank}
    return ranks | {"score": hit.score, "matched": hit.matched, "group": hit.group}


def print_content(content: BaseModel) -> None:
    """Print a part of what a server returned: a text as it is, anything else as JSON."""
    if isinstance(content, TextContent | TextResourceContents):
        click.echo(printable(content.text))
    else:
        print_json(model_json(content))


def purpose(item: Tool | Prompt | Resource | ResourceTemplate) -> str:
    """Return what a server says of something that it offers."""
    return item.description or item.title or ""


def report_json(report: ServerReport) -> dict[str, Any]:
    """Return how a server did as `--json` prints it."""
    return {to_camel(name): value for name, value in asdict(report).items()}


def servers_json(reports: Sequence[ServerReport]) -> dict[str, Any]:
    """Return the member of an answer of many servers that says how each did."""
    return {"servers": list(map(report_json, reports))}


def print_note(text: str) -> None:
    """Print a remark on standard error, where it does not get into a pipe."""
    click.echo(one_line(text), err=True)


def note_nothing_found(reports: Sequence[ServerReport], noun: str) -> None:
    """Print that nothing fits, unless no server was there to say so, on standard error."""
    if any(report.failure is None for report in reports):
        print_note(f"No {noun} fits. Other words may find one: an empty answer is no proof that there is none.")


def note_fallbacks(reports: Sequence[ServerReport]) -> None:
    """Print which servers were listed although they offer to be searched, on standard error."""
    for report in reports:
        if report.fallback:
            print_note(f"{report.server or 'the server'}: listed instead of searched, since {report.fallback}")


def note_troubles(reports: Sequence[ServerReport], noun: str = "tool") -> None:
    """Print which servers failed, and how many tools or others are left out of the rest, on standard error."""
    for report in reports:
        name = report.server or "the server"
        if report.failure is not None:
            print_note(f"{name} failed: {with_remedy(report.failure)}")
        if report.left_out == 1:
            print_note(f"{name}: one {noun} is left out, since its definition is invalid")
        elif report.left_out:
            print_note(f"{name}: {report.left_out} {noun}s are left out, since their definitions are invalid")


def exit_code(reports: Sequence[ServerReport], *, found: bool) -> int:
    """Return the exit code for a question that went to many servers."""
    failed = [report for report in reports if report.failure is not None]
    if failed and len(failed) == len(reports):
        return EXIT_FAILED
    return EXIT_INCOMPLETE if failed and not found else EXIT_OK


@contextmanager
def waiting(text: str) -> Generator[None]:
    """Show on a terminal that something takes its time; show nothing elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(Text(text)):
        yield


@contextmanager
def working(text: str) -> Generator[Callable[[str], None]]:
    """Show what takes more than two seconds, for how long, and how far it is, on standard error.

    A terminal has one line of it, kept up to date; elsewhere a line is written now and then. The block gets a function
    that takes note of how far the work is.
    """
    console = Console(stderr=True)
    started, over, progress = monotonic(), Event(), [""]

    def line() -> str:
        return one_line(f"{text}{progress[0] and ': '}{progress[0]} ({monotonic() - started:.0f} s)")

    def follow() -> None:
        if over.wait(_SHORT_SECONDS):
            return
        if console.is_terminal:
            with console.status(Text(line())) as status:
                while not over.wait(_REFRESH_SECONDS):
                    status.update(Text(line()))
            return
        print_note(f"   … {line()}")
        while not over.wait(_NOTE_SECONDS):
            print_note(f"   … {line()}")

    thread = Thread(target=follow)
    thread.start()
    try:
        yield lambda how_far: progress.__setitem__(0, how_far)
    finally:
        over.set()
        thread.join()


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], details: Sequence[str] | None = None) -> None:
    """Print rows on standard output: aligned on a terminal, separated by tabs elsewhere.

    The `details` describe a row each: on a line below it on a terminal, last in its line elsewhere.
    """
    if not sys.stdout.isatty():
        lines = [headings, *rows] if details is None else [(*headings, "description")]
        lines += [] if details is None else [(*row, detail) for row, detail in zip(rows, details, strict=True)]
        for line in lines:
            click.echo("\t".join(map(one_line, line)))
        return
    console = Console(highlight=False)
    table = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    widths = [max(map(cell_len, column)) for column in zip(*table, strict=True)]
    for row, detail in zip(table, ["", *(details or [""] * len(rows))], strict=True):
        line = "  ".join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        console.print(Text(line, style="bold" if row is table[0] else ""), no_wrap=True, overflow="ellipsis")
        if detail:
            console.print(Text("    " + shorten(detail, max(1, console.width - 4)), style="dim"))
