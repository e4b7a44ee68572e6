"""Slow servers: several requests at a time where a server bears them, one by one where it does not."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
from tools_search_conformance.model import CELLS, Run
from tools_search_conformance.wire.eras import MODERN

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Awaitable[Run]]

CHECKS: Final = ("query-unusual-characters", "limit-invalid", "pages-complete", "exact-name-first", "all-terms-match")


def seconds_waited(run: Run, out: Path, method: str = "") -> dict[str, float]:
    """Return how many seconds the requests of each cell, or those of one method, took, each on its own account."""
    waited: dict[str, float] = {}
    for cell in run.cells:
        lines = (out / "wire" / f"{cell.name}.jsonl").read_text(encoding="utf-8").splitlines()
        exchanges = [each for each in map(json.loads, lines) if method in each.get("sent", {}).get("method", "")]
        waited[cell.name] = sum(each.get("milliseconds", 0) for each in exchanges) / 1000
    return waited


def not_green(run: Run) -> list[tuple[str, str]]:
    return [(result.check, result.message) for result in run.of("fail", "warn", "unverified", "error")]


@pytest.mark.rotating
async def test_a_slow_server_has_several_searches_under_way_and_both_eras(
    target: Command, judge: Judge, tmp_path: Path
):
    run = await judge(*CHECKS, argv=target("miniature", "--variant", "slow"))
    assert not_green(run) == []
    waited = seconds_waited(run, tmp_path / "report")
    assert [*waited] == ["stdio-2026-07-28", "stdio-2025-11-25"]
    assert sum(waited.values()) > 2.5 * run.seconds
    assert [result.cell for result in run.results] == sorted((r.cell for r in run.results), key=CELLS.index), "by cell"


async def test_one_that_is_slow_to_search_another_list_has_several_of_these_searches_under_way(
    target: Command, judge: Judge, tmp_path: Path
):
    run = await judge("query-unusual-characters", argv=target("miniature", "--variant", "slow-prompts"), era=MODERN)
    assert not_green(run) == []
    assert sum(seconds_waited(run, tmp_path / "report", "prompts/search").values()) > 1.5 * run.seconds


@pytest.mark.parametrize("variant", ["slow-and-few-at-once", "slow-and-one-after-the-other"])
async def test_one_that_bears_few_searches_is_blamed_for_nothing(
    variant: str, target: Command, judge: Judge, tmp_path: Path
):
    run = await judge(*CHECKS[:2], argv=target("miniature", "--variant", variant), era=MODERN)
    assert not_green(run) == []
    if variant == "slow-and-one-after-the-other":  # nearly all of its searches are sent one by one
        assert sum(seconds_waited(run, tmp_path / "report").values()) < 1.2 * run.seconds


async def test_a_fault_of_a_slow_server_is_found_by_the_same_case(target: Command, judge: Judge):
    found = list[tuple[str, str | None]]()
    for variant in ("none", "slow"):
        argv = target("miniature", "--variant", variant, "--fault", "limit-string-served")
        run = await judge("limit-invalid", argv=argv, era=MODERN)
        found += [(result.message, result.evidence.case) for result in run.of("fail")]
    assert len(found) == 2
    assert found[0] == found[1]
