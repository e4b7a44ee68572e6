"""Serves one program on stdio or Streamable HTTP until it is asked to stop.

The first SIGINT, SIGTERM or SIGHUP, or the end of standard input, stops it. Stopping takes a few seconds, during which
it answers requests, notifies clients and ignores further signals.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import anyio
import anyio.lowlevel
import click
from mcp import MCPError
from mcp.server import Server
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.applications import Starlette
from starlette.types import ASGIApp
from tools_search_hosts.json_values import as_object, is_object

from tools_search_server.base.address import Address
from tools_search_server.programs.health import Health, health_route
from tools_search_server.programs.http_server import HttpServer
from tools_search_server.programs.stdio import standard_streams

logger = logging.getLogger(__name__)

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_GOODBYE_SECONDS: Final = 1
"""How long the server keeps answering HTTP requests after it is asked to stop."""

_MAX_DESCRIPTORS: Final = 65_536

_MAX_SESSIONS: Final = 2000
"""Per endpoint, at about 40 kB each. Sessions end after 30 minutes without a request."""

_GC_THRESHOLDS: Final = (5_000, 10, 10)
_GC_SECONDS: Final = 60


@dataclass(frozen=True)
class Program:
    """A server and everything that runs with it."""

    server: Server[Any]

    lifespan: Callable[[], AbstractAsyncContextManager[object]]
    """Entered before the first message is read, and exited after the last one is answered."""

    on_stop: Callable[[], None]
    """Called when the server is asked to stop, while clients can still be reached."""

    health: Callable[[], Health] = lambda: {"status": "ok"}
    """Returns the health document that HTTP serves."""

    guard: Callable[[ASGIApp, Callable[[str], int] | None], ASGIApp] | None = None
    """Wraps the HTTP endpoints so that only principals are admitted.

    Takes the endpoints and a function that counts a principal's sessions, or `None` if there are no sessions.
    """

    endpoints: Mapping[str, Server[Any]] = field(default_factory=dict[str, Server[Any]])
    """Additional servers over HTTP, by the suffix of their path after that of `server`."""

    background: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    """Tasks that run as long as the server does."""

    loaded: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint
    """Returns once the tools have been read for the first time."""

    is_stateless: bool = False
    """Whether legacy HTTP clients get no sessions either, so any replica can answer any of their requests."""


async def serve(program: Program, address: Address | None) -> None:
    """Serve on `address`, or on stdio if it is `None`, until a signal or the end of standard input.

    Raises:
        OSError: Cannot listen on the address.
    """
    stop = anyio.Event()
    stop_on_signal(stop)
    descriptors = _raise_descriptor_limit()
    async with program.lifespan(), anyio.create_task_group() as tasks:
        tasks.start_soon(_collect_seldom, program.loaded)
        for work in program.background:
            tasks.start_soon(work)
        if address is None:
            await _serve_stdio(program, stop)
        else:
            await _serve_http(program, address, stop, descriptors)
        tasks.cancel_scope.cancel()
    ignore_signals()


def stop_on_signal(stop: anyio.Event) -> None:
    """Set `stop` on the first stop signal. Later signals are ignored until the process ends."""
    # Not the event loop's own handlers, which are removed with it: a late signal would then kill the process.
    loop = asyncio.get_running_loop()

    def note(number: int, _: object) -> None:
        if not stop.is_set():
            loop.call_soon_threadsafe(set_stop, number)

    def set_stop(number: int) -> None:
        if not stop.is_set():
            logger.info("stopping on %s", signal.Signals(number).name)
            stop.set()

    for number in _STOP_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as set by `nohup`
            signal.signal(number, note)


def ignore_signals() -> None:
    """Ignore signals in a process that is about to exit, so that none of them kills it and changes its exit code."""
    for number in _STOP_SIGNALS:
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
                program.on_stop()
                tasks.cancel_scope.cancel()
    except* BrokenPipeError:
        logger.info("stopping: the host no longer reads")


async def _serve_http(program: Program, address: Address, stop: anyio.Event, descriptors: int) -> None:
    servers = {"": program.server, **program.endpoints}
    with listening(address) as listener:
        app = Starlette(routes=[health_route(program.health)])
        for name, server in servers.items():
            if program.is_stateless:
                server.middleware.insert(0, without_sessions)  # outside what declares notifications
            endpoint = server.streamable_http_app(
                streamable_http_path=f"/mcp/{name}".rstrip("/"),
                stateless_http=program.is_stateless,
                # `HttpServer` checks this: it compares all of `Host` and `Origin`, where the SDK compares a prefix.
                transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
                max_sessions=_MAX_SESSIONS,
            )
            app.routes.extend(endpoint.routes)
        managers = [server.session_manager for server in servers.values()]

        # The SDK has no public API for its sessions; `test_sdk_canaries.py` checks the private one.
        def sessions_of(principal: str) -> int:
            owners = (owner for manager in managers for owner in manager._session_owners.values())  # pyright: ignore[reportPrivateUsage]
            return sum(owner["client_id"] == principal for owner in owners)

        count = None if program.is_stateless else sessions_of
        guarded = app if program.guard is None else program.guard(app, count)
        web = HttpServer(guarded, descriptors=descriptors, is_local=address.is_loopback)
        host, port = listener.getsockname()[:2]
        authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        url = f"http://{authority}/mcp"
        async with AsyncExitStack() as running:
            for manager in managers:
                await running.enter_async_context(manager.run())
            await running.enter_async_context(web.opened(listener))
            click.echo(json.dumps({"url": url} | {name: f"{url}/{name}" for name in program.endpoints}))
            await stop.wait()
            # Subscriptions end with a result before their streams are cut.
            program.on_stop()
            await web.finish(_GOODBYE_SECONDS)
            for manager in managers:
                # Otherwise each session spends a second notifying a client that may be gone of its open requests.
                for transport in list(manager._server_instances.values()):  # pyright: ignore[reportPrivateUsage]
                    await transport.terminate()


async def without_sessions(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Middleware that advertises no notifications to legacy clients without sessions. It must be the outermost.

    No stream to such a client outlives its request, so notifications cannot be sent. Requests to such clients are
    refused elsewhere, because only the `initialize` request, which is not kept, says what a client can answer.
    """
    if ctx.method == "notifications/initialized":
        return None
    is_subscription = ctx.method in {"resources/subscribe", "resources/unsubscribe"}
    if is_subscription and ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(METHOD_NOT_FOUND, "This server has no sessions, so it cannot notify clients of changes")
    result = await call_next(ctx)
    if ctx.method == "initialize" and isinstance(result, dict):
        for offered in as_object(result.get("capabilities")).values():
            if is_object(offered):
                for promise in ("listChanged", "subscribe"):
                    offered.pop(promise, None)
    return result


async def _collect_seldom(loaded: Callable[[], Awaitable[None]]) -> None:
    """Keep the garbage collector away from tool definitions, which live as long as their upstreams. Never returns.

    Traversing the objects of 10,000 tools takes half a second, during which no request is answered. By default that
    happens every few seconds while upstreams come and go.
    """
    gc.set_threshold(*_GC_THRESHOLDS)
    await loaded()  # freezing earlier would miss the definitions
    gc.freeze()
    while True:
        await anyio.sleep(_GC_SECONDS)
        gc.unfreeze()  # objects frozen earlier may be garbage now
        gc.collect()
        gc.freeze()


async def changes_of(file: Path, seconds: float) -> AsyncIterator[None]:
    """Poll a file at this interval, and yield when it has been replaced, changed or removed. Never ends."""
    seen = await _state_of(file)
    while True:
        await anyio.sleep(seconds)
        if (state := await _state_of(file)) != seen:
            seen = state
            yield


async def _state_of(file: Path) -> tuple[int, int, int] | None:
    """Return a value that changes with the file, or `None` if there is no file."""
    try:
        status = await anyio.Path(file).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _raise_descriptor_limit() -> int:
    """Raise the limit on open files to the hard limit, within reason, and return it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Keep it moderate: child processes inherit it, and some close every descriptor up to the limit when they start.
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            return wanted
    return _MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


@contextmanager
def listening(address: Address) -> Generator[socket.socket]:
    """Yield a socket that listens on `address`.

    Raises:
        OSError: Cannot listen on the address.
    """
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # asyncio sets TCP_NODELAY only on sockets that name their protocol; on others each response takes 40 ms longer.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address.host, address.port))
        listener.listen(1024)
        yield listener
