"""The three ways to reach a server: start it on stdio, start it on HTTP, or connect to a URL.

Methods raise `TargetError` if the server cannot be reached.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, Self
from urllib.parse import urlsplit

import anyio
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance import catalogs
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.codec import JsonObject, MalformedError, as_object, decode
from tools_search_conformance.wire.connection import Transport
from tools_search_conformance.wire.eras import TransportName
from tools_search_conformance.wire.http import HttpTransport, RateLimit, check_address
from tools_search_conformance.wire.process import GracePeriod, TargetError, TargetProcess, environment
from tools_search_conformance.wire.stdio import StdioTransport

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
"""The environment variable with the path of the catalog file that a fixture must serve."""

_USUAL_CATALOG: Final = "core"
"""The catalog for nearly all connections."""
_LINE_BYTES: Final = 65536
_LISTEN_SECONDS: Final = 10
_RETRY_SECONDS: Final = 0.05
_NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})

Note = Callable[[str], None]


@dataclass(eq=False)
class Program:
    """A program that is started as often as needed; each start can get a catalog to serve."""

    argv: Sequence[str]
    options: Options
    tasks: TaskGroup
    folder: Path
    """The folder for its catalog files."""
    grace: GracePeriod = field(default_factory=GracePeriod, init=False)

    transport: ClassVar[TransportName]

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)

    @property
    def description(self) -> Mapping[str, Any]:
        """The command, for reports."""
        where = {} if self.options.cwd is None else {"cwd": self.options.cwd}
        started = {"argv": list(self.argv), **where, "environment": sorted(environment(self.options.env))}
        return {"transport": self.transport, **started}

    def another(self) -> Self:
        """Return a target for the same program, with separate processes and files."""
        return replace(self, folder=self.folder / "other")

    def place(self, catalog: str, document: JsonObject) -> None:
        """Write the catalog file `catalog` where fixtures find it, replacing any earlier one."""
        catalogs.place(catalog, document, self.folder)

    async def start(self, catalog: str | None, env: Mapping[str, str]) -> TargetProcess:
        """Start the program with `env` and, if given, the catalog's path in its environment."""
        variables, cwd = {**self.options.env, **env}, self.options.cwd
        if catalog is not None:
            variables[CATALOG_VARIABLE] = str(catalogs.write(catalog, self.folder))
        return await TargetProcess.start(self.argv, tasks=self.tasks, env=variables, cwd=cwd, grace=self.grace)


@dataclass(eq=False)
class StdioTarget(Program):
    """A program that communicates over stdin and stdout, with one process per connection.

    Starting takes longest, so one fixture is always started ahead, and the end of one is not waited for. A live server
    is only started once per connection, because two processes might interfere with each other.
    """

    transport = "stdio"

    needed: float = field(default=math.inf, kw_only=True)
    """How many fixtures of the usual kind will be needed, if known."""
    _ready: TargetProcess | None = field(default=None, init=False)

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = _NO_VARIABLES) -> Transport:
        """Return a transport to a new process: a fixture that serves `catalog` or, for `None`, the server as is."""
        usual = catalog == _USUAL_CATALOG and not env
        if usual and self._ready is not None and self._ready.returncode is None:
            process, self._ready = self._ready, None
        else:
            process = await self.start(catalog, env)
        self.needed -= usual
        if usual and self.needed > 0 and self._ready is None:
            self._ready = await self.start(catalog, env)

        async def end_soon(process: TargetProcess) -> None:
            self.tasks.start_soon(process.end)  # while the next fixture is already being judged

        leave = TargetProcess.end if catalog is None else end_soon
        return StdioTransport(process, tasks=self.tasks, note=note, leave=leave)

    async def aclose(self) -> None:
        """End the process started ahead; each transport ends its own."""
        if self._ready is not None:
            await self._ready.end()
            self._ready = None


_Kind = tuple[str | None, ...]
"""A catalog, and the environment variables of a process that serves it."""

_USUAL: Final[frozenset[_Kind]] = frozenset({(_USUAL_CATALOG,), (None,)})


@dataclass
class _Running:
    """A process that serves HTTP, and the connections to it."""

    process: TargetProcess
    url: str
    transports: list[Transport] = field(default_factory=list[Transport])

    @property
    def open_transports(self) -> list[Transport]:
        return [transport for transport in self.transports if transport.ended is None]


@dataclass(eq=False)
class HttpCommandTarget(Program):
    """A program that serves HTTP and first prints `{"url": …}`, with one process per catalog and environment."""

    transport = "http"

    rate_limit: RateLimit = field(default_factory=RateLimit, kw_only=True)
    _running: dict[_Kind, _Running] = field(default_factory=dict[_Kind, _Running], init=False)

    @property
    def description(self) -> Mapping[str, Any]:
        """The command, for reports."""
        return {**super().description, **_cost_of(self.rate_limit)}

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = _NO_VARIABLES) -> Transport:
        """Open a connection to a process started for this catalog and environment."""
        kind = (catalog, *(f"{name}={value}" for name, value in sorted(env.items())))
        running = self._running.get(kind)
        if running is None or running.process.returncode is not None:
            if running is not None:
                note(running.process.how_it_ended())
                await running.process.end(ends_with_stdin=False)
            self._end_unused()
            process = await self.start(catalog, env)
            running = self._running[kind] = _Running(process, await self._address(process))
        transport = _transport_to(running.url, self, running.process)
        running.transports = [*running.open_transports, transport]
        return transport

    def _end_unused(self) -> None:
        """End the processes without connections, to limit how many run at once; only the usual one is soon needed."""
        for kind, running in list(self._running.items()):
            if kind not in _USUAL and not running.open_transports:
                del self._running[kind]
                self.tasks.start_soon(partial(running.process.end, ends_with_stdin=False))

    async def aclose(self) -> None:
        """End all processes concurrently, because each might take time to close its connections."""
        async with anyio.create_task_group() as ending:
            for running in self._running.values():
                ending.start_soon(partial(running.process.end, ends_with_stdin=False))
        self._running.clear()

    async def _address(self, process: TargetProcess) -> str:
        reader = BufferedByteReceiveStream(process.stdout)
        try:
            with anyio.fail_after(self.options.start_timeout):
                line = await reader.receive_until(b"\n", _LINE_BYTES)
            url = (as_object(decode(line)) or {}).get("url")
            if not isinstance(url, str):
                raise MalformedError("no object with a url")
            check_address(url, allow_remote=False)
        except (TimeoutError, anyio.IncompleteRead, anyio.DelimiterNotFound, MalformedError, TargetError) as error:
            tail = process.stderr_tail()
            await process.end(ends_with_stdin=False)
            reason = str(error)
            if isinstance(error, TimeoutError):
                reason = f"none came within {self.options.start_timeout:g} s; --start-timeout waits longer"
            elif isinstance(error, anyio.DelimiterNotFound):
                reason = f"it had no end within {_LINE_BYTES} bytes"
            elif isinstance(error, anyio.IncompleteRead):
                reason = "it ended before"
            raise TargetError(
                f"the first line that `{shlex.join(self.argv)}` prints must be"
                f' {{"url": "http://127.0.0.1:PORT/mcp"}} ({reason}); its stderr ends: {tail or "nothing"}'
            ) from error
        self.tasks.start_soon(process.discard_stdout)
        await _accepts_connections(url, process)
        return url


async def _accepts_connections(url: str, process: TargetProcess) -> None:
    """Return once a server accepts connections, has ended, or has not accepted any for a time.

    Some print their address just before they listen. What is wrong otherwise, the first request shows.
    """
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    with anyio.move_on_after(_LISTEN_SECONDS):
        while process.returncode is None:
            with suppress(OSError):
                await (await anyio.connect_tcp(parts.hostname or "", port)).aclose()
                return
            await anyio.sleep(_RETRY_SECONDS)


def _cost_of(limit: RateLimit) -> Mapping[str, Any]:
    cost = {"refused": limit.refused, "secondsWaited": round(limit.seconds, 1), "lasting": limit.is_lasting}
    return {"rateLimit": cost} if limit.refused else {}


@dataclass(eq=False)
class UrlTarget:
    """An existing endpoint, at an address that `check_address` allows."""

    url: str
    options: Options
    rate_limit: RateLimit = field(default_factory=RateLimit)

    transport: ClassVar[TransportName] = "http"

    @property
    def description(self) -> Mapping[str, Any]:
        """The address, for reports."""
        return {"transport": self.transport, "url": self.url, **_cost_of(self.rate_limit)}

    def place(self, catalog: str, document: JsonObject) -> None:
        """Raise a `TargetError`, because the server's operator determines its catalog."""
        raise TargetError("a running server cannot take a catalog; have the suite start the server")

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = _NO_VARIABLES) -> Transport:
        """Open a connection."""
        return _transport_to(self.url, self)

    async def aclose(self) -> None:
        """Do nothing: the suite did not start the server."""


def _transport_to(url: str, target: HttpCommandTarget | UrlTarget, process: TargetProcess | None = None) -> Transport:
    headers, ca_file = target.options.headers, target.options.ca_file
    return HttpTransport(url, headers=headers, ca_file=ca_file, process=process, rate_limit=target.rate_limit)


Target = StdioTarget | HttpCommandTarget | UrlTarget
"""A server that accepts any number of connections."""
