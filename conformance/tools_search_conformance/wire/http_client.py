"""An HTTP/1.1 client for one endpoint: keeps connections alive, and streams bodies."""

from __future__ import annotations

import base64
import os
import select
import ssl
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import anyio
import h11
from anyio.abc import ByteStream, SocketAttribute

_HEAD_BYTES: Final = 100 * 1024
_READ_BYTES: Final = 64 * 1024
_BETWEEN_SECONDS: Final = 0.05
"""How long to wait between two parts of a body, so that the endpoint reads them separately."""
_IDLE_SECONDS: Final = 4.0
"""How long to keep an idle connection; many servers close theirs after five seconds."""
_UNESCAPED: Final = "/%:@!$&'()*+,;=~-._"


class HttpError(Exception):
    """The endpoint cannot be reached, or does not send valid HTTP; the message says how."""


@dataclass(frozen=True)
class Response:
    """A response whose body might not have been received yet."""

    status: int
    headers: Mapping[str, str]
    """Values by lower-case name; repeated headers are joined with commas."""
    read: Callable[[], Awaitable[bytes]]
    """Returns the next part of the raw body, empty at its end; raises `HttpError` if it breaks off."""


@dataclass(eq=False)
class _Connection:
    """A connection, for one request at a time."""

    stream: ByteStream
    http: h11.Connection = field(
        default_factory=lambda: h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_BYTES)
    )
    idle_since: float = 0.0

    def __post_init__(self) -> None:
        self._poll = select.poll()
        self._poll.register(self.stream.extra(SocketAttribute.raw_socket), select.POLLIN)  # noqa: S610 - no database

    async def respond_to(self, request: h11.Request, body: bytes, cut: int) -> Response:
        """Send a request, and return the response once its headers have arrived. `cut` is as for `HttpClient.send`."""
        begins = [request, h11.Data(data=body[:cut])] if cut else [request]
        rest = [h11.Data(data=body[cut:]), h11.EndOfMessage()]
        # An endpoint can answer and close before it has read everything.
        with _as_http_errors(), suppress(anyio.BrokenResourceError):
            if cut:
                await self._write(begins)
                await anyio.sleep(_BETWEEN_SECONDS)
                begins = []
            await self._write([*begins, *rest])
        while not isinstance(event := await self._next(), h11.Response):
            pass
        headers: dict[str, str] = {}
        for name, value in ((name.decode("latin-1"), value.decode("latin-1")) for name, value in event.headers):
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Response(event.status_code, headers, self._read)

    async def _write(self, events: Sequence[h11.Event]) -> None:
        await self.stream.send(b"".join(filter(None, map(self.http.send, events))))

    async def _read(self) -> bytes:
        while isinstance(event := await self._next(), h11.Data):
            if event.data:
                return bytes(event.data)
        return b""

    async def _next(self) -> object:
        with _as_http_errors():
            while (event := self.http.next_event()) is h11.NEED_DATA:
                try:
                    data = await self.stream.receive(_READ_BYTES)
                except anyio.EndOfStream:
                    if self.http.their_state is h11.SEND_RESPONSE and not self.http.trailing_data[0]:
                        raise HttpError("it closed the connection instead of answering") from None
                    data = b""
                self.http.receive_data(data)
        return event

    def start_next_cycle(self) -> bool:
        """Prepare for another request, and return whether that is possible."""
        if not (self.http.our_state is self.http.their_state is h11.DONE) or self.http.trailing_data[0]:
            return False
        self.http.start_next_cycle()
        self.idle_since = time.monotonic()
        return True

    def is_usable(self) -> bool:
        """Return whether the idle connection is unchanged: any data since then is its end, or answers no request."""
        return time.monotonic() - self.idle_since < _IDLE_SECONDS and not self._poll.poll(0)

    async def aclose(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.stream.aclose()


class HttpClient:
    """Sends requests to one URL, without redirects, decoding, cookies, or settings from the environment."""

    def __init__(self, url: str, *, headers: Mapping[str, str], ca_file: str | None = None) -> None:
        """Take an http(s) URL, headers for every request, and a file with certificate authorities to trust as well."""
        address = urlsplit(url)
        self._tls = address.scheme == "https"
        self._ca_file = ca_file
        self._host = address.hostname or ""
        self._port = address.port or (443 if self._tls else 80)
        query = f"?{quote(address.query, safe=_UNESCAPED + '?')}" if address.query else ""
        self._target = (quote(address.path, safe=_UNESCAPED) or "/") + query
        self._headers = {"Host": address.netloc.rpartition("@")[2].encode("idna").decode(), **headers}
        if address.username is not None:
            user = f"{unquote(address.username)}:{unquote(address.password or '')}".encode()
            self._headers["Authorization"] = f"Basic {base64.b64encode(user).decode()}"
        self._idle: list[_Connection] = []

    @asynccontextmanager
    async def send(
        self, method: str, headers: Mapping[str, str], body: bytes = b"", *, cut: int = 0
    ) -> AsyncGenerator[Response]:
        """Send a request and yield the response; if its body is not read completely, the connection is closed.

        The first `cut` bytes of the request's body are sent with the headers, and the rest a moment later; 0 sends
        everything at once.
        """
        named = {name.lower(): (name, value) for name, value in {**self._headers, **headers}.items()}
        named["content-length"] = ("Content-Length", str(len(body)))
        with _as_http_errors():
            request = h11.Request(method=method, target=self._target, headers=[*named.values()])
        connection = await self._connection()
        try:
            yield await connection.respond_to(request, body, cut)
        finally:
            if connection.start_next_cycle():
                self._idle.append(connection)
            else:
                await connection.aclose()

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            await self._idle.pop().aclose()

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable():
                return connection
            await connection.aclose()
        try:
            if not self._tls:
                return _Connection(await anyio.connect_tcp(self._host, self._port))
            context = authorities(self._ca_file)
            return _Connection(
                await anyio.connect_tcp(
                    self._host, self._port, tls=True, ssl_context=context, tls_standard_compatible=False
                )
            )
        except (OSError, anyio.BrokenResourceError, anyio.EndOfStream) as error:
            raise HttpError(f"cannot connect to {self._host}:{self._port}: {_reason(error)}") from error


@cache
def authorities(ca_file: str | None = None) -> ssl.SSLContext:
    """Return the certificate authorities to trust: the usual ones, and those in SSL_CERT_FILE and `ca_file`.

    Cached, because loading them takes longer than most checks. Raises an `OSError` that names a file that has none.
    """
    if sys.platform in {"darwin", "win32"}:
        import truststore  # elsewhere, OpenSSL loads the system's authorities

        context: ssl.SSLContext = truststore.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    else:
        context = ssl.create_default_context()
    for file in filter(None, (os.environ.get("SSL_CERT_FILE"), ca_file)):
        try:
            context.load_verify_locations(file)
        except OSError as error:  # also of the kind `SSLError`, for a file with something else
            raise OSError(f"cannot read certificate authorities from {file!r}: {error}") from None
    return context


@contextmanager
def _as_http_errors() -> Generator[None]:
    try:
        yield
    except h11.ProtocolError as error:
        raise HttpError(f"{type(error).__name__}: {error}") from error
    except (OSError, anyio.BrokenResourceError, anyio.ClosedResourceError) as error:
        raise HttpError(f"the connection broke: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """Return the system's reason, which anyio wraps."""
    while error.__cause__ is not None and not isinstance(error.__cause__, BaseExceptionGroup):
        error = error.__cause__
    return str(error) or type(error).__name__
