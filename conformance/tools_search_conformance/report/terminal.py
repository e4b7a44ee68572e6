"""The report on a terminal: failures first, each with its sentence, its place and the exchange that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import wrap
from typing import Final

import click

from tools_search_conformance.model import CLIENT_PREFIX, SERVER_PREFIX, Result, Run, Status
from tools_search_conformance.report.document import replay_commands
from tools_search_conformance.report.problems import BASE_HEADING, GROUPS, PROBLEMS, problems_of
from tools_search_conformance.report.render import grouped, render
from tools_search_conformance.report.verdict import tally, target_text, verdict_of
from tools_search_conformance.run.rows import DRAFT, place_of, rows_of
from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.eras import DECLARED, envelope
from tools_search_conformance.wire.record import Answer

_CHARACTERS: Final = 600
_COLORS: Final[dict[Status, str]] = {
    "fail": "red",
    "error": "magenta",
    "unverified": "yellow",
    "warn": "yellow",
    "advice": "cyan",
}
_COUNTED: Final[dict[Status, str]] = {
    "pass": "passed",
    "error": "ended by a fault of the suite",
    "fail": "failed",
    "unverified": "unverified",
    "warn": "not followed",
    "advice": "not taken",
    "info": "for information",
    "skip": "not applicable",
}


class Progress:
    """Shows on standard error which check was just run, and how many are done.

    Args:
        total: How many there are, each counted in each of its cells.
        lines: Whether to write a line for each, which programs and logs can follow. Otherwise one line of a terminal
            is kept up to date, and nothing is written elsewhere.
    """

    def __init__(self, total: int, *, lines: bool) -> None:
        self._total = total
        self._lines = lines
        self._done = 0

    def __call__(self, result: Result) -> None:
        """Take note of a result."""
        self._done += 1
        line = f"{self._done}/{self._total}  {result.cell.name}  {result.check}"
        if self._lines:
            click.echo(line, err=True)
        elif sys.stderr.isatty():  # pragma: no cover - tests have no terminal
            click.echo(f"\r\x1b[2K{line}", err=True, nl=False)


def print_run(run: Run, out: Path) -> None:
    """Print the whole report."""
    if sys.stderr.isatty():  # pragma: no cover - tests have no terminal
        click.echo("\r\x1b[2K", err=True, nl=False)
    problems = problems_of(run)
    unclaimed = {result.check for result in run.of("skip") if result.skip == "fixture-feature"}
    features = dict.fromkeys(check.fixture_feature for check in run.checks if check.id in unclaimed)
    click.echo(
        render(
            "terminal.txt.jinja",
            run=run,
            target=target_text(run.target),
            problems=[each for each in problems if not each.base],
            environment=sorted(
                {name for server in run.target.get("servers", ()) for name in server.get("environment", ())}
            ),
            expected=grouped((result for result in run.results if result.expected is not None), "check"),
            base_heading=BASE_HEADING,
            base=[each for each in problems if each.base],
            advice=grouped(run.of("advice"), "check").values(),
            tallies={cell.name: {group: tally(run, cell, group) for group in GROUPS} for cell in run.cells},
            counted=_COUNTED,
            unclaimed=unclaimed,
            features=filter(None, features),
            verdict=verdict_of(run),
            page=str(out / "report.html"),
            replay=replay_commands(run, out),
            draft=DRAFT,
            rows_of=rows_of,
            place_of=place_of,
            rule=_rule,
            folded=_folded,
            style=_style,
            headline=_headline,
            json_line=json_line,
            answer_line=answer_line,
            without_routine=without_routine,
        )
    )


def _style(text: str, color: str) -> str:
    return click.style(text, fg=color, bold=True)


def _headline(status: Status) -> str:
    return _style(status.upper(), _COLORS[status])


def _rule(check: str) -> str:
    return check.removeprefix(SERVER_PREFIX).removeprefix(CLIENT_PREFIX)


def _folded(consequences: Mapping[str, list[Result]]) -> list[str]:
    """Return the rules of consequences as lines, by their status."""
    rules: dict[Status, list[str]] = {}
    for check, results in consequences.items():
        rules.setdefault(results[0].status, []).append(_rule(check))
    indent = " " * 20
    return [
        line
        for status, names in sorted(rules.items(), key=lambda entry: PROBLEMS.index(entry[0]))
        for line in wrap(
            ", ".join(names),
            100,
            initial_indent=f"{'':8}{status:10}  ",
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
    ]


def json_line(value: object) -> str:
    """Return the beginning of a JSON value, harmless to a terminal."""
    return plain(json.dumps(value, ensure_ascii=False), most=_CHARACTERS)


def answer_line(answer: Answer) -> str:
    """Return an answer on one line, harmless to a terminal."""
    status = f"HTTP {answer.status} " if answer.status is not None else ""
    if answer.message is None:
        return f"{status}{plain(f'no response: {answer.fault}', most=_CHARACTERS)}"
    return f"{status}{json_line(answer.message)}"


def without_routine(sent: JsonObject) -> JsonObject:
    """Return a request without the `_meta` that every modern one carries, unless it has something else there."""
    params = as_object(sent.get("params")) or {}
    if as_object(params.get("_meta")) != envelope(DECLARED):
        return sent
    return {**sent, "params": {name: value for name, value in params.items() if name != "_meta"}}
