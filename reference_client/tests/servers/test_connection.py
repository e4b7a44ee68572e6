"""One connection: what it raises, what it quotes, what its observer gets."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import os
import signal
import ssl
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Final, cast

import anyio
import httpx2
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost, ToolsListChanged
from mcp_types import (
    CONNECTION_CLOSED,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    REQUEST_TIMEOUT,
    CallToolResult,
    JSONRPCMessage,
    JSONRPCRequest,
    JSONRPCResponse,
    ServerCapabilities,
    SubscriptionFilter,
    TextContent,
    ToolsCapability,
)
from tools_search_client.errors import (
    Challenge,
    Failure,
    InvalidServerResultError,
    ServerError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerUnavailableError,
    UnauthorizedError,
)
from tools_search_client.federation.configuration import Configuration
from tools_search_client.federation.federation import FederationOptions, open_federation
from tools_search_client.servers import connection
from tools_search_client.servers.connection import ConnectionOptions, follow_changes, open_server
from tools_search_client.servers.diagnostics import kept_diagnostics
from tools_search_client.servers.discovery_options import DiscoveryOptions
from tools_search_client.servers.faults import as_server_error
from tools_search_client.servers.server_tools import ServerTools
from tools_search_client.servers.supervision import Backoff, SupervisedServer
from tools_search_hosts import EraChoice, HttpTarget, ServerEntry, StdioTarget
from tools_search_hosts.endings import SESSION_LOST

LARGE = """
import sys
from mcp.server.mcpserver import MCPServer

print("all is well", file=sys.stderr, flush=True)
if "--at-once" in sys.argv:
    print("x" * 17_000_000)
server = MCPServer("large")
server.tool(name="large")(lambda: "x" * 17_000_000)
server.run()
"""
"""A server that logs, and sends too much: at once, or when it is called."""

HOSTILE = Path(__file__).parents[3] / "reference_server" / "tests" / "servers" / "excessive.py"

pytestmark = pytest.mark.anyio


class Notes:
    """An observer that records everything."""

    def __init__(self) -> None:
        self.sent_methods: list[str] = []
        self.answers = 0
        self.ended = False

    def sent(self, message: JSONRPCMessage) -> None:
        if isinstance(message, JSONRPCRequest):
            self.sent_methods.append(message.method)

    def received(self, message: JSONRPCMessage) -> None:
        self.answers += isinstance(message, JSONRPCResponse)

    def closed(self) -> None:
        self.ended = True


async def refused(target: StdioTarget | HttpTarget) -> str:
    with anyio.fail_after(10), pytest.raises(ServerUnavailableError) as error:
        async with open_server(target):
            raise AssertionError("the client connected")
    return str(error.value)


async def test_a_program_that_is_not_there_is_named():
    assert "/nowhere/program" in await refused(StdioTarget("/nowhere/program"))
    assert "'/nowhere/a program' was not found" in await refused(StdioTarget("/nowhere/a program"))
    assert await refused(StdioTarget("sh -c key=1")) == "`command` has more than 'sh': put the rest in `args`"


async def test_what_a_server_says_of_its_failure_has_nothing_that_a_terminal_obeys(liar: Any):
    said = await refused(StdioTarget("sh", ("-c", "printf 'out of \\033[2Jcheese\\n' >&2")))
    assert said.endswith("it last said: out of [2Jcheese")
    with anyio.fail_after(10):
        async with open_server(liar("refuses:-32000").target) as tools:
            with pytest.raises(ServerRefusedError) as error:
                await tools.search("alpha")
    assert (str(error.value), Failure.of(error.value).message) == ("[31mno (-32000)", "[31mno (-32000)")


async def test_a_folder_that_is_not_there_is_named():
    assert "/nowhere" in await refused(StdioTarget(sys.executable, cwd="/nowhere"))


async def test_the_last_words_of_a_program_that_ended_are_quoted():
    program = "import sys; print('line one', file=sys.stderr); sys.exit('no license')"
    assert "line one / no license" in await refused(StdioTarget(sys.executable, ("-c", program)))


async def test_an_address_where_nobody_answers_is_said_to_be_so():
    assert "nothing answers at http://127.0.0.1:9" in await refused(HttpTarget("http://ann:key@127.0.0.1:9/mcp?k=v"))


async def test_what_all_addresses_trust_is_read_once(monkeypatch: pytest.MonkeyPatch):
    await refused(HttpTarget("http://127.0.0.1:9/mcp"))
    read: list[ssl.SSLContext] = []

    def noted(context: ssl.SSLContext, *_: object, **__: object) -> None:
        read.append(context)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noted)
    for path in "abc":
        await refused(HttpTarget(f"http://127.0.0.1:9/{path}"))
    assert not read


@asynccontextmanager
async def turning_away(*headers: str) -> AsyncGenerator[str]:
    """Serve HTTP 401 with these headers; yield the address."""
    answer = "\r\n".join(["HTTP/1.1 401 Unauthorized", *headers, "Content-Length: 0", "", ""]).encode()

    async def turn_away(client: SocketStream) -> None:
        async with client:
            await client.receive()
            await client.send(answer)

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, turn_away)
        port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio, not of Django
        yield f"http://127.0.0.1:{port}/mcp"
        tasks.cancel_scope.cancel()


async def test_a_server_that_asks_for_authorization_is_told_so_with_what_it_wants():
    metadata = "https://crm.example/.well-known/oauth-protected-resource"
    wanted = (
        'Bearer error=invalid_token, error_description="it \\"expired\\"", scope="tools:read mail", '
        f'resource_metadata="{metadata}"'
    )
    async with turning_away(f"WWW-Authenticate: {wanted}") as address:
        for transport in ("streamable-http", "sse"):
            with anyio.fail_after(10), pytest.raises(UnauthorizedError) as error:
                async with open_server(HttpTarget(address, {}, transport)):
                    raise AssertionError("the client connected")
            problem = 'invalid_token: it "expired"'
            assert error.value.challenge == Challenge(401, "Bearer", "tools:read mail", metadata, problem)
            assert str(error.value).endswith(problem)


async def test_an_address_that_is_no_server_is_told_with_its_status():
    async with turning_away() as address:
        told = await refused(HttpTarget(address))
        assert "it answered HTTP 401 and asks for authorization" in told


async def test_every_request_is_authorized_as_the_host_says_unless_the_configuration_does():
    asked: list[str] = []
    sent: list[str] = []
    url = ""

    async def note(client: SocketStream) -> None:
        async with client:
            lines = (await client.receive()).decode().split("\r\n")
            sent.extend(line.partition(": ")[2] for line in lines if line.lower().startswith("authorization:"))
            await client.send(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")

    def key_of(url: str) -> httpx2.Auth:
        asked.append(url)
        return httpx2.BasicAuth("ann", "key")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, note)
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/mcp"  # noqa: S610 - as above
        for auth, headers in [
            (httpx2.BasicAuth("ann", "key"), {}),
            (key_of, {}),
            (key_of, {"authorization": "Bearer configured"}),
        ]:
            sent.clear()
            with anyio.fail_after(10), pytest.raises(ServerUnavailableError, match="HTTP 403") as error:
                async with open_server(HttpTarget(url, headers), ConnectionOptions(auth=auth)):
                    raise AssertionError("the client connected")
            assert not isinstance(error.value, UnauthorizedError)  # it does not ask for authorization
            assert set(sent) == {headers.get("authorization", "Basic YW5uOmtleQ==")}
        tasks.cancel_scope.cancel()
    assert asked == [url]


class ImpatientProxy:
    """Passes HTTP on to a server, and closes connections that are kept alive."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.connections: list[SocketStream] = []
        self.requests = 0
        self.closes_on_reuse = False
        """Whether a connection is closed at the moment its next request arrives, so that nobody can know before."""

    async def serve(self, client: SocketStream) -> None:
        self.connections.append(client)
        is_reused = False
        async with (
            client,
            await anyio.connect_tcp("127.0.0.1", self.port) as server,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(self.return_answers, server, client)
            with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
                async for piece in client:
                    self.requests += piece.startswith(b"POST ")
                    if self.closes_on_reuse and is_reused:
                        break
                    is_reused = True
                    await server.send(piece)
            tasks.cancel_scope.cancel()

    async def return_answers(self, server: SocketStream, client: SocketStream) -> None:
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for piece in server:
                await client.send(piece)

    async def close_idle(self) -> None:
        while self.connections:
            await self.connections.pop().aclose()


@asynccontextmanager
async def behind_an_impatient_proxy(
    server: HttpTarget, options: ConnectionOptions
) -> AsyncGenerator[tuple[ImpatientProxy, ServerTools]]:
    port = httpx2.URL(server.url).port
    assert port is not None
    proxy = ImpatientProxy(port)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, proxy.serve)
        url = f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}/mcp"  # noqa: S610 - as above
        async with open_server(HttpTarget(url), options) as tools:
            yield proxy, tools
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_requests_after_a_pause_in_which_the_server_closed_its_idle_connections_succeed(
    plain_server: HttpTarget, era: Any
):
    options = ConnectionOptions(era=era, follow_changes=False)
    with anyio.fail_after(40):
        async with behind_an_impatient_proxy(plain_server, options) as (proxy, tools):
            for _ in range(2):
                await proxy.close_idle()
                tools.forget()
                assert len(await tools.list()) == 3
                await proxy.close_idle()
                assert (await tools.call("add_numbers", {"first": 1, "second": 2})).structured_content == {"result": 3}


async def test_a_request_whose_connection_the_server_closes_says_so_is_sent_once_and_the_next_one_succeeds(
    plain_server: HttpTarget,
):
    sum_of = {"first": 1, "second": 2}
    with anyio.fail_after(40):
        async with behind_an_impatient_proxy(plain_server, ConnectionOptions(follow_changes=False)) as (proxy, tools):
            await tools.call("add_numbers", sum_of)
            sent, proxy.closes_on_reuse = proxy.requests, True
            with pytest.raises(ServerUnavailableError, match="the connection ended before it answered"):
                await tools.call("add_numbers", sum_of)
            assert proxy.requests == sent + 1  # nobody knows whether it was carried out
            assert (await tools.call("add_numbers", sum_of)).structured_content == {"result": 3}


async def test_a_program_that_does_not_speak_the_protocol_is_unavailable():
    chatter = "import time\nfor _ in range(3): print('hello', flush=True)"
    assert await refused(StdioTarget(sys.executable, ("-c", chatter)))


async def test_a_server_that_writes_no_utf_8_is_survived(liar: Any):
    noisy = "import runpy, sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n'); sys.argv = sys.argv[1:]; "
    server = liar()
    program = (noisy + "runpy.run_path(sys.argv[0], run_name='__main__')", *server.target.args)
    with anyio.fail_after(10):
        async with open_server(StdioTarget(sys.executable, ("-c", *program))) as tools:
            assert (await tools.search("alpha")).tools


async def test_an_observer_is_told_of_every_message_and_of_the_end(liar: Any):
    notes = Notes()
    with anyio.fail_after(10):
        async with open_server(liar("dies").target, ConnectionOptions(observer=notes, follow_changes=False)) as tools:
            with pytest.raises(ServerUnavailableError):
                await tools.search("alpha")
    assert (notes.sent_methods, notes.answers, notes.ended) == (["server/discover", "tools/search"], 1, True)


async def test_a_subscription_that_is_lost_means_that_changes_may_have_been_missed(liar: Any):
    changed = anyio.Event()
    with anyio.fail_after(10):
        async with open_server(liar("hangs-up").target, on_change=changed.set):
            await changed.wait()


@pytest.mark.parametrize("ending", [None, SubscriptionLost()], ids=["closed", "lost"])
async def test_a_server_is_followed_again_after_a_restart_and_what_was_read_meanwhile_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, ending: Exception | None
):
    monkeypatch.setattr("tools_search_client.servers.connection._RELISTEN_SECONDS", 0)
    heard: list[str | None] = []
    granted = "granted"

    class Subscribed:
        honored = SubscriptionFilter(tools_list_changed=True)

        async def __aiter__(self) -> AsyncGenerator[ToolsListChanged]:
            yield ToolsListChanged()
            if ending is not None:
                raise ending

    class Restarting:
        protocol_version = "2026-07-28"
        server_capabilities = ServerCapabilities(tools=ToolsCapability(list_changed=True))
        answers: Final = [granted, MCPError(INTERNAL_ERROR, "it is away"), granted, None]

        @asynccontextmanager
        async def listen(self, **_: bool) -> AsyncGenerator[Subscribed]:
            answer = self.answers.pop(0)
            if answer is None:
                over.cancel()
                await anyio.sleep_forever()
            if isinstance(answer, Exception):
                raise answer
            yield Subscribed()

    with anyio.fail_after(10), anyio.CancelScope() as over:
        await follow_changes(cast("Client", Restarting()), heard.append)
    assert heard == ["", None, None, "", None]


async def test_a_server_that_ends_each_subscription_at_once_is_asked_less_and_less(monkeypatch: pytest.MonkeyPatch):
    """Each of them makes the client forget what it has read, and read it again."""
    now = 0.0
    pauses: list[float] = []
    lasting = [0, 0, 0, 0, 0, 0, 0, 500, 0, 0]

    async def sleep(seconds: float) -> None:
        nonlocal now
        pauses.append(seconds)
        now += seconds

    class Ending:
        protocol_version = "2026-07-28"
        server_capabilities = ServerCapabilities(tools=ToolsCapability(list_changed=True))
        honored = SubscriptionFilter(tools_list_changed=True)

        async def __aiter__(self) -> AsyncGenerator[ToolsListChanged]:
            nonlocal now
            now += lasting.pop(0)
            yield ToolsListChanged()

        @asynccontextmanager
        async def listen(self, **_: bool) -> AsyncGenerator[Ending]:
            yield self

    monkeypatch.setattr(anyio, "sleep", sleep)
    monkeypatch.setattr(anyio, "current_time", lambda: now)
    with pytest.raises(IndexError):  # of the list above
        await follow_changes(cast("Client", Ending()), lambda _: None)
    assert pauses == [5, 10, 20, 40, 80, 120, 120, 5, 10, 20]


async def test_a_server_that_grants_no_subscription_is_used_all_the_same(liar: Any):
    server = liar("no-subscriptions")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            while "subscriptions/listen" not in server.asked():
                await tools.search("alpha")
            assert (await tools.search("alpha")).mode == "search"


async def test_a_server_that_grants_a_subscription_to_nothing_is_not_asked_again(
    liar: Any, monkeypatch: pytest.MonkeyPatch
):
    """Otherwise its lists, which it may let be kept for an hour, would be read again every few seconds."""
    monkeypatch.setattr("tools_search_client.servers.connection._RELISTEN_SECONDS", 0)
    server = liar("grants-nothing")
    changes: list[bool] = []
    with anyio.fail_after(10):
        async with open_server(server.target, on_change=lambda: changes.append(True)) as tools:
            while "subscriptions/listen" not in server.asked():
                await tools.search("alpha")
            for _ in range(20):
                await tools.search("alpha")
    assert (len(server.asked("subscriptions/listen")), changes) == (1, [])


async def test_a_connection_to_a_server_that_hangs_is_left_within_seconds(serve_http: Any):
    async with serve_http() as (url, process):
        with anyio.fail_after(30):
            async with open_server(HttpTarget(url), ConnectionOptions(era="legacy")) as tools:
                assert await tools.list()
                process.send_signal(signal.SIGSTOP)


async def test_tools_of_a_connection_that_was_left_are_unavailable(liar: Any):
    with anyio.fail_after(10):
        async with open_server(liar().target) as tools:
            assert tools.client.server_capabilities
        with pytest.raises(ServerUnavailableError):
            await tools.search("alpha")


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_whoever_waits_for_the_list_that_another_reads_is_told_when_the_connection_ends(
    serve_http: Any, until: Callable[[Callable[[], bool]], Any], era: EraChoice
):
    notes = Notes()
    options = ConnectionOptions(era=era, observer=notes, follow_changes=False)

    async def fail(tools: ServerTools) -> None:
        with pytest.raises(ServerUnavailableError, match="the connection ended"):
            await tools.list()

    with anyio.fail_after(60):
        async with (
            serve_http(plain="--http --ignores=tools/list") as (url, _),
            anyio.create_task_group() as lists,
            open_server(HttpTarget(url), options) as tools,
        ):
            for _ in range(30):  # more than get a turn before the client is closed
                lists.start_soon(fail, tools)
            await until(lambda: "tools/list" in notes.sent_methods)


async def test_what_the_block_raises_passes_through_as_it_is(liar: Any):
    async def use() -> None:
        async with open_server(liar().target) as tools:
            assert isinstance(tools, ServerTools)
            raise LookupError("mine")

    with anyio.fail_after(10), pytest.raises(LookupError, match="mine"):
        await use()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ExceptionGroup("outer", [ExceptionGroup("inner", [OSError("disk on fire")])]), "disk on fire"),
        (ExceptionGroup("outer", [OSError(), InvalidServerResultError("lies")]), "cannot be reached: OSError"),
        (MCPError(CONNECTION_CLOSED, "Connection closed"), "the connection ended"),
        (MCPError(CONNECTION_CLOSED, "Out of stock"), "Out of stock (-32000)"),
        (MCPError(REQUEST_TIMEOUT, "Quota used up"), "Quota used up (-32001)"),
        (anyio.BrokenResourceError(), "BrokenResourceError"),
    ],
)
def test_the_cause_is_found_in_whatever_it_is_wrapped(error: Exception, told: str):
    assert told in str(as_server_error(error))


def test_an_address_with_a_key_is_not_repeated_in_the_error():
    response = httpx2.Response(404, request=httpx2.Request("GET", "https://example.com/sse?key=s3cret"))
    with pytest.raises(httpx2.HTTPStatusError) as refused:
        response.raise_for_status()
    assert str(as_server_error(refused.value)) == "cannot be reached: it answered HTTP 404"


@pytest.fixture
async def hostile(free_tcp_port: int) -> AsyncGenerator[Callable[..., Any]]:
    """Return the target of a hostile server, started where it is reached over HTTP."""
    async with AsyncExitStack() as running:

        async def start(way: str, behavior: str, era: str = "legacy", **env: str) -> StdioTarget | HttpTarget:
            arguments = (str(HOSTILE), way, era, behavior, str(free_tcp_port))
            if way == "stdio":
                return StdioTarget(sys.executable, arguments, env)
            process = await anyio.open_process(
                [sys.executable, *arguments], env=os.environ | env, stdout=None, stderr=None
            )
            running.push_async_callback(process.wait)
            running.callback(process.kill)
            while True:
                try:
                    await (await anyio.connect_tcp("127.0.0.1", free_tcp_port)).aclose()
                except OSError:
                    await anyio.sleep(0.02)
                else:
                    transport = "sse" if way == "old-sse" else "streamable-http"
                    return HttpTarget(f"http://127.0.0.1:{free_tcp_port}/mcp", {}, transport)

        yield start


GOOD = {"type": "text", "text": "DELETED"}
BAD_BLOCKS = [{"type": "image", "data": "aGk="}, {"type": "video"}, {"type": "text", "text": 5}, 7, None]

each_way_and_era = pytest.mark.parametrize(
    ("way", "era"),
    [(way, era) for way in ("stdio", "json", "events") for era in ("legacy", "modern")] + [("old-sse", "legacy")],
)


async def said(tools: ServerTools, **members: Any) -> CallToolResult:
    result = {"resultType": "complete", **members} if tools.era == "modern" else members
    answer = {"jsonrpc": "2.0", "id": 0, "result": result}
    return await tools.call("say", {"answer": json.dumps(answer).replace('"id": 0', '"id": ID')})


def texts(result: CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, TextContent)]


@each_way_and_era
async def test_a_bad_content_block_costs_neither_the_good_ones_nor_what_the_result_says_of_itself(
    hostile: Any, way: str, era: str
):
    with anyio.fail_after(60):
        async with open_server(await hostile(way, "good", era=era)) as tools:
            assert tools.era == era
            for bad in BAD_BLOCKS:
                failed = await said(tools, content=[GOOD, bad], isError=True, structuredContent={"a": 1})
                assert failed.is_error
                assert failed.structured_content == {"a": 1}
                first, note = texts(failed)
                assert first == "DELETED"
                assert f"revision {tools.protocol_version} does not allow; it was omitted (content.1" in note
                assert not (await said(tools, content=[GOOD, bad])).is_error


async def test_a_legacy_result_is_complete_whatever_it_says_of_its_type(hostile: Any):
    with anyio.fail_after(60):
        async with open_server(await hostile("stdio", "good")) as tools:
            first, note = texts(await said(tools, content=[GOOD, 7], resultType="input_required"))
            assert (first, "content.1" in note) == ("DELETED", True)


@each_way_and_era
async def test_a_result_of_which_nothing_can_be_read_is_an_error_that_says_so(hostile: Any, way: str, era: str):
    nothing: list[dict[str, Any]] = [{}, {"content": 5}, {"content": [7], "isError": False}, {"inputRequests": {}}]
    with anyio.fail_after(60):
        async with open_server(await hostile(way, "good", era=era)) as tools:
            for members in nothing:
                result = await said(tools, **members)
                assert result.is_error
                assert "may or may not have taken effect" in texts(result)[-1]


async def test_a_federation_keeps_what_is_good_of_a_bad_result(hostile: Any):
    entries = (ServerEntry("odd", await hostile("stdio", "good")),)
    answer = '{"jsonrpc": "2.0", "id": ID, "result": {"content": ["done", 7], "isError": true}}'
    with anyio.fail_after(60):
        async with open_federation(Configuration(entries)) as federation:
            result = await federation.call("odd__say", {"answer": answer})
    assert result.is_error
    assert texts(result)[0] == "done"


UNREADABLE = (
    '{"jsonrpc": "2.0", "id": ID, "result": null}',
    '{"jsonrpc": "2.0", "id": ID, "result": {"text": "\\ud83d"}}',
    '{"jsonrpc": "2.0", "id": ID, "result": {"content": [], "resultType": "complete", "_meta": {"n": NaN}}}',
    '{"jsonrpc": "2.0", "id": ID, "error": {"code": "EIO", "message": "x"}}',
)


@pytest.mark.parametrize("way", ["stdio", "json", "events", "old-sse"])
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once_with_what_is_wrong(hostile: Any, way: str):
    with anyio.fail_after(30):
        async with open_server(await hostile(way, "good")) as tools:
            for answer in UNREADABLE:
                with pytest.raises(InvalidServerResultError, match="its answer is malformed: "):
                    await tools.call("say", {"answer": answer})


@pytest.mark.parametrize("way", ["stdio", "json", "events", "old-sse"])
async def test_an_error_that_a_server_passes_on_is_a_refusal_and_not_the_end_of_its_own_connection(
    hostile: Any, way: str
):
    reworded = [
        (-32000, "Connection closed"),
        (-32000, "SSE stream ended without a response"),
        (-32001, "Request 'tools/call' timed out"),
        (-32603, "its answer is malformed: it is not a JSON object"),
        (-32603, "it refused the request with HTTP 401"),
        (-32000, SESSION_LOST),
    ]
    unmistakable = [(-32603, message) for code, message in reworded if code != -32603]
    unmistakable += [(-32602, "its answer is malformed: no")]
    with anyio.fail_after(30):
        async with open_server(await hostile(way, "good")) as tools:
            for code, message in reworded + unmistakable:
                answer = {"jsonrpc": "2.0", "id": "ID", "error": {"code": code, "message": message}}
                with pytest.raises(ServerRefusedError, match=message) as refused:
                    await tools.call("say", {"answer": json.dumps(answer).replace('"ID"', "ID")})
                assert refused.value.code == code
                assert str(refused.value).startswith(message) == ((code, message) in unmistakable)


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("way", "behavior", "reason"),
    [
        ("json", "bomb", "it sent an answer of more than 16 MiB"),
        ("json", "endless", "it sent an answer of more than 16 MiB"),
        ("json", "endless-event", "it sent an event of more than 16 MiB"),
        ("json", "many-values", "it sent a message of more than 524,288 values"),
        ("old-sse", "endless", "the connection ended: it sent an event of more than 16 MiB"),
        ("stdio", "endless", "the connection ended: it sent a line of more than 16 MiB"),
        ("stdio", "large-description", "the connection ended: it sent a line of more than 16 MiB"),
        ("stdio", "many-values", "the connection ended: it sent a message of more than 524,288 values"),
    ],
)
async def test_a_server_that_sends_too_much_fails_at_once_and_says_why(
    hostile: Any, way: str, behavior: str, reason: str
):
    target = await hostile(way, behavior)
    forget_peak_memory()
    before = peak_memory()
    with anyio.fail_after(60), pytest.raises(ServerError, match=reason):
        await searched(target)
    assert peak_memory() - before < 128 * 1024


@pytest.mark.parametrize("options", [(), ("--at-once",)])
async def test_a_server_that_sends_too_much_is_not_quoted_with_what_it_said_of_something_else(
    options: tuple[str, ...],
):
    with anyio.fail_after(60), pytest.raises(ServerUnavailableError) as failed:
        async with open_server(StdioTarget(sys.executable, ("-c", LARGE, *options))) as tools:
            await tools.call("large")
    assert str(failed.value) == "the connection ended: it sent a line of more than 16 MiB"


@pytest.mark.parametrize("behavior", ["endless", "large-description"])
async def test_a_server_that_sends_too_much_costs_the_others_nothing(hostile: Any, liar: Any, behavior: str):
    entries = (ServerEntry("fine", liar().target), ServerEntry("flood", await hostile("stdio", behavior)))
    with anyio.fail_after(60):
        async with open_federation(Configuration(entries)) as federation:
            found = await federation.search("alpha", deadline=math.inf)
            assert [tool.name for tool in found.tools][:1] == ["fine__make_alpha"]
            fine, flood = found.servers
            assert fine.failure is None
            assert flood.failure is not None
            assert "it sent a line of more than 16 MiB" in flood.failure.message
            assert not (await federation.call("fine__make_alpha")).is_error


async def test_a_server_that_ends_during_a_request_is_quoted_with_how_it_ended(liar: Any):
    with anyio.fail_after(30):
        async with open_server(liar("dies").target) as tools:
            with pytest.raises(ServerUnavailableError, match="it ended with exit code 3; it last said: out of cheese"):
                await tools.search("alpha")


async def test_a_server_that_prints_without_end_what_is_no_message_is_given_up():
    said = await refused(StdioTarget("yes", ("no message",)))
    assert "it sent 100 lines in a row that are not protocol messages" in said
    assert "no message (on standard output, which is only for messages)" in said


def forget_peak_memory() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def peak_memory() -> int:
    """Return the most memory that this process has had since then, in kB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


async def searched(target: StdioTarget | HttpTarget) -> None:
    async with open_server(target) as tools:
        await tools.search("anything")


@pytest.mark.parametrize(
    ("way", "era", "breaks", "said"),
    [
        *product(
            ["events"], ["modern", "legacy"], ["breaks", "vanishes"], ["^the connection ended before it answered$"]
        ),
        ("old-sse", "legacy", "vanishes", "before it answered$"),
        ("old-sse", "legacy", "refuses", "HTTP 500"),
    ],
)
async def test_what_ends_one_call_over_http_ends_no_other_call(
    hostile: Any, way: str, era: str, breaks: str, said: str
):
    results: list[CallToolResult] = []

    async def hold(tools: ServerTools) -> None:
        results.append(await tools.call("say", {"holds": ""}))

    with anyio.fail_after(60):
        target = await hostile(way, "good", era)
        async with open_server(target) as tools:
            await tools.list()
            async with anyio.create_task_group() as calls:
                calls.start_soon(hold, tools)
                with pytest.raises(ServerError, match=said):
                    await tools.call("say", {breaks: "500", "waits": ""})
                results.append(await tools.call("say", {"releases": ""}))
    assert len(results) == 2


@pytest.mark.parametrize(("way", "era"), [("events", "modern"), ("old-sse", "legacy")])
async def test_that_a_request_broke_off_is_quoted_until_another_is_answered(hostile: Any, way: str, era: str):
    with anyio.fail_after(60), kept_diagnostics() as diagnostics:
        async with (
            open_server(await hostile(way, "good", era), diagnostics=diagnostics) as tools,
            anyio.create_task_group() as calls,
        ):
            await tools.list()
            calls.start_soon(tools.call, "say", {"holds": ""})
            with pytest.raises(ServerUnavailableError):
                await tools.call("say", {"vanishes": "", "waits": ""})
            assert diagnostics.quotation().startswith("; it last said: a request broke off")
            await tools.call("say", {"releases": ""})
            assert diagnostics.quotation() == ""


async def test_a_server_on_the_old_transport_is_found_where_none_is_stated(hostile: Any):
    closed: list[bool] = []
    with anyio.fail_after(60):
        target = replace(await hostile("old-sse", "good", "legacy"), transport="streamable-http")
        async with open_server(target, on_close=lambda: closed.append(True)) as tools:
            assert [tool.name for tool in await tools.list()] == ["say"]
            assert closed == []


@pytest.mark.parametrize("transport", ["sse", "streamable-http"], ids=["stated", "not stated"])
async def test_why_a_server_on_the_old_transport_cannot_be_used_is_told_whether_its_transport_is_stated_or_not(
    hostile: Any, transport: Any
):
    answer = '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32603, "message": "out of cheese"}}'
    with anyio.fail_after(60):
        target = replace(await hostile("old-sse", "at-greeting", ANSWER=answer), transport=transport)
        with pytest.raises(ServerUnavailableError, match="out of cheese"):
            async with open_server(target):
                raise AssertionError("the client connected")


async def test_on_the_old_transport_a_server_may_respond_to_a_request_later_than_its_answer_would_have_to_begin(
    hostile: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "_READ_SECONDS", 0.5)
    results: list[CallToolResult] = []

    async def hold(tools: ServerTools) -> None:
        results.append(await tools.call("say", {"holds": ""}))

    with anyio.fail_after(60):
        async with open_server(await hostile("old-sse", "good")) as tools, anyio.create_task_group() as calls:
            calls.start_soon(hold, tools)
            began = anyio.current_time()
            while anyio.current_time() < began + 1:  # the stream of events is not silent meanwhile
                await tools.call("say", {})
            assert not results
            await tools.call("say", {"releases": ""})
    assert texts(results[0]) == ["fine"]


async def test_a_connection_on_the_old_transport_whose_server_says_nothing_at_all_ends(
    hostile: Any, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(connection, "_READ_SECONDS", 0.5)
    with anyio.fail_after(60):
        async with open_server(await hostile("old-sse", "good")) as tools:
            with pytest.raises(ServerUnavailableError, match="the connection ended"):
                await tools.call("say", {"holds": ""})


@each_way_and_era
async def test_a_server_of_prompts_alone_has_no_tools_and_does_not_fail(hostile: Any, way: str, era: str):
    with anyio.fail_after(60):
        async with open_server(await hostile(way, "no-tools", era)) as tools:
            assert await tools.list() == ()
            assert (await tools.search("say something")).tools == ()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        ("400", {"code": -32000, "message": "Bad Request: No valid session ID provided"}),
        ("404", {"code": -32001, "message": "Session not found"}),
        ("404", {"code": -32600, "message": "Session not found"}),
        ("404", None),
    ],
)
async def test_a_server_that_has_forgotten_the_session_is_connected_to_again(
    hostile: Any, status: str, error: dict[str, Any] | None
):
    """As it does when it restarts. Servers on version 1 of the Python SDK give their refusals an id of their own."""
    lost = json.dumps({"jsonrpc": "2.0", "id": "server-error", "error": error}) if error else ""
    with anyio.fail_after(60):
        target = await hostile("json", "good", "legacy")
        server = SupervisedServer(partial(open_server, target), backoff=Backoff(0))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.run)
            first = await server.tools()
            with pytest.raises(ServerUnavailableError, match="it no longer knows the session, as after a restart"):
                await first.call("say", {"refuses": status, "answer": lost})
            second = first
            while second is first:
                with suppress(ServerUnavailableError):  # while the lost connection is tidied up
                    second = await server.tools()
                await anyio.sleep(0.01)
            assert not (await second.call("say", {})).is_error
            tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("era", "status", "stated", "code", "message"),
    [
        ("legacy", "500", True, -32000, "the session store is away"),
        ("legacy", "400", True, -32602, "there is no session 7"),
        ("legacy", "400", True, -32600, "there is no such cursor"),
        ("legacy", "500", False, INTERNAL_ERROR, "it refused the request with HTTP 500"),
        ("modern", "404", True, -32600, "Session not found"),
        ("modern", "404", False, METHOD_NOT_FOUND, "it refused the request with HTTP 404"),
    ],
)
async def test_a_refusal_that_is_not_about_the_session_of_the_connection_is_the_answer(
    hostile: Any, era: str, status: str, stated: bool, code: int, message: str
):
    answer = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}) if stated else ""
    with anyio.fail_after(60):
        async with open_server(await hostile("json", "good", era)) as tools:
            with pytest.raises(ServerRefusedError, match=message) as refused:
                await tools.call("say", {"refuses": status, "answer": answer})
            assert refused.value.code == code
            assert texts(await tools.call("say", {})) == ["fine"]


async def test_a_server_that_never_knows_the_session_is_asked_twice(hostile: Any):
    sent = Notes()
    options = FederationOptions(connection=ConnectionOptions(era="legacy", observer=sent))
    lost = '{"jsonrpc": "2.0", "id": ID, "error": {"code": -32600, "message": "Session not found"}}'
    with anyio.fail_after(60):
        servers = Configuration((ServerEntry("own", await hostile("json", "good", "legacy")),))
        async with open_federation(servers, options) as federation:
            with pytest.raises(ServerUnavailableError, match="it no longer knows the session, as after a restart"):
                await federation.call("own__say", {"refuses": "404", "answer": lost})
    assert sent.sent_methods.count("tools/call") == 2


@pytest.mark.rotating
@pytest.mark.parametrize("begins", ["", "1"], ids=["before", "after"])
@pytest.mark.parametrize(("way", "era"), [("events", "modern"), ("events", "legacy"), ("json", "legacy")])
async def test_calls_that_were_given_up_leave_nothing_open_and_take_no_place_of_others(
    hostile: Any,
    until: Callable[[Callable[[], bool]], Any],
    caplog: pytest.LogCaptureFixture,
    way: str,
    era: str,
    begins: str,
):
    """Whether their responses begin before they are given up, or after."""
    options = ConnectionOptions(discovery=DiscoveryOptions(call_timeout=0.5))

    async def give_up(tools: ServerTools) -> None:
        with pytest.raises(ServerTimeoutError):
            await tools.call("say", {"drips": begins})

    with anyio.fail_after(60):
        target = await hostile(way, "good", era)
        async with open_server(target, options) as tools:
            await tools.list()
            before = len(asyncio.all_tasks())
            for _ in range(5):  # more than the 100 connections that a client has by itself, and few at once
                async with anyio.create_task_group() as calls:
                    for _ in range(25):
                        calls.start_soon(give_up, tools)
            assert texts(await said(tools, content=[GOOD])) == ["DELETED"]
            await until(lambda: len(asyncio.all_tasks()) < before + 10)
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == []
