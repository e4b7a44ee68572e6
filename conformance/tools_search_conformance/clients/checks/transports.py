"""Transports: messages in pieces, which response is whose of two searches at once, and cancelling one of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from tools_search_conformance.clients.bench import ClientBench, Session, client_check
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import HeldSearch, Reply, Script, found, tool
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import MODERN

_NEED: Final = "fold a crane"
_CURSOR: Final = "se\u00f1al \u6298 \U0001f4d6"
_TEXT: Final = 'Folds a \u9db4, or\u2028a "gr\u00fas" \U0001f54a.'
_STRAY: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": "of no request",
    "result": {
        "tools": [tool("of_no_request")],
        "nextCursor": "of no request",
        "resultType": "complete",
        "ttlMs": 0,
        "cacheScope": "private",
    },
}
_FIRST: Final = "dispatch a courier"
_SECOND: Final = "brew a pot of coffee"
_FOUND: Final = {_FIRST: "dispatch_courier", _SECOND: "brew_coffee"}
_CANCEL_SECONDS: Final = 2.0


def _two_pages(params: JsonObject) -> Reply:
    return found(tool("page_two", _TEXT)) if "cursor" in params else found(tool("page_one", _TEXT), cursor=_CURSOR)


@client_check(
    title="A message is read as a whole, wherever the transport divides it",
    sends="A search of two pages whose bytes come in pieces, divided inside characters, escapes and line ends: a line "
    "on stdio, with a separator of lines in it that ends none there, chunks over HTTP. Over HTTP, there also is an "
    "event stream with comments, `id`, `retry`, lines that end in CR LF, and an event of another name.",
    passes="A request for the second page, and both tools, with their characters.",
)
async def messages_in_pieces(bench: ClientBench) -> None:
    async with bench.connected(Script(search=_two_pages)) as session:
        await session.search_all(_NEED)
        session.require_second_page()
        whole = session.followed
    streams = (False, True) if bench.cell.transport == "http" and bench.cell.era == MODERN else (False,)
    for stream in streams:

        def search(params: JsonObject, streamed: bool = stream) -> Reply:
            return replace(_two_pages(params), divided=True, streamed=streamed)

        case = "an event stream in pieces" if stream else "pieces"
        async with bench.connected(Script(search=search)) as session:
            outcome = await session.search_all(_NEED)
            message = f"the result came in pieces, and the client went on with the cursors {session.followed}"
            session.expect(session.followed == whole, message, case=case)
            if outcome.reported:
                texts = {str(each.get("name")): str(each.get("description", _TEXT)) for each in outcome.tools}
                message = f"the result came in pieces, and the client has {texts}"
                session.expect(texts == {"page_one": _TEXT, "page_two": _TEXT}, message, case=case)


@client_check(
    title="A response with the id of no request is not taken for the answer",
    sends="A search; a response with another id, with a tool and a cursor of its own, comes before the answer. Then "
    "another search, with such a response whose id is `null`.",
    passes="The tool of the answer, or an error; not the other tool, and no request with the other cursor.",
    transports=("stdio",),
)
async def foreign_response(bench: ClientBench) -> None:
    # Over HTTP the stream, and not the id, decides which request a response is for.
    strays: dict[str, JsonObject] = {_NEED: _STRAY, _FIRST: {**_STRAY, "id": None}}
    searching = Script(
        search=lambda params: found(tool("of_the_request"), before=(strays.get(params["query"], _STRAY),))
    )
    async with bench.connected(searching) as session:
        for need in strays:
            outcome = await session.search_all(need)
            session.require_search()
            message = "the client went on with the cursor of a response that carries the id of no request"
            session.expect("of no request" not in session.followed, message)
            message = f"a response with the id of no request came first, and the search returned {outcome.describe()}"
            session.expect("of_no_request" not in outcome.names, message)


def _held_search(*before_second: JsonObject) -> HeldSearch:
    first, second = found(tool(_FOUND[_FIRST])), found(tool(_FOUND[_SECOND]), before=before_second)
    return HeldSearch({_FIRST: first, _SECOND: second})


@client_check(
    driver_feature="concurrent",
    title="Responses are matched to requests by their ids",
    sends="Two searches are begun, and the peer answers the second one first. Over stdio then again, with an answer to "
    "a request that nobody made ahead of the others.",
    passes="Each search finds its own tool; with the stray answer it may fail instead, but not find the stray tool.",
)
async def responses_matched(bench: ClientBench) -> None:
    await bench.require_features("concurrent")
    # Over HTTP the stream, and not the id, decides which request a response is for.
    for strays in ((), (_STRAY,)) if bench.cell.transport == "stdio" else ((),):
        searching = _held_search(*strays)
        async with bench.connected(Script(search=searching)) as session:
            await session.begin("first", _FIRST)
            await session.begin("second", _SECOND)
            searching.release(_SECOND)
            await bench.until(session.peer, lambda: bool(session.peer.searches), seconds=10)
            searching.release(_FIRST)
            for name, query in (("second", _SECOND), ("first", _FIRST)):
                outcome = await session.ask("await", of=name)
                may_fail = bool(strays) and outcome.error is not None
                message = f"the search {name!r}, which finds {_FOUND[query]}, returned {outcome.describe()}"
                case = "an answer to no request came first" if strays else "the second was answered first"
                session.expect(may_fail or outcome.names == [_FOUND[query]], message, case=case)


@client_check(
    driver_feature="cancel",
    title="A cancelled search is cancelled at the server",
    sends="Two searches are begun and not answered. The client is to cancel the first one, and then has the answer to "
    "the second.",
    passes="`notifications/cancelled`; in a modern connection over HTTP, a response stream that the client closes.",
)
async def cancel_tells_server(bench: ClientBench) -> None:
    await bench.require_features("concurrent", "cancel")
    searching = _held_search()
    async with bench.connected(Script(search=searching)) as session:
        await _cancel_first_of_two(session)
        searching.release(_SECOND)
        await session.ask("await", of="second")
        await session.ask("list_tools")  # so that every message before it on this connection has arrived
        cancelled = await _wait_for_cancellation(bench, session.peer)
        way = "closed no response stream" if _closes_streams(bench) else "sent no notifications/cancelled"
        session.expect(cancelled, f"the client cancelled a search and {way}", session.evidence)


@client_check(
    driver_feature="federation",
    title="A cancelled search of several servers is cancelled at each of them",
    sends="A search of two peers is begun and not answered, and the client is to cancel it.",
    passes="`notifications/cancelled` with the id of its request to each of the two, or the response stream closed; no "
    "request for that search afterwards. A driver that cannot cancel such a search is not judged.",
)
async def cancel_tells_every_server(bench: ClientBench) -> None:
    await bench.require_features("federation", "concurrent", "cancel")
    async with bench.federated({name: Script(search=_held_search()) for name in ("a", "b")}) as session:
        await session.begin("first", _FIRST)
        asked = {name: len(peer.waiting) for name, peer in session.peers.items()}
        await session.ask("cancel", of="first")
        cancelled = {
            name: not asked[name] or await _wait_for_cancellation(bench, peer) for name, peer in session.peers.items()
        }
        await session.search("nothing that anybody has")  # so that every message before it has arrived
        way = "closed no response stream" if _closes_streams(bench) else "did not cancel the request"
        for name, peer in session.peers.items():
            wanted = {str(request["id"]) for request in peer.waiting[: asked[name]]}
            named = _closes_streams(bench) or wanted <= set(map(str, peer.cancelled))
            message = f"the client cancelled a search of two servers and {way} to the server {name}"
            session.expect(cancelled[name] and named, f"{message}; it named {peer.cancelled}", session.evidence)
            message = f"the search was cancelled, and the client then sent it to the server {name}"
            session.expect(len(peer.waiting) == asked[name], message, session.evidence)


@client_check(
    driver_feature="cancel",
    title="Cancelling a search cancels no other",
    sends="Two searches are begun and not answered. The client is to cancel the first one; then the peer answers the "
    "first all the same, and the second.",
    passes="The client cancels only the first search at the server, and the second one finds its tool.",
)
async def cancel_that_one_only(bench: ClientBench) -> None:
    await bench.require_features("concurrent", "cancel")
    searching = _held_search()
    async with bench.connected(Script(search=searching)) as session:
        await _cancel_first_of_two(session)
        await _wait_for_cancellation(bench, session.peer)
        searching.release(_FIRST)
        searching.release(_SECOND)
        outcome = await session.ask("await", of="second")
        await session.ask("list_tools")
        message = f"one search was cancelled, and the other returned {outcome.describe()}"
        session.expect(outcome.names == [_FOUND[_SECOND]], message, session.evidence)
        number = session.peer.waiting[0]["id"]
        others = [each for each in session.peer.cancelled if each != number or isinstance(each, bool)]
        message = f"of the requests under way, {json.dumps(number)} was to be cancelled, and the client named {others}"
        session.expect(not others, message, session.evidence)


async def _cancel_first_of_two(session: Session) -> None:
    await session.begin("first", _FIRST)
    await session.begin("second", _SECOND)
    await session.ask("cancel", of="first")


def _closes_streams(bench: ClientBench) -> bool:
    """Return whether a client cancels a request by closing its response stream."""
    return bench.cell.era == MODERN and bench.cell.transport == "http"


async def _wait_for_cancellation(bench: ClientBench, peer: Peer) -> bool:
    """Wait for the cancellation, which may come on its own connection, later than messages sent after it."""
    noted = peer.abandoned if _closes_streams(bench) else peer.cancelled
    return await bench.until(peer, lambda: bool(noted), seconds=_CANCEL_SECONDS)
