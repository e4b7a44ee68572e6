"""What every search has to be as a request, whatever it is about: its id and its params."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from tools_search_conformance.clients.contract import NoDriverFeatureError
from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Pages, Script
from tools_search_conformance.target.shape import integer
from tools_search_conformance.target.vocabulary import WHITE_SPACE
from tools_search_conformance.wire.eras import LEGACY

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench

__all__: list[str] = []


@client_check(
    "request-ids",
    title="Each request has an id of its own",
    sends="An ordinary peer; the client searches two pages, and once more.",
    passes="Each id is a string or an integer; on a legacy connection no two requests have the same.",
)
async def numbers_its_requests(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(LISTED[:2], LISTED[2:4]))) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("dispatch a courier", limit=3)
        bench.require(bool(session.peer.searches), "the client did not send tools/search", session.latest)
        used: list[Any] = []
        for exchange in session.peer.exchanges:
            number: Any = exchange.sent["id"]
            told = f"the id of {exchange.sent['method']} was {json.dumps(number)}"
            bench.expect(isinstance(number, str) or integer(number) is not None, exchange, told)
            repeated = bench.cell.era == LEGACY and (type(number), number) in used
            bench.expect(not repeated, exchange, f"{told}, as that of another request")
            used.append((type(number), number))


@client_check(
    "request-params",
    title="Each search has the params of a search",
    sends="An ordinary peer; the client searches two pages, once with a limit, and once without.",
    passes="`query` is text that is not blank; `limit` is an integer of at least 1, or absent; `cursor` is one of the "
    "peer's, or absent.",
)
async def sends_valid_params(bench: ClientBench) -> None:
    pages = Pages(LISTED[:2], LISTED[2:4])
    async with bench.connected(Script(search=pages)) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.search("dispatch a courier", limit=3)
            await session.search("brew a pot of coffee")
        bench.require(bool(session.peer.searches), "the client did not send tools/search", session.latest)
        for exchange in session.peer.searches:
            params = params_of(exchange)
            query, limit, cursor = (params.get(member) for member in ("query", "limit", "cursor"))
            valid = {
                "query": cursor is not None or (isinstance(query, str) and bool(query.strip(WHITE_SPACE))),
                "limit": "limit" not in params or (integer(limit) or 0) >= 1,
                "cursor": "cursor" not in params or cursor in pages.cursors,
            }
            for member, fine in valid.items():
                message = f"the member {member} of a search was {json.dumps(params.get(member))}"
                bench.expect(fine, exchange, message, case=member)
