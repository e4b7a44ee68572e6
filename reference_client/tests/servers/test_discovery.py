"""One server, over a real process in both eras: searched where it offers that, listed where not."""

from __future__ import annotations

import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from mcp_types import TextContent
from tools_search_client.errors import (
    InvalidServerResultError,
    LocalError,
    ServerBusyError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerUnavailableError,
)
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery_options import DiscoveryOptions
from tools_search_hosts import StdioTarget

pytestmark = pytest.mark.anyio

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")

Until = Callable[[Callable[[], bool]], Awaitable[None]]


def retrying(seconds: float) -> ConnectionOptions:
    """Options under which a search is sent again so long after one that failed."""
    return ConnectionOptions(discovery=DiscoveryOptions(retry_after=seconds))


async def test_a_server_that_advertises_is_searched_and_never_listed(liar: Any, era: str):
    server = liar(era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make an alpha", limit=3)
            assert (tools.mode, tools.era, found.mode, found.fallback) == ("search", era, "search", None)
    assert [hit.tool.name for hit in found.tools] == ["make_alpha", "make_beta", "make_gamma"]
    assert server.asked("tools/search", "tools/list") == ["tools/search"]


async def test_a_server_that_does_not_advertise_is_never_probed(liar: Any, era: str):
    server = liar(era=era, place="nowhere")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make a delta")
            assert (tools.settings, tools.mode) == (None, "list")
    assert (found.tools[0].tool.name, found.mode, found.fallback) == ("make_delta", "list", None)
    assert "name" in (found.tools[0].hit.matched or [])
    assert server.asked("tools/search", "tools/list") == ["tools/list"]


@pytest.mark.parametrize("place", ["extensions", "experimental"])
async def test_an_advertisement_that_is_no_object_is_none_and_costs_no_connection(liar: Any, era: str, place: str):
    server = liar("advertises-true", era=era, place=place)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            assert tools.settings is None
            assert (await tools.search("alpha")).mode == "list"
    assert server.asked("tools/search") == []


async def test_an_advertisement_in_the_older_legacy_place_counts(liar: Any):
    server = liar(era="legacy", place="experimental")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            assert (await tools.search("alpha")).mode == "search"


async def test_an_advertisement_in_the_legacy_place_means_nothing_on_a_modern_connection(liar: Any):
    server = liar(era="modern", place="experimental")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            assert (await tools.search("alpha")).mode == "list"
    assert server.asked("tools/search") == []


async def test_a_found_tool_is_called_without_being_listed(liar: Any, era: str):
    server = liar(era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("alpha", limit=1)
            result = await tools.call(found.tools[0].tool.name, {"size": 3})
    assert isinstance(result.content[0], TextContent)
    assert '"size": 3' in result.content[0].text
    assert server.asked("tools/search", "tools/list", "tools/call") == ["tools/search", "tools/call"]


@pytest.mark.parametrize("code", [-32603, 0])
async def test_a_search_that_fails_once_is_replaced_once_where_listing_is_cheap(liar: Any, era: str, code: int):
    server = liar(f"refuses:{code}:1", era=era)
    with anyio.fail_after(20):
        async with open_server(server.target, retrying(0)) as tools:
            found = await tools.search("make a zeta")
            again = await tools.search("make a beta")
            assert (tools.mode, again.mode, again.fallback) == ("search", "search", None)
    assert (found.tools[0].tool.name, found.mode, str(code) in (found.fallback or "")) == ("make_zeta", "list", True)
    assert server.asked("tools/search", "tools/list") == ["tools/search", "tools/list", "tools/search"]


async def test_a_search_that_fails_once_is_a_failure_where_listing_is_dear(liar: Any, era: str):
    server = liar("refuses:-32603:1", era=era, size=5_000)
    with anyio.fail_after(20):
        async with open_server(server.target, retrying(0)) as tools:
            with pytest.raises(ServerRefusedError):
                await tools.search("make a zeta")
            assert (await tools.search("make a beta")).mode == "search"
    assert server.asked("tools/search", "tools/list") == ["tools/search", "tools/search"]


async def test_a_search_that_failed_is_not_sent_again_at_once(liar: Any):
    server = liar("refuses:-32603", size=5_000)
    with anyio.fail_after(20):
        async with open_server(server.target, retrying(1_000)) as tools:
            for query in ("alpha", "beta"):
                with pytest.raises(ServerRefusedError):
                    await tools.search(query)
    assert server.asked("tools/search", "tools/list") == ["tools/search"]


async def test_a_search_that_fails_again_and_again_is_replaced_by_listing_until_it_is_tried_again(liar: Any, era: str):
    server = liar("refuses:-32603:3", era=era, size=5_000)
    options = DiscoveryOptions(retry_after=0, search_again_after=0)
    with anyio.fail_after(20):
        async with open_server(server.target, retrying(0)) as tools:
            for query in ("alpha", "beta"):
                with pytest.raises(ServerRefusedError):
                    await tools.search(query)
            found = await tools.search("make a gamma")
            assert (tools.mode, found.mode, found.tools[0].tool.name) == ("list", "list", "make_gamma")
            assert (await tools.search("make a delta")).mode == "list"
        assert len(server.asked("tools/search")) == 3
        async with open_server(server.target, ConnectionOptions(discovery=options)) as tools:
            for query in ("alpha", "beta", "gamma"):
                with pytest.raises(ServerRefusedError):
                    await tools.search(query)
            assert (await tools.search("delta")).mode == "search"


@pytest.mark.parametrize("code", [-32601, -32021])
async def test_a_search_that_is_refused_for_good_is_replaced_by_listing_from_then_on(liar: Any, era: str, code: int):
    server = liar(f"refuses:{code}", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make a zeta")
            again = await tools.search("make a beta")
    assert (found.tools[0].tool.name, found.mode) == ("make_zeta", "list")
    assert str(code) in (found.fallback or "")
    assert again.mode == "list"
    assert len(server.asked("tools/search")) == 1


async def test_a_refusal_that_listing_does_not_mend_is_raised(liar: Any, era: str):
    server = liar("refuses:-32602", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            with pytest.raises(ServerRefusedError) as refused:
                await tools.search("alpha")
    assert refused.value.code == -32602
    assert server.asked("tools/list") == []


@pytest.mark.parametrize("fault", ["shapeless", "loops"])
async def test_an_unusable_search_result_is_replaced_by_listing(liar: Any, era: str, fault: str):
    server = liar(fault, era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make a gamma", limit=5)
    assert (found.tools[0].tool.name, found.mode) == ("make_gamma", "list")
    assert "invalid" in (found.fallback or "")


@pytest.mark.parametrize("fault", ["overfull", "malformed-hints"])
async def test_a_page_that_is_wrong_elsewhere_is_used_and_not_kept(liar: Any, era: str, fault: str):
    server = liar(fault, era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            await tools.search("make an alpha", limit=5)
            found = await tools.search("make an alpha", limit=5)
    assert ([hit.tool.name for hit in found.tools], found.mode) == ([f"make_{word}" for word in WORDS[:5]], "search")
    assert server.asked("tools/search", "tools/list") == ["tools/search", "tools/search"]


async def test_a_search_is_sent_again_when_a_busy_server_says(liar: Any, era: str):
    server = liar("busy:20:3", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make an alpha")
    assert (found.tools[0].tool.name, found.mode, found.fallback) == ("make_alpha", "search", None)
    assert server.asked("tools/search", "tools/list") == ["tools/search"] * 4


async def test_a_server_that_stays_busy_is_reported_and_neither_listed_nor_asked_too_soon(liar: Any, era: str):
    server = liar("busy:60000", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            for query in ("alpha", "beta", "gamma", "delta"):
                with pytest.raises(ServerBusyError, match="too busy") as busy:
                    await tools.search(query)
            assert (busy.value.retry_after, busy.value.kind, tools.mode) == (60, "busy", "search")
    assert server.asked("tools/search", "tools/list") == ["tools/search"]


async def test_busy_answers_are_no_failures_that_make_a_client_list(liar: Any, era: str):
    server = liar("busy:0:16", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            for query in ("alpha", "beta", "gamma", "delta"):
                with pytest.raises(ServerBusyError):
                    await tools.search(query)
            assert (await tools.search("make an alpha")).mode == "search"
    assert server.asked("tools/search", "tools/list") == ["tools/search"] * 17


async def test_a_fresh_listing_stands_in_for_a_busy_server(liar: Any):
    options = ConnectionOptions(discovery=DiscoveryOptions(listing_ttl=0))
    server = liar("busy:60000", era="legacy")
    with anyio.fail_after(10):
        async with open_server(server.target, options) as tools:
            await tools.list()
            found = await tools.search("make an alpha")
    assert (found.tools[0].tool.name, found.mode) == ("make_alpha", "list")
    assert server.asked("tools/search", "tools/list") == ["tools/list", "tools/search"]


async def test_a_wait_for_a_busy_server_ends_with_the_time_of_the_search(liar: Any, era: str):
    options = DiscoveryOptions(request_timeout=5, busy_patience=60)
    server = liar("busy:10000", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target, ConnectionOptions(discovery=options)) as tools:
            began = anyio.current_time()
            with pytest.raises(ServerBusyError):
                await tools.search("alpha")
            assert anyio.current_time() - began < 5


async def test_a_search_whose_cursors_are_all_refused_starts_over_once_and_keeps_what_it_found(liar: Any, era: str):
    server = liar("expires-always", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make a gamma", limit=5)
            assert found.mode == "search"
            assert 0 < len(found.tools) < 5
            assert server.asked("tools/search", "tools/list") == ["tools/search"] * 4
            await tools.search("make a gamma", limit=5)
    assert server.asked("tools/search", "tools/list") == ["tools/search"] * 8, "what is incomplete is not cached"


async def test_a_search_whose_cursor_expired_starts_over_once(liar: Any, era: str):
    server = liar("expires", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            found = await tools.search("make", limit=6)
    assert (len(found.tools), found.mode) == (6, "search")


@pytest.mark.parametrize(("limit", "requests"), [(2, 1), (3, 2)])
async def test_pages_are_read_until_there_are_enough_tools(liar: Any, era: str, limit: int, requests: int):
    server = liar("pages", era=era)  # of two tools each
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            assert len((await tools.search("make", limit=limit)).tools) == limit
    assert len(server.asked("tools/search")) == requests


async def test_a_tool_that_comes_twice_is_given_once(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("duplicates", era=era).target) as tools:
            found = await tools.search("make", limit=4)
    assert [hit.tool.name for hit in found.tools] == ["make_alpha", "make_beta", "make_gamma"]


async def test_a_result_of_megabytes_arrives(liar: Any, era: str):
    with anyio.fail_after(20):
        async with open_server(liar("huge", era=era).target) as tools:
            found = await tools.search("huge")
    assert len(found.tools[0].tool.description or "") == 3_000_000


async def test_hit_metadata_that_is_malformed_counts_as_absent(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("malformed-hit", era=era).target) as tools:
            found = await tools.search("alpha")
    assert (found.tools[0].hit.score, found.tools[0].hit.matched) == (None, None)


async def test_a_search_that_hangs_is_given_up_and_not_replaced_by_listing(
    liar: Any, era: str, impatient: ConnectionOptions
):
    server = liar("hangs", era=era)
    with anyio.fail_after(10):
        async with open_server(server.target, impatient) as tools:
            with pytest.raises(ServerTimeoutError):
                await tools.search("alpha")
    assert server.asked("tools/list") == []


async def test_a_server_that_dies_during_a_search_is_unavailable(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("dies", era=era).target) as tools:
            with pytest.raises(ServerUnavailableError):
                await tools.search("alpha")


async def test_an_invalid_definition_costs_a_server_that_tool_and_no_other(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("list-flawed", era=era, place="nowhere").target) as tools:
            listed = await tools.list()
            assert tools.left_out == 3
            result = await tools.call("make_zeta")
            tools.forget()
            assert tools.left_out == 0
    assert [tool.name for tool in listed] == [f"make_{word}" for word in WORDS]
    assert not result.is_error


async def test_an_invalid_definition_in_a_search_result_costs_that_tool_and_no_other(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("flawed", era=era).target) as tools:
            found = await tools.search("make an alpha")
    assert ([hit.tool.name for hit in found.tools], found.mode) == (["make_alpha"], "search")


@pytest.mark.parametrize("fault", ["list-loops", "list-shapeless", "list-invalid-page"])
async def test_a_listing_that_lies_is_an_invalid_result(liar: Any, era: str, fault: str):
    with anyio.fail_after(10):
        async with open_server(liar(fault, era=era, place="nowhere").target) as tools:
            with pytest.raises(InvalidServerResultError):
                await tools.search("alpha")


async def test_a_listing_that_is_refused_is_refused(liar: Any, era: str):
    with anyio.fail_after(10):
        async with open_server(liar("list-refused", era=era, place="nowhere").target) as tools:
            with pytest.raises(ServerRefusedError):
                await tools.list()


async def test_answers_are_kept_as_long_as_the_server_allows(liar: Any):
    server = liar("kept")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            first = await tools.search("alpha", limit=2)
            assert await tools.search("alpha", limit=2) == first
            assert len(server.asked("tools/search")) == 1
            await tools.search("alpha", limit=3)
            await tools.search("beta", limit=2)
    assert len(server.asked("tools/search")) == 3


async def test_a_kept_answer_is_only_for_exactly_its_query(liar: Any):
    queries = [f"{before}caf\u00e9{after}" for before in ("", " ", "\n") for after in ("", " ", "\n", "\r\n", "\u00a0")]
    queries += ["Caf\u00e9", "CAF\u00c9", "cafe\u0301", "cafe", "\uff43af\u00e9", "caf\u00e9\u200b"]
    server = liar("kept")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            for query in queries * 2:
                await tools.search(query)
    assert len(server.asked("tools/search")) == len(queries)


async def test_an_answer_of_megabytes_is_not_kept_so_that_many_cannot_fill_the_memory(liar: Any):
    server = liar("huge-kept")
    with anyio.fail_after(20):
        async with open_server(server.target) as tools:
            assert await tools.search("huge") == await tools.search("huge")
    assert len(server.asked("tools/search")) == 2


async def test_a_search_whose_pages_are_of_megabytes_ends_with_what_it_has(liar: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("tools_search_client.servers.discovery.MAX_MESSAGE_BYTES", 200)
    server = liar("pages")
    with anyio.fail_after(20):
        async with open_server(server.target) as tools:
            assert 1 <= len((await tools.search("make", limit=6)).tools) < 6


async def test_answers_that_the_server_does_not_let_be_kept_are_asked_for_again(liar: Any, era: str):
    server = liar(era=era)
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            await tools.search("alpha")
            await tools.search("alpha")
    assert len(server.asked("tools/search")) == 2


async def test_private_answers_are_given_to_the_authorization_that_asked(liar: Any):
    who = ["ada"]
    options = ConnectionOptions(discovery=DiscoveryOptions(authorization=lambda: who[0]))
    server = liar("kept")
    with anyio.fail_after(10):
        async with open_server(server.target, options) as tools:
            await tools.search("alpha")
            who[0] = "grace"
            await tools.search("alpha")
    assert len(server.asked("tools/search")) == 2


async def test_a_legacy_listing_is_kept_for_a_while(liar: Any):
    server = liar(era="legacy", place="nowhere")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            assert await tools.list() == await tools.list()
            await tools.search("alpha")
    assert len(server.asked("tools/list")) == 1


async def test_a_listing_can_be_kept_until_it_changes(liar: Any):
    options = ConnectionOptions(discovery=DiscoveryOptions(listing_ttl=0))
    server = liar(era="legacy", place="nowhere")
    with anyio.fail_after(10):
        async with open_server(server.target, options) as tools:
            await tools.list()
            await tools.list()
            tools.forget()
            await tools.list()
    assert len(server.asked("tools/list")) == 2


async def test_a_modern_listing_is_kept_as_long_as_the_server_says(liar: Any):
    kept, fresh = liar("list-kept", place="nowhere"), liar(place="nowhere")
    with anyio.fail_after(10):
        for server in (kept, fresh):
            async with open_server(server.target) as tools:
                await tools.list()
                await tools.list()
    assert (len(kept.asked("tools/list")), len(fresh.asked("tools/list"))) == (1, 2)


async def test_a_list_change_drops_what_was_kept(liar: Any, era: str, until: Until):
    server = liar("kept", era=era) if era == "modern" else liar("list-grows", era=era, place="nowhere")
    changes: list[str] = []
    with anyio.fail_after(10):
        async with open_server(server.target, on_change=lambda: changes.append("changed")) as tools:
            await tools.search("make", limit=1)
            if era == "modern":
                await until(lambda: bool(server.asked("subscriptions/listen")))
            await tools.call("make_alpha" if era == "modern" else "make_n0")
            await until(lambda: bool(changes))
            await tools.search("make", limit=1)
    method = "tools/search" if era == "modern" else "tools/list"
    assert len(server.asked(method)) == 2


async def test_an_answer_to_a_search_from_before_a_change_is_not_kept(liar: Any, until: Until):
    server = liar("kept-gated")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(tools.search, "alpha")
                await until(lambda: bool(server.asked("tools/search")))
                tools.forget()
                await anyio.to_thread.run_sync(server.open_gate)
            for _ in range(2):
                await tools.search("alpha")
    assert len(server.asked("tools/search")) == 2


async def test_a_change_makes_a_refused_search_be_tried_again(liar: Any):
    server = liar("refuses:-32601")
    with anyio.fail_after(10):
        async with open_server(server.target) as tools:
            await tools.search("alpha")
            tools.forget()
            await tools.search("alpha")
    assert len(server.asked("tools/search")) == 2


async def test_a_limit_below_one_is_a_local_mistake(liar: Any):
    with anyio.fail_after(10):
        async with open_server(liar().target) as tools:
            with pytest.raises(LocalError, match="limit"):
                await tools.search("alpha", limit=0)


async def test_a_server_of_the_sdk_without_the_extension_is_listed(plain_program: StdioTarget):
    with anyio.fail_after(20):
        async with open_server(plain_program) as tools:
            found = await tools.search("add two numbers")
            result = await tools.call(found.tools[0].tool.name, {"first": 2, "second": 3})
    assert (found.mode, found.tools[0].tool.name) == ("list", "add_numbers")
    assert result.structured_content == {"result": 5}


async def test_an_error_that_several_searches_get_has_the_traceback_of_one(liar: Any):
    depths: list[int] = []
    with anyio.fail_after(10):
        async with open_server(liar("busy:60000").target) as tools:
            for _ in range(4):
                with pytest.raises(ServerBusyError) as raised:
                    await tools.search("alpha")
                depths.append(len(traceback.extract_tb(raised.value.__traceback__)))
    assert len(set(depths[1:])) == 1
