"""Several servers at once: each is asked, ranks are merged, names are unambiguous, failures are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Script, found, refuses, serves, tool

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.wire.codec import JsonObject

__all__: list[str] = []

_NEED: Final = "dispatch a courier"
_OTHER_NEED: Final = "send a bicycle"
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
    "federation-merges-ranks",
    feature="federation",
    title="Results of several servers are merged by rank",
    sends="Two peers that each find ten tools which are much the same; one gives high scores, one gives low ones.",
    passes="The best tool of each stands before the last one of the other.",
)
async def merges_by_rank(bench: ClientBench) -> None:
    high = [_hit(f"courier_a{n}", 0.99 - n / 100) for n in range(10)]
    low = [_hit(f"courier_b{n}", 0.20 - n / 100) for n in range(10)]
    async with bench.federated({"high": _offers(*high), "low": _offers(*low)}) as session:
        told = await session.search(_NEED, limit=20)
        order = [(item.get("server"), item.get("tool")) for item in told.tools]
        for best, last in (
            (("low", "courier_b0"), ("high", "courier_a9")), (("high", "courier_a0"), ("low", "courier_b9")),
        ):  # fmt: skip
            there = best in order and last in order
            bench.require(there, f"of {best} and {last} the driver tells nothing: {order}", session.latest)
            message = f"the best tool of the server {best[0]} came after the last one of {last[0]}: {order}"
            bench.expect(order.index(best) < order.index(last), session.evidence, message)


@client_check(
    "federation-names-unique",
    feature="federation",
    title="Each name stands for one tool of one server",
    sends="Five peers whose names and tools are much alike: `a` has `b_courier`, and `a_b` has `courier`. First all of "
    "them find tools, then one alone.",
    passes="No name that stands for two tools, in one result or over both.",
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
    "federation-tells-failures",
    feature="federation",
    title="Servers that failed are told",
    sends="Three peers, of which one refuses everything that it is asked for its tools, or ends the connection then.",
    passes="That one, and no other, among those that failed.",
)
async def tells_who_failed(bench: ClientBench) -> None:
    for way, broken in _broken().items():
        async with bench.federated(_among_others(broken)) as session:
            told = await session.search(_NEED, limit=10)
            message = f"the server b failed: it {way}; and the client tells of {told.failed}"
            bench.expect(told.failed == ["b"], session.evidence, message, case=way)


@client_check(
    "federation-returns-rest",
    feature="federation",
    title="What the other servers found is returned",
    sends="Three peers, of which one refuses everything that it is asked for its tools, or ends the connection then.",
    passes="The tools of the other two.",
)
async def returns_the_rest(bench: ClientBench) -> None:
    for way, broken in _broken().items():
        async with bench.federated(_among_others(broken)) as session:
            told = await session.search(_NEED, limit=10)
            servers = {item.get("server") for item in told.tools}
            message = f"one server {way}, and the client has {told.describe()} of {servers}"
            bench.expect(servers == {"a", "c"}, session.evidence, message, case=way)


def _broken() -> dict[str, Script]:
    return {
        "refused with an internal error": Script(search=refuses(-32603), list_fails=True),
        "ended the connection": Script(gone=True),
    }


def _among_others(broken: Script) -> dict[str, Script]:
    return {"a": _offers(_hit("first", 0.9)), "b": broken, "c": _offers(_hit("third", 0.5))}
