"""Several servers at once: each is asked, ranks are merged, names are unambiguous, failures are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Script, found, refuses, serves, tool

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.wire.codec import JsonObject

__all__: list[str] = []

_NEED: Final = "dispatch a courier"


def _hit(name: str, score: float) -> JsonObject:
    return tool(name, "Dispatches a courier.", _meta={EXTENSION_ID: {"score": score}})


def _offers(*hits: JsonObject) -> Script:
    return Script(search=serves(found(*hits)))


@client_check(
    "federation-asks-all",
    feature="federation",
    title="Each of several servers is asked",
    sends="Three peers: two that offer the search, one that does not.",
    passes="`tools/search` to the two, `tools/list` to the third.",
)
async def asks_each_server(bench: ClientBench) -> None:
    plain = Script(advertised={}, listed=(_hit("third", 0.1),))
    scripts = {"a": _offers(_hit("first", 0.9)), "b": _offers(_hit("second", 0.5)), "c": plain}
    async with bench.federated(scripts) as session:
        await session.search(_NEED, limit=10)
        for name, peer in session.peers.items():
            asked = peer.listings if name == "c" else peer.searches
            where = asked[-1] if asked else session.evidence
            bench.expect(bool(asked), where, f"the server {name} was not asked for its tools", case=f"server {name}")


@client_check(
    "federation-merges-ranks",
    feature="federation",
    title="Results of several servers are merged by rank",
    sends="Two peers that each find ten tools which are much the same; one gives high scores, one gives low ones.",
    passes="The best tool of the second stands before the last one of the first.",
)
async def merges_by_rank(bench: ClientBench) -> None:
    high = [_hit(f"courier_a{n}", 0.99 - n / 100) for n in range(10)]
    low = [_hit(f"courier_b{n}", 0.20 - n / 100) for n in range(10)]
    async with bench.federated({"high": _offers(*high), "low": _offers(*low)}) as session:
        told = await session.search(_NEED, limit=20)
        order = [(item.get("server"), item.get("tool")) for item in told.tools]
        ends = ("low", "courier_b0"), ("high", "courier_a9")
        there = all(end in order for end in ends)
        bench.require(there, f"of {ends} the driver tells nothing: {order}", session.latest)
        best, last = map(order.index, ends)
        message = f"the best tool of a server with low scores came after the last of the other: {order}"
        bench.expect(best < last, session.evidence, message)


@client_check(
    "federation-names-unique",
    feature="federation",
    title="Each name stands for one tool of one server",
    sends="Two peers that each find a tool of the same name.",
    passes="Two tools with two names.",
)
async def names_tools_apart(bench: ClientBench) -> None:
    one = tool("courier", "Dispatches a courier on foot.")
    other = tool("courier", "Dispatches a courier by bicycle.")
    async with bench.federated({"a": _offers(one), "b": _offers(other)}) as session:
        told = await session.search(_NEED, limit=10)
        servers = {item.get("server") for item in told.tools}
        bench.require(servers == {"a", "b"}, f"the client has {told.describe()} of {servers}", session.latest)
        message = f"two tools of two servers have the names {told.names}"
        bench.expect(len(set(told.names)) == len(told.names) == 2, session.evidence, message)


@client_check(
    "federation-tells-failures",
    feature="federation",
    title="Servers that failed are told",
    sends="Three peers, of which one refuses everything that it is asked for its tools.",
    passes="That one, and no other, among those that failed.",
)
async def tells_who_failed(bench: ClientBench) -> None:
    async with bench.federated(_one_fails()) as session:
        told = await session.search(_NEED, limit=10)
        bench.expect(
            told.failed == ["b"], session.evidence, f"the server b failed, and the client tells of {told.failed}"
        )


@client_check(
    "federation-returns-rest",
    feature="federation",
    title="What the other servers found is returned",
    sends="Three peers, of which one refuses everything that it is asked for its tools.",
    passes="The tools of the other two.",
)
async def returns_the_rest(bench: ClientBench) -> None:
    async with bench.federated(_one_fails()) as session:
        told = await session.search(_NEED, limit=10)
        servers = {item.get("server") for item in told.tools}
        message = f"one server failed, and the client has {told.describe()} of {servers}"
        bench.expect(servers == {"a", "c"}, session.evidence, message)


def _one_fails() -> dict[str, Script]:
    broken = Script(search=refuses(-32603), list_fails=True)
    return {"a": _offers(_hit("first", 0.9)), "b": broken, "c": _offers(_hit("third", 0.5))}
