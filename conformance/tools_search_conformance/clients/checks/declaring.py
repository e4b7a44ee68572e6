"""Declaring the extension: in each modern search, in the legacy handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools_search_conformance.clients.declaration import declared_in
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Pages, Script
from tools_search_conformance.wire.eras import LEGACY, MODERN

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench

__all__: list[str] = []


@client_check(
    "declares-in-every-request",
    title="Each modern search declares the extension",
    sends="An ordinary modern peer; the client searches two pages.",
    passes="An object at the extension's key under `extensions` of the client capabilities of each `tools/search`.",
    eras=(MODERN,),
)
async def declares_in_every_request(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(LISTED[:2], LISTED[2:4]))) as session:
        await session.search_all("keep the books")
        bench.require(bool(session.peer.searches), "the client did not send tools/search", session.latest)
        for page, exchange in enumerate(session.peer.searches, 1):
            message = "tools/search does not declare the extension under extensions of its client capabilities"
            bench.expect(declared_in(exchange, "extensions") is not None, exchange, message, case=f"page {page}")


@client_check(
    "declares-in-initialize",
    title="A legacy handshake declares the extension",
    sends="An ordinary legacy peer.",
    passes="An object at the extension's key under `extensions` or `experimental` of the capabilities in `initialize`.",
    level="SHOULD",
    eras=(LEGACY,),
)
async def declares_in_the_handshake(bench: ClientBench) -> None:
    async with bench.connected() as session:
        await session.search("keep the books")
        opening = session.opening
        bench.expect(declared_in(opening) is not None, opening, "initialize does not declare the extension")
