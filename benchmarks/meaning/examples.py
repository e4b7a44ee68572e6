"""The requests that the map is fitted to, and how words and the model alone rank the tools for them."""

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
from tools_search_ranking.semantic.minilm import minilm

_FILE: Final = Path(__file__).with_name("tools.jsonl")


class _Row(BaseModel):
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

    queries: NDArray[np.float32]
    """The vectors that the model makes for the requests."""

    words: NDArray[np.float32]
    """A row for each request: the tools' scores by words, as standard scores."""

    tools: NDArray[np.intp]
    """The tool that serves each request."""


def read_examples() -> Examples:
    """Return all requests in `tools.jsonl` that the model knows the language of."""
    rows = [_Row.model_validate_json(line) for line in _FILE.read_text(encoding="utf-8").splitlines()]
    tools = [Tool(name=row.name, description=row.description, input_schema={"type": "object"}) for row in rows]
    model = minilm()
    asked = [(number, query) for number, row in enumerate(rows) for query in row.requests if model.knows(query)]
    index = FieldedRanker(least_confidence=0)(tools)
    words = np.zeros((len(asked), len(tools)), dtype=np.float32)
    places = {tool.name: place for place, tool in enumerate(tools)}
    for row, (_, query) in zip(words, asked, strict=True):
        for hit in index.search(query):
            row[places[hit.name]] = hit.score
    return Examples(
        texts=_unit(model.vectors([tool_text(tool) for tool in tools])),
        summaries=_unit(model.vectors([summary_text(tool) or tool_text(tool) for tool in tools])),
        queries=_unit(model.vectors([query for _, query in asked])),
        words=standard_scores(words)[0],
        tools=np.array([number for number, _ in asked]),
    )


def standard_scores(scores: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return how many standard deviations each score of a row is above the row's mean, and the deviations."""
    spread = scores.std(axis=1, keepdims=True) + np.float32(1e-6)
    return (scores - scores.mean(axis=1, keepdims=True)) / spread, spread


def _unit(vectors: Vectors) -> NDArray[np.float32]:
    return vectors.astype(np.float32) / np.float32(STEPS)
