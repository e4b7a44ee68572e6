"""The HTTP server: uvicorn with connection limits and timeouts.

uvicorn accepts any number of connections, waits indefinitely for their requests, and logs each failure to accept one.
This server protects itself before it knows anything about the clients:

* It limits the number of connections. When all are in use, it closes one that has not sent a complete request.
* Clients must send each request, and read each response, within a time limit.
* It counts the connections that it closes, and logs one line a minute.
* When it serves only this machine, `Host` and `Origin` must name this machine. This prevents DNS rebinding, in which a
  web page reaches the machine under another name.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import chain
from typing import Any, Final

import anyio
import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from tools_search_server.base.address import is_loopback

logger = logging.getLogger(__name__)

_MAX_CONNECTIONS: Final = 4096
_REQUEST_SECONDS: Final = 20
"""How long a client may take to send a complete request, from the time it connects or starts another request."""

_ACCEPTED_AT_ONCE: Final = 32
_RETRY_SECONDS: Final = 0.1
_STALLED_SECONDS: Final = 60
"""How long a client may leave its response unread."""

_KEEP_ALIVE_SECONDS: Final = 75
"""How long an idle connection is kept open. Clients (5 s in httpx) and proxies (60 s) stop reusing it sooner, so none
sends a request on a connection that is being closed, where it would be lost."""

_MIN_CONNECTIONS: Final = 16
_LAST_BYTES_SECONDS: Final = 0.5
_LAST_RESORT_SECONDS: Final = 2
_REPORT_SECONDS: Final = 60

_BUSY: Final = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_AUTHORITY: Final = re.compile(r"(localhost|[0-9.]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?")


class HttpServer:
    """Serves an ASGI application.

    `descriptors` is how many files this process may open; connections use at most half of them. With `is_local`,
    `Host` and `Origin` must name this machine.

    The states of a connection, with the time limit after each transition. To make room for another connection, one
    without a request is closed, or else one that is idle, requesting or not read:

        from        to          when                                        limit
        ----------  ----------  ------------------------------------------  -------------------------------
        (new)       no request  always                                      20 s for the complete request
        no request  requesting  the head of its first request is complete   the same 20 s
        requesting  answering   its request is complete                     none
        answering   idle        its response is complete                    75 s until another request
        idle        requesting  another request has begun                   20 s for the complete request
        answering   not read    its client does not read the response       60 s
        not read    answering   its client reads again                      none
        any         (closed)    at the limit, by the client, or at the end
    """

    def __init__(self, app: ASGIApp, *, descriptors: int, is_local: bool) -> None:
        self._most_connections = self.max_connections = min(_MAX_CONNECTIONS, descriptors // 2)
        self._app = app
        self._is_local = is_local
        self._connections: set[_Connection] = set()
        self._without_request: dict[_Connection, None] = {}
        self._idle: dict[_Connection, None] = {}
        self._requests: dict[anyio.CancelScope, str] = {}
        self._closed: Counter[str] = Counter()
        self._has_closed = anyio.Event()
        self._is_answered = anyio.Event()

    @asynccontextmanager
    async def opened(self, listener: socket.socket) -> AsyncGenerator[None]:
        """Serve connections to `listener` until the context ends. No request is open after that."""
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "none", "interface": "asgi3"}
        config = uvicorn.Config(
            self._answer,
            lifespan="off",
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_LAST_RESORT_SECONDS,
            **quiet,
        )
        config.load()
        web = _WebServer(config)
        served = anyio.Event()

        async def serve() -> None:
            await web.serve([])
            served.set()

        async with anyio.create_task_group() as serving:
            serving.start_soon(serve)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._accept, listener, config, web)
                tasks.start_soon(self._report)
                yield
                tasks.cancel_scope.cancel()
            # Before uvicorn stops, which would wait for them.
            self.end_requests()
            web.should_exit = True
            with anyio.move_on_after(_LAST_BYTES_SECONDS):
                await served.wait()
            for connection in list(self._connections):  # their clients do not read
                connection.end()

    async def finish(self, seconds: float) -> None:
        """End the notification streams, and allow other requests some seconds to be answered."""
        self.end_requests("GET")
        with anyio.move_on_after(seconds):
            while self._requests:
                self._is_answered = anyio.Event()
                await self._is_answered.wait()

    def end_requests(self, method: str | None = None) -> None:
        """Cut short all open requests, or only those with the given method."""
        for request, its_method in self._requests.items():
            if method in (None, its_method):
                request.cancel()

    def enter(self, connection: _Connection) -> bool:
        """Admit a new connection, closing another one if necessary. Return whether there is room."""
        if len(self._connections) >= self.max_connections and not self._make_room():
            self.note(f"refused because all {self.max_connections} were in use")
            return False
        self._connections.add(connection)
        return True

    def update(self, connection: _Connection) -> None:
        """Record whether a connection is waiting for its client."""
        self._without_request.pop(connection, None)
        self._idle.pop(connection, None)
        if connection.is_waiting and connection in self._connections:
            (self._without_request if connection.has_no_request else self._idle)[connection] = None

    def leave(self, connection: _Connection) -> None:
        """Forget a closed connection."""
        self._connections.discard(connection)
        self.update(connection)  # which also forgets that it waits

    def note(self, why: str) -> None:
        """Count a connection that was closed."""
        self._closed[why] += 1
        self._has_closed.set()

    def _make_room(self) -> bool:
        # The one that has waited longest: an update moves a connection to the end.
        connection = next(chain(self._without_request, self._idle), None)
        if connection is None:
            return False
        self.note(f"without a complete request closed to make room, as all {self.max_connections} were in use")
        connection.end()
        return True

    async def _accept(self, listener: socket.socket, config: uvicorn.Config, web: uvicorn.Server) -> None:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)

        def connection() -> _Connection:
            return _Connection(config, web.server_state, {}, server=self)

        while True:
            await anyio.wait_readable(listener)
            try:
                for _ in range(_ACCEPTED_AT_ONCE):
                    accepted, _ = listener.accept()
                    try:
                        await loop.connect_accepted_socket(connection, accepted)
                    except OSError:  # reset by the client
                        accepted.close()
            except (BlockingIOError, ConnectionAbortedError):
                pass
            except OSError as error:  # the process or the system is out of descriptors or memory
                self.note(f"delayed because they could not be accepted ({error.strerror})")
                # Stay below the number that could be opened: other parts of the program need descriptors too.
                self.max_connections = max(_MIN_CONNECTIONS, len(self._connections) * 3 // 4)
                while len(self._connections) > self.max_connections and self._make_room():
                    pass
                await anyio.sleep(_RETRY_SECONDS)

    async def _report(self) -> None:
        while True:
            await self._has_closed.wait()
            await anyio.sleep(1)  # connections are often closed together
            self._has_closed = anyio.Event()
            counts = "; ".join(f"{count} {why}" for why, count in self._closed.items())
            self._closed.clear()
            logger.warning("connections: %s", counts)
            await anyio.sleep(_REPORT_SECONDS)
            self.max_connections = self._most_connections  # the lack that lowered it may be over

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, even if the application is cut short."""
        is_begun = is_complete = False

        async def pass_on(message: Message) -> None:
            nonlocal is_begun, is_complete
            if is_complete:  # the SDK answers again if a session ends before it has handled an accepted message
                return
            await send(message)
            is_begun = True
            is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

        with anyio.CancelScope() as request:
            self._requests[request] = scope["method"]
            try:
                await (_refusal(scope, is_local=self._is_local) or self._app)(scope, receive, pass_on)
            except Exception:
                if not is_complete:
                    raise
                logger.debug("a request failed after its answer", exc_info=True)
            finally:
                del self._requests[request]
                self._is_answered.set()
        if not is_begun:
            headers = [(b"content-length", b"0"), (b"retry-after", b"1")]
            await send({"type": "http.response.start", "status": 503, "headers": headers})
        if not is_complete:
            await send({"type": "http.response.body", "body": b""})


class _Connection(H11Protocol):
    """A connection on which each request must be complete in time."""

    def __init__(self, *arguments: Any, server: HttpServer) -> None:
        super().__init__(*arguments)
        self._owner = server
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the client still has to send a complete request or read its response."""
        return self._owes_request or self.flow.write_paused

    @property
    def _owes_request(self) -> bool:
        return self.conn.their_state in {h11.IDLE, h11.SEND_BODY}

    @property
    def has_no_request(self) -> bool:
        """Whether it has never sent the head of a request."""
        return self.cycle is None  # pyright: ignore[reportUnnecessaryComparison] - it is None before the first request

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        if self._owner.enter(self):
            self._watch()
        else:
            transport.write(_BUSY)
            transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._owner.leave(self)
        self._stop_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._owner.update(self)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._owner.update(self)
        self._stop_timer()
        self._timer = self.loop.call_later(_STALLED_SECONDS, self._late, f"read nothing for {_STALLED_SECONDS} s")

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer()
        self._watch()

    def end(self) -> None:
        """Close the connection at once."""
        self._owner.leave(self)
        self.transport.abort()

    def _watch(self) -> None:
        self._owner.update(self)
        if self.flow.write_paused:
            return
        if not self._owes_request:
            self._stop_timer()
        # Between two requests, uvicorn's own timer runs.
        elif self._timer is None and self.timeout_keep_alive_task is None and not self.transport.is_closing():
            why = f"sent no complete request within {_REQUEST_SECONDS} s"
            self._timer = self.loop.call_later(_REQUEST_SECONDS, self._late, why)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self, why: str) -> None:
        self._owner.note(f"closed because they {why}")
        self.end()


class _WebServer(uvicorn.Server):
    """uvicorn without its signal handlers, because this program handles signals itself."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


def _refusal(scope: Scope, *, is_local: bool) -> ASGIApp | None:
    headers = Headers(scope=scope)
    if "content-length" in headers and "transfer-encoding" in headers:
        # A proxy that trusts the other header would take part of the body for another request (request smuggling).
        text = "Send either Content-Length or Transfer-Encoding, not both"
        return PlainTextResponse(text, 400, {"Connection": "close"})
    if is_local and not _is_of_this_machine(headers.get("host", "")):
        return PlainTextResponse("The Host header does not name this machine: use localhost or 127.0.0.1", 421)
    scheme, _, authority = headers.get("origin", "").partition("://")
    if is_local and "origin" in headers and not (scheme in {"http", "https"} and _is_of_this_machine(authority)):
        return PlainTextResponse(
            "The Origin header does not name this machine: other sites' web pages may not send requests", 403
        )
    return None


def _is_of_this_machine(authority: str) -> bool:
    match = _AUTHORITY.fullmatch(authority)
    return match is not None and is_loopback(match[1].strip("[]"))
