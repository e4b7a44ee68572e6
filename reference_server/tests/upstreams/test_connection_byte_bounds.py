"""What one server sends is bounded, however it sends it: the others, the memory and the end of the gateway stay."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp_ext_tools_search.client import raw_request

pytestmark = pytest.mark.anyio

MAX_GROWTH = 128 * 1024
"""Memory that a server may cost at most, in kB."""

ATTACKS = [
    ("json", "bomb", "it sent an answer of more than 16 MiB"),
    ("json", "endless", "it sent an answer of more than 16 MiB"),
    ("json", "small-chunks", "it sent an answer in 5,001 pieces of a few bytes"),
    ("json", "endless-event", "it sent an event of more than 16 MiB"),
    ("old-sse", "endless", "it sent an event of more than 16 MiB"),
    ("old-sse", "endless-event", "it sent an event of more than 16 MiB"),
    ("stdio", "endless", "it sent a line of more than 16 MiB"),
    ("json", "large-description", "it sent an answer of more than 16 MiB"),
    ("events", "large-description", "it sent an event of more than 16 MiB"),
    ("stdio", "large-description", "it sent a line of more than 16 MiB"),
    ("json", "many-tools", "it lists more than 20,971 tools"),
    ("stdio", "many-tools", "it lists more than 20,971 tools"),
    ("stdio", "many-values", "it sent a message of more than 524,288 values"),
    ("events", "many-values", "it sent a message of more than 524,288 values"),
    ("stdio", "large-pages", "its lists are larger than 16 MiB in all"),
    ("json", "endless-headers", "it sent HTTP headers of more than 100 kB"),
    (
        "json",
        "unasked-encoding",
        "it is in the encoding 'br', which was not asked for",
    ),
]


@dataclass
class Gateway:
    process: subprocess.Popen[str]
    client: Client

    def peak(self) -> int:
        """Return the most memory it had so far, in kB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))

    async def call(self, name: str) -> str:
        result = await raw_request(self.client, "tools/call", {"name": name, "arguments": {}}, seconds=20)
        return result["content"][0]["text"]


@pytest.fixture
def started(servers: Any, configuration: Any, raw: Any) -> Callable[..., Any]:
    """Start a gateway process in front of a good server and the given ones, and connect to it."""

    @asynccontextmanager
    async def start(**entries: Any) -> AsyncGenerator[Gateway]:
        file = str(configuration(good=raw("good"), **entries))
        process = servers.start("-m", "tools_search_server", "--http", "127.0.0.1:0", "--config", file)
        url = json.loads(await anyio.to_thread.run_sync(process.stdout.readline))["url"]
        async with Client(url) as client:
            yield Gateway(process, client)

    return start


@pytest.fixture(scope="module")
def usual_peaks() -> list[int]:
    """Hold the memory that a gateway takes with good servers alone, once it is known."""
    return []


@pytest.mark.rotating
@pytest.mark.parametrize(("way", "behavior", "reason"), ATTACKS)
async def test_a_server_that_sends_too_much_is_down_by_name_and_costs_the_others_nothing(
    started: Any, hostile: Any, usual_peaks: list[int], way: str, behavior: str, reason: str
) -> None:
    with anyio.fail_after(180):
        if not usual_peaks:
            async with started() as alone:
                assert "tools/call by" in await alone.call("good__plain")
                usual_peaks.append(alone.peak())
        entry = await hostile(way, "legacy", behavior)
        async with started(hostile=entry) as gateway:
            while "down since" not in (text := await gateway.call("hostile__say")):
                assert "tools/call by" in await gateway.call("good__plain")
                await anyio.sleep(0.05)  # the gateway needs the processor
            assert reason in text
            assert "tools/call by" in await gateway.call("good__plain")
            assert gateway.peak() - usual_peaks[0] < MAX_GROWTH


@pytest.mark.rotating
@pytest.mark.parametrize(("way", "behavior"), [("json", "bomb"), ("stdio", "endless")])
async def test_a_gateway_stops_when_told_while_a_server_sends_without_end(
    started: Any, hostile: Any, way: str, behavior: str
) -> None:
    with anyio.fail_after(60):
        async with started(hostile=await hostile(way, "legacy", behavior)) as gateway:
            assert "tools/call by" in await gateway.call("good__plain")
            gateway.process.terminate()
            with anyio.fail_after(15):
                assert await anyio.to_thread.run_sync(gateway.process.wait, abandon_on_cancel=True) == 0
