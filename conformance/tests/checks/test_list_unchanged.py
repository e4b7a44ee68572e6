"""The check that a search changes no listing says what changed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tools_search_conformance.model import Run

pytestmark = pytest.mark.anyio

Judge = Callable[..., Awaitable[Run]]


@pytest.mark.parametrize(
    ("fault", "difference"),
    [
        ("search-moves-a-tool", "it has a different order: '"),
        ("search-marks-listing", "with a different "),
        ("search-enables-a-tool", "it also has '"),
    ],
)
async def test_it_says_what_differs(fault: str, difference: str, judge: Judge, target: Callable[..., Any]):
    run = await judge("list-unchanged", argv=target("miniature", "--fault", fault), era="2026-07-28")
    (result,) = run.results
    assert result.status == "fail"
    assert difference in result.message


async def test_an_order_that_changes_without_a_search_is_not_blamed_on_one(judge: Judge, target: Callable[..., Any]):
    argv = target("miniature", "--variant", "list-in-another-order-now-and-then")
    run = await judge("list-unchanged", argv=argv, era="2026-07-28")
    assert [(result.check, result.message) for result in run.of("fail", "error")] == []
