"""Transports: messages in pieces, which response is whose of two searches at once, and cancelling one of them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final

from tools_search_conformance.clients.bench import ClientBench, Session, client_check
from tools_search_conformance.clients.peer import Peer
from tools_search_conformance.clients.script import OWN_ID, HeldSearch, Script, found, tool, two_pages
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import LEGACY

_NEED: Final = "fold a crane"
_CURSOR: Final = "se\u00f1al \u6298 \U0001f4d6"
_FILLING: Final = tuple(tool(f"fold_{number}", "Folds a crane. ".ljust(7_500, "!")) for number in range(20))
"""A page of them is longer than what readers of lines take by default in some languages."""
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
_NEWS: Final[JsonObject] = {
    "jsonrpc": "2.0", "method": "notifications/example.com/news", "params": {"tools": [tool("of_no_request")]}
}  # fmt: skip
_PING: Final[JsonObject] = {"jsonrpc": "2.0", "id": OWN_ID, "method": "ping"}
_FIRST: Final = "dispatch a courier"
_SECOND: Final = "brew a pot of coffee"
_FOUND: Final = {_FIRST: "dispatch_courier", _SECOND: "brew_coffee"}
_CANCEL_SECONDS: Final = 2.0


_PAGE_TWO: Final = found(tool("page_two", _TEXT))


@client_check(
    title="A message is read correctly however the transport divides it",
    sends="A search of two pages whose bytes arrive in pieces, divided inside characters, escapes and line ends: on "
    "stdio a line of 150,000 characters that contains U+2028, which does not end it; over HTTP chunks, and also an "
    "event stream with comments, `id`, `retry`, lines that end in CR LF, an event of another name, and messages "
    "on two `data` lines.",
    passes="The client requests the second page and returns both tools with unchanged texts.",
)
async def messages_in_pieces(bench: ClientBench) -> None:
    one = tool("page_one", _TEXT)
    async with bench.connected(Script(search=two_pages(found(one, cursor=_CURSOR), _PAGE_TWO))) as session:
        await session.search_all(_NEED)
        session.require_second_page()
        whole = session.followed
    streams = (False, True) if bench.cell.is_modern_http else (False,)
    for stream in streams:
        pages = found(one, *_FILLING, cursor=_CURSOR), _PAGE_TWO
        search = two_pages(*(replace(page, divided=True, streamed=stream) for page in pages))
        # Also without `stream`, a result of a legacy connection over HTTP is in an event stream.
        is_event = bench.cell.transport == "http" and (stream or not bench.cell.is_modern_http)
        case = "an event stream in pieces" if stream else "pieces"
        async with bench.connected(Script(search=search)) as session:
            outcome = await session.search_all(_NEED)
            arrived = "a result of more than 150,000 characters arrived in pieces" + is_event * (
                " of an event stream with lines that end in CR LF, comments and other fields"
            )
            message = f"{arrived}, and the client sent the cursors {session.followed} instead of {whole}"
            session.expect(session.followed == whole, message, case=case)
            if outcome.reported:
                right = dict.fromkeys(("page_one", "page_two"), _TEXT)
                texts = {str(each.get("name")): each.get("description") for each in outcome.tools}
                taken = {name: _TEXT if texts[name] is None else str(texts[name]) for name in right if name in texts}
                message = f"{arrived}, and of its two tools the client returned these with these descriptions: {taken}"
                session.expect(taken == right, message, case=case)


@client_check(
    title="A response whose id belongs to no request is ignored",
    sends="A search, where a response with an unknown id, and with another tool and cursor, comes before the right one."
    " Then another search, where such a response has the id `null`.",
    passes="The client returns the tool of the right response, or an error; it does not return the other tool, and"
    " sends no request with the other cursor.",
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
            message = "the client sent the cursor of a response whose id belongs to no request"
            session.expect("of no request" not in session.followed, message)
            message = f"after a response whose id belongs to no request, the search returned {outcome.describe()}"
            session.expect("of_no_request" not in outcome.names, message)


@client_check(
    title="What comes before a response is not taken for it",
    sends="Searches, where a notification that no client knows comes before the response, over HTTP on the same event"
    " stream; from a legacy server then a `ping`, which has the id of the search.",
    passes="The client returns the tool of the response.",
)
async def messages_before_response(bench: ClientBench) -> None:
    before = {_NEED: _NEWS, _FIRST: _PING} if bench.cell.era == LEGACY else {_NEED: _NEWS}
    search = Script(search=lambda params: found(tool("of_the_request"), before=(before.get(params["query"], _NEWS),)))
    async with bench.connected(search) as session:
        for need, message in before.items():
            outcome = await session.search(need)
            session.require_search()
            what = f"{message['method']!r} came before the response, and the search returned {outcome.describe()}"
            right = outcome.names == ["of_the_request"]
            session.expect(right, what, session.evidence, case=f"{message['method']!r} before the response")


def _held_search(*before_second: JsonObject) -> HeldSearch:
    first, second = found(tool(_FOUND[_FIRST])), found(tool(_FOUND[_SECOND]), before=before_second)
    return HeldSearch({_FIRST: first, _SECOND: second})


@client_check(
    driver_feature="concurrent",
    title="Responses are matched to requests by their ids",
    sends="The client begins two searches, and the peer answers the second one first. On stdio once more, where a "
    "response whose id belongs to no request comes first.",
    passes="Each search finds its own tool; in the second case it may fail instead, but not find the wrong tool.",
)
async def responses_matched(bench: ClientBench) -> None:
    await bench.require_features("concurrent")
    # Over HTTP the stream, and not the id, decides which request a response is for.
    for strays in ((), (_STRAY,)) if bench.cell.transport == "stdio" else ((),):
        searching = _held_search(*strays)
        async with bench.connected(Script(search=searching)) as session:
            await _begin_both(bench, session)
            searching.release(_SECOND)
            await bench.until(session.peer, lambda: bool(session.peer.searches), seconds=10)
            searching.release(_FIRST)
            for name, query in (("second", _SECOND), ("first", _FIRST)):
                outcome = await session.ask("await", of=name)
                may_fail = bool(strays) and outcome.error is not None
                case = "a response with an unknown id came first" if strays else "the second search was answered first"
                message = f"{case}; the {name} search returned {outcome.describe()} instead of {_FOUND[query]!r}"
                session.expect(may_fail or outcome.names == [_FOUND[query]], message, case=case)


@client_check(
    driver_feature="cancel",
    title="A client that cancels a search notifies the server",
    sends="The client begins two searches, which are not answered. It has to cancel the first one; then the peer"
    " answers the second one.",
    passes="The client sends `notifications/cancelled`; on a modern connection over HTTP, it closes the response"
    " stream.",
)
async def cancel_tells_server(bench: ClientBench) -> None:
    await bench.require_features("concurrent", "cancel")
    searching = _held_search()
    async with bench.connected(Script(search=searching)) as session:
        await _cancel_first_of_two(bench, session)
        searching.release(_SECOND)
        await session.ask("await", of="second")
        await session.ask("list_tools")  # so that every message before it on this connection has arrived
        cancelled = await _wait_for_cancellation(bench, session.peer)
        way = "closed no response stream" if bench.cell.is_modern_http else "sent no notifications/cancelled"
        session.expect(cancelled, f"the client cancelled a search but {way}", session.evidence)


@client_check(
    driver_feature="federation",
    title="A client that cancels a search of several servers notifies each of them",
    sends="The client begins a search of two peers, which do not answer, and has to cancel it.",
    passes="The client sends `notifications/cancelled` with the id of its request to each peer, or closes the response "
    "stream; it sends no further request for that search. A driver that cannot cancel such a search is not judged.",
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
        await session.search("nothing that anybody has")  # so that every message before it on a connection has arrived
        for name in (name for name, number in asked.items() if not number):
            # A client that asks one server after the other asks the next one on a connection of its own.
            peer = session.peers[name]
            await bench.until(peer, lambda peer=peer: bool(peer.waiting), seconds=_CANCEL_SECONDS)
        way = "closed no response stream" if bench.cell.is_modern_http else "did not cancel the request"
        for name, peer in session.peers.items():
            wanted = {str(request["id"]) for request in peer.waiting[: asked[name]]}
            named = bench.cell.is_modern_http or wanted <= set(map(str, peer.cancelled))
            message = f"the client cancelled a search of two servers but {way} to the server {name}"
            session.expect(
                cancelled[name] and named, f"{message}; it cancelled the ids {peer.cancelled}", session.evidence
            )
            message = (
                f"after the search was cancelled, the client sent it to the server {name}{' again' * bool(asked[name])}"
            )
            session.expect(len(peer.waiting) == asked[name], message, session.evidence)


@client_check(
    driver_feature="cancel",
    title="Cancelling a search does not cancel another one",
    sends="The client begins two searches, which are not answered. It has to cancel the first one; then the peer"
    " answers both.",
    passes="The client cancels only the first search at the server, and the second one finds its tool.",
)
async def cancel_that_one_only(bench: ClientBench) -> None:
    await bench.require_features("concurrent", "cancel")
    searching = _held_search()
    async with bench.connected(Script(search=searching)) as session:
        await _cancel_first_of_two(bench, session)
        await _wait_for_cancellation(bench, session.peer)
        searching.release(_FIRST)
        searching.release(_SECOND)
        outcome = await session.ask("await", of="second")
        await session.ask("list_tools")
        message = f"after the first search was cancelled, the second returned {outcome.describe()}"
        message += f" instead of {_FOUND[_SECOND]!r}"
        session.expect(outcome.names == [_FOUND[_SECOND]], message, session.evidence)
        number = session.peer.waiting[0]["id"]
        others = [each for each in session.peer.cancelled if each != number or isinstance(each, bool)]
        message = f"the client had to cancel the request {json.dumps(number)}, but also cancelled {others}"
        session.expect(not others, message, session.evidence)


async def _begin_both(bench: ClientBench, session: Session) -> None:
    await session.begin("first", _FIRST)
    await session.begin("second", _SECOND)
    bench.applies(session.peer.ids_apart, "both searches have the same id; see request-ids")


async def _cancel_first_of_two(bench: ClientBench, session: Session) -> None:
    await _begin_both(bench, session)
    await session.ask("cancel", of="first")


async def _wait_for_cancellation(bench: ClientBench, peer: Peer) -> bool:
    """Wait for the cancellation, which may come on its own connection, later than messages sent after it."""
    noted = peer.abandoned if bench.cell.is_modern_http else peer.cancelled
    return await bench.until(peer, lambda: bool(noted), seconds=_CANCEL_SECONDS)
