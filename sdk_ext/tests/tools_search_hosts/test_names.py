"""Names over many servers, for any names of servers and tools."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from tools_search_hosts import MAX_NAME_LENGTH, own_name, qualified_name, split_candidates, without_digest
from tools_search_hosts.names import tool_among_servers

ANY_TEXT = st.text(min_size=1, max_size=90)
LOOKALIKES = st.text(alphabet="ab3_- ./é", min_size=1, max_size=8)
ORDINARY = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,9}(-[a-z]{1,4})?", fullmatch=True)
NAMES = ANY_TEXT | LOOKALIKES | ORDINARY
PAIRS = st.tuples(NAMES, NAMES)


@given(st.tuples(NAMES | st.just(""), NAMES | st.just("")))
@example(("3d", "render"))
@example(("", "3d_render"))
@example(("-", "-"))
@example(("", ""))
@example(("\ud800", "\n"))
def test_a_name_is_valid_for_every_model_provider(pair: tuple[str, str]) -> None:
    assert re.fullmatch(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}", qualified_name(*pair))


@st.composite
def _with_imitators(draw: st.DrawFn) -> set[tuple[str, str]]:
    """Pairs, and others that spell out the names of the first."""
    pairs = draw(st.sets(PAIRS, min_size=1, max_size=15))
    imitators = {
        (server, rest) for pair in pairs for server, _, rest in [qualified_name(*pair).partition("__")] if rest
    }
    cut = {
        (name[:place], name[place + 2 :])
        for name in (qualified_name(*pair) for pair in sorted(pairs))
        for place in range(1, len(name) - 2)
        if name[place : place + 2] == "__"
    }
    return {pair for pair in pairs | imitators | cut if all(pair)}


@given(_with_imitators())
def test_no_two_tools_get_the_same_name_even_where_one_imitates_the_other(pairs: set[tuple[str, str]]) -> None:
    assert len({qualified_name(*pair) for pair in pairs}) == len(pairs)


@given(st.sets(NAMES, min_size=1, max_size=15))
def test_the_tools_of_a_server_without_a_name_are_told_apart_as_well(tools: set[str]) -> None:
    tools |= {qualified_name("", tool) for tool in tools}
    assert len({qualified_name("", tool) for tool in tools}) == len(tools)


@given(PAIRS, NAMES)
def test_what_is_read_off_a_name_is_what_its_server_calls_the_tool(pair: tuple[str, str], other: str) -> None:
    name = qualified_name(*pair)
    assert own_name(pair[0], name) in (pair[1], None)
    own = own_name(other, name)
    assert own is None or qualified_name(other, own) == name


@given(ORDINARY, ORDINARY)
def test_a_name_that_is_valid_as_it_is_stays_as_it_is(server: str, tool: str) -> None:
    assert qualified_name(server, tool) == f"{server}__{tool}"
    assert qualified_name("", tool) == tool
    assert own_name(server, f"{server}__{tool}") == own_name("", tool) == tool


@given(PAIRS, st.sets(NAMES, max_size=5))
def test_a_name_leads_back_to_its_server(pair: tuple[str, str], others: set[str]) -> None:
    server, tool = pair
    name = qualified_name(server, tool)
    readings = split_candidates(name, [server, *others])
    rests = [rest for named, rest in readings if named == server]
    assert any(rest == tool or without_digest(rest) != rest for rest in rests)


@pytest.mark.parametrize(
    ("pair", "start"),
    [
        (("3d", "render"), "_3d__render_"),
        (("", "3d render"), "_3d_render_"),
        (("s" * 40, "a.b"), f"{'s' * 40}__a_b_"),
        (("s" * 80, "list_files"), f"{'s' * 24}__list_files_"),
        (("files", "t" * 300), f"files__{'t' * 44}_"),
        (("天気", "今日"), "_" * 7),
    ],
)
def test_an_altered_name_still_shows_the_server_and_the_tool(pair: tuple[str, str], start: str) -> None:
    assert re.fullmatch(rf"{re.escape(start)}[0-9a-f]{{12}}", qualified_name(*pair))


def test_a_tool_keeps_its_own_name_as_its_title_if_models_must_know_it_by_another() -> None:
    schema = {"type": "object"}
    for server in ("", "shop"):
        named = {"own": Tool(name="创建发票", input_schema=schema)}
        named["titled"] = named["own"].model_copy(update={"title": "Create an invoice"})
        named["valid"] = Tool(name="create_invoice", input_schema=schema)
        titles = {kind: tool_among_servers(server, tool).title for kind, tool in named.items()}
        assert titles == {"own": "创建发票", "titled": "Create an invoice", "valid": None}


def test_a_server_among_others_is_the_group_of_its_tools_and_labels_of_its_own_groups_do_not_stay() -> None:
    own = {"group": "billing", "category": "sales", "categoryDescription": "Sales", "score": 1, "matched": ["name"]}
    kept = {"com.example/label": "kept"}
    tool = Tool(name="create_invoice", input_schema={"type": "object"}, _meta={EXTENSION_ID: own | kept, "other": 1})
    meta = {"other": 1, EXTENSION_ID: kept | {"group": "shop", "category": "billing"}}
    assert tool_among_servers("shop", tool).meta == meta
    assert tool_among_servers("", tool).meta == tool.meta
