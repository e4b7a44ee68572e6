"""One MCP server on stdio or on Streamable HTTP, until it is told to stop."""

from __future__ import annotations

import json
import logging
import signal
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import click
import uvicorn
from anyio.abc import TaskStatus
from mcp.server import Server
from mcp.server.stdio import stdio_server
from starlette.applications import Starlette
from starlette.types import ASGIApp

from tools_search_server.collecting import collect_seldom
from tools_search_server.health import Health, health_route
from tools_search_server.sessionless import without_sessions
from tools_search_server.standard_streams import standard_streams

__all__ = ["Address", "Program", "listening", "serve", "stop_on_signal"]

logger = logging.getLogger(__name__)

_GOODBYE_SECONDS: Final = 2
"""How long open HTTP responses have to end once the server is told to stop."""


@dataclass(frozen=True)
class Address:
    """Where to listen; port 0 lets the system choose."""

    host: str
    port: int


def _healthy() -> Health:
    return {"status": "ok"}


@dataclass(frozen=True)
class Program:
    """A server, and what has to run beside it."""

    server: Server[Any]

    beside: Callable[[], AbstractAsyncContextManager[object]]
    """Entered before the first message is read and left after the last was answered."""

    farewell: Callable[[], None]
    """Called when the server is told to stop, while clients can still be reached."""

    health: Callable[[], Health] = _healthy
    """Tells over HTTP how the server is."""

    guard: Callable[[ASGIApp], ASGIApp] | None = None
    """What stands before the HTTP endpoints and lets nobody in who may not use them."""

    others: Mapping[str, Server[Any]] = field(default_factory=dict[str, Server[Any]])
    """Servers that HTTP reaches beside `server`, by what follows its path; stdio has one server only."""

    loaded: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    """Returns when the tools have been read for the first time."""

    is_stateless: bool = False
    """Whether HTTP has no sessions with legacy clients either, so that any replica answers any of their requests."""


async def serve(program: Program, address: Address | None) -> None:
    """Serve on `address`, or on stdio without one, until SIGINT, SIGTERM, SIGHUP or the end of standard input.

    Raises:
        OSError: The address cannot be listened on.
    """
    stop = anyio.Event()
    async with anyio.create_task_group() as tasks:
        await tasks.start(stop_on_signal, stop)
        async with program.beside():
            tasks.start_soon(collect_seldom, program.loaded)
            await (_serve_stdio(program, stop) if address is None else _serve_http(program, address, stop))
        tasks.cancel_scope.cancel()


async def stop_on_signal(stop: anyio.Event, *, task_status: TaskStatus[None]) -> None:
    """Set `stop` on a signal. Further ones change nothing: stopping takes a few seconds and must not be cut short."""
    # What `nohup` has switched off stays off.
    closed = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, *closed) as signals:
        task_status.started()
        async for received in signals:
            logger.info("stopping on %s", signal.Signals(received).name)
            stop.set()


async def _serve_stdio(program: Program, stop: anyio.Event) -> None:
    server = program.server

    async def converse() -> None:
        files = cast("anyio.AsyncFile[str]", lines), cast("anyio.AsyncFile[str]", text)
        async with stdio_server(*files) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
        stop.set()

    try:
        with standard_streams() as (lines, text):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(converse)
                await stop.wait()
                program.farewell()
                tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        logger.info("stopping: the host no longer reads")


async def _serve_http(program: Program, address: Address, stop: anyio.Event) -> None:
    with listening(address) as listener:
        app = _http_app(program, program.server, "/mcp", address)
        for name, other in program.others.items():
            app.routes.extend(_http_app(program, other, f"/mcp/{name}", address).routes)
        app.routes.append(health_route(program.health, program.server.session_manager.security_settings))
        quiet: dict[str, Any] = {"log_config": None, "access_log": False, "ws": "none"}
        guarded = app if program.guard is None else program.guard(app)
        web = _WebServer(uvicorn.Config(guarded, timeout_graceful_shutdown=_GOODBYE_SECONDS, **quiet))
        host, port = listener.getsockname()[:2]
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        url = f"http://{authority}/mcp"
        click.echo(json.dumps({"url": url} | {name: f"{url}/{name}" for name in program.others}))
        async with AsyncExitStack() as running, anyio.create_task_group() as tasks:
            for other in program.others.values():
                await running.enter_async_context(other.session_manager.run())
            tasks.start_soon(web.serve, [listener])
            await stop.wait()
            program.farewell()
            web.should_exit = True


def _http_app(program: Program, server: Server[Any], path: str, address: Address) -> Starlette:
    if program.is_stateless:
        server.middleware.insert(0, without_sessions)
    return server.streamable_http_app(streamable_http_path=path, host=address.host, stateless_http=program.is_stateless)


@contextmanager
def listening(address: Address) -> Generator[socket.socket]:
    """Give a socket that listens at `address`.

    Raises:
        OSError: The address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sends small segments at once only on sockets that name their protocol; others wait 40 ms for each answer.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(128)
        yield listener


class _WebServer(uvicorn.Server):
    """uvicorn without signal handlers of its own: this program has one way to stop."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield
