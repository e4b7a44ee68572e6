"""Streamable HTTP without an SDK: each message is a POST, each answer JSON or an event stream, with any status."""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

import anyio

from tools_search_conformance.wire.codec import (
    DEFAULT_LIMITS,
    JsonObject,
    Limits,
    MalformedError,
    decode_message,
    encode_as_is,
    id_text,
)
from tools_search_conformance.wire.display import abridged
from tools_search_conformance.wire.eras import TransportName
from tools_search_conformance.wire.http_client import HttpClient, HttpError, Response
from tools_search_conformance.wire.process import TargetError, TargetProcess
from tools_search_conformance.wire.record import BYTES_LOGGED, NO_MESSAGE, RATE_LIMITED, Answer, others

_BASE_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",  # limits on compressed bodies would not limit the parsed ones
}
_MAX_STRAYS: Final = 100
_MAX_COMPLAINTS: Final = 10_000
"""Maximum number of complaints to keep; each is short."""
_LARGE_BYTES: Final = 64 * 1024
"""Larger bodies are read one at a time, however many requests are in progress."""
_READ_OUT_SECONDS: Final = 0.05
_PATIENCE_SECONDS: Final = 65.0
"""How long to retry a request that a rate limit keeps refusing; most limits are per minute."""
_FIRST_PAUSE_SECONDS: Final = 0.5
"""The pause in seconds before a retry if no header states one; doubled each time."""
_LONGEST_TRUSTED_SECONDS: Final = 1.0
"""After the first longer pause, a header that asks for a shorter one is ignored, because it might always ask for 0."""
WAITING: Final = ContextVar[Callable[[float], None]]("WAITING", default=lambda _: None)
"""Called with each number of seconds that does not count towards a check's time limit."""

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_DELAY_SECONDS: Final = re.compile("[0-9]{1,9}")
_HOST: Final = re.compile("[a-z0-9._:%-]*")


def check_address(url: str, *, allow_remote: bool) -> None:
    """Raise a `TargetError` unless `url` is an http(s) URL and, if remote addresses are not allowed, local."""
    try:
        address = urlsplit(url)
        host, _ = (address.hostname or "").encode("idna").decode(), address.port
        if not _HOST.fullmatch(host):
            raise ValueError(f"{host!r} is not a host name")
    except ValueError as error:
        raise TargetError(f"{url!r} is not a URL: {error}") from error
    if address.scheme not in {"http", "https"} or not host:
        raise TargetError(f"{url!r} is not an http:// or https:// URL")
    try:
        local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        local = host == "localhost" or host.endswith(".localhost")
    if not allow_remote and not local:
        raise TargetError(f"{host} is not this machine; pass --allow-remote if you mean it")


class EventReader:
    """Parses an event stream. Comments, ids, retry times and named events are ignored, because they carry no message.

    A byte order mark before the first line is ignored, as is an event that no empty line ends. Invalid UTF-8 is kept
    for the codec to reject.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._most = limits.message_bytes
        self._rest = bytearray()
        self._after_cr = False
        self._at_start = True
        self._data: list[bytes] = []
        self._held = 0
        self._name = b""

    @property
    def unfinished(self) -> bool:
        """Whether an event has begun but not ended yet."""
        return bool(self._data) or self._rest.startswith(b"data")

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of every event that `chunk` completes; raises `MalformedError` if one is too large."""
        # A CR ends its line immediately; a following LF belongs to it, even in the next chunk.
        text = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        *ends, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        events: list[bytes] = []
        for end in ends:
            line = bytes(self._rest + end)
            self._rest.clear()
            if self._at_start:
                line, self._at_start = line.removeprefix(_BYTE_ORDER_MARK), False
            if not line:
                if self._name in (b"", b"message"):
                    events += filter(None, [b"\n".join(self._data)])
                self._data, self._held, self._name = [], 0, b""
            elif line == b"event" or line.startswith(b"event:"):
                self._name = line[6:].removeprefix(b" ")
            elif line == b"data" or line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
                self._held += len(line[5:]) + 1
                if self._held > self._most:
                    raise MalformedError(f"an event of more than {self._most} bytes")
        self._rest += rest
        if len(self._rest) > self._most:
            raise MalformedError(f"an event of more than {self._most} bytes")
        return events


@dataclass(eq=False)
class RateLimit:
    """How often a rate limit refused requests to a target, and how long they waited because of it."""

    refused: int = 0
    seconds: float = 0.0
    is_lasting: bool = False
    """Whether waiting has failed to help; then later requests are not retried."""


def retry_after(headers: Mapping[str, str], default: float) -> float:
    """Return the seconds in the `Retry-After` header, or `default` if it is missing or invalid.

    A date is compared with the answer's own date, which comes from the same clock.
    """
    value = headers.get("retry-after", "").strip()
    if _DELAY_SECONDS.fullmatch(value):
        return float(value)
    try:
        until = parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return default
    now = time.time()
    with suppress(ValueError, OverflowError):
        now = parsedate_to_datetime(headers.get("date", "")).timestamp()
    return max(0.0, until - now)


def _counted(number: int, most: int, what: str) -> int:
    if number > most:
        raise MalformedError(f"more than {most} {what}")
    return number


class HttpTransport:
    """Communicates with one MCP endpoint. It does not follow redirects or use proxies from the environment."""

    name: TransportName = "http"

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        ca_file: str | None = None,
        limits: Limits = DEFAULT_LIMITS,
        process: TargetProcess | None = None,
        rate_limit: RateLimit | None = None,
    ) -> None:
        """Take the address, and the process behind it if known. Connections to a target share its `rate_limit`."""
        self._rate_limit = rate_limit or RateLimit()
        self.malformed: list[str] = []
        self.noise: list[str] = []
        self.strays: list[JsonObject] = []
        self._closed: str | None = None
        self._process = process
        self._limits = limits
        self._large = anyio.Lock()
        self._streams_end = True
        """Whether all event streams so far have ended with the response."""
        self.url = url
        self._client = HttpClient(url, headers=headers or {}, ca_file=ca_file)

    @property
    def ended(self) -> str | None:
        """Why nothing more can be sent; `None` while the connection works."""
        gone = self._process if self._process and self._process.returncode is not None else None
        return self._closed or (gone and gone.how_it_ended())

    @property
    def logged(self) -> str | None:
        """The end of the output of the process behind the endpoint, if available."""
        return self._process and self._process.logged

    async def request(
        self, message: JsonObject, headers: Mapping[str, str], seconds: float, *, amid: str = ""
    ) -> Answer:
        """POST a message and return the first response with its id in the body, for any HTTP status.

        The timeout `seconds` applies to each attempt; a request refused by a rate limit is retried. The body is sent in
        two parts, divided in the middle of the first text `amid` in it, if there is one.
        """
        limit, pause, waited = self._rate_limit, _FIRST_PAUSE_SECONDS, 0.0
        while (answer := await self._post(message, headers, seconds, amid)).is_rate_limited:
            limit.refused += 1
            wait = retry_after(answer.headers, pause)
            if pause > _LONGEST_TRUSTED_SECONDS:
                wait = max(wait, pause)
            if limit.is_lasting or waited + wait > _PATIENCE_SECONDS:
                limit.is_lasting = True
                how = f"again and again for {waited:g} s" if waited else f"which asks to wait for {wait:g} s"
                return replace(answer, fault=f"HTTP {answer.status} instead of a response, {how}", waited=waited)
            WAITING.get()(wait)
            await anyio.sleep(wait)
            pause, waited, limit.seconds = 2 * pause, waited + wait, limit.seconds + wait
        return replace(answer, waited=waited)

    async def _post(self, message: JsonObject, headers: Mapping[str, str], seconds: float, amid: str) -> Answer:
        body = encode_as_is(message)
        cut = body.index(amid.encode()) + len(amid.encode()) // 2 if amid else 0
        try:
            with anyio.move_on_after(seconds):
                async with self._client.send("POST", _BASE_HEADERS | dict(headers), body, cut=cut) as response:
                    return await self._answer(message, headers, response)
        except HttpError as error:
            if self._process is not None:
                await self._process.settle()
            fault = str(error)
            hint = "; --ca-file FILE trusts another authority" if "CERTIFICATE_VERIFY_FAILED" in fault else ""
            return Answer(fault=f"{fault}{hint}")
        return Answer(fault=f"no response within {seconds:g} s")

    async def notify(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """POST a notification."""
        return await self.request(message, headers, seconds)

    async def leave(self, headers: Mapping[str, str], seconds: float) -> None:
        """End the session with a legacy server, ignoring its answer."""
        with anyio.move_on_after(seconds), suppress(HttpError):
            async with self._client.send("DELETE", headers):
                pass

    async def aclose(self) -> None:
        """Close every connection to the endpoint."""
        self._closed = self._closed or "the connection was closed"
        await self._client.aclose()

    async def _answer(self, sent: JsonObject, sent_headers: Mapping[str, str], response: Response) -> Answer:
        fault, before, headers = None, len(self.strays), response.headers
        message: JsonObject | None = None
        text = b""
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        reader = EventReader(self._limits) if kind == "text/event-stream" else None
        try:
            async with AsyncExitStack() as turn:
                message, text = await self._response_to(sent, sent_headers, response, turn, reader)
            if message is None:
                half = reader is not None and reader.unfinished
                came = ", but half an event: no empty line ends it" if half else others(self.strays[before:])
                fault = f"HTTP {response.status} without a response to the request{came}"
        except MalformedError as error:
            fault = f"HTTP {response.status} with a body {NO_MESSAGE} ({error})"
            promised = headers.get("content-type", "").startswith(("application/json", "text/event-stream"))
            # A rate limiter can be in front of the target, and does not have to use JSON-RPC.
            if promised and response.status not in RATE_LIMITED and len(self.malformed) < _MAX_COMPLAINTS:
                self.malformed.append(fault)
        if message is None and response.status in RATE_LIMITED:
            del self.strays[before:]
        text = text if len(text) < BYTES_LOGGED else b""
        return Answer(message=message, text=text, status=response.status, headers=headers, fault=fault)

    async def _response_to(
        self,
        sent: JsonObject,
        sent_headers: Mapping[str, str],
        response: Response,
        turn: AsyncExitStack,
        reader: EventReader | None,
    ) -> tuple[JsonObject | None, bytes]:
        """Return the response and its text, from a body or from the events that `reader` parses.

        A large body waits for its `turn`.
        """
        limits, body = self._limits, bytearray()
        taken = count = 0
        while chunk := await response.read():
            if taken <= _LARGE_BYTES < taken + len(chunk):
                await turn.enter_async_context(self._large)
            taken = _counted(taken + len(chunk), limits.total_bytes, "bytes")
            if reader is None:
                body += chunk
                if len(body) > limits.message_bytes:
                    raise MalformedError(f"a body of more than {limits.message_bytes} bytes")
                continue
            for data in reader.feed(chunk):
                count = _counted(count + 1, limits.messages, "events")
                if self._answers(sent, message := decode_message(data, limits)):
                    await self._read_out(response)
                    return message, data
                if message.get("method") == "ping" and "id" in message:
                    await self._answer_ping(message["id"], sent_headers)
        if body.strip() and self._answers(sent, message := decode_message(text := bytes(body), limits)):
            return message, text.strip()
        return None, b""

    async def _read_out(self, response: Response) -> None:
        """Read an event stream to its end, which comes immediately if the connection can be reused."""
        if self._streams_end:
            with suppress(HttpError), anyio.move_on_after(_READ_OUT_SECONDS):
                if not await response.read():
                    return
            self._streams_end = False

    async def _answer_ping(self, number: object, headers: Mapping[str, str]) -> None:
        """Answer a legacy server's ping, in the same session."""
        own = {name: value for name, value in headers.items() if name.lower().startswith("mcp-")}
        message: JsonObject = {"jsonrpc": "2.0", "id": number, "result": {}}
        with suppress(HttpError):
            async with self._client.send("POST", _BASE_HEADERS | own, encode_as_is(message)):
                pass

    def _answers(self, sent: JsonObject, message: JsonObject) -> bool:
        if "method" in message:
            return False
        # Each POST has one request, so an error without an id, or with an id of another type, refers to it.
        number = message.get("id")
        answers = "id" in sent and (id_text(number) == id_text(sent["id"]) or (number is None and "error" in message))
        if not answers and len(self.strays) < _MAX_STRAYS:
            self.strays.append(abridged(message))
        return answers
