"""One order out of an index and other servers: whole, without repetition, with scores of one scale."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking import Hit
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_server.gateway.search import fused


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
