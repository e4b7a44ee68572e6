"""Reading the advertisement: where it stands, what counts as one, and what its settings may be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tools_search_spec import METHOD

from tools_search_conformance.clients.generated import json_values, unknown_members
from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import SETTINGS, Script
from tools_search_conformance.clients.sessions import NotConnectedError
from tools_search_conformance.target.properties import explore
from tools_search_conformance.target.shape import integer
from tools_search_conformance.wire.eras import LEGACY, MODERN

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.wire.codec import JsonObject
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_COST: Final = 10
"""Each of these cases takes a connection of its own."""
_NEED: Final = "dispatch a courier"
_NO_OBJECTS: Final[tuple[Any, ...]] = (True, None, "yes", 1, [{}])

_OTHERS: Final[Mapping[str, Any]] = {"com.example/tools-search": SETTINGS, "io.modelcontextprotocol/tools-search": {}}
"""Extensions whose names are much like the name of this one."""


async def _expect_no_search(bench: ClientBench, advertised: Mapping[str, Any], case: str) -> None:
    async with bench.connected(Script(advertised=advertised)) as session:
        await session.search(_NEED)
        sent = session.peer.searches
        where = sent[0] if sent else session.opening
        bench.expect(not sent, where, f"{case}, and the client sent tools/search all the same", case=case)


async def _expect_search(
    bench: ClientBench, advertised: Mapping[str, Any], case: str, *, limit: int | None = None, opens: bool = True
) -> None:
    async with bench.connected(Script(advertised=advertised), opens=opens) as session:
        await session.search(_NEED, limit=limit)
        sent = session.peer.searches
        where = sent[0] if sent else session.opening
        bench.expect(bool(sent), where, f"{case}, and the client did not send tools/search", case=case)
        served = any(exchange.result is not None and (limit is None or _is_limited(exchange)) for exchange in sent)
        bench.expect(served, sent[-1] if sent else where, f"{case}, and the search that came was invalid", case=case)


def _is_limited(exchange: Exchange) -> bool:
    """Tell whether the `limit` of a search is one, or absent."""
    limit = params_of(exchange).get("limit")
    return limit is None or (integer(limit) or 0) >= 1


@client_check(
    "advertisement-not-object",
    title="An advertisement that is not an object is absent, or refused",
    sends="Peers with `true`, `null`, a string, a number or an array at the extension identifier, and generated ones.",
    passes="No `tools/search`. A client that refuses the message with an error, and so does not connect, passes too.",
)
async def takes_no_other_value_for_an_advertisement(bench: ClientBench) -> None:
    async def judge(value: Any) -> None:
        case = f"the server advertised {json.dumps(value, ensure_ascii=False)}"
        try:
            await _expect_no_search(bench, dict.fromkeys(_places(bench), value), case)
        except NotConnectedError as refused:
            if refused.exchange is None:
                raise
            message = f"{case}, and the client sent tools/search without having connected"
            bench.expect(refused.exchange.sent.get("method") != METHOD, refused.exchange, message, case=case)

    for value in _NO_OBJECTS:
        await judge(value)
    await explore(bench, json_values().filter(lambda value: not isinstance(value, dict)), judge, cost=_COST)


@client_check(
    "advertisement-either-place",
    title="A legacy advertisement is found in either place",
    sends="Legacy peers that advertise under `capabilities.extensions` only, or under `experimental` only; the other "
    "place has nothing, or `true`.",
    passes="`tools/search` to each. A client whose SDK refuses to connect where there is a `true` passes without.",
    level="ADVICE",
    eras=(LEGACY,),
)
async def reads_both_places(bench: ClientBench) -> None:
    for place, other in (("extensions", "experimental"), ("experimental", "extensions")):
        case = f"the server advertised under capabilities.{place} only"
        await _expect_search(bench, {place: SETTINGS}, case)
        with suppress(NotConnectedError):
            mixed = {place: SETTINGS, other: True}
            await _expect_search(bench, mixed, f"{case}, with true under {other}", opens=False)


@client_check(
    "settings-unknown-members",
    title="Unknown settings are ignored",
    sends="Peers whose settings have members that this draft does not know, some of them generated.",
    passes="The client searches as ever.",
)
async def ignores_unknown_settings(bench: ClientBench) -> None:
    settings: JsonObject = {**SETTINGS, "future": {"deep": [1, None]}, "maxQueries": "many", "x": True}
    await _expect_search(bench, dict.fromkeys(_places(bench), settings), "the settings had members nobody knows")

    async def judge(members: JsonObject) -> None:
        case = f"the settings had {json.dumps(members, ensure_ascii=False)}"
        await _expect_search(bench, {place: {**SETTINGS, **members} for place in _places(bench)}, case)

    await explore(bench, unknown_members(), judge, cost=_COST)


@client_check(
    "settings-malformed",
    title="Malformed settings do not take the search away",
    sends="Peers whose `maxLimit` or `topics` have a wrong type or range; the client is to find five tools.",
    passes="The client searches as ever, with a `limit` that is one, or none.",
    level="SHOULD",
)
async def bears_malformed_settings(bench: ClientBench) -> None:
    wrong: tuple[tuple[str, Any], ...] = (
        ("maxLimit", 0), ("maxLimit", -1), ("maxLimit", 2.5), ("maxLimit", "fifty"), ("maxLimit", None),
        ("topics", "invoices"), ("topics", [1, {}]), ("topics", None),
    )  # fmt: skip
    for member, value in wrong:
        settings = {place: {**SETTINGS, member: value} for place in _places(bench)}
        await _expect_search(bench, settings, f"the setting {member} was {json.dumps(value)}", limit=5)


@client_check(
    "never-probes",
    title="Without an advertisement nothing is searched",
    sends="A peer that advertises other extensions and not this one, and would answer `tools/search` if it were asked.",
    passes="No `tools/search`, whether the client searches for a little, for all, or lists.",
)
async def never_probes(bench: ClientBench) -> None:
    ways: tuple[tuple[str, dict[str, Any]], ...] = (
        ("search", {"query": _NEED, "limit": 2}), ("search_all", {"query": _NEED}), ("list_tools", {}),
    )  # fmt: skip
    for way, members in ways:
        async with bench.connected(Script(advertised={}, neighbours=_OTHERS), opens=True) as session:
            await session.ask(way, **members)
            sent = session.peer.searches
            message = "the server did not advertise the extension, and the client sent tools/search"
            bench.expect(not sent, sent[0] if sent else session.opening, message, case=way)


def _places(bench: ClientBench) -> tuple[str, ...]:
    return ("extensions",) if bench.cell.era == MODERN else ("extensions", "experimental")
