"""The project's server and conformance suite, run as separate processes, as any client would see them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio.abc import ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_client.servers.diagnostics import kept_diagnostics

SERVER: Final = (sys.executable, "-m", "tools_search_server")
"""`tools-search-server`, from the current environment."""
_SUITE: Final = (sys.executable, "-m", "tools_search_conformance", "server")
_VERDICTS: Final = (0, 1)
"""The suite's exit codes for a verdict."""

START_SECONDS: Final = 30
"""Allows all servers to start on a slow or busy machine."""
_GATEWAY_SECONDS: Final = 20
_SILENT_SECONDS: Final = 400
"""Longer than the suite's limit for any check, even on a slow machine."""
_END_SECONDS: Final = 20
_COUNTER: Final = re.compile(r"(\d+/\d+)  ")
_MAX_LINE: Final = 64 * 1024


class StepError(Exception):
    """A step could not demonstrate what it should; the message says why."""


@asynccontextmanager
async def running_gateway(configuration: Path) -> AsyncGenerator[str]:
    """Run `tools-search-server --config` over HTTP until the block ends; raises `StepError` if it does not start."""
    command = [*SERVER, "--config", str(configuration), "--http", "127.0.0.1:0"]
    command += ["--start-deadline", str(START_SECONDS), "--search", "contents,prompts"]
    with kept_diagnostics() as diagnostics:
        async with _process(command, stderr=diagnostics.file) as (_, output):
            try:
                with anyio.fail_after(_GATEWAY_SECONDS):
                    line = await BufferedByteReceiveStream(output).receive_until(b"\n", _MAX_LINE)
                url = str(json.loads(line)["url"])
            except (TimeoutError, anyio.EndOfStream, anyio.IncompleteRead, ValueError, KeyError) as error:
                said = diagnostics.last_lines() or type(error).__name__
                raise StepError(f"tools-search-server did not start: {said}") from error
            yield url


async def conformance_report(server: Sequence[str], progress: Callable[[str], None]) -> dict[str, Any]:
    """Run `tools-search-conformance` on the server that a command starts, and return its report.

    `progress` is called with the finished and total number of checks each time one finishes. Raises `StepError` if
    there is no verdict, or if the suite printed nothing for longer than a check can take.
    """
    with tempfile.TemporaryDirectory(prefix="tools-search-verdict-") as out:
        command = [*_SUITE, "--progress", "--out", out, "--", *server]
        last_lines: deque[str] = deque(maxlen=3)
        async with _process(command, stderr=subprocess.STDOUT) as (process, output):
            try:
                async for line in _lines(output):
                    if counted := _COUNTER.match(line):
                        progress(f"{counted[1]} checks")
                    elif line.strip():
                        last_lines.append(line.strip())
            except TimeoutError as error:
                raise StepError(f"the suite finished no check for {_SILENT_SECONDS} seconds") from error
            code = await process.wait()
        if code not in _VERDICTS:
            raise StepError(f"the suite gave no verdict (exit code {code}): {' / '.join(last_lines)}")
        return cast("dict[str, Any]", json.loads((Path(out) / "report.json").read_text(encoding="utf-8")))


async def _lines(output: ByteReceiveStream) -> AsyncIterator[str]:
    """Yield a process's output line by line; raises `TimeoutError` if it writes nothing for too long."""
    buffered = BufferedByteReceiveStream(output)
    with suppress(anyio.IncompleteRead):
        while True:
            with anyio.fail_after(_SILENT_SECONDS):
                line = await buffered.receive_until(b"\n", _MAX_LINE)
            yield line.decode("utf-8", "replace")


@asynccontextmanager
async def _process(command: Sequence[str], stderr: Any) -> AsyncGenerator[tuple[Process, ByteReceiveStream]]:
    """Run a program and yield it with its output; at the end of the block, give it time to stop its children."""
    async with await anyio.open_process(command, stdin=None, stderr=stderr) as process:
        try:
            yield process, cast("ByteReceiveStream", process.stdout)
        finally:
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(_END_SECONDS, shield=True):
                    await process.wait()
