"""FastMCP's search transforms: two tools whatever the catalog, and found definitions in the answer of one of them."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.context.catalog import Catalog, definition
from benchmarks.context.requests import Request, answered, called, user
from benchmarks.context.stand_in import StandIn
from benchmarks.context.ways.interface import Replay

__all__ = ["fastmcp_bm25", "fastmcp_regex"]

_SEARCH = "search_tools"


def fastmcp_bm25(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Search by `BM25SearchTransform`, with the text as it is."""
    return _opened(catalog, "BM25SearchTransform", limit, lambda text: {"query": text})


def fastmcp_regex(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Search by `RegexSearchTransform`, with a pattern for any word of the text: the first tools match, unranked."""
    return _opened(catalog, "RegexSearchTransform", limit, lambda text: {"pattern": _any_word(text)})


@asynccontextmanager
async def _opened(
    catalog: Catalog, transform: str, limit: int | None, arguments: Callable[[str], dict[str, str]]
) -> AsyncGenerator[Replay]:
    framework: Any = import_module("fastmcp")
    transforms: Any = import_module("fastmcp.server.transforms.search")
    options = {} if limit is None else {"max_results": limit}
    server = framework.FastMCP("catalog")
    make_tool = import_module("fastmcp.tools").Tool
    for name, key in catalog.prefixed.items():
        tool = catalog.tools[key]
        server.add_tool(make_tool(name=name, description=tool.description, parameters=tool.input_schema))
    server.add_transform(getattr(transforms, transform)(**options))

    async def replay(model: StandIn) -> None:
        messages = [user(model.task.text)]
        found: set[str] = set()
        searches = 0
        while True:
            available = frozenset(catalog.prefixed[name] for name in found)
            text = model.search_for(Request(tools, messages, available, searches))
            if text is None:
                return
            result = await client.call_tool(_SEARCH, arguments(text))
            answer = "".join(block.text for block in result.content)
            found |= {one["name"] for one in json.loads(answer or "[]")}
            messages = [*messages, called(_SEARCH, arguments(text)), answered(answer)]
            searches += 1

    async with framework.Client(server) as client:
        tools = [definition(tool.name, tool) for tool in await client.list_tools()]
        yield replay


def _any_word(text: str) -> str:
    """Return a pattern of at most the 1,000 characters that the transform takes."""
    words = dict.fromkeys(re.findall(r"\w{4,}", text.casefold()))
    pattern = "|".join(words) or re.escape(text)
    return pattern if len(pattern) <= 1_000 else pattern[:1_000].rpartition("|")[0]
