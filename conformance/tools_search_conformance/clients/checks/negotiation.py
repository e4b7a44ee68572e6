"""Negotiation: where the advertisement is looked for, which settings it may have, and how a client declares itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from tools_search_spec import METHOD

from tools_search_conformance.clients.bench import ClientBench, NotConnectedError, client_check
from tools_search_conformance.clients.generated import json_values, unknown_members
from tools_search_conformance.clients.peer import declared_in, params_of
from tools_search_conformance.clients.script import SETTINGS, TOOLS, Pages, Script
from tools_search_conformance.target.properties import explore
from tools_search_conformance.wire.codec import JsonObject, integer
from tools_search_conformance.wire.eras import LEGACY, MODERN

_COST: Final = 10
"""Each of these generated cases takes a connection."""
_NEED: Final = "dispatch a courier"
_NOT_OBJECTS: Final[tuple[Any, ...]] = (True, None, "yes", 1, [{}])
_OTHER_EXTENSIONS: Final[Mapping[str, Any]] = {
    "com.example/tools-search": SETTINGS, "io.modelcontextprotocol/tools-search": {},
}  # fmt: skip
"""Extensions whose identifiers resemble the identifier of this one."""


async def _expect_no_search(bench: ClientBench, value: Any, case: str) -> None:
    async with bench.connected(Script(settings=value)) as session:
        await session.search(_NEED)
        sent = session.peer.searches
        where = sent[0] if sent else session.opening
        bench.expect(not sent, where, f"{case}, and the client sent tools/search all the same", case=case)


async def _expect_search(
    bench: ClientBench, script: Script, case: str, *, limit: int | None = None, must_connect: bool = True
) -> None:
    """Expect a search with a `limit` that is valid, or absent."""
    async with bench.connected(script, must_connect=must_connect) as session:
        await session.search(_NEED, limit=limit)
        sent = session.peer.searches
        where = sent[-1] if sent else session.opening
        bench.expect(bool(sent), where, f"{case}, and the client did not send tools/search", case=case)
        limits = [params_of(exchange).get("limit") for exchange in sent if exchange.result is not None]
        valid = any(limit is None or each is None or (integer(each) or 0) >= 1 for each in limits)
        bench.expect(valid, where, f"{case}, and the search that came was invalid", case=case)


@client_check(
    title="An advertisement that is no object is ignored, or refused",
    sends="Peers with `true`, `null`, a string, a number or an array at the extension identifier, and generated ones.",
    passes="No `tools/search`. A client that refuses the message with an error, and so does not connect, passes too.",
)
async def advertisement_not_object(bench: ClientBench) -> None:
    async def judge(value: Any) -> None:
        case = f"the server advertised {json.dumps(value, ensure_ascii=False)}"
        try:
            await _expect_no_search(bench, value, case)
        except NotConnectedError as refused:
            if refused.exchange is None:
                raise
            message = f"{case}, and the client sent tools/search without having connected"
            bench.expect(refused.exchange.sent.get("method") != METHOD, refused.exchange, message, case=case)

    for value in _NOT_OBJECTS:
        await judge(value)
    await explore(bench, json_values().filter(lambda value: not isinstance(value, dict)), judge, cost=_COST)


@client_check(
    title="A legacy advertisement is found in either place",
    sends="Legacy peers that advertise under `capabilities.extensions` only, or under `experimental` only; the other "
    "place has nothing, or `true`.",
    passes="`tools/search` to each. A client whose SDK refuses to connect where there is a `true` passes without.",
    level="ADVICE",
    eras=(LEGACY,),
)
async def advertisement_either_place(bench: ClientBench) -> None:
    for place, other in (("extensions", "experimental"), ("experimental", "extensions")):
        case = f"the server advertised under capabilities.{place} only"
        await _expect_search(bench, Script(advertised={place: SETTINGS}), case)
        with suppress(NotConnectedError):
            mixed = Script(advertised={place: SETTINGS, other: True})
            await _expect_search(bench, mixed, f"{case}, with true under {other}", must_connect=False)


@client_check(
    title="Unknown settings are ignored",
    sends="Peers whose settings have members that this draft does not know, some of them generated.",
    passes="The client searches as ever.",
)
async def settings_unknown_members(bench: ClientBench) -> None:
    settings = {**SETTINGS, "future": {"deep": [1, None]}, "maxQueries": "many", "x": True}
    await _expect_search(bench, Script(settings=settings), "the settings had members nobody knows")

    async def judge(members: JsonObject) -> None:
        case = f"the settings had {json.dumps(members, ensure_ascii=False)}"
        await _expect_search(bench, Script(settings={**SETTINGS, **members}), case)

    await explore(bench, unknown_members(), judge, cost=_COST)


@client_check(
    title="Malformed settings do not disable the search",
    sends="Peers whose `maxLimit` or `topics` have a wrong type or range; the client is to find five tools.",
    passes="The client searches as ever, with a valid `limit`, or none.",
    level="SHOULD",
)
async def settings_malformed(bench: ClientBench) -> None:
    wrong: tuple[tuple[str, Any], ...] = (
        ("maxLimit", 0), ("maxLimit", -1), ("maxLimit", 2.5), ("maxLimit", "fifty"), ("maxLimit", None),
        ("topics", "invoices"), ("topics", [1, {}]), ("topics", None),
    )  # fmt: skip
    for member, value in wrong:
        script = Script(settings={**SETTINGS, member: value})
        await _expect_search(bench, script, f"the setting {member} was {json.dumps(value)}", limit=5)


@client_check(
    title="A server that does not advertise the extension is never searched",
    sends="A peer that advertises other extensions and not this one, and would answer `tools/search` if it were asked.",
    passes="No `tools/search`, whether the client searches for a little, for all, or lists.",
)
async def never_probes(bench: ClientBench) -> None:
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("search", {"query": _NEED, "limit": 2}), ("search_all", {"query": _NEED}), ("list_tools", {}),
    )  # fmt: skip
    for way, members in ways:
        script = Script(advertised={}, other_extensions=_OTHER_EXTENSIONS)
        async with bench.connected(script, must_connect=True) as session:
            await session.ask(way, **members)
            sent = session.peer.searches
            message = "the server did not advertise the extension, and the client sent tools/search"
            bench.expect(not sent, sent[0] if sent else session.opening, message, case=way)


@client_check(
    title="Every modern search declares the extension",
    sends="An ordinary modern peer; the client searches two pages.",
    passes="An object at the extension's key under `extensions` of the client capabilities of each `tools/search`.",
    eras=(MODERN,),
)
async def declares_in_every_request(bench: ClientBench) -> None:
    async with bench.connected(Script(search=Pages(TOOLS[:2], TOOLS[2:4]))) as session:
        await session.search_all("keep the books")
        session.require_search()
        for page, exchange in enumerate(session.peer.searches, 1):
            message = "tools/search does not declare the extension under extensions of its client capabilities"
            bench.expect(declared_in(exchange, "extensions") is not None, exchange, message, case=f"page {page}")


@client_check(
    title="A legacy handshake declares the extension",
    sends="An ordinary legacy peer.",
    passes="An object at the extension's key under `extensions` or `experimental` of the capabilities in `initialize`.",
    level="SHOULD",
    eras=(LEGACY,),
)
async def declares_in_initialize(bench: ClientBench) -> None:
    async with bench.connected() as session:
        await session.search("keep the books")
        opening = session.opening
        bench.expect(declared_in(opening) is not None, opening, "initialize does not declare the extension")
