"""One order out of an index and other servers: whole, without repetition, with scores of one scale."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from mcp_ext_tools_search.ranking import Hit
from mcp_ext_tools_search.ranking.simple import SimpleIndex
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_server.base.limits import Limits
from tools_search_server.catalog.catalog_file import CatalogFile
from tools_search_server.catalog.catalog_server import Catalog, catalog_server
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.gateway.search import fused
from tools_search_server.programs.gateway import gateway_program


def made(prefix: str, count: int) -> tuple[list[Hit], dict[str, Tool]]:
    names = [f"{prefix}__send_mail_{number}" for number in range(count)]
    hits = [Hit(name, 1 - place / (count + 1)) for place, name in enumerate(names)]
    return hits, {name: Tool(name=name, description="Sends mail", input_schema={"type": "object"}) for name in names}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 130), st.integers(1, 100), st.integers(0, 100), st.integers(1, 40), st.booleans())
def test_every_hit_is_there_once_on_pages_of_any_size_and_never_above_a_better_one(
    local: int, first: int, second: int, size: int, is_exact: bool
) -> None:
    parts = [made(prefix, count) for prefix, count in (("own", local), ("a", first), ("b", second))]
    tools = {name: tool for _, known in parts for name, tool in known.items()}
    own, *others = [hits for hits, _ in parts]
    query = "a__send_mail_0" if is_exact else "send mail"
    answer = fused(query, own, [hits for hits in others if hits], tools, FieldedRanker())
    pages = [hit for start in range(0, len(answer), size) for hit in answer[start : start + size]]
    scores = [hit.score for hit in pages]
    assert sorted(hit.name for hit in pages) == sorted(tools)
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert not is_exact or pages[0].name == query


class _Noted(SimpleIndex):
    """Notes which part of the catalog was searched."""

    searched: list[Collection[str] | None]

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        self.searched.append(visible)
        return super().search(query, visible=visible)


class _NotingRanker:
    def __init__(self) -> None:
        self.searched: list[Collection[str] | None] = []

    def __call__(self, tools: Sequence[Tool], /) -> _Noted:
        index = _Noted(tools)
        index.searched = self.searched
        return index


# `SimpleRanker` makes a new index for each search in a part, and other rankers may not support parts at all.
@pytest.mark.anyio
@pytest.mark.parametrize(("toolset", "is_part"), [(None, False), ({"raw": True}, False), ({"raw": ["plain"]}, True)])
async def test_a_ranker_is_asked_for_a_part_only_by_callers_who_do_not_see_everything(
    tmp_path: Path, raw: Any, toolset: Any, is_part: bool
) -> None:
    ranker, file = _NotingRanker(), tmp_path / "mcp.json"
    (tmp_path / "grown").write_text("other")
    document = {"mcpServers": {"raw": raw("growing", tmp_path)}}
    file.write_text(json.dumps(document if toolset is None else document | {"toolsets": {"some": toolset}}))
    options = GatewayOptions(20, 20, None if toolset is None else "some")
    program = gateway_program(file, Limits(ranker=ranker), options)
    with anyio.fail_after(60):
        async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as client:
            found = await search_tools(client, "raw")
            program.on_stop()
    assert {tool.name for tool in found.tools} == {"raw__plain"} | (set() if is_part else {"raw__other"})
    assert [visible is not None for visible in ranker.searched] == [is_part]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_catalog_server_searches_all_of_its_tools_as_a_whole(mode: Any) -> None:
    ranker, tools = _NotingRanker(), [*made("own", 3)[1].values()]
    server = catalog_server(Catalog(CatalogFile(tools=tools, hidden={"": ["elsewhere"]}), Limits(ranker=ranker)))
    with anyio.fail_after(60):
        async with Client(server, mode=mode, extensions=[TOOLS_SEARCH]) as client:
            assert len((await search_tools(client, "mail")).tools) == 3
    assert ranker.searched == [None]
