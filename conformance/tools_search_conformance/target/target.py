"""The three ways to reach a server: start it on stdio, start it on HTTP, or be given its address."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

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

CATALOG_VARIABLE: Final = "TOOLS_SEARCH_CATALOG"
"""The environment variable that names the catalog file that a fixture serves."""

_STARTED_AHEAD: Final = "core"
"""The catalog of nearly all connections."""
_LINE_BYTES: Final = 65536
_NO_VARIABLES: Final[Mapping[str, str]] = MappingProxyType({})

Note = Callable[[str], None]


class _Program:
    """A program that is started as often as needed; each start can be given a catalog to serve."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        tasks: TaskGroup,
        folder: Path,
        env: Mapping[str, str],
        cwd: str | None,
    ) -> None:
        self.argv = tuple(argv)
        self.tasks = tasks
        self.folder = folder
        self._env = dict(env)
        self._cwd = cwd
        self._grace = GracePeriod()

    async def start(self, catalog: str | None, env: Mapping[str, str]) -> TargetProcess:
        """Start the program with `env`, and with the path of a catalog if there is one, in its environment."""
        variables = self._env | dict(env)
        if catalog is not None:
            variables[CATALOG_VARIABLE] = str(catalogs.write(catalog, self.folder))
        return await TargetProcess.start(self.argv, tasks=self.tasks, env=variables, cwd=self._cwd, grace=self._grace)


class StdioTarget:
    """A program that speaks over its stdin and stdout: one process a connection.

    Starting is what takes longest, so that one more fixture is always started ahead and is ready when it is needed, and
    ending one is not waited for. Of a live server there are only as many as there are connections: two may disturb each
    other.
    """

    transport: TransportName = "stdio"

    def __init__(self, argv: Sequence[str], *, start_seconds: float, needed: float = math.inf, **program: Any) -> None:
        """Take the command; `needed` is how many fixtures of the usual kind will be asked for, if that is known."""
        self.start_seconds = start_seconds
        self._program = _Program(argv, **program)
        self._needed = needed
        self._ready: TargetProcess | None = None

    @property
    def description(self) -> Mapping[str, Any]:
        """The command, for reports."""
        return {"transport": "stdio", "argv": list(self._program.argv)}

    def place(self, catalog: str, document: JsonObject) -> None:
        """Put a catalog file of the name `catalog` where fixtures find it, in place of the one there was."""
        catalogs.place(catalog, document, self._program.folder)

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = _NO_VARIABLES) -> Transport:
        """Return a transport to a new process: a fixture serving `catalog` or, for `None`, the server as it is.

        Raises:
            TargetError: It cannot be started.
        """
        usual = catalog == _STARTED_AHEAD and not env
        ready = self._ready if usual else None
        if ready is None or ready.returncode is not None:
            process = await self._program.start(catalog, env)
        else:
            process, self._ready = ready, None
        self._needed -= usual
        if usual and self._needed > 0 and self._ready is None:
            self._ready = await self._program.start(catalog, env)
        leave = TargetProcess.end if catalog is None else self._end_soon
        return StdioTransport(process, tasks=self._program.tasks, note=note, leave=leave)

    async def aclose(self) -> None:
        """End the process that is ready; each transport ends its own."""
        if self._ready is not None:
            await self._ready.end()
            self._ready = None

    async def _end_soon(self, process: TargetProcess) -> None:
        """Have a fixture end while the next one is judged already."""
        self._program.tasks.start_soon(process.end)


class UrlTarget:
    """An endpoint that is already there."""

    transport: TransportName = "http"

    def __init__(
        self, url: str, *, headers: Mapping[str, str], start_seconds: float, allow_remote: bool = False
    ) -> None:
        """Take the address.

        Raises:
            TargetError: It is no URL, or another machine's and that was not asked for.
        """
        check_address(url, allow_remote=allow_remote)
        self.start_seconds = start_seconds
        self._url = url
        self._headers = dict(headers)

    @property
    def description(self) -> Mapping[str, Any]:
        """The address, for reports."""
        return {"transport": "http", "url": self._url}

    def place(self, catalog: str, document: JsonObject) -> None:
        """Refuse: the operator of this server has settled its catalog.

        Raises:
            TargetError: Always.
        """
        raise TargetError("a server that is running already cannot be given a catalog; let the suite start it")

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = _NO_VARIABLES) -> Transport:
        """Open another connection."""
        return HttpTransport(self._url, headers=self._headers)

    async def aclose(self) -> None:
        """Do nothing: a server that was not started is not ended."""


class HttpCommandTarget:
    """A program that serves HTTP and prints `{"url": …}` first: one process a catalog and environment."""

    transport: TransportName = "http"

    def __init__(
        self, argv: Sequence[str], *, headers: Mapping[str, str], start_seconds: float, **program: Any
    ) -> None:
        self.start_seconds = start_seconds
        self._program = _Program(argv, **program)
        self._headers = dict(headers)
        self._running: dict[tuple[str | None, ...], tuple[TargetProcess, str]] = {}

    @property
    def description(self) -> Mapping[str, Any]:
        """The command, for reports."""
        return {"transport": "http", "argv": list(self._program.argv)}

    def place(self, catalog: str, document: JsonObject) -> None:
        """Put a catalog file of the name `catalog` where fixtures find it, in place of the one there was."""
        catalogs.place(catalog, document, self._program.folder)

    async def connect(self, note: Note, catalog: str | None, env: Mapping[str, str] = _NO_VARIABLES) -> Transport:
        """Open another connection, to a process started for this catalog in this environment.

        Raises:
            TargetError: It cannot be started, or does not print its address.
        """
        kind = (catalog, *(f"{name}={value}" for name, value in sorted(env.items())))
        process, url = self._running.get(kind) or (None, "")
        if process is None or process.returncode is not None:
            if process is not None:
                note(process.how_it_ended())
                await process.end(ends_with_stdin=False)
            await self._end_generated(catalog)
            process = await self._program.start(catalog, env)
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
                ending.start_soon(lambda process=process: process.end(ends_with_stdin=False))
        self._running.clear()

    async def _end_generated(self, catalog: str | None) -> None:
        """End the fixtures of generated catalogs before the next one: none is asked for a second time."""
        if catalog is None or not Path(catalog).is_absolute():
            return
        for kind in [kind for kind in self._running if kind[0] is not None and Path(kind[0]).is_absolute()]:
            process, _ = self._running.pop(kind)
            await process.end(ends_with_stdin=False)

    async def _address(self, process: TargetProcess) -> str:
        reader = BufferedByteReceiveStream(process.stdout)
        try:
            with anyio.fail_after(self.start_seconds):
                line = await reader.receive_until(b"\n", _LINE_BYTES)
            url = (as_object(decode(line)) or {}).get("url")
            if not isinstance(url, str):
                raise MalformedError("no object with a url")
            check_address(url, allow_remote=False)
        except (TimeoutError, anyio.IncompleteRead, anyio.DelimiterNotFound, MalformedError, TargetError) as error:
            tail = process.stderr_tail()
            await process.end(ends_with_stdin=False)
            match error:
                case TimeoutError():
                    reason = f"there was none within {self.start_seconds:g} s"
                case anyio.DelimiterNotFound():
                    reason = f"it had no end within {_LINE_BYTES} bytes"
                case anyio.IncompleteRead():
                    reason = "it ended before"
                case _:
                    reason = str(error)
            raise TargetError(
                f"the first line that `{shlex.join(self._program.argv)}` prints must be"
                f' {{"url": "http://127.0.0.1:PORT/mcp"}} ({reason}); its stderr ends: {tail or "nothing"}'
            ) from error
        self._program.tasks.start_soon(_drain, reader)
        return url


async def _drain(reader: BufferedByteReceiveStream) -> None:
    try:
        while True:
            await reader.receive(65536)
    except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
        return


Target = StdioTarget | HttpCommandTarget | UrlTarget
"""A server that can be connected to any number of times."""
