"""What the wire types accept and refuse."""

from __future__ import annotations

from typing import Any

import pytest
from mcp_ext_tools_search import (
    EXTENSION_ID,
    METHOD,
    ClientSettings,
    HitMetadata,
    SearchToolsRequest,
    SearchToolsRequestParams,
    SearchToolsResult,
    ServerSettings,
)
from mcp_ext_tools_search.types import WHITE_SPACE
from pydantic import ValidationError


def _params(**members: Any) -> SearchToolsRequestParams:
    return SearchToolsRequestParams.model_validate({"query": "invoice", **members}, by_name=False)


@pytest.mark.parametrize(("limit", "read"), [(1, 1), (3.0, 3), (10**30, 10**30), (1e300, int(1e300))])
def test_a_limit_is_any_json_integer_from_one(limit: float, read: int) -> None:
    assert _params(limit=limit).limit == read


@pytest.mark.parametrize(
    "limit", [0, -1, 0.0, 2.5, True, False, "3", "", None, [], {}, float("inf"), float("nan"), -(10**30)]
)
def test_anything_else_is_no_limit(limit: object) -> None:
    with pytest.raises(ValidationError):
        _params(limit=limit)


@pytest.mark.parametrize("query", [None, 1, True, [], {}, b"invoice", "", " ", "\n\t\u2003\u3000\x85", "\ud800"])
def test_a_query_is_valid_text_that_is_not_blank(query: object) -> None:
    with pytest.raises(ValidationError):
        _params(query=query)


@pytest.mark.parametrize("query", ["\x00", "\x1c", "\u200b", "\u202e", "é" * 1024, "\U0001f4a5", "a\nb"])
def test_control_characters_and_marks_are_ordinary_input(query: str) -> None:
    assert _params(query=query).query == query


def test_white_space_is_the_unicode_property() -> None:
    assert len(WHITE_SPACE) == 25
    assert all(character.isspace() for character in WHITE_SPACE)


@pytest.mark.parametrize("cursor", [None, 1, [], "\udfff"])
def test_a_cursor_is_valid_text(cursor: object) -> None:
    with pytest.raises(ValidationError):
        _params(cursor=cursor)


def test_a_query_is_required() -> None:
    with pytest.raises(ValidationError):
        SearchToolsRequestParams.model_validate({}, by_name=False)


def test_unknown_members_are_ignored() -> None:
    assert _params(detail="full", _meta={"progressToken": 1}).model_dump(exclude_none=True, by_alias=True) == {
        "query": "invoice",
        "_meta": {"progressToken": 1},
    }
    assert ServerSettings.model_validate({"topics": [], "facets": 1}, by_name=False) == ServerSettings(topics=[])


def test_wire_names_are_camel_case() -> None:
    request = SearchToolsRequest(params=SearchToolsRequestParams(query="invoice", limit=3))
    assert request.model_dump(by_alias=True, exclude_none=True) == {
        "method": METHOD,
        "params": {"query": "invoice", "limit": 3},
    }
    assert ServerSettings(catalog_size=3, max_limit=5).to_wire() == {"catalogSize": 3, "maxLimit": 5}
    assert ServerSettings.model_validate({"catalog_size": 3}, by_name=False) == ServerSettings()
    assert ClientSettings().to_wire() == {}
    assert EXTENSION_ID.count("/") == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"catalogSize": -1},
        {"catalogSize": 1.5},
        {"catalogSize": None},
        {"catalogSize": True},
        {"topics": "billing"},
        {"topics": [1]},
        {"topics": None},
        {"maxLimit": 0},
        {"maxLimit": "50"},
        {"maxLimit": None},
    ],
)
def test_settings_members_have_their_type_or_are_left_out(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate(settings, by_name=False)


@pytest.mark.parametrize(
    "metadata",
    [
        {"score": 1.01},
        {"score": -0.1},
        {"score": "0.5"},
        {"score": True},
        {"score": None},
        {"score": float("nan")},
        {"matched": "name"},
        {"matched": [1]},
        {"matched": None},
        {"group": 7},
        {"group": None},
    ],
)
def test_hit_metadata_members_have_their_type_or_are_left_out(metadata: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        HitMetadata.model_validate(metadata, by_name=False)


def test_hit_metadata_keeps_what_it_knows() -> None:
    metadata = HitMetadata.model_validate({"score": 1, "matched": ["name"], "group": "billing", "tags": []})
    assert metadata.to_wire() == {"score": 1.0, "matched": ["name"], "group": "billing"}


TOOL: dict[str, Any] = {"name": "send_invoice", "inputSchema": {"type": "object"}}
INVALID_RESULTS: list[dict[str, Any]] = [
    {},
    {"tools": None},
    {"tools": {}},
    {"tools": [{}]},
    {"tools": [{"name": "send_invoice"}]},
    {"tools": [{"name": 7, "inputSchema": {}}]},
    {"tools": [], "nextCursor": None},
    {"tools": [], "nextCursor": 2},
    {"tools": [], "resultType": "input_required"},
    {"tools": [], "resultType": None},
    {"tools": [], "ttlMs": -1},
    {"tools": [], "ttlMs": "60"},
    {"tools": [], "ttlMs": 1.5},
    {"tools": [], "ttlMs": True},
    {"tools": [], "cacheScope": "shared"},
]


@pytest.mark.parametrize("result", INVALID_RESULTS)
def test_a_result_that_breaks_the_draft_is_refused(result: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SearchToolsResult.model_validate(result, by_name=False)


def test_a_result_is_read_whole() -> None:
    wire = {
        "tools": [TOOL],
        "nextCursor": "",
        "ttlMs": 60.0,
        "cacheScope": "public",
        "resultType": "complete",
        "total": 7,
    }
    result = SearchToolsResult.model_validate(wire, by_name=False)
    assert (result.next_cursor, result.ttl_ms, result.cache_scope) == ("", 60, "public")
    assert [tool.name for tool in result.tools] == ["send_invoice"]
