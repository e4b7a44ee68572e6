"""Options that several measurements have."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from benchmarks.retrieval.datasets import SMALL

__all__ = ["data_option"]

data_option: Final = click.option(
    "--data",
    "directories",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    default=[SMALL],
    help="Dataset; may be repeated. [default: the small own one]",
)
"""The sets to measure with, as `directories`."""
