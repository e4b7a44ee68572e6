"""Options that several measurements have, and the output of all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

DIRECTORY: Final = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
FILE: Final = click.Path(dir_okay=False, path_type=Path)

json_option: Final = click.option("--json", "json_file", type=FILE, help="Write the figures here.")
tasks_option: Final = click.option(
    "--tasks", type=click.IntRange(min=1), help="The first so many of each dataset; all."
)


def data_option(default: Path) -> Callable[[Any], Any]:
    """Return the option for the data sets, of which one ships with the project and is the default."""
    says = f"Dataset; may be repeated. [default: {default.name}]"
    return click.option("--data", "directories", type=DIRECTORY, multiple=True, default=[default], help=says)


def split_option(default: str) -> Callable[[Any], Any]:
    """Return the option for the part of the requests that is measured."""
    return click.option("--split", type=click.Choice(["dev", "test", "all"]), default=default, show_default=True)


def write_figures(figures: Any, tables: Callable[[Any], str], json_file: Path | None) -> None:
    """Print the tables of figures, and write the figures where a file is named."""
    click.echo(tables(figures))
    if json_file:
        json_file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
