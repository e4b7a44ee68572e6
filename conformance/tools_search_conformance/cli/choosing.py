"""The options by which a run is chosen, the same for servers and clients."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import click

from tools_search_conformance.model import LEVELS, Cell, Check, Profile
from tools_search_conformance.report.document import ReportError, read_report
from tools_search_conformance.report.verdict import number_of
from tools_search_conformance.run.selection import Criteria, Selection, UnknownCheckError, choose

__all__ = ["refuse_nothing", "selection_options", "show_selection"]

_OPTIONS = (
    click.option(
        "--only", multiple=True, metavar="CHECK", help="Run only this check; a glob; repeatable, as all these."
    ),
    click.option(
        "--requirement", multiple=True, metavar="ROW", help="Run only what decides this row, such as R-PAG-*."
    ),
    click.option(
        "--section", multiple=True, metavar="ANCHOR", help="Run only what this section of the draft or of a guide says."
    ),
    click.option(
        "--level",
        multiple=True,
        type=click.Choice(LEVELS, case_sensitive=False),
        help="Run only what is as binding as this; ADVICE binds nobody.",
    ),
    click.option("--cell", multiple=True, metavar="CELL", help="Run only in this cell, such as stdio-2026*, or http."),
    click.option(
        "--failed-from",
        multiple=True,
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="REPORT.json",
        help="Run only what did not pass in this run.",
    ),
    click.option("--list", "listing", is_flag=True, help="Print what would be run, and run nothing."),
    click.option("--strict", is_flag=True, help="Let what the draft only recommends count as well; advice never does."),
)


def selection_options(every: Callable[[], Sequence[Check]]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options, and what they choose of the checks `every` as the parameter `selection`.

    What matches nothing ends the command as wrong usage.
    """

    def give(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def choosing(**given: Any) -> None:
            try:
                criteria = Criteria(
                    checks=given.pop("only"),
                    requirements=given.pop("requirement"),
                    sections=given.pop("section"),
                    levels=given.pop("level"),
                    cells=given.pop("cell"),
                    reports=[read_report(path) for path in given.pop("failed_from")],
                )
                command(selection=choose(criteria, every()), **given)
            except (UnknownCheckError, ReportError) as error:
                raise click.UsageError(str(error)) from error

        for option in reversed(_OPTIONS):
            choosing = option(choosing)
        return choosing

    return give


def refuse_nothing(selection: Selection, cells: Iterable[Cell]) -> None:
    """End the command as wrong usage where nothing is chosen in any of `cells`, those that the target has.

    Raises:
        UsageError: So it is.
    """
    names = {cell.name for cell in cells}
    if not any(cell in names for _, cell in selection.pairs):
        chosen = ", ".join(sorted({cell for _, cell in selection.pairs}))
        raise click.UsageError(f"what is chosen is about {chosen}, and this run about {', '.join(sorted(names))}")


def show_selection(selection: Selection, cells: Sequence[Cell], profile: Profile, *, as_json: bool) -> None:
    """Print which checks would be run in which of `cells`."""
    shown = {
        check: [cell.name for cell in cells if selection.wants(check, cell) and check.applies(cell, profile)]
        for check in selection.checks
    }
    if as_json:
        listed = [{"id": check.id, "level": check.level, "cells": names} for check, names in shown.items() if names]
        click.echo(json.dumps(listed, indent=2))
        return
    for check, names in shown.items():
        if names:
            click.echo(f"{check.level:6}  {check.id}\n        {', '.join(names)}")
    applying = [names for names in shown.values() if names]
    where = {name for names in applying for name in names}
    click.echo(f"{number_of(len(applying), 'check')} in {number_of(len(where), 'cell')}")
