"""The report on a terminal: failures first, each with its sentence, its place and the exchange that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from tools_search_conformance.checks import registered
from tools_search_conformance.model import CHECK_PREFIX, CLIENT_PREFIX, LEVELS, Result, Run, Status
from tools_search_conformance.report.failures import replay_commands
from tools_search_conformance.report.plain import plain
from tools_search_conformance.report.verdict import exit_status, number_of, tally, verdict_line
from tools_search_conformance.run.explain import sentences_of
from tools_search_conformance.wire.codec import JsonObject, as_object
from tools_search_conformance.wire.eras import DECLARED, envelope
from tools_search_conformance.wire.record import Exchange

__all__ = ["Progress", "print_run", "without_routine"]

_WIDTH: Final = 600
_COLOURS: Final[Mapping[Status, str]] = {
    "fail": "red",
    "error": "magenta",
    "unverified": "yellow",
    "warn": "yellow",
    "advice": "cyan",
    "pass": "green",
}
_SHOWN: Final[tuple[Status, ...]] = ("error", "fail", "unverified", "warn")
_MANY: Final = 3
"""How many checks must come to the same message for it to be told once."""
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
        self.lines = lines
        self._done = 0

    def __call__(self, result: Result) -> None:
        """Take note of a result."""
        self._done += 1
        told = f"{self._done}/{self._total}  {result.cell.name}  {result.check}"
        if self.lines:
            click.echo(told, err=True)
        elif sys.stderr.isatty():  # pragma: no cover - tests have no terminal
            click.echo(f"\r\x1b[2K{told}", err=True, nl=False)


def print_run(run: Run, out: Path) -> None:
    """Print the whole report."""
    if sys.stderr.isatty():  # pragma: no cover - tests have no terminal
        click.echo("\r\x1b[2K", err=True, nl=False)
    click.echo(f"target   {plain(_target(run))}")
    click.echo(f"profile  {run.profile}   effort {run.effort}   seed {run.seed}   {run.seconds:g} s")
    replay = replay_commands(run, out)
    for status in _SHOWN:
        # Of advice, nothing but what was not taken is worth a line, and that stands apart.
        counting = [result for result in run.of(status) if result.level != "ADVICE" or status == "error"]
        shared, single = _shared([result for result in counting if result.expected is None])
        for message, results in shared.items():
            _print_shared(message, results)
        for results in _by_check(single):
            _print_single(results, run.seed, replay)
    for results in _by_check(result for result in run.results if result.expected is not None):
        cells = ", ".join(result.cell.name for result in results)
        click.echo(f"\nexpected  {results[0].check}  ({cells})\n      {plain(str(results[0].expected))}")
    for problem in run.stale:
        click.echo(f"\n{click.style('STALE', fg='red', bold=True)}  {plain(problem)}")
    for results in _by_check(run.of("advice")):
        _print_single(results, run.seed, replay)
    _print_summary(run, out)


def _target(run: Run) -> str:
    servers: list[dict[str, Any]] = run.target.get("servers") or run.target["clients"]
    return "; ".join(str(server.get("url") or " ".join(server["argv"])) for server in servers)


def _by_check(results: Iterable[Result]) -> list[list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.check, []).append(result)
    return list(groups.values())


def _shared(results: list[Result]) -> tuple[dict[str, list[Result]], list[Result]]:
    """Return the results that share a message with those of many other checks, by message, and the rest.

    A target that is gone, or answers nothing, leaves many with one reason, which is then told once.
    """
    checks: dict[str, set[str]] = {}
    for result in results:
        checks.setdefault(result.message, set()).add(result.check)
    many = {message: list[Result]() for message, sharing in checks.items() if len(sharing) >= _MANY}
    rest: list[Result] = []
    for result in results:
        many.get(result.message, rest).append(result)
    return many, rest


def _print_shared(message: str, results: list[Result]) -> None:
    groups = _by_check(results)
    click.echo()
    click.echo(f"{_headline(results[0].status)}  {len(groups)} checks for one reason")
    click.echo(f"      {plain(message)}")
    for same in groups:
        click.echo(f"      {same[0].check}  ({', '.join(result.cell.name for result in same)})")


def _print_single(results: list[Result], seed: int, replay: Mapping[tuple[str, str], str]) -> None:
    first = results[0]
    click.echo()
    click.echo(f"{_headline(first.status)}  {first.check}")
    for sentence, place in sentences_of(first.check):
        if sentence:
            click.echo(f'      "{sentence}"')
        click.echo(f"      {place}")
    for message in dict.fromkeys(result.message for result in results):
        cells = ", ".join(result.cell.name for result in results if result.message == message)
        click.echo(f"      {cells}: {plain(message)}")
    if first.evidence.case:
        click.echo(f"      case     {plain(first.evidence.case)}")
    if first.evidence.decisive is not None:
        _print_exchange(first.evidence.decisive)
    again = f"--only {first.check.removeprefix(CHECK_PREFIX).removeprefix(CLIENT_PREFIX)} --era {first.cell.era}"
    click.echo(f"      again    the same command with {again} --seed {seed}")
    if (command := replay.get((first.check, first.cell.name))) is not None:
        click.echo(f"      replay   {plain(command)}")


def _headline(status: Status) -> str:
    return click.style(status.upper(), fg=_COLOURS[status], bold=True)


def _print_exchange(exchange: Exchange) -> None:
    click.echo(f"      sent     {plain(_json(without_routine(exchange.sent)), most=_WIDTH)}")
    answer = exchange.answer
    status = f"HTTP {answer.status} " if answer.status is not None else ""
    shown = _json(answer.message) if answer.message is not None else f"no response: {answer.fault}"
    click.echo(f"      answer   {status}{plain(shown, most=_WIDTH)}")
    click.echo(f"      wire log {exchange.cell}.jsonl, exchange {exchange.number}")


def without_routine(sent: JsonObject) -> JsonObject:
    """Return a request without what every modern one carries, unless something else is in its place."""
    params = as_object(sent.get("params")) or {}
    if as_object(params.get("_meta")) != envelope(DECLARED):
        return sent
    return {**sent, "params": {name: value for name, value in params.items() if name != "_meta"}}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_summary(run: Run, out: Path) -> None:
    click.echo()
    for cell in run.cells:
        parts: list[str] = []
        for level in LEVELS:
            counts = tally(run, cell, level)
            told = [f"{counts[status]} {word}" for status, word in _WORDS.items() if counts[status]]
            parts.append(f"{level} {', '.join(told) or 'none'}")
        click.echo(f"{cell.name:18} {'   '.join(parts)}")
    for entry in run.unavailable:
        click.echo(f"{entry.cell.name:18} not run: {plain(entry.reason)}")
    if unclaimed := {result.check for result in run.of("skip") if result.skip == "fixture-feature"}:
        features = dict.fromkeys(check.fixture_feature for check in registered() if check.id in unclaimed)
        needed = f"--fixture-features {','.join(filter(None, features))}"
        click.echo(f"{number_of(len(unclaimed), 'check')} not run: a fixture that can do more claims {needed}")
    click.echo()
    colour = "green" if exit_status(run) == 0 else "red"
    click.echo(click.style(verdict_line(run), fg=colour, bold=True))
    click.echo(f"every check: {plain(str(out / 'report.html'))}   one check: tools-search-conformance explain CHECK")
