"""What a target lists and finds: pages, walks and listings that are well-formed. It judges nothing else of them."""

from __future__ import annotations

from typing import Any, Final

from tools_search_conformance.target.link import Link
from tools_search_conformance.target.pages import Listing, Page, Walk, read_page
from tools_search_conformance.target.shape import advertised, integer
from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.record import Exchange

__all__ = ["Reader"]

_PLENTY: Final = 50
"""A limit that most servers take as it is; those with a smaller maximum have to clamp it."""
_MOST_EMPTY: Final = 20
_MOST_LIST_PAGES: Final = 2000


class Reader(Link):
    """A line to the target that reads on."""

    async def page(self, query: str, *, limit: int | None = None, cursor: str | None = None) -> Page:
        """Return one page of a search that the draft allows.

        Raises:
            UnverifiableError: the search was refused or its result is not well-formed.
        """
        params: dict[str, Any] = {"query": query}
        if limit is not None:
            params["limit"] = limit
        if cursor is not None:
            params["cursor"] = cursor
        return read_page(await self.search(params), f"a search for {query!r}")

    async def walk(self, query: str, limit: int | None = None, *, most: int = 250) -> Walk:
        """Return the pages of one search, up to `most` of them or until a cursor comes again.

        An empty `nextCursor` ends it like none at all: that there is one is what cursor-nonempty is about.
        """
        pages, followed = [await self.page(query, limit=limit)], set[str]()
        while (cursor := pages[-1].next_cursor) and cursor not in followed and len(pages) < most:
            followed.add(cursor)
            pages.append(await self.page(query, limit=limit, cursor=cursor))
        return Walk(query, limit, tuple(pages), ended=not cursor, again=cursor in followed)

    async def first(self, query: str, *, limit: int | None = None) -> Page:
        """Return the first page of a search that holds a tool, or else its last one.

        Raises:
            UnverifiableError: as `page`.
        """
        page = await self.page(query, limit=limit)
        for _ in range(_MOST_EMPTY):
            if page.tools or not page.next_cursor:
                break
            page = await self.page(query, limit=limit, cursor=page.next_cursor)
        return page

    async def onward(self, query: str, cursor: str, *, most: int = 250) -> list[Page]:
        """Return the pages from `cursor` on, without a limit, up to `most` of them.

        Raises:
            UnverifiableError: as `page`.
        """
        pages = [await self.page(query, cursor=cursor)]
        while (following := pages[-1].next_cursor) and len(pages) < most:
            pages.append(await self.page(query, cursor=following))
        return pages

    async def plenty(self) -> int:
        """Return a limit that brings as much as the target says it returns at once, within reason."""
        most = integer((advertised(await self.connection()) or {}).get("maxLimit"))
        return min(most, _PLENTY) if most is not None and most > 0 else _PLENTY

    async def whole(self, query: str, limit: int | None = None) -> Walk:
        """Return all pages of one search, large ones unless `limit` is given.

        Raises:
            UnverifiableError: as `page`, or the pages do not end.
        """
        walk = await self.walk(query, limit or await self.plenty())
        if not walk.ended:
            pages = f"{len(walk.pages)} pages of a search for {query!r} are not all; see pages-end"
            raise UnverifiableError(pages, walk.last)
        return walk

    async def listing(self) -> Listing:
        """Return all that `tools/list` lists.

        Raises:
            UnverifiableError: it was refused, is not well-formed or does not end.
        """
        tools, cursor, seen = list[JsonObject](), None, None
        held: list[Exchange] = []
        for _ in range(_MOST_LIST_PAGES):
            page = read_page(await self.ask("tools/list", {} if cursor is None else {"cursor": cursor}), "tools/list")
            tools += page.tools
            held.append(page.exchange)
            cursor = page.next_cursor
            if cursor is None:
                return Listing(tuple(tools), page.exchange, seen, tuple(held))
            seen = seen or cursor
        raise UnverifiableError("tools/list does not end")
