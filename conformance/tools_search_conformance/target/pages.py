"""Results as values, and their shape by the draft's own schema: pages, walks over pages, listings, surveys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_spec import EXTENSION_ID, PRIMITIVES, Primitive, schema

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.primitives import TOOLS, noun_of, primitive_of
from tools_search_conformance.wire.codec import JsonObject, Packed, as_array, as_object, same
from tools_search_conformance.wire.connection import Connection
from tools_search_conformance.wire.eras import LEGACY, Era
from tools_search_conformance.wire.record import Exchange

_DEFINITIONS: Final[Mapping[str, Any]] = schema()["$defs"]
_NO_OTHER_SCHEMAS: Final[Registry[Any]] = Registry()
"""No reference of a value that a target sends leaves the draft's schema."""


@dataclass(frozen=True)
class Page:
    """One page of items, from a search or a list."""

    exchange: Exchange
    items: list[JsonObject]
    next_cursor: str | None

    @cached_property
    def keys(self) -> list[str]:
        """The keys of the items, in their order: the names of tools."""
        return _keys(self.items, self.exchange)


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

    @cached_property
    def keys(self) -> list[str]:
        """The keys on all pages, repetitions included."""
        return [key for page in self.pages for key in page.keys]

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
    """All pages of `tools/list`, or of the list of another primitive."""

    items: tuple[JsonObject, ...]
    exchange: Exchange
    """The last page's exchange."""

    @cached_property
    def by_key(self) -> dict[str, JsonObject]:
        """Definitions by key; of two with one key the first."""
        found: dict[str, JsonObject] = {}
        for key, item in zip(_keys(self.items, self.exchange), self.items, strict=True):
            found.setdefault(key, item)
        return found

    @property
    def key(self) -> str:
        """The member that identifies an item."""
        return primitive_of(self.exchange.method).key

    def same_as(self, other: Listing) -> bool:
        """Return whether the other listing has the same definitions, in any order."""
        return len(self.items) == len(other.items) and same(self.by_key, other.by_key)

    def compared_to(self, before: Listing) -> Callable[[Listing, Listing], bool]:
        """Return the comparison that fits: a listing whose order varies without a search is no sequence to compare."""

        def in_order(one: Listing, other: Listing) -> bool:
            return same(list(one.items), list(other.items))

        return in_order if in_order(self, before) else Listing.same_as

    def difference_from(self, before: Listing) -> str:
        """Return in a few words what is other than it was before: items, a member of one, or the order."""
        for text, these, those in (("has no more", before, self), ("has besides", self, before)):
            if keys := [repr(key) for key in these.by_key if key not in those.by_key]:
                return f"{text} {', '.join(keys[:3])}{f' and {len(keys) - 3} others' if len(keys) > 3 else ''}"
        for key, item in self.by_key.items():
            was = before.by_key[key]
            differing = [each for each in {**was, **item} if not same({each: was.get(each)}, {each: item.get(each)})]
            if differing or was.keys() != item.keys():
                members = ", ".join(differing or sorted(was.keys() ^ item.keys()))
                return f"has {key!r} with another value of {members}"
        if len(self.items) != len(before.items):
            nouns = f"{noun_of(primitive_of(self.exchange.method))}s"
            return f"has {len(self.items)} {nouns} in place of {len(before.items)}, one of them several times"
        keys, others = (_keys(listing.items, listing.exchange) for listing in (self, before))
        place = next((place for place, pair in enumerate(zip(keys, others, strict=True)) if pair[0] != pair[1]), 0)
        return f"has another order: {keys[place]!r} in place {place + 1}, where {others[place]!r} was"


def _keys(items: Iterable[JsonObject], exchange: Exchange) -> list[Any]:
    key = primitive_of(exchange.method).key
    return [item.get(key) for item in items]


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
        """Every page of items that a search brought."""
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
    primitive = primitive_of(exchange.method)
    held, cursor = as_array(result.get(primitive.member)), result.get("nextCursor")
    items = [item for each in held or () if (item := as_object(each)) and isinstance(item.get(primitive.key), str)]
    if held is None or len(items) != len(held) or not (cursor is None or isinstance(cursor, str)):
        raise UnverifiableError(f"{what} brought no well-formed page; see result-schema", exchange)
    return Page(exchange, items, cursor)


def bare(item: JsonObject) -> JsonObject:
    """Return a definition without `_meta[EXTENSION_ID]`, and without `_meta` where that leaves it empty."""
    meta = as_object(item.get("_meta"))
    if meta is None:
        return item
    kept = {key: value for key, value in meta.items() if key != EXTENSION_ID}
    return {key: kept if key == "_meta" else value for key, value in item.items() if key != "_meta" or kept}


def page_schema(era: Era, primitive: Primitive = TOOLS) -> Mapping[str, Any]:
    """Return the schema of a page's own members, without those that have checks of their own."""
    item = "LegacyTool" if primitive is TOOLS and era == LEGACY else primitive.items
    return {
        "type": "object",
        "required": [primitive.member],
        "properties": {
            primitive.member: {"type": "array", "items": {"$ref": f"#/$defs/{item}"}},
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
    """Return a result whose items are whole again, or any other value itself."""
    result = as_object(value) or {}
    for name in (primitive.member for primitive in PRIMITIVES):
        if (items := as_array(result.get(name))) is not None:
            result = {**result, name: [_whole(item) for item in items]}
            value = result
    return value


def _whole(item: Any) -> Any:
    members = as_object(item) or {}
    large = {name: member.whole for name, member in members.items() if isinstance(member, Packed)}
    return {**members, **large} if large else item


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
