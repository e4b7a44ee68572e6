"""The commands that make other reports from `report.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from tools_search_conformance.cli.option_values import writable_folder
from tools_search_conformance.report.document import ReportError, read_report
from tools_search_conformance.report.matrix import matrix_markdown, matrix_page
from tools_search_conformance.report.outputs import outputs
from tools_search_conformance.report.plain import plain
from tools_search_conformance.run.baseline import baseline_for

__all__ = ["report_at", "report_group"]


def report_at(path: Path) -> dict[str, Any]:
    """Return the `report.json` at a path that a user gave.

    Raises:
        UsageError: It is none.
    """
    try:
        return read_report(path)
    except ReportError as error:
        raise click.UsageError(str(error)) from error


def _examples(*lines: str) -> str:
    return "\n".join(("\b\nExamples:", *(f"  tools-search-conformance report {line}" for line in lines)))


_MERGE: Final = "merge mine=conformance-report/report.json theirs=other/report.json"
_BASELINE: Final = "baseline conformance-report/report.json > known.yaml"
_OUTPUTS: Final = 'outputs conformance-report/report.json >> "$GITHUB_OUTPUT"'


@click.group("report", epilog=_examples(_MERGE, _BASELINE, _OUTPUTS))
def report_group() -> None:
    """Make other reports from `report.json`."""


@report_group.command("merge", epilog=_examples(_MERGE), short_help="Put many implementations on one page.")
@click.argument("reports", nargs=-1, required=True, metavar="[NAME=]REPORT.json…")
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), default=Path("conformance-matrix"), show_default=True,
    help="Folder for matrix.html and matrix.md.",
)  # fmt: skip
def merge(reports: tuple[str, ...], out: Path) -> None:
    """Put many implementations on one page, each check against each of them."""
    documents: dict[str, dict[str, Any]] = {}
    for given in reports:
        name, _, path = given.rpartition("=")
        name = name or Path(path).resolve().parent.name
        if name in documents:
            raise click.UsageError(f"two reports are named {name!r}; name them, such as mine={path}")
        documents[name] = report_at(Path(path))
    writable_folder(out)
    (out / "matrix.html").write_text(matrix_page(documents), encoding="utf-8")
    (out / "matrix.md").write_text(matrix_markdown(documents), encoding="utf-8")
    click.echo(f"{plain(str(out / 'matrix.html'))} shows {len(documents)} implementations")


@report_group.command("baseline", epilog=_examples(_BASELINE), short_help="Print a baseline of what did not pass.")
@click.argument("path", metavar="REPORT.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def baseline_command(path: Path) -> None:
    """Print a baseline of what did not pass, to be given reasons and put into a file."""
    click.echo(baseline_for(report_at(path)), nl=False)


@report_group.command("outputs", epilog=_examples(_OUTPUTS), short_help="Print what later steps of a CI job need.")
@click.argument("path", metavar="REPORT.json", type=click.Path(exists=True, dir_okay=False, path_type=Path))
def outputs_command(path: Path) -> None:
    """Print what later steps of a CI job want to know: verdict, must-passed, must-total, report."""
    click.echo(outputs(report_at(path), path), nl=False)
