"""The check that a search changes no listing says what changed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.judge import judge_server

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("fault", "difference"),
    [
        ("search-moves-a-tool", "it has a different order: '"),
        ("search-marks-listing", "with a different "),
        ("search-enables-a-tool", "it also has '"),
    ],
)
async def test_it_says_what_differs(
    fault: str, difference: str, options: Callable[..., Options], target: Callable[..., Any]
):
    run = await judge_server(options("list-unchanged", argv=target("miniature", "--fault", fault), era="2026-07-28"))
    (result,) = run.results
    assert result.status == "fail"
    assert difference in result.message
