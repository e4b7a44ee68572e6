"""Many real servers as one: a failing server loses only its own tools."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_ext_tools_search.ranking import ToolIndex
from mcp_types import PromptReference, TextContent, Tool
from tools_search_client.demo.stage import WireMeter
from tools_search_client.errors import (
    AmbiguousToolError,
    LocalError,
    ServerRefusedError,
    ServerUnavailableError,
    UnknownToolError,
)
from tools_search_client.federation.configuration import Configuration, load_configuration
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import FederatedSearch
from tools_search_client.known_tools import MANY
from tools_search_client.servers.connection import ConnectionOptions
from tools_search_client.servers.discovery_options import DiscoveryOptions
from tools_search_client.servers.supervision import Backoff
from tools_search_hosts import HttpTarget, ServerEntry, StdioTarget, Target, qualified_name

pytestmark = pytest.mark.anyio

Until = Callable[[Callable[[], bool]], Awaitable[None]]


def configured(**targets: Target) -> Configuration:
    return Configuration(tuple(ServerEntry(name, target) for name, target in targets.items()))


def failures(answer: FederatedSearch) -> dict[str, str]:
    return {server: failure.kind for server, failure in answer.failed.items()}


def offer(catalog: Path, *names: str) -> None:
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
    catalog.write_text(json.dumps({"tools": tools}), encoding="utf-8")


async def test_servers_with_and_without_the_extension_and_of_both_eras_are_one(
    liar: Any, plain_server: HttpTarget, reference_server: HttpTarget
):
    servers = configured(plain=plain_server, reference=reference_server, old=liar(era="legacy").target)
    with anyio.fail_after(60):
        async with open_federation(servers) as federation:
            answer = await federation.search("add two numbers", deadline=math.inf)
    assert answer.tools[0].name == "plain__add_numbers"
    assert [(report.server, report.mode, report.era) for report in answer.servers] == [
        ("plain", "list", "modern"),
        ("reference", "search", "modern"),
        ("old", "search", "legacy"),
    ]
    assert not answer.failed


async def test_servers_that_fail_to_start_or_hang_or_lie_are_reported_and_the_rest_is_returned(
    liar: Any, plain_server: HttpTarget
):
    servers = configured(
        plain=plain_server,
        missing=StdioTarget("/nowhere/program"),
        quitter=StdioTarget(sys.executable, ("-c", "import sys; sys.exit('no license')")),
        deaf=HttpTarget("http://127.0.0.1:9/mcp"),
        silent=liar("hangs").target,
        liar=liar("list-loops", place="nowhere").target,
        refuser=liar("refuses:-32602").target,
        busy=liar("busy:60000").target,
    )
    with anyio.fail_after(60):
        async with open_federation(servers) as federation:
            answer = await federation.search("add two numbers", deadline=6)
    assert answer.tools[0].name == "plain__add_numbers"
    assert failures(answer) == {
        "missing": "unavailable",
        "quitter": "unavailable",
        "deaf": "unavailable",
        "silent": "timeout",
        "liar": "invalid-result",
        "refuser": "refused",
        "busy": "busy",
    }
    told = {server: failure.message for server, failure in answer.failed.items()}
    assert "no license" in told["quitter"]
    assert "/nowhere/program" in told["missing"]
    assert "still answering after" in told["silent"]
    assert "too busy" in told["busy"]


async def test_a_server_that_never_finishes_its_handshake_is_given_up_at_the_deadline(liar: Any):
    servers = configured(mute=liar("mute", era="legacy").target, fine=liar().target)
    with anyio.fail_after(60):
        async with open_federation(servers) as federation:
            answer = await federation.search("alpha", deadline=1)
    assert failures(answer) == {"mute": "timeout"}
    assert "starting" in answer.failed["mute"].message
    assert answer.tools[0].name == "fine__make_alpha"


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import sys, time; print('sign in first', file=sys.stderr); time.sleep(60)", "sign in first"),
        ("import time; print('usage: it', flush=True); time.sleep(60)", "usage: it (on standard output, which is only"),
    ],
)
async def test_a_server_that_keeps_everybody_waiting_is_quoted(source: str, said: str):
    servers = configured(slow=StdioTarget(sys.executable, ("-c", source)))
    with anyio.fail_after(60):
        async with open_federation(servers) as federation:
            answer = await federation.search("alpha", deadline=3)
    (failure,) = answer.failed.values()
    assert f"still starting after 3 seconds; it last said: {said}" in failure.message


@pytest.mark.parametrize("fault", ["hangs", "mute", "list-hangs"])
async def test_a_server_that_hangs_costs_three_searches_less_than_two_deadlines(liar: Any, fault: str):
    place = "nowhere" if fault == "list-hangs" else "extensions"
    servers = configured(hung=liar(fault, era="legacy", place=place).target, fine=liar().target)
    deadline, took = 5.0, 0.0
    with anyio.fail_after(60):
        async with open_federation(servers) as federation:
            await federation.search("warm", servers=["fine"])
            for query in ("alpha", "beta", "gamma"):
                began = anyio.current_time()
                answer = await federation.search(query, deadline=deadline)
                took += anyio.current_time() - began
                assert failures(answer) == {"hung": "timeout"}
                assert answer.tools[0].server == "fine"
    assert took < 2 * deadline


@pytest.mark.parametrize(("how", "transport"), [("--http", "streamable-http"), ("--sse", "sse")])
async def test_a_server_over_http_that_hangs_costs_three_listings_less_than_two_deadlines(
    serve_http: Any, liar: Any, how: str, transport: Any
):
    deadline = 5.0
    async with serve_http(plain=f"{how} --ignores=tools/list") as (url, _):
        servers = configured(hung=HttpTarget(url.strip(), {}, transport), fine=liar(tools=1).target)
        with anyio.fail_after(60):
            async with open_federation(servers) as federation:
                await federation.search("warm", servers=["fine"])
                began = anyio.current_time()
                for _attempt in range(3):
                    listing = await federation.list(deadline=deadline)
                    assert [tool.name for tool in listing.tools] == ["fine__make_alpha"]
                    assert listing.servers[0].failure
                assert anyio.current_time() - began < 2 * deadline
                assert not (await federation.call("fine__make_alpha")).is_error


@pytest.mark.parametrize("is_connected", [True, False])
async def test_a_search_ends_soon_after_the_others_have_answered(liar: Any, is_connected: bool):
    servers = configured(hung=liar("hangs").target, fine=liar().target)
    with anyio.fail_after(25):  # a request times out after 30 seconds
        async with open_federation(servers, FederationOptions(grace=0.2)) as federation:
            if is_connected:
                await federation.describe(deadline=30)
            else:  # the search starts the other one, which is connected after this one has answered
                await federation.search("warm", servers=["fine"])
            answer = await federation.search("alpha", deadline=1000)
    assert failures(answer) == {"hung": "timeout"}
    assert answer.tools[0].name == "fine__make_alpha"


async def test_an_answer_that_comes_too_late_is_in_the_next_search_of_the_same(liar: Any, until: Until):
    server = liar("gated")
    with anyio.fail_after(40):
        async with open_federation(configured(slow=server.target)) as federation:
            await federation.describe()
            assert failures(await federation.search("alpha", deadline=0.1)) == {"slow": "timeout"}
            await anyio.to_thread.run_sync(server.open_gate)
            answer = await federation.search("alpha", deadline=0.01)
            while answer.failed:
                answer = await federation.search("alpha", deadline=0.01)
    assert answer.tools[0].name == "slow__make_alpha"
    assert len(server.asked("tools/search")) == 1


async def test_a_server_that_hung_once_is_asked_again_after_a_rest(liar: Any):
    server = liar("hangs-once")
    options = FederationOptions(rest=Backoff(0.001, 0.001))
    with anyio.fail_after(40):
        async with open_federation(configured(hung=server.target), options) as federation:
            await federation.describe()
            assert failures(await federation.search("alpha", deadline=0.1)) == {"hung": "timeout"}
            while (answer := await federation.search("alpha", deadline=30)).failed:  # noqa: ASYNC110
                await anyio.sleep(0.02)  # a search is the only thing to look at
    assert answer.tools[0].name == "hung__make_alpha"
    assert len(server.asked("tools/search")) == 2


async def test_a_server_that_hangs_is_asked_nothing_while_it_rests(liar: Any):
    server = liar("hangs")
    with anyio.fail_after(40):
        async with open_federation(configured(hung=server.target)) as federation:
            await federation.describe()
            for query in ("alpha", "beta", "gamma"):
                answer = await federation.search(query, deadline=0.1)
    message = answer.failed["hung"].message
    assert re.fullmatch(r"still answering after 0\.1 seconds; it is not asked again for [1-5](\.\d)? seconds?", message)
    assert len(server.asked("tools/search")) == 1


async def test_a_caller_who_hardly_waits_does_not_keep_others_from_waiting(liar: Any):
    server = liar("gated")
    answers: list[FederatedSearch] = []
    with anyio.fail_after(40):
        async with open_federation(configured(slow=server.target)) as federation:

            async def ask_patiently() -> None:
                answers.append(await federation.search("beta", deadline=30))

            assert failures(await federation.search("alpha", deadline=0.01)) == {"slow": "timeout"}  # still starting
            (description,) = await federation.describe(deadline=30)
            assert description.report.failure is None
            assert failures(await federation.search("alpha", deadline=0.1)) == {"slow": "timeout"}  # still answering
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(ask_patiently)
                await anyio.to_thread.run_sync(server.open_gate)
    assert answers[0].tools[0].name == "slow__make_alpha"


@pytest.mark.parametrize("deadline", [-3.0, 0])
async def test_a_deadline_that_has_passed_is_one_of_no_seconds(liar: Any, deadline: float):
    with anyio.fail_after(40):
        async with open_federation(configured(slow=liar().target)) as federation:
            answer = await federation.search("alpha", deadline=deadline)
            assert answer.failed["slow"].message == "still starting after 0 seconds"


async def test_one_name_is_not_taken_for_a_collection_of_names(liar: Any):
    with anyio.fail_after(40):
        async with open_federation(configured(fine=liar().target)) as federation:
            for ask in (federation.search, federation.search_prompts, federation.resolve):
                with pytest.raises(LocalError, match=r"`servers` must be a collection of names, such as \['fine'\]"):
                    await ask("make_alpha", servers="fine")


async def test_a_server_whose_search_hangs_is_listed_all_the_same(liar: Any):
    with anyio.fail_after(40):
        async with open_federation(configured(hung=liar("hangs", tools=2).target)) as federation:
            await federation.describe()
            await federation.search("alpha", deadline=0.1)
            listing = await federation.list()
    assert [tool.name for tool in listing.tools] == ["hung__make_alpha", "hung__make_beta"]


async def test_a_search_that_its_caller_gives_up_is_withdrawn(liar: Any, until: Until):
    server = liar("hangs")
    with anyio.fail_after(60):
        async with open_federation(configured(hung=server.target)) as federation:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(federation.search, "alpha")
                await until(lambda: bool(server.asked("tools/search")))
                tasks.cancel_scope.cancel()
            await until(lambda: bool(server.asked("notifications/cancelled")))


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_server_that_is_killed_between_two_searches_loses_only_its_own_tools(
    catalog: Path, liar: Any, serve_http: Any, era: Any
):
    options = FederationOptions(connection=ConnectionOptions(era=era))
    async with serve_http("--catalog", str(catalog)) as (url, process):
        servers = configured(far=HttpTarget(url), near=liar(era="legacy" if era == "legacy" else "modern").target)
        with anyio.fail_after(60):
            async with open_federation(servers, options) as federation:
                before = await federation.search("create an invoice")
                process.kill()
                await process.wait()
                after = await federation.search("delete an invoice")  # an answer to the same words may be kept
                again = await federation.search("alpha")
    assert (before.tools[0].name, before.failed) == ("far__create_invoice", {})
    assert failures(after) == {"far": "unavailable"}
    assert {tool.server for tool in after.tools} == {"near"}
    assert again.tools[0].name == "near__make_alpha"


@pytest.mark.parametrize(
    ("of_all", "of_entry", "of_one", "spoken"),
    [
        (None, None, None, None),
        ("legacy", None, None, "legacy"),
        ("legacy", "auto", None, "auto"),
        (None, "legacy", None, "legacy"),
        ("auto", "legacy", "auto", "auto"),
    ],
)
def test_the_era_of_a_servers_entry_counts_more_than_that_of_all_and_less_than_its_own_options(
    of_all: Any, of_entry: Any, of_one: Any, spoken: str | None
):
    options = FederationOptions(
        connection=ConnectionOptions(era=of_all), connection_to=lambda _: ConnectionOptions(era=of_one)
    )
    assert options.of(ServerEntry("one", HttpTarget("http://h/mcp"), era=of_entry)).era == spoken


async def test_a_server_that_dies_during_a_search_is_reported_and_comes_back_later(liar: Any):
    servers = configured(mortal=liar("dies").target, fine=liar().target)
    with anyio.fail_after(60):
        async with open_federation(servers) as federation:
            answer = await federation.search("alpha")
            described = await federation.describe()
    assert failures(answer) == {"mortal": "unavailable"}
    assert [description.report.server for description in described if description.report.failure] in ([], ["mortal"])


@pytest.mark.parametrize("era", ["auto", "legacy"])
async def test_a_server_over_http_is_searched_in_either_era(catalog: Path, serve_http: Any, era: Any):
    options = FederationOptions(connection=ConnectionOptions(era=era))
    async with serve_http("--catalog", str(catalog)) as (url, _):
        with anyio.fail_after(60):
            async with open_federation(configured(far=HttpTarget(url)), options) as federation:
                answer = await federation.search("delete a refund", limit=2)
    assert answer.tools[0].name == "far__delete_refund"
    assert (answer.servers[0].mode, answer.servers[0].era) == (
        "search",
        "modern" if era == "auto" else "legacy",
    )


@pytest.mark.parametrize(("how", "transport"), [("--http", "streamable-http"), ("--sse", "sse")])
async def test_every_http_transport_is_spoken(serve_http: Any, how: str, transport: Any):
    async with serve_http(plain=how) as (url, _):
        with anyio.fail_after(60):
            async with open_federation(configured(far=HttpTarget(url.strip(), {}, transport))) as federation:
                result = await federation.call("far__reverse_text", {"text": "stressed"})
    assert result.structured_content == {"result": "desserts"}


async def test_a_tool_is_called_by_its_full_name_with_one_small_search(liar: Any):
    server = liar()
    with anyio.fail_after(40):
        async with open_federation(configured(one=server.target)) as federation:
            result = await federation.call("one__make_alpha", {"size": 1})
    assert isinstance(result.content[0], TextContent)
    assert server.asked("tools/search", "tools/list", "tools/call") == ["tools/search", "tools/call"]


async def test_a_tool_that_was_found_is_called_at_once(liar: Any):
    server = liar()
    with anyio.fail_after(40):
        async with open_federation(configured(one=server.target)) as federation:
            await federation.search("alpha")
            await federation.call("one__make_beta")
    assert server.asked("tools/search", "tools/list", "tools/call") == ["tools/search", "tools/call"]


async def test_a_bare_name_will_do_where_only_one_server_has_it(liar: Any, plain_server: HttpTarget):
    with anyio.fail_after(40):
        async with open_federation(configured(one=liar().target, plain=plain_server)) as federation:
            assert (await federation.resolve("add_numbers")).name == "plain__add_numbers"


async def test_a_bare_name_of_several_servers_is_ambiguous(liar: Any):
    servers = configured(one=liar().target, two=liar().target)
    with anyio.fail_after(40):
        async with open_federation(servers) as federation:
            with pytest.raises(AmbiguousToolError) as error:
                await federation.call("make_alpha")
    assert error.value.candidates == ("one__make_alpha", "two__make_alpha")


async def test_a_bare_name_that_looks_like_a_full_one_is_found(liar: Any, tmp_path: Path):
    server = liar()
    with anyio.fail_after(40):
        async with open_federation(configured(make_=server.target, make=liar().target)) as federation:
            with pytest.raises(UnknownToolError):
                await federation.resolve("make__nothing")


async def test_an_unknown_name_is_answered_with_the_closest_and_the_servers_that_failed(plain_server: HttpTarget):
    servers = configured(plain=plain_server, gone=StdioTarget("/nowhere/program"))
    with anyio.fail_after(40):
        async with open_federation(servers) as federation:
            with pytest.raises(UnknownToolError) as error:
                await federation.call("add_nubmers")
    assert (error.value.closest[0], list(error.value.failed)) == ("plain__add_numbers", ["gone"])


async def test_a_name_that_had_to_be_altered_leads_to_its_tool(reference_server: HttpTarget):
    servers = Configuration((ServerEntry("our shop", reference_server),))
    with anyio.fail_after(40):
        async with open_federation(servers) as federation:
            found = await federation.search("create an invoice", limit=1)
            (altered,) = [tool.name for tool in found.tools]
        async with open_federation(servers) as federation:
            assert (await federation.resolve(altered)).tool.name == "create_invoice"
    assert altered.startswith("our_shop__create_invoice_")


@pytest.mark.rotating
async def test_a_name_that_no_provider_allows_leads_to_its_tool(catalog: Path, reference_program: StdioTarget):
    names = ["天気を調べる", "read.file at once", "9_lives", "a" * 300]
    offer(catalog, "other", "天気", *names)
    for name in names:
        altered = qualified_name("one", name)
        assert altered.isascii()
        with anyio.fail_after(40):
            async with open_federation(configured(one=reference_program)) as federation:
                assert (await federation.resolve(altered)).tool.name == name


async def test_everything_is_listed_by_the_names_to_call_it_by(liar: Any, plain_server: HttpTarget):
    servers = configured(one=liar(tools=2).target, plain=plain_server, gone=StdioTarget("/nowhere/program"))
    with anyio.fail_after(40):
        async with open_federation(servers) as federation:
            listing = await federation.list()
    assert [tool.name for tool in listing.tools] == [
        *("one__make_alpha", "one__make_beta"),
        *("plain__add_numbers", "plain__reverse_text", "plain__fail_always"),
    ]
    assert [report.failure is None for report in listing.servers] == [True, True, False]


async def test_a_server_that_says_how_many_tools_it_has_is_not_listed_for_it(liar: Any):
    counted, uncounted = liar(tools=4), liar("uncounted", tools=5)
    with anyio.fail_after(40):
        async with open_federation(configured(counted=counted.target, uncounted=uncounted.target)) as federation:
            described = await federation.describe()
    assert [description.tools for description in described] == [4, 5]
    assert (counted.asked("tools/list"), uncounted.asked("tools/list")) == ([], ["tools/list"])
    assert described[0].settings == {"catalogSize": 4}


async def test_what_was_forgotten_is_asked_for_again(liar: Any):
    server = liar(era="legacy", tools=4)  # it says nothing of time, so that its listing is kept
    with anyio.fail_after(40):
        async with open_federation(configured(one=server.target)) as federation:
            for _ in range(2):
                await federation.list()
            assert server.asked("tools/list") == ["tools/list"]
            federation.forget()
            await federation.list()
    assert server.asked("tools/list") == ["tools/list"] * 2


async def test_a_tool_that_fails_is_a_result_and_no_exception(plain_server: HttpTarget):
    with anyio.fail_after(40):
        async with open_federation(configured(plain=plain_server)) as federation:
            assert (await federation.call("fail_always")).is_error


async def test_a_call_of_a_tool_of_a_server_that_failed_fails_as_the_server_did(
    liar: Any, plain_server: HttpTarget, until: Until
):
    """Whether the tool was found before, or its name begins with that of the server; by a bare name nobody knows."""
    server = liar("call-dies")
    servers = configured(mortal=server.target, gone=StdioTarget("/nowhere/program"), plain=plain_server)
    with anyio.fail_after(40):
        async with open_federation(servers, FederationOptions(rest=Backoff(0.001, 0.001))) as federation:
            with pytest.raises(ServerUnavailableError, match="/nowhere/program"):
                await federation.call("gone__make_alpha")
            with pytest.raises(ServerUnavailableError, match="/nowhere/program"):
                await federation.resolve("gone:make_alpha")
            with pytest.raises(UnknownToolError, match=r"no tool is named 'make_alpah'; the closest are .*gone"):
                await federation.call("make_alpah")
            with pytest.raises(UnknownToolError, match=r"; the closest is plain__reverse_text \(these servers failed"):
                await federation.call("reverse_txt")
            assert (await federation.resolve("make_alpha")).server == "mortal"
            with pytest.raises(ServerUnavailableError):
                await federation.call("make_alpha")
            await until(lambda: federation.supervised["mortal"].connected is None)
            with pytest.raises(ServerUnavailableError):
                await federation.call("make_alpha")


async def test_as_long_as_a_server_that_died_is_left_alone_everybody_is_told_how_it_ended(liar: Any, until: Until):
    server = liar("call-dies")
    with anyio.fail_after(40):
        async with open_federation(
            configured(mortal=server.target), FederationOptions(rest=Backoff(60.0))
        ) as federation:
            with pytest.raises(ServerUnavailableError, match="the connection ended: it ended with exit code") as dying:
                await federation.call("mortal__make_alpha")
            await until(lambda: federation.supervised["mortal"].connected is None)
            with pytest.raises(ServerUnavailableError) as left_alone:
                await federation.call("mortal__make_alpha")
            found = await federation.search("alpha")
    assert str(left_alone.value) == found.failed["mortal"].message == str(dying.value)


async def test_a_list_change_makes_a_known_name_be_looked_up_again(liar: Any, until: Until):
    server = liar(era="legacy")
    with anyio.fail_after(40):
        async with open_federation(configured(one=server.target)) as federation:
            await federation.call("one__make_alpha")  # the server says that its tools changed
            await until(lambda: len(server.asked("tools/call")) == 1)
            await federation.call("one__make_alpha")
    assert len(server.asked("tools/search")) == 2


@pytest.mark.parametrize(("query", "limit"), [("", 1), (" \u3000\n", 1), ("half \ud83d", 1), ("alpha", 0)])
async def test_what_no_server_could_answer_is_refused_before_anything_is_sent(liar: Any, query: str, limit: int):
    server = liar()
    async with open_federation(configured(one=server.target)) as federation:
        with pytest.raises(LocalError, match=r"query|limit"):
            await federation.search(query, limit=limit)
    assert server.asked() == []


async def test_what_the_block_raises_passes_through_as_it_is(liar: Any):
    async def use() -> None:
        async with open_federation(configured(one=liar().target)) as federation:
            await federation.search("alpha")
            raise LookupError("mine")

    with anyio.fail_after(40), pytest.raises(LookupError, match="mine"):
        await use()


async def test_a_tool_found_over_http_is_called_with_its_parameters_in_headers_and_without_a_listing(
    tmp_path: Path, serve_http: Any
):
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    tool = {"name": "deploy", "description": "Deploy.", "inputSchema": schema}
    catalog = tmp_path / "headers.json"
    catalog.write_text(json.dumps({"tools": [tool]}))
    meter = WireMeter()
    options = FederationOptions(connection=ConnectionOptions(observer=meter, follow_changes=False))
    async with serve_http("--catalog", str(catalog)) as (url, _):
        with anyio.fail_after(60):
            async with open_federation(configured(far=HttpTarget(url)), options) as federation:
                await federation.search("deploy")
                result = await federation.call("far__deploy", {"region": "eu-north"})
    assert not result.is_error
    assert list(meter.exchanges("tools/list")) == []
    assert len(list(meter.exchanges("tools/call"))) == 1


@pytest.mark.parametrize(("fault", "kind"), [("none", "invalid-result"), ("list-breaks", "refused")])
async def test_an_answer_that_breaks_the_ranking_loses_only_its_own_server(liar: Any, fault: str, kind: str):
    class Brittle:
        def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
            raise ArithmeticError("cannot count")

    options = FederationOptions(connection=ConnectionOptions(discovery=DiscoveryOptions(ranker=Brittle())))
    servers = configured(listed=liar(fault, place="nowhere").target, searched=liar().target)
    with anyio.fail_after(40):
        async with open_federation(servers, options) as federation:
            answer = await federation.search("alpha", limit=1)
    assert failures(answer) == {"listed": kind}
    assert [tool.name for tool in answer.tools] == ["searched__make_alpha"]


@pytest.mark.parametrize("fault", ["none", "list-breaks"])
async def test_a_server_that_is_removed_while_its_long_listing_is_indexed_is_forgotten(
    liar: Any, patient_ranker: Any, until: Until, fault: str
):
    options = FederationOptions(connection=ConnectionOptions(discovery=DiscoveryOptions(ranker=patient_ranker)))
    servers = configured(many=liar(fault, place="nowhere", more=MANY).target, few=liar(place="nowhere").target)
    with anyio.fail_after(40):
        async with open_federation(servers, options) as federation:
            async with anyio.create_task_group() as searches:
                searches.start_soon(federation.search, "alpha")
                await until(patient_ranker.is_at_many.is_set)
                searches.start_soon(federation.remove, "many")
                await until(lambda: "many" not in federation.supervised)
                patient_ranker.goes_on.set()
            federation.add(ServerEntry("others", liar(place="nowhere").target))
            answer = await federation.search("alpha")
    assert (failures(answer), {tool.server for tool in answer.tools}) == ({}, {"few", "others"})
    assert not [name for name in patient_ranker.indexed[-1] if name.startswith("many__")]


@pytest.mark.parametrize(("fault", "failed"), [("none", {}), ("list-breaks", {"many": "refused"})])
async def test_a_long_listing_is_indexed_while_others_are_searched(
    liar: Any, patient_ranker: Any, until: Until, fault: str, failed: dict[str, str]
):
    options = FederationOptions(connection=ConnectionOptions(discovery=DiscoveryOptions(ranker=patient_ranker)))
    servers = configured(many=liar(fault, place="nowhere", more=MANY).target, few=liar(place="nowhere").target)
    answers: list[FederatedSearch] = []
    with anyio.fail_after(40):
        async with open_federation(servers, options) as federation:

            async def search() -> None:
                answers.append(await federation.search("make 7"))

            async with anyio.create_task_group() as searches:
                searches.start_soon(search)
                await until(patient_ranker.is_at_many.is_set)
                answers.append(await federation.search("alpha", servers=["few"]))
                patient_ranker.goes_on.set()
    assert [failures(answer) for answer in answers] == [{}, failed]
    assert [answer.tools[0].name for answer in answers] == ["few__make_alpha", "many__make_7"]


async def test_what_cannot_be_sent_is_refused_before_it_is_and_the_connection_lasts(liar: Any):
    server = liar()
    deep: dict[str, Any] = {}
    for _ in range(300):
        deep = {"a": deep}
    with anyio.fail_after(20):
        async with open_federation(configured(liar=server.target)) as federation:
            for value in ("\ud800", deep, math.nan, b"\xff", object()):
                with pytest.raises(LocalError, match="cannot be sent"):
                    await federation.call("liar__make_alpha", {"size": value})
            requests = (
                federation.call("liar__make_alpha", meta={"example.com/note": "\ud800"}),  # pyright: ignore[reportArgumentType]
                federation.get_prompt("liar", "\ud800"),
                federation.read_resource("liar", "notes:\ud800"),
                federation.complete("liar", PromptReference(name="a"), {"name": "b", "value": "\ud800"}),
            )
            for request in requests:
                with pytest.raises(LocalError, match="cannot be sent: it contains an unpaired surrogate"):
                    await request
            for name in ("\ud800", " ", "liar: "):
                with pytest.raises(UnknownToolError) as unknown:
                    await federation.resolve(name)
                assert not unknown.value.failed
            assert not (await federation.call("liar__make_alpha", {"size": 1})).is_error
    assert server.asked("initialize", "server/discover", "tools/call") == ["server/discover", "tools/call"]


async def test_arguments_that_the_protocol_forbids_are_the_callers_mistake_and_no_servers(liar: Any):
    server = liar()
    with anyio.fail_after(20):
        async with open_federation(configured(liar=server.target)) as federation:
            wrong: Any
            for wrong in ({1: "a"}, [1], "small"):
                with pytest.raises(LocalError, match=r"the call of 'make_alpha' cannot be sent: `arguments"):
                    await federation.call("liar__make_alpha", wrong)
            wrong = {"size": 1}
            requests = (
                federation.get_prompt("liar", "hello", wrong),
                federation.read_resource("liar", wrong),
                federation.complete("liar", PromptReference(name="a"), {"value": "b"}),
                federation.complete("liar", PromptReference(name="a"), {"name": "b", "value": "c"}, wrong),
            )
            for request in requests:
                with pytest.raises(LocalError, match=r"the request cannot be sent: `\S+` must be "):
                    await request
    assert server.asked("tools/call", "prompts/get", "resources/read", "completion/complete") == []


async def test_a_federation_that_is_closed_ends_what_is_under_way_and_says_so(liar: Any, until: Until):
    server = liar("hangs")
    held: list[Federation] = []
    ended: list[str] = []

    async def search(federation: Federation) -> None:
        with pytest.raises(LocalError) as failed:
            await federation.search("alpha", deadline=math.inf)
        ended.append(str(failed.value))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as searches, open_federation(configured(slow=server.target)) as federation:
            held.append(federation)
            searches.start_soon(search, federation)
            await until(lambda: "tools/search" in server.asked())
        (federation,) = held
        requests = (
            federation.search("alpha"),
            federation.list(),
            federation.call("slow__make_alpha"),
            federation.read_resource("slow", "notes:1"),
            federation.remove("slow"),
        )
        for request in requests:
            with pytest.raises(LocalError) as failed:
                await request
            ended.append(str(failed.value))
        with pytest.raises(LocalError) as failed:
            federation.add(ServerEntry("second", server.target))
    assert {*ended, str(failed.value)} == {"the federation is closed"}


async def test_a_server_that_is_added_is_connected_when_it_is_needed_and_searched_after_the_others(liar: Any):
    first, second = liar(), liar(place="nowhere")
    with anyio.fail_after(40):
        async with open_federation(configured(first=first.target)) as federation:
            await federation.search("alpha")
            federation.add(ServerEntry("second", second.target))
            assert second.asked() == []
            answer = await federation.search("alpha")
            assert [report.server for report in answer.servers] == ["first", "second"]
            assert [tool.name for tool in answer.tools[:2]] == ["first__make_alpha", "second__make_alpha"]
            assert not (await federation.call("second__make_alpha")).is_error
            assert [entry.name for entry in federation.configuration.servers] == ["first", "second"]
            with pytest.raises(LocalError, match="a server named 'first' already exists; remove it first"):
                federation.add(ServerEntry("first", second.target))


@pytest.mark.parametrize("place", ["extensions", "nowhere"])
async def test_a_server_that_is_removed_has_ended_and_its_tools_are_those_of_nobody(liar: Any, place: str):
    kept, left = liar(tools=3), liar(place=place)
    with anyio.fail_after(40):
        async with open_federation(configured(kept=kept.target, left=left.target)) as federation:
            assert (await federation.resolve("left__make_zeta")).server == "left"
            await federation.search("zeta")
            await federation.remove("left")
            with pytest.raises(ProcessLookupError):
                os.kill(left.pid, 0)
            answer = await federation.search("zeta")
            assert [report.server for report in answer.servers] == ["kept"]
            assert "left" not in {tool.server for tool in answer.tools}
            with pytest.raises(UnknownToolError) as unknown:
                await federation.call("left__make_zeta")
            assert not unknown.value.failed
            for request in (federation.remove("left"), federation.get_prompt("left", "hello")):
                with pytest.raises(LocalError, match="no server is named 'left'; there is only 'kept'"):
                    await request


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_what_is_under_way_at_a_server_that_is_removed_ends_at_once(liar: Any, until: Until, era: str):
    server = liar("call-hangs", era=era)
    ended: list[str] = []

    async def call(federation: Federation) -> None:
        with pytest.raises(ServerUnavailableError) as failed:
            await federation.call("slow__make_alpha")
        ended.append(str(failed.value))

    with anyio.fail_after(40):
        async with open_federation(configured(slow=server.target, fine=liar().target)) as federation:
            async with anyio.create_task_group() as calls:
                calls.start_soon(call, federation)
                await until(lambda: bool(server.asked("tools/call")))
                await federation.remove("slow")
            assert [report.server for report in (await federation.search("alpha")).servers] == ["fine"]
    assert len(ended) == 1


@pytest.mark.parametrize("fault", ["hangs", "mute"])
async def test_a_search_goes_on_without_a_server_that_is_removed_meanwhile(liar: Any, until: Until, fault: str):
    server = liar(fault, era="legacy")
    answers: list[FederatedSearch] = []

    async def search(federation: Federation) -> None:
        answers.append(await federation.search("alpha", deadline=math.inf))

    with anyio.fail_after(40):
        async with (
            open_federation(configured(slow=server.target, fine=liar().target)) as federation,
            anyio.create_task_group() as searches,
        ):
            searches.start_soon(search, federation)
            await until(lambda: "tools/search" in server.asked() or "initialize" in server.asked())
            await federation.remove("slow")
    (answer,) = answers
    assert [report.server for report in answer.servers] == ["fine"]
    assert answer.tools[0].name == "fine__make_alpha"


async def test_a_server_that_is_configured_otherwise_takes_the_place_of_the_one_before(tmp_path: Path, liar: Any):
    """As `docs/hosts.md` has it, for a host whose user edits the file."""
    kept, before, after = liar(), liar(), liar(tools=1)
    path = tmp_path / "mcp.json"

    def write(**servers: Any) -> None:
        path.write_text(json.dumps({"mcpServers": {name: one.as_configured() for name, one in servers.items()}}))

    page = (Path(__file__).parents[2] / "docs" / "hosts.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(async def follow\(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"Federation": Federation, "Path": Path, "load_configuration": load_configuration}
    exec(block, names)  # noqa: S102 - what is printed is what is tested
    write(kept=kept, other=before)
    with anyio.fail_after(40):
        async with open_federation(load_configuration(path)) as federation:
            assert len((await federation.list()).tools) == 12
            write(kept=kept, other=after)
            await names["follow"](federation, path)
            assert len((await federation.list()).tools) == 7
            write(kept=kept)
            await names["follow"](federation, path)
            assert len((await federation.list()).tools) == 6
    assert kept.asked("server/discover") == ["server/discover"]


@pytest.mark.rotating
async def test_what_a_server_refuses_because_it_has_restarted_is_asked_again(serve_http: Any, free_tcp_port: int):
    """A legacy server does not know the session any more, so it did not carry it out."""
    plain = f"--http --port={free_tcp_port}"
    servers = configured(plain=HttpTarget(f"http://127.0.0.1:{free_tcp_port}/mcp"))
    options = FederationOptions(connection=ConnectionOptions(era="legacy"))

    async def add(federation: Federation) -> None:
        result = await federation.call("plain__add_numbers", {"first": 1, "second": 2})
        assert result.structured_content == {"result": 3}

    async def find(federation: Federation) -> None:
        federation.forget()
        answer = await federation.search("add two numbers", limit=1, deadline=math.inf)
        assert ([tool.name for tool in answer.tools], answer.failed) == (["plain__add_numbers"], {})

    async def get(federation: Federation) -> None:
        with pytest.raises(ServerRefusedError, match="Unknown prompt"):
            await federation.get_prompt("plain", "greeting")

    with anyio.fail_after(90):
        async with open_federation(servers, options) as federation:
            for request in (add, add, find, get):
                async with serve_http(plain=plain):
                    await request(federation)


async def test_a_server_that_its_own_limit_of_time_has_ended_is_left_alone_for_a_while(liar: Any):
    server = liar("list-hangs", place="nowhere")
    connection = ConnectionOptions(discovery=DiscoveryOptions(request_timeout=0.1))
    with anyio.fail_after(30):
        async with open_federation(
            configured(one=server.target), FederationOptions(connection=connection)
        ) as federation:
            first, second = [await federation.search("alpha") for _ in range(2)]
    assert (first.failed["one"].kind, second.failed["one"].kind) == ("timeout", "timeout")
    assert "it is not asked again for" in str(second.failed["one"])
    assert server.asked("tools/list") == ["tools/list"]


async def test_of_the_answers_that_come_late_only_the_last_are_kept(liar: Any):
    server = liar("gated")
    options = FederationOptions(rest=Backoff(0.0, 0.0))
    with anyio.fail_after(40):
        async with open_federation(configured(one=server.target), options) as federation:
            await federation.describe()  # connected, so that only the searches are late
            for number in range(6):
                assert (await federation.search(f"alpha {number}", deadline=0.05)).failed["one"].kind == "timeout"
            await anyio.to_thread.run_sync(server.open_gate)
            await federation.search("beta", deadline=30)  # answered after the others
            assert (await federation.search("alpha 5", deadline=30)).tools
            assert len(server.asked("tools/search")) == 7
            assert (await federation.search("alpha 0", deadline=30)).tools
            assert len(server.asked("tools/search")) == 8
