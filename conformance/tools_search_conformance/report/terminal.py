"""The report on a terminal: failures first, each with its sentence, its place and the exchange that shows it."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Final

import click

from tools_search_conformance.model import Result, Run, Status, grouped, rule_of
from tools_search_conformance.report.document import report
from tools_search_conformance.report.pages import accounts
from tools_search_conformance.report.render import render
from tools_search_conformance.report.verdict import BASE_HEADING, PROBLEMS, target_text
from tools_search_conformance.run.rows import DRAFT
from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.eras import DECLARED, envelope

_CHARACTERS: Final = 600
_LABEL: Final = re.compile(r" *(?:[a-z ]+? {2,})?")
_COPIED: Final = ("sent ", "answer ", "replay ")
_COLORS: Final[dict[Status, str]] = {
    "fail": "red",
    "error": "magenta",
    "unverified": "yellow",
    "warn": "yellow",
    "advice": "cyan",
}


def show_progress(total: int, *, lines: bool) -> Callable[[Result], None]:
    """Return what shows on standard error which check was just run, and how many of `total` are done.

    With `lines` it writes one for each, which programs and logs can follow. Otherwise one line of a terminal is kept up
    to date, and nothing is written elsewhere.
    """
    done = count(1)

    def show(result: Result) -> None:
        line = f"{next(done)}/{total}  {result.cell.name}  {result.check}"
        if lines:
            click.echo(line, err=True)
        elif sys.stderr.isatty():  # pragma: no cover - tests have no terminal
            click.echo(f"\r\x1b[2K{line}", err=True, nl=False)

    return show


def print_run(run: Run, out: Path) -> None:
    """Print the whole report."""
    if sys.stderr.isatty():  # pragma: no cover - tests have no terminal
        click.echo("\r\x1b[2K", err=True, nl=False)
    document = report(run, out)
    unclaimed = {result.check for result in run.of("skip") if result.skip == "fixture-feature"}
    features = dict.fromkeys(check.fixture_feature for check in run.checks if check.id in unclaimed)
    variables = {name for server in run.target.get("servers", ()) for name in server.get("environment", ())}
    text = render(
        "terminal.txt.jinja",
        document=document,
        sections=accounts(document),
        target=target_text(run.target),
        environment=sorted(variables),
        base_heading=BASE_HEADING,
        unclaimed=unclaimed,
        features=filter(None, features),
        page=str(out / "report.html"),
        draft=DRAFT,
        rule=rule_of,
        folded=_folded,
        style=partial(click.style, bold=True),
        colors=_COLORS,
        json_line=json_line,
        answer_line=answer_line,
        without_routine=without_routine,
    )
    click.echo(fitted(text, get_terminal_size().columns) if sys.stdout.isatty() else text)


def fitted(text: str, width: int) -> str:
    """Return a report with its prose wrapped for a terminal; lines that people copy, such as JSON, stay whole."""
    lines: list[str] = []
    for line in text.split("\n"):
        indent = _LABEL.match(line)
        if len(line) <= width or line.lstrip().startswith(_COPIED) or indent is None:
            lines.append(line)
        else:
            margin = " " * indent.end()
            lines += wrap(line, width, subsequent_indent=margin, break_on_hyphens=False, break_long_words=False)
    return "\n".join(lines)


def _folded(consequences: Iterable[JsonObject]) -> list[str]:
    """Return the rules of consequences as lines, by their status."""
    rules = grouped((each["first"]["status"], rule_of(each["id"])) for each in consequences)
    lines: list[str] = []
    for status, names in sorted(rules.items(), key=lambda entry: PROBLEMS.index(entry[0])):
        head = f"{'':8}{status:10}  "
        lines += wrap(", ".join(names), 100, initial_indent=head, subsequent_indent=" " * 20, break_on_hyphens=False)
    return lines


def json_line(value: object) -> str:
    """Return the beginning of a JSON value, harmless to a terminal."""
    return plain(json.dumps(value, ensure_ascii=False), most=_CHARACTERS)


def answer_line(answer: JsonObject) -> str:
    """Return an answer, as reports have it, on one line that is harmless to a terminal."""
    status = f"HTTP {answer['status']} " if answer.get("status") is not None else ""
    if answer.get("message") is None:
        return status + plain(f"no response: {answer.get('fault')}", most=_CHARACTERS)
    return f"{status}{json_line(answer['message'])}"


def without_routine(sent: JsonObject) -> JsonObject:
    """Return a request without the `_meta` that every modern one carries, unless it has something else there."""
    params = as_object(sent.get("params")) or {}
    if as_object(params.get("_meta")) != envelope(DECLARED):
        return sent
    return {**sent, "params": {name: value for name, value in params.items() if name != "_meta"}}
