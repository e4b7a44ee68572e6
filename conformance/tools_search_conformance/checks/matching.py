"""The matching floor, the same on every server. Relevance beyond it is never judged."""

from __future__ import annotations

import random
import unicodedata
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from typing import Final

from hypothesis import strategies as st
from tools_search_spec import Primitive

from tools_search_conformance.catalogs import COMMON, document, made_item, made_tool
from tools_search_conformance.checks.changes import with_new_words
from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.generated import judge_surveys
from tools_search_conformance.target.list_bench import once
from tools_search_conformance.target.pages import Listing, Survey, advertised_settings, read_page
from tools_search_conformance.target.primitives import (
    METHODS_OF_RESOURCES,
    PROMPTS,
    RESOURCES,
    TEMPLATES,
    TOOLS,
    keys_in,
    noun_of,
    settings_for,
)
from tools_search_conformance.target.properties import explore
from tools_search_conformance.target.server import busy_seconds
from tools_search_conformance.target.vocabulary import NONSENSE, WHITE_SPACE, Vocabulary, is_query, text_of
from tools_search_conformance.target.vocabulary import terms as terms_of
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.connection import RefusedError
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Exchange

_LIVE_TOOLS: Final = 25
_LIVE_ITEMS: Final = 8
_LONGEST: Final = 1024
_SEPARATORS: Final = (" ", ", ", "; ", "\n", "\u3000", " - ", "/")
_WHITE_SPACES: Final = (
    "", "  ", "\n\t", "\u3000\u2003", "\u0085", "\u00a0", "\u2028 ", "\u1680\u202f", "\v\f\r", "\u2029\u205f",
    " " * 400,
)  # fmt: skip
_LARGE: Final = 1000
_LIMITS: Final = (None, 1, _LARGE, 2, 20)
_BROAD_PAGES: Final = 20
_FIRST_PAGES: Final = 5
"""Maximum pages to read of a search, because the first ones may be empty."""
_LEAST_SHARED: Final = 3
_READ: Final = 12
"""Maximum number of resources to read."""
_SMALL: Final = 20_000
"""Maximum bytes of a resource to read."""
_WRITTEN: Final = (
    '"{0}"', "{0} {0}", "-{0}", "{1}_{0}", "{0}*", "({0}", "{1}-{0}", "{0}:{1}", "'{0}", "{1}.{0}", "+{0} +{1}",
    "{0}\n{1}", "{0}?", "@{0}", "\x00{0}", "{1}\x1f\x00{0}",
)  # fmt: skip
"""Two terms of a tool in spellings with a special meaning in query languages, or where strings end with NUL."""
_UNUSUAL: Final = "unusual"
_PUNCTUATED_NAME: Final = "punctuated"
_UNUSUAL_NAMES: Final = (
    f" {COMMON}", COMMON, "plow ", "plow", "two  spaces", "two spaces", "gro\u0308\u00dfe_messen",
    "gr\u00f6\u00dfe_messen",
    "\ufb01le", "file", "\u00c5NGSTR\u00d6M", "\u00e5ngstr\u00f6m", "\u691c\u7d22", "\U0001f527",
    "co\u00adop", "coop", "1e1", "10", "\U0001f528", "proto", "__proto__", "long-name." * 12,
    "kiln", "\ufeffkiln", "kiln\u200b", '"kiln"',
)  # fmt: skip
"""Names that the base protocol does not recommend, or that are equal after common normalizations, one that objects in
JavaScript do not hold, and one that is too long for some models.
"""
_SURROUNDED: Final = (COMMON, *_UNUSUAL_NAMES[4:10:2], "file", "\u00e5ngstr\u00f6m", *_UNUSUAL_NAMES[-3:])
"""Those that are also searched for with white space around them, which is all that a server may take away."""
_MUCH_SPACE: Final = WHITE_SPACE * 16
_PUNCTUATED: Final = (
    "Reads `medlar`, \"quince\" and 'sloe'; [damson](bilberry), {mulberry} or (rowan), <hawthorn> and <b id=elder>. See"
    " https://example.com/loquat?persimmon#pomelo, @kumquat, #papaya, $guava, durian.md, jackfruit's, l'olive, 9,7319"
    " and 4.8461.\n\nAprikosenmarmeladenpfannkuchenverordnungen.\n\nArgs:\n    tamarind: Whatever is ripe.\n"
    + "One more is as good as the one before it. " * 200
    + "The last one is the rambutan."
)
"""A description with terms in punctuation and in parts that servers may leave out, such as code or the end."""
_MORE: Final = 60
"""Number of tools with that word: more than most servers rank in detail."""
_NAMED_ALONE: Final = (TOOLS.method, PROMPTS.method)
"""The methods whose items are identified by their names."""


def chosen(bench: Bench, tools: Sequence[JsonObject]) -> list[JsonObject]:
    """Return all tools of a fixture, or some of a live server's, chosen by the seed; only a few in a brief run."""
    if bench.profile == "fixture" and not bench.options.effective_brief:
        return list(tools)
    if bench.options.effective_brief or not bench.shares_cases:  # otherwise, cells share the cases about these tools
        tools = bench.some(tools, 6)
    most = _LIVE_ITEMS if bench.is_sampled else _LIVE_TOOLS
    if bench.profile == "fixture" or len(tools) <= most:
        return list(tools)
    return random.Random(bench.options.seed).sample(list(tools), most)  # noqa: S311 - a choice that can be repeated


@server_check(
    title="A tool whose name is the query comes first",
    sends="The names of listed tools as queries, with several limits, surrounded by all kinds of white space; to a"
    " fixture of a single tool, its name; on a fixture that lists such tools, a word that sixty tools have for a"
    " name, with and without `limit`, and names that are not ASCII, or that differ only in white space, quotes,"
    " invisible characters, case or composition, or spell the same number, some of them surrounded by white space; on"
    " that fixture, also prompts with these names.",
    passes="Each first page begins with that tool.",
    methods=_NAMED_ALONE,
)
async def exact_name_first(bench: Bench) -> None:
    await _expect_first(bench, "name")
    if bench.primitive is TOOLS and bench.may_serve("single"):
        async with bench.serving("single") as other:
            (only,) = (await other.nonempty_listing()).by_key
            first = await other.server.first(only)
            message = f"{only!r} is the only tool, but the query {only!r} returned {first.keys}"
            other.expect(first.keys[:1] == [only], first.exchange, message, case=f"query {only!r} for the only tool")

    async with found_by_unusual_names(bench) as (other, _, searches):
        for name, exchange in [*searches, *(await unusual_prompts(bench) if searches else ())]:
            query, found = exchange.params["query"], keys_in(exchange)
            got = f"returned {found}" if exchange.result is not None else f"got {exchange.describe()}"
            message = f"{exchange.method}: the query {query!r} {got} instead of {name!r} first"
            other.expect(found[:1] == [name], exchange, message, case=f"query {query!r}")


@asynccontextmanager
async def found_by_unusual_names(bench: Bench) -> AsyncGenerator[tuple[Bench, Listing, list[tuple[str, Exchange]]]]:
    """Yield the bench of a fixture of tools with unusual names, their listing, and searches for these names.

    Names that are not listed exactly as in the catalog file are not searched for: no server has to accept them.
    """
    listing, searches = await _unusual_names(bench)
    async with bench.serving(_UNUSUAL) if searches else nullcontext(bench) as other:
        yield other, listing, searches


@once
async def _unusual_names(bench: Bench) -> tuple[Listing, list[tuple[str, Exchange]]]:
    nothing = await bench.server.known_listing(), list[tuple[str, Exchange]]()
    if bench.primitive is not TOOLS or not bench.may_serve(_UNUSUAL):
        return nothing
    made = [made_tool(f"\u00e9 \u8239 {number}", name=name) for number, name in enumerate(_UNUSUAL_NAMES)]
    # The last tool only matches its query by its name, and many others match that query too.
    made = [*(tool for tool in made if tool["name"] != COMMON), *(made_tool(f"{number}") for number in range(_MORE))]
    made.append(made_tool("", name=COMMON, description="Is there for what no other tool is for, whatever that may be."))
    made.append(made_tool("", name=_PUNCTUATED_NAME, description=_PUNCTUATED))
    prompts = [made_item(PROMPTS, f"{number}", name=name) for number, name in enumerate(_UNUSUAL_NAMES)]
    try:
        bench.place(_UNUSUAL, document(made, prompts=prompts))
        async with bench.serving(_UNUSUAL) as other:
            listing = await other.server.listing()
            queries = [(name, name) for name in _UNUSUAL_NAMES] + [(name, f"  {name}\n") for name in _SURROUNDED]
            queries.append((COMMON, f"{_MUCH_SPACE}{COMMON}{_MUCH_SPACE}"))
            cases = [(name, {"query": query, "limit": 3}) for name, query in queries]
            cases = [case for case in [*cases, (COMMON, {"query": COMMON})] if case[0] in listing.by_key]
            found = await other.each(cases, lambda case: other.server.search(case[1]))
    except (UnverifiableError, RefusedError, TargetError):
        return nothing
    return listing, [(name, exchange) for (name, _), exchange in zip(cases, found, strict=True)]


@once
async def unusual_prompts(bench: Bench) -> list[tuple[str, Exchange]]:
    """Return searches for prompts of the same fixture, which have the same names, once for each run."""
    if bench.primitive is not TOOLS or not bench.first_cell or not bench.may_serve(_UNUSUAL):
        return []
    try:
        # A process of its own, so that what the searches for tools left behind is not taken for the order of prompts.
        async with bench.fresh(catalog=_UNUSUAL, own_process=True) as other:
            if settings_for(advertised_settings(await other.server.connection()), PROMPTS) is None:
                return []
            by_prompts = other.searching(PROMPTS)
            names = [name for name in _UNUSUAL_NAMES if name in (await by_prompts.server.known_listing()).by_key]
            return [(name, await by_prompts.server.search({"query": name, "limit": 3})) for name in names]
    except (UnverifiableError, RefusedError, TargetError):
        return []


@server_check(
    title="A resource whose `uri` is the query, or a template whose `uriTemplate` is the query, comes first",
    sends="The URIs of listed resources and the URI templates of listed templates as queries, with several limits,"
    " surrounded by all kinds of white space. A fixture has URIs that are normalized alike, or that are names of other"
    " resources, and templates that differ in a variable.",
    passes="Each first page begins with that resource or template.",
    methods=METHODS_OF_RESOURCES,
)
async def exact_uri_first(bench: Bench) -> None:
    await _expect_first(bench, bench.primitive.key)


@server_check(
    title="If no `uri` is the query, a resource whose name is the query comes first",
    sends="The names of listed resources and templates, some of which share a name, as queries, with several limits,"
    " surrounded by all kinds of white space. A fixture has names that are titles of other resources.",
    passes="Each first page begins with a resource or template of that name.",
    methods=METHODS_OF_RESOURCES,
)
async def exact_shared_name_first(bench: Bench) -> None:
    await _expect_first(bench, "name")


async def _expect_first(bench: Bench, member: str) -> None:
    """Expect a search for an item's text in a member to return an item with this text first."""

    async def judge(case: tuple[str, str, str, int | None]) -> None:
        before, text, after, limit = case
        query = f"{before}{text}{after}"
        try:
            page = await bench.server.page(query if len(query) <= _LONGEST else text, limit=limit)
        except UnverifiableError:
            if limit != _LARGE:  # limit-clamped judges errors for large limits
                raise
            return
        found = [item.get(member) for item in page.items[:3]]
        message = f"the query {query!r} returned {found} instead of {text!r} first"
        bench.expect(found[:1] == [text], page.exchange, message, case=f"query {query!r}, limit {limit}")

    def judge_named(survey: Survey) -> None:
        for name, exchange in survey.named:
            query, found = exchange.params["query"], keys_in(exchange)
            got = f"returned {found[0]!r}" if found else f"got {exchange.describe()}"
            message = f"the query {query!r} {got} instead of {name!r} first"
            bench.expect(found[:1] == [name], exchange, message, case=f"query {query!r}")

    listing = await bench.nonempty_listing()
    keys = {*listing.by_key} if member != bench.primitive.key else set[str]()
    items = [item for item in listing.items if is_query(str(item.get(member, ""))) and item[member] not in keys]
    bench.applies(bool(items), f"no {bench.noun} has a {member} that is a valid query")
    texts = list(dict.fromkeys(item[member] for item in chosen(bench, items)))
    cases = [
        (
            around := _WHITE_SPACES[(number + number // len(_WHITE_SPACES)) % len(_WHITE_SPACES)],
            texts[number % len(texts)],
            around[::-1],
            _LIMITS[number % len(_LIMITS)],
        )
        for number in range(max(len(texts), len(_WHITE_SPACES)))
    ]
    names = {item["name"] for item in listing.items}
    cases += [(" ", text, "\n", None) for text in texts if member != "name" and text in names]
    # A server that keeps answers may keep one for both of two texts.
    alike = Counter(text.casefold() for text in texts)
    cases += [("", text, "", None) for text in texts if alike[text.casefold()] > 1]
    await bench.each(bench.share(cases), judge)
    around = st.text(st.sampled_from(WHITE_SPACE), max_size=5)
    limit = st.none() | st.integers(min_value=1, max_value=5)
    await explore(bench, st.tuples(around, st.sampled_from(texts), around, limit), judge)
    await judge_surveys(bench, judge_named)


@dataclass(frozen=True)
class FirstSearch:
    """One of the first searches on a connection."""

    wanted: str
    """The key of the item to find."""
    by_key: bool
    """Whether the query is that key; otherwise it is a term of the item."""
    exchange: Exchange
    found: list[str]
    """The keys on its first pages; empty if no page is readable."""


@once
async def first_searches(bench: Bench) -> list[FirstSearch]:
    """Send concurrent searches as the first requests on another connection, if possible to another process."""
    await bench.nonempty_listing()
    words, large = await bench.vocabulary(), await bench.server.large_limit()
    keys, several = [key for key in words.keys if is_query(key)], bench.primitive is TOOLS
    cases: list[tuple[str, JsonObject]] = [
        (key, {"query": key}) for key in dict.fromkeys([*keys[:1], *keys[-1:], *keys[len(keys) // 2 :][:1]])
    ]
    own = [(item[words.key], terms) for item in words.items[::-1] if (terms := words.distinctive(item))]
    cases += [(key, {"query": terms[0], "limit": large}) for key, terms in (own[:1] + own[len(own) // 2 :][:1])]
    sent = cases if several else cases[:2]
    params, seconds = [each for _, each in sent], bench.options.timeout + len(sent) * bench.recorder.milliseconds / 1000
    searches = list[FirstSearch]()
    async with bench.another(unasked={bench.list_method, bench.method}) as other:
        exchanges = await other.server.at_once(params, seconds=seconds)
        # A server may be too busy for several at once; busy-refusal judges the error.
        failed = any(exchange.result is None for exchange in exchanges)
        again = await other.server.at_once(params, seconds=seconds) if failed else exchanges
        too_many = any(exchange.result is None for exchange in again)  # not necessarily the same ones
        for (key, each), first in zip(sent, exchanges, strict=True):
            alone = first.result is None and (too_many or busy_seconds(first) is not None)
            exchange = await other.server.search(each) if alone else first
            found = list[str]()
            with suppress(UnverifiableError):  # other checks judge whether it is a page
                page, limit = read_page(exchange, "a search"), each.get("limit")
                walk = await other.server.walk(each["query"], limit, first=page, most=_FIRST_PAGES, sought=key)
                found = walk.keys
            searches.append(FirstSearch(key, each["query"] == key, exchange, found))
    return searches


@server_check(
    title="A tool whose texts contain every term of the query matches",
    sends="For each tool, one to three distinctive terms of its name, title and description in various spellings, one"
    " of them with a single letter of these texts, and its whole text; words and pairs of words that several tools"
    " share; on a fixture that lists unusual names, words in punctuation and in every part of a long description; on a"
    " fixture that can be reloaded, words that came with a change; distinctive terms of two tools among the first"
    " requests on another connection, sent concurrently.",
    passes="That tool is on one of the pages; for shared words, each tool that contains them is.",
)
async def all_terms_match(bench: Bench) -> None:
    async def judge(case: tuple[str, str]) -> None:
        name, query = case
        walk = await bench.server.walk(query, await bench.server.large_limit(), most=20, sought=name)
        bench.require(walk.ended or name in walk.keys, f"a search for {query!r} does not end; see pages-end", walk.last)
        message = f"{name!r} contains every term of {query!r}, but the search found only {walk.keys[:5]}"
        bench.expect(name in walk.keys, walk.last, message, case=f"query {query!r}")

    async def judge_shared(query: str) -> None:
        wanted = {item[words.key] for item in words.items if {*terms_of(query)} <= words.terms_of(item)}
        walk = await bench.server.walk(query, await bench.server.large_limit(), most=_BROAD_PAGES)
        lost = sorted(wanted.difference(walk.keys)) if walk.ended else []
        message = f"{lost[:5]} contain every term of {query!r}, but are not in the result,"
        message += f" which has {number_of(len(walk.keys), bench.noun)}"
        bench.expect(not lost, walk.last, message, case=f"query {query!r}")

    def judge_many(survey: Survey) -> None:
        for walk in (walk for walk in (*survey.shared, *survey.wholes) if walk.ended):
            queried = {*terms_of(walk.query)}
            wanted = {tool["name"] for tool in survey.listing.items if queried <= {*terms_of("\n".join(text_of(tool)))}}
            lost = wanted.difference(walk.keys)
            message = f"a search for {walk.query!r} misses {len(lost)} of the {number_of(len(wanted), 'tool')}"
            message += " that contain each of its terms"
            bench.expect(not lost, walk.last, message, case=walk.case)

    await bench.nonempty_listing()
    words = await bench.vocabulary()
    cases = [
        (tool[words.key], query)
        for number, tool in enumerate(chosen(bench, words.items))
        for query in bench.some([*dict.fromkeys(_queries(words, tool, number))], 2)
    ]
    await bench.each(cases, judge)
    await bench.each(bench.some([*words.shared(_LEAST_SHARED), *words.pairs(3)], 2), judge_shared)
    bench.require(bool(bench.recorder.judged), f"no {bench.noun} has a distinctive term in its texts")
    terms_by_key = {item[words.key]: terms for item in words.items if (terms := words.distinctive(item))}

    def written(key: str) -> st.SearchStrategy[tuple[str, str]]:
        terms = terms_by_key[key]
        spelled = st.sampled_from([*terms, *(t.upper() for t in terms if terms_of(t.upper()) == (t,))])
        several, between = st.lists(spelled, min_size=1, max_size=4), st.sampled_from(_SEPARATORS)
        return st.tuples(several, between).map(lambda drawn: (key, drawn[1].join(drawn[0])))

    if terms_by_key:  # empty if every term is in several tools
        await explore(bench, st.sampled_from(sorted(terms_by_key)).flatmap(written), judge)
    await judge_surveys(bench, judge_many)
    if bench.primitive is TOOLS and bench.cell.transport == "http" and bench.has_turn(1):
        await bench.where_reloaded(_expect_words_after_change)
    if bench.primitive is TOOLS and bench.can_start("core"):
        await _expect_words_at_first(bench)
    async with found_by_unusual_names(bench) as (other, listing, _):
        await _expect_punctuated_words(other, listing)


async def _expect_punctuated_words(bench: Bench, listing: Listing) -> None:
    """Expect a tool to be found by words next to punctuation, and by those of every part of its description."""
    if (tool := listing.by_key.get(_PUNCTUATED_NAME)) is None:
        return
    queries, limit = Vocabulary(tuple(listing.items)).distinctive(tool), await bench.server.large_limit()
    for walk in await bench.each(bench.some(queries, 12), lambda query: bench.server.walk(query, limit, most=20)):
        message = f"{_PUNCTUATED_NAME!r} has the term {walk.query!r} in its description, but does not match it"
        bench.expect(_PUNCTUATED_NAME in walk.keys, walk.last, message, case=f"query {walk.query!r}")


async def _expect_words_at_first(bench: Bench) -> None:
    """Expect the first searches on a connection to find tools by their terms, if they find others by their names."""
    searches = await first_searches(bench)
    if all(each.wanted in each.found for each in searches if each.by_key):  # or else search-unlisted finds it
        for each in searches:
            query = each.exchange.params["query"]
            message = f"{each.wanted!r} contains {query!r}, but is not found by one of several first searches at once"
            bench.expect(each.wanted in each.found, each.exchange, message, case=f"query {query!r} at first")


async def _expect_words_after_change(bench: Bench) -> None:
    """Expect a tool to be found by words that came with a change."""
    other, wanted = await with_new_words(bench)
    for word, name in wanted.items():
        walk = await other.server.walk(word, await other.server.large_limit(), most=20, sought=name)
        message = f"after a change, {name!r} has the term {word!r}, but does not match it: {walk.keys[:5]}"
        other.expect(name in walk.keys, walk.last, message, case=f"query {word!r} after a change")


def _queries(words: Vocabulary, tool: JsonObject, number: int) -> list[str]:
    terms = words.distinctive(tool)
    if not terms:
        return []
    first, last = terms[0], terms[-1]
    wide = "".join(chr(ord(c) + 0xFEE0) if c.isascii() else c for c in first)
    spelled = (first, first.upper(), wide)[number % 3]
    several = f"{last}, {first}!" if number % 2 else " ".join(terms[:3])
    member = ("name", "description")[number // 2 % 2]
    odd = (*words.odd(tool), *words.capital_sharp(tool), *words.figures(tool))
    capitals = [upper if terms_of(upper := term.upper()) == (term,) else term for term in odd]
    decomposed = [unicodedata.normalize("NFD", term) for term in capitals]
    written = _WRITTEN[number % len(_WRITTEN)].format(first, last)
    everything = [text for text in ["\n".join(text_of(tool))] if len(text) <= _LONGEST]
    ligatures = [term.replace("fi", "\ufb01").replace("fl", "\ufb02") for term in terms if "fi" in term or "fl" in term]
    # Alone, a single letter may be taken for a stop word.
    short = [f"{first} {letter}" for letter in words.short(tool)]
    alone = (*words.alone(tool, "title"), *words.alone(tool, member), *words.beyond(tool))
    return [spelled, several, *alone, *odd, *decomposed, *ligatures[:1], *short, written, *everything]


@server_check(
    title="If the settings say `contents`, a resource is found by terms of its content",
    sends="`resources/read` of listed resources, and searches for distinctive terms of their text, alone and together"
    " with terms of their definitions.",
    passes="That resource is on one of the pages. Not applicable without `contents`.",
    methods=(RESOURCES.method,),
)
async def contents_match(bench: Bench) -> None:
    promised = (await bench.server.settings()).get("contents") is True
    bench.applies(promised, "the settings do not say that contents are searched")
    items = (await bench.nonempty_listing()).items
    # A server may choose which resources to read, and few read large ones.
    small = [item for item in items if (integer(item.get("size")) or 0) <= _SMALL]
    listed = {item["uri"]: item for item in chosen(bench, small)}
    texts = {uri: text for uri in [*listed][:_READ] if (text := await bench.text_of(uri)).strip()}
    told = [
        {**listed[uri], "description": f"{listed[uri].get('description', '')}\n{text}"} for uri, text in texts.items()
    ]
    words = Vocabulary((*told, *(item for uri, item in listed.items() if uri not in texts)), "uri")
    cases = list[tuple[str, str]]()
    for item in told:
        own = {term for text in text_of(listed[item["uri"]]) for term in terms_of(text)}
        terms = words.distinctive(item)
        inside = [term for term in terms if term not in own]
        outside = [term for term in terms if term in own][:1]
        cases += [(item["uri"], " ".join(each)) for each in (inside[:1], inside[-3:], outside + inside[:1]) if each]
    bench.applies(bool(cases), "no resource that was read has a distinctive term in its text")

    async def judge(case: tuple[str, str]) -> None:
        uri, query = case
        walk = await bench.server.walk(query, await bench.server.large_limit(), most=20, sought=uri)
        message = f"{uri!r} contains every term of {query!r}, some of them in its content, but was not found"
        bench.expect(uri in walk.keys, walk.last, message, case=f"query {query!r}")

    await bench.each(bench.share(cases), judge)


@server_check(
    title="A search without a match returns an empty array, not an error",
    sends="Words that are in no language, and the key of an item with a further part; on a fixture with an empty"
    " catalog, any words, and searches for templates and for prompts; on one without resources, a search for them.",
    passes="A result whose `tools` is an array, which is empty on an empty catalog.",
)
async def no_match_empty(bench: Bench) -> None:
    def judge(survey: Survey) -> None:
        bench.expect_result(survey.nothing, f"a search without a match ({NONSENSE!r})", case=f"query {NONSENSE!r}")

    async def serve(query: str) -> None:
        await bench.served_without_match({"query": query}, f"a search without a match ({query!r})")

    no_key = f"{(await bench.vocabulary()).key_query}/none"
    await bench.each((NONSENSE, "ƶʬʭ ꙮꙮꙮ", "!?…", "🦉🪁", "qzx", no_key), serve)
    limited = f"a search without a match ({NONSENSE!r}, limit 1)"
    await bench.served_without_match({"query": NONSENSE, "limit": 1}, limited)
    if bench.may_serve("empty"):
        async with bench.serving("empty") as other:
            for query in ("anything", NONSENSE):
                await other.expect_nothing({"query": query}, "a search on an empty catalog")
            await _expect_nothing_of(other, TEMPLATES, PROMPTS)
    if bench.may_serve("single"):
        async with bench.serving("single") as other:
            await _expect_nothing_of(other, RESOURCES)
    await judge_surveys(bench, judge)


async def _expect_nothing_of(bench: Bench, *absent: Primitive) -> None:
    """Expect searches for what a catalog lacks to find nothing, if the server offers them."""
    settings = advertised_settings(await bench.server.connection())
    for primitive in (each for each in absent if settings_for(settings, each) is not None):
        case = f"{primitive.method} on a catalog without {noun_of(primitive)}s"
        await bench.searching(primitive).expect_nothing({"query": "anything"}, case)
