"""`tools/list` over all servers: what is indexed first, then the lists of those that are searched where they are.

Those are read when a caller has come so far, one page at a time. A cursor holds the place in them, so that every
replica goes on with it. What a server that fails still has to list is left out, as are the tools of one that is down.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp import MCPError
from mcp_ext_tools_search.server.sieve import wire_form
from mcp_types import INVALID_PARAMS, Tool

from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import CursorSigner, invalid_cursor, page_of, room_for, size_of
from tools_search_server.base.redaction import quoted
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.views import View
from tools_search_server.upstreams.delegated_search import DelegatedPage, DelegatedSearch, NoAnswerError

__all__ = ["WholeListing"]

logger = logging.getLogger(__name__)

_PREFIX: Final = "at-"
_MOST_PAGES: Final = 10_000
"""Pages of one server after which the end of its list is no longer believed in."""

_MOST_EMPTY: Final = 20
"""Pages without a tool that are passed over for one request; then the caller gets an empty one, and goes on."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a page begins."""

    server: str
    pages: int = 0
    """How many pages of the server's list come before."""
    cursor: str | None = None
    """The server's own."""
    offset: int = 0
    """Tools of that page that come before, where it is larger than those that are made of it."""


class WholeListing:
    """Lists for each caller what it sees.

    Args:
        gateway: Whose tools these are.
        limits: Of a page, and the key of its cursors.
    """

    def __init__(self, gateway: Gateway, limits: Limits) -> None:
        self._gateway = gateway
        self._size = limits.page_size
        self._signer = CursorSigner(limits.cursor_key)

    async def page(self, view: View, cursor: str | None, protocol_version: str) -> dict[str, Any]:
        """Return the page of `view` at `cursor`, or the first one, as that protocol version allows.

        Raises:
            MCPError: -32602, there is no such cursor (any more).
        """
        if cursor is not None and cursor.startswith(_PREFIX):
            return await self._page_at(view, self._opened(view, cursor), protocol_version)
        beyond = self._after(view, None) if self._gateway.has_remotes else None
        if cursor is None and not view.offers and beyond is not None:
            return await self._page_at(view, beyond, protocol_version)
        page = view.pages.page(cursor, protocol_version)
        if "nextCursor" not in page and beyond is not None:
            return {**page, "nextCursor": self._closed(beyond)}
        return page

    async def _page_at(self, view: View, at: _Place, protocol_version: str) -> dict[str, Any]:
        place: _Place | None = at
        for _ in range(_MOST_EMPTY):
            if place is None:
                break
            page, upstream = DelegatedPage((), None), None
            for seen, remote in view.remotes:
                if seen.name == place.server:
                    upstream = seen.upstream
                    page = await _read(remote, place)
            listed = [] if upstream is None else [self._gateway.offer(upstream, tool).tool for tool in page.tools]
            tools = _cut(listed[place.offset :], self._size)
            place = self._following(view, place, page, place.offset + len(tools))
            if kept := [wire for tool in tools if (wire := wire_form(tool, protocol_version)) is not None]:
                return page_of(kept, None if place is None else self._closed(place))
        return page_of([], None if place is None else self._closed(place))

    def _following(self, view: View, place: _Place, page: DelegatedPage, offset: int) -> _Place | None:
        if offset < len(page.tools):
            return replace(place, offset=offset)
        if page.next_cursor is None or place.pages >= _MOST_PAGES:
            return self._after(view, place.server)
        return _Place(place.server, place.pages + 1, page.next_cursor)

    def _after(self, view: View, server: str | None) -> _Place | None:
        """Return where the list of the server after `server` begins, `None` for the first and where there is none."""
        names = [seen.name for seen, _ in view.remotes]
        behind = names[names.index(server) + 1 :] if server in names else names if server is None else []
        return _Place(behind[0]) if behind else None

    def _closed(self, place: _Place) -> str:
        return _PREFIX + self._signer.sign([place.server, place.pages, place.cursor, place.offset])

    def _opened(self, view: View, cursor: str) -> _Place:
        values: list[Any] | None = self._signer.verify(cursor.removeprefix(_PREFIX))
        place = None if values is None else _Place(*values)
        # What a caller does not see (any more) is answered as what was never there.
        if place is None or place.server not in (seen.name for seen, _ in view.remotes):
            raise invalid_cursor()
        return place


async def _read(remote: DelegatedSearch, place: _Place) -> DelegatedPage:
    try:
        return await remote.page(place.cursor)
    except NoAnswerError as failure:
        logger.warning("left out of a listing: %s", failure, extra={"server": place.server})
        return DelegatedPage((), None)
    except MCPError as error:
        if place.cursor is not None and error.code == INVALID_PARAMS:
            raise invalid_cursor() from error
        logger.warning("%s refuses to list: %s", place.server, quoted(error.message), extra={"server": place.server})
        return DelegatedPage((), None)


def _cut(tools: list[Tool], size: int) -> list[Tool]:
    """Return as many of the first tools as one page may hold: one at least, so that the listing ends."""
    wires = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools[:size]]
    return tools[: room_for([size_of(wire) for wire in wires])]
