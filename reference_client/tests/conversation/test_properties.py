"""Invariants under any actions of model, user and servers, in any order."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Sequence
from typing import Any

import anyio
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mcp_types import Tool
from tools_search_client import (
    Conversation,
    Failure,
    Forward,
    ListedSource,
    Reply,
    ServerOffer,
    ToolCall,
    ToolDiscovery,
)
from tools_search_client.conversation.catalog import Catalog
from tools_search_client.conversation.manifest import MAX_BYTES, manifest
from tools_search_client.known_tools import KnownTools, known_tools
from tools_search_hosts.toolsets import EVERYTHING, Rule, Toolset
from tools_search_ranking import default_ranker
from tools_search_ranking.index import Documents
from tools_search_ranking.ranker import FieldedIndex

WORDS = ("read", "write", "page", "file", "light", "alert", "user", "team")
SERVER_NAMES = ("alpha", "beta", "gamma")

tool_names = st.builds("_".join, st.lists(st.sampled_from(WORDS), min_size=1, max_size=2))
descriptions = st.one_of(st.none(), st.builds(" ".join, st.lists(st.sampled_from(WORDS), max_size=4)))
tools = st.lists(st.tuples(tool_names, descriptions), max_size=8, unique_by=lambda pair: pair[0])
catalogs = st.fixed_dictionaries(dict.fromkeys(SERVER_NAMES, tools))
full_names = st.builds("{}__{}".format, st.sampled_from(SERVER_NAMES), tool_names)
deferred = st.sets(st.sampled_from(SERVER_NAMES))
rules = st.one_of(
    st.just(Rule(excludes=True)), st.builds(Rule, st.frozensets(tool_names, max_size=4), excludes=st.booleans())
)
toolsets = st.one_of(
    st.just(EVERYTHING), st.builds(Toolset, st.just("some"), st.dictionaries(st.sampled_from(SERVER_NAMES), rules))
)
arguments = st.fixed_dictionaries(
    {},
    optional={
        "query": st.one_of(tool_names, st.builds(" ".join, st.lists(st.sampled_from(WORDS), max_size=3))),
        "server_name": st.sampled_from((*SERVER_NAMES, "delta")),
        "tool_names": st.lists(
            st.one_of(tool_names, st.builds("{}__{}".format, st.sampled_from(SERVER_NAMES), tool_names))
        ),
        "detail": st.sampled_from(("minimal", "brief", "full", "most")),
    },
)
steps = st.one_of(
    st.tuples(st.just("search"), arguments),
    st.tuples(st.just("call"), full_names),
    st.tuples(st.just("servers change"), catalogs),
    st.tuples(st.just("a server fails"), st.sampled_from(SERVER_NAMES)),
    st.tuples(st.just("toolset"), toolsets),
    st.tuples(st.just("start over"), st.none()),
)
discoveries = st.builds(
    ToolDiscovery,
    enabled=st.just(value=True),
    defer_all=st.booleans(),
    auto=st.booleans(),
    context_window=st.sampled_from((100, 2_000, 100_000)),
    max_search_results=st.integers(1, 4),
    max_tools=st.one_of(st.none(), st.integers(1, 20)),
)


def offers(catalog: dict[str, list[tuple[str, str | None]]], deferred: set[str]) -> tuple[ServerOffer, ...]:
    servers = {
        server: [Tool(name=name, description=text, input_schema={"type": "object"}) for name, text in own]
        for server, own in catalog.items()
    }
    return ListedSource.of(servers, deferred=deferred).offers


class Play:
    """A conversation, and what has to hold after every step of it."""

    def __init__(self, catalog: Any, deferred: set[str], discovery: ToolDiscovery) -> None:
        self.deferred = deferred
        self.discovery = discovery
        self.source = ListedSource(offers(catalog, deferred))
        self.state = Conversation(self.source, discovery)
        self.toolset = EVERYTHING
        self.sent: dict[int, list[str]] = {}

    async def step(self, kind: str, what: Any) -> None:
        self.change(kind, what)
        match kind:
            case "search":
                await self.search(what)
            case "call":
                await self.call(what)
            case "toolset":
                await self.state.begin_turn("read a page", toolset=what)
            case "start over":
                self.state.start_over()
            case _:
                await self.state.refresh()

    def change(self, kind: str, what: Any) -> None:
        """Change what the servers offer, or the toolset, if the step is about that."""
        if kind == "servers change":
            self.source.offers = offers(what, self.deferred)
        if kind == "a server fails":
            failed = ServerOffer(what, (), what in self.deferred, failure=Failure("unavailable", "gone"))
            self.source.offers = tuple(failed if offer.name == what else offer for offer in self.source.offers)
        if kind == "toolset":
            self.toolset = what

    async def search(self, arguments: dict[str, Any]) -> None:
        prefix, before = self.state.offer().prefix, [tool.name for tool in self.state.offer().tools]
        reply = await self.state.take(ToolCall("search_tools", arguments))
        assert isinstance(reply, Reply)
        assert reply.text
        names = [tool.name for tool in self.state.offer().tools]
        assert set(reply.loaded) <= set(names)
        if self.state.offer().prefix == prefix:
            assert names == [*before, *reply.loaded]
        again = await self.state.take(ToolCall("search_tools", arguments))
        assert isinstance(again, Reply)
        assert again.loaded == ()

    async def call(self, name: str) -> None:
        loaded = {tool.name for tool in self.state.offer().tools}
        answer = await self.state.take(ToolCall(name))
        assert isinstance(answer, Forward) or answer.is_error
        if isinstance(answer, Forward):
            assert answer.definition.name in loaded

    def check(self) -> None:
        offer = self.state.offer()
        serialized = [tool.serialized() for tool in offer.tools]
        earlier = self.sent.get(offer.prefix, [])
        assert serialized[: len(earlier)] == earlier
        self.sent[offer.prefix] = serialized
        names = [tool.name for tool in offer.tools]
        assert len(names) == len(set(names))
        assert self.discovery.max_tools is None or len(names) <= self.discovery.max_tools
        for offered in offer.tools:
            if offered.tool is not None:
                rule = self.toolset.rule(offered.tool.server)
                assert rule is not None
                assert rule.shows(offered.tool.tool.name)


@settings(max_examples=60, deadline=None)
@given(catalogs, deferred, discoveries, st.lists(steps, max_size=8))
def test_the_list_only_grows_and_holds_nothing_twice_nothing_hidden_and_nothing_beyond_the_cap(
    catalog: Any, deferred: set[str], discovery: ToolDiscovery, played: list[tuple[str, Any]]
):
    async def play() -> None:
        game = Play(catalog, deferred, discovery)
        await game.state.begin_turn("read a page")
        game.check()
        for kind, what in played:
            await game.step(kind, what)
            game.check()

    anyio.run(play)


class Reader:
    """What a model knows that reads every notice."""

    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation
        self.prefix = -1
        self.gone: set[str] = set()
        self.servers: set[str] = set()

    def reads(self) -> None:
        offer = self.conversation.offer()
        if offer.prefix != self.prefix:  # the list was begun again, as everything is offered now
            self.prefix, self.gone, self.servers = offer.prefix, set(), self.can_be_found()
        for notice in offer.notices:
            assume("..." not in notice)  # it names the first 20
            for what, change in (
                ("do not call them", self.gone.update),
                ("offered again", self.gone.difference_update),
                ("since you were given them", self.gone.difference_update),  # with a new definition, but offered
            ):
                if (said := re.search(rf"{what}: ([^.]*)", notice)) is not None:
                    change(said[1].split(", "))
            for what, change in (("new servers", self.servers.update), ("gone", self.servers.difference_update)):
                if "can find has changed" in notice and (said := re.search(rf"{what}: ([^.;]*)", notice)) is not None:
                    change(said[1].split(", "))

    def can_be_found(self) -> set[str]:
        return set(re.findall(r"^- (\w+)", self.conversation.manifest, re.MULTILINE))


few_tools = st.lists(st.tuples(st.sampled_from(WORDS), descriptions), max_size=3, unique_by=lambda pair: pair[0])
some_servers = st.fixed_dictionaries({}, optional=dict.fromkeys(SERVER_NAMES, few_tools))


@settings(max_examples=60, deadline=None)
@given(some_servers, deferred, tool_names, st.lists(st.tuples(some_servers, st.booleans()), max_size=6))
def test_a_model_that_reads_the_notices_knows_what_is_gone_however_often_it_changed_between_two_requests(
    catalog: Any, deferred: set[str], wanted: str, changes: list[tuple[Any, bool]]
):
    async def play() -> None:
        source = ListedSource(offers(catalog, deferred))
        conversation = Conversation(source, ToolDiscovery(enabled=True))
        reader = Reader(conversation)
        await conversation.begin_turn()
        await conversation.take(ToolCall("search_tools", {"query": wanted}))
        reader.reads()
        for changed, asks in (*changes, (catalog, True)):
            source.offers = offers(changed, deferred)
            await conversation.refresh()
            if asks:
                reader.reads()
                offered = {f"{server}__{name}" for server, own in changed.items() for name, _ in own}
                sent = {definition.name for definition in conversation.definitions if definition.tool is not None}
                assert reader.gone == sent - offered
                assert conversation.search_name is None or reader.servers == reader.can_be_found()

    anyio.run(play)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(catalogs, st.booleans()), min_size=2, max_size=4),
    st.lists(st.sampled_from((*WORDS, "zebra")), max_size=3),
)
def test_what_is_known_after_changes_is_ranked_as_if_it_were_known_from_the_start(changes: Any, words: list[str]):
    ranker = default_ranker()
    known = KnownTools((), ranker)
    for catalog, is_another_conversation in changes:
        every = Catalog(offers(catalog, set())).tools
        known = known_tools(every, ranker, KnownTools((), ranker) if is_another_conversation else known)
        fresh = KnownTools(every, ranker)
        for query in (" ".join(words), *(tool.name for tool in every)):
            assert known.ranked(query) == fresh.ranked(query)
            assert known.unknown_words(query) == fresh.unknown_words(query)


def test_only_what_changed_is_indexed_again_for_whichever_conversation():
    indexed: list[str] = []

    class Index(FieldedIndex):
        def updated(self, removed: Collection[str], added: Sequence[Tool]) -> FieldedIndex:
            indexed.extend(tool.name for tool in added)
            return Index(self._documents.updated(removed, added))

    def index(tools: Sequence[Tool]) -> FieldedIndex:
        indexed.extend(tool.name for tool in tools)
        return Index(Documents.of(tools))

    def known_in(conversation: KnownTools, **catalog: Any) -> KnownTools:
        indexed.clear()
        return known_tools(Catalog(offers(catalog, set())).tools, index, conversation)

    index.keeps_floor = True  # pyright: ignore[reportFunctionMemberAccess]
    tools = [("read", None), ("write", None), ("page", None)]
    one, other = KnownTools((), index), KnownTools((), index)
    one = known_in(one, alpha=tools)
    assert indexed == ["alpha__read", "alpha__write", "alpha__page"]
    other = known_in(other, alpha=tools)
    assert indexed == []
    other = known_in(other, alpha=[("read", None), ("write", "a file"), ("user", None)])
    assert indexed == ["alpha__write", "alpha__user"]
    assert other.ranked("page") == []
    assert known_in(one, alpha=tools) is one
    assert [tool.name for tool in one.ranked("page")] == ["alpha__page"]


@settings(max_examples=25, deadline=None)
@given(catalogs, st.sampled_from(("name", "full", "query")))
def test_an_exact_name_is_always_found(catalog: Any, way: str):
    async def find() -> None:
        every = [(server, name) for server, own in catalog.items() for name, _ in own]
        for server, name in every:
            state = Conversation(
                ListedSource(offers(catalog, set(SERVER_NAMES))), ToolDiscovery(enabled=True, max_search_results=3)
            )
            await state.begin_turn()
            asked = {
                "name": {"tool_names": [name], "server_name": server},
                "full": {"tool_names": [f"{server}__{name}"]},
                "query": {"query": f"{server}__{name}"},
            }
            reply = await state.take(ToolCall("search_tools", asked[way]))
            assert isinstance(reply, Reply)
            assert reply.loaded[:1] == (f"{server}__{name}",)

    anyio.run(find)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 400),
    st.integers(0, 60),
    st.text(max_size=30),
    st.text(alphabet=string.ascii_letters + "_\n<>é天", max_size=200),
)
def test_the_manifest_stays_within_its_bound_and_on_its_lines(servers: int, tools: int, name: str, text: str):
    own = [Tool(name=f"{name}{number}", description=text, input_schema={"type": "object"}) for number in range(tools)]
    told = manifest(ListedSource.of({f"{name} {number}": own for number in range(servers)}).offers)
    assert len(told.encode()) <= MAX_BYTES
    assert all(line.startswith(("- ", "  ", "... and ")) for line in told.splitlines())
    assert "<" not in told
    assert told == manifest(ListedSource.of({f"{name} {number}": own for number in range(servers)}).offers)
