"""The three ways to reach a server: start it on stdio, start it on HTTP, or be given its address."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

import anyio
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_conformance import catalogs
from tools_search_conformance.wire.codec import JsonObject, MalformedError, as_object, decode
from tools_search_conformance.wire.connection import Transport
from tools_search_conformance.wire.eras import TransportName
from tools_search_conformance.wire.http import HttpTransport, check_address
from tools_search_conformance.wire.process import GracePeriod, TargetError, TargetProcess
from tools_search_conformance.wire.stdio import StdioTransport

__all__ = ["CATALOG_VARIABLE", "NOTHING_MORE", "HttpCommandTarget", "StdioTarget", "Target", "UrlTarget"]

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
"""Names the catalog file that a fixture serves."""

NOTHING_MORE: Final[Mapping[str, str]] = MappingProxyType({})
"""An environment to which a start adds nothing."""

_STARTED_AHEAD: Final = "core"
"""The catalog of nearly all connections."""

_LINE_BYTES: Final = 65536

Note = Callable[[str], None]


class Target(Protocol):
    """A server that can be connected to any number of times."""

    start_seconds: float
    """How long it may take until the first response."""

    @property
    def transport(self) -> TransportName:
        """How it is spoken to."""
        ...

    @property
    def description(self) -> Mapping[str, Any]:
        """What reports say it is."""
        ...

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = NOTHING_MORE) -> Transport:
        """Return a transport nobody has used, to a fixture serving `catalog` or, for `None`, to the server as it is.

        What is started for it finds `env` in its environment.

        Raises:
            TargetError: it cannot be started or reached.
        """
        ...

    def place(self, catalog: str, document: JsonObject) -> None:
        """Put a catalog file of the name `catalog` where fixtures find it, in place of the one there was.

        Raises:
            TargetError: nothing is started here, so that nobody would read it.
        """
        ...

    async def aclose(self) -> None:
        """End what was started."""
        ...


class _Started:
    """What the two targets that the suite starts have in common."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        tasks: TaskGroup,
        folder: Path,
        env: Mapping[str, str],
        cwd: str | None,
        start_seconds: float,
    ) -> None:
        self.start_seconds = start_seconds
        self._argv = tuple(argv)
        self._tasks = tasks
        self._folder = folder
        self._env = dict(env)
        self._cwd = cwd
        self._grace = GracePeriod()

    def place(self, catalog: str, document: JsonObject) -> None:
        """Put a catalog file where `start` finds it."""
        catalogs.place(catalog, document, self._folder)

    async def start(self, catalog: str | None, more: Mapping[str, str]) -> TargetProcess:
        """Start the program; `catalog` and `more` are handed over in its environment."""
        env = self._env | dict(more)
        if catalog is not None:
            env[CATALOG_VARIABLE] = str(catalogs.write(catalog, self._folder))
        return await TargetProcess.start(self._argv, tasks=self._tasks, env=env, cwd=self._cwd, grace=self._grace)


class StdioTarget(_Started):
    """A program that speaks over its stdin and stdout: one process a connection.

    Starting is what takes longest, so that one more fixture is always started ahead and is ready when it is needed, and
    ending one is not waited for. Of a live server there are only as many as there are connections: two may be in each
    other's way.
    """

    transport: TransportName = "stdio"

    def __init__(self, argv: Sequence[str], *, needed: float = math.inf, **options: Any) -> None:
        """Take the command; `needed` is how many fixtures of the usual kind will be asked for, if that is known."""
        super().__init__(argv, **options)
        self._needed = needed
        self._ready: TargetProcess | None = None

    @property
    def description(self) -> Mapping[str, Any]:
        """The command."""
        return {"transport": "stdio", "argv": list(self._argv)}

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = NOTHING_MORE) -> Transport:
        """Give a process that nobody has spoken to."""
        usual = catalog == _STARTED_AHEAD and not env
        ready = self._ready if usual else None
        if ready is None or ready.returncode is not None:
            process = await self.start(catalog, env)
        else:
            process, self._ready = ready, None
        self._needed -= usual
        if usual and self._needed > 0 and self._ready is None:
            self._ready = await self.start(catalog, env)
        leave = TargetProcess.end if catalog is None else self._end_soon
        return StdioTransport(process, tasks=self._tasks, note=note, leave=leave)

    async def aclose(self) -> None:
        """End the process that is ready; each transport ends its own."""
        if self._ready is not None:
            await self._ready.end()
            self._ready = None

    async def _end_soon(self, process: TargetProcess) -> None:
        """Have a fixture end while the next one is judged already."""
        self._tasks.start_soon(process.end)


class UrlTarget:
    """An endpoint that is already there."""

    transport: TransportName = "http"

    def __init__(
        self, url: str, *, headers: Mapping[str, str], start_seconds: float, allow_remote: bool = False
    ) -> None:
        """Take the address.

        Raises:
            TargetError: it is no URL, or another machine's and that was not asked for.
        """
        check_address(url, allow_remote=allow_remote)
        self.start_seconds = start_seconds
        self._url = url
        self._headers = dict(headers)

    @property
    def description(self) -> Mapping[str, Any]:
        """The address."""
        return {"transport": "http", "url": self._url}

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = NOTHING_MORE) -> Transport:
        """Open another connection."""
        return HttpTransport(self._url, headers=self._headers)

    def place(self, catalog: str, document: JsonObject) -> None:
        """Refuse: who runs this server has settled what it serves."""
        raise TargetError("a server that is running already cannot be given a catalog; let the suite start it")

    async def aclose(self) -> None:
        """Do nothing: what was not started is not ended."""


class HttpCommandTarget(_Started):
    """A program that serves HTTP and prints `{"url": …}` first: one process a catalog and environment."""

    transport: TransportName = "http"

    def __init__(self, argv: Sequence[str], *, headers: Mapping[str, str], **options: Any) -> None:
        super().__init__(argv, **options)
        self._headers = dict(headers)
        self._running: dict[tuple[str | None, ...], tuple[TargetProcess, str]] = {}

    @property
    def description(self) -> Mapping[str, Any]:
        """The command."""
        return {"transport": "http", "argv": list(self._argv)}

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = NOTHING_MORE) -> Transport:
        """Open another connection, to a process started for this catalog in this environment."""
        kind = (catalog, *(f"{name}={value}" for name, value in sorted(env.items())))
        process, url = self._running.get(kind) or (None, "")
        if process is None or process.returncode is not None:
            if process is not None:
                note(process.how_it_ended())
                await _end(process)
            await self._end_outlived(catalog)
            process = await self.start(catalog, env)
            url = await self._address(process)
            self._running[kind] = process, url
        running = process
        return HttpTransport(
            url,
            headers=self._headers,
            gone=lambda: None if running.returncode is None else running.how_it_ended(),
            settle=running.settle,
        )

    async def aclose(self) -> None:
        """End every process, all at the same time: each may take its leave of its callers first."""
        async with anyio.create_task_group() as ending:
            for process, _ in self._running.values():
                ending.start_soon(_end, process)
        self._running.clear()

    async def _end_outlived(self, catalog: str | None) -> None:
        """End what serves a generated catalog, which is never asked for again, before `catalog` is the next one."""
        generated = [kind for kind in self._running if kind[0] is not None and Path(kind[0]).is_absolute()]
        for other in generated if catalog is not None and Path(catalog).is_absolute() else ():
            process, _ = self._running.pop(other)
            await _end(process)

    async def _address(self, process: TargetProcess) -> str:
        reader = BufferedByteReceiveStream(process.stdout)
        try:
            with anyio.fail_after(self.start_seconds):
                line = await reader.receive_until(b"\n", _LINE_BYTES)
            url = _url_in(line)
            check_address(url, allow_remote=False)
        except (TimeoutError, anyio.IncompleteRead, anyio.DelimiterNotFound, MalformedError, TargetError) as error:
            tail = process.stderr_tail()
            await _end(process)
            raise TargetError(
                f'the first line that `{shlex.join(self._argv)}` prints must be {{"url": "http://127.0.0.1:PORT/mcp"}}'
                f" ({_told(error, self.start_seconds)}); its stderr ends: {tail or 'nothing'}"
            ) from error
        self._tasks.start_soon(_drain, reader)
        return url


async def _end(process: TargetProcess) -> None:
    await process.end(ends_with_stdin=False)


def _told(error: Exception, seconds: float) -> str:
    match error:
        case TimeoutError():
            return f"there was none within {seconds:g} s"
        case anyio.DelimiterNotFound():
            return f"it had no end within {_LINE_BYTES} bytes"
        case anyio.IncompleteRead():
            return "it ended before"
        case _:
            return str(error)


def _url_in(line: bytes) -> str:
    url = (as_object(decode(line)) or {}).get("url")
    if isinstance(url, str):
        return url
    raise MalformedError("no object with a url")


async def _drain(reader: BufferedByteReceiveStream) -> None:
    try:
        while True:
            await reader.receive(65536)
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return
