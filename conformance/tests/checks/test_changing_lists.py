"""A server whose list changes all the time is not found wanting for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from tools_search_conformance.model import Run
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.wire.eras import MODERN

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Awaitable[Run]]


@pytest.mark.rotating
@pytest.mark.parametrize("pace", ["--seconds 0.3", "--seconds 0.3 --toggle", "--seconds 0.05", "--seconds 1 --http"])
async def test_no_check_blames_a_server_for_a_list_that_changes(pace: str, target: Command, judge: Judge):
    argv = target("changing", *pace.split())
    over = {"http_argv": argv} if "--http" in argv else {"argv": argv}
    run = await judge(profile="live", era=MODERN, **over)
    assert [(r.check, r.message) for r in run.of("fail", "warn", "advice", "error")] == []
    assert exit_status(run) in {0, 3}
    assert len(run.of("pass")) > 25


async def test_a_tool_that_a_new_process_lists_and_this_one_no_longer_does_is_no_fault_of_state(
    target: Command, judge: Judge
):
    argv = target("changing", "--messages", "164")  # so that it changes between a comparison and what that brings
    checks = "all-terms-match", "exact-name-first", "any-sequence"
    run = await judge(*checks, argv=argv, profile="live", era=MODERN)
    assert [(r.check, r.message) for r in run.of("fail", "warn", "error")] == []


async def test_a_refusal_that_changes_a_steady_list_is_found_in_a_live_server(target: Command, judge: Judge):
    argv = target("changing", "--seconds", "1000000", "--fault", "search-moves-a-tool")
    run = await judge("list-unchanged", argv=argv, profile="live", era=MODERN)
    assert [r.status for r in run.results] == ["fail"]


async def test_no_search_is_blamed_for_definitions_of_a_fixture_that_change_by_themselves(
    target: Command, judge: Judge
):
    argv = target("changing", "--seconds", "0.5", "--flicker")
    run = await judge("list-unchanged", "refusal-changes-nothing", argv=argv, era=MODERN)
    assert [(r.check, r.message) for r in run.of("fail", "warn", "error")] == []


async def test_a_server_whose_list_never_holds_is_told_so_once(target: Command, judge: Judge):
    checks = "subset-of-list", "definition-identity", "no-duplicates", "exact-name-first", "all-terms-match"
    argv = target("changing", "--seconds", "0.05")
    run = await judge(*checks, argv=argv, profile="live", era=MODERN)
    messages = {r.message for r in run.of("unverified") if "tools/list" in r.message}
    assert len(messages) == 1
    assert "keep the list the same for at least a few seconds" in messages.pop()
