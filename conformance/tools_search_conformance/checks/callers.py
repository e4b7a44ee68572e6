"""Callers that see different tools: hidden tools leave no trace in the answers to a caller.

Over HTTP, the fixture hides some tools from the caller with a certain token. The answers to this caller are compared
with those of another fixture, whose catalog never had these tools.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from tools_search_spec import EXTENSION_ID, PRIMITIVES, Primitive

from tools_search_conformance.catalogs import COMMON, WORDS, document_of, key_of, made_item, name_of
from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.list_bench import until
from tools_search_conformance.target.pages import Page, advertised_settings, complaint
from tools_search_conformance.target.primitives import (
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    expanded,
    keys_in,
    params_of_use,
    primitive_of,
)
from tools_search_conformance.target.server import Opening
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject, as_object, json_text, same
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_TOKEN: Final = "restricted"  # noqa: S105 - it opens nothing
_CATALOG: Final = "callers"
_HALVES: Final = "callers-of-halves"
_CHANGING: Final = "callers-changing"
_OTHERS: Final = "callers-of-others"
_CACHE_HINTS: Final = frozenset({"ttlMs", "cacheScope"})
_LEGIBLE_NUMBERS: Final = "nextCursor with the numbers"
_SPELLINGS: Final = ("{}", " {}", "{} ", "{}\n", "{}.", "{},", "{}!", "{}?")
"""Spellings of a query that has the same matches."""
_MAY_BE_ABSENT: Final = frozenset({"catalogSize", "topics"})
_MAIN: Final = frozenset({*(primitive.member for primitive in PRIMITIVES), "nextCursor", "error"})

_SHARED_WORD: Final = WORDS[0]
"""A word of one visible tool and of nearly all hidden ones, so that its weight would reveal them."""

_SHARED_NAME: Final = WORDS[4]
"""A word of a visible resource or template that has the same name as a hidden one."""

# A server may take its topics from the groups.
_NUMBERS: Final = range(120)
"""Those of the hidden items: more than a server may rank before it leaves out what a caller does not see."""

_CROWD: Final = " ".join([COMMON] * 6)
"""Ranks hidden items before visible ones in a search for this word."""

_LATER_PAGES: Final = ((3, 2), (len(WORDS) - 1, 2))
"""Limits of a search for all visible tools, each with the number of the page to compare."""
_IN_FLIGHT: Final = 3
_FEW: Final = 2
"""The limit of a search for words of content in several pages."""
_RANDOM: Final = re.compile(r"(?<![\w+/=-])(?=[\w+/=-]*[a-z])(?=[\w+/=-]*[A-Z])[\w+/=-]{12,}")
"""Probably base64 of random bytes, such as a MAC, in which digits may be between separators by chance.

The lookbehind keeps matching linear in the length of a cursor.
"""
_LEGIBLE: Final = 8
"""Minimum length of a part of a cursor that is decoded. Shorter ones may be valid UTF-8 by chance."""
_SEALED: Final = "testament"
"""A word that only contents have."""
_NO_CONTENT: Final = {key_of(RESOURCES, _SHARED_WORD): ""}
"""An empty content, because a server may only advertise search of contents if the catalog file has some."""


def _visible(primitive: Primitive) -> list[JsonObject]:
    meta = {EXTENSION_ID: {"group": "tools of the meadow"}}
    # Lengths differ, because the average length may influence scores.
    texts = [f"Looks after the {word} of the {COMMON}{', day after day' * n}." for n, word in enumerate(WORDS)]
    return [made_item(primitive, word, description=text, _meta=meta) for word, text in zip(WORDS, texts, strict=True)]


def _hidden(primitive: Primitive) -> list[JsonObject]:
    return [
        made_item(
            primitive,
            f"{_SHARED_WORD}_{number}",
            description=f"Hides {number} {_SHARED_WORD} behind another {_SHARED_WORD}, far from any {COMMON}"
            f" and out of sight. {_CROWD}",
            title=f"Veiled {number}",
            _meta={EXTENSION_ID: {"group": "what is hidden"}},
            **({} if number or primitive.key == "name" else {"name": name_of(_SHARED_NAME)}),
            **({"annotations": {"readOnlyHint": True}} if primitive is TOOLS and number == _NUMBERS[-1] else {}),
        )
        for number in _NUMBERS
    ]


def _hidden_keys(primitive: Primitive) -> list[str]:
    return [key_of(primitive, f"{_SHARED_WORD}_{number}") for number in _NUMBERS]


def _searches(primitive: Primitive) -> tuple[JsonObject, ...]:
    secret, *_, last = _hidden_keys(primitive)
    named = [name_of(word) for word in (_SHARED_NAME, f"{_SHARED_WORD}_{_NUMBERS[-1]}")] * (primitive.key != "name")
    contained = [_SEALED] * (primitive is RESOURCES)
    return (
        {"query": COMMON},
        {"query": COMMON, "limit": 3},
        {"query": COMMON, "limit": len(WORDS)},
        *({"query": f"{_SHARED_WORD} {word}"} for word in WORDS[1:4]),
        {"query": f"{COMMON} {WORDS[1]}"},
        {"query": _SHARED_WORD, "limit": 1},
        {"query": "anvli"},  # a server may correct it to a word of its tools
        {"query": secret},
        {"query": last},
        *({"query": text} for text in (*named, *contained)),
        {"query": "hides behind sight"},  # words that only hidden tools have
        {"query": NONSENSE},
        # These are refused.
        {"query": ""},
        {"query": secret, "limit": 0},
        {"query": secret, "cursor": "no such cursor"},
    )


def _authorized(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}


async def _caller(bench: Bench, catalog: str, items: Sequence[JsonObject], token: str | None = None) -> Bench:
    """Return the bench of a caller to whom the fixture of a catalog lists these items."""
    bench.applies(bench.serves_catalog, f"{bench.list_method} does not list the {bench.noun}s of the catalog file")
    whose = "a caller without a token" if token is None else "a restricted caller"
    other = await bench.fixture(f"{catalog}, {token}", Opening(catalog=catalog, headers=_authorized(token)))
    # List every fixture before it is compared, so that all are in the same state.
    wanted = {item[bench.primitive.key] for item in items}
    listing = await other.server.listing()
    if set(listing.by_key) != wanted:  # it may confuse callers, but searches show that too
        listing = await other.server.listing()
    wrong = f"{bench.list_method} does not return the list for {whose} that the catalog file defines"
    wrong += "; see the fixture feature `callers`"
    other.require(set(listing.by_key) == wanted, wrong, listing.exchange)
    return other


async def callers(bench: Bench) -> tuple[Bench, Bench]:
    """Return the benches of a caller who sees every item, and of one from whom some are hidden."""

    def every(primitive: Primitive) -> list[JsonObject]:
        return [*_hidden(primitive), *_visible(primitive)]

    keys = [key for primitive in PRIMITIVES for key in _hidden_keys(primitive)]
    contents = dict.fromkeys(_hidden_keys(RESOURCES), f"The {_SEALED} of the {COMMON}")
    bench.place(_CATALOG, document_of(every, hidden={_TOKEN: keys}, contents=contents))
    everyone = await _caller(bench, _CATALOG, every(bench.primitive))
    return everyone, await _caller(bench, _CATALOG, _visible(bench.primitive), _TOKEN)


async def _reference(bench: Bench, name: str) -> Bench:
    """Return a bench whose fixture never had the hidden items."""
    bench.place(name, document_of(_visible, contents=_NO_CONTENT))
    return await _caller(bench, name, _visible(bench.primitive))


@server_check(
    title="`cacheScope` is private if callers see different tools",
    sends="Searches without a token, and with the token of a caller who sees fewer tools: first, second and last pages,"
    " with many matches, one, and none. Searches of another list on a fixture whose callers see the same tools, and of"
    " tools after a change that hides one, if the fixture can be reloaded.",
    passes='`cacheScope` is `"private"` on each page.',
    eras=(MODERN,),
    transports=("http",),
    fixture_feature="callers",
)
async def cache_scope_varying(bench: Bench) -> None:
    def judge(other: Bench, page: Page, because: str) -> None:
        scope = (page.exchange.result or {}).get("cacheScope")
        message = f"cacheScope is {scope!r} instead of 'private', but {because}"
        other.expect(scope == "private", page.exchange, message, case=f"params {json_text(page.exchange.params)}")

    for other in await callers(bench):
        first = await other.server.page(COMMON, limit=1)
        pages = [
            first,
            *[await other.server.page(query) for query in (COMMON, NONSENSE, key_of(bench.primitive, _SHARED_WORD))],
        ]
        if first.next_cursor is not None:
            pages.append(await other.server.page(COMMON, limit=1, cursor=first.next_cursor))
            pages += (await other.server.walk(COMMON, await other.server.large_limit())).pages
        for page in pages:
            judge(other, page, f"callers see different {bench.noun}s")
    if bench.primitive is not TOOLS:
        other = await _alone_varying(bench)
        judge(other, await other.server.page(COMMON), f"callers see different {bench.noun}s and the same tools")
        return

    async def judge_changed(bench: Bench) -> None:
        key = key_of(TOOLS, WORDS[-1])
        other = await _hidden_by_change(bench, key, lambda caller: caller.server.search({"query": COMMON}))
        judge(other, await other.server.page(COMMON), "a change has hidden a tool from a caller")

    await bench.where_reloaded(judge_changed)


async def _alone_varying(bench: Bench) -> Bench:
    """Return the bench of a fixture whose callers see different items of this list and the same tools."""

    def every(primitive: Primitive) -> list[JsonObject]:
        return [*(_hidden(primitive) if primitive is not TOOLS else ()), *_visible(primitive)]

    hidden = {f"{_TOKEN}-{each.member}": _hidden_keys(each) for each in PRIMITIVES if each is not TOOLS}
    bench.place(_OTHERS, document_of(every, hidden=hidden))
    return await _caller(bench, _OTHERS, every(bench.primitive))


@server_check(
    title="Tools that a caller may not see do not influence the answers to that caller",
    sends="`server/discover` or `initialize`, and valid and invalid searches, including later pages and searches for"
    " words of the content of hidden resources: from a caller from whom most tools are hidden, and to a fixture that"
    " does not have these tools. Searches from two callers in turn on one connection, in flight together on two, and"
    " with another half of the tools hidden from each. If the fixture can be reloaded, a search for a tool that a"
    " change hides.",
    passes="The same settings, except that `catalogSize` and `topics` may be absent; the same tools in the same order"
    " with the same hit metadata, a next page in the same cases, the same readable numbers in its cursor, the same"
    " other members, and the same errors. On one connection, each caller gets the same answers as on its own"
    " connection. No hidden tool.",
    transports=("http",),
    fixture_feature="callers",
)
async def hidden_tools_inert(bench: Bench) -> None:
    everyone, restricted = await callers(bench)
    reference = await _reference(bench, "callers-visible")
    compared = await _compare_settings(bench, restricted, reference) if bench.primitive is TOOLS else 0
    later = [({"query": COMMON, "limit": limit}, page) for limit, page in _LATER_PAGES]
    later.append(({"query": _hidden_keys(bench.primitive)[0], "limit": _FEW}, 2))
    again = partial(_reference, bench, "callers-visible-again")
    cases = [*((params, 1) for params in _searches(bench.primitive)), *later]
    compared += await _expect_same_answers((everyone, restricted, reference), again, cases, f"hidden {bench.noun}s")
    restricted.require(compared > 0, "two fixtures with the same catalog and nothing hidden return different answers")
    await _expect_restrictions_told_apart(bench)
    if bench.cell.era == MODERN:  # a legacy session may be that of one caller
        searches = _searches(bench.primitive)
        await _expect_callers_told_apart(everyone, restricted, searches[: 3 if bench.primitive is TOOLS else 2])
    if bench.primitive is TOOLS:
        await _expect_callers_apart_in_flight(everyone, restricted)
    if bench.has_turn(0):
        await bench.where_reloaded(_expect_newly_hidden_unfound)


async def _expect_same_answers(
    benches: tuple[Bench, Bench, Bench],
    again: Callable[[], Awaitable[Bench]],
    cases: Iterable[tuple[JsonObject, int]],
    hidden: str,
) -> int:
    """Expect a caller's pages to be those of a server that lacks what is hidden; return how many could be compared.

    `benches` are those of a caller who sees everything, of the restricted one, and of that server, which `again` opens
    once more.
    """
    (everyone, restricted, reference), compared = benches, 0
    for params, page in cases:
        await _page(everyone, params, page)  # the server may cache this answer
        if (answered := await _compare_answers(restricted, reference, again, params, page)) is not None:
            exchange, difference = answered
            compared += 1
            which = json_text(params) if page == 1 else f"{json_text(params)}, page {page}"
            message = f"on a server without the {hidden}, the answer {difference}"
            restricted.expect(difference is None, exchange, message, case=f"{which}, from a restricted caller")
    return compared


async def _compare_answers(
    restricted: Bench, reference: Bench, again: Callable[[], Awaitable[Bench]], params: JsonObject, page: int
) -> tuple[Exchange, str | None] | None:
    """Return the answer to the restricted caller, and how it differs from the answer of `reference`.

    `again` opens another fixture like `reference`. Members that vary between these two are not compared. If found
    items, errors or cursors vary, nothing can be compared, and the result is `None`.
    """
    exchange, expected = await _page(restricted, params, page), await _page(reference, params, page)
    if _difference(exchange, expected) is None:
        return exchange, None
    other = await again()
    repeated = [await _page(by, params, page) for by in (reference, other, reference, other)]
    varying = set[str]().union(*(_differing(answer, expected) for answer in repeated))
    if not varying.isdisjoint(_MAIN):
        return None
    varying |= _differing(await _page(restricted, params, page), exchange) - _MAIN  # such as a time
    if not await _are_numbers_steady((restricted, reference), params, page):
        varying.add(_LEGIBLE_NUMBERS)
    return exchange, _difference(exchange, expected, varying)


async def _are_numbers_steady(benches: Iterable[Bench], params: JsonObject, page: int) -> bool:
    """Return whether cursors of a page for the same query in several spellings have as many readable numbers.

    If not, random characters may look like numbers.
    """
    counts = set[int]()
    for by in benches:
        for form in _SPELLINGS:
            exchange = await _page(by, {**params, "query": form.format(params["query"])}, page)
            if (cursor := (exchange.result or {}).get("nextCursor")) is not None:
                counts.add(len(_numbers_in(str(cursor))))
    return len(counts) <= 1


async def _page(by: Bench, params: JsonObject, number: int) -> Exchange:
    """Return page `number` of a search, or its last page if it has fewer."""
    exchange = await by.server.search(params)
    for _ in range(number - 1):
        if (cursor := (exchange.result or {}).get("nextCursor")) is None:
            break
        exchange = await by.server.search({**params, "cursor": cursor})
    return exchange


async def _expect_callers_told_apart(everyone: Bench, restricted: Bench, searches: Iterable[JsonObject]) -> None:
    """Expect two callers who take turns on one connection to get the same answers as on their own connections."""
    for params in searches:
        alone = {everyone: await restricted.server.search(params), restricted: await everyone.server.search(params)}
        for other, headers in ((everyone, _authorized(_TOKEN)), (restricted, {"Authorization": None})) * 2:
            own = alone[other]
            exchanges = list[Exchange]()
            for _ in range(2):
                await other.server.search(params)
                exchanges.append(await other.server.search(params, headers=headers))
            exchange, again = exchanges
            varying = _differing(exchange, again) | (_differing(exchange, own) - _MAIN)
            difference = _difference(exchange, own, varying)
            message = f"for the same caller on its own connection, the answer {difference}"
            case = f"{json_text(params)}, after another caller on the same connection"
            other.expect(difference is None, exchange, message, case=case)


async def _expect_callers_apart_in_flight(everyone: Bench, restricted: Bench) -> None:
    """Expect concurrent identical searches of two callers to find only what each caller may see."""
    keys = _hidden_keys(everyone.primitive)
    for key in keys[:_IN_FLIGHT]:
        # The caller who sees everything searches first and last: neither answer nor caller must be shared.
        exchange = await restricted.server.search_amid(everyone.server, {"query": key})
        shown = [key for key in keys_in(exchange) if key in keys]
        message = f"{shown} are hidden from this caller, but were found while another caller sent the same search"
        restricted.expect(not shown, exchange, message, case=f"query {key!r}, by two callers at once")


async def _expect_newly_hidden_unfound(bench: Bench) -> None:
    """Expect a caller to stop finding a tool once a change hides it."""
    key = key_of(bench.primitive, WORDS[-1])
    restricted = await _hidden_by_change(bench, key, lambda caller: caller.server.search({"query": key}))
    exchange = await restricted.server.search({"query": key})
    message = f"{key!r} was found by a caller from whom a change has hidden it"
    restricted.expect(key not in keys_in(exchange), exchange, message, case=f"query {key!r} after a change")


async def _hidden_by_change(bench: Bench, key: str, before: Callable[[Bench], Awaitable[object]]) -> Bench:
    """Return the bench of a caller from whom a change has just hidden an item, which did something `before`."""
    every = {item[bench.primitive.key] for item in _visible(bench.primitive)}
    bench.place(_CHANGING, document_of(_visible, contents=_contents()))
    restricted = await _caller_of_changing(bench)
    await _until_listed(restricted, every)
    await before(restricted)
    bench.place(_CHANGING, document_of(_visible, hidden={_TOKEN: [key]}, contents=_contents()))
    await _until_listed(restricted, every - {key})
    return restricted


async def _caller_of_changing(bench: Bench) -> Bench:
    return await bench.fixture(_CHANGING, Opening(catalog=_CHANGING, headers=_authorized(_TOKEN)))


async def _until_listed(bench: Bench, keys: Collection[str]) -> None:
    """Wait until just these items are listed."""
    listing = await until(bench.server.listing, lambda listing: {*listing.by_key} == keys, bench.options.timeout)
    message = f"{bench.list_method} does not follow a change of what the catalog file hides"
    bench.require({*listing.by_key} == keys, message)


async def _expect_restrictions_told_apart(bench: Bench) -> None:
    """Expect each of two callers who see different halves of the items to find only their half."""
    for token, keys in _place_halves(bench).items():
        visible = [item for item in _visible(bench.primitive) if item[bench.primitive.key] not in keys]
        caller = await _caller(bench, _HALVES, visible, token)
        page = await caller.server.page(COMMON, limit=len(WORDS))
        shown = [key for key in page.keys if key in keys]
        caller.expect(not shown, page.exchange, f"{shown} are hidden from this caller", case=f"query {COMMON!r}")


def _place_halves(bench: Bench) -> dict[str, list[str]]:
    """Write the catalog of callers who see, or can read, different halves; return what it hides from whom."""
    halves = {f"{_TOKEN}{letter}": WORDS[number::2] for number, letter in enumerate("aA")}  # tokens have a case
    hidden = {token: [key_of(each, word) for each in PRIMITIVES for word in half] for token, half in halves.items()}
    sealed, contents = _sealed(), _contents()
    unreadable = {_TOKEN: sealed, f"{_TOKEN}0": [uri for uri in contents if uri not in sealed]}
    bench.place(_HALVES, document_of(_visible, hidden=hidden, contents=contents, unreadable=unreadable))
    return hidden


async def _compare_settings(bench: Bench, restricted: Bench, reference: Bench) -> int:
    """Expect the same settings as those of `reference`, as far as stated. Return 1 if they were compared, or else 0."""
    connection, opening = await restricted.server.opening()
    shown = advertised_settings(connection)
    if complaint(shown, "PrimitivesServerSettings") is not None:
        return 0  # settings-shape and primitives-settings-shape judge that
    expected = advertised_settings(await reference.server.connection())
    comparable = _as_far_as_stated(expected, shown)
    if not same(shown, comparable):
        again = await _reference(bench, "callers-visible-again")
        if not same(advertised_settings(await again.server.connection()), expected):
            return 0
    expected = comparable
    message = f"on a server without the hidden tools, the settings are {expected!r:.300} instead of {shown!r:.300}"
    restricted.expect(
        same(shown, expected), opening, message, case=f"a caller from whom {len(_NUMBERS)} tools are hidden"
    )
    return 1


def _as_far_as_stated(expected: JsonObject | None, shown: JsonObject | None) -> JsonObject | None:
    """Return settings without the members that `shown` omits and may omit if callers differ, for each method."""
    if expected is None:
        return None
    kept = {name: value for name, value in expected.items() if name not in _MAY_BE_ABSENT or name in (shown or {})}
    nested = {
        name: _as_far_as_stated(own, as_object((shown or {}).get(name)))
        for name, value in kept.items()
        if (own := as_object(value)) is not None
    }
    return {**kept, **nested}


def _revealed(exchange: Exchange) -> JsonObject:
    result, error = exchange.result or {}, exchange.error
    refusal = None if error is None else [error.code, error.message, error.data]
    more = {name: value for name, value in result.items() if name not in _CACHE_HINTS}  # callers may differ in these
    member = primitive_of(exchange.method).member
    numbers = _numbers_in(str(result.get("nextCursor")))
    own = {member: result.get(member), "nextCursor": "nextCursor" in result, "error": refusal}
    return {**more, **own, _LEGIBLE_NUMBERS: numbers}


def _numbers_in(cursor: str) -> list[int]:
    """Return the small numbers that are readable in a cursor, such as a position."""
    parts = re.split(r"[.:|~;,]", cursor)
    read = [_RANDOM.sub("", cursor)]
    for each in {cursor: None, **dict.fromkeys(part for part in parts if len(part) >= _LEGIBLE)}:
        encoded = each.replace("-", "+").replace("_", "/")
        with suppress(ValueError):
            decoded = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True).decode()
            read.append(_RANDOM.sub("", decoded))
    found = [int(digits) for text in read for digits in re.findall(r"(?<![\w.])\d{1,3}(?![\w.])", text)]
    joined = [part for part in parts if re.fullmatch(r"\d{1,3}(?:[-+/_]\d{1,3})*", part)]
    return found + [int(digits) for part in joined for digits in re.findall(r"\d+", part)]


def _differing(exchange: Exchange, expected: Exchange) -> set[str]:
    """Return the names of the members that differ between two answers."""
    one, other = _revealed(exchange), _revealed(expected)
    return {name for name in {*one, *other} if not same(one.get(name), other.get(name))}


def _difference(exchange: Exchange, expected: Exchange, ignored: Collection[str] = ()) -> str | None:
    """Return how `expected` differs from `exchange` in words; `None` if it does not."""
    one, other = _revealed(exchange), _revealed(expected)
    if (exchange.result is None) != (expected.result is None):
        return f"is {expected.describe()} instead of {exchange.describe()}"
    what = min(_differing(exchange, expected).difference(ignored), default=None)
    return None if what is None else f"has {what} {other.get(what)!r:.300} instead of {one.get(what)!r:.300}"


@server_check(
    title="A caller cannot call a tool that is hidden from it, even after another caller found it",
    sends="A search that finds a tool, and `tools/call` of it by the same caller; then the same call with the token of"
    " a caller from whom the tool is hidden and who can call another one. If the fixture can be reloaded, a call of a"
    " tool that a change hides from a caller who has found and called it. `resources/read` of a resource that its"
    " caller can find but not read.",
    passes="For the last call of each, an error or a result with `isError`.",
    transports=("http",),
    fixture_feature="callers",
    methods=(TOOLS.method, RESOURCES.method, PROMPTS.method),
)
async def call_authorized(bench: Bench) -> None:
    use, (secret, *_, last) = bench.primitive.use_method, _hidden_keys(bench.primitive)
    everyone, restricted = await callers(bench)
    found = await everyone.server.first(secret)
    everyone.require(secret in found.keys, f"{secret!r} is not found; see {bench.exact_check}", found.exchange)
    for other, key in ((everyone, secret), (everyone, last), (restricted, key_of(bench.primitive, _SHARED_WORD))):
        exchange, served = await _used(other, key)
        answer = exchange.describe()
        other.require(served, f"{key!r} is not hidden from this caller, but {use} got {answer}; see callable", exchange)
    for key in (secret, secret, last):
        exchange, served = await _used(restricted, key)
        message = f"{use} of {key!r} got a result for a caller from whom it is hidden"
        restricted.expect(not served, exchange, message, case=key)
    if bench.cell.era == MODERN:  # a legacy session may be that of one caller
        exchange, served = await _used(everyone, secret, headers=_authorized(_TOKEN))
        message = (
            f"on another caller's connection, {use} of {secret!r} got a result for a caller from whom it is hidden"
        )
        everyone.expect(not served, exchange, message, case=secret)
    if bench.has_turn(0):
        await bench.where_reloaded(_expect_newly_hidden_refused)
    if bench.primitive is RESOURCES:
        await _expect_unreadable_refused(bench)


async def _used(caller: Bench, key: str, **overrides: Any) -> tuple[Exchange, bool]:
    """Return the answer to a use of an item, and whether it was served."""
    primitive = caller.primitive
    params = params_of_use({primitive.key: key}, primitive)
    exchange = await caller.server.ask(primitive.use_method, params, **overrides)
    return exchange, exchange.result is not None and exchange.result.get("isError") is not True


async def _expect_newly_hidden_refused(bench: Bench) -> None:
    """Expect a caller not to be able to use an item any more once a change hides it."""
    key = key_of(bench.primitive, WORDS[-1])

    async def use(caller: Bench) -> None:
        await caller.server.first(key)
        exchange, served = await _used(caller, key)
        caller.require(served, f"{key!r} cannot be used before a change hides it", exchange)

    restricted = await _hidden_by_change(bench, key, use)
    exchange, served = await until(partial(_used, restricted, key), lambda used: not used[1])
    message = f"{exchange.method} of {key!r} got a result for a caller from whom a change has hidden it"
    restricted.expect(not served, exchange, message, case=f"{key}, after a change")


async def _expect_unreadable_refused(bench: Bench) -> None:
    """Expect a caller who cannot read a resource not to be able to after it was found, and read by another caller."""
    everyone, restricted = await _readers(bench)
    uri = _sealed()[-1]
    _, served = await _used(restricted, uri)
    if served:
        return  # the fixture lets every caller read every listed resource
    for caller in (everyone, restricted, everyone, restricted):
        await caller.server.first(uri)
        await _used(everyone, uri)
        exchange, served = await _used(restricted, uri)
        message = f"{exchange.method} of {uri!r}, which this caller cannot read, got a result after searches found it"
        restricted.expect(not served, exchange, message, case=uri)


@server_check(
    title="The cursor of another caller does not return hidden tools",
    sends="A first page for a caller who sees every tool, and its cursor and the following ones with the token of a"
    " caller from whom some are hidden.",
    passes="Only tools that this caller may see, or a refusal.",
    transports=("http",),
    fixture_feature="callers",
)
async def cursor_other_caller(bench: Bench) -> None:
    everyone, restricted = await callers(bench)
    keys = _hidden_keys(bench.primitive)
    for query in (keys[0], COMMON):
        try:
            _, cursor = await everyone.page_with_cursor(query)
        except UnverifiableError:
            if query == COMMON:
                raise
            continue  # if matches must have all terms, a key only matches one tool
        await _expect_unshown(restricted, query, cursor, keys, "are hidden from this caller")
        await restricted.served({"query": query}, "a search after the cursor of another caller")


async def _expect_unshown(caller: Bench, query: str, cursor: str, keys: Collection[str], why: str) -> None:
    """Expect no page that follows another caller's cursor to contain any of `keys`."""
    case = f"a cursor of another caller for the query {query!r}"
    async for page in caller.pages_from(query, cursor, case, most=len(_NUMBERS)):
        shown = [key for key in page.keys if key in keys]
        caller.expect(not shown, page.exchange, f"a page contains {shown}, which {why}", case=case)


@server_check(
    title="Content that the caller cannot read does not influence a search",
    sends="If searches find content, searches for words of it, one of them in two pages, from a caller for whom"
    " `resources/read` of it is refused, and to a fixture whose resources lack that content. The pages that follow the"
    " cursor of a caller who may read it, for the other one. Searches from two callers in turn on one connection, from"
    " callers who can read different halves, and, if the fixture can be reloaded, for content that a change makes"
    " unreadable.",
    passes="The same answers from both, and from each caller on either connection. After the cursor, the same or a"
    " refusal. Nothing that only content matches that the caller cannot read.",
    transports=("http",),
    fixture_feature="callers",
    methods=(RESOURCES.method,),
)
async def unreadable_content_inert(bench: Bench) -> None:
    sealed = _sealed()
    opened = {uri: text for uri, text in _contents().items() if uri not in sealed}
    everyone, restricted = await _readers(bench)
    found = await everyone.server.walk(_SEALED, most=len(WORDS))
    everyone.applies(sealed[0] in found.keys, "searches do not find the content of the fixture's resources")
    read = await restricted.server.ask("resources/read", {"uri": sealed[0]})
    restricted.applies(read.error is not None, "the fixture lets every caller read every listed resource")

    async def without_content(name: str) -> Bench:
        bench.place(name, document_of(_visible, contents=opened))
        return await _caller(bench, name, _visible(RESOURCES))

    reference, again = await without_content("contents-opened"), partial(without_content, "contents-opened-again")
    queries = (_SEALED, f"{_SEALED} {WORDS[0]}", WORDS[0], COMMON)
    paged: JsonObject = {"query": _SEALED, "limit": _FEW}
    cases = [*(({"query": query}, 1) for query in queries), (paged, 1), (paged, 2)]
    unreadable = "content that this caller cannot read"
    await _expect_same_answers((everyone, restricted, reference), again, cases, unreadable)
    _, cursor = await everyone.page_with_cursor(_SEALED, limit=_FEW)
    await _expect_unshown(restricted, _SEALED, cursor, sealed, f"match only by {unreadable}")
    if bench.cell.era == MODERN:  # a legacy session may be that of one caller
        await _expect_callers_told_apart(everyone, restricted, [{"query": _SEALED}])
    other = await _caller(bench, _HALVES, _visible(RESOURCES), f"{_TOKEN}0")
    await _expect_unfound(other, [*opened], f"query {_SEALED!r} of a caller who can read another half")
    await bench.where_reloaded(_expect_newly_unreadable_unfound)


def _sealed() -> list[str]:
    """Return the URIs of the resources that the restricted caller can find but not read."""
    return [key_of(RESOURCES, word) for word in WORDS[::2]]


def _contents() -> dict[str, str]:
    return {key_of(RESOURCES, word): f"{_SEALED} about {word}, {word} and {COMMON}" for word in WORDS}


async def _readers(bench: Bench) -> tuple[Bench, Bench]:
    """Return the benches of a caller who can read every resource, and of one who can read half of them."""
    _place_halves(bench)
    visible = _visible(RESOURCES)
    return await _caller(bench, _HALVES, visible), await _caller(bench, _HALVES, visible, _TOKEN)


async def _expect_unfound(reader: Bench, uris: Collection[str], case: str) -> None:
    """Expect the content of these resources, which this caller cannot read, not to be found."""
    unrelated = (await reader.server.first(NONSENSE)).keys
    found = await reader.server.walk(_SEALED, most=len(WORDS))
    shown = [key for key in found.keys if key in uris and key not in unrelated]
    message = f"{shown} match only by content that this caller cannot read"
    reader.expect(not shown, found.last, message, case=case)


async def _expect_newly_unreadable_unfound(bench: Bench) -> None:
    """Expect content not to be found any more soon after a change makes it unreadable for the caller."""
    sealed = _sealed()
    unfollowed = "resources/read does not follow a change of what the catalog file makes unreadable"

    def place(unreadable: Sequence[str]) -> None:
        bench.place(_CHANGING, document_of(_visible, contents=_contents(), unreadable={_TOKEN: unreadable}))

    async def until_served(wanted: bool) -> None:
        _, served = await until(
            partial(_used, reader, sealed[0]), lambda used: used[1] is wanted, bench.options.timeout
        )
        reader.require(served is wanted, unfollowed)

    place([])
    reader = await _caller_of_changing(bench)
    await until_served(True)
    await reader.server.walk(_SEALED, most=len(WORDS))  # the server may cache these answers
    place(sealed)
    await until_served(False)
    await until(partial(reader.server.first, _SEALED), lambda page: {*page.keys}.isdisjoint(sealed))
    await _expect_unfound(reader, sealed, f"query {_SEALED!r} after a change made content unreadable")


@server_check(
    title="A found resource that is not listed can be read by the same caller",
    sends="If the settings have `unlisted`, searches for a common word, for hidden resources, and for URIs that visible"
    " and hidden templates expand to, from a caller from whom most are hidden, each after another caller's; and"
    " `resources/read` of what was found but is not listed to the caller.",
    passes="A result for each `resources/read`.",
    transports=("http",),
    fixture_feature="callers",
    methods=(RESOURCES.method,),
)
async def unlisted_readable_by_caller(bench: Bench) -> None:
    bench.applies(
        await bench.finds_unlisted(), "the settings do not say that searches return resources that are not listed"
    )
    everyone, restricted = await callers(bench)
    listed, hidden = (await restricted.server.listing()).by_key, _hidden_keys(RESOURCES)
    templates = [*_hidden_keys(TEMPLATES)[:_FEW], *(key_of(TEMPLATES, word) for word in WORDS[:_FEW])]
    read: set[str] = set()
    for query in (COMMON, *hidden[:_FEW], *map(expanded, templates)):
        await everyone.server.search({"query": query})
        page = await restricted.server.first(query)
        for uri in (key for key in page.keys if key not in listed and key not in read):
            read.add(uri)
            message = f"{uri!r} was found and is not listed to this caller, but its resources/read"
            restricted.expect_result((await _used(restricted, uri))[0], message, case=f"query {query!r}")
    restricted.applies(bool(read), "every resource found by the restricted caller is listed")
