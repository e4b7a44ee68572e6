"""The requests that the model is fitted to, and how words and the model alone rank the tools for them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from mcp_types import Tool
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict
from tools_search_ranking import FieldedRanker
from tools_search_ranking.semantic.embedder import STEPS, Vectors, summary_text, tool_text
from tools_search_ranking.semantic.minilm import minilm, pieces

_FILE: Final = Path(__file__).with_name("tools.jsonl")
_MAX_PIECES: Final = 24
EVERY: Final = 25
"""One tool of so many is kept in the package, for comparison with the tools of a server."""

_PEOPLES_REQUESTS: Final = 4
"""Number of requests per tool that people wrote. A model wrote one more, which is drawn twice as often."""


class Row(BaseModel):
    """An invented tool and requests that it serves: first those of people, then that of a model."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    requests: tuple[str, ...]


@dataclass(frozen=True)
class Examples:
    """Requests, each of which one of the tools serves. Vectors have length 1."""

    texts: NDArray[np.float32]
    """The vectors of the tools' full texts."""

    summaries: NDArray[np.float32]
    """The vectors of the first sentences of their descriptions."""

    pieces: NDArray[np.int32]
    """A row for each request: the numbers of its pieces, and zeros after the last."""

    shares: NDArray[np.float64]
    """How often each request is drawn."""

    words: NDArray[np.float32]
    """A row for each request: the tools' scores by words, as standard scores."""

    tools: NDArray[np.intp]
    """The tool that serves each request."""


def read_rows() -> list[Row]:
    """Return the rows of `tools.jsonl`, in which tools of one domain, or of one server, are neighbors."""
    return [Row.model_validate_json(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]


def tool_of(row: Row) -> Tool:
    """Return the tool without parameters."""
    return Tool(name=row.name, description=row.description, input_schema={"type": "object"})


def read_examples() -> Examples:
    """Return all requests in `tools.jsonl` in languages that the model knows."""
    rows = read_rows()
    tools = list(map(tool_of, rows))
    model = minilm()
    asked = [
        (number, query, 1 if place < _PEOPLES_REQUESTS else 2)
        for number, row in enumerate(rows)
        for place, query in enumerate(row.requests)
        if model.knows(query)
    ]
    index = FieldedRanker(least_confidence=0)(tools)
    words = np.zeros((len(asked), len(tools)), dtype=np.float32)
    places = {tool.name: place for place, tool in enumerate(tools)}
    read = np.zeros((len(asked), _MAX_PIECES), dtype=np.int32)
    for number, (_, query, _) in enumerate(asked):
        for hit in index.search(query):
            words[number, places[hit.name]] = hit.score
        numbers = pieces(query)[:_MAX_PIECES]
        read[number, : len(numbers)] = numbers
    shares = np.array([share for *_, share in asked], dtype=np.float64)
    return Examples(
        texts=_unit(model.vectors([tool_text(tool) for tool in tools])),
        summaries=_unit(model.vectors([summary_text(tool) or tool_text(tool) for tool in tools])),
        pieces=read,
        shares=shares / shares.sum(),
        words=(words - words.mean(axis=1, keepdims=True)) / (words.std(axis=1, keepdims=True) + np.float32(1e-6)),
        tools=np.array([number for number, *_ in asked]),
    )


def _unit(vectors: Vectors) -> NDArray[np.float32]:
    return vectors.astype(np.float32) / np.float32(STEPS)
