"""What of a search is whose work: each part alone, on the processor of this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from time import process_time
from typing import Any

from mcp_ext_tools_search.types import SearchToolsResult
from mcp_types import JSONRPCResponse, Tool, jsonrpc_message_adapter
from tools_search_ranking import DEFAULT_LEAST_CONFIDENCE, FieldedRanker, floored

from benchmarks.endtoend.connections import Connection
from benchmarks.endtoend.requests import LIMITS, search_of, ways_of

__all__ = ["Parts", "parts"]


@dataclass(frozen=True)
class Parts:
    """Milliseconds of the processor, medians over searches for ten tools."""

    index: float
    """The index finds, orders and names all, and makes ten hits."""

    written: float
    """The SDK's server writes the answer as JSON for stdio."""

    read: float
    """The SDK's client reads that JSON."""

    read_raw: float
    """`json.loads` reads it."""

    checked: float
    """The client checks the definitions."""


async def parts(connection: Connection, tools: Sequence[Tool], queries: Sequence[str]) -> Parts:
    """Measure the parts of these searches, with the answers of a server to them."""
    index = floored(FieldedRanker(least_confidence=DEFAULT_LEAST_CONFIDENCE))(tools)
    most = LIMITS[-1]
    asked = [ways_of(queries)[search_of(most)](turn) for turn in range(len(queries))]
    results = [dict((await connection.ask(*request))[0]) for request in asked]
    responses = [JSONRPCResponse(jsonrpc="2.0", id=1, result=result) for result in results]
    lines = [json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}) for result in results]
    return Parts(
        index=_middle(lambda query: list(index.search(query)[:most]), queries),
        written=_middle(lambda one: one.model_dump_json(by_alias=True, exclude_unset=True), responses),
        read=_middle(lambda line: jsonrpc_message_adapter.validate_json(line, by_name=False), lines),
        read_raw=_middle(json.loads, lines),
        checked=_middle(lambda result: SearchToolsResult.model_validate(result, by_name=False), results),
    )


def _middle(work: Callable[[Any], object], on: Sequence[Any]) -> float:
    took: list[float] = []
    for one in [*on[: len(on) // 10], *on]:  # the first tenth twice, for what is done for the first time
        began = process_time()
        work(one)
        took.append(process_time() - began)
    return 1000 * median(took[len(on) // 10 :])
