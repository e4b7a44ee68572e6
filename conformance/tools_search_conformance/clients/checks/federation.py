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
"""Seconds that one server answers later than the other."""
_SEPARATORS: Final = ("_", "__", "-", ".")
"""Separators that clients put between the names of a server and a tool."""
_BROKEN: Final[Mapping[str, Script]] = {
    "refused every request for tools with error -32603": Script(search=refuses(-32603), refuses={"tools/list": -32603}),
    "closed the connection": Script(hangs_up=True),
    "could not be reached": Script(unreachable=True),
}
_SENDS_BROKEN: Final = (
    "Three peers, one of which refuses every request for its tools, or closes the connection then, or cannot be reached"
    " at all."
)


def _hit(name: str, score: float) -> JsonObject:
    return tool(name, "Dispatches a courier.", _meta={EXTENSION_ID: {"score": score}})


def _finds(*hits: JsonObject, only: str | None = None) -> Script:
    """Return a server that finds `hits`, for every query or only for one."""
    return Script(search=lambda params: found(*(hits if only in {None, params["query"]} else ())))


@client_check(
    driver_feature="federation",
    title="The client asks every server of a federation",
    sends="Three peers: two that advertise the extension, one that does not. The client has to find ten tools, then"
    " one.",
    passes="Each time, the client sends `tools/search` to the two and `tools/list` to the third.",
)
async def federation_asks_all(bench: ClientBench) -> None:
    plain = Script(advertised={}, tools=(_hit("third", 0.1),))
    scripts = {"a": _finds(_hit("first", 0.9)), "b": _finds(_hit("second", 0.5)), "c": plain}
    for limit in (10, 1):
        async with bench.federated(scripts) as session:
            await session.search(_NEED, limit)
            for name, peer in session.peers.items():
                asked = peer.listings if name == "c" else peer.searches
                how = "tools/list" if name == "c" else "tools/search"
                message = f"the client had to find {limit} tools but did not send {how} to the server {name}"
                where = asked[-1] if asked else session.evidence
                session.expect(bool(asked), message, where, case=f"server {name}, limit {limit}")


@client_check(
    driver_feature="federation",
    title="Scores of different servers are not compared",
    sends="Two peers with similar tools, one with high scores, one with low scores that fall faster from rank to rank; "
    "then with the scores swapped. The peer with the high scores answers last. The client has to find all tools, then "
    "four. Then two peers with a tool of the same name, of which either has the higher score, and either answers last.",
    passes="The best tool of the peer with the high scores does not come before the other's best tool both times; nor "
    "does its second best, if the client returns both. A client that drops tools with low scores anyway is not judged. "
    "Of the tools with the same name, the client does not return only the one with the higher score each time.",
)
async def federation_scores_not_compared(bench: ClientBench) -> None:
    needs = {20: _NEED, 4: _OTHER_NEED}
    leads: dict[tuple[int, int], list[tuple[bool, Exchange]]] = {
        (limit, rank): [] for limit in needs for rank in (0, 1)
    }
    for high, low in (("one", "two"), ("two", "one")):
        # It answers last, so that it cannot come first because it is fast.
        slow = Script(search=serves(replace(found(*_scored(high, 0.99, 0.99)), seconds=_SLOW)))
        scripts = {high: slow, low: _finds(*_scored(low, 0.04, 0.5))}
        async with bench.federated({name: scripts[name] for name in ("one", "two")}) as session:
            for limit, need in needs.items():
                outcome = await session.search(need, limit)
                order = [(item.get("server"), item.get("tool")) for item in outcome.tools]
                for rank in (0, 1):
                    pair = [(name, f"courier_{name}_{rank}") for name in (high, low)]
                    there = [each for each in order if each in pair]
                    bench.require(bool(there or rank), f"the driver reports none of {pair}: {order}", session.latest)
                    first = there[:1] == pair[:1] and len(there) > rank
                    leads[limit, rank].append((first, session.evidence))
    if any(all(first for first, _ in found_first) for found_first in leads.values()):
        async with bench.federated({"one": _finds(*_scored("one", 0.04, 0.5)), "two": _finds()}) as session:
            kept = (await session.search(_NEED, 20)).tools
        bench.applies(bool(kept), "the client drops tools with low scores anyway")
    for (limit, rank), found_first in leads.items():
        right = not all(first for first, _ in found_first)
        best, alone = ("second best", "") if rank else ("best", " or was the only one")
        message = (
            f"of the {best} tools of two servers, the one with the higher score came first{alone}, and also with the"
            " scores swapped"
        )
        bench.expect(right, found_first[-1][1], message, case=f"scores swapped, limit {limit}")
    await _expect_not_kept_by_score(bench)


async def _expect_not_kept_by_score(bench: ClientBench) -> None:
    """Expect a client that returns one of two tools of the same name not to choose it by score."""
    chosen: list[bool] = []
    for high, low in (("one", "two"), ("two", "one")):
        for last in (high, low):
            pages = {high: found(_hit("courier", 0.9)), low: found(_hit("courier", 0.8))}
            pages[last] = replace(pages[last], seconds=_SLOW)
            async with bench.federated({n: Script(search=serves(pages[n])) for n in ("one", "two")}) as session:
                outcome = await session.search(_NEED, 10)
                chosen.append([item.get("server") for item in outcome.tools] == [high])
                at = session.evidence
            if not chosen[-1]:
                break
    message = "two servers found a tool of the same name, and the client returned only the one with the higher score"
    bench.expect(not all(chosen), at, f"{message}, also with the scores swapped", case="the same name twice")


def _scored(server: str, best: float, fall: float) -> list[JsonObject]:
    return [_hit(f"courier_{server}_{n}", round(best * fall**n, 6)) for n in range(10)]


@client_check(
    driver_feature="federation",
    title="Each name identifies one tool of one server",
    sends="Five peers with similar names and tools: `a` has `b_courier`, and `a_b` has `courier`. First all of them"
    " find tools, then only one.",
    passes="No name identifies two tools, neither in one result nor across both.",
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
                message = f"the name {item.get('name')!r} identifies both {first} and {meant} (server, tool)"
                session.expect(first == meant, message, session.evidence)
        servers = {server for server, _ in meanings.values()}
        bench.require(len(servers) > 1, f"the client returned only tools of {servers}", session.latest)


@client_check(
    driver_feature="federation",
    title="A call goes to the server of the named tool",
    sends="Three peers that each find a tool of the same name. The client has to call each tool by the name that it has"
    " given to it.",
    passes="The client sends `tools/call` to the server of that tool, with the tool's name on that server. A driver "
    "that cannot `call` is not judged.",
)
async def federation_calls_named(bench: ClientBench) -> None:
    scripts = {name: _finds(tool("courier", f"Dispatches a courier from {name}.")) for name in ("a", "b", "c")}
    async with bench.federated(scripts) as session:
        outcome = await session.search(_NEED, 10)
        bench.require(bool(outcome.tools), f"the client found nothing: {outcome.describe()}", session.latest)
        names = [item["name"] for item in outcome.tools]
        bench.applies(len({*names}) == len(names), "one name identifies several tools; see federation-names-unique")
        for item in outcome.tools:
            meant, name, arguments = item.get("server"), str(item["name"]), {"parcel": str(item["name"])}
            await session.ask("call", name=name, arguments=arguments)
            called = [
                (server, call)
                for server, peer in session.peers.items()
                for call in peer.requests("tools/call")
                if call.params.get("name") == "courier" and call.params.get("arguments") == arguments
            ]
            bench.applies(bool(called), "the client calls no tool by the names that it gives to tools")
            for server, call in called:
                message = f"the name {name!r} identifies a tool of the server {meant}, but its call went to {server}"
                session.expect(server == meant, message, call, case=name)


def _with_broken(broken: Script) -> Mapping[str, Script]:
    """Return a server `b` that is broken, and `a` and `c`, which are not."""
    first, third = (_finds(tool(name, "Dispatches a courier.")) for name in ("first_courier", "third_courier"))
    return {"a": first, "b": broken, "c": third}


def _expect_failure_reported(session: Session, outcome: Outcome, way: str) -> None:
    message = f"the server b {way}, and the client reported {outcome.failed} as failed instead of ['b']"
    session.expect(outcome.failed == ["b"], message, session.evidence, case=way)


def _expect_rest(session: Session, outcome: Outcome, way: str) -> None:
    servers = {item.get("server") for item in outcome.tools}
    message = f"the server b {way}, and the client returned {outcome.describe()} of {servers} instead of a and c"
    session.expect(servers == {"a", "c"}, message, session.evidence, case=way)


@client_check(
    driver_feature="federation",
    title="The client reports failed servers to the host",
    sends=_SENDS_BROKEN,
    passes="The client reports that server, and no other, as failed.",
)
async def federation_tells_failures(bench: ClientBench) -> None:
    for way, broken in _BROKEN.items():
        with suppress(NotConnectedError):  # federation-returns-rest judges this
            async with bench.federated(_with_broken(broken)) as session:
                _expect_failure_reported(session, await session.search(_NEED, 10), way)


@client_check(
    driver_feature="federation",
    title="If one server fails, the client returns the results of the others",
    sends=_SENDS_BROKEN,
    passes="The client returns the tools of the other two.",
)
async def federation_returns_rest(bench: ClientBench) -> None:
    for way, broken in _BROKEN.items():
        async with bench.federated(_with_broken(broken), must_connect=True) as session:
            _expect_rest(session, await session.search(_NEED, 10), way)


@client_check(
    driver_feature="federation",
    title="If one server does not answer, the client reports it and returns the results of the others",
    sends="Three peers, one of which does not answer requests for its tools.",
    passes="The client reports that server, and no other, as failed, and returns the tools of the other two. A client "
    "that waits longer than the driver's time limit is not judged.",
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
