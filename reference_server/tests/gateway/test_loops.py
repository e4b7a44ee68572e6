"""A gateway that leads back to itself, at once or by way of another one, offers nothing twice, and says why."""

from __future__ import annotations

import json
import socket
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages

pytestmark = pytest.mark.anyio

LEADS_BACK = "it leads back to this gateway, whose tools would be its own again: take it out of this configuration"


async def names(client: Client) -> set[str]:
    listed: set[str] = set()
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        listed |= {tool.name for tool in page.tools}
        if (cursor := page.next_cursor) is None:
            return listed


@pytest.fixture
def ports() -> list[int]:
    """Three ports that nobody uses."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(3)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture
def start(servers: Any, tmp_path: Path) -> Any:
    """Start a gateway at a port of this machine, and return the file that it logs to."""

    async def started(name: str, port: int, entries: dict[str, Any], *options: str) -> Path:
        file, log = tmp_path / f"{name}.json", tmp_path / f"{name}.log"
        file.write_text(json.dumps({"mcpServers": entries}))
        with log.open("w") as stderr:
            arguments = ["--config", str(file), "--http", f"127.0.0.1:{port}", "--start-deadline", "0", *options]
            await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments, stderr=stderr))
        return log

    return started


def at(port: int, path: str = "") -> dict[str, Any]:
    return {"url": f"http://127.0.0.1:{port}/mcp{path}"}


@pytest.mark.rotating
@pytest.mark.parametrize(("era", "path"), [("auto", ""), ("legacy", "/auto")])
async def test_a_gateway_that_is_configured_with_itself_has_only_its_other_servers(
    start: Any, raw: Any, until: Any, ports: list[int], era: str, path: str
) -> None:
    entries = {"self": at(ports[0], path) | {"era": era}, "one": raw("named", Path("own"))}
    with anyio.fail_after(60):
        log = await start("a", ports[0], entries, "--compat", "auto")
        await until(lambda: f"self is down: {LEADS_BACK}" in log.read_text())
        async with Client(at(ports[0])["url"]) as client:
            while not (listed := await names(client)):  # noqa: ASYNC110
                await anyio.sleep(0.1)
    assert listed == {"one__own"}


@pytest.mark.rotating
@pytest.mark.parametrize(("era", "options"), [("legacy", []), ("auto", ["--index-at-most", "0"])])
async def test_a_ring_of_gateways_is_broken_where_it_would_close(
    start: Any, raw: Any, until: Any, ports: list[int], options: list[str], era: str
) -> None:
    port = dict(zip("ab", ports, strict=False))
    with anyio.fail_after(90):
        logs: list[Path] = []
        for own, other in ("ab", "ba"):
            entries = {other: at(port[other]) | {"era": era}, "one": raw("named", Path(f"own_{own}"))}
            logs.append(await start(own, port[own], entries, *options))
        await until(lambda: any(LEADS_BACK in log.read_text() for log in logs))
        async with (
            Client(at(port["a"])["url"], extensions=[TOOLS_SEARCH]) as a,
            Client(at(port["b"])["url"], extensions=[TOOLS_SEARCH]) as b,
        ):
            whole = [
                ({"one__own_a", "b__one__own_b"}, {"one__own_b"}),
                ({"one__own_a"}, {"one__own_b", "a__one__own_a"}),
            ]
            while (listed := (await names(a), await names(b))) not in whole:  # noqa: ASYNC110
                await anyio.sleep(0.1)
            found = [
                {tool.name async for page in iter_pages(one, "plain tool") for tool in page.tools} for one in (a, b)
            ]
    assert found == [*listed]


@pytest.mark.rotating
async def test_gateways_one_behind_the_other_offer_everything(start: Any, raw: Any, ports: list[int]) -> None:
    wanted = {"next__next__one__own_2", "next__one__own_1", "one__own_0"}
    with anyio.fail_after(60):
        for number in (2, 1, 0):
            behind = {"next": at(ports[number + 1])} if number < 2 else {}
            entries = behind | {"one": raw("named", Path(f"own_{number}"))}
            await start(str(number), ports[number], entries)
        async with Client(at(ports[0])["url"]) as client:
            while await names(client) != wanted:  # noqa: ASYNC110
                await anyio.sleep(0.1)
