"""Two searches under way at once: whose answer is whose, and what cancelling one of them means for the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Script, Withheld, found, tool
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.contract import Told
    from tools_search_conformance.clients.peer import Peer
    from tools_search_conformance.clients.sessions import Session
    from tools_search_conformance.model import DriverFeature
    from tools_search_conformance.wire.codec import JsonObject

__all__: list[str] = []

_ABLE: Final[tuple[DriverFeature, ...]] = ("federation", "concurrent", "cancel")
_FIRST: Final = "dispatch a courier"
_SECOND: Final = "brew a pot of coffee"
_FOUND: Final = {_FIRST: "dispatch_courier", _SECOND: "brew_coffee"}
_STRAY: Final[JsonObject] = {
    "jsonrpc": "2.0",
    "id": "of no request",
    "result": {
        "tools": [tool("of_no_request")], "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
    },
}  # fmt: skip


def _withheld(*before_second: JsonObject) -> Withheld:
    first, second = found(tool(_FOUND[_FIRST])), found(tool(_FOUND[_SECOND]), before=before_second)
    return Withheld({_FIRST: first, _SECOND: second})


@client_check(
    "responses-matched",
    feature="concurrent",
    title="Each answer is taken for the request whose id it has",
    sends="Two searches are begun, and the peer answers the second one first. Over stdio then again, with an answer to "
    "a request that nobody made ahead of the others.",
    passes="Each search finds its own tool; beside the stray answer it may fail instead, but not find what is in that.",
)
async def matches_answers(bench: ClientBench) -> None:
    # Over HTTP it is the stream that tells which request a response is for.
    for strays in ((), (_STRAY,)) if bench.cell.transport == "stdio" else ((),):
        searching = _withheld(*strays)
        async with bench.connected(Script(search=searching)) as session:
            await session.begin("first", _FIRST)
            await session.begin("second", _SECOND)
            searching.let_go(_SECOND)
            await session.until(lambda: bool(session.peer.searches))
            searching.let_go(_FIRST)
            for name, query in (("second", _SECOND), ("first", _FIRST)):
                told = await session.outcome(name)
                may_fail = bool(strays) and told.error is not None
                message = f"the search {name!r}, which finds {_FOUND[query]}, came to {told.describe()}"
                case = "an answer to no request came first" if strays else "the second was answered first"
                bench.expect(may_fail or told.names == [_FOUND[query]], session.last_search, message, case=case)


@client_check(
    "cancel-tells-server",
    feature="cancel",
    title="A search that is cancelled is cancelled at the server",
    sends="Two searches are begun and not answered. The client is to cancel the first one, and then has the answer to "
    "the second.",
    passes="`notifications/cancelled`; in a modern connection over HTTP, a response stream that the client closes.",
    level="SHOULD",
)
async def tells_the_server(bench: ClientBench) -> None:
    searching = _withheld()
    async with bench.connected(Script(search=searching)) as session:
        await _cancel_first(session)
        searching.let_go(_SECOND)
        await session.outcome("second")
        await session.list_tools()  # whatever was sent before it has arrived, except by another connection
        came = await _hear_of_it(bench, session.peer)
        way = "closed no response stream" if _closes(bench) else "sent no notifications/cancelled"
        bench.expect(came, session.evidence, f"the client cancelled a search and {way}")


@client_check(
    "cancel-tells-every-server",
    feature="federation",
    title="A search of several servers that is cancelled is cancelled at each of them",
    sends="A search of two peers is begun and not answered, and the client is to cancel it.",
    passes="`notifications/cancelled` with the id of its request to each of the two, or the response stream closed; no "
    "request for that search afterwards. A driver that cannot cancel such a search is not judged.",
    level="SHOULD",
)
async def tells_every_server(bench: ClientBench) -> None:
    for feature in _ABLE:
        bench.needs(await bench.driver(), feature)
    async with bench.federated({name: Script(search=_withheld()) for name in ("a", "b")}) as session:
        await session.begin("first", _FIRST)
        asked = {name: len(peer.waiting) for name, peer in session.peers.items()}
        await session.ask("cancel", of="first")
        heard = {name: not asked[name] or await _hear_of_it(bench, peer) for name, peer in session.peers.items()}
        await session.search("nothing that anybody has")  # whatever was sent before it has arrived
        way = "closed no response stream" if _closes(bench) else "did not cancel the request"
        for name, peer in session.peers.items():
            message = f"the client cancelled a search of two servers and {way} to the server {name}"
            wanted = {str(request["id"]) for request in peer.waiting[: asked[name]]}
            told = heard[name] and (_closes(bench) or wanted <= set(map(str, peer.cancelled)))
            bench.expect(told, session.evidence, f"{message}; it named {peer.cancelled}")
            message = f"the search was cancelled, and the client then sent it to the server {name}"
            bench.expect(len(peer.waiting) == asked[name], session.evidence, message)


@client_check(
    "cancel-that-one-only",
    feature="cancel",
    title="Cancelling a search cancels that one and no other",
    sends="Two searches are begun and not answered. The client is to cancel the first one; then the peer answers the "
    "first all the same, and the second.",
    passes="What the client cancels at the server is the first search, and the second one finds its tool.",
)
async def cancels_one_only(bench: ClientBench) -> None:
    searching = _withheld()
    async with bench.connected(Script(search=searching)) as session:
        await _cancel_first(session)
        await _hear_of_it(bench, session.peer)
        searching.let_go(_FIRST)
        searching.let_go(_SECOND)
        told = await session.outcome("second")
        message = f"one search was cancelled, and the other came to {told.describe()}"
        await session.list_tools()
        bench.expect(told.names == [_FOUND[_SECOND]], session.evidence, message)
        number = _id_of_first(session)
        others = [each for each in session.peer.cancelled if each != number or isinstance(each, bool)]
        message = f"of the requests under way, {json.dumps(number)} was to be cancelled, and the client named {others}"
        bench.expect(not others, session.evidence, message)


def _closes(bench: ClientBench) -> bool:
    return bench.cell.era == MODERN and bench.cell.transport == "http"


async def _cancel_first(session: Session) -> Told:
    await session.begin("first", _FIRST)
    await session.begin("second", _SECOND)
    return await session.cancel("first")


def _id_of_first(session: Session) -> Any:
    return session.peer.waiting[0]["id"]


async def _hear_of_it(bench: ClientBench, peer: Peer) -> bool:
    """Wait for the cancellation, which may come by a connection of its own, later than what was sent after it."""
    return await bench.until(peer, lambda: bool(peer.abandoned if _closes(bench) else peer.cancelled), seconds=2)
