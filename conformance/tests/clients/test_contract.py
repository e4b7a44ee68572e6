"""The driver contract: its page, its schema and what the suite takes agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_conformance.clients.driver import DriverError, contract_schema, read_answer
from tools_search_conformance.model import DriverFeature

PAGE = (Path(__file__).parents[2] / "DRIVER.md").read_text(encoding="utf-8")
SCHEMA = contract_schema()
HTTP = {"transport": "http", "url": "http://127.0.0.1:8000/x/mcp"}
REQUESTS: list[dict[str, Any]] = [
    {"op": "frobnicate-00ff"},
    {"op": "hello", "suite": "s", "contract": 1},
    {"op": "connect", "target": HTTP, "era": "2026-07-28"},
    {"op": "connect", "target": {"transport": "stdio", "command": "c", "args": [], "env": {}}, "era": "2025-11-25"},
    {"op": "federate", "targets": {"a": HTTP}, "era": "2026-07-28"},
    {"op": "search", "query": "q", "limit": 3},
    {"op": "search_all", "query": "q"},
    {"op": "list_tools"},
    {"op": "call", "name": "n", "arguments": {}},
    {"op": "authorize", "as": "alice"},
    {"op": "begin", "as": "first", "query": "q"},
    {"op": "await", "of": "first"},
    {"op": "cancel", "of": "first"},
    {"op": "close"},
    {"op": "bye"},
]


def accepts(shape: str, value: Any) -> bool:
    wanted = {"$ref": f"#/$defs/{shape}", "$defs": SCHEMA["$defs"]}
    return Draft202012Validator(wanted, registry=Registry()).is_valid(value)  # pyright: ignore[reportUnknownMemberType] - untyped


def test_the_schema_is_one():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["op"])
def test_every_request_of_the_suite_is_one_of_the_contract(request_: dict[str, Any]):
    assert accepts("request", {"id": 1, **request_})
    assert not accepts("request", {"id": "1", **request_})


def test_a_request_that_lacks_a_member_is_none():
    assert not accepts("request", {"id": 1, "op": "search"})
    assert not accepts("request", {"id": 1, "op": "connect", "target": {"transport": "http"}, "era": "2026-07-28"})


def test_the_page_names_every_operation_and_its_example_is_valid():
    named = set(re.findall(r"^\| `([a-z_]+)` \|", PAGE, re.MULTILINE)) - {"op", "stdio", *get_args(DriverFeature)}
    of_features = {"authorize", "federate", "begin", "await", "cancel"}
    assert named | of_features == SCHEMA["$defs"]["ok"].keys() - {"description"}
    shown = re.search(r"```text\n(.*?)\n(.*?)\n```", PAGE)
    assert shown is not None
    assert accepts("request", json.loads(shown[1]))
    assert read_answer("search", json.loads(shown[2])).names == ["send_invoice"]


@pytest.mark.parametrize(
    ("op", "answer"),
    [
        ("search", {"id": 1}),
        ("search", {"id": 1, "ok": {}}),
        ("search", {"id": 1, "ok": {"tools": [{"title": "nameless"}]}}),
        ("search", {"id": 1, "ok": {"tools": []}, "unsupported": True}),
        ("search", {"id": 1, "error": "no"}),
        ("search", {"id": 1, "unsupported": False}),
        ("hello", {"id": 1, "ok": {"sdk": "x"}}),
        ("call", {"id": 1, "ok": {}}),
    ],
)
def test_an_answer_that_is_not_of_the_contract_is_told(op: str, answer: dict[str, Any]):
    with pytest.raises(DriverError, match=f"the driver's answer to `{op}` is not one of DRIVER.md"):
        read_answer(op, answer)


def test_what_a_driver_says_of_itself_may_stand_beside_the_id():
    told = read_answer("hello", {"id": 2, "sdk": "x", "version": "1", "features": []})
    assert told.ok == {"sdk": "x", "version": "1", "features": []}


def test_what_a_driver_told_can_be_read():
    assert read_answer("call", {"id": 1, "ok": {"result": {}}}).describe() == "success"
    assert read_answer("call", {"id": 1, "unsupported": True}).describe() == "unsupported"
    assert read_answer("call", {"id": 1, "error": {"message": "gone"}}).describe() == "the error 'gone'"
