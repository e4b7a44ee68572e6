"""Drivers and one-shot clients: the contract with its page and schema, drivers that break it, and their verdicts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_conformance.clients.driver import DriverError, contract_schema, read_answer
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.model import DriverFeature, Run
from tools_search_conformance.report.verdict import exit_status
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio
Command = Callable[..., tuple[str, ...]]
Build = Callable[..., Options]
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


def test_the_schema_is_valid():
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["op"])
def test_every_request_of_the_suite_follows_the_contract(request_: dict[str, Any]):
    assert accepts("request", {"id": 1, **request_})
    assert not accepts("request", {"id": "1", **request_})


def test_a_request_without_a_required_member_is_invalid():
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
def test_an_answer_outside_the_contract_is_an_error(op: str, answer: dict[str, Any]):
    with pytest.raises(DriverError, match=f"the driver's answer to `{op}` is not one of DRIVER.md"):
        read_answer(op, answer)


def test_the_members_of_hello_may_come_without_an_ok_around_them():
    outcome = read_answer("hello", {"id": 2, "sdk": "x", "version": "1", "features": []})
    assert outcome.ok == {"sdk": "x", "version": "1", "features": []}


def test_an_outcome_is_described_in_a_few_words():
    assert read_answer("call", {"id": 1, "ok": {"result": {}}}).describe() == "success"
    assert read_answer("call", {"id": 1, "unsupported": True}).describe() == "unsupported"
    assert read_answer("call", {"id": 1, "error": {"message": "gone"}}).describe() == "the error 'gone'"


async def refusal(options: Options) -> str:
    with anyio.fail_after(60), pytest.raises(TargetError) as found:
        await judge_client(options)
    assert len(str(found.value)) < 900
    return str(found.value)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("mute", "did not answer `frobnicate-"),
        ("yes", "cannot be trusted"),
        ("garbage", "not JSON"),
        ("deep", "nested deeper"),
        ("other-id", "answered `frobnicate-"),
        ("crash", "exit status 3; stderr: about to crash"),
        ("flood", "a line of more than"),
    ],
)
async def test_a_driver_that_cannot_be_trusted_is_not_judged(
    kind: str, reason: str, target: Command, client_options: Build
):
    options = client_options(argv=target("null_drivers", kind), start_timeout=2 if kind == "mute" else 20)
    assert reason in await refusal(options)


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("deaf", "does not support `connect`"),
        ("fails", "did not connect: the error 'no'"),
        ("boasts", "did not open the connection"),
        ("shapeless", "answer to `search` is not one of DRIVER.md: $.tools"),
        ("both", "is not one of DRIVER.md"),
        ("later-mute", "did not answer `connect`"),
        ("later-crash", "the driver ended at `connect`"),
    ],
)
async def test_a_driver_that_does_nothing_is_not_judged(kind: str, reason: str, target: Command, client_options: Build):
    options = client_options(argv=target("null_drivers", kind), timeout=1)
    message = await refusal(options)
    assert message.startswith("there is nothing to judge: ")
    assert reason in message


async def test_a_driver_that_cannot_be_started_is_an_error(client_options: Build):
    assert "cannot start `no-such-driver`" in await refusal(client_options(argv=("no-such-driver",)))


async def test_checks_of_a_feature_that_a_driver_lacks_are_skipped(target: Command, client_options: Build):
    argv = target("miniature_client", "--without", "http", "--without", "federation", "--without", "authorization")
    with anyio.fail_after(60):
        run = await judge_client(client_options("federation-*", "cache-private", argv=argv))
    assert {cell.name for cell in run.cells} == {"stdio-2026-07-28", "stdio-2025-11-25"}
    assert {(entry.cell.transport, entry.expected) for entry in run.unavailable} == {("http", False)}
    assert {result.status for result in run.results} == {"skip"}
    assert {result.skip for result in run.results} == {"driver-feature", "era"}


JUDGED = {
    "advertisement-not-object", "advertisement-either-place", "messages-in-pieces", "busy-not-listed",
    "refused-cursor-once",
    "settings-unknown-members", "settings-malformed", "never-probes", "declares-in-every-request",
    "declares-in-initialize", "query-repeated", "empty-page-not-end", "empty-cursor-followed",
    "fallback-not-advertised", "fallback-after-refusal", "fallback-after-invalid-result", "http-method-header",
    "http-query-not-in-headers", "cursor-verbatim", "last-page-ends", "request-ids",
    "request-params", "large-catalog-searched", "cursor-loop", "http-param-headers",
    "http-version-header",
}  # fmt: skip


def rules(run: Run, *statuses: str) -> set[str]:
    return {result.check.removeprefix("tools-search-client-") for result in run.results if result.status in statuses}


@pytest.mark.rotating
async def test_requests_of_a_one_shot_client_are_judged_and_the_rest_is_skipped(target: Command, client_options: Build):
    with anyio.fail_after(120):
        run = await judge_client(client_options(argv=target("one_shot_client"), one_shot=True, effort="quick"))
    assert rules(run, "pass") == JUDGED
    assert rules(run, "fail", "warn", "advice", "unverified", "error") == set()
    assert {cell.name for cell in run.cells} == {"http-2026-07-28", "http-2025-11-25"}
    assert exit_status(run) == 0


@pytest.mark.rotating
async def test_a_fault_of_a_one_shot_client_on_the_wire_is_found(target: Command, client_options: Build):
    argv = target("one_shot_client", "--fault", "empty-cursor-ends")
    with anyio.fail_after(60):
        run = await judge_client(client_options("*cursor*", "query-*", argv=argv, one_shot=True))
    assert rules(run, "fail", "warn", "advice", "unverified", "error") == {"empty-cursor-followed"}


async def test_a_one_shot_client_that_calls_without_headers_is_told_what_it_was_to_do(
    target: Command, client_options: Build
):
    argv = target("one_shot_client", "--fault", "param-headers-missing")
    with anyio.fail_after(60):
        run = await judge_client(client_options("http-param-headers", argv=argv, one_shot=True))
    (failed,) = run.of("fail")
    assert "in the scenario tools-search/call the client is to search for the `query`" in (failed.message or "")


async def test_a_one_shot_client_that_searches_for_its_own_words_is_told_so(target: Command, client_options: Build):
    argv = target("one_shot_client", "--fault", "words-of-its-own")
    with anyio.fail_after(60), pytest.raises(TargetError, match="searched for 'read a file' instead of 'dispatch"):
        await judge_client(client_options("cache-key", argv=argv, one_shot=True))


async def test_what_one_shot_clients_cannot_be_asked_for_is_named(target: Command, client_options: Build):
    with anyio.fail_after(60):
        options = client_options("cache-key", "cache-private", argv=target("one_shot_client"), one_shot=True)
        run = await judge_client(options)
    assert {result.message for result in run.of("skip") if result.skip == "driver-feature"} == {
        "one-shot clients do one thing on a connection, and this takes more",
        "one-shot clients cannot be asked for this: `authorization`",
    }


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("import time; time.sleep(60)", "did not end within"),
        ("while True: print('x' * 65536)", "without end"),
        ("pass", "did not open the connection"),
    ],
)
async def test_a_program_that_is_no_client_is_not_judged(program: str, reason: str, client_options: Build):
    timeout = 2 if reason == "did not end within" else 20
    options = client_options(argv=(sys.executable, "-c", program), one_shot=True, timeout=timeout)
    with anyio.fail_after(60), pytest.raises(TargetError, match=reason):
        await judge_client(options)
