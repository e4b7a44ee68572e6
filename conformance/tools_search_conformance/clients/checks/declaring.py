"""Declaring the extension: in each modern request, in the legacy handshake."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from tools_search_conformance.clients.contract import NoDriverFeatureError
from tools_search_conformance.clients.declaration import declared_in
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import LISTED, Pages, Script
from tools_search_conformance.wire.eras import LEGACY, MODERN

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench

__all__: list[str] = []


@client_check(
    "declares-in-every-request",
    title="Each modern request declares the extension",
    sends="An ordinary modern peer; the client searches two pages, lists, and calls a tool that it found.",
    passes="An object at the extension's key under `extensions` of the client capabilities of every request.",
    eras=(MODERN,),
)
async def declares_in_every_request(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(LISTED[:2], LISTED[2:4]))) as session:
        await session.search_all("keep the books")
        with suppress(NoDriverFeatureError):  # a one-shot client does one thing
            await session.list_tools()
            await session.call(str(LISTED[0]["name"]), {})
        bench.require(bool(session.peer.searches), "the client did not send tools/search", session.latest)
        for exchange in (*session.peer.exchanges, *session.peer.listens):
            method = exchange.sent["method"]
            message = f"{method} does not declare the extension under extensions of its client capabilities"
            bench.expect(declared_in(exchange, "extensions") is not None, exchange, message, case=method)


@client_check(
    "declares-in-initialize",
    title="A legacy handshake declares the extension",
    sends="An ordinary legacy peer.",
    passes="An object at the extension's key under `extensions` or `experimental` of the capabilities in `initialize`.",
    eras=(LEGACY,),
)
async def declares_in_the_handshake(bench: ClientBench) -> None:
    async with bench.connected() as session:
        await session.search("keep the books")
        opening = session.opening
        bench.expect(declared_in(opening) is not None, opening, "initialize does not declare the extension")
