"""The project's other programs, run as the separate processes that they are to any client."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, cast

import anyio
from anyio.abc import ByteReceiveStream
from anyio.streams.buffered import BufferedByteReceiveStream

from tools_search_client.demo.stage import PATIENCE_SECONDS
from tools_search_client.demo.step import StepFailed
from tools_search_client.diagnostics import kept_diagnostics

__all__ = ["SERVER", "judged", "running_gateway"]

SERVER: Final = (sys.executable, "-m", "tools_search_server")
"""`tools-search-server`, from this very environment."""

_JUDGE: Final = (sys.executable, "-m", "tools_search_conformance")

_START_SECONDS: Final = 20
_JUDGE_SECONDS: Final = 150
_LONGEST_LINE: Final = 4096


@asynccontextmanager
async def running_gateway(configuration: Path) -> AsyncGenerator[str]:
    """Run `tools-search-server --config` over HTTP until the block ends, and say at which address.

    Raises:
        StepFailed: It did not start.
    """
    command = [*SERVER, "--config", str(configuration), "--http", "127.0.0.1:0"]
    command += ["--start-deadline", str(PATIENCE_SECONDS)]
    with kept_diagnostics() as diagnostics:
        async with await anyio.open_process(command, stdin=None, stderr=diagnostics.file) as process:
            try:
                yield await _announced_url(cast("ByteReceiveStream", process.stdout), diagnostics.last_lines)
            finally:
                if process.returncode is None:
                    process.terminate()


async def _announced_url(output: ByteReceiveStream, diagnostics: Any) -> str:
    try:
        with anyio.fail_after(_START_SECONDS):
            line = await BufferedByteReceiveStream(output).receive_until(b"\n", _LONGEST_LINE)
        return str(json.loads(line)["url"])
    except (TimeoutError, anyio.EndOfStream, anyio.IncompleteRead, ValueError, KeyError) as error:
        raise StepFailed(f"tools-search-server did not start: {diagnostics() or type(error).__name__}") from error


async def judged(server: Sequence[str]) -> dict[str, Any]:
    """Let `tools-search-conformance` judge the server that a command starts, and return its report.

    Raises:
        StepFailed: It could not judge, or took too long.
    """
    with tempfile.TemporaryDirectory(prefix="tools-search-verdict-") as out:
        command = [*_JUDGE, "server", "--out", out, "--", *server]
        try:
            with anyio.fail_after(_JUDGE_SECONDS):
                done = await anyio.run_process(command, check=False, stderr=subprocess.STDOUT)
        except TimeoutError as error:
            raise StepFailed(f"the suite gave no verdict within {_JUDGE_SECONDS} seconds") from error
        report = Path(out) / "report.json"
        if not report.is_file():
            said = done.stdout.decode("utf-8", "replace").strip().splitlines()
            raise StepFailed(f"the suite gave no verdict (exit code {done.returncode}): {said[-1] if said else ''}")
        return cast("dict[str, Any]", json.loads(report.read_text(encoding="utf-8")))
