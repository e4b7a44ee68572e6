"""The report on a terminal: failures first, each with its sentence, its place and the exchange that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import click

from tools_search_conformance.model import CLIENT_PREFIX, LEVELS, SERVER_PREFIX, Result, Run, Status
from tools_search_conformance.report.document import replay_commands
from tools_search_conformance.report.verdict import (
    PROBLEMS,
    exit_status,
    number_of,
    tally,
    target_text,
    verdict_line,
)
from tools_search_conformance.run.rows import DRAFT, place_of, rows_of
from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.display import plain
from tools_search_conformance.wire.eras import DECLARED, envelope
from tools_search_conformance.wire.record import Answer

_CHARACTERS: Final = 600
_COLORS: Final[Mapping[Status, str]] = {
    "fail": "red",
    "error": "magenta",
    "unverified": "yellow",
    "warn": "yellow",
    "advice": "cyan",
}
_MANY: Final = 3
"""How many checks must come to the same message for it to be shown once."""
_WORDS: Final[Mapping[Status, str]] = {
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
    click.echo(f"target   {plain(target_text(run.target))}")
    click.echo(f"profile  {run.profile}   effort {run.effort}   seed {run.seed}   {run.seconds:g} s")
    replay = replay_commands(run, out)
    for status in PROBLEMS:
        # Of advice, only that which was not taken is worth a line, and it stands apart.
        counting = [r for r in run.of(status) if (r.level != "ADVICE" or status == "error") and r.expected is None]
        _print_problems(counting, run.seed, replay)
    for results in _by_check(result for result in run.results if result.expected is not None):
        click.echo(f"\nexpected  {results[0].check}  ({_cells(results)})\n      {plain(str(results[0].expected))}")
    for problem in run.stale:
        click.echo(f"\n{click.style('STALE', fg='red', bold=True)}  {plain(problem)}")
    for results in _by_check(run.of("advice")):
        _print_problem(results, run.seed, replay)
    _print_counts(run)
    color = "green" if exit_status(run) == 0 else "red"
    click.echo(f"\n{click.style(verdict_line(run), fg=color, bold=True)}")
    click.echo(f"every check: {plain(str(out / 'report.html'))}   one check: tools-search-conformance explain CHECK")


def _by_check(results: Iterable[Result]) -> list[list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.check, []).append(result)
    return list(groups.values())


def _cells(results: Iterable[Result]) -> str:
    return ", ".join(result.cell.name for result in results)


def _print_problems(results: list[Result], seed: int, replay: Mapping[tuple[str, str], str]) -> None:
    """Print results of one status; a message of many checks is printed once, as of a target that is gone."""
    checks: dict[str, set[str]] = {}
    for result in results:
        checks.setdefault(result.message, set()).add(result.check)
    shared = [message for message, sharing in checks.items() if len(sharing) >= _MANY]
    for message in shared:
        groups = _by_check(result for result in results if result.message == message)
        click.echo(f"\n{_headline(groups[0][0].status)}  {len(groups)} checks for one reason\n      {plain(message)}")
        for of_check in groups:
            click.echo(f"      {of_check[0].check}  ({_cells(of_check)})")
    for of_check in _by_check(result for result in results if result.message not in shared):
        _print_problem(of_check, seed, replay)


def _print_problem(results: list[Result], seed: int, replay: Mapping[tuple[str, str], str]) -> None:
    first = results[0]
    click.echo(f"\n{_headline(first.status)}  {first.check}")
    for row in rows_of(first.check):
        click.echo(f'      "{row.text}"\n      {place_of(row)} ({row.id})')
    if not rows_of(first.check):
        click.echo(f"      {DRAFT}")
    for message in dict.fromkeys(result.message for result in results):
        click.echo(f"      {_cells(result for result in results if result.message == message)}: {plain(message)}")
    if first.evidence.case:
        click.echo(f"      case     {plain(first.evidence.case)}")
    if (exchange := first.evidence.decisive) is not None:
        click.echo(f"      sent     {json_line(without_routine(exchange.sent))}")
        click.echo(f"      answer   {answer_line(exchange.answer)}")
        click.echo(f"      wire log {exchange.cell}.jsonl, exchange {exchange.number}")
    again = f"--only {first.check.removeprefix(SERVER_PREFIX).removeprefix(CLIENT_PREFIX)} --era {first.cell.era}"
    click.echo(f"      again    the same command with {again} --seed {seed}")
    if (command := replay.get((first.check, first.cell.name))) is not None:
        click.echo(f"      replay   {plain(command)}")


def _headline(status: Status) -> str:
    return click.style(status.upper(), fg=_COLORS[status], bold=True)


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


def _print_counts(run: Run) -> None:
    click.echo()
    for cell in run.cells:
        parts: list[str] = []
        for level in LEVELS:
            counts = tally(run, cell, level)
            shown = [f"{counts[status]} {word}" for status, word in _WORDS.items() if counts[status]]
            parts.append(f"{level} {', '.join(shown) or 'none'}")
        click.echo(f"{cell.name:18} {'   '.join(parts)}")
    for entry in run.unavailable:
        click.echo(f"{entry.cell.name:18} not run: {plain(entry.reason)}")
    if unclaimed := {result.check for result in run.of("skip") if result.skip == "fixture-feature"}:
        features = dict.fromkeys(check.fixture_feature for check in run.checks if check.id in unclaimed)
        needed = f"--fixture-features {','.join(filter(None, features))}"
        click.echo(f"{number_of(len(unclaimed), 'check')} not run: a fixture that can do more claims {needed}")
