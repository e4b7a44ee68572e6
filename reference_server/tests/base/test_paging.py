"""Pages of a listing in the form of each era."""

from __future__ import annotations

import pytest
from mcp import MCPError
from mcp_types import INVALID_PARAMS, Tool
from tools_search_server.base.paging import ToolPages

MODERN, LEGACY = "2026-07-28", "2025-11-25"


def tools(*names: str) -> list[Tool]:
    return [Tool(name=name, input_schema={"type": "object"}) for name in names]


def walk(pages: ToolPages, version: str) -> list[list[str]]:
    walked: list[list[str]] = []
    cursor: str | None = None
    while True:
        page = pages.page(cursor, version)
        walked.append([tool["name"] for tool in page["tools"]])
        if (cursor := page.get("nextCursor")) is None:
            return walked


@pytest.mark.parametrize(("names", "expected"), [("", [""]), ("a", ["a"]), ("ab", ["ab"]), ("abc", ["ab", "c"])])
def test_pages_hold_every_tool_once_in_order(names: str, expected: list[str]) -> None:
    assert ["".join(page) for page in walk(ToolPages(tools(*names), 2), MODERN)] == expected


def test_large_definitions_make_smaller_pages_that_still_end() -> None:
    listing = [Tool(name=name, description="x" * 500_000, input_schema={"type": "object"}) for name in "abc"]
    listing.append(Tool(name="d", description="x" * 950_000, input_schema={"type": "object"}))
    assert walk(ToolPages(listing, 100), MODERN) == [["a"], ["b"], ["c"], ["d"]]


def test_a_definition_of_the_newer_revision_leaves_no_gap_in_the_pages_of_the_older(
    caplog: pytest.LogCaptureFixture,
) -> None:
    listing = tools(*"abcd")
    listing[1] = listing[1].model_copy(update={"output_schema": {"type": "array"}})
    pages = ToolPages(listing, 2)
    assert walk(pages, MODERN) == [["a", "b"], ["c", "d"]]
    with caplog.at_level("INFO"):
        assert walk(pages, LEGACY) == [["a", "c"], ["d"]]
    assert "2025-11-25, in which they are invalid: ['b']" in caplog.text


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_the_wire_form_holds_what_the_pages_show_and_is_made_once(version: str) -> None:
    whole = ToolPages([*tools("a", "c"), Tool(name="b", input_schema={"type": "object"}, description="B")], 2)
    part = whole.part({"b", "c"})
    for pages in (whole, part):
        shown = [name for page in walk(pages, version) for name in page]
        assert list(pages.wire(version)) == shown
        assert pages.wire(version) is pages.wire(version)
    assert part.wire(version)["b"] is whole.wire(version)["b"]
    assert whole.wire(version)["b"] == {"name": "b", "description": "B", "inputSchema": {"type": "object"}}


def test_a_cursor_holds_over_changes_elsewhere_and_on_other_replicas() -> None:
    cursor = ToolPages(tools(*"abc"), 2).page(None, MODERN)["nextCursor"]
    changed = ToolPages(tools(*"xabc"), 2)
    assert [tool["name"] for tool in changed.page(cursor, MODERN)["tools"]] == ["c"]


@pytest.mark.parametrize("cursor", ["", "2", "after-000000000000000000000000"])
def test_a_cursor_that_this_listing_did_not_give_is_refused(cursor: str) -> None:
    with pytest.raises(MCPError) as refused:
        ToolPages(tools(*"abc"), 2).page(cursor, MODERN)
    assert refused.value.code == INVALID_PARAMS
    assert refused.value.data["field"] == "cursor"


@pytest.mark.parametrize("version", [MODERN, LEGACY])
def test_a_listing_writes_out_only_what_the_one_before_it_does_not_have(version: str) -> None:
    before = ToolPages(tools("a", "b", "c"), 2)
    old = before.wire(version)
    new = ToolPages([*before.tools[1:], *tools("a")], 2, after=before).wire(version)
    assert [(name, new[name] is old[name]) for name in new] == [("b", True), ("c", True), ("a", False)]
    assert new == old


def test_only_a_part_has_names_to_search_for() -> None:
    whole = ToolPages(tools(*"abc"), 2)
    assert whole.part({"a", "b", "c", "elsewhere"}) is whole
    assert whole.names_in(whole) is None
    assert whole.part({"b", "elsewhere"}).names_in(whole) == {"b"}
    # All of what was there before is only a part of what is there now.
    assert whole.names_in(ToolPages(tools(*"abcd"), 2, after=whole)) == {"a", "b", "c"}
