"""One MCP server on stdio or on Streamable HTTP, until it is told to stop."""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import resource
import signal
import socket
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import click
from mcp.server import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from tools_search_server.programs.collecting import collect_seldom
from tools_search_server.programs.front_door import FrontDoor
from tools_search_server.programs.health import Health, health_route
from tools_search_server.programs.sessionless import without_sessions
from tools_search_server.programs.standard_streams import standard_streams

__all__ = ["Address", "Program", "ignore_signals", "is_loopback", "listening", "serve", "stop_on_signal"]

logger = logging.getLogger(__name__)

_GOODBYE_SECONDS: Final = 1
"""How long HTTP requests have to be answered once the server is to stop."""

_MOST_DESCRIPTORS: Final = 65_536

_MOST_SESSIONS: Final = 2000
"""Of one endpoint, at some 40 kB each; those without a request for 30 minutes end."""


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

    guard: Callable[[ASGIApp, Callable[[str], int] | None], ASGIApp] | None = None
    """What stands before the HTTP endpoints and lets nobody in who may not use them.

    It is called with the endpoints and, where there are sessions, what counts those of the principal of a name.
    """

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
    stop_on_signal(stop)
    descriptors = _raise_descriptor_limit()
    async with program.beside(), anyio.create_task_group() as tasks:
        tasks.start_soon(collect_seldom, program.loaded)
        if address is None:
            await _serve_stdio(program, stop)
        else:
            await _serve_http(program, address, stop, descriptors)
        tasks.cancel_scope.cancel()
    ignore_signals()


def stop_on_signal(stop: anyio.Event) -> None:
    """Set `stop` on the first signal to stop; further ones change nothing, to the end of the process.

    Stopping takes seconds and must not be cut short.
    """
    loop = asyncio.get_running_loop()

    def note(number: int, _: object) -> None:
        if not stop.is_set():
            loop.call_soon_threadsafe(_stop, stop, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # what `nohup` has switched off stays off
            signal.signal(number, note)


def _stop(stop: anyio.Event, number: int) -> None:
    if not stop.is_set():
        logger.info("stopping on %s", signal.Signals(number).name)
        stop.set()


def ignore_signals() -> None:
    """Let no signal change the exit code of a process that has only to exit; Python would die of it meanwhile."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)


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


async def _serve_http(program: Program, address: Address, stop: anyio.Event, descriptors: int) -> None:
    servers = {"": program.server, **program.others}
    with listening(address) as listener:
        app = Starlette(routes=[health_route(program.health)])
        for name, server in servers.items():
            app.routes.extend(_routes(server, f"/mcp/{name}".rstrip("/"), is_stateless=program.is_stateless))
        managers = [server.session_manager for server in servers.values()]
        count = None if program.is_stateless else partial(_sessions_of, managers)
        guarded = app if program.guard is None else program.guard(app, count)
        door = FrontDoor(guarded, descriptors=descriptors, is_local=is_loopback(address.host))
        host, port = listener.getsockname()[:2]
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        url = f"http://{authority}/mcp"
        async with AsyncExitStack() as running:
            for manager in managers:
                await running.enter_async_context(manager.run())
            await running.enter_async_context(door.opened(listener))
            click.echo(json.dumps({"url": url} | {name: f"{url}/{name}" for name in program.others}))
            await stop.wait()
            program.farewell()
            await door.finish(_GOODBYE_SECONDS)
            for manager in managers:
                await _end_sessions(manager)


def _sessions_of(managers: Sequence[StreamableHTTPSessionManager], name: str) -> int:
    return sum(
        owner["client_id"] == name
        for manager in managers
        for owner in manager._session_owners.values()  # pyright: ignore[reportPrivateUsage]
    )


async def _end_sessions(manager: StreamableHTTPSessionManager) -> None:
    # Otherwise each waits a second for a client that may not be there, to tell of requests that are still open.
    for transport in list(manager._server_instances.values()):  # pyright: ignore[reportPrivateUsage]
        await transport.terminate()


def _routes(server: Server[Any], path: str, *, is_stateless: bool) -> list[BaseRoute]:
    if is_stateless:
        server.middleware.insert(0, without_sessions)
    # The front door looks at `Host` and `Origin`, and at all of them: the SDK compares the beginning.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=path,
        stateless_http=is_stateless,
        transport_security=unchecked,
        max_sessions=_MOST_SESSIONS,
    )
    return app.routes


def _raise_descriptor_limit() -> int:
    """Let this process open as many files as it is allowed to, within reason, and return how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # No more than is of use: servers inherit it, and some programs close every number up to it when they start.
    wanted = _MOST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MOST_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return _MOST_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


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
        listener.listen(1024)
        yield listener


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens at `host`."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
