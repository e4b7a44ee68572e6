"""The report on a terminal: failures first, each with its sentence, its place and the exchange that shows it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from tools_search_conformance.explain import sentence_of
from tools_search_conformance.model import Result, Run, Status
from tools_search_conformance.report.plain import plain
from tools_search_conformance.report.verdict import exit_status, tally, verdict_line
from tools_search_conformance.wire.record import Exchange

__all__ = ["print_progress", "print_run"]

_WIDTH: Final = 600
_COLOURS: Final[Mapping[Status, str]] = {
    "fail": "red",
    "error": "magenta",
    "unverified": "yellow",
    "warn": "yellow",
    "pass": "green",
}
_SHOWN: Final[tuple[Status, ...]] = ("error", "fail", "unverified", "warn")


def print_progress(result: Result) -> None:
    """Show on a terminal which check was just run; say nothing into a file or pipe."""
    if sys.stderr.isatty():  # pragma: no cover - tests have no terminal
        click.echo(f"\r\x1b[2K{result.cell.name}  {result.check}", err=True, nl=False)


def print_run(run: Run, out: Path) -> None:
    """Print the whole report."""
    if sys.stderr.isatty():  # pragma: no cover - tests have no terminal
        click.echo("\r\x1b[2K", err=True, nl=False)
    click.echo(f"target   {plain(_target(run))}")
    click.echo(f"profile  {run.profile}   effort {run.effort}   seed {run.seed}   {run.seconds:g} s")
    for status in _SHOWN:
        for same in _by_check(run.of(status)):
            _print_failure(same)
    _print_summary(run, out)


def _target(run: Run) -> str:
    servers: list[dict[str, Any]] = run.target["servers"]
    return "; ".join(str(server.get("url") or " ".join(server["argv"])) for server in servers)


def _by_check(results: Iterable[Result]) -> list[list[Result]]:
    groups: dict[str, list[Result]] = {}
    for result in results:
        groups.setdefault(result.check, []).append(result)
    return list(groups.values())


def _print_failure(results: list[Result]) -> None:
    first = results[0]
    sentence, place = sentence_of(first.check)
    click.echo()
    click.echo(f"{click.style(first.status.upper(), fg=_COLOURS[first.status], bold=True)}  {first.check}")
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


def _print_exchange(exchange: Exchange) -> None:
    click.echo(f"      sent     {plain(_json(exchange.sent), most=_WIDTH)}")
    answer = exchange.answer
    status = f"HTTP {answer.status} " if answer.status is not None else ""
    shown = _json(answer.message) if answer.message is not None else f"no response: {answer.fault}"
    click.echo(f"      answer   {status}{plain(shown, most=_WIDTH)}")
    click.echo(f"      wire log {exchange.cell}.jsonl, exchange {exchange.number}")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_summary(run: Run, out: Path) -> None:
    click.echo()
    for cell in run.cells:
        parts: list[str] = []
        for level in ("MUST", "SHOULD"):
            counts = tally(run, cell, level)
            told = [f"{counts[status]} {status}" for status in ("pass", *_SHOWN, "info", "skip") if counts[status]]
            parts.append(f"{level} {', '.join(told) or 'none'}")
        click.echo(f"{cell.name:18} {'   '.join(parts)}")
    for entry in run.unavailable:
        click.echo(f"{entry.cell.name:18} not run: {plain(entry.reason)}")
    click.echo()
    colour = "green" if exit_status(run) == 0 else "red"
    click.echo(click.style(verdict_line(run), fg=colour, bold=True))
    click.echo(f"reports in {plain(str(out))}; `tools-search-conformance explain CHECK` tells more of a check")
