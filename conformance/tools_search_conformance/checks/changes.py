"""List changes: a search goes by the catalog as it is, also in the middle of its pages.

The fixture's file is replaced, and the listing asked until it shows that. From then on, search must agree with it.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import anyio

from tools_search_conformance.catalogs.made import COMMON, WORDS, document, made_tool, name_of
from tools_search_conformance.run.registry import check
from tools_search_conformance.run.setting import Opening
from tools_search_conformance.target.bench import INVALID_PARAMS
from tools_search_conformance.target.pages import Listing, Page, bare, read_page
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject, same

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench
    from tools_search_conformance.wire.record import Exchange

__all__ = ["changing", "other_catalog"]

_CATALOG: Final = "changing"
_LOOK_SECONDS: Final = 0.05
_BEFORE: Final = [made_tool(word) for word in WORDS]
_GONE, _ALTERED, _ADDED = WORDS[-1], WORDS[-2], "kiln"
_AFTER: Final = [
    *(made_tool(word) for word in WORDS if word not in {_GONE, _ALTERED}),
    made_tool(_ALTERED, description=f"Fills the {_ALTERED} of the {COMMON} with sepia.", title="Refill"),
    made_tool(_ADDED),
]

_ADDED_NAME: Final = name_of(_ADDED)


@asynccontextmanager
async def changing(bench: Bench) -> AsyncGenerator[Bench]:
    """Give a bench whose fixture serves `_BEFORE`."""
    bench.place(_CATALOG, document(_BEFORE))
    async with bench.beside("reload", Opening(catalog=_CATALOG)) as other:
        await _listed(other, _BEFORE)
        yield other


async def _change(bench: Bench) -> Listing:
    """Replace the file by `_AFTER` and return the listing that shows it."""
    bench.place(_CATALOG, document(_AFTER))
    return await _listed(bench, _AFTER)


async def other_catalog(bench: Bench, listing: Listing) -> Listing:
    """Replace the file by that of the two which `listing` does not show, and return the listing that shows it."""
    if _ADDED_NAME not in listing.by_name:
        return await _change(bench)
    bench.place(_CATALOG, document(_BEFORE))
    return await _listed(bench, _BEFORE)


async def _listed(bench: Bench, tools: Sequence[JsonObject]) -> Listing:
    wanted = {tool["name"]: tool["description"] for tool in tools}
    with anyio.move_on_after(bench.setting.seconds):
        while True:
            try:
                listing = await bench.listing()
                if {name: tool.get("description") for name, tool in listing.by_name.items()} == wanted:
                    return listing
            except UnverifiableError:
                bench.require(bench.deaths == [], "the target ended when its catalog file was replaced")
            await anyio.sleep(_LOOK_SECONDS)
    raise UnverifiableError(
        f"{bench.setting.seconds:g} s after its catalog file was replaced, tools/list did not show it;"
        " the fixture is said to have the feature `reload`"
    )


def _agree(bench: Bench, page: Page, listing: Listing, case: str) -> None:
    """Expect every tool of a page to be listed, as it is listed."""
    for tool in page.tools:
        name, listed = tool["name"], listing.by_name.get(tool["name"])
        bench.expect(listed is not None, page.exchange, f"{name!r} was found although it is gone", case=case)
        if listed is not None:
            as_listed = same(bare(tool), bare(listed))
            bench.expect(as_listed, page.exchange, f"{name!r} was found as it was before the change", case=case)


@check(
    "change-seen",
    title="After a change of the catalog, the next search agrees with the list",
    sends="Searches by exact name. Then one tool goes, one comes, one is altered, and once `tools/list` shows it, each"
    " is searched for again.",
    passes="The tool that went is not found, the one that came is the first match, the altered one is as it is listed.",
    feature="reload",
)
async def sees_changes(bench: Bench) -> None:
    async with changing(bench) as other:
        for word in (_GONE, _ALTERED, _ADDED):
            await other.page(name_of(word))
        listing = await _change(other)
        for word in (_GONE, _ALTERED, _ADDED):
            case = f"query {name_of(word)!r} after the change"
            page = await other.served({"query": name_of(word)}, case)
            _agree(other, page, listing, case)
            if word != _GONE:
                first = await other.first(name_of(word))
                come = first.names[:1] == [name_of(word)]
                other.expect(come, first.exchange, f"{name_of(word)!r} is listed, but not the first match", case=case)


async def _first_page(bench: Bench) -> Page:
    first = await bench.page(COMMON, limit=2)
    bench.require(bool(first.next_cursor), f"a search for {COMMON!r} under limit 2 has one page", first.exchange)
    return first


async def _go_on(bench: Bench) -> tuple[Listing, Exchange]:
    """Change the catalog after a first page; return the listing and what came of the cursor afterwards."""
    first = await _first_page(bench)
    listing = await _change(bench)
    return listing, await bench.search({"query": COMMON, "cursor": first.next_cursor})


@check(
    "cursor-after-change",
    title="A cursor from before a change leads to tools as they are listed",
    sends="The first page of a search; then a tool goes, one comes, one is altered, and once `tools/list` shows it, the"
    " search goes on with its cursor.",
    passes="Listed tools as they are listed, or a refusal; the next search is served in any case.",
    feature="reload",
)
async def goes_on_after_changes(bench: Bench) -> None:
    async with changing(bench) as other:
        listing, exchange = await _go_on(other)
        case = "a cursor from before a change of the catalog"
        for _ in _AFTER:
            if exchange.result is None:
                break
            page = read_page(exchange, case)
            _agree(other, page, listing, case)
            if not page.next_cursor:
                break
            exchange = await other.search({"query": COMMON, "cursor": page.next_cursor})
        await other.served({"query": COMMON}, "a search after a change between two pages")


@check(
    "cursor-expired",
    title=f"A cursor that a change has ended is refused with error {INVALID_PARAMS}",
    sends="The first page of a search; then a tool that it showed goes, and once `tools/list` shows it, the search goes"
    " on with its cursor.",
    passes=f"Error {INVALID_PARAMS}. Not applicable where cursors outlive such a change.",
    feature="reload",
)
async def refuses_ended_cursors(bench: Bench) -> None:
    async with changing(bench) as other:
        first = await _first_page(other)
        left = [tool for tool in _BEFORE if tool["name"] != first.names[0]]
        other.place(_CATALOG, document(left))
        await _listed(other, left)
        cursor = str(first.next_cursor)
        exchange = await other.search({"query": COMMON, "cursor": cursor})
        other.applies(exchange.result is None, "the server honours cursors from before a change")
        fresh = (await other.page(COMMON, limit=2)).next_cursor
        other.require(bool(fresh), f"a search for {COMMON!r} under limit 2 has one page")
        bad, mended = ({"query": COMMON, "cursor": each} for each in (cursor, fresh))
        await other.refused_cursor(bad, mended, "a cursor from before a change of the catalog")
