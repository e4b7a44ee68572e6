"""A target's process: started without a shell in its own process group, and killed along with its children."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio.abc import ByteReceiveStream, Process, TaskGroup

STDERR_BYTES: Final = 256 * 1024
"""How much of the end of a target's stderr to keep."""

_LAST_WORDS: Final = 200
_NAMES_AN_ERROR: Final = re.compile(r"error|exception|panic|fatal|fault", re.IGNORECASE)
_GRACE_SECONDS: Final = 1.0
_NO_GRACE_SECONDS: Final = 0.1
_MOST_SETTLED: Final = 8
_PASSED_ON: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TEMP", "TMP", "TERM",
    "SYSTEMROOT", "VIRTUAL_ENV", "JAVA_HOME",
)  # fmt: skip
_MARK: Final = "TOOLS_SEARCH_CONFORMANCE_TARGET"
"""An environment variable that a target's processes inherit, for finding daemons that left its process group."""
_LEFTOVER_ROUNDS: Final = 5
"""How many times to look for leftover processes, which might have started others meanwhile."""


class TargetError(Exception):
    """The target could not be started or reached, or has nothing to judge; the message says what to do."""


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a target: the few variables that programs need, and `extra`."""
    return {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | dict(extra)


def last_error(log: str) -> list[str]:
    """Return the last line of a log that names an error, and the lines after it."""
    lines = log.splitlines()
    errors = [n for n, line in enumerate(lines) if not line[:1].isspace() and _NAMES_AN_ERROR.search(line)]
    return lines[errors[-1] :] if errors else []


def _end_leftovers(mark: str) -> None:
    """Kill every process started with `mark`; finds none on systems that do not show environments."""
    entry = f"{_MARK}={mark}".encode()
    for _ in range(_LEFTOVER_ROUNDS):
        found: list[int] = []
        for environ in Path("/proc").glob("[0-9]*/environ"):
            with suppress(OSError):  # it has exited, or belongs to another user
                if entry in environ.read_bytes().split(b"\0"):
                    found.append(int(environ.parent.name))
        if not found:
            return
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)


class GracePeriod:
    """How long a program's processes get to exit: long, until one of them has to be killed."""

    seconds = _GRACE_SECONDS


class TargetProcess:
    """A running target. Its stderr is drained into a ring buffer, so that a verbose target never blocks."""

    def __init__(self, process: Process, argv: Sequence[str], mark: str, grace: GracePeriod) -> None:
        self.argv = tuple(argv)
        self._mark = mark
        self._process = process
        self._grace = grace
        self._stderr = bytearray()
        self._printed = bytearray()
        self._stderr_read = anyio.Event()
        self._settled = 0

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        tasks: TaskGroup,
        env: Mapping[str, str],
        cwd: str | None = None,
        grace: GracePeriod | None = None,
    ) -> TargetProcess:
        """Start `argv`, and drain its stderr in `tasks`; raises `TargetError` if the program cannot be run."""
        mark = secrets.token_hex(8)
        inherited = environment(env) | {_MARK: mark}
        try:
            process = await anyio.open_process(list(argv), env=inherited, cwd=cwd, start_new_session=True)
        except (OSError, ValueError) as error:
            raise TargetError(f"cannot start `{shlex.join(argv)}`: {error}") from error
        target = cls(process, argv, mark, grace or GracePeriod())
        assert process.stderr is not None  # noqa: S101 - open_process pipes all three by default
        tasks.start_soon(target._keep, process.stderr)
        return target

    @property
    def stdout(self) -> ByteReceiveStream:
        """The target's standard output."""
        assert self._process.stdout is not None  # noqa: S101 - piped by default
        return self._process.stdout

    @property
    def returncode(self) -> int | None:
        """The exit status, negative for a signal; `None` while the process runs."""
        return self._process.returncode

    @property
    def logged(self) -> str:
        """The end of the target's stderr and of its discarded stdout."""
        return self.stderr_tail(STDERR_BYTES) + self._printed.decode("utf-8", errors="replace")

    async def discard_stdout(self) -> None:
        """Keep reading stdout, so that a program that prints more never blocks."""
        with suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
            async for chunk in self.stdout:
                self._printed += chunk
                del self._printed[:-STDERR_BYTES]

    def stderr_tail(self, size: int = 2000) -> str:
        """Return the last `size` bytes, at most, of the target's stderr."""
        return bytes(self._stderr[-size:]).decode("utf-8", errors="replace")

    def how_it_ended(self) -> str:
        """Return how the process ended, with the likely reason from its stderr, for a message."""
        if self.returncode is None:
            return "the process closed its stdout"
        # The last line that names an error, because some programs print a stack trace below it; or else the last line.
        stderr = self.stderr_tail()
        words = (last_error(stderr)[:1] or stderr.strip().splitlines()[-1:] or [""])[0].strip()[:_LAST_WORDS]
        return f"the process ended with exit status {self.returncode}{words and f'; stderr: {words}'}"

    async def write(self, data: bytes) -> None:
        """Write to the target's stdin; raises anyio's errors for broken and closed resources if it no longer reads."""
        assert self._process.stdin is not None  # noqa: S101 - piped by default
        await self._process.stdin.send(data)

    async def settle(self) -> None:
        """Give a process that might be exiting a moment to be reaped, so that its exit status and stderr are known.

        A process that keeps running after several such moments gets hardly any more time.
        """
        self._settled += 1
        seconds = _GRACE_SECONDS if self._settled <= _MOST_SETTLED else _NO_GRACE_SECONDS
        with anyio.move_on_after(seconds):
            await self._process.wait()
        if self.returncode is not None:
            with anyio.move_on_after(_NO_GRACE_SECONDS):  # its children might keep stderr open
                await self._stderr_read.wait()

    async def close_stdin(self, seconds: float) -> bool:
        """Close the target's stdin and return whether it exits within `seconds` seconds."""
        if self._process.stdin is not None:
            with suppress(OSError, anyio.BrokenResourceError):
                await self._process.stdin.aclose()
        with anyio.move_on_after(seconds):
            await self._process.wait()
        return self._process.returncode is not None

    async def end(self, *, politely: bool = True, ends_with_stdin: bool = True) -> None:
        """End the process and its children; by default, let it exit gracefully, and kill it only if it does not.

        `ends_with_stdin` is true for a process that should exit when its stdin closes, such as a server on stdio.
        """
        with anyio.CancelScope(shield=True):
            await self.close_stdin(_GRACE_SECONDS if politely and ends_with_stdin else 0)
            if politely:
                if self._process.returncode is None:
                    self._signal(signal.SIGTERM)
                with anyio.move_on_after(self._grace.seconds):
                    await self._process.wait()
                if self._process.returncode is None:
                    self._grace.seconds = _NO_GRACE_SECONDS
            self._signal(signal.SIGKILL)
            _end_leftovers(self._mark)  # a daemon leaves the process group
            with anyio.move_on_after(_GRACE_SECONDS), suppress(OSError):
                await self._process.aclose()
                if self._process.stdin is not None:
                    # Early Python 3.11 releases log a failed write unless the stream's exception is retrieved.
                    await cast("Any", self._process.stdin)._stream.wait_closed()

    def _signal(self, number: signal.Signals) -> None:
        # The process leads its group, so the group id is its pid; the group might be empty by now.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    async def _keep(self, stream: ByteReceiveStream) -> None:
        with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for chunk in stream:
                self._stderr += chunk
                del self._stderr[:-STDERR_BYTES]
        self._stderr_read.set()
