"""A server as a child process, spoken to over its standard streams: bounded, and gone for certain afterwards.

The SDK's own transport does the same for a server that can be trusted. This one says how a server ended, bounds what
is kept of a line that does not end, gives up on a server that sends nothing but noise, and stops it and all that it
started within the time that hosts give the program that started it.
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

_MAX_STRAY_LINES: Final = 100
"""Lines in a row that are no message; a server that prints now and then is borne with."""

_GRACE_SECONDS: Final = 0.8
"""For the end of the input, and again for SIGTERM: hosts give the program that stops all servers as little as 2 s."""

_LAST_MOMENTS_SECONDS: Final = 0.5
"""For a server that closed its standard output to end, so that it can be said how."""

_POLL_SECONDS: Final = 0.01
_MAX_QUOTED_BYTES: Final = 200

_MARK: Final = "TOOLS_SEARCH_STARTED"
"""The environment variable by which the descendants of a server are found."""

_INHERITED: Final = (
    *("LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
    *("NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR", "SSL_CERT_FILE"),
)
"""Where a server is and how it reaches the network; anything else, and so every key, is named in the configuration."""

_Incoming: TypeAlias = SessionMessage | Exception
_Streams: TypeAlias = tuple[MemoryObjectReceiveStream[_Incoming], MemoryObjectSendStream[SessionMessage]]
_Listen: TypeAlias = Callable[[ByteReceiveStream], AbstractAsyncContextManager[None]]


def inherited_environment() -> dict[str, str]:
    """Return the variables that a started server inherits in addition to the SDK's own short list."""
    return {name: os.environ[name] for name in _INHERITED if name in os.environ}


class StrayLineError(Exception):
    """A line on standard output that is no message; `line` is its beginning."""

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
    """Start a server and yield its messages and where to send others; stop it and all that it started at the end.

    A line that is no message arrives as a `StrayLineError`. The stop takes at most about 3 s, and less than 1 s where
    the server ends with its standard input.

    Args:
        target: What to start.
        ended: Set with the reason as soon as the server has nothing more to say.
        on_malformed: Called with what is wrong with each answer that cannot be read; it fails its request.
        errors: The file that its standard error goes to, or what reads it: entered with the stream when the server
            has been started, and left when it is gone. Discarded unless given.
        errors_are: Where people find its standard error, for the reason why it ended.
        max_line_bytes: Of a line; a longer one is the end of the server.

    Raises:
        OSError: It cannot be started.
    """
    family = Descendants()
    process = await anyio.open_process(
        [target.command, *target.args],
        env={**get_default_environment(), **inherited_environment(), **target.env, **family.environment},
        cwd=target.cwd,
        stderr=subprocess.PIPE if callable(errors) else errors or subprocess.DEVNULL,
        start_new_session=True,
    )
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
                with anyio.CancelScope(shield=True):
                    await _stop(process, family)
    finally:
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
    stdout = cast("ByteReceiveStream", process.stdout)  # piped, by _start
    buffer = bytearray()
    stray = 0
    with messages, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        try:
            while stray < _MAX_STRAY_LINES:
                searched = len(buffer)
                buffer += await stdout.receive(262_144)
                ended.heard = anyio.current_time()
                while (end := buffer.find(b"\n", searched)) >= 0 and stray < _MAX_STRAY_LINES:
                    message = _read_line(buffer[:end], max_line_bytes, on_malformed)
                    del buffer[: end + 1]
                    searched = 0
                    stray = stray + 1 if isinstance(message, Exception) else 0
                    await messages.send(message)
                if len(buffer) > max_line_bytes:
                    raise MessageTooLargeError(f"a line of more than {mebibytes(max_line_bytes)}")
        except MessageTooLargeError as error:
            # Before the messages end, so that a waiting reader knows why none comes.
            ended.set(f"it sent {error}", is_excess=True)
        except anyio.EndOfStream:
            if not await _exits_within(process, _LAST_MOMENTS_SECONDS):
                ended.set("it closed its standard output")
                return
            code = process.returncode or 0
            how = f"it was killed by signal {-code}" if code < 0 else f"it ended with exit code {code}"
            ended.set(f"{how}; its last words are {errors_are}" if errors_are else how)
        else:
            ended.set(f"it sent {stray} lines in a row that are no messages of the protocol")


def _is_suspended(pid: int, *, group: int) -> bool:
    """Return whether a process is suspended, or one that it has started, as a launcher starts a server.

    Processes of other groups are jobs of the server, with which it may do what it likes.
    """
    try:
        state, _, its_group, *_ = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (OSError, ValueError):
        return False
    is_suspended = state == "T" and int(its_group) == group
    return is_suspended or any(_is_suspended(int(child), group=group) for child in children)


def _read_line(line: bytearray, max_bytes: int, on_malformed: Callable[[str], None]) -> _Incoming:
    """Return the message that a line is, a failure in place of an answer that cannot be read, or why it is neither.

    Raises:
        MessageTooLargeError: It is more than is read.
    """
    try:
        return SessionMessage(read_message(line, max_bytes))
    except MalformedMessageError as error:
        if error.answers is None:
            return StrayLineError(str(error), line)
        on_malformed(str(error))
        return SessionMessage(failed_answer(error.answers, str(error)))


async def _write(process: Process, messages: MemoryObjectReceiveStream[SessionMessage]) -> None:
    # A server that reads no more is about to end, which the reading side will notice.
    with messages, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        async for message in messages:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await cast("ByteSendStream", process.stdin).send(text.encode() + b"\n")


async def _stop(process: Process, family: Descendants) -> None:
    """End a server as the protocol says (standard input first, then signals), and every process that it started."""
    family.find()
    with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
        await cast("ByteSendStream", process.stdin).aclose()
    if not await _exits_within(process, _GRACE_SECONDS):
        _send(signal.SIGTERM, [-process.pid])
    await family.end(_GRACE_SECONDS)
    await _exits_within(process, _GRACE_SECONDS)  # where its descendants cannot be found
    _send(signal.SIGKILL, [-process.pid])


async def _exits_within(process: Process, seconds: float) -> bool:
    # Not process.wait(): some versions of it wait for the pipes as well, which a grandchild may hold open.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - the only thing to look at, see above
            await anyio.sleep(_POLL_SECONDS)
    return process.returncode is not None


class Descendants:
    """The processes of a started server, its descendants included, so that none of them outlives it.

    A process group misses descendants with a session of their own, such as browsers and daemons. On Linux they are
    found by an environment variable that they inherit, and as children of those that have it: some programs overwrite
    theirs. Elsewhere nothing is found, since there is no `/proc`. The server's environment must include `environment`.
    """

    def __init__(self) -> None:
        self.environment = {_MARK: uuid4().hex}
        """What marks the server and what it starts."""
        self._mark = f"{_MARK}={self.environment[_MARK]}".encode()
        self._start_times: dict[int, bytes] = {}

    def find(self) -> None:
        """Remember the processes that run now; to be called while the server runs, and so do the parents of others."""
        with suppress(OSError):
            for process in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208 - a tenth of the time
                if self._mark in _proc_file(f"/proc/{process}/environ").split(b"\0"):
                    self._remember(int(process))

    async def end(self, seconds: float) -> None:
        """End the processes that are left: by SIGTERM, and those that still run after `seconds` by SIGKILL."""
        self.find()
        _send(signal.SIGTERM, self._left())
        with anyio.move_on_after(seconds):
            while self._left():  # noqa: ASYNC110 - processes of others set no events
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
        # The system gives the numbers of ended processes to others, which have another start time.
        return [pid for pid, start in self._start_times.items() if _start_time(pid) == start]


def _start_time(pid: int) -> bytes | None:
    """Return when a process started, in ticks since boot; `None` if it has ended."""
    _, _, fields = _proc_file(f"/proc/{pid}/stat").rpartition(b") ")
    return None if fields[:1] in (b"", b"Z", b"X") else fields.split()[19]


def _proc_file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:  # it has ended, or is another user's
        return b""


def _send(number: signal.Signals, pids: Collection[int]) -> None:
    """Send a signal to processes; a negative id stands for a whole group."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)
