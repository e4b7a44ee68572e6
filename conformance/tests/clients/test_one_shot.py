"""Clients after the contract of the official suite: what they send is judged, what nobody hears is skipped."""

from __future__ import annotations

import sys
from collections.abc import Callable

import anyio
import pytest
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.model import Run
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Build = Callable[..., Options]
HEARD = {
    "advertisement-not-object", "advertisement-either-place", "busy-not-listed", "refused-cursor-once",
    "settings-unknown-members", "settings-malformed", "never-probes", "declares-in-every-request",
    "declares-in-initialize", "query-repeated", "empty-page-not-end", "empty-cursor-followed",
    "fallback-not-advertised", "fallback-after-refusal", "fallback-after-invalid-result", "http-method-header",
    "http-query-not-in-headers", "cursor-verbatim", "last-page-ends", "request-ids",
    "request-params", "large-catalog-searched", "cursor-loop",
}  # fmt: skip


def rules(run: Run, *statuses: str) -> set[str]:
    return {result.check.removeprefix("tools-search-client-") for result in run.results if result.status in statuses}


async def test_what_a_client_sends_is_judged_and_the_rest_skipped(target: Command, client_options: Build):
    with anyio.fail_after(120):
        run = await judge_client(client_options(argv=target("one_shot_client"), one_shot=True))
    assert rules(run, "pass") == HEARD
    assert rules(run, "fail", "warn", "advice", "unverified", "error") == set()
    assert {cell.name for cell in run.cells} == {"http-2026-07-28", "http-2025-11-25"}
    assert exit_status(run) == 0


async def test_a_fault_that_shows_on_the_wire_is_found(target: Command, client_options: Build):
    argv = target("one_shot_client", "--fault", "empty-cursor-ends")
    with anyio.fail_after(60):
        run = await judge_client(client_options("*cursor*", "query-*", argv=argv, one_shot=True))
    assert rules(run, "fail", "warn", "advice", "unverified", "error") == {"empty-cursor-followed"}


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import time; time.sleep(60)", "did not end within"),
        ("while True: print('x' * 65536)", "without end"),
        ("pass", "did not open the connection"),
    ],
)
async def test_a_client_that_is_none_is_not_judged(program: str, reason: str, client_options: Build):
    options = client_options(argv=(sys.executable, "-c", program), one_shot=True, timeout=2)
    with anyio.fail_after(60), pytest.raises(TargetError, match=reason):
        await judge_client(options)
