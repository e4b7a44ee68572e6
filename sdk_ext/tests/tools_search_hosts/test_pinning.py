"""Which definitions may stand before a model, and which always do."""

from __future__ import annotations

from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.client import is_for_model
from mcp_types import Tool
from tools_search_hosts.names import MAX_PINNED, MAX_PINNED_PER_SERVER, is_pinned, pinned_within_bounds

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6) | st.sampled_from(["model", "app"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)


def tool(meta: Any) -> Tool:
    return Tool.model_validate({"name": "t", "inputSchema": {"type": "object"}, "_meta": meta})


@pytest.mark.parametrize(
    ("meta", "shown"),
    [
        (None, True),
        (dict[str, Any](), True),
        ({"ui": {"resourceUri": "ui://a/b"}}, True),
        ({"ui": {"visibility": ["model", "app"]}}, True),
        ({"ui": {"visibility": ["model"]}}, True),
        ({"ui": {"visibility": ["app"]}}, False),
        ({"ui": {"visibility": ["app", "app"]}}, False),
        ({"ui": {"visibility": []}}, False),
        ({"ui": {"visibility": ["Model"]}}, False),
        ({"ui": {"visibility": ["app", None]}}, False),
        ({"ui": {"visibility": ["model", 7]}}, True),
        # No visibility of MCP Apps: such a member hides nothing.
        ({"ui": {"visibility": "app"}}, True),
        ({"ui": {"visibility": {"app": True}}}, True),
        ({"ui": {"visibility": None}}, True),
        ({"ui": ["app"]}, True),
        ({"ui": "app"}, True),
        ({"ui/visibility": ["app"]}, True),
        ({"visibility": ["app"]}, True),
    ],
)
def test_a_tool_is_for_a_model_unless_its_visibility_leaves_the_model_out(meta: Any, shown: bool) -> None:
    assert is_for_model(tool(meta)) is shown


@given(ui=JSON, pin=JSON)
def test_no_value_of_a_server_makes_the_look_at_it_fail(ui: Any, pin: Any) -> None:
    looked_at = tool({"ui": ui, "anthropic/alwaysLoad": pin})
    visibility: Any = cast("dict[str, Any]", ui).get("visibility") if isinstance(ui, dict) else None
    assert is_for_model(looked_at) == (not isinstance(visibility, list) or "model" in visibility)
    assert is_pinned(looked_at) == (pin is True)


@given(st.lists(st.tuples(st.sampled_from("abcdefg"), st.integers()), max_size=80))
def test_the_first_pinned_tools_of_each_server_are_honored_up_to_a_bound_for_all(pinned: list[tuple[str, int]]) -> None:
    order = [(server, (server, place)) for place, (server, _) in enumerate(pinned)]
    kept = pinned_within_bounds(order)
    assert len(kept) <= MAX_PINNED
    for server in "abcdefg":
        own = [tool for asked, tool in order if asked == server]
        honored = [tool for tool in kept if tool[0] == server]
        assert honored == own[: len(honored)]
        assert len(honored) == min(len(own), MAX_PINNED_PER_SERVER) or len(kept) == MAX_PINNED
