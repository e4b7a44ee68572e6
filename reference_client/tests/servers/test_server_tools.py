"""Calls over a real process in both eras, and the ranking of listed tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import anyio
import pytest
from mcp_types import Tool
from tools_search_client.errors import InvalidServerResultError, ServerError, ServerTimeoutError, ServerUnavailableError
from tools_search_client.found import FoundTool
from tools_search_client.known_tools import MANY, KnownTools
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery_options import DiscoveryOptions
from tools_search_client.servers.server_tools import ServerTools
from tools_search_hosts import StdioTarget
from tools_search_ranking import default_ranker


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("call-dies", ServerUnavailableError),
        ("call-hangs", ServerTimeoutError),
        ("unstructured", InvalidServerResultError),
    ],
)
async def test_a_call_whose_server_dies_or_hangs_or_breaks_the_tools_own_schema_says_which(
    liar: Any, era: str, impatient: ConnectionOptions, fault: str, error: type[ServerError]
):
    with anyio.fail_after(10):
        async with open_server(liar(fault, era=era).target, impatient) as tools:
            await tools.search("alpha")
            with pytest.raises(error):
                await tools.call("make_alpha")


def known(tools: Iterable[Tool]) -> KnownTools:
    return KnownTools([FoundTool(tool.name, "", tool) for tool in tools], default_ranker())


@pytest.mark.anyio
async def test_listing_and_ranking_here_orders_as_the_reference_server_does(reference_program: StdioTarget):
    with anyio.fail_after(20):
        async with open_server(reference_program) as tools:
            searched = await tools.search("delete a customer", limit=4)
            listed = await tools.list()
            assert len(listed) == 12
    ranked = known(listed).found("delete a customer", 4)
    assert [hit.tool.name for hit in ranked] == [hit.tool.name for hit in searched.tools]


@pytest.mark.anyio
async def test_a_long_listing_is_indexed_once_while_the_event_loop_goes_on(liar: Any, patient_ranker: Any, until: Any):
    options = ConnectionOptions(discovery=DiscoveryOptions(ranker=patient_ranker))
    found: list[str] = []
    with anyio.fail_after(30):
        async with open_server(liar(place="nowhere", more=MANY).target, options) as tools:

            async def search(number: int) -> None:
                found.append((await tools.search(f"make {number}", limit=1)).tools[0].tool.name)

            async with anyio.create_task_group() as searches:
                for number in (3, 7):
                    searches.start_soon(search, number)
                await until(patient_ranker.is_at_many.is_set)
                patient_ranker.goes_on.set()
    assert sorted(found) == ["make_3", "make_7"]
    assert [len(names) for names in patient_ranker.indexed if names] == [MANY + 6]


@pytest.mark.anyio
async def test_a_listing_that_has_changed_is_ranked_anew(liar: Any, era: str):
    changed = anyio.Event()

    async def found(tools: ServerTools) -> set[str]:
        return {hit.tool.name for hit in (await tools.search("make")).tools}

    with anyio.fail_after(20):
        async with open_server(liar("call-loses", era=era, place="nowhere").target, on_change=changed.set) as tools:
            before = await found(tools)
            while not changed.is_set():  # a modern server announces it once it is subscribed to
                await tools.call("make_alpha")
            after = await found(tools)
    assert len(after) == 5
    assert before - after == {"make_alpha"}


def named(*names: str) -> list[Tool]:
    return [Tool(name=name, description="d", input_schema={"type": "object"}) for name in names]


def test_a_tool_that_is_named_exactly_is_found_first():
    tools = named("send", "send_mail", "mail_send_send")
    assert known(tools).found("send", 2)[0].tool.name == "send"


def test_nothing_is_found_where_nothing_fits():
    tools = named("send")
    assert known(tools).found("xylophone", 5) == ()
