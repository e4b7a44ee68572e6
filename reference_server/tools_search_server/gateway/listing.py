"""`tools/list` over all upstreams: the indexed tools first, then the pages of upstreams that search for themselves.

The gateway reads those pages one at a time, when a caller reaches them. A cursor contains the position, so every
replica can continue from it. If an upstream fails, the rest of its list is omitted; if it is down, all its tools are.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, Final

from mcp import MCPError
from mcp_ext_tools_search.server.listing import wire_form
from mcp_types import Tool

from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import CursorSigner, invalid_cursor, page_of, room_for, size_of
from tools_search_server.base.redaction import quoted
from tools_search_server.gateway.gateway import Gateway
from tools_search_server.gateway.views import View
from tools_search_server.upstreams.delegated_search import DelegatedPage, DelegatedSearch, NoAnswerError

logger = logging.getLogger(__name__)

_PREFIX: Final = "at-"
_AS_LISTED: Final[Any] = {"by_alias": True, "mode": "json", "exclude_none": True}
_MAX_PAGES: Final = 10_000
"""Number of pages of one upstream after which its list is considered endless."""

_MAX_EMPTY: Final = 20
"""Number of pages without a usable tool that one request skips. Then the caller gets an empty page and can continue."""


@dataclass(frozen=True, slots=True)
class _Place:
    """The start of a page."""

    server: str
    pages: int = 0
    """Number of the server's own pages before this one."""
    cursor: str | None = None
    """The server's own cursor."""
    offset: int = 0
    """Number of tools to skip in the server's page, if that page is larger than the gateway's."""


class GatewayListing:
    """The complete listing of a gateway, as each caller sees it."""

    def __init__(self, gateway: Gateway, limits: Limits) -> None:
        self._gateway = gateway
        self._size = limits.page_size
        self._signer = CursorSigner(limits.cursor_key)

    async def page(self, view: View, cursor: str | None, protocol_version: str) -> dict[str, Any]:
        """Return the page of `view` at `cursor`, or the first page, in the form of a protocol version.

        Raises:
            MCPError: -32602, the cursor is unknown or no longer valid.
        """
        if cursor is not None and cursor.startswith(_PREFIX):
            return await self._page_at(view, self._place_in(view, cursor), protocol_version)
        beyond = self._after(view, None)
        if cursor is None and not view.tools and beyond is not None:
            return await self._page_at(view, beyond, protocol_version)
        page = view.pages.page(cursor, protocol_version)
        # The last page of the indexed tools continues with the first delegated upstream.
        if "nextCursor" not in page and beyond is not None:
            return {**page, "nextCursor": self._cursor_to(beyond)}
        return page

    async def _page_at(self, view: View, at: _Place, protocol_version: str) -> dict[str, Any]:
        place: _Place | None = at
        kept: list[dict[str, Any]] = []
        for _ in range(_MAX_EMPTY):
            if place is None or kept:
                break
            # Empty if the upstream has just gone down.
            page, listed = DelegatedPage(), list[Tool]()
            for seen, delegate in view.delegated:
                if seen.name == place.server:
                    page = await _read(delegate, place)
                    listed = [self._gateway.expose(seen.upstream, tool).tool for tool in page.tools]
            tools = listed[place.offset : place.offset + self._size]
            # At least one, so that the listing ends.
            tools = tools[: room_for([size_of(tool.model_dump(**_AS_LISTED)) for tool in tools])]
            kept = [wire for tool in tools if (wire := wire_form(tool, protocol_version)) is not None]
            if (offset := place.offset + len(tools)) < len(page.tools):
                place = replace(place, offset=offset)
            elif page.next_cursor is None or place.pages >= _MAX_PAGES:
                place = self._after(view, place.server)
            else:
                place = _Place(place.server, place.pages + 1, page.next_cursor)
        return page_of(kept, None if place is None else self._cursor_to(place))

    def _after(self, view: View, server: str | None) -> _Place | None:
        """Return the start of the next upstream's list, or of the first one if `server` is `None`."""
        names = [seen.name for seen, _ in view.delegated]
        if server is not None:
            names = names[names.index(server) + 1 :] if server in names else []
        return _Place(names[0]) if names else None

    def _cursor_to(self, place: _Place) -> str:
        return _PREFIX + self._signer.sign([place.server, place.pages, place.cursor, place.offset])

    def _place_in(self, view: View, cursor: str) -> _Place:
        values: list[Any] | None = self._signer.verify(cursor.removeprefix(_PREFIX))
        place = None if values is None else _Place(*values)
        # A server that the caller cannot see is treated like one that does not exist.
        if place is None or place.server not in (seen.name for seen, _ in view.delegated):
            raise invalid_cursor()
        return place


async def _read(delegate: DelegatedSearch, place: _Place) -> DelegatedPage:
    try:
        return await delegate.page(place.cursor)
    except NoAnswerError as failure:
        logger.warning("omitted from a listing: %s", failure, extra={"server": place.server})
        return DelegatedPage()
    except MCPError as error:
        if place.cursor is not None:
            raise invalid_cursor() from error
        logger.warning("%s refused to list: %s", place.server, quoted(error.message), extra={"server": place.server})
        return DelegatedPage()
