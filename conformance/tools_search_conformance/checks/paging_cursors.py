"""Cursors: honored for the search that issued them, and refused for every other."""

from __future__ import annotations

import base64
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Any, Final

from tools_search_conformance.checks.parameters import refused_without_matches
from tools_search_conformance.model import InapplicableError, LeftOutError, UnverifiableError, ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.list_bench import INVALID_PARAMS, early_page
from tools_search_conformance.target.pages import read_page
from tools_search_conformance.target.primitives import TOOLS, keys_in
from tools_search_conformance.target.server import Opening
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.display import number_of
from tools_search_conformance.wire.record import Exchange

KEY_VARIABLE: Final = "TOOLS_SEARCH_CURSOR_KEY"
"""The environment variable that holds the secret that the replicas of a fixture share."""

_KEY: Final = "the replicas of a fixture share this secret of 64 characters ..."
_PLACES: Final = 32
"""In how many places of a cursor a character is exchanged."""
_BASE64: Final = f"{ascii_uppercase}{ascii_lowercase}{digits}"
_SEPARATORS: Final = "#?&;,:/|~!@$*+ \\^`'\"()<>[]{}%=_-"
_OTHER_ALPHABET: Final = str.maketrans("-_+/", "+/-_")
_RAISED_BY: Final = (1, -1, 100_000)
_FEW_CHARACTERS: Final = 4
_TWO_DIGITS: Final = 10
_TO_FULL_WIDTH: Final = 0xFEE0
"""From a printable ASCII character to its full-width form, which NFKC makes the same."""
_HALF_QUERY: Final = 508
"""Characters of half a long query, without the symbols that make it differ from others."""
_OTHER_ENDS: Final = (
    "2 \u00e9 \u8239", "1 \u00e8 \u8239", "1 \u00e9 \u95f8", "1 \u00e9 9", "1 e \u8239", "1 \u00e9",
    "1 \u00c9 \u8239",
)  # fmt: skip
# Symbols are no terms. They distinguish queries that were sent before.
_MARKS: Final = (" \u21a9\u2318", " \u2318\u21a9", " \u2325\u21a9")
_REPLICA_PAGES: Final = 4
_TOGETHER: Final = 4
_ROUNDS: Final = 3
_ATTEMPTS: Final = 2
_BOUND_PAGES: Final = (3, 4, 5)
_MADE_UP: Final = (
    "",
    "no such cursor",
    "AAAA",
    "A",
    " ",
    "null",
    "-1",
    "0",
    "1",
    "10",
    "99999999999999999999",
    "undefined",
    "start",
    "MTA=",
    "/////w==",
    "00000000-0000-4000-8000-000000000000",
    base64.b64encode(b'{"offset":1}').decode(),
    base64.urlsafe_b64encode(b'{"query":"anything","offset":10}').decode().rstrip("="),
    *(base64.b64encode(text).decode() for text in (b"null", b"[]", b"{}", b'"1"', b"\xff\xfe", b"1:1", b"[" * 6000)),
    "eyJvIjoxfQ.AAAA",
    "AAAA.BBBB.CCCC",
    "AAAA.\u00e9",
    "1:AAAA",
    ".",
    "%",
    "0123456789abcdef" * 2,
    "{}",
    "🔧\x00\u202e",
    "../../etc/passwd",
    "A" * 5000,
    "A" * 50_000,
)


async def _expect_old_cursor_refused(bench: Bench) -> None:
    """Expect the cursor of an early search to return the second page, or to be refused like any invalid cursor."""
    first = await early_page(bench) if bench.primitive is TOOLS else None
    if first is None or first.next_cursor is None:
        return
    case = "a cursor issued many searches ago"
    exchange = await bench.server.search({**first.exchange.params, "cursor": first.next_cursor})
    if exchange.result is None:
        bench.expect_code(exchange, case)
    else:
        again = [key for key in read_page(exchange, case).keys if key in first.keys]
        message = f"{case} returned tools of the first page again: {again}"
        sent = first.exchange.params
        if again and (await bench.server.page(sent["query"], limit=sent.get("limit"))).keys != first.keys:
            return  # the order has changed; see deterministic
        bench.expect(not again, exchange, message, case=case)


async def _second_page(bench: Bench, query: str | None = None, *, limit: int = 1) -> JsonObject:
    """Return the params of a second page, with an unused cursor. Inapplicable with a single tool."""
    query = query or await bench.query_with_matches()
    _, cursor = await bench.page_with_cursor(query, limit=limit)
    return {"query": query, "limit": 1, "cursor": cursor}


@server_check(
    title="A cursor that this server did not issue is refused",
    sends="Made-up cursors: the empty string, words, numbers, base64, unusual characters, 50,000 letters; some of them"
    " with a query without matches. An unused cursor of one of the first searches of the run.",
    passes="Error -32602 for each; for the old cursor, the second page or error -32602.",
)
async def cursor_forged(bench: Bench) -> None:
    await _expect_old_cursor_refused(bench)

    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        return [({**good, "cursor": made_up}, f"cursor {made_up[:60]!a}") for made_up in _MADE_UP]

    if len((await bench.nonempty_listing()).items) > 1:
        await bench.refused_cursors(lambda: _second_page(bench), vary)
    else:  # a single page has no cursor
        only = {"query": await bench.query_with_matches()}
        await bench.refused_each(bench.some(vary(only), 4), only)
    some = bench.some(_MADE_UP[1:4], 1)
    await refused_without_matches(bench, [({"cursor": made_up}, f"cursor {made_up!a}") for made_up in some])
    # A server may answer a query that is a name before it looks at other parameters.
    named = {"query": await bench.key_query()}
    cases = [({**named, "cursor": made_up}, f"cursor {made_up!a} for a name") for made_up in _MADE_UP[1:2]]
    await bench.refused_each(cases, named)


@server_check(
    title="A cursor can be used more than once",
    sends="A first page, then the request for its second page twice, and a third time after another search.",
    passes="A result for each.",
)
async def cursor_repeated(bench: Bench) -> None:
    following = await _second_page(bench)
    once = await bench.server.search(following)
    if bench.recorder.has_followed(bench.method, following["query"], following["cursor"]):  # each search may issue it
        bench.expect_result(once, "a cursor that got a page earlier, and was issued again,")
    bench.require_result(once, "the second page")
    await bench.served(following, "a cursor sent a second time")
    # Another search in between must not invalidate the cursor: a server may keep only the last search.
    await bench.server.search({"query": NONSENSE})
    await bench.served(following, "a cursor sent a third time after another search")


@server_check(
    title="An altered cursor is refused",
    sends="A genuine cursor with one character changed, at each of several positions; cut, doubled or extended; in"
    " another spelling of base64; with the case of its letters swapped; without its signature, if it is a JWT; with the"
    " numbers in it raised or lowered; or with a punctuation mark and another part before or after it, as in a URL; the"
    " cursor after ten tools in other spellings, too.",
    passes="Error -32602 for each.",
)
async def cursor_tampered(bench: Bench) -> None:
    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        cursor = good["cursor"]
        return [
            ({**good, "cursor": altered}, f"a genuine cursor {how} ({altered[:80]!a})")
            for altered, how in (*_alterations(cursor), *_parted(cursor))
        ]

    while True:
        try:
            await _expect_longer_refused(bench)
            return await bench.refused_cursors(lambda: _second_page(bench), vary)
        except ViolationError as violation:
            # The altered cursor may be the genuine one of another page, such as page 3 instead of 2.
            sent: JsonObject = violation.exchange.sent["params"] if violation.exchange else {}
            if "limit" not in sent or bench.recorder.has_issued(bench.method, sent["query"], sent["cursor"]):
                raise
            await bench.server.walk(sent["query"], sent["limit"])
            if not bench.recorder.has_issued(bench.method, sent["query"], sent["cursor"]):
                raise


async def _expect_longer_refused(bench: Bench) -> None:
    """Expect other spellings of the cursor of a later position to be refused, which is often longer by a digit.

    How many spellings base64 has depends on the length of what it encodes.
    """

    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        spelled = _respelled(good["cursor"])
        return [({**good, "cursor": other}, f"a genuine cursor {how} ({other[:80]!a})") for other, how in spelled]

    query = next(iter((await bench.vocabulary()).broad(1)), None)
    with suppress(UnverifiableError):
        await bench.refused_cursors(lambda: _second_page(bench, query, limit=_TWO_DIGITS), vary)


def _respelled(cursor: str) -> Iterator[tuple[str, str]]:
    if places := [i for i, character in enumerate(cursor) if character in _BASE64]:
        last = places[-1]
        other = _BASE64[_BASE64.index(cursor[last]) ^ 1]  # the same bytes for many base64 decoders
        yield cursor[:last] + other + cursor[last + 1 :], f"with the lowest bit of character {last + 1} flipped"
    # Many base64 decoders accept both alphabets, and ignore padding and line breaks.
    yield cursor.removesuffix("=") if cursor.endswith("=") else f"{cursor}=", "with other padding"
    if (other := cursor.translate(_OTHER_ALPHABET)) != cursor:
        yield other, "in the other alphabet of base64"
    if "+" in cursor:
        yield cursor.replace("+", " "), "with a space for each plus sign"  # as a query string is decoded
    yield f"{cursor}\n", "with a line break appended"
    yield f"{cursor}\u200b", "with a zero width space appended"
    yield f"{cursor}0", "with one more digit"  # many decoders ignore it, because it is not a whole byte


def _alterations(cursor: str) -> Iterator[tuple[str, str]]:
    yield from _respelled(cursor)
    yield from _exchanged(cursor)
    if len(cursor) > 1:
        yield cursor[: len(cursor) // 2], "cut in half"
    if len(cursor) > _FEW_CHARACTERS:
        yield cursor[:-_FEW_CHARACTERS], f"without its last {_FEW_CHARACTERS} characters"
        yield cursor[_FEW_CHARACTERS:], f"without its first {_FEW_CHARACTERS} characters"
    yield cursor + cursor, "doubled"
    yield f"{cursor}AAAA", "with a suffix"
    yield f"{cursor}.AAAA", "with another dot-separated part"
    yield f"AAAA{cursor}", "with a prefix"
    yield f"0{cursor}", "with a leading zero"
    yield f"+{cursor}", "with a plus sign before it"  # which many parsers of numbers accept, like a space
    yield f" {cursor}", "with a space before it"
    yield f"{cursor}\u00e9", "with a non-ASCII letter appended"
    yield f'"{cursor}"', "in quotes"
    yield f"{cursor}\0AAAA", "with NUL and a suffix"
    if cursor:
        yield f"%{ord(cursor[0]):02X}{cursor[1:]}", "with a character escaped as in a URL"
        if "!" <= cursor[0] <= "~":
            yield chr(ord(cursor[0]) + _TO_FULL_WIDTH) + cursor[1:], "with a full-width character"  # alike in NFKC
    if (version := re.match(r"[vV](\d)\W", cursor)) is not None:
        yield cursor[:1] + str(int(version[1]) + 1) + cursor[2:], "of another version"
    parts = re.split(r"(?<=[^\w=+/-])", cursor)
    head, last = "".join(parts[:-1]), parts[-1]  # the last part may be a signature
    if head and len(last) > _FEW_CHARACTERS:
        yield head + last[_FEW_CHARACTERS:], f"without the first {_FEW_CHARACTERS} characters of its last part"
    for before, part in dict.fromkeys((("", cursor), (head, last))):
        if part.swapcase() != part:  # a different string, even if it has the same meaning in hexadecimal
            yield before + part.swapcase(), f"with the case of its last {number_of(len(part), 'character')} swapped"
    yield from ((unsigned, "as a JWT without signature") for unsigned in _unsigned(cursor))
    yield from ((extended, "with another part in its base64") for extended in _extended(cursor))
    for more in _RAISED_BY:
        how = f"{'raised' if more > 0 else 'lowered'} by {abs(more)}"
        yield from ((raised, f"with {numbers} {how}") for raised, numbers in _raised(cursor, more))


def _parted(cursor: str) -> Iterator[tuple[str, str]]:
    """Yield cursors as parts of longer texts, which a server may read like a URL, a path or a list."""
    for mark in _SEPARATORS:
        yield f"{cursor}{mark}AAAA", f"with {mark!r} and a suffix"
        yield f"AAAA{mark}{cursor}", f"with a prefix and {mark!r}"
    yield from ((f"{cursor}{mark}", f"with {mark!r} appended") for mark in "/,;:#?&")


def _exchanged(cursor: str) -> Iterator[tuple[str, str]]:
    places = [i for i, character in enumerate(cursor) if character in _BASE64]
    for place in dict.fromkeys((*places[:: -(-len(places) // _PLACES) or 1], *places[-2:])):
        ring = next(ring for ring in (digits, ascii_lowercase, ascii_uppercase) if cursor[place] in ring)
        other = ring[(ring.index(cursor[place]) + 1) % len(ring)]
        if place > 0 and not cursor[place + 1 : place + 2].isalnum():
            # The low bits of the last base64 character may have no meaning, so this changes a high one.
            other = _BASE64[(_BASE64.index(cursor[place]) + 32) % len(_BASE64)]
        yield cursor[:place] + other + cursor[place + 1 :], f"with character {place + 1} changed"


def _unsigned(cursor: str) -> Iterator[str]:
    """Yield a JWT whose header names the algorithm `none`, which some libraries accept without a signature."""
    head, *payload = cursor.split(".")
    for text, _ in _readings(head):
        if len(payload) > 1 and (header := re.sub(r'("alg"\s*:\s*)"\w+"', r'\1"none"', text)) != text:
            yield f"{base64.urlsafe_b64encode(header.encode()).decode().rstrip('=')}.{payload[0]}."


def _extended(cursor: str) -> Iterator[str]:
    """Yield cursors with one more part after each separator that occurs in the text that a cursor encodes."""
    for text, encoded in _readings(cursor):
        for separator in dict.fromkeys(re.findall(r"[^\w\s]", text)) if cursor.isprintable() else ():
            yield encoded(f"{text}{separator}AAAA")


def _raised(cursor: str, more: int) -> Iterator[tuple[str, str]]:
    if (raised := _raise_numbers(cursor, more)) != cursor:
        yield raised, "its numbers"
    for text, encoded in _readings(cursor):
        if (raised := _raise_numbers(text, more)) != text:
            yield encoded(raised), "the numbers in its base64"


def _raise_numbers(text: str, more: int) -> str:
    return re.sub(r"(?<![\w.])\d{1,6}(?![\w.])", lambda found: str(int(found[0]) + more), text)


def _readings(cursor: str) -> Iterator[tuple[str, Callable[[str], str]]]:
    """Yield the text that a cursor encodes in base64, if any, with how to encode another text like it."""
    marks = b"-_" if re.search("[-_]", cursor) else b"+/"

    def encoded(text: str) -> str:
        whole = base64.b64encode(text.encode(), marks).decode()
        return whole if cursor.endswith("=") or len(cursor) % 4 == 0 else whole.rstrip("=")

    with suppress(ValueError):
        yield base64.b64decode(cursor + "=" * (-len(cursor) % 4), marks, validate=True).decode(), encoded


@server_check(
    title="A cursor issued for another query is refused",
    sends="Genuine cursors with another query than their own: other words, some of the same length, with the same"
    " beginning or end, or with the same hash; the query with other white space, line ends, case, order, Unicode"
    " composition, punctuation, escapes, digits or leading zeros. Cursors of later pages too.",
    passes="Error -32602 for each.",
)
async def cursor_other_query(bench: Bench) -> None:
    words = await bench.vocabulary()
    query: str = (await _second_page(bench))["query"]
    await _refused_with_others(bench, query, [*_others(query, words.broad(40)), words.key_query])
    cases = [(f" {query} ", [query, f" {query}", f"{query} "]), (query.upper(), [query])]
    for pair in bench.some(words.pairs(2), 1):
        one, other = pair.split()
        spaced = [f"{one}  {other}", f"{one}\u00a0{other}", f"{one}\t{other}", f"{one}, {other}", f"{one}_{other}"]
        cases += [(pair, [f"{other} {one}", one, other, *spaced]), (f"{one}  {other}", [pair])]
    for word in bench.some(words.composed(2), 1):
        decomposed = unicodedata.normalize("NFD", word)
        bare = "".join(c for c in decomposed if not unicodedata.combining(c))
        cases += [(word, [decomposed, bare]), (decomposed, [word])]
    # Symbols are no terms, so they leave matches even if a server requires most terms to match.
    half = f"{query} " * (_HALF_QUERY // (len(query) + 1))
    altered = [f"\u2021{half}\u2020{half}\u2020", f"\u2020{half}\u2021{half}\u2020"]
    altered += [f"\u2020{half}\u2020{half}\u2021", f"\u2020{half}\u2020{half}"]
    cases += [
        (f"\u2020{half}\u2020{half}\u2020", altered),
        (f"{query} 1 \u00e9 \u8239", [f"{query} {end}" for end in _OTHER_ENDS]),
    ]
    cases.append((f"{query} 🔧", [f"{query} 🔨", f"{query} \uf527"]))  # one with equal low bits
    broad = " ".join(words.broad(3))  # several, since a server may require most of the terms to match
    cases.append((f"{broad} 1", [f"{broad} 01", f"{broad} \u0661"]))
    lines = [f"{query}\n\u2020", *(f"{query}{ends}\u2021" for ends in ("\r\n", "\r", " "))]
    cases.append((f"{query}\n\u2021", lines))
    symbols = ("!\u00a1", "\u2021!", "\u2020\u00a1")  # one with an equal low byte, one with equal low bits, and another
    cases.append((f"{query} \u2021\u00a1", [f"{query} {other}" for other in symbols]))
    escaped = ("\u2021+&!", "\u2021 &%21", "\u2021 &amp;!", "\u2021 &\\!")
    cases.append((f"{query} \u2021 &!", [f"{query} {other}" for other in escaped]))
    await bench.each(bench.some(cases, 2), lambda case: _refused_with_others(bench, *case))
    # Cursors of later pages are bound to the query too, with any limit. A used cursor may no longer be valid.
    good = await _second_page(bench, query)
    for number in _BOUND_PAGES:
        last = (await bench.server.walk(query, 1, most=number - 1)).pages[-1]
        if (cursor := last.next_cursor) is not None and (cursor or await _is_followed(bench, last.exchange)):
            bad = {"query": f"{query} {NONSENSE}", "cursor": cursor, **({"limit": 50} if number % 2 else {})}
            case = f"the cursor of page {number} with another query"
            await bench.refused_cursor(bad, {**good, "cursor": cursor}, case)


def _others(query: str, words: Sequence[str]) -> list[str]:
    """Return queries that differ from `query`, some of them only in ways that a sloppy comparison misses."""
    wide = "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in query)
    as_long = [word for word in words if len(word) == len(query) and word != query]
    return [
        *[word for word in words if word != query][:2],
        *as_long[:1],
        query[::-1],
        query[:-1],
        f"{query[:-1]}q",
        f"q{query[1:]}",
        f"{query} {NONSENSE}",
        f"{NONSENSE} {query}",
        f"{query}s",
        f"the {query}",
        f"{query} of",
        f"{query} {query}",
        query.swapcase(),
        wide,
        f" {query}",
        *(f"{query}{more}" for more in ("\t", "\n", "\u3000", "\x00", "!", "\u200b", "\u0301", "\ufe0f", " \u8239")),
        f'"{query}"',
        *_of_same_hash(query),
    ]


def _of_same_hash(text: str) -> list[str]:
    """Return a text with the same hash as `text` in some languages (`31 * hash + unit`), if there is one."""
    places = (at for at in range(len(text) - 1) if "!" <= text[at] < "z" and "a" <= text[at + 1] <= "z")
    pairs = ((at, chr(ord(text[at]) + 1) + chr(ord(text[at + 1]) - 31)) for at in places)
    return [text[:at] + pair + text[at + 2 :] for at, pair in pairs][:1]


async def _is_followed(bench: Bench, first: Exchange) -> bool:
    """Return whether an empty cursor returns another page. If it means the end instead, pages-end judges that."""
    following = await bench.server.search({**first.params, "cursor": ""})
    return following.result is not None and keys_in(following) != keys_in(first)


async def _refused_with_others(bench: Bench, query: str, others: Sequence[str]) -> None:
    """Expect a cursor of `query`, if it has several pages, to be refused with each of the other queries.

    A server that binds cursors to less than the query issues one cursor for several queries. Where an earlier search
    for another query has returned it too, it is genuine for both, so only a query that was never sent before decides.
    """
    for mark in ("", *_MARKS):
        issued = await _refused_with_new(bench, f"{query}{mark}", [f"{other}{mark}" for other in others])
        others = [other.removesuffix(mark) for other in issued]
        if not others:
            return


async def _refused_with_new(bench: Bench, query: str, others: Sequence[str]) -> list[str]:
    """Do so for the queries that were not issued the same cursor, and return the others."""
    params = {"query": query, "limit": 1}
    first = await bench.server.search(params)  # other checks judge whether it is served
    cursor: Any = (first.result or {}).get("nextCursor")
    if cursor is None or (cursor == "" and not await _is_followed(bench, first)):
        return []
    unused: list[JsonObject] = [{**params, "cursor": cursor}]

    async def issue() -> JsonObject:
        return unused.pop() if unused else await _second_page(bench, query)

    def vary(good: JsonObject) -> list[tuple[JsonObject, str]]:
        shown = f"{query[:60]!r}"
        different = [other for other in dict.fromkeys(others) if other != query]
        return [
            ({**good, "query": o}, f"a cursor of the query {shown} with {o if len(o) < 60 else o[:60] + '…'!r}")
            for o in different
        ]

    await bench.refused_cursors(issue, vary)
    return [other for other in others if other != query and bench.recorder.has_issued(bench.method, other, cursor)]


@server_check(
    title="A cursor of `tools/list` is refused",
    sends="Searches with the `nextCursor` of a `tools/list` page, one of them for the name of that method; where"
    " possible, on a fixture's catalog of 130 tools.",
    passes="Error -32602 for each.",
)
async def cursor_of_list(bench: Bench) -> None:
    async with bench.serving("large") if bench.may_serve("large") else nullcontext(bench) as large:
        # Other lists may be longer than a page in this catalog only.
        others = [large.searching(each.primitive) for each in bench.others_served if large is not bench]
        for other in dict.fromkeys((bench, large, *others)):
            if (cursor := await _cursor_of_list(other)) is not None:
                for query in (await other.key_query(), other.list_method):
                    case = f"a cursor of {other.list_method} with the query {query!r}"
                    await other.refused({"query": query, "cursor": cursor}, {"query": query}, case)
    bench.applies(bool(bench.recorder.judged), f"{bench.list_method} returns a single page, which has no cursor")


async def _cursor_of_list(bench: Bench) -> str | None:
    first = await bench.server.ask(bench.list_method, {})
    with suppress(UnverifiableError):  # a server may have no list of templates
        return read_page(first, bench.list_method).next_cursor
    return None


@server_check(
    title="A cursor of one method is refused by every other",
    sends="For each other search that the server supports, the cursor of its second page, with its query, and that of"
    " its list.",
    passes="Error -32602 for each.",
)
async def cursor_other_method(bench: Bench) -> None:
    bench.applies(bool(bench.others_served), "the server supports no other search")
    for issuer in bench.others_served:
        with suppress(UnverifiableError, InapplicableError):  # it may have no second page
            query = await issuer.query_with_matches()
            _, cursor = await issuer.page_with_cursor(query)
            good = {"query": query, "limit": 1}
            await bench.refused({**good, "cursor": cursor}, good, f"a cursor of {issuer.method}")
        if (cursor := await _cursor_of_list(issuer)) is not None:
            good = {"query": await bench.key_query()}
            await bench.refused({**good, "cursor": cursor}, good, f"a cursor of {issuer.list_method}")
    bench.applies(bool(bench.recorder.judged), "no other search has a second page")


@server_check(
    title="A cursor that was refused is not honored again",
    sends=f"The request for a second page, {_ROUNDS} times in turn on each of {_TOGETHER} connections.",
    passes="No page after error -32602, as would come from another process behind the same URL.",
    transports=("http",),
)
async def cursor_at_every_request(bench: Bench) -> None:
    query = await bench.query_with_matches()
    for attempt in range(_ATTEMPTS):  # a search by another client may issue the same cursor again
        page, cursor = await bench.page_with_cursor(query)
        again = await _honored_again(bench, {"query": query, "limit": 1, "cursor": cursor})
        message = f"a page came after an error {INVALID_PARAMS} for the same cursor; are there several processes behind"
        message += " this URL that each refuse the cursors of the others?"
        bench.expect(again is None or attempt < _ATTEMPTS - 1, again or page.exchange, message)


async def _honored_again(bench: Bench, following: JsonObject) -> Exchange | None:
    """Return a page that comes although its cursor was refused before."""
    refused = False
    for _ in range(_ROUNDS):
        answers = await bench.server.at_once([following] * _TOGETHER, seconds=bench.options.timeout)
        if refused and (pages := [each for each in answers if each.result is not None]):
            return pages[0]
        refused = refused or any(each.error_code == INVALID_PARAMS for each in answers)
    return None


@server_check(
    title="Every replica honors a cursor that one of them issued",
    sends=f"The first page of a search to one of two processes with the same {KEY_VARIABLE}, then the following pages"
    " to each in turn; once starting with either process, the second time with larger pages.",
    passes="Each page continues where the other process left off.",
    fixture_feature="replicas",
)
async def cursor_at_every_replica(bench: Bench) -> None:
    if not bench.first_of_target and bench.options.effort != "deep":  # it takes two starts
        raise LeftOutError("this is judged in another era; --effort deep judges it in each")
    # Over HTTP, equal environments share one process, so the second one gets another variable.
    environments: list[dict[str, str]] = [{}, {"TOOLS_SEARCH_REPLICA": "2"}]
    replicas = [
        await bench.fixture(f"replica {number}", Opening(env={KEY_VARIABLE: _KEY, **env}))
        for number, env in enumerate(environments)
    ]
    query = await replicas[0].query_with_two_matches()
    # The second time in larger steps, up to the last matches.
    matches = len((await replicas[0].server.whole(query)).keys)
    limits = 1, max(1, matches // (_REPLICA_PAGES + 1))
    followed = set[tuple[Bench, str]]()
    for (one, other), limit in zip((replicas, replicas[::-1]), limits, strict=True):
        page, cursor = await one.page_with_cursor(query, limit=limit)
        seen, turns = set(page.keys), [other, one]
        for number in range(_REPLICA_PAGES):
            case = f"a cursor of another replica for the query {query!r}"
            replica = turns[number % 2]
            try:
                page = await replica.served({"query": query, "limit": limit, "cursor": cursor}, case)
            except ViolationError:
                used = (replica, cursor) in followed  # cursor-repeated judges that
                bench.require(not used, "a replica refuses a cursor that it has honored before")
                raise
            followed.add((replica, cursor))
            # If their orders differ, deterministic judges that. A replica that starts over repeats tools.
            again = [name for name in page.keys if name in seen]
            message = f"a page repeats {bench.noun}s that another replica already returned: {again}"
            bench.expect(not again, page.exchange, message, case=case)
            seen.update(page.keys)
            if page.next_cursor is None or not (page.next_cursor or await _is_followed(replica, page.exchange)):
                break
            cursor = page.next_cursor
