"""The project's other programs, run as the separate processes that they are to any client."""

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
"""`tools-search-server`, from this very environment."""
_SUITE: Final = (sys.executable, "-m", "tools_search_conformance", "server")
_VERDICTS: Final = (0, 1)
"""Exit codes of the suite that stand for a verdict."""

START_SECONDS: Final = 30
"""For all servers to start on a machine that is slow or busy."""
_GATEWAY_SECONDS: Final = 20
_SILENT_SECONDS: Final = 400
"""Longer than the suite lets any check take, however slow the machine."""
_END_SECONDS: Final = 20
_COUNTER: Final = re.compile(r"(\d+/\d+)  ")
_MAX_LINE: Final = 4096


class StepError(Exception):
    """A step could not show what it is there to show; the message says why."""


@asynccontextmanager
async def running_gateway(configuration: Path) -> AsyncGenerator[str]:
    """Run `tools-search-server --config` over HTTP until the block ends; `StepError` where it does not start."""
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
    """Let `tools-search-conformance` judge the server that a command starts, and return its report.

    `progress` is called with the number of checks that are done, of how many, each time that one is. Raises `StepError`
    where there is no verdict, or the suite was silent for longer than a check may take.
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
                raise StepError(f"the suite ran no check for {_SILENT_SECONDS} seconds") from error
            code = await process.wait()
        if code not in _VERDICTS:
            raise StepError(f"the suite gave no verdict (exit code {code}): {' / '.join(last_lines)}")
        return cast("dict[str, Any]", json.loads((Path(out) / "report.json").read_text(encoding="utf-8")))


async def _lines(output: ByteReceiveStream) -> AsyncIterator[str]:
    """Yield the output of a process, line by line; raises `TimeoutError` where it writes nothing for too long."""
    rest = b""
    with suppress(anyio.EndOfStream):
        while True:
            with anyio.fail_after(_SILENT_SECONDS):
                rest += await output.receive()
            *lines, rest = rest.split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")


@asynccontextmanager
async def _process(command: Sequence[str], stderr: Any) -> AsyncGenerator[tuple[Process, ByteReceiveStream]]:
    """Run a program and offer its output; at the end of the block it has time to end what it has started."""
    async with await anyio.open_process(command, stdin=None, stderr=stderr) as process:
        try:
            yield process, cast("ByteReceiveStream", process.stdout)
        finally:
            if process.returncode is None:
                process.terminate()
                with anyio.move_on_after(_END_SECONDS, shield=True):
                    await process.wait()
