"""Several servers at once: each is asked, their scores are not compared, names are unambiguous."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.peer import params_of
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Script, found, serves, tool

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.wire.codec import JsonObject
    from tools_search_conformance.wire.record import Exchange

__all__: list[str] = []

_NEED: Final = "dispatch a courier"
_OTHER_NEED: Final = "send a bicycle"
_PAIR: Final = ("one", "two")
_SLOW: Final = 0.2
"""Seconds by which a server answers later than the other one."""
_MARKS: Final = ("_", "__", "-", ".")
"""What clients put between the name of a server and that of a tool."""


def _hit(name: str, score: float) -> JsonObject:
    return tool(name, "Dispatches a courier.", _meta={EXTENSION_ID: {"score": score}})


def _offers(*hits: JsonObject) -> Script:
    return Script(search=serves(found(*hits)))


def _finds(need: str, *hits: JsonObject) -> Script:
    """Return a server that finds `hits` for one need, and nothing for any other."""
    return Script(search=lambda params: found(*(hits if params["query"] == need else ())))


@client_check(
    "federation-asks-all",
    feature="federation",
    title="Each of several servers is asked",
    sends="Three peers: two that offer the search, one that does not. The client is to find ten tools, then one.",
    passes="`tools/search` to the two, `tools/list` to the third, each time.",
    level="ADVICE",
)
async def asks_each_server(bench: ClientBench) -> None:
    plain = Script(advertised={}, listed=(_hit("third", 0.1),))
    scripts = {"a": _offers(_hit("first", 0.9)), "b": _offers(_hit("second", 0.5)), "c": plain}
    for limit in (10, 1):
        async with bench.federated(scripts) as session:
            await session.search(_NEED, limit=limit)
            for name, peer in session.peers.items():
                asked = peer.listings if name == "c" else peer.searches
                where = asked[-1] if asked else session.evidence
                message = f"the server {name} was not asked for its tools"
                bench.expect(bool(asked), where, message, case=f"server {name}, limit {limit}")


@client_check(
    "federation-scores-not-compared",
    feature="federation",
    title="Scores of several servers are not compared",
    sends="Two peers that each find tools which are much the same; one gives high scores, one gives low ones. Then the "
    "scores are exchanged. The peer with the high scores answers last.",
    passes="The best tool of the high scores does not stand before that of the low ones both times.",
)
async def compares_no_scores_of_servers(bench: ClientBench) -> None:
    leads = [await _leads(bench, high) for high in _PAIR]
    message = "of the best tools of two servers, the one with the higher score came first, whichever server gave it"
    bench.expect(not all(first for first, _ in leads), leads[-1][1], message, case="scores exchanged")


async def _leads(bench: ClientBench, high: str) -> tuple[bool, Exchange]:
    """Return whether the best tool of the server `high` comes first, and how that shows.

    It is the last to answer, so that it is not the first because of that.
    """
    low = _PAIR[1 - _PAIR.index(high)]
    slow = replace(found(*_scored(high, 0.99)), seconds=_SLOW)
    scripts = {high: Script(search=serves(slow)), low: _offers(*_scored(low, 0.20))}
    async with bench.federated({name: scripts[name] for name in _PAIR}) as session:
        told = await session.search(_NEED, limit=20)
        order = [(item.get("server"), item.get("tool")) for item in told.tools]
        best = [(name, f"courier_{name}_0") for name in (high, low)]
        there = all(each in order for each in best)
        bench.require(there, f"of {best} the driver tells nothing: {order}", session.latest)
        return order.index(best[0]) < order.index(best[1]), session.evidence


def _scored(server: str, best: float) -> list[JsonObject]:
    return [_hit(f"courier_{server}_{n}", best - n / 100) for n in range(10)]


@client_check(
    "federation-names-unique",
    feature="federation",
    title="Each name stands for one tool of one server",
    sends="Five peers whose names and tools are much alike: `a` has `b_courier`, and `a_b` has `courier`. First all of "
    "them find tools, then one alone.",
    passes="No name that stands for two tools, in one result or over both.",
    level="ADVICE",
)
async def names_tools_apart(bench: ClientBench) -> None:
    others = [f"a{mark}b" for mark in _MARKS]
    alike = [tool(f"b{mark}courier", f"Dispatches a courier, way {n}.") for n, mark in enumerate(_MARKS)]
    scripts = {"a": _finds(_NEED, tool("courier", "Dispatches a courier on foot."), *alike)}
    scripts |= {name: _finds(_NEED, tool("courier", f"Dispatches a courier from {name}.")) for name in others[1:]}
    scripts[others[0]] = _offers(tool("courier", "Dispatches a courier by bicycle."))
    async with bench.federated(scripts) as session:
        named: dict[Any, tuple[Any, Any]] = {}
        for need in (_NEED, _OTHER_NEED):
            told = await session.search(need, limit=20)
            for item in told.tools:
                meant = (item.get("server"), item.get("tool"))
                first = named.setdefault(item.get("name"), meant)
                message = f"the name {item.get('name')!r} stands for {first} and for {meant} (server, tool)"
                bench.expect(first == meant, session.evidence, message)
        servers = {server for server, _ in named.values()}
        bench.require(len(servers) > 1, f"the client has tools of {servers} only", session.latest)


@client_check(
    "federation-calls-named",
    feature="federation",
    title="A name calls the tool that it stands for",
    sends="Three peers that each find a tool of the same name. The client is to call each of them by the name that it "
    "has given to it.",
    passes="`tools/call` to the server of that tool, by its name there. A driver that cannot `call` is not judged.",
    level="ADVICE",
)
async def calls_what_is_named(bench: ClientBench) -> None:
    scripts = {name: _offers(tool("courier", f"Dispatches a courier from {name}.")) for name in ("a", "b", "c")}
    async with bench.federated(scripts) as session:
        told = await session.search(_NEED, limit=10)
        bench.require(bool(told.tools), f"the client found nothing: {told.describe()}", session.latest)
        names = [item["name"] for item in told.tools]
        bench.applies(len({*names}) == len(names), "one name stands for several tools; see federation-names-unique")
        for item in told.tools:
            meant, name, arguments = item.get("server"), str(item["name"]), {"parcel": str(item["name"])}
            await session.call(name, arguments)
            called = [
                (server, call)
                for server, peer in session.peers.items()
                for call in peer.asked("tools/call")
                if params_of(call).get("name") == "courier" and params_of(call).get("arguments") == arguments
            ]
            bench.applies(
                bool(called), "the client calls nothing by the names that it gives to tools of several servers"
            )
            for server, call in called:
                message = f"the name {name!r} stands for a tool of the server {meant}, and its call went to {server}"
                bench.expect(server == meant, call, message, case=name)
