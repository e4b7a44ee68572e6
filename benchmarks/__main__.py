"""The command that runs all benchmarks and writes the report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.options import DIRECTORY
from benchmarks.processes import ROOT
from benchmarks.report.page import RESULTS, render
from benchmarks.report.quotes import documents as quoting_documents
from benchmarks.report.quotes import requote
from benchmarks.report.steps import STEPS, Material, StepFailedError, read_records, run, write_record

_PAGE: Final = "RESULTS.md"
_HERE: Final = Path(__file__).parent


@click.command()
@click.option(
    "--data", type=DIRECTORY, multiple=True, help="Dataset in addition to the small included one; can be repeated."
)
@click.option(
    "--servers",
    type=DIRECTORY,
    multiple=True,
    help="Dataset whose tools belong to servers: `context` and `method` use all, `federation` the first.",
)
@click.option("--documents", type=DIRECTORY, multiple=True, help="Folder with documentation; can be repeated.")
@click.option("--sizes", help="Numbers of tools for the speed benchmark. [default: 10,100,1000,10000; 10,100 if quick]")
@click.option(
    "--only",
    type=click.Choice([*STEPS]),
    multiple=True,
    help="Run only this benchmark; can be repeated. [default: all]",
)
@click.option(
    "--quick", is_flag=True, help="Use only a few requests, to check that everything works; the figures mean nothing."
)
@click.option("--tables-only", is_flag=True, help="Measure nothing; write the page from the existing records.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=_HERE,
    help="Folder for the page. [default: the benchmarks folder]",
)
def main(
    data: Sequence[Path],
    servers: Sequence[Path],
    documents: Sequence[Path],
    sizes: str | None,
    only: Sequence[str],
    quick: bool,
    tables_only: bool,
    out: Path,
) -> None:
    """Run all benchmarks and write RESULTS.md, with the figures in `results/` next to it.

    Benchmarks that `--only` leaves out keep their records. Times are only meaningful on an otherwise idle machine.
    """
    material = Material(data, servers, documents, sizes or ("10,100" if quick else "10,100,1000,10000"), quick)
    results = out / RESULTS
    results.mkdir(parents=True, exist_ok=True)
    for name in () if tables_only else only or STEPS:
        options = STEPS[name].options(material)
        if options is None:
            taken = "--documents" if name == "documents" else "--servers"
            click.echo(f"{name}: skipped, because it needs {taken}", err=True)
            continue
        click.echo(f"{name} …", err=True)
        try:
            write_record(run(name, options), results)
        except StepFailedError as failure:
            raise click.ClickException(str(failure)) from None
    (out / _PAGE).write_text(render(out), encoding="utf-8")
    if out == _HERE:  # this checkout's documents quote its records
        records = read_records(results)
        for file in quoting_documents(ROOT):
            text = file.read_text(encoding="utf-8")
            if (filled := requote(text, records)) != text:
                file.write_text(filled, encoding="utf-8")
                click.echo(f"{file.relative_to(ROOT)}: figures updated", err=True)


if __name__ == "__main__":
    main()
