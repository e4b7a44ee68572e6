"""Requests: ids, params and HTTP headers of searches, and headers of calls."""

from __future__ import annotations

import base64
import json
import quopri
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from html import unescape
from typing import Any, Final
from urllib.parse import unquote_plus

from tools_search_spec import METHOD

from tools_search_conformance.clients.bench import ClientBench, Session, client_check
from tools_search_conformance.clients.driver import NoDriverFeatureError, Outcome
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import (
    CACHEABLE,
    MANY,
    TOOLS,
    VARIED,
    HeldSearch,
    Pages,
    RefusalError,
    Reply,
    Script,
    SwitchedSearch,
    Troubled,
    found,
    refuses,
    serves,
    serves_each,
    tool,
    two_pages,
)
from tools_search_conformance.target.primitives import EVERY_METHOD
from tools_search_conformance.target.vocabulary import WHITE_SPACE
from tools_search_conformance.wire.codec import JsonObject, as_array, as_object, integer
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.record import Exchange, redact

_WORDS: Final = ("qumenzark", "vyzzerbane")
_TELLING: Final = 5
"""Number of characters that identify one of these words."""
_ARGUMENTS: Final[tuple[JsonObject, ...]] = (
    {"region": "north", "floor": 7, "lift": True, "note": "x"},
    {"region": "c\u00f4te", "floor": 0, "lift": False},
    {"region": "south", "floor": 2**53 - 1, "inside": {"door": "left"}, "in.side": "rear"},
    {"region": "east", "floor": None, "inside": None},
    {"region": " =?base64?north?= ", "lift": True},
    {"region": "=?base64?bm9ydGg=?=", "inside": {"door": ""}},
    {"region": "north\tof\r\nX: y", "lift": False},
    {"region": "rear ", "floor": -3, "inside": {"door": " left"}, "in.side": "around the corner " * 20 + "right"},
    {"region": "del\x7fta", "inside": {"door": "e\u0301 \u0131\U0001f6aa"}},
    {"region": "west", "lift": True},
)
_BEFORE: Final = {
    "never": "found, never listed",
    "listed": "listed with another definition, then found",
    "found": "found with another definition, then found again",
}
_ALIKE_BEFORE: Final = ("before/{}", "before.{}", "{}/before", "{}.before")
_ALIKE_AFTER: Final = ("after/{}", "after.{}", "{}/after", "{}.after")
_SINCE: Final = 250
"""Number of other tools found between the search for a tool and its call."""
_ROOM: Final = 20
"""More than the number of tools with similar names."""
_TIMES_ENCODED: Final = 3
_MANY_SEARCHES: Final = 30
_BASE64: Final = re.compile(r"[A-Za-z0-9+/_-]{8,}")
_URL_SAFE: Final = str.maketrans("-_", "+/")
_ENCODED: Final = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
"""A header's value in base64."""
_ANY_ZLIB: Final = 47
"""Reads what gzip and zlib write."""
_INFLATED: Final = 64 * 1024
_HEX: Final = re.compile(r"[0-9A-Fa-f]{8,}")


@client_check(
    title="Every request has its own id",
    sends="A peer that is too busy for the first search and refuses the first cursor; the client searches two pages,"
    " and then once more, or many times on a legacy connection. If the driver has `concurrent`, two searches at once.",
    passes="Each id is a string or an integer; no two requests of a connection at once, or of a legacy session, have"
    " the same id. A client may have several connections.",
)
async def request_ids(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Troubled(Pages(TOOLS[:2], TOOLS[2:4])))) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            for number in range(_MANY_SEARCHES if bench.cell.era == LEGACY else 1):
                await session.search(f"dispatch courier {number}", limit=3)
        session.require_search()
        used = set[tuple[str, str]]()
        for exchange in session.peer.exchanges:
            number = exchange.sent["id"]
            shown = f"a request had the id {json.dumps(number)[:100]}"
            valid = isinstance(number, str) or integer(number) is not None
            session.expect(valid, f"{shown}, which is neither a string nor an integer", exchange)
            own = session.peer.sessions[exchange.number], json.dumps(number)
            repeated = bench.cell.era == LEGACY and own in used
            session.expect(not repeated, f"{shown}, which another request already had", exchange)
            used.add(own)
    await bench.where_named("concurrent", _expect_ids_apart_at_once)


async def _expect_ids_apart_at_once(bench: ClientBench) -> None:
    searching = HeldSearch(dict.fromkeys(_WORDS, found()))
    async with bench.connected(Script(search=searching)) as session:
        for word in _WORDS:
            await session.begin(word, word)
        apart = session.peer.ids_apart
        for word in _WORDS:
            searching.release(word)
        await bench.until(session.peer, lambda: len(session.peer.searches) == len(_WORDS), seconds=10)
        session.expect(apart, f"two searches had the id {json.dumps(session.peer.waiting[0]['id'])[:100]} at once")
        for word in _WORDS:
            await session.ask("await", of=word)


@client_check(
    title="Every search has valid params",
    sends="An ordinary peer; the client searches two pages, with limits from 1 to 1,000 and without one. Then a peer"
    " that is too busy for the first search and refuses the first cursor.",
    passes="`query` is a string that is not blank; `limit` is an integer of at least 1, or absent; `cursor` is a"
    " string, or absent.",
    methods=EVERY_METHOD,
)
async def request_params(bench: ClientBench) -> None:
    pages = Pages(TOOLS[:2], TOOLS[2:4])
    searching, troubled = SwitchedSearch(pages), Troubled(pages)
    async with bench.connected(Script(search=searching)) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("dispatch a courier", limit=3)
            await session.search("brew a pot of coffee")
            for need, most in VARIED:
                await session.search(need, most)
            await session.search_all(searching.switch(troubled))
            await session.search(searching.switch(troubled), limit=3)
        session.require_search()
        for exchange in session.peer.searches:
            params = exchange.params
            query, limit, cursor = (params.get(member) for member in ("query", "limit", "cursor"))
            valid = {
                # Whether a later page repeats the query is what query-repeated judges.
                "query": cursor is not None or (isinstance(query, str) and bool(query.strip(WHITE_SPACE))),
                "limit": "limit" not in params or (integer(limit) or 0) >= 1,
                "cursor": "cursor" not in params or isinstance(cursor, str),
            }
            for member, fine in valid.items():
                message = f"the client sent a search with the invalid {member} {json.dumps(params.get(member))}"
                session.expect(fine, message, exchange, case=member)


def _headers(exchange: Exchange) -> Mapping[str, str]:
    return {name.lower(): value for name, value in exchange.headers.items()}


def _tool(name: str, **properties: Mapping[str, Any]) -> JsonObject:
    return tool(name, "Asks a region.", inputSchema={"type": "object", "properties": properties})


@client_check(
    title="The `Mcp-Method` header of a search is its method, and it has no `Mcp-Name`",
    sends="A modern peer over Streamable HTTP, with a search of two pages and one with a limit; then a search for which"
    " it is too busy at first, and which has to start over.",
    passes=f"Every search has `Mcp-Method: {METHOD}`, or its other method, and no `Mcp-Name`.",
    eras=(MODERN,),
    transports=("http",),
    methods=EVERY_METHOD,
)
async def http_method_header(bench: ClientBench) -> None:
    pages = Pages([_tool("a")], [_tool("b")])
    searching = SwitchedSearch(pages)
    async with bench.connected(Script(search=searching)) as session:
        await session.search_all("ask a region")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("ask a region", 5)
            await session.search_all(searching.switch(Troubled(pages)))
        session.require_search()
        for exchange in session.peer.searches:
            value = _headers(exchange).get("mcp-method")
            message = f"the Mcp-Method header of a search was {value!r} instead of {bench.method!r}"
            session.expect(value == bench.method, message, exchange)
            name = _headers(exchange).get("mcp-name")
            named = f"a search, which names nothing, had the header Mcp-Name: {name!r}"
            session.expect(name is None, named, exchange)


@client_check(
    title="The `MCP-Protocol-Version` header of a search is its revision",
    sends="A peer over Streamable HTTP, with a search of two pages.",
    passes="Every search has the header, with the revision of the connection.",
    transports=("http",),
)
async def http_version_header(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages([_tool("a")], [_tool("b")]))) as session:
        await session.search_all("ask a region")
        session.require_search()
        for exchange in session.peer.searches:
            value = _headers(exchange).get("mcp-protocol-version")
            message = f"the MCP-Protocol-Version header of a search was {value!r} instead of {bench.cell.era!r}"
            session.expect(value == bench.cell.era, message, exchange)


@client_check(
    title="The query appears in no HTTP header",
    sends="Peers over Streamable HTTP: one with a search of three pages, one that is too busy at first, refuses a "
    "cursor and has pages that may be cached, one that refuses the search, one without the extension. The client "
    "searches for two unique words and for one of them alone, in short, long and non-ASCII queries, cancels a search, "
    "searches several servers, and does everything else that the driver can.",
    passes="No name or value of any header contains either word or its beginning: neither plain, percent-encoded, as "
    "HTML character references, nor in base64, quoted-printable or hexadecimal, encoded once or several times, "
    "compressed or not.",
    transports=("http",),
    methods=EVERY_METHOD,
)
async def http_query_not_in_headers(bench: ClientBench) -> None:
    three = [_tool("a")], [_tool("b")], [_tool("c")]
    pages = Pages(*three)
    query = " ".join(_WORDS)
    held = HeldSearch({query: found()})
    scripts = [
        Script(search=pages),
        Script(search=Troubled(Pages(*three, **CACHEABLE))),
        Script(advertised={}),
        Script(search=refuses(-32601)),
    ]
    holds_back = not bench.primitive.setting and (await bench.driver()).features >= {"concurrent", "cancel"}
    for script in scripts + [Script(search=held)] * holds_back:
        async with bench.connected(script) as session:
            with suppress(NoDriverFeatureError):  # the client cancels nothing, reads no further pages, or calls nothing
                if script.search is held:
                    await session.begin("it", query)
                    await session.cancel("it")
                    held.release(query)
                await session.find_and_call(query, "a", {})
            if script.search is pages:
                await session.do_everything(query)
                for limit, other in (
                    (1, f"{query} and " * 20),
                    (5, f"{query} \u00e0 \U0001f4d6 " * 20),
                    (1, _WORDS[0]),
                ):
                    with suppress(NoDriverFeatureError):
                        await session.search(other, limit)
                if not {op for op, _ in bench.done} & {"search", "search_all", "find_and_call"}:
                    raise NoDriverFeatureError("the driver does not support this search")
                session.require_search()
            _expect_no_words_in_headers(bench, session)

    async def of_servers(bench: ClientBench) -> None:
        async with bench.federated({"a": Script(search=pages), "b": Script(advertised={})}) as session:
            await session.search(query, _ROOM)
            _expect_no_words_in_headers(bench, session)

    await bench.where_named("federation", of_servers)


def _expect_no_words_in_headers(bench: ClientBench, session: Session) -> None:
    for name, value in {field for peer in session.peers.values() for field in peer.header_fields}:
        readings = map(_squeezed, {name, *_decoded(value)})
        holds = any(word[:_TELLING] in reading for reading in readings for word in _WORDS)
        message = f"the header {name} contains the query: {redact({name: value[:200]})[name]}"
        bench.expect(not holds, session.evidence, message, case=name)


def _squeezed(text: str) -> str:
    """Return only the letters of a text, in lower case."""
    return "".join(filter(str.isalpha, text)).lower()


def _decoded(value: str) -> set[str]:
    """Return the texts that a header's value contains, encoded once or several times, in one encoding or several."""
    texts = latest = {value, value[::-1]}
    for _ in range(_TIMES_ENCODED):
        latest = {text for each in latest for text in _decoded_once(each)} - texts
        texts = texts | latest
    return texts


def _decoded_once(value: str) -> list[str]:
    """Return the texts that a text contains in any encoding, at any position."""
    decoded = [quopri.decodestring(value.encode(), header=True)]
    for run in _BASE64.findall(value):
        for part in (run.translate(_URL_SAFE)[start:] for start in range(4)):
            whole = part[:-1] if len(part) % 4 == 1 else part
            decoded.append(base64.b64decode(whole + "=" * (-len(whole) % 4)))
    for run in _HEX.findall(value):
        decoded += [bytes.fromhex(run[start : len(run) - (len(run) - start) % 2]) for start in range(2)]
    for each in tuple(decoded):
        with suppress(zlib.error):
            decoded.append(zlib.decompressobj(_ANY_ZLIB).decompress(each, _INFLATED))
    return [unescape(value), unquote_plus(value), *(each.decode("utf-8", errors="replace") for each in decoded)]


@client_check(
    title="The client drops found tools with an invalid `x-mcp-header`",
    sends="A search of two pages, each with tools whose `x-mcp-header` is empty, not a token, not a string, repeated,"
    " or on a number, an object or the items of an array, and with one valid tool, one of whose headers has"
    " punctuation in its name.",
    passes="The client returns only the valid tools.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_invalid_tool_left_out(bench: ClientBench) -> None:
    def marked(name: Any, kind: str = "string") -> JsonObject:
        return {"type": kind, "x-mcp-header": name}

    invalid = [
        _tool("spaced", region=marked("Re gion")),
        _tool("broken", region=marked("Region\r\nX: y")),
        _tool("foreign", region=marked("R\u00e9gion")),
        _tool("empty", region=marked("")),
        _tool("no_text", region=marked(7)),
        _tool("twice", a=marked("Region"), b=marked("Region")),
        _tool("twice_in_other_case", a=marked("Region"), b=marked("region")),
        _tool("on_number", region=marked("Region", "number")),
        _tool("on_object", region=marked("Region", "object")),
        _tool("on_items", regions={"type": "array", "items": marked("Region")}),
    ]
    others = {"floor": marked("R.e_g~1!", "integer"), "lift": marked("lift", "boolean"), "note": {"type": "number"}}
    valid, also = (_tool(name, region=marked("Region"), **others) for name in ("valid", "also_valid"))
    pages = Pages([invalid[0], valid, *invalid[1::2]], [*invalid[2::2], also])
    async with bench.connected(Script(search=pages)) as session:
        outcome = await session.search_all("ask a region")
        session.expect("valid" in outcome.names, f"the client returned {outcome.describe()} without 'valid'")
        kept = [name for name in outcome.names if name not in {"valid", "also_valid"}]
        session.expect(not kept, f"the client returned tools with an invalid x-mcp-header: {kept}")


def _wide(letter: str) -> str:
    """Return the fullwidth form of an ASCII letter, which NFKC maps to that letter."""
    return chr(ord(letter) + 0xFEE0)


def _among_alike(definition: JsonObject, other: JsonObject) -> list[JsonObject]:
    """Return a tool among others that are defined like `other`, with names that a client may confuse with its name."""
    name = definition["name"]
    before, after = ([each.format(name) for each in names] for names in (_ALIKE_BEFORE, _ALIKE_AFTER))
    before += [_wide(name[0]) + name[1:], f" {name}", name.upper()]
    after += [name.title(), name.replace("_", "-"), name[:-1] + _wide(name[-1]), f"{name} "]
    alike = {each: {**other, "name": each} for each in (*before, *after)}
    return [*(alike[each] for each in before), definition, *(alike[each] for each in after)]


@client_check(
    title="A call has the `Mcp-Param-*` headers of the found definition",
    sends="On the second page of a search, a tool with `x-mcp-header` on some of its parameters, among tools with "
    "similar names. The client calls it without having listed it, after a listing or a search in which it had another "
    "header, after a search with a limit, and after one that finds many other tools. The arguments are of each type, "
    "`false`, 0, a negative integer and the largest one, `null`, omitted for a default, inside an object, under a name "
    "with a dot, and text that is empty or long, has leading or trailing spaces or control characters, is not "
    "normalized, or looks encoded. Then calls after a search that finds many other tools, after a list change, after "
    "searches in which it has another header and none, after one whose second page fails, after one that may be "
    "answered from a cache, and after a search by which the client learns another header when a call gets error "
    "-32020. If the driver has `authorization`, also for another user; if it has `federation`, with two servers that "
    "have a tool of that name.",
    passes="The call has `Mcp-Param-*` headers with the values of the given arguments, in base64 if they are not "
    "printable ASCII, have leading or trailing spaces, or look encoded. A client that lists in between, so that the "
    "listed definition decides, is not judged.",
    eras=(MODERN,),
    transports=("http",),
)
async def http_param_headers(bench: ClientBench) -> None:
    marked = _tool(
        "ask_region",
        region={"type": "string", "x-mcp-header": "Area"},
        floor={"type": "integer", "x-mcp-header": "Level", "default": 1},
        lift={"type": "boolean", "x-mcp-header": "By-Lift"},
        inside={"type": "object", "properties": {"door": {"type": "string", "x-mcp-header": "Door"}}},
        **{"in.side": {"type": "string", "x-mcp-header": "Side"}},
        note={"type": "string"},
    )
    outdated = _tool("ask_region", region={"type": "string", "x-mcp-header": "Zone"}, floor={"type": "integer"})
    unmarked = _tool("ask_region", region={"type": "string"}, floor={"type": "integer"})
    found_now = _among_alike(marked, outdated)
    pages = Pages([_tool("first_page")], found_now)
    needs = {
        "ask a zone": Pages([outdated]), "ask nobody": Pages([_tool("first_page"), *MANY[:_SINCE]]),
        "ask one": Pages(found_now), "ask anybody": Pages([unmarked]),
    }  # fmt: skip

    def search(params: JsonObject) -> Reply:
        return needs.get(params["query"], pages)(params)

    judged = False
    cases = {**_BEFORE, "limited": "found with a limit, and another search since", "many": "found after many others"}
    earlier = {"found": ("ask a zone", _ROOM), "limited": ("ask one", _ROOM), "many": ("ask nobody", None)}
    for before, case in cases.items():
        async with bench.connected(Script(search=search, tools=(outdated,))) as session:
            if before == "listed":
                with suppress(NoDriverFeatureError):
                    await session.ask("list_tools")
            if before in earlier:
                await session.find(*earlier[before])
            need = "ask nobody" if before == "limited" else "ask a region"
            await session.find_and_call(need, "ask_region", _ARGUMENTS[0])
            bench.require(bool(session.peer.requests("tools/call")), "the client did not call the tool", session.latest)
            judged |= _expect_headers(bench, session.peer, _ARGUMENTS[0], case)
            if bench.options.one_shot:
                break  # it does one thing
            for arguments in _ARGUMENTS[1:-1] if before == "never" else ():
                await session.ask("call", name="ask_region", arguments=arguments)
                judged |= _expect_headers(bench, session.peer, arguments, case)
            later = (
                (False, "ask nobody", None), (True, "ask nobody", None),
                (False, "ask a zone", _ROOM), (False, "ask anybody", None),
            )  # fmt: skip
            for changed, since, limit in later[: len(later) if before == "never" else 1]:
                if changed:
                    await session.peer.notify_change()
                await session.find(since, limit)
                arguments = {**_ARGUMENTS[-1], "note": f"{since} {changed}"}
                await session.ask("call", name="ask_region", arguments=arguments)
                after = f"{case}; since: {since}{', after a list change' if changed else ''}"
                judged |= _expect_headers(bench, session.peer, arguments, after)
    judged |= await _expect_headers_with_others_kept(bench, marked, outdated)
    bench.applies(judged, "the client lists before it calls, so the listed definition decides")
    scripts = {name: Script(search=serves(found(each))) for name, each in (("a", marked), ("b", outdated))}

    def judge(peer: Peer, _: Outcome) -> None:
        _expect_headers(bench, peer, _ARGUMENTS[0], "two servers have a tool of that name")

    await _call_of_servers(bench, scripts, judge)


async def _expect_headers_with_others_kept(bench: ClientBench, marked: JsonObject, outdated: JsonObject) -> bool:
    """Expect the right headers where a client might keep another definition; return whether any call was judged."""
    every = (_expect_headers_of_latest, _expect_headers_once_refreshed, _expect_headers_of_kept_page)
    return any([await expect(bench, marked, outdated) for expect in every if not bench.options.one_shot])


async def _expect_headers_of_latest(bench: ClientBench, before: JsonObject, latest: JsonObject) -> bool:
    """Expect the headers of the latest definition, even if the client reads an earlier one again from its cache."""
    replies = {
        "ask a region": found(before, **CACHEABLE),
        "ask a zone": found(latest, **CACHEABLE),
        "ask for me": found(before),
    }
    script = Script(search=serves_each(replies), tools=(before,))
    async with bench.connected(script) as session:
        for need in ("ask a region", "ask a zone", "ask a region"):
            await session.search_all(need)
        await session.ask("call", name="ask_region", arguments=_ARGUMENTS[0])
        case = "found, found with another definition, and found again, where the first result may be cached"
        judged = _expect_headers(bench, session.peer, _ARGUMENTS[0], case)

        async def call_for_another(bench: ClientBench) -> None:
            await session.ask("authorize", **{"as": "somebody"})
            await session.search_all("ask for me")
            await session.ask("call", name="ask_region", arguments=_ARGUMENTS[1])
            _expect_headers(bench, session.peer, _ARGUMENTS[1], "found with another definition by another user")

        await bench.where_named("authorization", call_for_another)
        return judged


async def _expect_headers_once_refreshed(bench: ClientBench, before: JsonObject, latest: JsonObject) -> bool:
    """Expect the headers of the definition that the client finds after error -32020, if it then repeats the call."""
    refused = {"tools/call": -32020}

    def search(params: JsonObject) -> Reply:
        if params["query"] == "ask a region":
            return found(before)
        refused.clear()
        return found(latest)

    async with bench.connected(Script(search=search, tools=(before,), refuses=refused)) as session:
        await session.search_all("ask a region")
        await session.ask("call", name="ask_region", arguments=_ARGUMENTS[0])
        return _expect_headers(bench, session.peer, _ARGUMENTS[0], "found with another definition after error -32020")


async def _expect_headers_of_kept_page(bench: ClientBench, marked: JsonObject, listed: JsonObject) -> bool:
    """Expect the headers of a definition that came before a page that failed, if the client keeps what it has."""
    search = two_pages(found(marked, cursor="page2"), RefusalError(-32603, "out of order").reply)
    async with bench.connected(Script(search=search, tools=(listed,))) as session:
        if "ask_region" not in (await session.search_all("ask a region")).names:
            return False
        await session.ask("call", name="ask_region", arguments=_ARGUMENTS[0])
        return _expect_headers(bench, session.peer, _ARGUMENTS[0], "found on a page before one that failed")


@client_check(
    title="The result of a call is validated with the found definition",
    sends="A tool that is found with an `outputSchema`, among tools with similar names. The client calls it without "
    "having listed it, after a listing and after another search in which it had another `outputSchema`, and after a "
    "search in which it has none. The result is valid by the latest definition. Then another server has a tool "
    "of that name; if the driver has `federation`, two servers at once.",
    passes="The client returns the result of the call and no error. A client that lists in between is not judged.",
)
async def call_validated_by_found(bench: ClientBench) -> None:
    by_found, outdated = (
        tool(
            "weigh_parcel",
            "Weighs a parcel.",
            outputSchema={"type": "object", "properties": {unit: {"type": "integer"}}, "required": [unit]},
        )
        for unit in ("grams", "ounces")
    )
    needs = {
        "weigh a parcel": found(*_among_alike(by_found, outdated)),
        "weigh a letter": found(outdated),
        "weigh a bag": found(tool("weigh_parcel", "Weighs a parcel.")),
    }
    script = Script(
        search=serves_each(needs),
        tools=(outdated,),
        structured={"weigh_parcel": {"grams": 5}},
    )
    for before, need in (*((before, "weigh a parcel") for before in _BEFORE), ("found", "weigh a bag")):
        async with bench.connected(script) as session:
            if before == "listed":
                with suppress(NoDriverFeatureError):
                    await session.ask("list_tools")
            if before == "found":
                await session.search("weigh a letter", 5)
            await session.search(need, _ROOM)
            session.require_search()
            outcome = await session.ask("call", name="weigh_parcel", arguments={})
            listed = any(listing.number > session.last_search.number for listing in session.peer.listings)
            bench.applies(not listed, "the client lists when it calls, so the listed definition decides")
            bench.require(bool(session.peer.requests("tools/call")), "the client did not call the tool", session.latest)
            _expect_called(bench, session.peer, outcome, f"{_BEFORE[before]} by {need!r}")
    if not bench.options.one_shot:
        elsewhere = Script(search=serves(found(outdated)), structured={"weigh_parcel": {"ounces": 5}})
        async with bench.connected(elsewhere) as session:
            await session.search("weigh a parcel", _ROOM)
            outcome = await session.ask("call", name="weigh_parcel", arguments={})
            if session.peer.requests("tools/call"):
                _expect_called(bench, session.peer, outcome, "an earlier server had a tool of that name")
    scripts = {
        name: Script(search=serves(found(each)), structured={"weigh_parcel": {unit: 5}})
        for name, each, unit in (("a", by_found, "grams"), ("b", outdated, "ounces"))
    }

    def judge(peer: Peer, outcome: Outcome) -> None:
        _expect_called(bench, peer, outcome, "two servers have a tool of that name")

    await _call_of_servers(bench, scripts, judge)


def _expect_called(bench: ClientBench, peer: Peer, outcome: Outcome, case: str) -> None:
    message = f"the result was valid by the found definition, but the call returned {outcome.describe()}"
    bench.expect(outcome.error is None, peer.requests("tools/call")[-1], message, case=case)


async def _call_of_servers(
    bench: ClientBench, scripts: Mapping[str, Script], judge: Callable[[Peer, Outcome], None]
) -> None:
    """Have the client call each tool that it finds on several servers, if the driver supports federation."""

    async def call(bench: ClientBench) -> None:
        async with bench.federated(scripts) as session:
            for item in (await session.search("find a parcel", 10)).tools:
                outcome = await session.ask("call", name=item["name"], arguments=_ARGUMENTS[0])
                peer = session.peers.get(str(item.get("server")))
                if peer is not None and peer.requests("tools/call"):
                    judge(peer, outcome)

    await bench.where_named("federation", call)


def _expect_headers(bench: ClientBench, peer: Peer, arguments: JsonObject, case: str) -> bool:
    """Expect the headers of a call. Return whether there was a call that the found definition applies to."""
    calls = [each for each in peer.requests("tools/call") if each.params.get("arguments") == arguments]
    call = calls[-1] if calls else None
    returned = [
        (exchange, each)
        for exchange in (*peer.searches, *peer.listings)
        for each in as_array((exchange.result or {}).get("tools")) or []
        if call is not None and each["name"] == call.params.get("name") and exchange.number < call.number
    ]
    if call is None or not returned:
        return False
    latest, definition = max(returned, key=lambda pair: pair[0].number)
    if latest.sent["method"] != METHOD:
        return False
    headers = {name: value for name, value in _headers(call).items() if name.startswith("mcp-param-")}
    sent = {name: _encoded_where_needed(value) for name, value in headers.items()}
    marked = _marked(definition["inputSchema"], arguments)
    wanted = {f"mcp-param-{name.lower()}": _encoded(text) for name, text in marked}
    bench.expect(sent == wanted, call, f"tools/call has the headers {sent} instead of {wanted}", case=case)
    return True


def _marked(schema: JsonObject, arguments: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each header of a call with `arguments`."""
    for name, each in schema.get("properties", {}).items():
        value = arguments.get(name)
        if (inside := as_object(value)) is not None:
            yield from _marked(each, inside)
        elif "x-mcp-header" in each and value is not None:
            yield each["x-mcp-header"], value if isinstance(value, str) else json.dumps(value)


def _encoded(text: str) -> str:
    """Return the value of a header with this text, in base64 only if necessary."""
    if text.isascii() and text.isprintable() and text == text.strip() and not _ENCODED.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def _encoded_where_needed(value: str) -> str:
    """Return the value of a header without unnecessary base64."""
    if encoded := _ENCODED.fullmatch(value):
        with suppress(ValueError):
            return _encoded(base64.b64decode(encoded[1], validate=True).decode())
    return value
