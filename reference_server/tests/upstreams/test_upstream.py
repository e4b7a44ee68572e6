"""Upstream servers that crash, hang, lie or vanish cost only their own tools."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any
from unittest.mock import ANY
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from clients import UPSTREAMS, call, names, server_entry, wait_for
from mcp import Client, MCPError
from mcp_types import CallToolResult
from tools_search_hosts import ServerEntry, StdioTarget, qualified_name
from tools_search_server.upstreams import listing, state
from tools_search_server.upstreams import upstream as upstream_module
from tools_search_server.upstreams.questions import Caller
from tools_search_server.upstreams.state import UnavailableError
from tools_search_server.upstreams.upstream import Upstream

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def running(
    entry: ServerEntry, on_change: Callable[[Upstream], None] = lambda _: None
) -> AsyncGenerator[Upstream]:
    """Run an upstream once it has answered or failed."""
    upstream = Upstream(entry, on_change, lambda _, __: None, call_seconds=20, max_message_bytes=1 << 20)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(upstream.run)
            await upstream.settled.wait()
            yield upstream
            tasks.cancel_scope.cancel()


async def test_servers_that_cannot_start_cost_only_their_own_tools(gateway: Any, raw: Any) -> None:
    with anyio.fail_after(60):
        async with gateway(
            "auto",
            good=raw("good"),
            crashing=raw("crashing"),
            missing={"command": "no-such-program-anywhere"},
            forbidden={"command": "/"},
            closed={"url": "http://127.0.0.1:9/mcp"},
            sse={"url": "http://127.0.0.1:9/sse", "type": "sse"},
        ) as client:
            assert set(await names(client)) == {"good__plain"}
            for server, reason in {"missing": "was not found", "closed": "nothing answers", "crashing": ""}.items():
                is_error, text = await call(client, f"{server}__anything")
                assert is_error
                assert server in text
                assert "down since" in text
                assert reason in text


async def test_a_server_that_wants_to_know_who_asks_is_told_with_its_status(gateway: Any) -> None:
    async def turn_away(client: SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")

    with anyio.fail_after(60):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, turn_away)
            place = f"127.0.0.1:{listener.extra(SocketAttribute.local_port)}"  # noqa: S610 - of anyio
            entries = {"closed": {"url": f"http://{place}/mcp"}, "plain": {"url": f"https://{place}/mcp"}}
            async with gateway("auto", **entries) as client:
                _, closed = await call(client, "closed__anything")
                _, plain = await call(client, "plain__anything")
            assert "it answered HTTP 401; put the key or token that it expects into `headers`" in closed
            assert f"no TLS connection to https://{place}" in plain
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(("way", "era"), [("json", "modern"), ("old-sse", "legacy")])
async def test_a_server_that_hangs_up_when_it_is_greeted_is_told_so(
    gateway: Any, hostile: Any, way: str, era: str
) -> None:
    with anyio.fail_after(60):
        entry = await hostile(way, era, "gone-at-greeting")
        async with gateway("auto", curt=entry | ({"type": "sse"} if way == "old-sse" else {})) as client:
            _, text = await call(client, "curt__anything")
    assert "the connection broke off while it answered" in text


async def test_a_server_that_hangs_delays_the_first_listing_by_the_deadline_at_most(gateway: Any, raw: Any) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", good=raw("good"), stuck=raw("hanging"), start_deadline=1.5) as client:
            assert client.instructions is not None
            assert "stuck: still starting" in client.instructions
            await wait_for(client, {"good__plain"})
            is_error, text = await call(client, "stuck__plain")
    assert is_error
    assert "starting since" in text


async def test_killing_one_server_loses_only_its_tools_and_they_come_back(
    gateway: Any, raw: Any, kill: Any, tmp_path: Path
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", doomed=raw("good", tmp_path), other=raw("good")) as client:
            assert set(await names(client)) == {"doomed__plain", "other__plain"}
            pid = kill(tmp_path)
            await wait_for(client, {"other__plain"})
            assert not (await call(client, "other__plain"))[0]
            is_error, text = await call(client, "doomed__plain")
            await wait_for(client, {"doomed__plain", "other__plain"})
            _, again = await call(client, "doomed__plain")
    assert not is_error or "down since" in text
    assert str(pid) not in again


async def test_a_call_under_way_learns_that_its_server_went_away(gateway: Any, versatile: Any, tmp_path: Path) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", busy=versatile(tmp_path)) as client:
            is_error, text = await call(client, "busy__die")
    assert is_error
    assert "went away" in text


WORDS_OF_AN_END: list[dict[str, Any]] = [
    {"code": -32000, "message": "No browser session is open"},
    # What a proxy passes on, whose own server has ended, is late, or answered with what cannot be read.
    {"code": -32000, "message": "Connection closed"},
    {"code": -32000, "message": "SSE stream ended without a response"},
    {"code": -32001, "message": "Request 'tools/call' timed out"},
    {"code": -32603, "message": "its answer is malformed: it is not a JSON object"},
    {"code": -32000, "message": "it no longer knows the session, as after a restart"},
    {"code": -32603, "message": "it refused the request with HTTP 500"},
]


def as_error(error: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": "ID", "error": error}).replace('"ID"', "ID")


async def test_an_error_that_a_server_passes_on_is_not_the_end_of_its_own_connection(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", proxy=await hostile("stdio", "legacy")) as client:
            await wait_for(client, {"proxy__say"})
            for error in WORDS_OF_AN_END:
                with pytest.raises(MCPError, match=error["message"]) as met:
                    await client.session.call_tool("proxy__say", {"answer": as_error(error)})
                assert met.value.code == error["code"]
            result: Any = await client.session.call_tool("proxy__say", {})
            assert not result.is_error
    assert "is down" not in caplog.text


@pytest.mark.parametrize("way", ["stdio", "events", "old-sse"])
async def test_what_a_server_says_of_an_invalid_argument_reaches_the_caller_whole(
    gateway: Any, hostile: Any, way: str
) -> None:
    report = "Could not convert argument 'replicas': 1 validation error for int\n  Input should be a valid integer"
    with anyio.fail_after(60):
        async with gateway("auto", web=await hostile(way, "legacy")) as client:
            await wait_for(client, {"web__say"})
            with pytest.raises(MCPError) as met:
                await client.session.call_tool("web__say", {"answer": as_error({"code": -32603, "message": report})})
    assert met.value.message == report


@pytest.mark.parametrize(
    ("way", "era", "breaks"),
    [
        *product(["events"], ["modern", "legacy"], ["breaks", "vanishes"]),
        ("old-sse", "legacy", "vanishes"),
    ],
)
async def test_what_ends_one_call_over_http_ends_no_other_call(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture, way: str, era: str, breaks: str
) -> None:
    results: dict[str, CallToolResult] = {}

    async def call(client: Client, **arguments: str) -> None:
        result: Any = await client.session.call_tool("web__say", arguments)
        results["".join(arguments)] = result

    with anyio.fail_after(60):
        entry = await hostile(way, era)
        async with gateway("auto", web=entry) as client, anyio.create_task_group() as tasks:
            await wait_for(client, {"web__say"})
            tasks.start_soon(partial(call, client, holds=""))
            await call(client, **{breaks: ""})
            for answer in WORDS_OF_AN_END:
                with pytest.raises(MCPError, match=answer["message"]):
                    await call(client, answer=as_error(answer))
            await call(client, releases="")
    assert {name: bool(result.is_error) for name, result in results.items()} == {
        breaks: True,
        "releases": False,
        "holds": False,
    }
    assert "may or may not have taken effect" in str(results[breaks].content)
    assert "is down" not in caplog.text


@pytest.mark.parametrize(("way", "era"), [("json", "modern"), ("events", "legacy")])
async def test_compressed_answers_are_read_up_to_their_end(gateway: Any, hostile: Any, way: str, era: str) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", web=await hostile(way, era, "compressed")) as client:
            await wait_for(client, {"web__say"})
            assert await call(client, "web__say") == (False, "fine")


@pytest.mark.parametrize("own", ["null", '"server-error"', '""'])
async def test_a_refused_request_has_the_error_in_the_response_whatever_id_that_gives(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture, own: str
) -> None:
    """Servers on version 1 of the Python SDK give `server-error`, also where they have forgotten the session."""
    error = as_error({"code": -32050, "message": "Out of paper"}).replace("ID", own)
    with anyio.fail_after(60):
        async with gateway("auto", web=await hostile("json", "legacy")) as client:
            await wait_for(client, {"web__say"})
            with pytest.raises(MCPError, match=r"^Out of paper$"):
                await client.session.call_tool("web__say", {"refuses": "404", "answer": error})
    assert "malformed" not in caplog.text


@pytest.mark.parametrize("way", ["events", "old-sse"])
async def test_a_request_that_a_server_refuses_with_an_http_status_ends_no_other(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture, way: str
) -> None:
    held: list[CallToolResult] = []

    async def hold(client: Client) -> None:
        result: Any = await client.session.call_tool("web__say", {"holds": ""})
        held.append(result)

    with anyio.fail_after(60):
        entry = await hostile(way, "legacy")
        async with gateway("auto", web=entry) as client, anyio.create_task_group() as tasks:
            await wait_for(client, {"web__say"})
            tasks.start_soon(hold, client)
            with pytest.raises(MCPError, match="HTTP 500"):
                await client.session.call_tool("web__say", {"refuses": "500", "waits": ""})
            await client.session.call_tool("web__say", {"releases": ""})
    assert [bool(result.is_error) for result in held] == [False]
    assert "is down" not in caplog.text


@pytest.mark.parametrize(("way", "era"), [("json", "modern"), ("events", "legacy"), ("old-sse", "legacy")])
@pytest.mark.parametrize("status", ["401", "404", "429", "500"])
@pytest.mark.parametrize("body", ["", '{"error": "not now"}', "not JSON"])
async def test_a_caller_learns_who_refused_a_request_and_with_which_http_status(
    gateway: Any,
    hostile: Any,
    until: Any,
    caplog: pytest.LogCaptureFixture,
    way: str,
    era: str,
    status: str,
    body: str,
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", web=await hostile(way, era)) as client:
            await wait_for(client, {"web__say"})
            if (way, status) == ("old-sse", "404"):  # its session is in its address
                is_error, text = await call(client, "web__say", refuses=status, answer=body)
                assert is_error
                reason = "The MCP server 'web' no longer knows the session, as after a restart."
                assert text == f"{reason} It is retried automatically."
                await until(lambda: "web is down: it no longer knows the session, as after a restart" in caplog.text)
            else:
                with pytest.raises(MCPError) as met:
                    await client.session.call_tool("web__say", {"refuses": status, "answer": body})
                assert met.value.message == f"The MCP server 'web' refused the request with HTTP {status}"
                assert "is down" not in caplog.text
    assert "malformed" not in caplog.text


async def test_the_http_status_of_another_request_does_not_make_an_error_the_loss_of_the_session(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture
) -> None:
    error = as_error({"code": -32000, "message": "No browser session is open"})

    async def call(client: Client) -> None:
        with pytest.raises(MCPError, match="No browser session is open"):
            await client.session.call_tool("web__say", {"begins": "", "answer": error})

    with anyio.fail_after(60):
        entry = await hostile("events", "legacy")
        async with gateway("auto", web=entry) as client, anyio.create_task_group() as tasks:
            await wait_for(client, {"web__say"})
            tasks.start_soon(call, client)
            with pytest.raises(MCPError, match="HTTP 404"):
                await client.session.call_tool("web__say", {"refuses": "404", "waits": ""})
            release = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"arguments": {"releases": ""}}}
            async with httpx2.AsyncClient() as direct:
                await direct.post(entry["url"], json=release)
    assert "is down" not in caplog.text


@pytest.mark.parametrize(("way", "era"), [("events", "modern"), ("events", "legacy"), ("json", "legacy")])
async def test_of_calls_over_http_that_were_given_up_nothing_is_left(
    gateway: Any, hostile: Any, until: Any, caplog: pytest.LogCaptureFixture, way: str, era: str
) -> None:
    async def call(client: Client) -> None:
        with pytest.raises(MCPError, match="did not answer in time"):
            await client.session.call_tool("web__say", {"drips": ""})

    with anyio.fail_after(60):
        entry = await hostile(way, era)
        async with gateway("auto", call_timeout=0.5, web=entry) as client:
            await wait_for(client, {"web__say"})
            before = len(asyncio.all_tasks())
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(call, client)
            await until(lambda: len(asyncio.all_tasks()) < before + 20)
            assert "is down" not in caplog.text


async def test_tools_that_are_read_as_the_connection_is_lost_do_not_make_the_server_ready_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def leaves(error: MCPError) -> bool:
        return error.message == "It leaves"

    # An end that is noticed after the tools have come and before they are looked at.
    monkeypatch.setattr(upstream_module, "connection_ended", leaves)
    seen: list[tuple[str, list[str]]] = []
    is_over = anyio.Event()

    def on_change(upstream: Upstream) -> None:
        seen.append((upstream.state.kind, [*upstream.tools]))
        if upstream.state.reason == "it closed the connection":
            is_over.set()

    async def never(*_: object) -> Any: ...

    entry = ServerEntry("leaving", StdioTarget(sys.executable, (str(UPSTREAMS / "raw.py"), "leaving")))
    async with running(entry, on_change) as upstream:
        with pytest.raises(UnavailableError):
            await upstream.request("tools/call", {"name": "plain"}, Caller(None, never, never))
        await is_over.wait()
    assert seen == [("ready", ["plain"]), ("down", []), ("down", [])]


@pytest.mark.parametrize("era", ["legacy", None])
async def test_a_server_is_spoken_to_in_the_era_of_its_entry(versatile: Any, tmp_path: Path, era: Any) -> None:
    started = versatile(tmp_path)
    entry = ServerEntry("one", StdioTarget(started["command"], tuple(started["args"])), era=era)
    async with running(entry) as upstream:
        assert upstream.state.kind == "ready"
        assert upstream.is_modern is (era != "legacy")


async def test_a_server_that_asks_without_end_and_reads_no_answer_is_down_with_the_reason(
    gateway: Any, raw: Any
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", asking=raw("asking"), fickle=raw("fickle")) as client:
            is_error, text = await call(client, "asking__plain")
            assert is_error
            assert "it asks, and does not read the answers" in text
            await wait_for(client, {"fickle__plain"})
            # One that takes its questions back waits for no answer.
            assert [await call(client, "fickle__plain") for _ in range(2)] == [(False, ANY), (False, ANY)]


async def test_a_mute_server_leaves_the_others_answering(gateway: Any, raw: Any) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", mute=raw("mute"), other=raw("good")) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(call, client, "mute__plain")
            assert not (await call(client, "other__plain"))[0]
            tasks.cancel_scope.cancel()


async def test_what_is_no_tool_and_what_comes_twice_is_left_out_and_reported(
    gateway: Any, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", untidy=raw("untidy")) as client:
            listed = set(await names(client))
            [long] = listed - {"untidy__plain"}
            assert not (await call(client, long))[0]
    assert len(long) <= 64
    assert long.startswith("untidy__a_name_with_spaces")
    assert "no messages of the protocol" in caplog.text
    assert 'second tool named "plain"' in caplog.text
    assert 'invalid at "inputSchema"' in caplog.text
    assert "a tool is left out: it is no object" in caplog.text


@pytest.mark.parametrize(
    ("behavior", "offered"),
    [("endless", {"odd__t", "odd__tagain"}), ("toolless", set[str]())],
)
async def test_a_strange_listing_ends_and_gives_what_can_be_used(
    gateway: Any, raw: Any, behavior: str, offered: set[str]
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", odd=raw(behavior)) as client:
            assert set(await names(client)) == offered


async def test_a_server_that_speaks_no_mcp_is_down_with_a_reason(gateway: Any) -> None:
    chatter = {"command": sys.executable, "args": ["-c", "print('hello'); import time; time.sleep(0.2)"]}
    with anyio.fail_after(60):
        async with gateway("auto", chatter=chatter) as client:
            is_error, text = await call(client, "chatter__x")
    assert is_error
    assert "ended with exit code 0" in text


async def test_two_servers_whose_names_look_alike_keep_their_tools_apart(gateway: Any, raw: Any) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", **{"a b": raw("good"), "a_b": raw("good")}) as client:
            first, second = sorted(await names(client))
            answers = {(await call(client, name))[1] for name in (first, second)}
    assert first == "a_b__plain"
    assert second.startswith("a_b__plain_")
    assert len(answers) == 2


async def test_a_server_that_imitates_the_name_of_anothers_tool_takes_nothing_from_it(gateway: Any, raw: Any) -> None:
    imitated = qualified_name("a b", "plain")
    imitation = imitated.removeprefix("a_b__")
    with anyio.fail_after(60):
        async with gateway("auto", **{"a_b": raw("named", Path(imitation)), "a b": raw("good")}) as client:
            assert set(await names(client)) == {imitated, qualified_name("a_b", imitation)}


@pytest.mark.parametrize("named", [{"type": "sse"}, {}])
async def test_a_server_on_the_old_transport_is_served(
    servers: Any, gateway: Any, unused_tcp_port: int, named: dict[str, str]
) -> None:
    servers.start(str(UPSTREAMS / "over_sse.py"), str(unused_tcp_port))
    entry = {"url": f"http://127.0.0.1:{unused_tcp_port}/sse", **named}
    with anyio.fail_after(60):
        async with gateway("auto", old=entry) as client:
            await wait_for(client, {"old__ancient"})
            assert await call(client, "old__ancient") == (False, "still here")


@pytest.mark.parametrize(
    ("moves", "to", "is_followed"),
    [("307", "/post", True), ("307", "http://localhost:{port}/post", False), ("303", "/post", False)],
    ids=["the same message", "another host", "no message"],
)
async def test_a_message_on_the_old_transport_is_redirected_unchanged_and_to_no_other_host(
    gateway: Any, hostile: Any, moves: str, to: str, is_followed: bool
) -> None:
    with anyio.fail_after(60):
        entry = await hostile("old-sse", "legacy")
        async with gateway("auto", web=entry) as client:
            await wait_for(client, {"web__say"})
            arguments = {"moves": moves, "to": to.format(port=urlsplit(str(entry["url"])).port)}
            if is_followed:
                assert await call(client, "web__say", **arguments) == (False, "fine")
            else:
                with pytest.raises(MCPError, match=f"HTTP {moves}"):
                    await client.session.call_tool("web__say", arguments)


async def test_on_the_old_transport_an_answer_is_an_event_whatever_the_response_to_its_request_holds(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture
) -> None:
    other = '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "no"}}'
    with anyio.fail_after(60):
        async with gateway("auto", web=await hostile("old-sse", "legacy")) as client:
            await wait_for(client, {"web__say"})
            for thanks in ('{"accepted": true}', "{", other):
                assert await call(client, "web__say", thanks=thanks) == (False, "fine")
    assert "malformed" not in caplog.text


async def test_on_the_old_transport_a_request_does_not_overtake_a_notification(gateway: Any, hostile: Any) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", web=await hostile("old-sse", "legacy", "late")) as client:
            assert await call(client, "web__say") == (False, "fine")


async def test_a_subscription_that_is_lost_is_made_again_and_nothing_is_missed(gateway: Any) -> None:
    entry = server_entry("forgetful.py", "end")
    with anyio.fail_after(60):
        async with gateway("auto", forgetful=entry) as client:
            await wait_for(client, {"forgetful__seen_by_2"})


async def test_a_subscription_that_is_lost_after_it_has_lasted_is_made_again_soon(
    gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "STEADY_SECONDS", 0)
    entry = server_entry("forgetful.py", "end")
    with anyio.fail_after(25):  # with pauses that grow, it would be a minute
        async with gateway("auto", forgetful=entry) as client:
            await wait_for(client, {"forgetful__seen_by_8"})


async def test_a_subscription_that_fails_once_is_tried_again(gateway: Any) -> None:
    entry = server_entry("forgetful.py", "falter")
    with anyio.fail_after(60):
        async with gateway("auto", forgetful=entry) as client:
            await wait_for(client, {"forgetful__seen_by_3"})


@pytest.mark.parametrize(("way", "era"), [("stdio", "modern"), ("stdio", "legacy"), ("json", "modern")])
async def test_tools_of_a_server_that_announces_no_changes_are_read_again_as_it_says_or_after_a_while(
    gateway: Any, hostile: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, way: str, era: str
) -> None:
    # The modern one says that its tools are never current, the legacy one nothing.
    monkeypatch.setattr(listing, "_MIN_TOOLS_FRESH_SECONDS", 0.05)
    monkeypatch.setattr(listing, "_TOOLS_FRESH_SECONDS", 0.05 if era == "legacy" else 1000)
    monkeypatch.setattr(listing, "_MAX_TOOLS_FRESH_SECONDS", 2000)
    monkeypatch.setattr(listing, "_FAILED_SECONDS", 0.05)
    with anyio.fail_after(60):
        async with gateway("auto", counting=await hostile(way, era, "counting")) as client:
            while set(await names(client)) <= {"counting__tool_1", "counting__tool_3"}:  # noqa: ASYNC110
                await anyio.sleep(0.05)
    assert "counting: its list of tools failed, and the 1 known before are used: " in caplog.text
    assert "is down" not in caplog.text


@pytest.mark.parametrize(
    ("stated", "seconds"),
    [(0, 60), (-5, 60), (90_000, 90), (10**9, 3600), (10**400, 3600), (True, 300), ("0", 300), (1.5, 300), (None, 300)],
)
async def test_how_often_tools_are_read_again_is_bounded_whatever_a_server_says(stated: object, seconds: float) -> None:
    program = f"""
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    answers = {{
        "initialize": {{
            "protocolVersion": message.get("params", {{}}).get("protocolVersion"),
            "capabilities": {{"tools": {{}}}}, "serverInfo": {{"name": "s", "version": "1"}},
        }},
        "tools/list": {{"tools": [], "ttlMs": {stated!r}}},
    }}
    if "id" in message:
        answer = {{"result": answers[message["method"]]}} if message["method"] in answers else {{
            "error": {{"code": -32601, "message": "no"}}
        }}
        sys.set_int_max_str_digits(0)
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **answer}}), flush=True)
"""
    entry = ServerEntry("one", StdioTarget(sys.executable, ("-c", program)))
    async with running(entry) as upstream:
        assert upstream.lists is not None, upstream.state
        assert upstream.lists.tools_fresh_seconds == seconds


@pytest.mark.parametrize(("behavior", "cost"), [("restless", 0.2), ("silent", 0.01)])
async def test_the_more_a_listing_costs_the_longer_it_is_until_the_next_one(
    gateway: Any, raw: Any, until: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, behavior: str, cost: float
) -> None:
    # One announces changes all the time and gets five times the cost, the other none and gets a hundred times.
    clock = count()
    monkeypatch.setattr(upstream_module, "thread_time", lambda: next(clock) * cost)
    for name in ("_MIN_TOOLS_FRESH_SECONDS", "_TOOLS_FRESH_SECONDS"):
        monkeypatch.setattr(listing, name, 0.05)
    listed = tmp_path / "listed"
    with anyio.fail_after(60):
        async with gateway("auto", one=raw(behavior, tmp_path)) as client:
            await wait_for(client, {"one__plain"})
            await until(lambda: listed.exists() and len(listed.read_text().splitlines()) == 5)
    times = [float(line) for line in listed.read_text().splitlines()]
    # What the first one cost is not known.
    assert all(later - earlier > 0.99 for earlier, later in pairwise(times[1:]))


@pytest.mark.rotating
async def test_progress_that_its_caller_does_not_read_is_left_out_beyond_a_bound(
    servers: Any, configuration: Any, raw: Any, until: Any, tmp_path: Path
) -> None:
    file = configuration(one=raw("chatty", tmp_path))
    process = servers.start("-m", "tools_search_server", "--config", str(file), stdin=subprocess.PIPE)

    def send(**message: Any) -> None:
        process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        process.stdin.flush()

    def read() -> dict[str, Any]:
        return json.loads(process.stdout.readline())

    def read_rest() -> list[dict[str, Any]]:
        messages = [read()]
        while messages[-1].get("id") != 2:
            messages.append(read())
        return messages

    info = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "deaf", "version": "1"}}
    with anyio.fail_after(60):
        send(id=1, method="initialize", params=info)
        assert "result" in await anyio.to_thread.run_sync(read)
        send(method="notifications/initialized")
        send(id=2, method="tools/call", params={"name": "one__plain", "_meta": {"progressToken": "here"}})
        await until((tmp_path / "told").exists)  # by then its server has reported all of it
        *reports, result = [
            message for message in await anyio.to_thread.run_sync(read_rest) if "changed" not in str(message)[:99]
        ]
    numbers = [report["params"]["progress"] for report in reports]
    assert numbers[:64] == list(range(64))
    assert numbers == sorted(numbers)
    assert len(numbers) < 100
    assert result["result"]["content"][0]["text"].startswith("tools/call by")


async def test_a_server_that_refuses_subscriptions_is_used_all_the_same(
    gateway: Any, caplog: pytest.LogCaptureFixture, until: Any
) -> None:
    entry = server_entry("forgetful.py", "refuse")
    with anyio.fail_after(60):
        async with gateway("auto", forgetful=entry) as client:
            assert set(await names(client)) == {"forgetful__seen_by_0"}
            await until(lambda: "cannot follow changes" in caplog.text)
