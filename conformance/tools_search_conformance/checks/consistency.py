"""Visible tools and side effects: a search finds listed tools, as they are listed, and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anyio

from tools_search_conformance.catalogs import items, tools
from tools_search_conformance.checks.changes import with_added_item, with_removed_template
from tools_search_conformance.checks.matching import chosen, first_searches, found_by_unusual_names, unusual_prompts
from tools_search_conformance.model import UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, queries_beyond, server_check
from tools_search_conformance.target.generated import judge_pages, judge_surveys, require_faithful
from tools_search_conformance.target.list_bench import INVALID_PARAMS, until
from tools_search_conformance.target.pages import Listing, Page, Survey, Walk, bare, read_page
from tools_search_conformance.target.primitives import (
    METHODS_OF_RESOURCES,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    expanded,
    params_of_use,
    primitive_of,
)
from tools_search_conformance.target.server import busy_seconds
from tools_search_conformance.target.vocabulary import Vocabulary, is_query
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, json_text, same
from tools_search_conformance.wire.eras import LEGACY, MODERN, UNDECLARED
from tools_search_conformance.wire.record import Exchange

_SAMPLE: Final = 10
_USED: Final = 6
_NAMED: Final = 3
"""Number of resources, those with the most members, to search for by name as well."""
_READ: Final = 20
_EXPANDED: Final = 2
_REFUSALS: Final = 24
"""Number of invalid searches; a few might do no harm."""
_FEWER_REFUSALS: Final = 8
_MANY_REFUSALS: Final = 280
"""Enough to fill a pool of 64 places by each of four kinds of invalid searches."""
_PAGES_COMPARED: Final = 2
_LISTINGS: Final = 3
"""Number of listings that show whether the order of a list varies even without a search."""
_SECOND: Final = 1.1
_CHANGING_SECONDS: Final = 1.6
"""Time in which a fixture that changes its list twice a second does so twice."""


async def _judge_every_page(bench: Bench, judge: Callable[[Page, Listing], None], *, names: Sequence[str] = ()) -> None:
    """Judge the pages of searches of every kind, of searches for each of `names`, and of generated searches."""
    await bench.nonempty_listing()
    words = await bench.vocabulary()
    beyond = await queries_beyond(bench)
    queries = bench.some([*words.sample(_SAMPLE - len(beyond)), f"  {words.key_query}\n", *words.pairs(1)])
    queries = [*queries, f"{queries[0]} {queries[0]}"[:1024], "search tools", *beyond]

    async def search(_: Listing) -> list[Page]:
        walks = await bench.each(queries, lambda query: bench.server.walk(query, most=10))
        large = await bench.server.large_limit()
        pages = await bench.each(queries[:2], lambda query: bench.server.page(query, limit=large))
        return [page for walk in walks for page in walk.pages] + pages

    first = partial(bench.server.first, limit=1)
    found = [await bench.once("pages", lambda: bench.with_stable_listing(search))]
    found += [await bench.with_stable_listing(lambda _: bench.each(names, first))] if names else []
    some = any(page.items for _, pages in found for page in pages)
    bench.require(some, f"none of the queries {queries} found anything")
    for listing, pages in found:
        for page in pages:
            judge(page, listing)
    await judge_pages(bench, judge)


@server_check(
    title="A search returns only listed tools",
    sends="`tools/list`; various and generated searches, also for words of the other lists that can be searched, and"
    " searches for names in a fixture's catalog that it does not list, such as in this era; `tools/list` again.",
    passes="Every found tool is listed.",
    methods=(TOOLS.method, TEMPLATES.method, PROMPTS.method),
)
async def subset_of_list(bench: Bench) -> None:
    await _expect_listed(bench, await _unlisted_of_catalog(bench))


@server_check(
    title="A search returns resources that are not listed only if the settings say so",
    sends="`resources/list`, various and generated searches, also for words of the other lists that can be searched,"
    " for URIs in a fixture's catalog that it does not list, and for URIs that listed templates expand to;"
    " `resources/list` again.",
    passes="Every found resource is listed. Not applicable if `unlisted` is `true`.",
    methods=(RESOURCES.method,),
)
async def unlisted_stated(bench: Bench) -> None:
    bench.applies(
        not await bench.finds_unlisted(), "the settings say that searches also return resources that are not listed"
    )
    await _expect_listed(bench, [*await _unlisted_of_catalog(bench), *await _expansions(bench)])


@server_check(
    title="A found resource that is not listed can be read",
    sends="If the settings have `unlisted`, various and generated searches, also for URIs that listed templates expand"
    " to, and `resources/read` of up to 20 of the found resources that are not listed. If the fixture can be reloaded,"
    " the same for a URI of a template that a change removed.",
    passes="A result for each `resources/read`.",
    methods=(RESOURCES.method,),
)
async def unlisted_readable(bench: Bench) -> None:
    found: dict[str, None] = {}

    def collect(page: Page, listing: Listing) -> None:
        found.update(dict.fromkeys(key for key in page.keys if key not in listing.by_key))

    bench.applies(
        await bench.finds_unlisted(), "the settings do not say that searches return resources that are not listed"
    )
    await _judge_every_page(bench, collect, names=await _expansions(bench))
    for uri in [*found][:: -(len(found) // _READ + 1)]:  # from the last one on, some from everywhere
        read = await bench.server.ask("resources/read", {"uri": uri})
        bench.expect_result(read, f"{uri!r} was found and is not listed, but resources/read", case=uri)
    await bench.where_reloaded(_expect_gone_unfound_or_readable)
    bench.applies(bool(found), "every found resource is listed")


async def _expect_gone_unfound_or_readable(bench: Bench) -> None:
    """Expect what a search finds for a URI of a template that a change removed to be listed, or to be readable."""
    changed, uri = await with_removed_template(bench)

    async def look() -> list[tuple[str, Exchange]]:
        page, listed = await changed.server.page(uri), (await changed.server.listing()).by_key
        unlisted = [key for key in page.keys if key not in listed]
        return [(key, await changed.server.ask("resources/read", {"uri": key})) for key in unlisted]

    reads = await until(look, lambda reads: all(read.result is not None for _, read in reads))
    for key, read in reads:
        case = f"{key!r}, after a change removed the template of {uri!r}"
        changed.expect_result(read, f"{key!r} was found and is not listed, but resources/read", case=case)


async def _unlisted_of_catalog(bench: Bench) -> list[str]:
    """Return the keys in a fixture's catalog that it does not list, if it lists other items of it."""
    listed, primitive = (await bench.nonempty_listing()).by_key, bench.primitive
    given = [item[primitive.key] for item in items("core", primitive.member)] if bench.profile == "fixture" else []
    return [key for key in given if key not in listed and is_query(key)] if {*given} & {*listed} else []


async def _expansions(bench: Bench) -> list[str]:
    """Return unlisted URIs to which listed templates without operators expand; only a few."""
    listed, uris = (await bench.nonempty_listing()).by_key, list[str]()
    for other in (each for each in bench.others_served if each.primitive is TEMPLATES):
        for template in (await other.server.known_listing()).by_key:
            uri = expanded(template)
            if uri != template and "{" not in uri and uri not in listed and is_query(uri):
                uris.append(uri)
    return uris[:_EXPANDED]


async def _expect_listed(bench: Bench, names: Sequence[str]) -> None:
    def judge(page: Page, listing: Listing) -> None:
        case = f"query {page.exchange.sent['params']['query']!r}"
        for name in page.keys:
            unlisted = f"{name!r} was found but is not listed"
            bench.expect(name in listing.by_key, page.exchange, unlisted, case=case)

    await _judge_every_page(bench, judge, names=names)


@server_check(
    title="A search returns a tool with its listed definition",
    sends="`tools/list`; various and generated searches, and a search for each tool by its name; `tools/list` again."
    " Searches for a few resources and templates by their names. Later pages with tools that have the rarer members, or"
    " whose listed definition differs from the fixture's catalog in this era; names that are not ASCII if a fixture"
    " lists them. A search for a tool of a fixture after a call of it. Over HTTP, the list and a search from a client"
    " of an older revision.",
    passes="Found and listed definitions are equal as JSON values, except for the extension identifier in `_meta`.",
)
async def definition_identity(bench: Bench) -> None:
    def judge(page: Page, listing: Listing, on: Bench = bench) -> None:
        for key, item in zip(page.keys, page.items, strict=True):
            if listed := listing.all_by_key.get(key):
                where = [_difference(bare(each), bare(item)) for each in listed]
                message = f"the found {key!r} differs from the listed one: {where[0]}"
                on.expect(None in where, page.exchange, message)

    some = chosen(bench, (await bench.nonempty_listing()).items)
    queries = [item[bench.primitive.key] for item in some]
    if bench.method in METHODS_OF_RESOURCES:  # a name finds them, too
        named = sorted(some, key=len)[-_NAMED:]
        queries += [name for item in named if isinstance(name := item.get("name"), str)]
    names = bench.share(query for query in dict.fromkeys(queries) if is_query(query))
    await _judge_every_page(bench, judge, names=names)
    listing = await bench.server.known_listing()
    later = [*await queries_for_adapted(bench), *bench.some(await _queries_for_later_pages(bench))]
    for query in later:  # a server might adapt or encode tools on later pages in another way
        for page in (await bench.server.walk(query, 1, most=3)).pages:
            judge(page, listing)
    used = next((item for item in some if "x-mcp-header" not in json_text(item) and is_query(_key(bench, item))), None)
    if bench.profile == "fixture" and used is not None:
        await bench.server.ask(bench.primitive.use_method, params_of_use(used, bench.primitive))
        judge(await bench.server.first(_key(bench, used)), await bench.server.listing())
    async with found_by_unusual_names(bench) as (other, unusual, searches):
        for _, exchange in searches:
            with suppress(UnverifiableError):  # exact-name-first judges whether it is a page
                judge(read_page(exchange, "a search for an unusual name"), unusual, other)
    if bench.cell.era == LEGACY and bench.primitive is TOOLS and bench.starts_freely:
        with suppress(UnverifiableError):  # a server may refuse an older revision, or list other tools in it
            async with bench.older() as other:
                listing = await other.server.known_listing()
                query = await bench.query_with_matches()
                judge(await other.server.page(query, limit=await other.server.large_limit()), listing, other)
    await require_faithful(bench)


def _key(bench: Bench, item: JsonObject) -> str:
    return str(item[bench.primitive.key])


async def queries_for_adapted(bench: Bench) -> list[str]:
    """Return queries that find, after another one, tools of a fixture that are not listed as in the catalog file.

    In the legacy era, some definitions have to be adapted.
    """
    if bench.profile != "fixture" or bench.primitive is not TOOLS:
        return []
    given, words = {tool["name"]: tool for tool in tools("core")}, await bench.vocabulary()
    adapted = (item for item in words.items if not same(bare(item), bare(given.get(item["name"], item))))
    return [query for item in adapted for query in _query_behind_another(item, words)]


async def _queries_for_later_pages(bench: Bench) -> list[str]:
    """Return queries that find, after another item, an item for each member that any has; `_meta` comes first."""
    words, holders = await bench.vocabulary(), dict[str, JsonObject]()
    for item in words.items:
        if (more := bare(item).keys() - holders.keys()) and words.distinctive(item):
            holders |= dict.fromkeys(more, item)
    return [*dict.fromkeys(q for name in sorted(holders) for q in _query_behind_another(holders[name], words))]


def _query_behind_another(item: JsonObject, words: Vocabulary) -> list[str]:
    others = (each for each in words.items if each[words.key] != item[words.key] and words.distinctive(each))
    query = (*words.distinctive(next(others, item))[:2], *words.distinctive(item)[:1])
    return [" ".join(query)] * bool(query)


def _difference(listed: Any, found: Any, path: str = "") -> str | None:
    """Return the path of the first member that differs, or `None`."""
    if same(listed, found):
        return None
    one, other = as_object(listed), as_object(found)
    if one is not None and other is not None:
        name = next(n for n in sorted({*one, *other}) if n not in one or n not in other or not same(one[n], other[n]))
        path = f"{path}.{name}" if path else name
        if name in one and name in other:
            return _difference(one[name], other[name], path)
        shown, wanted = (_shown(held[name]) if name in held else "absent" for held in (other, one))
        return f"member {path!r} is {shown} instead of {wanted}"
    first, second = as_array(listed) or [], as_array(found) or []
    if first and len(first) == len(second):
        place = next(n for n in range(len(first)) if not same(first[n], second[n]))
        return _difference(first[place], second[place], f"{path}[{place}]")
    return f"member {path!r} is {_shown(found)} instead of {_shown(listed)}"


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:200]


@server_check(
    title="A page contains each tool once",
    sends="Various and generated searches; if resources are searched by content, also for its words.",
    passes="The names on each page are distinct.",
)
async def no_duplicates(bench: Bench) -> None:
    def judge(page: Page, _: Listing) -> None:
        twice = sorted({name for name in page.keys if page.keys.count(name) > 1})
        bench.expect(not twice, page.exchange, f"one page contains these {bench.noun}s more than once: {twice}")

    await _judge_every_page(bench, judge)


@server_check(
    title="A search does not change what `tools/list` returns",
    sends="`tools/list` twice, a search for a tool by its name, and `tools/list` again: once before all other checks,"
    " together with the other searches that the server supports, and once more, when a fixture must still list what it"
    " did at first; on generated catalogs, after many searches.",
    passes="`tools/list` returns the same definitions in the same order each time, on pages of the same size, with the"
    " same other members.",
)
async def list_unchanged(bench: Bench) -> None:
    if bench.first_search is not None:
        difference, exchange = bench.first_search
        await _require_steady(bench, difference is None)
        message = f"after the very first searches, {bench.list_method} returned something else: it {difference}"
        bench.expect(difference is None, exchange, message)
    await bench.nonempty_listing()
    before, again = await bench.server.listing(), await bench.server.listing()
    steadily = again.same_as(before)
    bench.require(steadily, f"what {bench.list_method} returns changes without any search", again.exchange)
    if bench.listed_first is not None and bench.profile == "fixture":  # the list of a live server may change by itself
        first = bench.listed_first[1]
        what = f"after all searches so far, {bench.list_method} returned something else than before the first one"
        await _require_steady(bench, kept := again.same_as(first))
        _expect_kept(bench, kept, again, first, what)
    same_listing, same_frame = again.compared_to(before), same(_frame(again), _frame(before))
    names = [name for name in before.by_key if is_query(name)]
    bench.require(bool(names), f"no {bench.noun} has a {bench.primitive.key} that is a valid query")
    allowed = 0 if bench.profile == "fixture" else 1  # on a live server one change may be a coincidence
    for name, limit in zip(names[:: max(1, len(names) // 3)], (None, 3, 7), strict=False):
        await bench.server.page(name, limit=limit)
        after = await bench.server.listing()
        kept = same_listing(before, after) or (after.same_as(before) and not await bench.keeps_order(after))
        allowed -= not kept
        what, case = f"after a search for {name!r}, {bench.list_method} returned something else", f"query {name!r}"
        await _require_steady(bench, kept or allowed >= 0)
        _expect_kept(bench, kept or allowed >= 0, after, before, what, case=case)
        if kept and same_frame and not same(_frame(after), _frame(before)):
            await anyio.sleep(_SECOND)  # a time in the answer is then different
            lasts = await bench.lists_alike(partial(_is_framed_as, after))
            message = f"after a search for {name!r}, the last page of {bench.list_method} has"
            message += f" {json_text(_frame(after)):.200} instead of {json_text(_frame(before)):.200}"
            bench.expect(not lasts or bench.profile == "live", after.exchange, message, case=case)
        before = after

    def judge(survey: Survey) -> None:
        what = "after searches, tools/list returned something else"
        _expect_kept(bench, survey.after.same_as(survey.listing), survey.after, survey.listing, what)

    await judge_surveys(bench, judge)


def _expect_kept(
    bench: Bench, kept: bool, after: Listing, before: Listing, what: str, *, case: str | None = None
) -> None:
    """Expect a listing to have been `kept`; otherwise, the message says `what` was not, and the difference."""
    bench.expect(kept, after.exchange, what if kept else f"{what}: it {after.difference_from(before)}", case=case)


def _frame(listing: Listing) -> JsonObject:
    """Return the last page of a listing with the number of items instead of the items, and without a cursor."""
    primitive, result = primitive_of(listing.exchange.method), listing.exchange.result or {}
    kept = {name: value for name, value in result.items() if name not in {primitive.member, "ttlMs", "nextCursor"}}
    return {**kept, primitive.member: len(as_array(result.get(primitive.member)) or [])}


def _is_framed_as(one: Listing, other: Listing) -> bool:
    return same(_frame(one), _frame(other))


async def _require_steady(bench: Bench, kept: bool) -> None:
    """Continue only if the listing was `kept`, or if the list does not often change by itself."""
    if kept:
        return
    if bench.profile == "live":
        bench.server.steady = False
        steady = await bench.lists_steadily(await bench.server.listing())
    else:
        steady = not await _keeps_changing(bench)
    bench.require(steady, f"what {bench.list_method} returns changes without any search")


async def _keeps_changing(bench: Bench) -> bool:
    """Return whether the list changes twice without a search. One change may be the end of what a search caused."""
    compared, until = bench.server.last_listing, anyio.current_time() + _CHANGING_SECONDS
    changes, last = 0, await bench.server.listing()
    while changes < 2 and anyio.current_time() < until:
        now = await bench.server.listing()
        changes, last = changes + (not now.same_as(last)), now
    bench.server.last_listing = compared  # the one that the finding is about
    return changes > 1


@server_check(
    title="A refused request changes no other answer",
    sends="On a new connection, `tools/list`, a first page, a page without a limit, and `tools/list` again; many"
    " invalid searches; then the same requests again, and the second page. A search and the list of each method, before"
    " any refusal and after an invalid and an undeclared search by each.",
    passes="The same listing and pages; the cursor of the first page is still honored, unless another of that age is"
    " refused without invalid searches before it; the server does not stay too busy to search.",
)
async def refusal_changes_nothing(bench: Bench) -> None:
    query = await bench.query_with_matches()
    good = {"query": query, "limit": 1}
    bad: Sequence[JsonObject] = ({}, {"query": ""}, {**good, "limit": 0}, {"query": query, "cursor": "no such cursor"})
    async with bench.fresh(own_process=True) if bench.can_start("core") else nullcontext(bench) as other:

        async def refuse(number: int) -> None:
            await other.server.search(bad[number % len(bad)])
            if other.cell.era == MODERN and number < _REFUSALS:
                await other.server.search(good, capabilities=UNDECLARED)

        # What the first refusal by any method changes shows only in comparison with what was answered before it.
        before = await _answers(other, [bench, *bench.others_served] if bench.primitive is TOOLS else [])
        issued = anyio.current_time()
        await other.server.ask(other.list_method, {})  # a server may find nothing before; see search-unlisted
        first = await other.server.page(query, limit=1)
        plain = [await other.server.page(query) for _ in range(2)]
        # Listed after these searches, which may change the list, too.
        listings = [await other.server.listing() for _ in range(_LISTINGS)]
        try:
            await other.each(range(_refusals(bench)), refuse)
        except UnverifiableError as verdict:
            await _judge_busy(bench, verdict, good)
            raise
        await _expect_listing_kept(other, listings, "after refused searches")
        if first.next_cursor is not None:
            try:
                await other.served({**good, "cursor": first.next_cursor}, "a cursor issued before refused searches")
            except ViolationError:
                if not await _is_refused_anyway(bench, query, anyio.current_time() - issued):
                    raise
        repeated = await other.served(good, "a search after refused searches")
        kept = bool(repeated.items) == bool(first.items)
        message = f"a search returned {first.keys} before refused searches and {repeated.keys} after them"
        other.expect(kept, repeated.exchange, message)
        later = await other.served({"query": query}, "a search without a limit after refused searches")
        kept = later.keys == plain[0].keys or plain[0].keys != plain[1].keys
        message = (
            f"a search without a limit returned {plain[0].keys} before refused searches and {later.keys} after them"
        )
        other.expect(kept, later.exchange, message)
        await _expect_next_unchanged(other, [other.searching(each.primitive) for each in bench.others_served])
        await _expect_unchanged_by_each(before)


@dataclass(frozen=True)
class _Answers:
    """What a method, and its list, answered a few times before any refusal."""

    bench: Bench
    walks: Sequence[Walk]
    listings: Sequence[Listing]

    @property
    def params(self) -> JsonObject:
        """The params of the search."""
        return self.walks[0].pages[0].exchange.params

    async def expect_pages_kept(self, after: str) -> None:
        """Expect the same items, unless they differed before; their order is only a SHOULD."""
        first, second = (walk.keys for walk in self.walks)
        if first == second:
            page = await self.bench.served(self.params, f"{self.bench.method} after {after}")
            again = await _walk(self.bench, page)
            message = f"{self.bench.method} returned {_ends(first)} before {after} and {_ends(again.keys)} after it"
            self.bench.expect(again.keys == first, again.last, message)


async def _answers(bench: Bench, methods: Sequence[Bench]) -> list[_Answers]:
    """Ask on the connection of `bench`; leave out what finds nothing."""
    answers = list[_Answers]()
    for each in methods:
        by = bench.searching(each.primitive)
        with suppress(UnverifiableError):
            query, limit = await by.query_with_matches(), await by.server.large_limit()
            walks = [await _walk(by, await by.server.page(query, limit=limit)) for _ in range(2)]
            answers.append(_Answers(by, walks, [await by.server.listing() for _ in range(_LISTINGS)]))
    return answers


def _ends(keys: Sequence[str]) -> str:
    return f"{[*keys[:3], *keys[3:][-2:]]} of {len(keys)}"


async def _walk(bench: Bench, first: Page) -> Walk:
    params = first.exchange.params
    return await bench.server.walk(params["query"], params["limit"], first=first, most=_PAGES_COMPARED)


async def _expect_unchanged_by_each(before: Sequence[_Answers]) -> None:
    """Expect the same answers after each method has refused searches."""
    for by in before:
        await by.bench.server.search({"query": ""})
        if by.bench.cell.era == MODERN:
            await by.bench.server.search(by.params, capabilities=UNDECLARED)
        for each in before:
            await each.expect_pages_kept(f"a refused {by.bench.method}")
    for each in before:
        await _expect_listing_kept(each.bench, each.listings, "after refused searches by each method")


async def _expect_listing_kept(bench: Bench, before: Sequence[Listing], when: str) -> None:
    """Expect the list to be the same as the last one `before`, and in the same order if all of them were."""
    *earlier, listing = before
    after = await bench.server.listing()
    kept = listing.compared_to(*earlier)(listing, after)
    kept = kept or (after.same_as(listing) and not await bench.keeps_order(after))
    await _require_steady(bench, kept)
    _expect_kept(bench, kept, after, listing, f"{when}, {bench.list_method} returned something else")


async def _is_refused_anyway(bench: Bench, query: str, seconds: float) -> bool:
    """Return whether a cursor is refused after some seconds and the same requests, but without invalid searches.

    A server may only honor a cursor for some time, or until it has issued a number of others.
    """
    async with bench.fresh(own_process=True) if bench.can_start("core") else nullcontext(bench) as other:
        began = anyio.current_time()
        first = await other.server.page(query, limit=1)
        for _ in range(2):
            await other.server.page(query)
        await anyio.sleep(began + seconds - anyio.current_time())
        await other.server.listing()
        exchange = await other.server.search({**first.exchange.params, "cursor": first.next_cursor})
        return exchange.error is not None and exchange.error.code == INVALID_PARAMS


async def _expect_next_unchanged(bench: Bench, others: Sequence[Bench]) -> None:
    """Expect a discovery and the listings of `others` to get the same answer right after a refused search as before."""
    asked = [(by, by.list_method) for by in others] + [(bench, "server/discover")] * (bench.cell.era == MODERN)
    invalid: tuple[JsonObject, ...] = ({"query": ""}, {"query": "anything", "limit": 0})
    for by, method in asked if bench.profile == "fixture" else ():
        answers = list[Any]()
        # The first answer is not compared, since it follows other requests.
        for refused in (None, None, None, *invalid):
            if refused is not None:
                await bench.server.search(refused)
            exchange = await by.server.ask(method, {})
            answers.append(without_times(exchange.result or {}))
            if refused is not None and same(*answers[1:3]):
                message = f"{method} returned something else after a refused search"
                bench.expect(same(answers[1], answers[-1]), exchange, message)


def without_times(result: JsonObject) -> JsonObject:
    """Return a result without the members that depend on the time."""
    return {name: value for name, value in result.items() if name not in {"_meta", "ttlMs", "nextCursor"}}


def _refusals(bench: Bench) -> int:
    """Return how many invalid searches to send: if that is quick, enough to fill a pool whose places are not freed."""
    if bench.primitive is not TOOLS:
        return _FEWER_REFUSALS
    quick = bench.can_start("core") and bench.has_turn(0) and not bench.server.concurrency.slow
    return _MANY_REFUSALS if quick else _REFUSALS


async def _judge_busy(bench: Bench, verdict: UnverifiableError, good: JsonObject) -> None:
    """Expect a server that stays busy after refused searches to stay busy after as many served ones too.

    Refused searches may count as load, but not permanently.
    """
    if verdict.exchange is None or busy_seconds(verdict.exchange) is None:
        return
    async with bench.fresh(own_process=True) as other:
        for _ in range(_refusals(bench)):
            await other.server.search(good)
    message = "after refused searches the server stays too busy to search; after as many served ones it does not"
    bench.expect(False, verdict.exchange, message)


@server_check(
    title="A search needs no `tools/list` before it",
    sends="Several concurrent `tools/search`, some of them for a tool by its name, as the first requests on another"
    " connection.",
    passes="A result for each; each tool whose name is the query is found.",
)
async def search_unlisted(bench: Bench) -> None:
    case = f"one of several first searches on a connection that has not called {bench.list_method}"
    for first in await first_searches(bench):
        await bench.expect_page(first.exchange, case)
        message = f"{first.wanted!r} is not found by {case}"
        query = first.exchange.params["query"]
        bench.expect(not first.by_key or first.wanted in first.found, first.exchange, message, case=f"query {query!r}")


@server_check(
    title="A found tool can be called without listing it",
    sends="On another connection, two pages of a search and `tools/call` of the found tools, without any `tools/list`."
    " The same for a tool that a change of the catalog added, if the fixture can be reloaded, and for names that are"
    " not ASCII or differ in spaces, case or composition, if the fixture lists such tools and prompts. Likewise"
    " `resources/read` and `prompts/get` if resources and prompts can be searched.",
    passes="A result without `isError` for each, and for unusual names a result of the right tool.",
    profiles=("fixture",),
    methods=(TOOLS.method, RESOURCES.method, PROMPTS.method),
)
async def callable_(bench: Bench) -> None:
    query, last = await bench.query_with_matches(), (await bench.vocabulary()).keys[-1]
    pages = [await bench.server.first(last if is_query(last) else query, limit=1), await bench.server.first(query)]
    use = bench.primitive.use_method
    async with bench.another(unasked={bench.list_method}) as other:

        async def use_one(item: JsonObject) -> None:
            key = _key(bench, item)
            listed = (await bench.server.known_listing()).by_key.get(key, item)  # definition-identity compares them
            used = await other.server.ask(use, params_of_use(listed, bench.primitive))
            answer = used.describe() if used.result is None else json.dumps(used.result.get("content"))[:200]
            other.expect(has_worked(used), used, f"{key!r} was found, but {use} of it got {answer}", case=key)

        first = await other.server.page(query, limit=1)
        if first.next_cursor is not None:
            pages.insert(0, await other.server.page(query, limit=1, cursor=first.next_cursor))
        for page in pages:
            if "cursor" not in page.exchange.params:
                await other.server.search(page.exchange.params)
            found = [item for item in page.items if "x-mcp-header" not in json.dumps(item)]
            await other.each(found[:_USED], use_one)
    async with found_by_unusual_names(bench) as (unusual, listing, searches):
        found = [*searches, *(await unusual_prompts(bench) if searches else ())]
        for by, name in dict.fromkeys((each.method, name) for name, each in found if each.result is not None):
            used = await unusual.server.ask(primitive_of(by).use_method, {"name": name, "arguments": {}})
            message = f"{name!r} was found, but {used.method} of it got {used.describe()}"
            unusual.expect(has_worked(used), used, message, case=name)
            called = _called(used)
            message = f"{used.method} of the found {name!r} returned the result of {called!r}"
            unusual.expect(called not in {*listing.by_key} - {name}, used, message, case=name)
    await bench.where_reloaded(_expect_added_usable)


async def _expect_added_usable(bench: Bench) -> None:
    """Expect an item to be usable that a change has added, if a search finds it."""
    use, (changed, key) = bench.primitive.use_method, await with_added_item(bench)
    for item in [item for item in (await changed.server.first(key)).items if _key(bench, item) == key][:1]:
        used = await changed.server.ask(use, params_of_use(item, bench.primitive))
        message = f"{key!r}, added by a change of the catalog, was found, but {use} of it got {used.describe()}"
        changed.expect(has_worked(used), used, message, case=key)


def has_worked(use: Exchange) -> bool:
    """Return whether an item could be used."""
    return use.result is not None and use.result.get("isError") is not True


def _called(call: Exchange) -> str:
    """Return the name of the tool or prompt in a fixture's answer to a call; empty if there is none."""
    result = call.result or {}
    message = as_object((as_array(result.get("messages")) or [None])[0]) or {}
    content = as_object((as_array(result.get("content")) or [message.get("content")])[0]) or {}
    with suppress(ValueError):
        return str((as_object(json.loads(str(content.get("text")))) or {}).get("name", ""))
    return ""
