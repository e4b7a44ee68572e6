"""Results as values, and their shape by the draft's own schema: pages, walks over pages, listings, surveys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_spec import EXTENSION_ID, schema

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.wire.codec import JsonObject, Packed, as_array, as_object, same
from tools_search_conformance.wire.connection import Connection
from tools_search_conformance.wire.eras import LEGACY, Era
from tools_search_conformance.wire.record import Exchange

_DEFINITIONS: Final[Mapping[str, Any]] = schema()["$defs"]
_NO_OTHER_SCHEMAS: Final[Registry[Any]] = Registry()
"""No reference of a value that a target sends leaves the draft's schema."""


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
    """All pages of `tools/list`."""

    tools: tuple[JsonObject, ...]
    exchange: Exchange
    """The last page's exchange."""

    @cached_property
    def by_name(self) -> dict[str, JsonObject]:
        """Definitions by name; of two tools with one name the first."""
        found: dict[str, JsonObject] = {}
        for tool in self.tools:
            found.setdefault(tool["name"], tool)
        return found

    def same_as(self, other: Listing) -> bool:
        """Return whether the other listing has the same definitions, in any order."""
        return len(self.tools) == len(other.tools) and same(self.by_name, other.by_name)

    def compared_to(self, before: Listing) -> Callable[[Listing, Listing], bool]:
        """Return the comparison that fits: a listing whose order varies without a search is no sequence to compare."""

        def in_order(one: Listing, other: Listing) -> bool:
            return same(list(one.tools), list(other.tools))

        return in_order if in_order(self, before) else Listing.same_as

    def difference_from(self, before: Listing) -> str:
        """Return in a few words what is other than it was before: tools, a member of one, or the order."""
        for text, these, those in (("has no more", before, self), ("has besides", self, before)):
            if names := [repr(name) for name in these.by_name if name not in those.by_name]:
                return f"{text} {', '.join(names[:3])}{f' and {len(names) - 3} others' if len(names) > 3 else ''}"
        for name, tool in self.by_name.items():
            was = before.by_name[name]
            differing = [each for each in {**was, **tool} if not same({each: was.get(each)}, {each: tool.get(each)})]
            if differing or was.keys() != tool.keys():
                members = ", ".join(differing or sorted(was.keys() ^ tool.keys()))
                return f"has {name!r} with another value of {members}"
        if len(self.tools) != len(before.tools):
            return f"has {len(self.tools)} tools in place of {len(before.tools)}, one of them several times"
        names, others = ([tool["name"] for tool in listing.tools] for listing in (self, before))
        place = next((place for place, pair in enumerate(zip(names, others, strict=True)) if pair[0] != pair[1]), 0)
        return f"has another order: {names[place]!r} in place {place + 1}, where {others[place]!r} was"


@dataclass(frozen=True)
class Survey:
    """The results of one visit to a fixture that serves a generated catalog."""

    catalog: JsonObject
    listing: Listing
    named: tuple[tuple[str, Exchange], ...]
    """For some names of tools, the exchange of the first page of a search."""
    walks: tuple[Walk, ...]
    wholes: tuple[Walk, ...]
    """A large first page for each of the same queries."""
    nothing: Exchange
    """A search for words of no language."""
    shared: tuple[Walk, ...]
    """Searches for words of which some tools have all."""
    after: Listing
    """The listing after all of them; the first one where it is too long to be listed again."""

    @property
    def pages(self) -> Iterator[Page]:
        """Every page of tools that a search brought."""
        yield from (page for walk in (*self.walks, *self.wholes) for page in walk.pages)
        for name, exchange in self.named:
            with suppress(UnverifiableError):  # that it is a page at all is for the searches by name to show
                yield read_page(exchange, name)


@dataclass
class SharedCases:
    """Answers that a cell asked for once and several checks judge."""

    answers: dict[str, tuple[Listing, Any]] = field(default_factory=dict[str, tuple[Listing, Any]])
    """What `Bench.once` has kept, and the listing at that time."""
    drawn: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Generated queries and limits."""

    walks: dict[tuple[str, int | None], Walk] = field(default_factory=dict[tuple[str, int | None], Walk])
    """Walks by generated query and limit."""
    walked_over: Listing | None = None
    """The listing at the time of these walks."""
    surveys: list[Survey | UnverifiableError] | None = None
    """Surveys of generated catalogs, or why there is none; `None` before the first one."""


def read_page(exchange: Exchange, what: str) -> Page:
    """Return the page that an exchange brought, or raise `UnverifiableError`; checks of its shape say what is wrong."""
    result = exchange.result
    if result is None:
        raise UnverifiableError(f"{what} was answered by {exchange.describe()}", exchange)
    items, cursor = as_array(result.get("tools")), result.get("nextCursor")
    tools = [tool for item in items or () if (tool := as_object(item)) and isinstance(tool.get("name"), str)]
    if items is None or len(tools) != len(items) or not (cursor is None or isinstance(cursor, str)):
        raise UnverifiableError(f"{what} brought no well-formed page; see result-schema", exchange)
    return Page(exchange, tools, cursor)


def bare(tool: JsonObject) -> JsonObject:
    """Return a definition without `_meta[EXTENSION_ID]`, and without `_meta` where that leaves it empty."""
    meta = as_object(tool.get("_meta"))
    if meta is None:
        return tool
    kept = {key: value for key, value in meta.items() if key != EXTENSION_ID}
    return {key: kept if key == "_meta" else value for key, value in tool.items() if key != "_meta" or kept}


def page_schema(era: Era) -> Mapping[str, Any]:
    """Return the schema of a page's own members, without those that have checks of their own."""
    tool = "#/$defs/LegacyTool" if era == LEGACY else "#/$defs/Tool"
    return {
        "type": "object",
        "required": ["tools"],
        "properties": {
            "tools": {"type": "array", "items": {"$ref": tool}},
            "nextCursor": {"$ref": "#/$defs/Cursor"},
            "_meta": {"$ref": "#/$defs/MetaObject"},
        },
    }


def complaint(value: Any, shape: str | Mapping[str, Any], definitions: Mapping[str, Any] = _DEFINITIONS) -> str | None:
    """Return what is wrong with `value`, or `None`; `shape` names one of `definitions` or is a schema using them."""
    wanted = {"$ref": f"#/$defs/{shape}"} if isinstance(shape, str) else shape
    validator = Draft202012Validator({**wanted, "$defs": definitions}, registry=_NO_OTHER_SCHEMAS)
    error = next(iter(validator.iter_errors(_unpacked(value))), None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType] - untyped generator
    return None if error is None else f"{error.json_path[:300]}: {error.message[:300]}"


def _unpacked(value: Any) -> Any:
    """Return a result whose tools are whole again, or any other value itself."""
    result = as_object(value) or {}
    if (tools := as_array(result.get("tools"))) is None:
        return value
    whole = list[Any]()
    for tool in tools:
        members = as_object(tool) or {}
        large = {name: member.whole for name, member in members.items() if isinstance(member, Packed)}
        whole.append({**members, **large} if large else tool)
    return {**result, "tools": whole}


def settings_in(capabilities: Any, place: str) -> JsonObject | None:
    """Return the extension's settings at `place` (`extensions`, `experimental`); anything but an object is absent."""
    held = as_object((as_object(capabilities) or {}).get(place)) or {}
    return as_object(held.get(EXTENSION_ID))


def settings_of(capabilities: Any, era: Era) -> JsonObject | None:
    """Return the settings where this era wants them advertised, in either place of the legacy one."""
    found = settings_in(capabilities, "extensions")
    return found if found is not None or era != LEGACY else settings_in(capabilities, "experimental")


def advertised_settings(connection: Connection) -> JsonObject | None:
    """Return the settings that the target advertised when the connection was opened."""
    return settings_of(connection.server.get("capabilities"), connection.era)
