"""Indexes follow the content of listings: built once, never stale, off the event loop when large."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from time import thread_time
from typing import Any, Final

import anyio
import pytest
from mcp_ext_tools_search.ranking import Hit, ToolIndex
from mcp_types import Tool
from tools_search_ranking import FieldedRanker
from tools_search_ranking.cache import CatalogSnapshot, IndexCache

pytestmark = pytest.mark.anyio


class Recording:
    """A ranker that finds every tool and remembers what it indexed, and in which thread."""

    def __init__(self) -> None:
        self.indexed: list[list[str]] = []
        self.threads: set[int] = set()

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        self.indexed.append([tool.name for tool in tools])
        self.threads.add(threading.get_ident())
        return _Everything([tool.name for tool in tools])


class _Everything:
    def __init__(self, names: list[str]) -> None:
        self._names = names

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return [Hit(name, 1.0) for name in self._names]


def _listing(count: int, description: str = "") -> dict[str, dict[str, Any]]:
    return {
        f"tool_{number}": {
            "name": f"tool_{number}",
            "description": description,
            "inputSchema": {"type": "object"},
        }
        for number in range(count)
    }


async def _names(cache: IndexCache, tools: dict[str, dict[str, Any]]) -> set[str]:
    return {hit.name for hit in await cache.rank(CatalogSnapshot(tools), "tool", frozenset(tools))}


@pytest.fixture
def ranker() -> Recording:
    return Recording()


@pytest.fixture
def cache(ranker: Recording) -> IndexCache:
    return IndexCache(ranker, max_concurrency=2)


async def test_the_same_content_is_indexed_once(cache: IndexCache, ranker: Recording) -> None:
    for _ in range(3):
        assert len(await _names(cache, _listing(3))) == 3
    assert len(ranker.indexed) == 1


async def test_a_definition_changed_in_place_is_indexed_anew(cache: IndexCache, ranker: Recording) -> None:
    listing = _listing(3)
    await _names(cache, listing)
    listing["tool_1"]["inputSchema"]["properties"] = {"customer": {}}
    await _names(cache, listing)
    assert len(ranker.indexed) == 2


async def test_only_the_indexes_used_last_are_kept(cache: IndexCache, ranker: Recording) -> None:
    for description in "abcdefgh":
        await _names(cache, _listing(1, description))
    await _names(cache, _listing(1, "a"))
    assert len(ranker.indexed) == 8
    await _names(cache, _listing(1, "i"))
    await _names(cache, _listing(1, "a"))
    assert len(ranker.indexed) == 9
    await _names(cache, _listing(1, "b"))
    assert len(ranker.indexed) == 10


async def test_small_catalogs_are_ranked_in_place_and_large_ones_in_a_thread(
    cache: IndexCache, ranker: Recording
) -> None:
    await _names(cache, _listing(10))
    assert ranker.threads == {threading.get_ident()}
    await _names(cache, _listing(300))
    assert len(ranker.threads) == 2


@pytest.mark.parametrize(("milliseconds", "stays"), [(0, True), (5, False)])
async def test_a_large_catalog_is_searched_in_place_once_a_search_in_it_was_quick(
    milliseconds: int, stays: bool
) -> None:
    searching: list[int] = []

    class Busy(_Everything):
        def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
            searching.append(threading.get_ident())
            end = thread_time() + milliseconds / 1000
            while thread_time() < end:
                pass
            return super().search(query, visible=visible)

    cache = IndexCache(lambda tools: Busy([tool.name for tool in tools]), max_concurrency=2)
    catalog = CatalogSnapshot(_listing(300))
    everything = frozenset(catalog.tools)
    for visible in (everything, everything, everything - {"tool_7"}):
        await cache.rank(catalog, "tool", visible)
    assert [thread == threading.get_ident() for thread in searching] == [False, stays, False]


async def test_parts_are_searched_in_place_though_many_others_were() -> None:
    searching: list[int] = []

    class Noting(_Everything):
        def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
            searching.append(threading.get_ident())
            return super().search(query, visible=visible)

    cache = IndexCache(lambda tools: Noting([tool.name for tool in tools]), max_concurrency=2)
    catalog = CatalogSnapshot(_listing(300))
    for hidden in list(catalog.tools)[:40]:
        searching.clear()
        for _ in range(3):
            await cache.rank(catalog, "tool", frozenset(catalog.tools) - {hidden})
        assert [thread == threading.get_ident() for thread in searching] == [False, True, True]


async def test_searches_at_the_same_time_share_one_index(cache: IndexCache, ranker: Recording) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(_names, cache, _listing(300))
    assert len(ranker.indexed) == 1


async def test_no_more_large_catalogs_are_ranked_at_once_than_allowed() -> None:
    running = 0
    most = 0
    lock = threading.Lock()
    too_many = threading.Barrier(3, timeout=1)

    class Counting(_Everything):
        def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            with suppress(threading.BrokenBarrierError):
                too_many.wait()
            with lock:
                running -= 1
            return super().search(query)

    cache = IndexCache(lambda tools: Counting([tool.name for tool in tools]), max_concurrency=2)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(_names, cache, _listing(300))
    assert most == 2


async def test_what_is_no_valid_tool_is_not_indexed(cache: IndexCache, ranker: Recording) -> None:
    await _names(cache, {"broken": {"name": "broken"}, **_listing(1)})
    assert ranker.indexed == [["tool_0"]]


async def test_all_parts_of_a_catalog_share_one_index(cache: IndexCache, ranker: Recording) -> None:
    whole = CatalogSnapshot(_listing(4))
    found = await cache.rank(whole, "tool", frozenset({"tool_0", "tool_1", "tool_3", "elsewhere"}))
    assert [hit.name for hit in found] == ["tool_0", "tool_1", "tool_3"]
    assert len(await cache.rank(whole, "tool", None)) == 4
    assert [len(indexed) for indexed in ranker.indexed] == [4]


async def test_a_caller_gets_what_an_index_of_only_its_tools_would_give() -> None:
    tools = {
        name: {"name": name, "description": description, "inputSchema": {"type": "object"}}
        for name, description in [
            ("send_letter", "Send a letter."),
            ("send_invoice", "Send an invoice to a customer."),
            ("list_customers", "List customers and their invoices."),
        ]
    }
    cache, ranker = IndexCache(FieldedRanker(), max_concurrency=2), FieldedRanker()
    catalog, query = CatalogSnapshot(tools), "send a letter or an invoice"
    for hidden in tools:
        visible = frozenset(tools) - {hidden}
        own = ranker([Tool.model_validate(tools[name]) for name in visible])
        assert list(await cache.rank(catalog, query, visible)) == list(own.search(query))
        unknown = await cache.unknown_words(catalog, query, visible)
        assert list(unknown) == (["letter"] if hidden == "send_letter" else [])


class Updating(Recording):
    """A ranker whose indexes can be updated, and which remembers the updates."""

    keeps_floor: Final = True

    def __init__(self) -> None:
        super().__init__()
        self.updates: list[tuple[set[str], list[str]]] = []

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        super().__call__(tools)
        return _Updatable(self, [tool.name for tool in tools])


class _Updatable(_Everything):
    def __init__(self, ranker: Updating, names: list[str]) -> None:
        super().__init__(names)
        self._ranker = ranker

    def updated(self, removed: Collection[str], added: Sequence[Tool]) -> ToolIndex:
        self._ranker.updates.append((set(removed), [tool.name for tool in added]))
        return _Updatable(self._ranker, [name for name in self._names if name not in removed] + [t.name for t in added])


async def test_only_the_tools_that_changed_are_indexed_again() -> None:
    ranker = Updating()
    cache = IndexCache(ranker, max_concurrency=2)
    assert await _names(cache, _listing(6)) == set(_listing(6))
    changed = {**_listing(7), "tool_2": {**_listing(3)["tool_2"], "description": "new"}, "broken": {"name": "broken"}}
    del changed["tool_4"]
    assert await _names(cache, changed) == set(changed) - {"broken"}
    assert len(ranker.indexed) == 1
    assert ranker.updates == [({"tool_2", "tool_4"}, ["tool_2", "tool_6"])]


async def test_an_index_is_made_from_the_one_that_is_most_like_it() -> None:
    ranker = Updating()
    cache = IndexCache(ranker, max_concurrency=2)
    for count in (40, 10, 41):
        assert len(await _names(cache, _listing(count))) == count
    assert [len(indexed) for indexed in ranker.indexed] == [40, 10]
    assert ranker.updates == [(set(), ["tool_40"])]


async def test_a_catalog_reads_what_is_the_same_object_as_before_once(cache: IndexCache, ranker: Recording) -> None:
    first = CatalogSnapshot(_listing(3))
    await cache.rank(first, "tool", frozenset(first.tools))
    between = CatalogSnapshot({**first.tools, "other": {"name": "other", "inputSchema": {}}}, after=first)
    last = CatalogSnapshot({**first.tools, "tool_1": {"name": "tool_1", "inputSchema": {}}}, after=between)
    assert [last.digests[name] is first.digests[name] for name in last.tools] == [True, False, True]
    assert last.digest == CatalogSnapshot(last.tools).digest != first.digest
