"""Cursors: only what this server issued, for this query of this method."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tools_search_conformance.model import ViolationError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.vocabulary import NONSENSE
from tools_search_conformance.wire.codec import JsonObject

_MADE_UP: Final = (
    "",
    "no such cursor",
    "AAAA",
    "null",
    "-1",
    "undefined",
    base64.b64encode(b'{"offset":1}').decode(),
    base64.urlsafe_b64encode(b'{"query":"anything","offset":10}').decode().rstrip("="),
    "🔧\x00\u202e",
    "../../etc/passwd",
    "A" * 5000,
)


async def _issued(bench: Bench, query: str | None = None) -> tuple[JsonObject, str]:
    """Return the params of a first page and the cursor of its second one, which nothing has been asked with.

    Raises:
        InapplicableError: the server lists a single tool, and so issues none.
        UnverifiableError: the server issued none.
    """
    query = query or await bench.query_with_matches()
    page = await bench.server.page(query, limit=1)
    if not page.next_cursor:
        bench.applies(
            len((await bench.nonempty_listing()).tools) > 1, "the server lists a single tool, and issues no cursor"
        )
    bench.require(bool(page.next_cursor), f"a search for {query!r} under limit 1 has one page", page.exchange)
    return {"query": query, "limit": 1}, str(page.next_cursor)


@server_check(
    title="A cursor that this server did not issue is refused",
    sends="Made-up cursors: the empty string, words, encoded offsets, unusual characters, 5,000 letters.",
    passes="Error -32602 for each.",
)
async def cursor_forged(bench: Bench) -> None:
    for made_up in bench.some(_MADE_UP):
        first, cursor = await _issued(bench)
        mended = {**first, "cursor": cursor}
        await bench.refused_cursor({**mended, "cursor": made_up}, mended, f"cursor {made_up[:60]!a}")


@server_check(
    title="A cursor that was answered is answered again",
    sends="A first page, and the request for the second one twice.",
    passes="A result for each.",
    level="SHOULD",
)
async def cursor_repeated(bench: Bench) -> None:
    first, cursor = await _issued(bench)
    following = {**first, "cursor": cursor}
    once = await bench.server.search(following)
    bench.require(once.result is not None, f"the second page was answered by {once.describe()}", once)
    await bench.served(following, "a cursor that was answered before")


@server_check(
    title="A cursor that was altered is refused",
    sends="A genuine cursor with a character exchanged, cut in half, doubled, or with the numbers in it raised.",
    passes="Error -32602 for each.",
)
async def cursor_tampered(bench: Bench) -> None:
    _, cursor = await _issued(bench)
    for number in bench.some(range(sum(1 for _ in _alterations(cursor)))):
        first, cursor = await _issued(bench)
        for altered, how in islice(_alterations(cursor), number, number + 1):
            if altered != cursor:
                await _refuse_altered(bench, first, cursor, altered, how)


async def _refuse_altered(bench: Bench, first: JsonObject, cursor: str, altered: str, how: str) -> None:
    case = f"a genuine cursor {how} ({altered[:80]!a})"
    try:
        await bench.refused_cursor({**first, "cursor": altered}, {**first, "cursor": cursor}, case)
    except ViolationError:
        # It may have become the cursor of another page, such as 3 of 2, which is as genuine as any.
        pages = (await bench.server.walk(first["query"], first["limit"])).pages
        if altered not in {page.next_cursor for page in pages}:
            raise


def _alterations(cursor: str) -> Iterator[tuple[str, str]]:
    for share in (0.05, 0.25, 0.5, 0.75, 0.9):
        place = _letter_near(cursor, int(len(cursor) * share))
        if place is not None:
            yield cursor[:place] + _next(cursor[place]) + cursor[place + 1 :], f"with character {place + 1} exchanged"
    if len(cursor) > 1:
        yield cursor[: len(cursor) // 2], "cut in half"
    yield cursor + cursor, "doubled"
    if (raised := _raise_numbers(cursor)) != cursor:
        yield raised, "with its numbers raised"
    for decode, encode in ((_from_base64, _to_base64), (_from_urlsafe, _to_urlsafe)):
        text = decode(cursor)
        if text is not None and (raised := _raise_numbers(text)) != text:
            yield encode(raised, cursor), "with the numbers inside its base64 raised"


def _letter_near(cursor: str, place: int) -> int | None:
    # The last characters of base64 may hold bits that mean nothing.
    places = [i for i in range(max(1, len(cursor) - 2)) if cursor[i].isascii() and cursor[i].isalnum()]
    return min(places, key=lambda i: abs(i - place), default=None)


def _next(character: str) -> str:
    for ring in ("0123456789", "abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"):
        if character in ring:
            return ring[(ring.index(character) + 1) % len(ring)]
    return character


def _raise_numbers(text: str) -> str:
    return re.sub(r"(?<![\w.])\d{1,6}(?![\w.])", lambda found: str(int(found[0]) + 1), text)


def _from_base64(cursor: str) -> str | None:
    try:
        return base64.b64decode(cursor + "=" * (-len(cursor) % 4), validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return None


def _from_urlsafe(cursor: str) -> str | None:
    return _from_base64(cursor.replace("-", "+").replace("_", "/")) if re.search("[-_]", cursor) else None


def _to_base64(text: str, like: str) -> str:
    encoded = base64.b64encode(text.encode()).decode()
    return encoded if like.endswith("=") or len(like) % 4 == 0 else encoded.rstrip("=")


def _to_urlsafe(text: str, like: str) -> str:
    return _to_base64(text, like).replace("+", "-").replace("/", "_")


@server_check(
    title="A cursor issued for another query is refused",
    sends="Genuine cursors with queries other than their own: other words, white space, case, order, composition.",
    passes="Error -32602 for each.",
)
async def cursor_other_query(bench: Bench) -> None:
    words, (first, _) = await bench.vocabulary(), await _issued(bench)
    query = first["query"]
    others = [word for word in words.broad(4) if word != query][:2]
    others += [f"{query} {NONSENSE}", f" {query}", f"{query}\t", query.swapcase(), f"{query} {query}"]
    for other in bench.some(others):
        await _refuse_with(bench, query, other)
    for query in bench.some(words.pairs(2), 1):
        one, other = query.split()
        for spelled in (f"{other} {one}", f"{one}  {other}"):
            await _refuse_with(bench, query, spelled)
    for query in bench.some(words.composed(2), 1):
        await _refuse_with(bench, query, unicodedata.normalize("NFD", query))


async def _refuse_with(bench: Bench, query: str, other: str) -> None:
    if (await bench.server.page(query, limit=1)).next_cursor and other != query:
        first, cursor = await _issued(bench, query)
        mended = {**first, "cursor": cursor}
        await bench.refused_cursor({**mended, "query": other}, mended, f"a cursor of {query!r} with {other!r}")


@server_check(
    title="A cursor of `tools/list` is refused",
    sends="The `nextCursor` of a `tools/list` page with a search.",
    passes="Error -32602.",
)
async def cursor_of_list(bench: Bench) -> None:
    listing = await bench.server.listing()
    bench.applies(listing.cursor is not None, "tools/list has a single page, and so no cursor")
    query = await bench.name_query()
    await bench.refused({"query": query, "cursor": listing.cursor}, {"query": query}, "a cursor of tools/list")
