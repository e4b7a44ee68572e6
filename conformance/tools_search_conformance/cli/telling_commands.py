"""The commands that only read: `list`, `explain`, `trace` and `docs`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from tools_search_conformance.checks import registered
from tools_search_conformance.cli.reporting import report_at
from tools_search_conformance.clients.checks import client_checks
from tools_search_conformance.report.checks_page import checks_page
from tools_search_conformance.run.explain import documents, explain_check, list_checks
from tools_search_conformance.run.mutants import MutantsError, read_power
from tools_search_conformance.run.selection import UnknownCheckError, choose_checks
from tools_search_conformance.run.trace import sep_file, trace, trace_text

__all__ = ["docs", "explain", "list_command", "trace_command"]


_LIST_EXAMPLES = """\b
Examples:
  tools-search-conformance list
  tools-search-conformance list --json | jq -r '.[].id'"""


@click.command("list", epilog=_LIST_EXAMPLES)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option("--markdown", is_flag=True, help="Print the page conformance/CHECKS.md, with the sentences of the draft.")
@click.option(
    "--mutants",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Show on that page which mutants the checks find; conformance/tests/mutants of the sources.",
)
def list_command(as_json: bool, markdown: bool, mutants: Path | None) -> None:
    """List the checks: id, level and title."""
    every = (*registered(), *client_checks())
    if markdown:
        try:
            click.echo(checks_page(every, read_power(mutants) if mutants else None), nl=False)
        except MutantsError as error:
            raise click.UsageError(str(error)) from error
        return
    entries = list_checks(every)
    if as_json:
        click.echo(json.dumps(entries, indent=2, ensure_ascii=False))
        return
    for entry in entries:
        click.echo(f"{entry['level']:6}  {entry['id']}\n        {entry['title']}")


_EXPLAIN_EXAMPLES = """\b
Examples:
  tools-search-conformance explain limit-invalid
  tools-search-conformance explain 'cursor-*'"""


@click.command(epilog=_EXPLAIN_EXAMPLES, short_help="Explain a check, with the sentences behind it.")
@click.argument("check")
def explain(check: str) -> None:
    """Explain a check: the sentences of the draft or a guide behind it, what is sent, what passes."""
    try:
        found = choose_checks([check], (*registered(), *client_checks()))
    except UnknownCheckError as error:
        raise click.UsageError(str(error)) from error
    for each in found:
        click.echo(explain_check(each))
    click.echo(f"\nThe draft: {documents()['draft'][0]}  (tools-search-conformance docs draft)")


_TRACE_EXAMPLES = """\b
Examples:
  tools-search-conformance trace
  tools-search-conformance trace conformance-report/report.json --json"""


@click.command("trace", epilog=_TRACE_EXAMPLES, short_help="Show what decides each sentence of the draft.")
@click.argument("report", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
@click.option(
    "--sep", type=click.IntRange(min=1), metavar="N", help="Print the rows as the official suite's sep-N.yaml."
)
def trace_command(report: Path | None, as_json: bool, sep: int | None) -> None:
    """Show for each sentence of the draft, rule of the base protocol and piece of advice which checks decide it.

    With a REPORT.json, show the outcome as well.
    """
    if sep is not None:
        click.echo(sep_file(sep), nl=False)
        return
    rows = trace(report_at(report) if report else None)
    click.echo(json.dumps(rows, indent=2, ensure_ascii=False) if as_json else trace_text(rows))


_DOCS_EXAMPLES = """\b
Examples:
  tools-search-conformance docs                            what there is, and where
  tools-search-conformance docs draft | less
  tools-search-conformance docs skeleton > my_driver.py"""


@click.command("docs", epilog=_DOCS_EXAMPLES, short_help="Print the draft, the driver's contract or an example.")
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print names, paths and purposes as JSON.")
def docs(name: str | None, as_json: bool) -> None:
    """Print a text or an example that is installed with the suite.

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
        raise click.UsageError(f"{name!r} is none of them. There are: {', '.join(found)}.")
