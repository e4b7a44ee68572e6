"""Streamable HTTP without an SDK: each message a POST, each answer JSON or an event stream, read at any status."""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from types import TracebackType
from typing import Final, Self

import anyio
import anyio.lowlevel
import httpx2

from tools_search_conformance.wire.codec import (
    DEFAULT_LIMITS,
    JsonObject,
    Limits,
    MalformedError,
    decode_message,
    encode,
    id_text,
)
from tools_search_conformance.wire.eras import TransportName
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Answer, others

_BASE_HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
    "Accept-Encoding": "identity",  # bounds of compressed bodies would not bound the parsed ones
}
_STRAYS_KEPT: Final = 100


def check_address(url: str, *, allow_remote: bool) -> None:
    """Check that `url` is an address that may be spoken to.

    Raises:
        TargetError: it is no http(s) URL, or names another machine and that was not asked for.
    """
    try:
        address = httpx2.URL(url)
    except httpx2.InvalidURL as error:
        raise TargetError(f"{url!r} is no URL: {error}") from error
    if address.scheme not in {"http", "https"} or not address.host:
        raise TargetError(f"{url!r} is no http:// or https:// URL")
    if not allow_remote and not _is_loopback(address.host):
        raise TargetError(f"{address.host} is not this machine; add --allow-remote if you are sure")


def _is_loopback(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_KEPT: Final = 10_000
"""How many complaints are kept; each is short."""
_COOKIES: Final = 50


class BodyReader:
    """Reads a body that is one message."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._body = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """Keep `chunk` and return nothing: a body is whole only at its end.

        Raises:
            MalformedError: The body is beyond the bound of one message.
        """
        self._body += chunk
        if len(self._body) > self._limits.message_bytes:
            raise MalformedError(f"a body of more than {self._limits.message_bytes} bytes")
        return []

    def finish(self) -> list[bytes]:
        """Return the body, if it is not empty."""
        return [bytes(self._body)] if self._body.strip() else []


class EventReader:
    """Reads one event stream. Comments, ids, retry times and names of events carry no message and are passed over."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._rest = bytearray()
        self._after_cr = False
        self._data: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of every event that `chunk` completes.

        Raises:
            MalformedError: an event is beyond the bound of one message.
        """
        # A CR ends its line at once; an LF that follows belongs to it, in the next chunk too.
        text = chunk.removeprefix(b"\n") if self._after_cr else chunk
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        *ends, rest = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        lines: list[bytes] = []
        for end in ends:
            lines.append(bytes(self._rest + end))
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > self._limits.message_bytes:
            raise MalformedError(f"an event of more than {self._limits.message_bytes} bytes")
        return [data for line in lines if (data := self._line(line)) is not None]

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, self._data, self._held = b"\n".join(self._data), [], 0
            return data or None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._held += len(value) + 1
            if self._held > self._limits.message_bytes:
                raise MalformedError(f"an event of more than {self._limits.message_bytes} bytes")
        return None

    def finish(self) -> list[bytes]:
        """Return nothing: an event that no empty line ends is no event."""
        return []


@cache
def _authorities() -> ssl.SSLContext:
    """Return the trusted certificate authorities. Reading them takes longer than most checks, so it is done once."""
    return httpx2.create_ssl_context(trust_env=False)


class HttpTransport:
    """Speaks with one MCP endpoint. Redirects are not followed and proxies of the environment not used."""

    name: TransportName = "http"

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        gone: Callable[[], str | None] = lambda: None,
        settle: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
    ) -> None:
        """Take the address; `gone` returns how the process behind it ended, where that can be known.

        `settle` gives that process a moment to be gone for good when a connection to it has failed.
        """
        self._closed: str | None = None
        self._gone = gone
        self._settle = settle
        self.malformed: list[str] = []
        self.noise: list[str] = []
        self.strays: list[JsonObject] = []
        self._url = url
        self._limits = limits
        self._client = httpx2.AsyncClient(
            headers=dict(headers or {}), trust_env=False, timeout=None, verify=_authorities()
        )

    @property
    def ended(self) -> str | None:
        """Why nothing more can be sent, or `None` while something can."""
        return self._closed or self._gone()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def request(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """POST a request and take the first response with its id from the body, for any HTTP status."""
        return await self._post(message, headers, seconds)

    async def notify(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """POST a notification."""
        return await self._post(message, headers, seconds)

    async def leave(self, headers: Mapping[str, str], seconds: float) -> None:
        """End the session with a legacy server; its answer does not matter."""
        with anyio.move_on_after(seconds):
            try:
                await self._client.delete(self._url, headers=dict(headers))
            except httpx2.HTTPError:
                return

    async def aclose(self) -> None:
        """Close every connection to the endpoint."""
        self._closed = self._closed or "the connection was closed"
        await self._client.aclose()

    async def _post(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        try:
            with anyio.move_on_after(seconds):
                async with self._client.stream(
                    "POST", self._url, content=encode(message), headers=_BASE_HEADERS | dict(headers)
                ) as response:
                    return await self._answer(message, response)
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            await self._settle()
            return Answer(fault=f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)
        return Answer(fault=f"no response within {seconds:g} s")

    async def _answer(self, sent: JsonObject, response: httpx2.Response) -> Answer:
        fault, message, before = None, None, len(self.strays)
        try:
            message = await self._response_to(sent, response)
        except MalformedError as error:
            fault = str(error)
            promised = response.headers.get("content-type", "").startswith(("application/json", "text/event-stream"))
            if promised and len(self.malformed) < _KEPT:
                self.malformed.append(f"a body that is no message ({fault})")
        if message is None and fault is None:
            came = others(self.strays[before:])
            fault = f"HTTP {response.status_code} without a response to the request{came}"
        headers = {name.lower(): value for name, value in response.headers.items()}
        if len(self._client.cookies.jar) > _COOKIES:
            self._client.cookies.clear()
        return Answer(message=message, status=response.status_code, headers=headers, fault=fault)

    async def _response_to(self, sent: JsonObject, response: httpx2.Response) -> JsonObject | None:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        reader = EventReader(self._limits) if kind == "text/event-stream" else BodyReader(self._limits)
        taken = count = 0
        async for chunk in response.aiter_raw():
            taken += len(chunk)
            if taken > self._limits.total_bytes:
                raise MalformedError(f"more than {self._limits.total_bytes} bytes")
            for data in reader.feed(chunk):
                count += 1
                if count > self._limits.messages:
                    raise MalformedError(f"more than {self._limits.messages} events")
                if self._answers(sent, message := decode_message(data, self._limits)):
                    return message
        last = [decode_message(data, self._limits) for data in reader.finish()]
        return next((message for message in last if self._answers(sent, message)), None)

    def _answers(self, sent: JsonObject, message: JsonObject) -> bool:
        if "method" in message:
            return False
        # Each POST carries one request, so that an error without an id means this one, and an id of another type, too.
        number = message.get("id")
        answers = "id" in sent and (id_text(number) == id_text(sent["id"]) or (number is None and "error" in message))
        if not answers and len(self.strays) < _STRAYS_KEPT:
            self.strays.append(message)
        return answers
