"""Resources are found by what they say, and the worst of them cost no search its answer."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client, MCPError
from mcp.server import MCPServer, Server
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resources import FileResource, FunctionResource, TextResource
from mcp.server.subscriptions import InMemorySubscriptionBus, ResourcesListChanged, ResourceUpdated
from mcp_ext_search_primitives import RESOURCES
from mcp_ext_search_primitives.client import primitives_settings
from mcp_ext_search_primitives.contents import Contents, ContentStore
from mcp_ext_search_primitives.server import ResourcesSearch
from mcp_ext_tools_search.client import raw_request
from mcp_ext_tools_search.ranking import SimpleRanker, ToolIndex
from mcp_ext_tools_search.server import ToolsSearch
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool

pytestmark = pytest.mark.anyio

Offering = Callable[..., Server[Any]]
Connect = Callable[..., AbstractAsyncContextManager[Client]]

TEXTS = {
    "docs://handbook/returns.md": "Who pays when a parcel is lost on its way? We do.",
    "docs://handbook/week.md": "Parcels leave on Mondays, by getShippingLabel of München.",
}


def searching(server: Any, **bounds: Any) -> Any:
    contents = Contents(**bounds) if bounds else True
    ToolsSearch(resources=ResourcesSearch(contents=contents)).install(server)
    return server


def handbook(texts: Mapping[str, str] = TEXTS) -> MCPServer[Any]:
    mcp = MCPServer[Any]("handbook")
    for uri, text in texts.items():
        mcp.add_resource(TextResource(uri=uri, name=uri.rpartition("/")[2], text=text, mime_type="text/markdown"))
    return mcp


async def search(client: Client, query: str) -> list[dict[str, Any]]:
    return (await raw_request(client, RESOURCES.method, {"query": query, "limit": 50}, seconds=20))["resources"]


async def found(client: Client, query: str) -> list[str]:
    return [item["uri"] for item in await search(client, query)]


async def test_a_resource_is_found_by_what_it_says_at_the_first_search(connect: Connect) -> None:
    async with connect(searching(handbook())) as client:
        settings = primitives_settings(client)
        assert settings is not None
        assert settings.resources is not None
        assert settings.resources.contents
        best = (await search(client, "who pays for a lost parcel"))[0]
        assert best["uri"] == "docs://handbook/returns.md"
        assert best["_meta"][EXTENSION_ID]["matched"] == ["contents"]
        assert "parcel" not in str({name: own for name, own in best.items() if name != "_meta"}).casefold()


@pytest.mark.parametrize("query", ["getshippinglabel MONDAYS", "münchen", "week.md Mondays", "leave by of"])
async def test_content_and_definition_together_have_every_term(connect: Connect, query: str) -> None:
    def silent(_tools: Any) -> Any:
        return _FindsNothing()

    mcp = handbook()
    ToolsSearch(ranker=silent, resources=ResourcesSearch(contents=True)).install(mcp)
    async with connect(mcp) as client:
        assert await found(client, query) == ["docs://handbook/week.md"]


class _FindsNothing:
    def search(self, query: str, *, visible: Any = None) -> list[Any]:
        return []


async def test_no_content_is_searched_unless_asked_for(connect: Connect) -> None:
    mcp = handbook()
    ToolsSearch(resources=True).install(mcp)
    async with connect(mcp) as client:
        assert await found(client, "Mondays") == []


async def test_a_low_level_server_says_how_it_reads(offering: Offering, connect: Connect) -> None:
    async def read(uri: str) -> str | None:
        return TEXTS.get(uri)

    with pytest.raises(ValueError, match=r"pass a function with Contents\(read=\.\.\.\)"):
        searching(offering())
    async with connect(searching(offering(), read=read)) as client:
        assert (await found(client, "lost on its way"))[0] == "docs://handbook/returns.md"


async def test_content_of_what_a_caller_is_not_listed_has_no_influence(offering: Offering, connect: Connect) -> None:
    resources = [{"uri": uri, "name": uri} for uri in TEXTS]

    async def read(uri: str) -> str | None:
        return TEXTS.get(uri)

    async def hide(ctx: Any, call_next: Any) -> Any:
        result = await call_next(ctx)
        hidden = ctx.method == "resources/list" and next(turns)
        return result | {"resources": result["resources"][:1]} if hidden else result

    turns = itertools.cycle([False, True])
    shared = searching(offering(resources=resources, page_size=5), read=read)
    shared.middleware.append(hide)
    alone = searching(offering(resources=resources[:1], page_size=5), read=read)
    async with connect(shared) as client, connect(alone) as other:
        for query in ("parcel", "Mondays", "lost parcel"):
            assert "docs://handbook/week.md" in await found(client, "parcels leave on Mondays")  # sees everything
            assert await search(client, query) == await search(other, query)  # sees a part


async def test_content_that_a_caller_may_not_read_has_no_influence_though_the_resource_is_listed(
    offering: Offering, connect: Connect
) -> None:
    resources = [{"uri": uri, "name": uri} for uri in TEXTS]
    first, *_ = TEXTS

    async def read(uri: str) -> str | None:
        return TEXTS.get(uri)

    async def read_first(uri: str) -> str | None:
        return TEXTS[uri] if uri == first else None

    def may_read(_ctx: Any, uri: str) -> bool:
        return next(turns) or uri == first

    turns = itertools.chain([True] * len(TEXTS), itertools.repeat(False))
    guarded = searching(offering(resources=resources, page_size=5), read=read, may_read=may_read)
    alone = searching(offering(resources=resources, page_size=5), read=read_first)
    async with connect(guarded) as client, connect(alone) as other:
        await found(client, "parcels leave on Mondays")  # may read everything
        for query in ("parcel", "Mondays", "lost parcel", "handbook"):
            assert await search(client, query) == await search(other, query)  # may read the first


async def test_content_that_changes_is_read_again_once_it_is_old_or_its_definition_changes(connect: Connect) -> None:
    texts, described = ["first edition"], ["one"]
    mcp = MCPServer[Any]("notes")
    resource = FunctionResource(uri="notes://today", name="today", description="one", fn=lambda: texts[0])
    mcp.add_resource(resource)
    async with connect(searching(mcp, max_age=1000)) as client:
        assert await found(client, "edition") == ["notes://today"]
        texts[0] = "second copy"
        assert await found(client, "copy") == []
        described[0] = resource.description = "two"
        assert await found(client, "copy") == ["notes://today"]
        assert await found(client, "edition") == []
        texts[0] = "third edition"
        assert await found(client, "edition") == []


async def test_content_is_read_again_at_the_next_search_once_the_server_has_announced_its_update(
    connect: Connect,
) -> None:
    texts, reads = {"notes://today": "first edition", "notes://monday": "mail"}, list[str]()

    def read(uri: str) -> str:
        reads.append(uri)
        return texts[uri]

    mcp = MCPServer[Any]("notes")
    for uri in texts:
        mcp.add_resource(FunctionResource(uri=uri, name=uri[-6:], fn=partial(read, uri)))

    @mcp.tool()
    async def edit(uri: str, text: str, ctx: Context[Any, Any]) -> None:
        texts[uri] = text
        await ctx.notify_resource_updated(uri)

    async with connect(searching(mcp)) as client:
        assert await found(client, "edition") == ["notes://today"]
        await client.call_tool("edit", {"uri": "notes://today", "text": "second copy"})
        await client.call_tool("edit", {"uri": "notes://nowhere", "text": "unknown"})
        assert await found(client, "copy") == ["notes://today"]
        assert await found(client, "edition") == []
    assert sorted(reads) == ["notes://monday", "notes://today", "notes://today"]


async def test_a_low_level_server_announces_updates_of_content_on_its_own_bus(
    offering: Offering, connect: Connect
) -> None:
    texts, bus = ["first edition"], InMemorySubscriptionBus()

    async def read(_uri: str) -> str | None:
        return texts[0]

    server = offering(resources=[{"uri": "a:b", "name": "c"}])
    async with connect(searching(server, read=read, subscriptions=bus)) as client:
        assert await found(client, "edition") == ["a:b"]
        texts[0] = "second copy"
        await bus.publish(ResourcesListChanged())
        assert await found(client, "copy") == []
        await bus.publish(ResourceUpdated("a:b"))
        assert await found(client, "copy") == ["a:b"]


async def test_an_update_during_a_read_has_the_content_read_once_more_for_the_search_that_waits() -> None:
    began, goes_on, reads = anyio.Event(), anyio.Event(), list[str]()
    bus = InMemorySubscriptionBus()

    async def read(uri: str) -> str | None:
        reads.append(uri)
        if len(reads) > 1:
            return "second"
        began.set()
        await goes_on.wait()
        return "first"

    store = ContentStore(Contents(read=read, wait=30, subscriptions=bus))
    server = Server[Any]("changing")
    store.attach(server, server)
    items, texts = {"a:b": {"uri": "a:b", "name": "x"}}, list[str]()

    async def search() -> None:
        texts.extend(own.text for own in (await store.read_of(items)).values())

    with anyio.fail_after(10):
        async with server.lifespan(server), anyio.create_task_group() as tasks:
            tasks.start_soon(search)
            await began.wait()
            await bus.publish(ResourceUpdated("a:b"))
            tasks.start_soon(search)
            await anyio.wait_all_tasks_blocked()
            goes_on.set()
    assert texts == ["second", "second"]
    assert len(reads) == 2


async def test_changed_content_is_added_to_the_index_that_was_used_last(connect: Connect) -> None:
    texts, ranked = {"notes://today": "first edition", "notes://monday": "mail"}, list[int]()

    def counted(tools: Sequence[Tool]) -> ToolIndex:
        ranked.append(len(tools))
        return SimpleRanker()(tools)

    mcp = MCPServer[Any]("notes")
    for uri in texts:
        mcp.add_resource(FunctionResource(uri=uri, name=uri[-6:], fn=partial(texts.__getitem__, uri)))
    resources = ResourcesSearch(contents=Contents(max_age=1e-9))
    ToolsSearch(ranker=counted, resources=resources).install(mcp)
    async with connect(mcp) as client:
        assert await found(client, "edition") == ["notes://today"]
        for word in ("second", "third"):
            texts["notes://today"] = f"{word} copy"
            with anyio.fail_after(10):
                while await found(client, word) != ["notes://today"]:
                    pass
            assert await found(client, "mail") == ["notes://monday"]
    assert ranked == [2]


async def test_a_search_does_not_wait_for_resources_that_never_end(connect: Connect) -> None:
    async def never() -> str:
        await anyio.sleep_forever()
        return ""

    mcp = handbook()
    for number in range(20):
        mcp.add_resource(FunctionResource(uri=f"docs://endless/{number}", name=f"endless {number}", fn=never))
    async with connect(searching(mcp, wait=0.2, seconds=0.2)) as client:
        with anyio.fail_after(10):
            assert (await found(client, "endless 7"))[0] == "docs://endless/7"
            while "docs://handbook/returns.md" not in await found(client, "lost parcel"):  # noqa: ASYNC110
                await anyio.sleep(0.02)  # a search is the only thing to look at


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Puts the clock of the contents forward by so many seconds."""
    ahead = [0.0]
    monkeypatch.setattr("mcp_ext_search_primitives.contents.monotonic", lambda: monotonic() + ahead[0])

    def forward(seconds: float) -> None:
        ahead[0] += seconds

    return forward


async def test_threads_that_never_end_cost_no_search_its_wait_once_their_time_is_over(
    connect: Connect, later: Callable[[float], None]
) -> None:
    over, blocked = threading.Event(), threading.Semaphore(0)

    def block() -> str:
        blocked.release()
        over.wait(60)
        return ""

    def are_blocked() -> bool:
        return all(blocked.acquire(timeout=10) for _ in range(8))  # all that are read at once

    mcp = handbook()
    for number in range(10):
        mcp.add_resource(FunctionResource(uri=f"docs://stuck/{number}", name=f"stuck {number}", fn=block))
    async with connect(searching(mcp, wait=30, seconds=5.0)) as client:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(found, client, "stuck")
            assert await anyio.to_thread.run_sync(are_blocked)
            tasks.cancel_scope.cancel()
        later(6)
        with anyio.fail_after(10):  # a search that waits does so for 24 seconds
            assert "docs://stuck/7" in await found(client, "stuck")
        over.set()


async def test_searches_wait_once_for_what_takes_long_to_read(connect: Connect, later: Callable[[float], None]) -> None:
    async def slow() -> str:
        await anyio.sleep_forever()
        return ""

    mcp = handbook()
    for number in range(200):
        mcp.add_resource(FunctionResource(uri=f"docs://slow/{number}", name=f"slow {number}", fn=slow))
    async with connect(searching(mcp, wait=3.0, seconds=600)) as client:
        with anyio.move_on_after(0.1):
            await found(client, "slow")
        later(3)
        with anyio.fail_after(10):
            for _ in range(20):  # of which each would wait for three seconds
                assert "docs://slow/7" in await found(client, "slow 7")


async def test_a_search_waits_for_what_is_new_however_long_others_have_waited_for_the_rest(
    later: Callable[[float], None],
) -> None:
    goes_on = anyio.Event()

    async def read(uri: str) -> str | None:
        if uri == "a:new":
            goes_on.set()
        await goes_on.wait()
        return uri

    store = ContentStore(Contents(read=read, wait=30, seconds=600))
    server = Server[Any]("growing")
    store.attach(server, server)
    items = {uri: {"uri": uri, "name": "x"} for uri in ("a:slow", "a:new")}
    with anyio.fail_after(10):
        async with server.lifespan(server):
            with anyio.move_on_after(0.1):
                await store.read_of({"a:slow": items["a:slow"]})
            later(31)
            assert {*(await store.read_of(items))} == {*items}


async def test_while_much_is_unread_texts_are_added_when_there_are_twice_as_many() -> None:
    allowed = anyio.Semaphore(0)

    async def read(uri: str) -> str | None:
        await allowed.acquire()
        return uri

    store = ContentStore(Contents(read=read, wait=0, seconds=600))
    server = Server[Any]("large")
    store.attach(server, server)
    items = {f"a:{number}": {"uri": f"a:{number}", "name": "x"} for number in range(10)}
    counts = list[int]()
    with anyio.fail_after(10):
        async with server.lifespan(server):
            assert await store.read_of(items) == {}
            for _ in items:
                allowed.release()
                await anyio.wait_all_tasks_blocked()
                counts.append(len(await store.read_of(items)))
    assert counts == [1, 2, 2, 4, 4, 4, 4, 8, 8, 10]


async def test_what_was_wanted_long_ago_makes_room(later: Callable[[float], None]) -> None:
    async def read(uri: str) -> str | None:
        return uri * 10

    store = ContentStore(Contents(read=read, max_total_chars=60))
    server = Server[Any]("changing")
    store.attach(server, server)
    async with server.lifespan(server):
        assert await store.read_of({"a:old": {"uri": "a:old", "name": "x"}})
        wanted = {"a:new": {"uri": "a:new", "name": "x"}}
        assert await store.read_of(wanted) == {}
        later(301)
        assert {*(await store.read_of(wanted))} == {*wanted}


@pytest.mark.parametrize("failing", [ValueError("secret"), RuntimeError("secret")])
async def test_a_resource_that_fails_is_found_by_its_definition(
    connect: Connect, failing: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> str:
        raise failing

    mcp = handbook()
    mcp.add_resource(FunctionResource(uri="docs://broken", name="broken", fn=fail))
    caplog.set_level("INFO", "mcp_ext_search_primitives")
    async with connect(searching(mcp)) as client:
        assert await found(client, "broken") == ["docs://broken"]
        assert (await found(client, "lost parcel"))[0] == "docs://handbook/returns.md"
    own = [record.getMessage() for record in caplog.records if record.name.startswith("mcp_ext_search_primitives")]
    assert own
    assert "secret" not in str(own)


@pytest.mark.parametrize("uri", ["file:///nowhere/parcels.md", "file://localhost/nowhere/a%00b", "file:///dev/null/x"])
async def test_a_file_uri_that_names_no_file_of_this_machine_is_read_as_any_other(connect: Connect, uri: str) -> None:
    async with connect(searching(handbook({uri: TEXTS["docs://handbook/returns.md"]}))) as client:
        assert await found(client, "lost on its way") == [uri]


async def test_a_file_of_two_gigabytes_is_not_read(connect: Connect, tmp_path: Path) -> None:
    large = tmp_path / "large.txt"
    with large.open("wb") as file:
        file.truncate(2 * 1024**3)  # takes no room on the disk, and 2 GB where it is read
    mcp = handbook()
    for uri in ("docs://large", large.as_uri()):
        mcp.add_resource(FileResource(uri=uri, name="large", path=large, mime_type="text/plain"))
    async with connect(searching(mcp)) as client:
        with anyio.fail_after(5):
            assert len(await found(client, "large")) == 2
            assert (await found(client, "lost parcel"))[0] == "docs://handbook/returns.md"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
async def test_a_pipe_that_nobody_writes_to_is_not_read(connect: Connect, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    mcp = handbook()
    mcp.add_resource(FileResource(uri="docs://pipe", name="pipe", path=pipe, mime_type="text/plain"))
    async with connect(searching(mcp)) as client:
        assert await found(client, "pipe") == ["docs://pipe"]
        assert (await found(client, "lost parcel"))[0] == "docs://handbook/returns.md"


@pytest.mark.parametrize(
    ("item", "reads"),
    [
        ({}, True),
        ({"mimeType": "text/html"}, True),
        ({"mimeType": "Text/HTML; Charset=UTF-8"}, True),
        ({"mimeType": ""}, True),
        ({"mimeType": "application/vnd.api+json"}, True),
        ({"size": 100}, True),
        ({"size": 101}, False),
        ({"mimeType": "image/png"}, False),
        ({"mimeType": "application/octet-stream"}, False),
    ],
)
async def test_what_is_no_text_or_is_said_to_be_large_is_not_read(
    offering: Offering, connect: Connect, item: dict[str, Any], reads: bool
) -> None:
    read_uris: list[str] = []

    async def read(uri: str) -> str | None:
        read_uris.append(uri)
        return "ledger"

    server = searching(offering(resources=[{"uri": "a:b", "name": "c"} | item]), read=read, max_size=100)
    async with connect(server) as client:
        assert await found(client, "ledger") == (["a:b"] if reads else [])
    assert read_uris == (["a:b"] if reads else [])


async def test_only_the_first_characters_of_so_many_resources_are_kept() -> None:
    async def read(uri: str) -> str | None:
        return f"{uri} " + "x" * 1_000_000

    bounds = Contents(read=read, max_resources=50, max_chars=100, max_total_chars=2_000)
    store = ContentStore(bounds)
    server = Server[Any]("many")
    store.attach(server, server)
    items = {f"a:{number}": {"uri": f"a:{number}", "name": "same"} for number in range(1_000)}
    async with server.lifespan(server):
        with anyio.fail_after(10):
            read_resources = await store.read_of(items)
    kept = [own.text for own in read_resources.values()]
    assert {*map(len, kept)} == {100}
    assert sum(map(len, kept)) == 2_000
    assert {*read_resources} <= {f"a:{number}" for number in range(50)}


async def test_what_nobody_asks_for_any_more_makes_room_and_what_every_search_asks_for_is_read_once() -> None:
    reads = list[str]()

    async def read(uri: str) -> str | None:
        reads.append(uri)
        return uri

    store = ContentStore(Contents(read=read, max_resources=10))
    server = Server[Any]("changing")
    store.attach(server, server)
    async with server.lifespan(server):
        every = {f"a:{number}": {"uri": f"a:{number}", "name": "x"} for number in range(200)}
        for start in range(0, 200, 10):
            items = {"a:0": every["a:0"], **dict(itertools.islice(every.items(), start + 1, start + 10))}
            assert {*(await store.read_of(items))} == {*items}
        assert reads.count("a:0") == 1
        assert len(await store.read_of(every)) <= 30


async def test_what_one_search_was_given_stays_as_it_is_when_another_reads_again(
    later: Callable[[float], None],
) -> None:
    texts = iter(["before", "after"])

    async def read(_uri: str) -> str | None:
        return next(texts)

    store = ContentStore(Contents(read=read))
    server = Server[Any]("changing")
    store.attach(server, server)
    items = {"a:b": {"uri": "a:b", "name": "x"}}
    async with server.lifespan(server):
        first = await store.read_of(items)
        later(301)
        second = await store.read_of(items)
    assert (first["a:b"].text, second["a:b"].text) == ("before", "after")
    assert first["a:b"].digest != second["a:b"].digest


async def test_a_server_that_starts_again_reads_again() -> None:
    async def read(uri: str) -> str | None:
        return uri

    store = ContentStore(Contents(read=read, wait=30))
    server = Server[Any]("restarted")
    store.attach(server, server)
    with anyio.fail_after(10):
        for name in ("one", "two"):
            async with server.lifespan(server):
                assert {*(await store.read_of({name: {"uri": name, "name": name}}))} == {name}
        # Not running: no wait, and no text.
        assert await store.read_of({"three": {"uri": "three", "name": "three"}}) == {}


async def test_what_is_read_does_not_depend_on_the_search_that_wants_it() -> None:
    searching = ContextVar("searching", default="nobody")

    async def read(_uri: str) -> str | None:
        return searching.get()

    store = ContentStore(Contents(read=read, wait=30))
    server = Server[Any]("shared")
    store.attach(server, server)
    with anyio.fail_after(10):
        async with server.lifespan(server):
            searching.set("alice")
            found = await store.read_of({f"a:{number}": {"uri": f"a:{number}", "name": "x"} for number in range(20)})
    assert {own.text for own in found.values()} == {"nobody"}
    assert len(found) == 20


@pytest.mark.parametrize("wrong", [0, -1, "5", True, float("nan")])
@pytest.mark.parametrize(
    "bound", ["max_resources", "max_size", "max_chars", "max_total_chars", "seconds", "wait", "max_age"]
)
def test_a_bound_is_a_positive_number(bound: str, wrong: Any) -> None:
    replace(Contents(), **{bound: 1})
    if bound == "wait":
        replace(Contents(), wait=0)
        wrong = wrong or -0.1
    with pytest.raises(ValueError, match=f"{bound} must be a positive .*, not {wrong!r}"):
        replace(Contents(), **{bound: wrong})


@pytest.mark.parametrize("name", ["read", "may_read"])
def test_what_reads_or_permits_reading_is_a_function(name: str) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a function, not True"):
        replace(Contents(), **{name: True})


async def _bytes(_uri: str) -> Any:
    return b"lost parcel"


def _blocking(_uri: str) -> Any:
    return "lost parcel"


@pytest.mark.parametrize(
    ("read", "said"), [(_bytes, "return text or None, not bytes"), (_blocking, "be an async function")]
)
async def test_a_function_that_reads_no_text_ends_no_server_and_is_reported_once(
    offering: Offering, connect: Connect, read: Any, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    resources = [{"uri": uri, "name": uri} for uri in TEXTS]
    async with connect(searching(offering(resources=resources), read=read)) as client:
        assert await found(client, "docs handbook week") == ["docs://handbook/week.md", "docs://handbook/returns.md"]
    faults = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert faults == [f"contents are not searched: Contents(read=...) must {said}"]


class _Later:
    def __await__(self) -> Generator[Any]:
        yield


async def test_a_permission_that_comes_later_is_an_error_and_not_given(
    offering: Offering, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    async def read(uri: str) -> str | None:
        return TEXTS.get(uri)

    def may_read(_ctx: Any, _uri: str) -> Any:
        return _Later()

    resources = [{"uri": uri, "name": uri} for uri in TEXTS]
    async with connect(searching(offering(resources=resources), read=read, may_read=may_read)) as client:
        with pytest.raises(MCPError, match="Internal server error"):
            await found(client, "lost parcel")
    assert "Contents(may_read=...) must not be async" in caplog.text


def test_each_server_needs_a_search_of_its_own_to_read_its_own_resources() -> None:
    shared = ToolsSearch(resources=ResourcesSearch(contents=True))
    other = handbook()
    shared.install(handbook())
    with pytest.raises(ValueError, match="'handbook' needs a ToolsSearch of its own"):
        shared.install(other)
    searching(other)  # nothing of the first attempt is left
