"""The commands that only read: `list`, `explain`, `trace`, `docs`, and `report`, which makes others of a report."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

import click

from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.cli.options import Command, writable_folder
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.report.checks_page import checks_page, read_power
from tools_search_conformance.report.ci import outputs
from tools_search_conformance.report.document import read_document
from tools_search_conformance.report.explain import documents, explain_check, list_checks, sep_file, trace, trace_text
from tools_search_conformance.report.pages import matrix_markdown, matrix_page
from tools_search_conformance.run.baseline import baseline_for
from tools_search_conformance.run.registry import choose_checks
from tools_search_conformance.run.rows import own_rows_of, place_of
from tools_search_conformance.wire.display import plain

_REPORT: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _examples(*lines: str) -> str:
    return "\n".join(("\b\nExamples:", *(f"  tools-search-conformance {line}" for line in lines)))


@click.command("list", cls=Command, epilog=_examples("list", "list --json | jq -r '.[].id'"))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--markdown", is_flag=True, help="Print conformance/CHECKS.md, which quotes the draft.")
@click.option(
    "--mutants",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Also show which mutants the checks find; in the sources, conformance/tests/mutants.",
)
def list_command(as_json: bool, markdown: bool, mutants: Path | None) -> None:
    """List every check with its id, level and title."""
    every = (*SERVER_CHECKS.all, *CLIENT_CHECKS.all)
    if markdown:
        click.echo(checks_page(every, read_power(mutants) if mutants else None), nl=False)
    elif as_json:
        click.echo(json.dumps(list_checks(every), indent=2, ensure_ascii=False))
    else:
        for check in every:
            click.echo(f"{check.level:6}  {check.id}\n        {check.title}")


@click.command(cls=Command, epilog=_examples("explain limit-invalid", "explain 'cursor-*'"))
@click.argument("check")
def explain(check: str) -> None:
    """Explain a check: what it sends and what passes."""
    chosen = choose_checks([check], (*SERVER_CHECKS.all, *CLIENT_CHECKS.all))
    for each in chosen:
        click.echo(explain_check(each))
    places = [place_of(row) for each in chosen for row in own_rows_of(each.id)]
    for name, (path, _) in documents().items():
        if any(place.startswith(f"spec/{path.parent.name}/{path.name}#") for place in places):
            click.echo(f"\n{path}  (tools-search-conformance docs {name})")


@click.command(cls=Command, name="trace", epilog=_examples("trace", "trace conformance-report/report.json --json"))
@click.argument("report", required=False, type=_REPORT)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option(
    "--sep", type=click.IntRange(min=1), metavar="N", help="Print the rows as sep-N.yaml for the official suite."
)
def trace_command(report: Path | None, as_json: bool, sep: int | None) -> None:
    """Show which checks decide each draft sentence.

    Rules of the base protocol and advice follow. Pass a REPORT.json to add the outcomes.
    """
    if sep is not None:
        click.echo(sep_file(sep), nl=False)
        return
    rows = trace(read_document(report, "report") if report else None)
    click.echo(json.dumps(rows, indent=2, ensure_ascii=False) if as_json else trace_text(rows))


@click.command(
    cls=Command,
    name="docs",
    epilog=_examples(
        "docs                            list names and paths",
        "docs draft | less",
        "docs skeleton > my_driver.py",
    ),
)
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print names, paths and purposes as JSON.")
def docs(name: str | None, as_json: bool) -> None:
    """Print a bundled document or example.

    Without NAME, list them with their paths.
    """
    found = documents()
    if name is None and as_json:
        entries = {each: {"path": str(path), "purpose": purpose} for each, (path, purpose) in found.items()}
        click.echo(json.dumps(entries, indent=2))
    elif name is None:
        for each, (path, purpose) in found.items():
            click.echo(f"{each:18}{purpose}\n{'':18}{path}")
    elif name in found:
        click.echo(found[name][0].read_text(encoding="utf-8"), nl=False)
    else:
        raise click.UsageError(f"there is no document {name!r}. Choose one of: {', '.join(found)}.")


_MERGE: Final = "report merge mine=conformance-report/report.json theirs=other/report.json"
_BASELINE: Final = "report baseline conformance-report/report.json > known.yaml"
_OUTPUTS: Final = 'report outputs conformance-report/report.json >> "$GITHUB_OUTPUT"'


@click.group("report", epilog=_examples(_MERGE, _BASELINE, _OUTPUTS))
def report_group() -> None:
    """Create other reports from `report.json`."""


@report_group.command("merge", cls=Command, epilog=_examples(_MERGE))
@click.argument("reports", nargs=-1, required=True, metavar="[NAME=]REPORT.json…")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-matrix"), show_default=True,
    help="Folder for matrix.html and matrix.md.",
)  # fmt: skip
def merge(reports: tuple[str, ...], out: Path) -> None:
    """Compare several implementations on one page."""
    by_name: dict[str, dict[str, Any]] = {}
    for given in reports:
        name, _, path = given.rpartition("=")
        name = name or Path(os.path.realpath(path)).parent.name
        if name in by_name:
            raise click.UsageError(f"two reports are named {name!r}. Give each its own name, such as mine={path}.")
        by_name[name] = read_document(Path(path), "report")
    writable_folder(out)
    (out / "matrix.html").write_text(matrix_page(by_name), encoding="utf-8")
    (out / "matrix.md").write_text(matrix_markdown(by_name), encoding="utf-8")
    click.echo(f"{plain(str(out / 'matrix.html'))} shows {len(by_name)} implementations")


@report_group.command("baseline", cls=Command, epilog=_examples(_BASELINE))
@click.argument("path", metavar="REPORT.json", type=_REPORT)
def baseline_command(path: Path) -> None:
    """Print a baseline that lists what did not pass.

    Fill in a reason for each entry.
    """
    click.echo(baseline_for(read_document(path, "report")), nl=False)


@report_group.command("outputs", cls=Command, epilog=_examples(_OUTPUTS))
@click.argument("path", metavar="REPORT.json", type=_REPORT)
def outputs_command(path: Path) -> None:
    """Print outputs for a CI job step.

    They contain the verdict and its details.
    """
    click.echo(outputs(read_document(path, "report"), path), nl=False)
