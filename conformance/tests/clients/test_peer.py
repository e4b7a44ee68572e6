"""The scripted peer: one script over both transports and in both eras, lies included, and nobody else gets in."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
import pytest
from tools_search_conformance.clients.endpoints import open_endpoints
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import (
    TOOLS,
    HeldSearch,
    Pages,
    Reply,
    Script,
    found,
    refuses,
    serves,
    tool,
)
from tools_search_conformance.wire.connection import Transport
from tools_search_conformance.wire.eras import (
    DECLARED,
    LEGACY,
    MODERN,
    Era,
    TransportName,
    envelope,
    handshake,
    modern_headers,
)
from tools_search_conformance.wire.http import HttpTransport
from tools_search_conformance.wire.process import TargetProcess
from tools_search_conformance.wire.record import Recorder
from tools_search_conformance.wire.stdio import StdioTransport

pytestmark = pytest.mark.anyio

Json = dict[str, Any]
BOTH: tuple[TransportName, ...] = ("stdio", "http")


class Caller:
    """Speaks to a peer by the suite's own transports."""

    def __init__(self, transport: Transport, peer: Peer, notes: list[str]) -> None:
        self.transport, self.peer, self.notes = transport, peer, notes

    async def ask(self, method: str, params: Mapping[str, Any], seconds: float = 5) -> Json:
        """Return the response, or what was the matter as `{"fault": …}`."""
        dressed = dict(params)
        headers: dict[str, str] = {}
        if self.peer.era == MODERN:
            dressed["_meta"] = envelope(DECLARED)
            headers = modern_headers(method, params)
        number = len(self.peer.exchanges) + len(self.peer.waiting) + 1
        message: Json = {"jsonrpc": "2.0", "id": number, "method": method, "params": dressed}
        answer = await self.transport.request(message, headers, seconds)
        return answer.message or {"fault": answer.fault, "status": answer.status}


@asynccontextmanager
async def standing(script: Script, transport: TransportName, era: Era = MODERN) -> AsyncGenerator[Caller]:
    """Yield a caller of a peer with `script`."""
    notes: list[str] = []
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            async with open_endpoints(tasks) as endpoints:
                peer = Peer(era, script, Recorder("c"))
                async with endpoints.serving(peer, transport) as target, opened(target, tasks, notes) as wire:
                    yield Caller(wire, peer, notes)
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def opened(target: Json, tasks: Any, notes: list[str]) -> AsyncGenerator[Transport]:
    wire: Transport
    if target["transport"] == "http":
        wire = HttpTransport(target["url"])
    else:
        process = await TargetProcess.start([target["command"], *target["args"]], tasks=tasks, env=target["env"])
        wire = StdioTransport(process, tasks=tasks, note=notes.append)
    try:
        yield wire
    finally:
        await wire.aclose()


@pytest.mark.parametrize("transport", BOTH)
@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_peer_with_an_empty_script_is_an_ordinary_server(transport: TransportName, era: Era):
    async with standing(Script(search=Pages(TOOLS[:2], TOOLS[2:3])), transport, era) as caller:
        opening = "server/discover" if era == MODERN else "initialize"
        opened = await caller.ask(opening, {} if era == MODERN else handshake(DECLARED))
        assert set(opened["result"]["capabilities"]) == {"tools", "extensions"} | (
            {"experimental"} if era == LEGACY else set()
        )
        first = (await caller.ask("tools/search", {"query": "x"}))["result"]
        second = (await caller.ask("tools/search", {"query": "x", "cursor": first["nextCursor"]}))["result"]
        assert [each["name"] for each in first["tools"] + second["tools"]] == [each["name"] for each in TOOLS[:3]]
        assert ("resultType" in first) is (era == MODERN)
        assert "nextCursor" not in second
        other = await caller.ask("initialize" if era == MODERN else "server/discover", {})
        assert other["error"]["code"] == -32601
        assert [exchange.sent["method"] for exchange in caller.peer.searches] == ["tools/search"] * 2
        assert all(exchange.replied for exchange in caller.peer.exchanges)


@pytest.mark.parametrize("transport", BOTH)
async def test_a_peer_lists_page_by_page_and_calls(transport: TransportName):
    async with standing(Script(), transport) as caller:
        names: list[str] = []
        params: Json = {}
        for _ in range(3):
            page = (await caller.ask("tools/list", params))["result"]
            names += [each["name"] for each in page["tools"]]
            params = {"cursor": page.get("nextCursor")}
        assert names == [each["name"] for each in TOOLS]
        assert (await caller.ask("tools/list", {"cursor": "x"}))["error"]["code"] == -32602
        called = (await caller.ask("tools/call", {"name": "brew_coffee", "arguments": {"cups": 2}}))["result"]
        assert json.loads(called["content"][0]["text"]) == {"name": "brew_coffee", "arguments": {"cups": 2}}


@pytest.mark.parametrize(
    "params",
    [{}, {"query": " "}, {"query": None}, {"query": 5}, {"query": "x", "cursor": 7},
     {"query": "x", "cursor": "never issued"}],
)  # fmt: skip
async def test_a_peer_refuses_invalid_params(params: Json):
    async with standing(Script(), "http") as caller:
        assert (await caller.ask("tools/search", params))["error"]["code"] == -32602


@pytest.mark.parametrize(
    "params", [{"limit": None, "cursor": None}, {"limit": 0}, {"limit": "3"}, {"query": "", "cursor": "page2"}]
)
async def test_a_peer_serves_params_whose_fault_has_its_own_check(params: Json):
    async with standing(Script(search=Pages(TOOLS[:1], TOOLS[1:2])), "http") as caller:
        assert "result" in await caller.ask("tools/search", {"query": "x", **params})


@pytest.mark.parametrize("transport", BOTH)
async def test_a_peer_can_end_the_connection_instead_of_answering(transport: TransportName):
    async with standing(Script(hangs_up=True), transport) as caller:
        assert "fault" in await caller.ask("tools/search", {"query": "x"})
        assert [exchange.replied for exchange in caller.peer.exchanges] == [False]


@pytest.mark.parametrize("transport", BOTH)
@pytest.mark.parametrize("code", [-32601, -32021, -32602, -32603])
async def test_a_peer_refuses_as_its_script_says(transport: TransportName, code: int):
    async with standing(Script(search=refuses(code, data={"x": 1})), transport) as caller:
        error = (await caller.ask("tools/search", {"query": "x"}))["error"]
    assert (error["code"], error["data"]) == (code, {"x": 1})


@pytest.mark.parametrize("transport", BOTH)
async def test_a_peer_sends_a_huge_answer(transport: TransportName):
    big = tool("big", "x" * 4_000_000)
    async with standing(Script(search=serves(found(big))), transport) as caller:
        page = (await caller.ask("tools/search", {"query": "x"}))["result"]
        assert len(page["tools"][0]["description"]) == 4_000_000


@pytest.mark.parametrize("transport", BOTH)
async def test_a_peer_answers_late_or_never(transport: TransportName):
    slow, never = Reply(result={"tools": []}, seconds=0.2), Reply(silent=True)
    replies = iter([slow, never])
    async with standing(Script(search=lambda _: next(replies)), transport) as caller:
        assert "result" in await caller.ask("tools/search", {"query": "x"})
        assert caller.peer.searches[0].milliseconds >= 200
        assert "no response within" in (await caller.ask("tools/search", {"query": "x"}, seconds=0.2))["fault"]


@pytest.mark.parametrize("transport", BOTH)
async def test_a_peer_sends_stray_messages_before_an_answer(transport: TransportName):
    stray = {"jsonrpc": "2.0", "id": 4711, "result": {"tools": [tool("of_somebody_else")]}}
    notice = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    reply = Reply(result={"tools": [tool("ours")]}, before=(stray, notice))
    async with standing(Script(search=serves(reply)), transport) as caller:
        page = (await caller.ask("tools/search", {"query": "x"}))["result"]
        assert [each["name"] for each in page["tools"]] == ["ours"]
        if transport == "stdio":
            assert len(caller.notes) == 2


@pytest.mark.parametrize("era", [MODERN, LEGACY])
@pytest.mark.parametrize("transport", BOTH)
async def test_a_peer_holds_answers_back_until_they_are_released(transport: TransportName, era: Era):
    searching = HeldSearch({"x": found(tool("ours"))})
    answers: list[Json] = []
    async with standing(Script(search=searching), transport, era) as caller, anyio.create_task_group() as tasks:

        async def ask(query: str) -> None:
            answers.append(await caller.ask("tools/search", {"query": query}))

        tasks.start_soon(ask, "x")
        await caller.peer.until(lambda: bool(caller.peer.waiting))
        await caller.ask("tools/list", {})
        assert answers == []
        searching.release("x")
        await caller.peer.until(lambda: bool(caller.peer.searches))
        assert caller.peer.searches[0].replied
    assert [answer["result"]["tools"] for answer in answers] == [[tool("ours")]]
    assert caller.peer.abandoned == []


async def test_a_peer_records_cancellations():
    searching = HeldSearch({"x": found(tool("ours"))})
    async with standing(Script(search=searching), "http") as caller:
        assert "no response within" in (await caller.ask("tools/search", {"query": "x"}, seconds=0.2))["fault"]
        await caller.peer.until(lambda: bool(caller.peer.abandoned))
        notice: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "7"}}
        await caller.transport.notify(notice, {}, 5)
        assert caller.peer.cancelled == ["7"]
        await caller.peer.until(lambda: bool(caller.peer.searches))
        assert not caller.peer.searches[0].replied


async def test_a_client_that_listens_is_notified_over_stdio():
    async with standing(Script(), "stdio") as caller:
        message: Json = {"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": {}}
        await caller.transport.notify(message, {}, 5)
        await caller.peer.subscribed.wait()
        await caller.peer.notify_change()
        await caller.ask("tools/list", {})
        acknowledged, changed = caller.notes
    assert "notifications/subscriptions/acknowledged" in acknowledged
    assert "list_changed" in changed
    assert '"io.modelcontextprotocol/subscriptionId":"s"' in changed


@pytest.mark.parametrize("era", [MODERN, LEGACY])
async def test_a_client_that_listens_is_notified_over_http(era: Era):
    async with standing(Script(), "http", era) as caller, httpx2.AsyncClient(timeout=5) as client:
        url = str(vars(caller.transport)["url"])
        message: Json = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {}}
        method, body = ("POST", json.dumps(message)) if era == MODERN else ("GET", None)
        async with client.stream(method, url, content=body) as response:
            await caller.peer.subscribed.wait()
            await caller.peer.notify_change()
            async for line in response.aiter_lines():
                if "list_changed" in line:
                    break
            else:
                pytest.fail("no notification")


@pytest.mark.parametrize(
    ("path", "host"), [("/", None), ("/0123456789abcdef0123456789abcdef/mcp", None), (None, "evil.example")]
)
async def test_nobody_else_gets_in_over_http(path: str | None, host: str | None):
    async with standing(Script(), "http") as caller, httpx2.AsyncClient() as client:
        url = httpx2.URL(str(vars(caller.transport)["url"]))
        headers = {"Host": host} if host else {}
        response = await client.post(url.copy_with(path=path or url.path), content=b"{}", headers=headers)
        assert response.status_code == 404
        assert caller.peer.exchanges == []


async def test_nobody_else_gets_in_by_a_relay():
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            async with open_endpoints(tasks) as endpoints:
                port = endpoints.ports["stdio"]
                async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                    await stream.send(b"0123456789abcdef0123456789abcdef\n")
                    with pytest.raises(anyio.EndOfStream):
                        await stream.receive()
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"jsonrpc": "1.0"}'])
async def test_a_body_that_is_no_message_is_refused_over_http(body: bytes):
    async with standing(Script(), "http") as caller, httpx2.AsyncClient() as client:
        response = await client.post(str(vars(caller.transport)["url"]), content=body)
        assert (response.status_code, response.json()["error"]["code"]) == (400, -32700)


async def test_the_record_of_a_flooding_client_is_bounded():
    line = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}\n{"jsonrpc":"2.0","method":"notifications/x"}\n'
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            peer = Peer(MODERN, Script(), Recorder("c"))
            async with open_endpoints(tasks) as endpoints, endpoints.serving(peer, "stdio") as target:
                host, port, token = target["args"][-3:]
                async with await anyio.connect_tcp(host, int(port)) as stream:
                    tasks.start_soon(stream.send, token.encode() + b"\n" + line * 5100)
                    received = b""
                    while b"asked too often" not in received:
                        received = received[-100:] + await stream.receive()
            assert len(peer.exchanges) == 5000
            tasks.cancel_scope.cancel()


async def test_the_relay_ends_with_its_client():
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            peer = Peer(MODERN, Script(), Recorder("c"))
            async with open_endpoints(tasks) as endpoints, endpoints.serving(peer, "stdio") as at:
                assert at["command"] == sys.executable
                process = await anyio.open_process([at["command"], *at["args"]])
                assert process.stdin is not None
                await process.stdin.aclose()
                assert await process.wait() == 0
                await process.aclose()
            tasks.cancel_scope.cancel()
