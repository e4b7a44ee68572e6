"""Command output: tables on a terminal, plain lines in a pipe, JSON for programs; exit codes and help epilogs.

Every cell is plain text, never markup, so servers cannot set styles, add links or move the cursor.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from itertools import pairwise
from threading import Event, Thread
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import click
from pydantic import BaseModel
from pydantic.alias_generators import to_camel
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

from tools_search_client.remedies import with_remedy
from tools_search_client.text import one_line, printable, printable_json

if TYPE_CHECKING:
    from mcp_types import Prompt, Resource, ResourceTemplate, Tool

    from tools_search_client.found import FoundItem, NamedItem, ServerReport

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INCOMPLETE: Final = 3

HOW_TO_ALLOW: Final = "pass --yes to call it, or add it to its server's `alwaysAllow` list in the configuration"

_EXIT_CODES: Final = """\b
Exit codes:
  0  success, even if some servers failed (they are reported)
  1  every server failed, or the called tool failed
  2  usage error: bad options, bad configuration, unknown tool, refused call
  3  nothing found, but servers that failed might have had a match
  128 and up  ended by a signal: 130 is Ctrl-C, 141 a closed pipe"""

_HELP_WIDTH: Final = 78
"""Width of a help text without Click's indentation, in a terminal of 80 columns."""

_GAP: Final = "  "
_INDENT: Final = "    "

_BESIDE: Final = len("⠋ ") + len("^C")
"""What is on the line of a spinner's text: the spinner, and what a terminal adds when the user interrupts. If that
continued on the next line, the text would stay.
"""

_SHORT_SECONDS: Final = 2
_NOTE_SECONDS: Final = 10
"""Interval between progress lines when there is no terminal."""

as_json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead.")


def epilog(*examples: str, exit_codes: str = _EXIT_CODES) -> str:
    """Return a help epilog: the examples, given without the program's name, and the exit codes."""
    lines = "\n".join(map(_example_line, examples))
    return f"\b\nExamples:\n{lines}\n\n{exit_codes}"


def _example_line(example: str) -> str:
    """Return a command line, continued before an option if it does not fit: Click does not break these lines."""
    line = f"  tools-search-client {example}"
    if len(line) <= _HELP_WIDTH:
        return line
    end = line.rindex(" --", 0, _HELP_WIDTH - len(" \\"))
    return f"{line[:end]} \\\n     {line[end:]}"


def print_json(value: Any) -> None:
    """Print a JSON value on standard output, in ASCII, so that every terminal control character is escaped."""
    click.echo(json.dumps(value, indent=2))


def model_json(value: BaseModel) -> dict[str, Any]:
    """Return the complete form that `--json` prints: nothing is shortened or sanitized."""
    return value.model_dump(by_alias=True, mode="json", exclude_none=True)


def item_json(kind: str, found: NamedItem[Any]) -> dict[str, Any]:
    """Return a tool or another item in the form that `--json` prints: its definition is under the name of its kind."""
    return {"name": found.name, "server": found.server, kind: model_json(found.item)}


def hit_json(found: FoundItem[Any]) -> dict[str, Any]:
    """Return how an item was found and ranked, in the form that `--json` prints."""
    hit = found.hit
    ranks = {"foundBy": found.mode, "weight": round(found.weight, 6), "ownRank": found.own_rank}
    return ranks | {"score": hit.score, "matched": hit.matched, "group": hit.group}


def print_content(content: BaseModel) -> None:
    """Print one content block: text as is, anything else as JSON. On a terminal, only the size of a file is shown."""
    from mcp_types import TextContent, TextResourceContents

    if isinstance(content, TextContent | TextResourceContents):
        click.echo(printable(content.text))
        return
    shown = model_json(content)
    for part in (shown, shown.get("resource", {})) if sys.stdout.isatty() else ():
        for member in part.keys() & {"data", "blob"}:
            part[member] = f"{len(part[member]):,} characters of base64, which --json prints"
    click.echo(printable_json(shown, indent=2))


def purpose(item: Tool | Prompt | Resource | ResourceTemplate) -> str:
    """Return an item's description, or else its title."""
    return item.description or item.title or ""


def report_json(report: ServerReport) -> dict[str, Any]:
    """Return the form of a server's report that `--json` prints."""
    return camel_names(asdict(report))


def camel_names(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return members under their names in `--json`. Names inside them stay, because they may be a server's."""
    return {to_camel(name): value for name, value in members.items()}


def servers_json(reports: Sequence[ServerReport]) -> dict[str, Any]:
    """Return the `servers` member, with each server's report."""
    return {"servers": list(map(report_json, reports))}


def print_note(text: str) -> None:
    """Print a note on standard error, to keep it out of pipes."""
    print_error(one_line(text))


def print_error(text: str) -> None:
    """Print printable text on standard error. A terminal breaks its lines between words."""
    console = Console(stderr=True)
    if console.is_terminal:
        console.print(Text(text))
    else:
        click.echo(text, err=True)


def note_nothing_found(reports: Sequence[ServerReport], noun: str) -> None:
    """Print on standard error that nothing matched, unless every server failed."""
    if any(report.failure is None for report in reports):
        print_note(f"No {noun} found. Try other words: an empty result does not mean that there is none.")


def note_fallbacks(reports: Sequence[ServerReport]) -> None:
    """Print on standard error which servers were listed although they support search."""
    for report in reports:
        if report.fallback:
            print_note(f"{report.server or 'the server'}: listed instead of searched, because {report.fallback}")


def note_troubles(reports: Sequence[ServerReport], noun: str = "tool") -> None:
    """Print on standard error which servers failed, and how many items were left out of the others."""
    for report in reports:
        name = report.server or "the server"
        if report.failure is not None:
            print_note(f"{name} failed: {with_remedy(report.failure)}")
        if report.left_out == 1:
            print_note(f"{name}: one {noun} is left out because its definition is invalid or repeats a name")
        elif report.left_out:
            reason = "their definitions are invalid or repeat a name"
            print_note(f"{name}: {report.left_out} {noun}s are left out because {reason}")


def exit_code(reports: Sequence[ServerReport], *, found: bool) -> int:
    """Return the exit code for a request that went to several servers."""
    failed = [report for report in reports if report.failure is not None]
    if failed and len(failed) == len(reports) and not any(report.hits for report in failed):
        return EXIT_FAILED
    return EXIT_INCOMPLETE if failed and not found else EXIT_OK


@contextmanager
def waiting(text: str) -> Generator[Callable[[str], None]]:
    """Show a spinner on a terminal while the block runs, elsewhere nothing. The block gets a function for new texts.

    If it takes more than two seconds, the spinner shows how long.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    shown = Waiting(text)
    with console.status(shown):
        yield shown.update


class Waiting:
    """A spinner's text, with the seconds that have passed; Rich renders it several times a second."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._started = monotonic()

    def update(self, news: str) -> None:
        """Show another text from now on."""
        self._text = one_line(news)

    @property
    def _duration(self) -> str:
        seconds = monotonic() - self._started
        return f" ({seconds:.0f} s)" if seconds > _SHORT_SECONDS else ""

    def __str__(self) -> str:
        return self._text + self._duration

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the width of its text, so that Rich does not fill the line with blanks."""
        return Measurement.get(console, options, self._line(options.max_width - _BESIDE))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render one line of any message: several would scroll away what was there before."""
        yield self._line(options.max_width)

    def _line(self, width: int) -> Text:
        text, duration = Text(self._text, no_wrap=True), self._duration
        text.truncate(max(1, width - len(duration)), overflow="ellipsis")
        return text + duration


@contextmanager
def working(text: str) -> Generator[Callable[[str], None]]:
    """Report work that takes more than two seconds on standard error, with its duration and progress.

    A terminal shows one live line; elsewhere, a line is written every ten seconds. The block gets a function that
    updates the progress text.
    """
    console, shown, over = Console(stderr=True), Waiting(text), Event()

    def follow() -> None:
        if over.wait(_SHORT_SECONDS):
            return
        if console.is_terminal:
            with console.status(shown):
                over.wait()
        while not over.is_set():
            print_note(f"   … {shown}")
            over.wait(_NOTE_SECONDS)

    thread = Thread(target=follow)
    thread.start()
    try:
        yield lambda news: shown.update(f"{text}: {news}" if news else text)
    finally:
        over.set()
        thread.join()


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    details: Sequence[str] | None = None,
    *,
    wraps: bool = False,
) -> None:
    """Print rows on standard output: aligned on a terminal, separated by tabs elsewhere.

    In a terminal that is too narrow for a row, its last columns are on further lines: only those of rows with a long
    cell if most rows fit. No cell is shortened, because names are there to be copied. Each of the `details` describes
    a row: below it on a terminal, on one line that is shortened to fit unless it `wraps`, and as the last column
    elsewhere.
    """
    if not sys.stdout.isatty():
        lines = [headings, *rows]
        if details is not None:
            lines = [(*row, detail) for row, detail in zip(lines, ["description", *details], strict=True)]
        for line in lines:
            click.echo("\t".join(map(one_line, line)))
        return
    console = Console(highlight=False)
    table = [[one_line(cell) for cell in row] for row in (headings, *rows)]
    widths = _column_widths(table, console.width)
    starts = _line_starts(widths, console.width)
    for row, detail in zip(table, ["", *(details or [""] * len(rows))], strict=True):
        for line in _row_lines(row, widths, starts):
            console.print(Text(line, style="bold" if row is table[0] else ""), soft_wrap=True)
        if detail:
            text = Text(one_line(detail), style="dim")
            room = max(2, console.width - len(_INDENT))  # for a wide character in the narrowest terminal
            for part in text.wrap(console, room) if wraps else [text]:
                overflow = "ignore" if wraps else "ellipsis"
                console.print(Text(_INDENT) + part, no_wrap=True, overflow=overflow, crop=not wraps)


def print_listing(
    noun: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    details: Sequence[str],
    reports: Sequence[ServerReport],
) -> None:
    """Print the items of all servers as a table, or say that there are none; then say which servers failed."""
    if rows:
        print_table(headings, rows, details)
    elif any(report.failure is None for report in reports):
        print_note(f"No server that answered has {noun}s to show.")
    note_troubles(reports, noun)


def _column_widths(table: Sequence[Sequence[str]], available: int) -> list[int]:
    """Return the widths of columns; the widest is narrower than its longest cells if most rows fit a line then."""
    lengths = [sorted(map(cell_len, column)) for column in zip(*table, strict=True)]
    widths = [column[-1] for column in lengths]
    widest = widths.index(max(widths))
    room = widths[widest] + available - sum(widths) - len(_GAP) * (len(widths) - 1)
    if lengths[widest][len(table) // 2] <= room < widths[widest]:
        widths[widest] = max(length for length in lengths[widest] if length <= room)
    return widths


def _line_starts(widths: Sequence[int], available: int) -> list[int]:
    """Return the columns with which the lines of a row begin, so that lines fit if their columns do."""
    starts, end = [0], -len(_GAP)
    for column, width in enumerate(widths):
        begin = end + len(_GAP)
        if begin + width > available and begin > len(_INDENT):  # a new line would otherwise give it no more room
            starts.append(column)
            begin = len(_INDENT)
        end = begin + width
    return starts


def _row_lines(row: Sequence[str], widths: Sequence[int], starts: Sequence[int]) -> Generator[str]:
    """Yield the lines of a row, a new one at each of the columns `starts` and after each cell that is too long."""
    for start, stop in pairwise([*starts, len(row)]):
        line = _INDENT if start else ""
        end = len(line)
        for cell, width in zip(row[start:stop], widths[start:stop], strict=True):
            if line.strip() and cell_len(line) > end - len(_GAP):
                yield line
                line = ""
            line = set_cell_size(line, end) + cell
            end += width + len(_GAP)
        if line.strip():
            yield line.rstrip()
