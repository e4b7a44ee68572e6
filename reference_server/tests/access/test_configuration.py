"""A toolset shows what a gateway would that never had the rest, in every answer and in both eras."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools, server_settings
from mcp_types import PaginatedRequestParams, Tool
from tools_search_hosts import ConfigurationError, ServerEntry, StdioTarget, load_host_file
from tools_search_hosts.toolsets import Toolset
from tools_search_server.access.configuration import Access, read_access, read_toolsets
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import Gateway, GatewayOptions
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.gateway.views import Views
from tools_search_server.upstreams.state import State

pytestmark = pytest.mark.anyio

SERVERS = ("git", "mail", "files")
WORDS = ("list", "delete", "send", "mail", "mails", "file", "log", "weather", "invoice", "invioce")
SINCE = datetime(2026, 1, 1, tzinfo=UTC)
LIMITS = Limits(page_size=3, default_limit=2, max_limit=50, cursor_key=b"k" * 32)
EVERY_ERA = ("auto", "legacy")
HASH = f"sha256:{'0' * 32}:{'0' * 64}"

Catalog = Mapping[str, Mapping[str, Tool]]

_text = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
_names = st.lists(st.sampled_from(WORDS), min_size=1, max_size=2).map("_".join)
_catalogs = st.fixed_dictionaries({server: st.dictionaries(_names, _text, max_size=6) for server in SERVERS})


@st.composite
def _chosen(draw: st.DrawFn, catalog: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """A toolset as a configuration states it."""
    chosen: dict[str, Any] = {}
    for server in draw(st.sets(st.sampled_from(SERVERS), min_size=1)):
        some = st.lists(st.sampled_from([*catalog[server], "unheard_of"]), min_size=1, unique=True)
        chosen[server] = draw(st.one_of(st.just(True), some, st.fixed_dictionaries({"exclude": some})))
    return chosen


def is_shown(chosen: Mapping[str, Any], server: str, tool: str) -> bool:
    stated = chosen.get(server, [])
    if isinstance(stated, dict):
        return tool not in stated["exclude"]
    return stated is True or tool in stated


def offering(catalog: Catalog, down: set[str], access: Access | None = None) -> Gateway:
    """A gateway whose servers have been reached, or are down."""
    entries = [ServerEntry(name, StdioTarget("true")) for name in catalog]
    options = GatewayOptions(start_deadline=0, call_timeout=1)
    gateway = Gateway(entries, options, page_size=LIMITS.page_size, access=access)
    for upstream in gateway.upstreams:
        set_tools(upstream, {} if upstream.name in down else catalog[upstream.name], upstream.name in down)
    return gateway


def set_tools(upstream: Any, tools: Mapping[str, Tool], is_down: bool = False) -> None:
    upstream.state = State("down" if is_down else "ready", SINCE)
    upstream._move(upstream.state.kind, tools)


async def refusal(request: Callable[[], Any]) -> Any:
    """What a request answers, or the error."""
    try:
        return (await request()).model_dump(mode="json")
    except MCPError as error:
        return error.code, error.message, error.data


async def answers_of(gateway: Gateway, mode: str, queries: list[str], names: list[str]) -> dict[str, Any]:
    """Everything that a caller can learn of a gateway."""
    learnt: dict[str, Any] = {}
    server = Endpoint(GatewaySearch(gateway, LIMITS)).server()
    async with Client(server, mode=mode, extensions=[TOOLS_SEARCH], cache=None) as client:
        learnt["told"] = client.instructions, server_settings(client)
        cursor = None
        for page in range(20):
            listed = await client.session.list_tools(params=PaginatedRequestParams(cursor=cursor))
            learnt[f"page {page}"] = listed.model_dump(mode="json")
            if (cursor := listed.next_cursor) is None:
                break
        for query in queries:
            found = await search_tools(client, query)
            learnt[f"found for {query}"] = found.model_dump(mode="json")
            if found.next_cursor:
                further = partial(search_tools, client, query, cursor=found.next_cursor)
                learnt[f"further for {query}"] = await refusal(further)
        for name in names:
            learnt[f"call {name}"] = await refusal(partial(client.session.call_tool, name, {}))
    return learnt


@pytest.mark.rotating
@settings(max_examples=30, deadline=None)
@given(data=st.data(), drawn=_catalogs, query=_text, down=st.sets(st.sampled_from(SERVERS), max_size=1))
def test_a_toolset_answers_as_a_gateway_that_never_had_the_rest(
    data: st.DataObject, drawn: dict[str, dict[str, str]], query: str, down: set[str]
) -> None:
    chosen = data.draw(_chosen(drawn))
    problems: list[str] = []
    toolset = read_toolsets({"some": chosen}, SERVERS, problems)["some"]
    assert problems == []
    whole = {
        server: {
            name: Tool(name=name, description=text, input_schema={"type": "object"}) for name, text in tools.items()
        }
        for server, tools in drawn.items()
    }
    shown = {
        server: {name: tool for name, tool in tools.items() if is_shown(chosen, server, name)}
        for server, tools in whole.items()
        if server in chosen
    }
    names = [f"{server}__{name}" for server, tools in whole.items() for name in tools]

    async def both(mode: str) -> tuple[Any, Any]:
        return (
            await answers_of(offering(whole, down, Access(toolset)), mode, [query, *names], names),
            await answers_of(offering(shown, down), mode, [query, *names], names),
        )

    for mode in EVERY_ERA:
        masked, without = anyio.run(both, mode)
        assert masked == without


@pytest.fixture
def two_servers() -> Catalog:
    tool = partial(Tool, input_schema={"type": "object"})
    return {
        "git": {"log": tool(name="log"), "secret": tool(name="secret")},
        "mail": {"send": tool(name="send")},
    }


READING = Toolset("reading", read_toolsets({"reading": {"git": ["log"]}}, ["git"], [])["reading"].rules)


async def test_a_page_cursor_of_who_sees_more_leads_nowhere(two_servers: Catalog) -> None:
    gateway = offering(two_servers, set())
    hidden_last = gateway.pages.part({"git__secret", "mail__send"})
    hidden_last = type(hidden_last)(hidden_last.tools, 1)
    cursor = hidden_last.page(None, "2026-07-28")["nextCursor"]
    assert cursor is not None
    view = Views(gateway).of(READING)
    with pytest.raises(MCPError, match="Invalid cursor"):
        view.pages.page(cursor, "2026-07-28")


async def test_a_change_is_announced_to_those_who_see_it_alone(two_servers: Catalog) -> None:
    gateway = offering(two_servers, set(), Access(READING))
    server = Endpoint(GatewaySearch(gateway, LIMITS)).server()
    git, mail = gateway.upstreams
    more = Tool(name="log", description="changed", input_schema={"type": "object"})
    with anyio.fail_after(10):
        async with (
            Client(server, mode="2026-07-28") as client,
            client.listen(tools_list_changed=True) as events,
        ):
            set_tools(mail, {})
            await gateway.notifiers[0].announce()
            with anyio.move_on_after(0.2) as silent:
                await anext(aiter(events))
            set_tools(git, {"log": more})
            await gateway.notifiers[0].announce()
            await anext(aiter(events))
            gateway.close_subscriptions()
    assert silent.cancelled_caught


async def test_tools_that_a_toolset_names_in_vain_are_reported_once(
    two_servers: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    excluding = read_toolsets({"t": {"git": {"exclude": ["sceret"]}}}, ["git"], [])["t"]
    gateway = offering(two_servers, set(), Access(excluding))
    views = Views(gateway)
    for _ in range(2):
        views.of(excluding)
        set_tools(gateway.upstreams[0], two_servers["git"])
    reports = [record.getMessage() for record in caplog.records if "sceret" in record.getMessage()]
    assert len(reports) == 1


@pytest.mark.parametrize(
    ("members", "chosen", "says"),
    [
        ({"toolsets": []}, None, "`toolsets` must be an object"),
        ({"toolsets": {"r": {"gti": True}}}, None, "`toolsets.r.gti`: there is no such server; the closest"),
        ({"toolsets": {"r": {}}}, None, "`toolsets.r` must be an object that names at least one server"),
        ({"toolsets": {"r": "git"}}, None, "`toolsets.r` must be an object that names at least one server"),
        ({"toolsets": {"r": {"git": False}}}, None, "`toolsets.r.git` must be true, a list"),
        ({"toolsets": {"r": {"git": []}}}, None, "`toolsets.r.git` names no tool"),
        ({"toolsets": {"r": {"git": [7]}}}, None, "`toolsets.r.git` must be true, a list"),
        ({"toolsets": {"r": {"git": {"exclude": ["x"], "include": []}}}}, None, "`toolsets.r.git` must be true"),
        ({"toolsets": {" ": {"git": True}}}, None, "empty name"),
        ({"toolsets": {"read": {"git": True}}}, "raed", "--toolset names; the closest is 'read'"),
        ({}, "read", "`toolsets` has no 'read'"),
        ({"principals": {}}, None, "`principals` must name at least one"),
        ({"principals": {"a": "tsk_x"}}, None, "`principals.a` must be an object"),
        ({"principals": {"": {}}}, None, "empty name"),
        ({"principals": {"\udc00": {}}}, None, "`principals` has an entry with a name with half of a surrogate pair"),
        ({"principals": {"a": {"token": "tsk_x"}}}, None, "`principals.a.token`: this is not a token hash: make one"),
        ({"principals": {"a": {"tolset": "r"}}}, None, "`principals.a.tolset` means nothing here; the closest is"),
        (
            {"principals": {"a": {"token": HASH, "toolset": "r"}}},
            None,
            "`principals.a.toolset`: there is no such toolset",
        ),
        (
            {"principals": {"a": {"token": HASH, "toolset": ""}}},
            None,
            "`principals.a.toolset`: there is no such toolset",
        ),
        ({"principals": {"a": {"toolset": None}}}, None, "`principals.a.toolset` must be a text"),
        ({"principals": {"a": {"openRequests": None}}}, None, "`principals.a.openRequests` must be a whole number"),
        ({"principals": {"a": {"requestsPerMinute": 0}}}, None, "`principals.a.requestsPerMinute` must be at least 1"),
        ({"principals": {"a": {"openRequests": 1}}}, None, "`principals.a.openRequests` must be at least 2"),
        ({"principals": {"a": {"openRequests": True}}}, None, "`principals.a.openRequests` must be a whole number"),
        (
            {"principals": {name: {"token": HASH} for name in "ab"}},
            None,
            "`principals.b.token` is also the token of 'a'",
        ),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_file_and_place(
    members: Any, chosen: str | None, says: str, tmp_path: Path
) -> None:
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": {"git": {"command": "git"}}, **members}))
    file = load_host_file(tmp_path / "mcp.json")
    with pytest.raises(ConfigurationError) as refused:
        read_access(file, "mcp.json", chosen)
    assert str(refused.value).startswith("mcp.json cannot be used")
    assert says in str(refused.value)
    assert "tsk_x" not in str(refused.value)


def test_a_server_that_is_switched_off_may_stay_in_a_toolset(tmp_path: Path) -> None:
    servers = {"git": {"command": "git"}, "old": {"command": "old", "disabled": True}}
    document = {"servers": servers, "toolsets": {"both": {"git": True, "old": True}}}
    (tmp_path / "mcp.json").write_text(json.dumps(document))
    file = load_host_file(tmp_path / "mcp.json")
    assert read_access(file, "mcp.json", "both").toolset.name == "both"
