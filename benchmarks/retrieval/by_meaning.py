"""The ranking of the extra [semantic], as a server has it once the vectors are made."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import click
from mcp_ext_tools_search.ranking import ToolIndex
from mcp_ext_tools_search.semantic import SemanticRanker
from mcp_ext_tools_search.semantic.minilm import MissingExtra, minilm
from mcp_types import Tool

__all__ = ["by_meaning"]

_FOLDER: Final = Path.home() / ".cache" / "tools-search-benchmark"
"""Where the vectors are kept from one run to the next, so that only the first has to make them."""


def by_meaning(tools: Sequence[Tool], /) -> ToolIndex:
    """Index `tools` and wait until all have vectors.

    Raises:
        click.ClickException: The extra is not installed.
    """
    index = _ranker()(tools)
    _ranker().settle()
    return index


@cache
def _ranker() -> SemanticRanker:
    try:
        return SemanticRanker(minilm(), folder=_FOLDER)
    except MissingExtra as error:
        raise click.ClickException(str(error)) from None
