"""Options shared by several benchmarks, and their output."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import click

DIRECTORY: Final = click.Path(exists=True, file_okay=False, resolve_path=True, path_type=Path)
FILE: Final = click.Path(dir_okay=False, path_type=Path)

json_option: Final = click.option("--json", "json_file", type=FILE, help="Write the figures to this file.")
tasks_option: Final = click.option(
    "--tasks", type=click.IntRange(min=1), help="Use only the first N of each dataset. [default: all]"
)


def data_option(default: Path) -> Callable[[Any], Any]:
    """Return the option for datasets; the default is one that is included with the project."""
    says = f"Dataset; can be repeated. [default: {default.name}]"
    return click.option("--data", "directories", type=DIRECTORY, multiple=True, default=[default], help=says)


def split_option(default: str) -> Callable[[Any], Any]:
    """Return the option for the split of the requests to measure."""
    return click.option("--split", type=click.Choice(["dev", "test", "all"]), default=default, show_default=True)


def write_figures(figures: Any, tables: Callable[[Any], str], json_file: Path | None) -> None:
    """Print the tables, and write the figures to a file if one is named."""
    click.echo(tables(figures))
    if json_file:
        json_file.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
