"""List changes: searches agree with the current catalog, even between their pages.

The checks replace the fixture's catalog file, and list until the change shows. From then on, searches must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import anyio
from tools_search_spec import Primitive

from tools_search_conformance.catalogs import COMMON, WORDS, document_of, key_of, made_item
from tools_search_conformance.model import UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.list_bench import IN_TIME_SECONDS, INVALID_PARAMS, until
from tools_search_conformance.target.pages import Listing, Page, bare
from tools_search_conformance.target.primitives import TEMPLATES, expanded, keys_in
from tools_search_conformance.target.server import Opening
from tools_search_conformance.wire.codec import JsonObject, same

_CATALOG: Final = "changing"
_GONE, _ALTERED, _RESHAPED, _ADDED, _ADDED_TOO = WORDS[-1], WORDS[-2], WORDS[-3], "kiln", "loom"
_NEW_WORD: Final = "sepia"
_UNRELATED: Final = (
    "Weaves whatever is left in the valley at the end of the year, and puts it away until the first snow."
)
"""Describes the item named like the word of all items, so that only its name makes it the first match for that word."""

_REWORDED: Final = f"Minds the {_RESHAPED} of the {COMMON}."
_RESHAPES: Final[dict[str, JsonObject]] = {
    "Tool": {"inputSchema": {"type": "object", "required": ["hour"]}},
    "Resource": {"mimeType": "text/x-hour"},
    "ResourceTemplate": {"mimeType": "text/x-hour"},
    "Prompt": {"arguments": [{"name": "hour", "required": True}]},
}
"""Changed members that contain no searchable text, by the type of the items."""
_LOST: Final[JsonObject] = {"title": "Fill", "x-before": 1, "_meta": {"com.example/before": 1}}
"""Members that a definition only has before the change, or has with other values after it."""
_RICH: Final[JsonObject] = {
    "title": "Dry", "icons": [{"src": "https://example.com/kiln.png"}], "_meta": {"com.example/x": [None]}, "x-y": {},
}  # fmt: skip
_RICH_BY_TYPE: Final[dict[str, JsonObject]] = {
    "Tool": {"outputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False}},
    "Resource": {"mimeType": "text/plain", "annotations": {"priority": 0.5}},
    "ResourceTemplate": {"mimeType": "text/plain", "annotations": {"priority": 0.5}},
    "Prompt": {"arguments": [{"name": "hour"}]},
}
"""Members of a definition that the change adds."""

Items = Callable[[Primitive], Sequence[JsonObject]]
"""Returns the items of a list."""


def _before(primitive: Primitive) -> list[JsonObject]:
    return [made_item(primitive, word, **(_LOST if word == _ALTERED else {})) for word in WORDS]


def _after(primitive: Primitive) -> list[JsonObject]:
    return [
        *(made_item(primitive, word) for word in WORDS if word not in {_GONE, _ALTERED, _RESHAPED}),
        made_item(primitive, _RESHAPED, **_RESHAPES[primitive.items]),
        made_item(
            primitive,
            _ALTERED,
            description=f"Fills the {_ALTERED} of the {COMMON} with {_NEW_WORD}.",
            title="Refill",
        ),
        made_item(primitive, _ADDED, **_RICH, **_RICH_BY_TYPE[primitive.items]),
        made_item(primitive, _ADDED_TOO, name=COMMON, description=_UNRELATED),
    ]


def _reworded(primitive: Primitive) -> list[JsonObject]:
    """Return the items after the change, with one description reworded."""
    return [
        {**item, "description": _REWORDED} if item[primitive.key] == key_of(primitive, _RESHAPED) else item
        for item in _after(primitive)
    ]


def _reshaped_back(primitive: Primitive) -> list[JsonObject]:
    """Return the items of `_reworded`, but with the reworded item's other members as before the change."""
    reworded = made_item(primitive, _RESHAPED, description=_REWORDED)
    return [reworded if item[primitive.key] == reworded[primitive.key] else item for item in _reworded(primitive)]


async def changing(bench: Bench) -> Bench:
    """Return a bench whose fixture serves a catalog that `other_catalog` changes."""
    bench.applies(bench.serves_catalog, f"{bench.list_method} does not list the {bench.noun}s of the catalog file")
    bench.place(_CATALOG, document_of(_before))
    other = await bench.fixture("reload", Opening(catalog=_CATALOG))
    await _replace(other, _before)
    return other


async def changed_for_new_connections(bench: Bench) -> Bench:
    """Return a bench whose connection was opened after the catalog of a fixture running over HTTP changed."""
    await with_added_item(bench)
    return await bench.fixture("reload, opened later", Opening(catalog=_CATALOG))


async def with_added_item(bench: Bench) -> tuple[Bench, str]:
    """Return a bench of a running fixture after an item was added to its catalog, and the item's key."""
    other = await changing(bench)
    await _replace(other, _after)
    return other, key_of(bench.primitive, _ADDED)


async def with_removed_template(bench: Bench) -> tuple[Bench, str]:
    """Return a bench of a running fixture after a template was removed, and a URI to which that template expands."""
    other, uri = await changing(bench), expanded(key_of(TEMPLATES, _GONE))
    await other.server.search({"query": uri})  # the server may cache this answer
    await _replace(other.searching(TEMPLATES), _after)
    return other, uri


async def with_new_words(bench: Bench) -> tuple[Bench, dict[str, str]]:
    """Return such a bench, and the words that the change added, each with the key of the item that has it."""
    other, key = await with_added_item(bench)
    return other, {_ADDED: key, _NEW_WORD: key_of(bench.primitive, _ALTERED)}


async def other_catalog(bench: Bench, listing: Listing) -> Listing:
    """Replace the catalog in `listing` by the other one of the two, and return the new listing."""
    return await _replace(bench, _before if key_of(bench.primitive, _ADDED) in listing.by_key else _after)


def _document(bench: Bench, items: Items) -> JsonObject:
    """Return the catalog with a new list for this bench only, because each list changes independently."""
    return document_of(lambda primitive: (items if primitive is bench.primitive else _before)(primitive))


async def _replace(bench: Bench, items: Items) -> Listing:
    """Replace the catalog file, wait until a listing shows that, and return it."""
    bench.place(_CATALOG, _document(bench, items))
    given = {item[bench.primitive.key]: item for item in items(bench.primitive)}
    wanted = {key: item["description"] for key, item in given.items()}
    reshaped, member = key_of(bench.primitive, _RESHAPED), next(iter(_RESHAPES[bench.primitive.items]))
    shape, began = given.get(reshaped, {}).get(member), anyio.current_time()

    async def look() -> Listing | None:
        try:
            return await bench.server.listing()
        except UnverifiableError:
            bench.require(not bench.recorder.deaths, "the target exited when its catalog file was replaced")
        return None

    def shows(listing: Listing | None) -> bool:
        found = {} if listing is None else listing.by_key
        shown = same(found.get(reshaped, {}).get(member), shape)
        # A server may list members without searchable text in its own form.
        settled = shown or anyio.current_time() > began + IN_TIME_SECONDS
        return settled and {key: item.get("description") for key, item in found.items()} == wanted

    listing = await until(look, shows, bench.options.timeout)
    if listing is not None and shows(listing):
        return listing
    raise UnverifiableError(
        f"{bench.list_method} did not show the new catalog within {bench.options.timeout:g} s of the file's"
        " replacement, although the fixture has the feature `reload`"
    )


async def _expect_as_listed(bench: Bench, page: Page, listing: Listing, case: str) -> None:
    before = {item[bench.primitive.key]: item for item in _before(bench.primitive)}
    unlisted = await bench.finds_unlisted()
    for key, item in zip(page.keys, page.items, strict=True):
        listed = listing.by_key.get(key)
        if listed is None and unlisted and key not in before:
            continue
        bench.expect(
            listed is not None, page.exchange, f"{key!r} was found although it was removed from the catalog", case=case
        )
        if listed is not None and not same(bare(item), bare(listed)):
            if same(bare(item), bare(before.get(key, {}))):
                raise ViolationError(
                    f"{key!r} was found with its definition from before the change", page.exchange, case
                )
            message = f"{key!r} was found with another definition than it is listed with"
            raise ViolationError(message, page.exchange, case, consequence_of="definition-identity")


@server_check(
    title="After a change of the catalog, searches agree with the list",
    sends="Searches by exact name and for a word of all tools. Then, in this list alone, one tool is removed, two are"
    " added, and two are altered, one of them only in its `inputSchema`; once a search not preceded by a listing, or"
    " `tools/list`, shows this, the same searches again. Then one tool's description alone is altered, and then its"
    " `inputSchema` alone. Finally, every tool is removed, and one of them added again. The same in the other lists.",
    passes="The removed tool is not found, an added one is the first match, and altered ones are found as listed. A"
    " search shows the change without a `tools/list` before it. After every tool is removed, none is found,"
    " and then the only one left.",
    fixture_feature="reload",
)
async def change_seen(bench: Bench) -> None:
    other, words = await changing(bench), (_GONE, _ALTERED, _RESHAPED, _ADDED)
    keys = [*(key_of(bench.primitive, word) for word in words), COMMON]
    for key in keys:
        await other.server.page(key)
    listing = await _replaced_unlisted(bench, other)
    for key in keys:
        case = f"query {key!r} after the change"
        await _expect_as_listed(other, await other.served({"query": key}, case), listing, case)
        if key in listing.by_key:
            first = await other.server.first(key)
            message = f"after a change, {key!r} is listed, but a search for it returned {first.keys[:3]}"
            other.expect(first.keys[:1] == [key], first.exchange, message, case=case)
    for what, items in (("description", _reworded), ("shape", _reshaped_back)):
        key, listing = key_of(bench.primitive, _RESHAPED), await _replace(other, items)
        case = f"query {key!r} after a change of its {what} alone"
        await _expect_as_listed(other, await other.served({"query": key}, case), listing, case)
    await _replace(other, lambda _: [])
    key = key_of(bench.primitive, _GONE)
    for query in (COMMON, key):
        await other.expect_nothing({"query": query}, f"a search after every {bench.noun} was removed")
    await _replace(other, lambda primitive: [made_item(primitive, _GONE)])
    page = await other.server.first(key)
    message = f"{key!r}, the only {bench.noun} left, was removed and added again, but a search for it returned"
    only = f"query {key!r} for the only {bench.noun}"
    other.expect(page.keys[:1] == [key], page.exchange, f"{message} {page.keys}", case=only)


async def _replaced_unlisted(bench: Bench, other: Bench) -> Listing:
    """Replace the catalog of `other`, wait until a search shows that, and return the new listing.

    Over HTTP, the search is sent on a connection that has never requested a listing.
    """
    quiet, key = other, key_of(bench.primitive, _ADDED)
    if bench.cell.transport == "http":
        quiet = await bench.fixture("reload, unlisted", Opening(catalog=_CATALOG))
        await quiet.server.search({"query": COMMON})
    bench.place(_CATALOG, _document(bench, _after))
    exchange = await until(lambda: quiet.server.search({"query": key}), lambda exchange: key in keys_in(exchange))
    if key not in keys_in(exchange):
        listing = await other.server.listing()
        message = (
            f"{key!r} was added to the catalog, but searches did not find it for {IN_TIME_SECONDS:g} s,"
            f" until {bench.list_method} was called, which lists it"
        )
        other.expect(key not in listing.by_key, exchange, message, case=f"query {key!r} without a listing before it")
    return await _replace(other, _after)


@server_check(
    title="A cursor from before a change returns tools as they are listed now",
    sends="The first page of a search; then tools are removed, added and altered, and once `tools/list` shows this, the"
    " search continues with its cursor.",
    passes="Tools as they are listed now, or a refusal; in either case, a result for the next search.",
    fixture_feature="reload",
)
async def cursor_after_change(bench: Bench) -> None:
    other = await changing(bench)
    _, cursor = await other.page_with_cursor(COMMON, limit=2)
    listing = await _replace(other, _after)
    case = "a cursor from before a change of the catalog"
    async for page in other.pages_from(COMMON, cursor, case, most=len(_after(bench.primitive)) + 1):
        await _expect_as_listed(other, page, listing, case)
    await other.served({"query": COMMON}, "a search after a change between two pages")


@server_check(
    title=f"A cursor that a change made invalid is refused with error {INVALID_PARAMS}",
    sends="The first page of a search; then a tool on that page is removed, and once `tools/list` shows this, the"
    " search continues with its cursor.",
    passes=f"Error {INVALID_PARAMS}. Not applicable if cursors survive such a change.",
    fixture_feature="reload",
)
async def cursor_expired(bench: Bench) -> None:
    other = await changing(bench)
    first, cursor = await other.page_with_cursor(COMMON, limit=2)
    gone = next(iter(first.keys), key_of(bench.primitive, WORDS[0]))  # a first page may be empty
    await _replace(other, lambda primitive: [item for item in _before(primitive) if item[primitive.key] != gone])
    bad = {"query": COMMON, "cursor": cursor}
    exchange = await other.server.search(bad)
    other.applies(exchange.result is None, "the server honors cursors from before a change")
    _, cursor = await other.page_with_cursor(COMMON, limit=2)
    good = {"query": COMMON, "cursor": cursor}
    await other.refused_cursor(bad, good, "a cursor from before a change of the catalog")
