"""What hostile resources cost a server in a process of its own, whose memory is limited, over both transports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_ext_search_primitives.client import find, search_resources
from mcp_ext_search_primitives.types import RESOURCES
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import INTERNAL_ERROR

pytestmark = pytest.mark.anyio

PROGRAM = Path(__file__).with_name("hostile_server.py")
TEN_MILLION = 10_000_000

Target = StdioServerParameters | str
Serving = Callable[[int], Target]


@pytest.fixture(params=["stdio", "http"])
def serving(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Serving]:
    """Serves so many resources; gives what a client connects to."""
    running: list[subprocess.Popen[str]] = []

    def served(count: int) -> Target:
        argv = [str(PROGRAM), str(tmp_path), str(count)]
        if request.param == "stdio":
            return StdioServerParameters(command=sys.executable, args=argv)
        process = subprocess.Popen([sys.executable, *argv, "http"], stdout=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stdout is not None
        return process.stdout.readline().strip()

    yield served
    for process in running:
        process.kill()
        process.communicate(timeout=20)


async def test_a_file_of_two_gigabytes_and_a_resource_that_never_ends_cost_the_others_nothing(serving: Serving) -> None:
    target = await anyio.to_thread.run_sync(serving, 3)
    with anyio.fail_after(60):
        async with Client(target, extensions=[TOOLS_SEARCH]) as client:
            found = await search_resources(client, "who pays for a lost parcel")
            assert [resource.uri for resource in found.resources] == ["docs://terms"]
            named = await search_resources(client, "docs://endless")
            assert named.resources[0].uri == "docs://endless"


@pytest.mark.rotating
async def test_ten_million_resources_are_refused_by_a_search_and_the_server_serves_on(serving: Serving) -> None:
    target = await anyio.to_thread.run_sync(serving, TEN_MILLION)
    with anyio.fail_after(120):
        async with Client(target, extensions=[TOOLS_SEARCH]) as client:
            with pytest.raises(MCPError) as refused:
                await search_resources(client, "parcel", timeout=100)
            assert refused.value.code == INTERNAL_ERROR
            assert (await client.list_tools()).tools == []


@pytest.mark.rotating
@pytest.mark.parametrize("serving", ["stdio"], indirect=True)  # what a client reads is the same over either
async def test_a_client_reads_of_ten_million_resources_what_it_may_and_says_that_there_are_more(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_ext_search_primitives.client.MAX_ITEMS", 10_000)
    target = await anyio.to_thread.run_sync(serving, TEN_MILLION)
    with anyio.fail_after(120):
        async with Client(target) as client:  # it does not declare the extension, so that it has to list
            found = await find(RESOURCES, client, "docs://77", limit=1)
    assert [resource.uri for resource in found.items] == ["docs://77"]
    assert (found.is_listed, found.is_incomplete) == (True, True)
