"""Results as values, validated by the draft's schema: pages, walks over pages, listings, surveys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from jsonschema import Draft202012Validator
from referencing import Registry
from tools_search_spec import EXTENSION_ID, PRIMITIVES, Primitive, schema

from tools_search_conformance.model import UnverifiableError, grouped
from tools_search_conformance.target.primitives import TOOLS, noun_of, primitive_of
from tools_search_conformance.wire.codec import JsonObject, Packed, as_array, as_object, json_text, same
from tools_search_conformance.wire.connection import Connection
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.eras import LEGACY, Era
from tools_search_conformance.wire.record import Exchange

_DEFINITIONS: Final[Mapping[str, Any]] = schema()["$defs"]
_NO_OTHER_SCHEMAS: Final[Registry[Any]] = Registry()
"""Ensures that no reference in a target's value leads out of the draft's schema."""


@dataclass(frozen=True)
class Page:
    """A page of items, from a search or a list."""

    exchange: Exchange
    items: list[JsonObject]
    next_cursor: str | None

    @cached_property
    def keys(self) -> list[str]:
        """The items' keys, in order: for tools, their names."""
        return _keys(self.items, self.exchange)

    @property
    def aspects(self) -> dict[str, Any]:
        """What the page shows, by what it is called in messages; not the result's own `_meta`, times or cursor."""
        members, hits = set(self.exchange.result or {}) - {"_meta"}, dict(zip(self.keys, self.items, strict=True))
        return {
            f"the {noun_of(primitive_of(self.exchange.method))}s or their order": self.keys,
            "the members of the result": sorted(members),
            "the definitions": {key: bare(item) for key, item in hits.items()},
            "the hit metadata": {key: _hit_metadata(item) for key, item in hits.items()},
        }


@dataclass(frozen=True)
class Walk:
    """A search's pages, in order."""

    query: str
    limit: int | None
    pages: tuple[Page, ...]
    ended: bool
    """Whether the last page had no `nextCursor`, or an empty one; otherwise the walk was abandoned."""
    again: bool = False
    """Whether it was abandoned because a cursor was repeated."""

    @cached_property
    def keys(self) -> list[str]:
        """The keys on all pages, including duplicates."""
        return [key for page in self.pages for key in page.keys]

    @property
    def last(self) -> Exchange:
        """The exchange with the last page."""
        return self.pages[-1].exchange

    @property
    def case(self) -> str:
        """A description of the walk."""
        return f"query {self.query!r}, limit {self.limit}" if self.limit else f"query {self.query!r}, no limit"


@dataclass(frozen=True)
class Listing:
    """All pages of `tools/list`, or of another primitive's list."""

    items: tuple[JsonObject, ...]
    exchange: Exchange
    """The last page's exchange."""

    @cached_property
    def by_key(self) -> dict[str, JsonObject]:
        """Definitions by key; the first of any duplicates."""
        return {key: items[0] for key, items in self.all_by_key.items()}

    @cached_property
    def all_by_key(self) -> dict[str, list[JsonObject]]:
        """All definitions by key. A search considers any one of several."""
        return grouped(zip(_keys(self.items, self.exchange), self.items, strict=True))

    @property
    def key(self) -> str:
        """The member that identifies an item."""
        return primitive_of(self.exchange.method).key

    def same_as(self, other: Listing) -> bool:
        """Return whether the other listing has the same definitions, in any order."""
        return len(self.items) == len(other.items) and same(self.by_key, other.by_key)

    def in_order_of(self, other: Listing) -> bool:
        """Return whether the other listing has the same definitions, in the same order."""
        return same(list(self.items), list(other.items))

    def compared_to(self, *before: Listing) -> Callable[[Listing, Listing], bool]:
        """Return how to compare listings: ignoring the order if it varies even without a search."""
        return Listing.in_order_of if all(map(self.in_order_of, before)) else Listing.same_as

    def difference_from(self, before: Listing) -> str:
        """Return a short description of what changed: items, a member of one, or the order."""
        for text, these, those in (("no longer has", before, self), ("also has", self, before)):
            if keys := [repr(key) for key in these.by_key if key not in those.by_key]:
                others = f" and {number_of(len(keys) - 3, 'other')}" if len(keys) > 3 else ""
                return f"{text} {', '.join(keys[:3])}{others}"
        for key, item in self.by_key.items():
            was = before.by_key[key]
            differing = [each for each in {**was, **item} if not same({each: was.get(each)}, {each: item.get(each)})]
            if differing or was.keys() != item.keys():
                members = ", ".join(differing or sorted(was.keys() ^ item.keys()))
                return f"has {key!r} with a different {members}"
        if len(self.items) != len(before.items):
            nouns = f"{noun_of(primitive_of(self.exchange.method))}s"
            return f"has {len(self.items)} {nouns} instead of {len(before.items)}, one of them several times"
        keys, others = (_keys(listing.items, listing.exchange) for listing in (self, before))
        place = next((place for place, pair in enumerate(zip(keys, others, strict=True)) if pair[0] != pair[1]), 0)
        return f"has a different order: {keys[place]!r} is at position {place + 1} instead of {others[place]!r}"


def _keys(items: Iterable[JsonObject], exchange: Exchange) -> list[Any]:
    key = primitive_of(exchange.method).key
    return [item.get(key) for item in items]


@dataclass(frozen=True)
class Survey:
    """The results of a visit to a fixture that serves a generated catalog."""

    catalog: JsonObject
    opening: Exchange
    """Discovery or initialization, with the settings."""
    listing: Listing
    named: tuple[tuple[str, Exchange], ...]
    """The exchanges of the first pages of searches for some tool names."""
    walks: tuple[Walk, ...]
    wholes: tuple[Walk, ...]
    """A large first page for each of these queries."""
    nothing: Exchange
    """A search for words that are in no language."""
    shared: tuple[Walk, ...]
    """Searches for words that some tools all have."""
    after: Listing
    """The listing after all of them, or the first listing if it is too long to list again."""

    @property
    def pages(self) -> Iterator[Page]:
        """Yield every page of search results."""
        yield from (page for walk in (*self.walks, *self.wholes, *self.shared) for page in walk.pages)
        for name, exchange in self.named:
            with suppress(UnverifiableError):  # the searches by name show whether it is a page at all
                yield read_page(exchange, name)


@dataclass
class SharedCases:
    """Answers that a cell requests once and several checks judge."""

    answers: dict[str, tuple[Listing, Any]] = field(default_factory=dict[str, tuple[Listing, Any]])
    """The values kept by `Bench.once`, each with the listing at that time."""
    drawn: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])
    """Generated queries and limits."""

    walks: dict[tuple[str, int | None], Walk] = field(default_factory=dict[tuple[str, int | None], Walk])
    """Walks by generated query and limit."""
    walked_over: Listing | None = None
    """The listing at the time of these walks."""
    surveys: list[Survey | UnverifiableError] | None = None
    """Surveys of generated catalogs, or why there are none; `None` before the first one."""


def read_page(exchange: Exchange, what: str) -> Page:
    """Return an exchange's page; raises `UnverifiableError` (the checks of its shape say what is wrong)."""
    result = exchange.result
    if result is None:
        raise UnverifiableError(f"{what} got {exchange.describe()}", exchange)
    primitive = primitive_of(exchange.method)
    held, cursor = as_array(result.get(primitive.member)), result.get("nextCursor")
    items = [item for each in held or () if (item := as_object(each)) and isinstance(item.get(primitive.key), str)]
    if held is None or len(items) != len(held) or not (cursor is None or isinstance(cursor, str)):
        raise UnverifiableError(f"{what} returned no well-formed page; see result-schema", exchange)
    return Page(exchange, items, cursor)


def bare(item: JsonObject) -> JsonObject:
    """Return a definition without `_meta[EXTENSION_ID]`, and without `_meta` if it is then empty."""
    meta = as_object(item.get("_meta"))
    if meta is None:
        return item
    kept = {key: value for key, value in meta.items() if key != EXTENSION_ID}
    return {key: kept if key == "_meta" else value for key, value in item.items() if key != "_meta" or kept}


def _hit_metadata(item: JsonObject) -> Any:
    return (as_object(item.get("_meta")) or {}).get(EXTENSION_ID)


def page_schema(era: Era, primitive: Primitive = TOOLS) -> Mapping[str, Any]:
    """Return the schema of a page's members, except those with separate checks."""
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
    """Return what is wrong with `value`, or `None`; `shape` names one of `definitions`, or is a schema using them."""
    wanted = {"$ref": f"#/$defs/{shape}"} if isinstance(shape, str) else shape
    validator = Draft202012Validator({**wanted, "$defs": definitions}, registry=_NO_OTHER_SCHEMAS)
    error = next(iter(validator.iter_errors(_unpacked(value))), None)  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType, reportUnknownVariableType] - untyped generator
    if error is None:
        return None
    python, as_json = repr(error.instance), json_text(error.instance)
    message = as_json + error.message[len(python) :] if error.message.startswith(python) else error.message
    return f"{error.json_path[:300]}: {message[:300]}"


def _unpacked(value: Any) -> Any:
    """Return a result with its items unpacked, or any other value unchanged."""
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
    """Return the extension's settings at `place` (`extensions` or `experimental`); a non-object counts as absent."""
    held = as_object((as_object(capabilities) or {}).get(place)) or {}
    return as_object(held.get(EXTENSION_ID))


def settings_of(capabilities: Any, era: Era) -> JsonObject | None:
    """Return the settings from where this era requires them; in the legacy era, from either place."""
    found = settings_in(capabilities, "extensions")
    return found if found is not None or era != LEGACY else settings_in(capabilities, "experimental")


def advertised_settings(connection: Connection) -> JsonObject | None:
    """Return the settings that the target advertised when the connection was opened."""
    return settings_of(connection.server.get("capabilities"), connection.era)
