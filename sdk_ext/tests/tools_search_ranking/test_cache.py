"""Indexes follow the content of listings: built once, never stale, off the event loop when large."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Collection, Iterator, Sequence
from time import thread_time
from typing import Any, Final

import anyio
import pytest
from mcp_ext_tools_search.ranking import Hit, ToolIndex
from mcp_types import Tool
from tools_search_ranking.cache import CatalogSnapshot, IndexCache, Part

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


@pytest.fixture
def ranker() -> Recording:
    return Recording()


@pytest.fixture
def cache(ranker: Recording) -> IndexCache:
    return IndexCache(ranker, max_concurrency=2)


async def test_the_same_content_is_indexed_once(cache: IndexCache, ranker: Recording) -> None:
    for _ in range(3):
        assert len(await cache.rank(_listing(3), "tool")) == 3
    assert len(ranker.indexed) == 1


async def test_a_definition_changed_in_place_is_indexed_anew(cache: IndexCache, ranker: Recording) -> None:
    listing = _listing(3)
    await cache.rank(listing, "tool")
    listing["tool_1"]["inputSchema"]["properties"] = {"customer": {}}
    await cache.rank(listing, "tool")
    assert len(ranker.indexed) == 2


async def test_only_the_indexes_used_last_are_kept(cache: IndexCache, ranker: Recording) -> None:
    for description in "abcdefgh":
        await cache.rank(_listing(1, description), "tool")
    await cache.rank(_listing(1, "a"), "tool")
    assert len(ranker.indexed) == 8
    await cache.rank(_listing(1, "i"), "tool")
    await cache.rank(_listing(1, "a"), "tool")
    assert len(ranker.indexed) == 9
    await cache.rank(_listing(1, "b"), "tool")
    assert len(ranker.indexed) == 10


async def test_small_catalogs_are_ranked_in_place_and_large_ones_in_a_thread(
    cache: IndexCache, ranker: Recording
) -> None:
    await cache.rank(_listing(10), "tool")
    assert ranker.threads == {threading.get_ident()}
    await cache.rank(_listing(300), "tool")
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
    part = {name: tool for name, tool in catalog.tools.items() if name != "tool_7"}
    for tools in (catalog.tools, catalog.tools, part):
        await cache.rank(tools, "tool", catalog=catalog)
    assert [thread == threading.get_ident() for thread in searching] == [False, stays, False]


async def test_searches_at_the_same_time_share_one_index(cache: IndexCache, ranker: Recording) -> None:
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(cache.rank, _listing(300), "tool")
    assert len(ranker.indexed) == 1


async def test_no_more_large_catalogs_are_ranked_at_once_than_allowed() -> None:
    running = 0
    most = 0
    lock = threading.Lock()
    together = threading.Barrier(2, timeout=10)

    class Counting(_Everything):
        def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            together.wait()
            with lock:
                running -= 1
            together.wait()
            return super().search(query)

    cache = IndexCache(lambda tools: Counting([tool.name for tool in tools]), max_concurrency=2)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(cache.rank, _listing(300), "tool")
    assert most == 2


async def test_what_is_no_valid_tool_is_not_indexed(cache: IndexCache, ranker: Recording) -> None:
    await cache.rank({"broken": {"name": "broken"}, **_listing(1)}, "tool")
    assert ranker.indexed == [["tool_0"]]


async def test_all_parts_of_a_catalog_share_one_index(cache: IndexCache, ranker: Recording) -> None:
    whole = CatalogSnapshot(_listing(4))
    part = {name: tool for name, tool in _listing(4).items() if name != "tool_2"}
    found = [hit.name for hit in await cache.rank(part, "tool", catalog=whole)]
    assert found == ["tool_0", "tool_1", "tool_3"]
    assert len(await cache.rank(_listing(4), "tool", catalog=whole)) == 4
    assert [len(indexed) for indexed in ranker.indexed] == [4]


class _Counting(dict[str, dict[str, Any]]):
    """A listing that counts how often it is gone through."""

    reads = 0

    def __iter__(self) -> Iterator[str]:
        self.reads += 1
        return super().__iter__()


async def test_a_part_made_of_the_definitions_of_its_catalog_is_compared_once(cache: IndexCache) -> None:
    whole = CatalogSnapshot(_listing(3))
    without = {hidden: _Counting({n: tool for n, tool in whole.tools.items() if n != hidden}) for hidden in whole.tools}
    for _ in range(2):
        for part in without.values():
            assert [hit.name for hit in await cache.rank(part, "tool", catalog=whole)] == list(dict(part))
    reads = [part.reads for part in without.values()]
    for part in without.values():
        assert whole.part(part) is not None
        assert whole.knows(part)
    assert [part.reads for part in without.values()] == reads


def test_a_part_made_of_definitions_that_are_merely_equal_is_compared_each_time() -> None:
    whole, part = CatalogSnapshot(_listing(3)), _listing(2)
    assert whole.part(part) == Part(frozenset(part))
    part["tool_1"]["description"] = "rewritten"
    assert whole.part(part) is None
    assert not whole.knows(part)


def test_only_some_parts_are_known_and_their_listings_kept() -> None:
    whole = CatalogSnapshot(_listing(3))
    first = _Counting(list(whole.tools.items())[:2])
    whole.part(first)
    kept = weakref.ref(first)
    others = [dict(list(whole.tools.items())[:1]) for _ in range(16)]
    assert kept() is first
    del first
    for other in others:
        whole.part(other)
    gc.collect()
    assert kept() is None
    assert len(whole.digest) == 32
    assert whole.knows(others[-1])


@pytest.mark.parametrize("unlike", [_listing(2, "rewritten"), _listing(5)])
async def test_a_listing_that_the_catalog_does_not_cover_has_an_index_of_its_own(
    cache: IndexCache, ranker: Recording, unlike: dict[str, dict[str, Any]]
) -> None:
    assert len(await cache.rank(unlike, "tool", catalog=CatalogSnapshot(_listing(4)))) == len(unlike)
    assert [len(indexed) for indexed in ranker.indexed] == [len(unlike)]


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


async def _names(cache: IndexCache, tools: dict[str, dict[str, Any]]) -> set[str]:
    return {hit.name for hit in await cache.rank(tools, "tool")}


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
    await cache.rank(first.tools, "tool", catalog=first)
    between = CatalogSnapshot({**first.tools, "other": {"name": "other", "inputSchema": {}}}, after=first)
    last = CatalogSnapshot({**first.tools, "tool_1": {"name": "tool_1", "inputSchema": {}}}, after=between)
    assert [last.digests[name] is first.digests[name] for name in last.tools] == [True, False, True]
    assert last.digest == CatalogSnapshot(last.tools).digest != first.digest
