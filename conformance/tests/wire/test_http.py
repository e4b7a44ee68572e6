"""Streamable HTTP, with a real endpoint that answers as it was set up, and its bodies, cut anywhere."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator
from contextlib import aclosing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any, Final

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_search_conformance.wire.codec import Limits, MalformedError
from tools_search_conformance.wire.http import EventReader, HttpTransport, RateLimit, check_address, retry_after
from tools_search_conformance.wire.process import TargetError

pytestmark = pytest.mark.anyio

REQUEST: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
RESPONSE: Final[dict[str, Any]] = {"jsonrpc": "2.0", "id": 1, "result": {}}
PLAIN: Final = {"Content-Type": "application/json; charset=utf-8"}
EVENTS: Final = {"Content-Type": "text/event-stream"}


class Endpoint(ThreadingHTTPServer):
    """Answers each request with the same bytes, and keeps what it was sent."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.status, self.headers, self.chunks = 200, dict[str, str](), [b""]
        self.refusals: list[tuple[int, dict[str, str]]] = []
        """Statuses and headers of the first answers, which have bodies that are no messages."""
        self.seen: list[dict[str, str]] = []
        self.parts: list[bytes] = []
        """What each read of the last body returned."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/mcp"


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint  # pyright: ignore[reportIncompatibleVariableOverride] - the only server it is used with

    def do_POST(self) -> None:
        came = {"verb": self.command, "port": str(self.client_address[1])}
        self.server.seen.append({name.lower(): value for name, value in self.headers.items()} | came)
        left, self.server.parts = int(self.headers.get("Content-Length", 0)), []
        while left and (part := self.rfile.read1(left)):  # type: ignore[attr-defined]
            self.server.parts.append(part)
            left -= len(part)
        status, headers, chunks = self.server.status, self.server.headers, self.server.chunks
        if self.server.refusals:
            (status, headers), chunks = self.server.refusals.pop(0), [b'{"error": "Too Many Requests"}']
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        try:
            for chunk in chunks:
                self.wfile.write(chunk)
        except OSError:
            return

    do_DELETE = do_POST

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """Say nothing."""


@pytest.fixture
def endpoint() -> Generator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


Respond = Callable[..., None]


@pytest.mark.parametrize("status", [200, 400, 404, 500])
async def test_a_body_is_read_at_any_status(endpoint: Endpoint, status: int):
    endpoint.status, endpoint.headers, endpoint.chunks = status, PLAIN, [json.dumps(RESPONSE).encode()]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        answer = await transport.request(REQUEST, {"Mcp-Method": "ping"}, 5)
    assert (answer.status, answer.message, answer.fault) == (status, RESPONSE, None)
    assert endpoint.seen[0]["mcp-method"] == "ping"
    assert endpoint.seen[0]["accept"] == "application/json, text/event-stream"
    assert endpoint.seen[0]["accept-encoding"] == "identity"


async def test_a_body_can_be_sent_in_two_parts_divided_inside_a_character(endpoint: Endpoint):
    endpoint.headers, endpoint.chunks = PLAIN, [json.dumps(RESPONSE).encode()]
    message = REQUEST | {"params": {"query": "a 船 b"}}
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        answer = await transport.request(message, {}, 5, amid="船")
        first, second = endpoint.parts
        assert (answer.message, first[-1:], second[:2]) == (RESPONSE, "船".encode()[:1], "船".encode()[1:])
        assert json.loads(first + second) == message
        await transport.request(message, {}, 5)
    assert len(endpoint.parts) == 1


@pytest.mark.parametrize("after", ["0", "Wed, 21 Oct 2015 07:28:00 GMT", "soon", "", "\u0660"])
async def test_a_request_that_a_rate_limit_refuses_is_sent_again(endpoint: Endpoint, after: str):
    endpoint.refusals = [(429, PLAIN | {"Retry-After": after.encode().decode("latin-1")}), (503, {"Retry-After": "0"})]
    endpoint.headers, endpoint.chunks = PLAIN, [json.dumps(RESPONSE).encode()]
    limit = RateLimit()
    async with aclosing(HttpTransport(endpoint.url, rate_limit=limit)) as transport:
        answer = await transport.request(REQUEST, {}, 5)
        assert (answer.status, answer.message, transport.malformed) == (200, RESPONSE, [])
    assert len(endpoint.seen) == 3
    assert (limit.refused, limit.is_lasting) == (2, False)
    assert answer.waited == limit.seconds == (0 if after[-1:] in ("0", "T") else 0.5)


async def test_after_a_rate_limit_that_lasts_requests_are_sent_once(endpoint: Endpoint):
    endpoint.refusals = [(429, {"Retry-After": "3600"}), (503, {})]
    endpoint.headers, endpoint.chunks = PLAIN, [json.dumps(RESPONSE).encode()]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        answers = [await transport.request(REQUEST, {}, 5) for _ in range(3)]
    assert [answer.is_rate_limited for answer in answers] == [True, True, False]
    assert answers[0].fault == "HTTP 429 instead of a response, which asks to wait for 3600 s"
    assert len(endpoint.seen) == 3


async def test_a_rate_limit_that_asks_each_time_to_come_again_at_once_is_one_that_lasts(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("tools_search_conformance.wire.http._PATIENCE_SECONDS", 1.0)
    endpoint.refusals = [(429, {"Retry-After": "0"})] * 100
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        with anyio.fail_after(20):
            assert (await transport.request(REQUEST, {}, 5)).is_rate_limited
    assert len(endpoint.seen) == 3


async def test_what_a_proxy_says_in_place_of_a_response_is_no_message_of_the_server(endpoint: Endpoint):
    endpoint.status, endpoint.headers = 429, {**PLAIN, "Retry-After": "3600"}
    endpoint.chunks = [b'{"jsonrpc":"2.0","id":"proxy","error":{"code":-32000,"message":"Too many requests"}}']
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {}, 5)).is_rate_limited
    assert (transport.strays, transport.malformed) == ([], [])


async def test_a_response_with_a_status_of_load_is_a_response(endpoint: Endpoint):
    error = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32603, "message": "Too busy", "data": {"retryAfterMs": 1}}}
    endpoint.status, endpoint.headers, endpoint.chunks = 503, PLAIN, [json.dumps(error).encode()]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {}, 5)).message == error
    assert len(endpoint.seen) == 1


async def test_a_body_is_whole_at_its_end(endpoint: Endpoint):
    whole = json.dumps(RESPONSE).encode()
    endpoint.headers, endpoint.chunks = PLAIN, [whole[:9], whole[9:]]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {}, 5)).message == RESPONSE


async def test_the_response_is_found_among_events(endpoint: Endpoint):
    note = b'data: {"jsonrpc":"2.0","method":"notifications/progress","params":{}}\n\n'
    other = b'data: {"jsonrpc":"2.0","id":2,"result":{}}\n\n'
    endpoint.headers, endpoint.chunks = (
        EVENTS,
        [b": hi\n\n", note, other, b"data: " + json.dumps(RESPONSE).encode(), b"\n\n"],
    )
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {}, 5)).message == RESPONSE


@pytest.mark.parametrize("ends", [True, False])
async def test_a_connection_carries_the_next_request_where_the_stream_ends_with_the_response(
    endpoint: Endpoint, ends: bool
):
    endpoint.RequestHandlerClass = type("_Keeping", (_Handler,), {"protocol_version": "HTTP/1.1"})
    event = b"data: " + json.dumps(RESPONSE).encode() + b"\n\n"
    endpoint.headers = EVENTS | {"Transfer-Encoding": "chunked"}
    endpoint.chunks = [b"%x\r\n%b\r\n" % (len(event), event), b"0\r\n\r\n" if ends else b""]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        for _ in range(3):
            assert (await transport.request(REQUEST, {}, 5)).message == RESPONSE
    assert len({seen["port"] for seen in endpoint.seen}) == (1 if ends else 3)


async def test_a_ping_among_events_is_answered_in_its_session(endpoint: Endpoint):
    ping = b'event: message\ndata: {"jsonrpc":"2.0","id":"p","method":"ping"}\n\n'
    endpoint.headers, endpoint.chunks = EVENTS, [ping, b"data: " + json.dumps(RESPONSE).encode() + b"\n\n"]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {"Mcp-Session-Id": "s"}, 5)).message == RESPONSE
    assert [seen["mcp-session-id"] for seen in endpoint.seen] == ["s", "s"]


async def test_an_error_that_names_no_request_answers_the_only_one(endpoint: Endpoint):
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no"}}
    endpoint.status, endpoint.headers, endpoint.chunks = 400, PLAIN, [json.dumps(refusal).encode()]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {}, 5)).message == refusal


async def test_a_response_to_nothing_is_kept_apart(endpoint: Endpoint):
    endpoint.headers, endpoint.chunks = PLAIN, [b'{"jsonrpc":"2.0","id":null,"result":{}}']
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        notification = {name: value for name, value in REQUEST.items() if name != "id"}
        answer = await transport.notify(notification, {}, 5)
        assert (answer.message, answer.status) == (None, 200)
        assert [stray["id"] for stray in transport.strays] == [None]


@pytest.mark.parametrize(
    ("headers", "body", "fault"),
    [
        (PLAIN, b"", "HTTP 200 without a response"),
        (PLAIN, b" \r\n", "HTTP 200 without a response"),
        (PLAIN, b'{"jsonrpc":"2.0","id":7,"result":{}}', "HTTP 200 without a response"),
        (PLAIN, b"[1]", "not an object"),
        (PLAIN, b"{", "not JSON"),
        ({"Content-Type": "text/html"}, b"<html>", "not JSON"),
        (EVENTS, b"data: nonsense\n\n", "not JSON"),
        (EVENTS, b"data: lost", "HTTP 200 without a response to the request, but half an event"),
        (EVENTS, b"data: lost\n", "but half an event: no empty line ends it"),
        (EVENTS, b"data: {}", "but half an event"),
    ],
)
async def test_what_is_no_response_is_a_fault(endpoint: Endpoint, headers: dict[str, str], body: bytes, fault: str):
    endpoint.headers, endpoint.chunks = headers, [body]
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        answer = await transport.request(REQUEST, {}, 5)
        assert answer.message is None
        assert fault in str(answer.fault)
        assert bool(transport.malformed) == (
            ("JSON" in fault and "html" not in headers["Content-Type"]) or "object" in fault
        )


@pytest.mark.parametrize(
    ("limits", "headers", "chunk"),
    [
        (Limits(message_bytes=1000), PLAIN, b"x" * 500),
        (Limits(message_bytes=1000), EVENTS, b"data: " + b"x" * 500),
        (Limits(total_bytes=1000), EVENTS, b": x\n\n" * 100),
        (Limits(messages=10), EVENTS, b'data: {"jsonrpc":"2.0","method":"m"}\n\n'),
    ],
)
async def test_a_flood_is_cut_off(endpoint: Endpoint, limits: Limits, headers: dict[str, str], chunk: bytes):
    endpoint.headers, endpoint.chunks = headers, [chunk] * 1000
    async with aclosing(HttpTransport(endpoint.url, limits=limits)) as transport:
        assert "more than 10" in str((await transport.request(REQUEST, {}, 5)).fault)


async def test_redirects_are_not_followed(endpoint: Endpoint):
    endpoint.status, endpoint.headers = 307, {"Location": endpoint.url}
    async with aclosing(HttpTransport(endpoint.url)) as transport:
        assert (await transport.request(REQUEST, {}, 5)).status == 307
    assert len(endpoint.seen) == 1


async def test_an_endpoint_that_is_not_there_is_a_fault():
    async with aclosing(HttpTransport("http://127.0.0.1:9/mcp")) as transport:
        assert "cannot connect to 127.0.0.1:9" in str((await transport.request(REQUEST, {}, 5)).fault)
        await transport.leave({}, 1)
        assert (await transport.notify(REQUEST, {}, 5)).message is None
    assert transport.ended == "the connection was closed"


async def test_a_session_is_left(endpoint: Endpoint):
    async with aclosing(HttpTransport(endpoint.url, headers={"Authorization": "Bearer x"})) as transport:
        await transport.leave({"Mcp-Session-Id": "s"}, 5)
    assert endpoint.seen[0]["verb"] == "DELETE"
    assert endpoint.seen[0]["authorization"] == "Bearer x"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:1/mcp", "http://localhost/mcp", "https://[::1]:2/", "http://a.localhost/"]
)
def test_this_machine_may_be_spoken_to(url: str):
    check_address(url, allow_remote=False)


def test_another_machine_only_if_that_was_asked_for():
    with pytest.raises(TargetError, match="--allow-remote"):
        check_address("http://example.com/mcp", allow_remote=False)
    check_address("http://example.com/mcp", allow_remote=True)


@pytest.mark.parametrize(
    "url",
    [
        "", "mcp", "ftp://127.0.0.1/", "http://", "http://[::1", "file:///etc/passwd", "http://a..b/", "http://a:x/",
        "http://a:70000/", "http://a b/", f"http://{'a' * 64}/", "http://a\x01/", "http://a\u2100/",
    ],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str):
    with pytest.raises(TargetError, match=r"is not an? (http|URL)"):
        check_address(url, allow_remote=True)


STREAM = (
    b"\xef\xbb\xbf: hello\r\n\r\nevent: message\nid: 1\ndata: one\ndata:  two\n\nevent: ping\ndata: no JSON\n\n"
    b"retry: 5\rdata:three\r\rdata\n\ndata: lost"
)
COMPLETED = [b"one\n two", b"three"]


@given(st.lists(st.integers(min_value=0, max_value=len(STREAM))))
def test_events_are_the_same_however_the_stream_is_cut(cuts: list[int]):
    reader, places = EventReader(), [0, *sorted(cuts), len(STREAM)]
    chunks = [STREAM[a:b] for a, b in pairwise(places)]
    assert [event for chunk in chunks for event in reader.feed(chunk)] == COMPLETED


@pytest.mark.parametrize("start", [b"", b"\xef\xbb\xbf"])
def test_a_byte_order_mark_before_the_first_line_is_no_part_of_it(start: bytes):
    reader = EventReader()
    assert reader.feed(start + b"data: one\n\n\xef\xbb\xbfdata: two\n\ndata: three\n\n") == [b"one", b"three"]


@pytest.mark.parametrize("char", ["\u0085", "\u2028", "\u2029", "\x0b", "\x0c", "\x1c"])
def test_only_cr_and_lf_end_a_line_of_events(char: str):
    data = f'{{"jsonrpc":"2.0","text":"a{char}b"}}'.encode()
    assert EventReader().feed(b"data: " + data + b"\n\n") == [data]


@pytest.mark.parametrize(
    ("value", "date", "seconds"),
    [
        ("Wed, 21 Oct 2015 07:28:05 GMT", "Wed, 21 Oct 2015 07:28:00 GMT", 5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", "Wed, 21 Oct 2015 07:28:05 GMT", 0),
        ("Wed, 21 Oct 2015 07:28:05 GMT", "soon", 0),
        ("Wed, 21 Oct 2015 07:28:05 GMT", "", 0),
        ("7", "Wed, 21 Oct 2015 07:28:05 GMT", 7),
        ("soon", "Wed, 21 Oct 2015 07:28:05 GMT", 3),
    ],
)
def test_a_date_to_come_again_is_compared_with_that_of_the_answer(value: str, date: str, seconds: float):
    assert retry_after({"retry-after": value, "date": date}, 3) == seconds


@pytest.mark.parametrize("data", [b"x" * 20, b"data: " + b"x" * 20, b"data: xxxx\n" * 5])
def test_an_event_beyond_the_bound_is_refused(data: bytes):
    with pytest.raises(MalformedError):
        EventReader(Limits(message_bytes=10)).feed(data)
