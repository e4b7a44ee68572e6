"""Transports: messages whose bytes come in pieces, and responses that belong to no request of the client."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from tools_search_conformance.clients.bench import ClientBench, client_check
from tools_search_conformance.clients.script import Reply, Script, found, tool
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import MODERN

_NEED: Final = "fold a crane"
_CURSOR: Final = "se\u00f1al \u6298 \U0001f4d6"
_TEXT: Final = 'Folds a \u9db4, or a "gr\u00fas" \U0001f54a.'
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


def _two_pages(params: JsonObject) -> Reply:
    return found(tool("page_two", _TEXT)) if "cursor" in params else found(tool("page_one", _TEXT), cursor=_CURSOR)


@client_check(
    title="A message is read as a whole, wherever the transport divides it",
    sends="A search of two pages whose bytes come in pieces, divided inside characters, escapes and line ends: a line "
    "on stdio, chunks over HTTP. Over HTTP, there also is an event stream with comments, `id`, `retry`, lines that end "
    "in CR LF, and an event of another name.",
    passes="A request for the second page, and both tools, with their characters.",
)
async def messages_in_pieces(bench: ClientBench) -> None:
    async with bench.connected(Script(search=_two_pages)) as session:
        await session.search_all(_NEED)
        session.require_second_page()
    streams = (False, True) if bench.cell.transport == "http" and bench.cell.era == MODERN else (False,)
    for stream in streams:

        def search(params: JsonObject, streamed: bool = stream) -> Reply:
            return replace(_two_pages(params), divided=True, streamed=streamed)

        case = "an event stream in pieces" if stream else "pieces"
        async with bench.connected(Script(search=search)) as session:
            outcome = await session.search_all(_NEED)
            message = f"the result came in pieces, and the client went on with the cursors {session.followed}"
            session.expect(session.followed == [_CURSOR], message, case=case)
            if outcome.reported:
                texts = {str(each.get("name")): str(each.get("description", _TEXT)) for each in outcome.tools}
                message = f"the result came in pieces, and the client has {texts}"
                session.expect(texts == {"page_one": _TEXT, "page_two": _TEXT}, message, case=case)


@client_check(
    title="A response with the id of no request is not taken for the answer",
    sends="A search; a response with another id, with a tool and a cursor of its own, comes before the answer.",
    passes="The tool of the answer, or an error; not the other tool, and no request with the other cursor.",
    transports=("stdio",),
)
async def foreign_response(bench: ClientBench) -> None:
    # Over HTTP the stream, and not the id, decides which request a response is for.
    searching = Script(search=lambda _: found(tool("of_the_request"), before=(_STRAY,)))
    async with bench.connected(searching) as session:
        outcome = await session.search_all(_NEED)
        session.require_search()
        message = "the client went on with the cursor of a response that carries the id of no request"
        session.expect("of no request" not in session.followed, message)
        message = f"a response with the id of no request came first, and the search returned {outcome.describe()}"
        session.expect("of_no_request" not in outcome.names, message)
