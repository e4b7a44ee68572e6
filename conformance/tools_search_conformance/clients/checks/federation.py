"""Federations: several servers of one client, their scores and names, and servers that fail."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from tools_search_spec import EXTENSION_ID

from tools_search_conformance.clients.bench import ClientBench, NotConnectedError, Session, client_check
from tools_search_conformance.clients.driver import DriverError, Outcome
from tools_search_conformance.clients.script import Script, found, refuses, serves, tool
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

_NEED: Final = "dispatch a courier"
_OTHER_NEED: Final = "send a bicycle"
_SLOW: Final = 0.2
"""Seconds by which a server answers later than the other one."""
_SEPARATORS: Final = ("_", "__", "-", ".")
"""What clients put between the names of a server and a tool."""
_BROKEN: Final[Mapping[str, Script]] = {
    "refused with an internal error": Script(search=refuses(-32603), refuses={"tools/list": -32603}),
    "ended the connection": Script(hangs_up=True),
    "could not be reached": Script(unreachable=True),
}
_SENDS_BROKEN: Final = (
    "Three peers, of which one refuses everything that it is asked for its tools, ends the connection then, or is not "
    "to be reached from the start."
)


def _hit(name: str, score: float) -> JsonObject:
    return tool(name, "Dispatches a courier.", _meta={EXTENSION_ID: {"score": score}})


def _finds(*hits: JsonObject, only: str | None = None) -> Script:
    """Return a server that finds `hits`, for every query or for `only` one."""
    return Script(search=lambda params: found(*(hits if only in {None, params["query"]} else ())))


@client_check(
    driver_feature="federation",
    title="Each of several servers is asked",
    sends="Three peers: two that offer the search, one that does not. The client is to find ten tools, then one.",
    passes="`tools/search` to the two, `tools/list` to the third, each time.",
)
async def federation_asks_all(bench: ClientBench) -> None:
    plain = Script(advertised={}, tools=(_hit("third", 0.1),))
    scripts = {"a": _finds(_hit("first", 0.9)), "b": _finds(_hit("second", 0.5)), "c": plain}
    for limit in (10, 1):
        async with bench.federated(scripts) as session:
            await session.search(_NEED, limit)
            for name, peer in session.peers.items():
                asked = peer.listings if name == "c" else peer.searches
                message = f"the server {name} was not asked for its tools"
                where = asked[-1] if asked else session.evidence
                session.expect(bool(asked), message, where, case=f"server {name}, limit {limit}")


@client_check(
    driver_feature="federation",
    title="Scores of different servers are not compared",
    sends="Two peers that each find tools which are much the same; one gives high scores, one gives low ones, which "
    "fall faster from rank to rank. Then the scores are exchanged. The peer with the high scores answers last. The "
    "client is to find all of them, then four.",
    passes="The best tool with a high score does not precede the best one with a low score both times, nor the second "
    "best the second best, where the client has both. A client that leaves out tools with the low scores regardless of "
    "the others is not judged.",
)
async def federation_scores_not_compared(bench: ClientBench) -> None:
    needs = {20: _NEED, 4: _OTHER_NEED}
    leads: dict[tuple[int, int], list[tuple[bool, Exchange]]] = {
        (limit, rank): [] for limit in needs for rank in (0, 1)
    }
    for high, low in (("one", "two"), ("two", "one")):
        # It is the last to answer, so that its time is no reason to come first.
        slow = Script(search=serves(replace(found(*_scored(high, 0.99, 0.99)), seconds=_SLOW)))
        scripts = {high: slow, low: _finds(*_scored(low, 0.04, 0.5))}
        async with bench.federated({name: scripts[name] for name in ("one", "two")}) as session:
            for limit, need in needs.items():
                outcome = await session.search(need, limit)
                order = [(item.get("server"), item.get("tool")) for item in outcome.tools]
                for rank in (0, 1):
                    pair = [(name, f"courier_{name}_{rank}") for name in (high, low)]
                    there = [each for each in order if each in pair]
                    bench.require(bool(there or rank), f"of {pair} the driver reports none: {order}", session.latest)
                    first = there[:1] == pair[:1] and len(there) > rank
                    leads[limit, rank].append((first, session.evidence))
    if any(all(first for first, _ in found_first) for found_first in leads.values()):
        async with bench.federated({"one": _finds(*_scored("one", 0.04, 0.5)), "two": _finds()}) as session:
            kept = (await session.search(_NEED, 20)).tools
        bench.applies(bool(kept), "the client leaves out tools with low scores")
    for (limit, rank), found_first in leads.items():
        right = not all(first for first, _ in found_first)
        best, alone = ("second best", "") if rank else ("best", " or alone")
        message = (
            f"of the {best} tools of two servers, the one with the higher score came first{alone}, of either server"
        )
        bench.expect(right, found_first[-1][1], message, case=f"scores exchanged, limit {limit}")


def _scored(server: str, best: float, fall: float) -> list[JsonObject]:
    return [_hit(f"courier_{server}_{n}", round(best * fall**n, 6)) for n in range(10)]


@client_check(
    driver_feature="federation",
    title="Each name stands for one tool of one server",
    sends="Five peers whose names and tools are much alike: `a` has `b_courier`, and `a_b` has `courier`. First all of "
    "them find tools, then one alone.",
    passes="No name that stands for two tools, in one result or over both.",
)
async def federation_names_unique(bench: ClientBench) -> None:
    others = [f"a{mark}b" for mark in _SEPARATORS]
    alike = [tool(f"b{mark}courier", f"Dispatches a courier, way {n}.") for n, mark in enumerate(_SEPARATORS)]
    scripts = {"a": _finds(tool("courier", "Dispatches a courier on foot."), *alike, only=_NEED)}
    scripts |= {name: _finds(tool("courier", f"Dispatches a courier from {name}."), only=_NEED) for name in others[1:]}
    scripts[others[0]] = _finds(tool("courier", "Dispatches a courier by bicycle."))
    async with bench.federated(scripts) as session:
        meanings: dict[Any, tuple[Any, Any]] = {}
        for need in (_NEED, _OTHER_NEED):
            outcome = await session.search(need, 20)
            for item in outcome.tools:
                meant = (item.get("server"), item.get("tool"))
                first = meanings.setdefault(item.get("name"), meant)
                message = f"the name {item.get('name')!r} stands for {first} and for {meant} (server, tool)"
                session.expect(first == meant, message, session.evidence)
        servers = {server for server, _ in meanings.values()}
        bench.require(len(servers) > 1, f"the client has tools of {servers} only", session.latest)


@client_check(
    driver_feature="federation",
    title="A name calls the tool that it stands for",
    sends="Three peers that each find a tool of the same name. The client is to call each of them by the name that it "
    "has given to it.",
    passes="`tools/call` to the server of that tool, by its name there. A driver that cannot `call` is not judged.",
)
async def federation_calls_named(bench: ClientBench) -> None:
    scripts = {name: _finds(tool("courier", f"Dispatches a courier from {name}.")) for name in ("a", "b", "c")}
    async with bench.federated(scripts) as session:
        outcome = await session.search(_NEED, 10)
        bench.require(bool(outcome.tools), f"the client found nothing: {outcome.describe()}", session.latest)
        names = [item["name"] for item in outcome.tools]
        bench.applies(len({*names}) == len(names), "one name stands for several tools; see federation-names-unique")
        for item in outcome.tools:
            meant, name, arguments = item.get("server"), str(item["name"]), {"parcel": str(item["name"])}
            await session.ask("call", name=name, arguments=arguments)
            called = [
                (server, call)
                for server, peer in session.peers.items()
                for call in peer.requests("tools/call")
                if call.params.get("name") == "courier" and call.params.get("arguments") == arguments
            ]
            bench.applies(bool(called), "the client calls nothing by the names that it gives to tools")
            for server, call in called:
                message = f"the name {name!r} stands for a tool of the server {meant}, and its call went to {server}"
                session.expect(server == meant, message, call, case=name)


def _with_broken(broken: Script) -> Mapping[str, Script]:
    """Return a server `b` that is broken, and `a` and `c`, which are not."""
    first, third = (_finds(tool(name, "Dispatches a courier.")) for name in ("first_courier", "third_courier"))
    return {"a": first, "b": broken, "c": third}


def _expect_failure_reported(session: Session, outcome: Outcome, way: str) -> None:
    message = f"the server b failed: it {way}; and the client reports as failed {outcome.failed}"
    session.expect(outcome.failed == ["b"], message, session.evidence, case=way)


def _expect_rest(session: Session, outcome: Outcome, way: str) -> None:
    servers = {item.get("server") for item in outcome.tools}
    message = f"one server {way}, and the client has {outcome.describe()} of {servers}"
    session.expect(servers == {"a", "c"}, message, session.evidence, case=way)


@client_check(
    driver_feature="federation",
    title="Failed servers are reported to the host",
    sends=_SENDS_BROKEN,
    passes="That one, and no other, among those that failed.",
)
async def federation_tells_failures(bench: ClientBench) -> None:
    for way, broken in _BROKEN.items():
        with suppress(NotConnectedError):  # which is for federation-returns-rest to judge
            async with bench.federated(_with_broken(broken)) as session:
                _expect_failure_reported(session, await session.search(_NEED, 10), way)


@client_check(
    driver_feature="federation",
    title="The results of the other servers are returned",
    sends=_SENDS_BROKEN,
    passes="The tools of the other two.",
)
async def federation_returns_rest(bench: ClientBench) -> None:
    for way, broken in _BROKEN.items():
        async with bench.federated(_with_broken(broken), must_connect=True) as session:
            _expect_rest(session, await session.search(_NEED, 10), way)


@client_check(
    driver_feature="federation",
    title="A silent server is reported as failed, and the results of the others are returned",
    sends="Three peers, of which one is silent when it is asked for its tools.",
    passes="That one, and no other, among those that failed, and the tools of the other two. A client that waits for "
    "longer than the driver may take is not judged.",
    eras=(MODERN,),
)
async def federation_bears_silence(bench: ClientBench) -> None:
    async with bench.federated(_with_broken(Script(silent=True))) as session:
        try:
            outcome = await session.search(_NEED, 10)
        except DriverError as error:
            if isinstance(error.__cause__, TimeoutError):
                bench.recorder.deaths.clear()
                bench.applies(False, f"the client waits for a silent server: {error}")
            raise
        _expect_failure_reported(session, outcome, "did not answer")
        _expect_rest(session, outcome, "did not answer")
