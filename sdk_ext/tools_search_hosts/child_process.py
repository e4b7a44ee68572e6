"""Runs a server as a child process and communicates over its standard streams, with limits and reliable cleanup.

The SDK's own transport does this for trusted servers. This one also reports how a server ended, limits the length of
lines, gives up on a server that sends only noise, and stops the server and all its descendants within the time that
hosts allow for stopping the program that started it.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Final, TextIO, TypeAlias, cast
from uuid import uuid4

import anyio
from anyio.abc import ByteReceiveStream, ByteSendStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.stdio import get_default_environment
from mcp.shared.message import SessionMessage

from tools_search_hosts.endings import Ending
from tools_search_hosts.messages import (
    MAX_MESSAGE_BYTES,
    MalformedMessageError,
    MessageTooLargeError,
    failed_answer,
    mebibytes,
    read_message,
)
from tools_search_hosts.targets import StdioTarget
from tools_search_hosts.unreachable import CannotStartError, why_not_started

_MAX_STRAY_LINES: Final = 100
"""Maximum consecutive lines that are not messages. A server may print occasional lines."""

_GRACE_SECONDS: Final = 0.8
"""Time to exit after the end of input, and again after SIGTERM. Hosts allow as little as 2 s to stop all servers."""

_LAST_MOMENTS_SECONDS: Final = 0.5
"""Time for a server that closed its standard output to exit, so that its exit code is known."""

_POLL_SECONDS: Final = 0.01
_MAX_QUOTED_BYTES: Final = 200

_MARK: Final = "TOOLS_SEARCH_STARTED"
"""The environment variable that identifies a server's descendants."""

_INHERITED: Final = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
"""Variables for the locale, folders and network. Everything else, including every key, must be in the configuration."""

_Incoming: TypeAlias = SessionMessage | Exception
_Streams: TypeAlias = tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]
_Listen: TypeAlias = Callable[[ByteReceiveStream], AbstractAsyncContextManager[None]]


def inherited_environment() -> dict[str, str]:
    """Return the variables that a server inherits in addition to the SDK's own short list."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


class StrayLineError(Exception):
    """A line on standard output is not a message. `line` is its start."""

    def __init__(self, reason: str, line: bytes | bytearray) -> None:
        super().__init__(reason)
        self.line = line[:_MAX_QUOTED_BYTES].decode("utf-8", "replace")


@asynccontextmanager
async def child_streams(
    target: StdioTarget,
    ended: Ending,
    on_malformed: Callable[[str], None] = lambda _: None,
    *,
    errors: TextIO | _Listen | None = None,
    errors_are: str = "",
    max_line_bytes: int = MAX_MESSAGE_BYTES,
) -> AsyncGenerator[_Streams]:
    """Start a server, yield streams for receiving and sending messages, and stop it and its descendants at the end.

    A line that is not a message arrives as a `StrayLineError`. Stopping takes at most about 3 s, and less than 1 s if
    the server exits at the end of its standard input.

    Args:
        target: The server to start.
        ended: Set, with the reason, as soon as the server's output has ended.
        on_malformed: Called with the problem of each unreadable answer, which fails its request.
        errors: A file for standard error, or a context manager that reads it: entered with the stream when the server
            has started, and exited when it is gone. By default standard error is discarded.
        errors_are: Where users find standard error, for the reason why the server ended.
        max_line_bytes: Maximum length of a line. The connection ends at a longer one.

    Raises:
        CannotStartError: The server cannot be started.
    """
    family = Descendants()
    try:
        process = await anyio.open_process(
            [target.command, *target.args],
            env={**get_default_environment(), **inherited_environment(), **target.env, **family.environment},
            cwd=target.cwd,
            stderr=subprocess.PIPE if callable(errors) else errors or subprocess.DEVNULL,
            start_new_session=True,  # the process group that `_stop` signals
        )
    except OSError as error:
        raise CannotStartError(why_not_started(target, error)) from error
    try:
        ended.is_suspended = partial(_is_suspended, process.pid, group=process.pid)
        to_us, incoming = anyio.create_memory_object_stream[_Incoming]()
        outgoing, to_it = anyio.create_memory_object_stream[SessionMessage]()
        async with errors(process.stderr) if callable(errors) and process.stderr else nullcontext():
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_read, process, to_us, ended, on_malformed, max_line_bytes, errors_are)
                    tasks.start_soon(_write, process, to_it)
                    with incoming, outgoing:
                        yield incoming, outgoing
                    tasks.cancel_scope.cancel()
            finally:
                # Also if the caller was cancelled, or else the server would outlive it.
                with anyio.CancelScope(shield=True):
                    await _stop(process, family)
    finally:
        # It waits for the pipes, which a grandchild that could not be found may keep open.
        with anyio.move_on_after(_GRACE_SECONDS, shield=True):
            await process.aclose()


async def _read(
    process: Process,
    messages: MemoryObjectSendStream[_Incoming],
    ended: Ending,
    on_malformed: Callable[[str], None],
    max_line_bytes: int,
    errors_are: str,
) -> None:
    stdout = cast("ByteReceiveStream", process.stdout)  # a pipe, by default
    buffer = bytearray()
    stray = 0
    with messages, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        try:
            while stray < _MAX_STRAY_LINES:
                searched = len(buffer)  # so that a long line is not searched again with each piece
                buffer += await stdout.receive(262_144)
                ended.heard = anyio.current_time()
                while (end := buffer.find(b"\n", searched)) >= 0 and stray < _MAX_STRAY_LINES:
                    message = _read_line(buffer[:end], max_line_bytes, on_malformed)
                    del buffer[: end + 1]
                    searched = 0
                    stray = stray + 1 if isinstance(message, Exception) else 0
                    ended.has_spoken |= not stray
                    await messages.send(message)
                if len(buffer) > max_line_bytes:
                    raise MessageTooLargeError(f"a line of more than {mebibytes(max_line_bytes)}")
        except MessageTooLargeError as error:
            # Set before the stream is closed, so that a waiting reader knows why.
            ended.set(f"it sent {error}", is_excess=True)
        except anyio.EndOfStream:
            # The end of the output is usually that of the process, and its exit code says why.
            if not await _exits_within(process, _LAST_MOMENTS_SECONDS):
                ended.set("it closed its standard output")
                return
            code = process.returncode or 0
            how = f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"
            if not ended.has_spoken and code == 0:  # such as a program that only prints its version
                ended.set(f"{how} and sent no message of MCP; check that `command` and `args` start an MCP server")
            ended.set(f"{how}; its last words are {errors_are}" if errors_are else how)
        else:
            ended.set(f"it sent {stray} lines in a row that are not protocol messages")


def _is_suspended(pid: int, *, group: int) -> bool:
    """Return whether a process or any of its descendants is suspended, since a launcher may start the actual server.

    Processes in other groups are the server's own jobs, which it may suspend.
    """
    try:
        state, _, its_group, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, ValueError):
        return False
    is_suspended = state == "T" and int(its_group) == group
    return is_suspended or any(_is_suspended(int(child), group=group) for child in children)


def _read_line(line: bytearray, max_bytes: int, on_malformed: Callable[[str], None]) -> _Incoming:
    """Parse a line. An unreadable answer becomes an error for its request, and any other line a `StrayLineError`.

    Raises:
        MessageTooLargeError: The message is too large.
    """
    try:
        return SessionMessage(read_message(line, max_bytes))
    except MalformedMessageError as error:
        if error.answers is None:
            return StrayLineError(str(error), line)
        on_malformed(str(error))
        return SessionMessage(failed_answer(error.answers, str(error)))


async def _write(process: Process, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    # A server that no longer reads is about to exit, which the reading side will notice.
    with messages, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await cast("ByteSendStream", process.stdin).send(text.encode() + b"\n")


async def _stop(process: Process, family: Descendants) -> None:
    """Stop a server as the protocol requires (closing standard input, then signals), and all its descendants."""
    family.find()  # while the server runs: descendants are also found through their parents
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await cast("ByteSendStream", process.stdin).aclose()
    if not await _exits_within(process, _GRACE_SECONDS):
        _send(signal.SIGTERM, [-process.pid])
    await family.end(_GRACE_SECONDS)
    await _exits_within(process, _GRACE_SECONDS)  # needed if its descendants cannot be found
    _send(signal.SIGKILL, [-process.pid])


async def _exits_within(process: Process, seconds: float) -> bool:
    # Not process.wait(): some versions also wait for the pipes, which a grandchild may keep open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - polling is the only way, see above
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


class Descendants:
    """Tracks a server's process and its descendants, so that none of them outlives it.

    A process group misses descendants with their own session, such as browsers and daemons. On Linux they are found by
    an inherited environment variable, and as children of processes that have it, since some programs overwrite their
    environment. Other systems have no `/proc`, so nothing is found. The server's environment must include
    `environment`.
    """

    def __init__(self) -> None:
        self.environment = {_MARK: uuid4().hex}
        """The variable that marks the server and its descendants."""
        self._mark = f"{_MARK}={self.environment[_MARK]}".encode()
        self._start_times: dict[int, bytes] = {}

    def find(self) -> None:
        """Record the running processes."""
        with suppress(OSError):
            for process in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - a tenth of the time
                if self._mark in _proc_file(f"/proc/{process}/environ").split(b"\0"):
                    self._remember(int(process))

    async def end(self, seconds: float) -> None:
        """Stop the remaining processes with SIGTERM, and after `seconds` with SIGKILL."""
        self.find()
        _send(signal.SIGTERM, self._left())
        with anyio.move_on_after(seconds):
            while self._left():  # noqa: ASYNC110 - other programs' processes set no events
                await anyio.sleep(_POLL_SECONDS)
            return
        self.find()  # processes started meanwhile
        _send(signal.SIGKILL, self._left())

    def _remember(self, pid: int) -> None:
        start = _start_time(pid)
        if start is None or self._start_times.get(pid) == start:
            return
        self._start_times[pid] = start
        with suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                for child in _proc_file(f"/proc/{pid}/task/{task}/children").split():
                    self._remember(int(child))

    def _left(self) -> Collection[int]:
        # The system reuses the ids of ended processes, but a new process has a different start time.
        return [pid for pid, start in self._start_times.items() if _start_time(pid) == start]


def _start_time(pid: int) -> bytes | None:
    """Return when a process started, in ticks since boot; `None` if it has ended."""
    _, _, fields = _proc_file(f"/proc/{pid}/stat").rpartition(b") ")
    return None if fields[:1] in (b"", b"Z", b"X") else fields.split()[19]


def _proc_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # the process has ended, or belongs to another user
        return b""


def _send(number: signal.Signals, pids: Collection[int]) -> None:
    """Send a signal to processes. A negative id means a process group."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
