"""The answer to a name that no tool has."""

from __future__ import annotations

import time

from mcp_types import INVALID_PARAMS
from tools_search_server.base.unknown_tool import unknown_tool


def test_the_closest_names_are_named_best_first() -> None:
    error = unknown_tool("Create_isue", ["create_issue", "create_issues", "delete_file", "x"])
    assert error.code == INVALID_PARAMS
    assert error.data["closest"] == ["create_issue", "create_issues"]
    assert "the closest are create_issue, create_issues" in error.message


def test_a_name_like_no_other_gets_advice() -> None:
    error = unknown_tool("q" * 10_000, ["create_issue"])
    assert error.data["closest"] == []
    assert "list or search" in error.message
    assert len(error.message) < 300


def test_a_large_catalog_is_no_way_to_keep_a_server_busy() -> None:
    known = [f"server{n % 200}__list_customer_invoice_files_{n}" for n in range(10_000)]
    began = time.process_time()
    error = unknown_tool("server7__list_customer_invoice_file", known)
    assert time.process_time() - began < 1
    assert error.data["closest"]
