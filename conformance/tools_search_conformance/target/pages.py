"""Results as values: one page, a walk over pages, the whole listing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.verdict import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, same
from tools_search_conformance.wire.record import Exchange

__all__ = ["Listing", "Page", "Walk", "bare", "compared", "read_page"]


@dataclass(frozen=True)
class Page:
    """One page of tools, from a search or a listing."""

    exchange: Exchange
    tools: list[JsonObject]
    next_cursor: str | None

    @property
    def names(self) -> list[str]:
        """The tools' names, in their order."""
        return [tool["name"] for tool in self.tools]


@dataclass(frozen=True)
class Walk:
    """The pages of one search, first to last."""

    query: str
    limit: int | None
    pages: tuple[Page, ...]
    ended: bool
    """Whether the last page had no `nextCursor`, or an empty one; otherwise the walk was given up."""
    again: bool = False
    """Whether it was given up because a cursor came that had been followed already."""

    @property
    def names(self) -> list[str]:
        """The names on all pages, repetitions included."""
        return [name for page in self.pages for name in page.names]

    @property
    def last(self) -> Exchange:
        """The exchange that brought the last page."""
        return self.pages[-1].exchange

    @property
    def case(self) -> str:
        """The walk in words."""
        return f"query {self.query!r}, limit {self.limit}" if self.limit else f"query {self.query!r}, no limit"


@dataclass(frozen=True)
class Listing:
    """What `tools/list` returns, all pages."""

    tools: tuple[JsonObject, ...]
    exchange: Exchange
    """The last page's exchange."""
    cursor: str | None
    """A `nextCursor` seen on the way, where the listing has pages."""
    pages: tuple[Exchange, ...] = ()
    """The exchanges that brought it, which share their memory with the tools."""

    @cached_property
    def by_name(self) -> dict[str, JsonObject]:
        """Definitions by name; of two tools with one name the first."""
        found: dict[str, JsonObject] = {}
        for tool in self.tools:
            found.setdefault(tool["name"], tool)
        return found

    def same_as(self, other: Listing) -> bool:
        """Tell whether the other listing has the same definitions, in any order."""
        return len(self.tools) == len(other.tools) and same(self.by_name, other.by_name)

    def same_sequence_as(self, other: Listing) -> bool:
        """Tell whether the other listing has the same definitions in the same order."""
        return same(list(self.tools), list(other.tools))


def compared(before: Listing, again: Listing) -> Callable[[Listing, Listing], bool]:
    """Return the comparison that fits: a listing whose order varies of itself is no sequence to compare."""
    return Listing.same_sequence_as if again.same_sequence_as(before) else Listing.same_as


def read_page(exchange: Exchange, what: str) -> Page:
    """Return the page that an exchange brought.

    Raises:
        UnverifiableError: it brought none. The checks of the result's shape say what is wrong with it.
    """
    result = exchange.result
    if result is None:
        raise UnverifiableError(f"{what} was answered by {exchange.describe()}", exchange)
    tools = _named(result.get("tools"))
    cursor = result.get("nextCursor")
    if tools is None or not (cursor is None or isinstance(cursor, str)):
        raise UnverifiableError(f"{what} brought no well-formed page; see result-schema", exchange)
    return Page(exchange, tools, cursor)


def _named(value: Any) -> list[JsonObject] | None:
    tools = [as_object(item) for item in as_array(value) or [None]] if value != [] else []
    named = [tool for tool in tools if tool is not None and isinstance(tool.get("name"), str)]
    return named if len(named) == len(tools) else None


def bare(tool: JsonObject) -> JsonObject:
    """Return a definition without `_meta[EXTENSION_ID]`, and without `_meta` where that leaves it empty."""
    meta = as_object(tool.get("_meta"))
    if meta is None:
        return tool
    kept = {key: value for key, value in meta.items() if key != EXTENSION_ID}
    rest = {key: value for key, value in tool.items() if key != "_meta"}
    return rest | {"_meta": kept} if kept else rest
