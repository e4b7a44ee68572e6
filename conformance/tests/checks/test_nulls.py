"""Servers that are none end in their verdict, soon and with bounded memory, and pass next to nothing."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import pytest
from tools_search_conformance.model import SERVER_PREFIX, Run
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Awaitable[Run]]
OPENED: Final = {"advertised", "advertised-legacy-both", "settings-shape"}
SPEAKS: Final = {"response-shape", "stdin-closed-exits", "stdout-messages-only", "valid-json"}
FINDS_NOTHING: Final = {
    "busy-refusal", "cursor-nonempty", "limit-integral-float", "list-unchanged", "no-match-empty", "pages-end",
    "served-where-advertised",
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("refuse_all", "error -32601"),
        ("empty_all", "supportedVersions"),
        ("echo", "supportedVersions"),
        ("versions_by_number", 'its supportedVersions: {"0":"2026-07-28"}'),
        ("mute", "no response within"),
        ("exit", "exit status 7"),
        ("garbage", "no response within"),
        ("flood", "a line of more than"),
        ("deep", "no response within"),
    ],
)
async def test_what_does_not_speak_the_protocol_is_not_judged(
    kind: str, reason: str, target: Command, options: Callable[..., Options]
):
    chosen = options(argv=target("nulls", kind), timeout=1, start_timeout=3)
    with anyio.fail_after(60), pytest.raises(TargetError, match=reason) as found:
        await judge_server(chosen)
    assert str(found.value).startswith("there is nothing to judge: ")
    assert len(str(found.value)) < 600
    verdict = json.loads((chosen.out / "report.json").read_text(encoding="utf-8"))["verdict"]
    assert (verdict["word"], verdict["exitStatus"]) == ("NO VERDICT", 3)
    assert reason in json.dumps(verdict, ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("refuse_all", "-32601"), ("redirect", "HTTP 302"), ("html", "not JSON"), ("endless", "no resp")],
)
async def test_what_does_not_speak_it_over_http_is_not_judged_either(
    kind: str, reason: str, target: Command, options: Callable[..., Options]
):
    chosen = options(http_argv=target("nulls", kind, "--http"), timeout=1, start_timeout=3)
    with anyio.fail_after(60), pytest.raises(TargetError, match=reason):
        await judge_server(chosen)


@pytest.mark.parametrize("over", ["argv", "http_argv"])
async def test_the_author_of_a_server_that_cannot_list_reads_why_it_could_not(
    over: str, target: Command, options: Callable[..., Options]
):
    http = ["--http"] if over == "http_argv" else []
    chosen = options(**{over: target("nulls", "refuse_list", *http)}, timeout=5, start_timeout=5)
    with anyio.fail_after(60), pytest.raises(TargetError) as found:
        await judge_server(chosen)
    refused = "tools/list got error -32603 (Internal error)"
    logged = "it logged: ValueError: tools.45.outputSchema.type Field required at list"
    assert f"it could not list its tools: {refused}; {logged}" in str(found.value)


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("kind", "passed"),
    [
        ("refuse_search", OPENED),
        ("mute_search", OPENED),
        ("crash_on_search", OPENED),
        ("empty_search", OPENED | FINDS_NOTHING),
    ],
)
async def test_what_opens_properly_and_then_does_not_search_passes_next_to_nothing(
    kind: str, passed: set[str], target: Command, judge: Judge
):
    run = await judge(argv=target("nulls", kind), timeout=1, start_timeout=5)
    assert {result.check.removeprefix(SERVER_PREFIX) for result in run.of("pass")} == passed
    assert exit_status(run) == 1
    assert run.of("error") == []
