"""The HTTP client, with real endpoints that answer bytes as they were set up."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute, SocketStream
from tools_search_conformance.wire import http_client
from tools_search_conformance.wire.http_client import HttpClient, HttpError

pytestmark = pytest.mark.anyio

OK: Final = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nX-Of: a\r\nx-of: b\r\n\r\nok"
Heads = list[list[bytes]]
"""The heads of requests, for each connection."""


@asynccontextmanager
async def endpoint(
    answer: Callable[[SocketStream], Awaitable[None]], host: str = "127.0.0.1"
) -> AsyncGenerator[tuple[str, Heads]]:
    """Serve on a port of this machine: each request is answered by `answer`, and its head kept."""
    heads: Heads = []

    async def serve(stream: SocketStream) -> None:
        heads.append(mine := [])
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    read = b""
                    while b"\r\n\r\n" not in read:
                        read += await stream.receive(1000)
                    mine.append(read.partition(b"\r\n\r\n")[0])
                    await answer(stream)

    with anyio.fail_after(20):
        listener = await anyio.create_tcp_listener(local_host=host)
        async with listener, anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - no database
            yield f"http://{f'[{host}]' if ':' in host else host}:{port}", heads
            tasks.cancel_scope.cancel()


async def ok(stream: SocketStream) -> None:
    await stream.send(OK)


async def whole(client: HttpClient, body: bytes = b"") -> bytes:
    """Return the whole body that a POST is answered by."""
    async with client.send("POST", {}, body) as response:
        read = bytearray()
        while chunk := await response.read():
            read += chunk
        return bytes(read)


async def test_a_connection_carries_one_request_after_the_other():
    async with endpoint(ok) as (url, heads), aclosing(HttpClient(url, headers={})) as client:
        assert [await whole(client, b"a") for _ in range(3)] == [b"ok"] * 3
    assert [len(each) for each in heads] == [3]


async def test_requests_at_the_same_time_have_connections_of_their_own():
    async with (
        endpoint(ok) as (url, heads),
        aclosing(HttpClient(url, headers={})) as client,
        client.send("POST", {}) as first,
        client.send("POST", {}) as second,
    ):
        assert await second.read() == await first.read() == b"ok"
    assert [len(each) for each in heads] == [1, 1]


async def test_what_is_not_read_is_given_up_with_its_connection():
    async def endless(stream: SocketStream) -> None:
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok")

    async with endpoint(endless) as (url, heads), aclosing(HttpClient(url, headers={})) as client:
        for _ in range(2):
            async with client.send("POST", {}) as response:
                assert await response.read() == b"ok"
    assert [len(each) for each in heads] == [1, 1]


@pytest.mark.parametrize("more", [b"HTTP/1.1 500 Late\r\n\r\n", b""])
async def test_a_connection_on_which_more_came_or_that_was_closed_is_not_used_again(more: bytes):
    async def and_more(stream: SocketStream) -> None:
        await stream.send(OK + more)
        if not more:
            await stream.aclose()

    async with endpoint(and_more) as (url, heads), aclosing(HttpClient(url, headers={})) as client:
        for _ in range(3):
            assert await whole(client) == b"ok"
            await anyio.lowlevel.checkpoint()
    assert [len(each) for each in heads] == [1, 1, 1]


async def test_a_connection_that_was_idle_for_long_is_not_used_again(monkeypatch: pytest.MonkeyPatch):
    async with endpoint(ok) as (url, heads), aclosing(HttpClient(url, headers={})) as client:
        await whole(client)
        monkeypatch.setattr(http_client, "_IDLE_SECONDS", 0)
        await whole(client)
    assert [len(each) for each in heads] == [1, 1]


async def test_an_answer_that_comes_before_the_request_was_read_is_taken():
    async def early(stream: SocketStream) -> None:
        await stream.send(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await stream.aclose()

    async with (
        endpoint(early) as (url, _),
        aclosing(HttpClient(url, headers={})) as client,
        client.send("POST", {}, b"x" * 200_000) as response,
    ):
        assert response.status == 413


async def test_the_request_says_what_it_is():
    given = {"accept": "b", "X-Own": "1"}
    async with endpoint(ok) as (url, heads):
        url = url.replace("//", "//user:p%40ss@") + "/a b/%C3%BC/ü?q=1&r=ä#part"
        client = HttpClient(url, headers={"Accept": "a", "X-All": "2"})
        async with aclosing(client), client.send("DELETE", given) as response:
            assert response.headers == {"content-length": "2", "x-of": "a, b"}
    line, *lines = heads[0][0].decode().split("\r\n")
    assert line == "DELETE /a%20b/%C3%BC/%C3%BC?q=1&r=%C3%A4 HTTP/1.1"
    host = url.rpartition("@")[2].partition("/")[0]
    authorization = "Authorization: Basic dXNlcjpwQHNz"
    assert sorted(lines) == sorted(
        [f"Host: {host}", authorization, "accept: b", "X-Own: 1", "X-All: 2", "Content-Length: 0"]
    )


async def test_an_address_of_version_six_is_spoken_to():
    async with endpoint(ok, "::1") as (url, heads), aclosing(HttpClient(url, headers={})) as client:
        assert await whole(client) == b"ok"
    assert url.removeprefix("http://").encode() in heads[0][0]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"", "closed the connection instead of answering"),
        (b"SSH-2.0-x\r\n\r\n", "illegal status line"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "without sending complete message body"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000, "Receive buffer too long"),
    ],
)
async def test_what_is_no_http_is_an_error_that_says_so(answer: bytes, said: str):
    async def send_it(stream: SocketStream) -> None:
        await stream.send(answer)
        await stream.aclose()

    async with endpoint(send_it) as (url, _), aclosing(HttpClient(url, headers={})) as client:
        with pytest.raises(HttpError) as raised:
            await whole(client)
    assert said in str(raised.value)


async def test_a_header_that_http_cannot_hold_is_an_error():
    async with aclosing(HttpClient("http://127.0.0.1:9", headers={"X": "a\r\nb"})) as client:
        with pytest.raises(HttpError, match="LocalProtocolError"):
            await whole(client)


async def test_an_endpoint_that_is_not_there_is_an_error_that_names_it():
    async with aclosing(HttpClient("http://127.0.0.1:9/mcp", headers={})) as client:
        with pytest.raises(HttpError, match=r"cannot connect to 127\.0\.0\.1:9: "):
            await whole(client)
