"""Results with more in them than the draft knows, or than the era knows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from tools_search_spec import EXTENSION_ID, METHOD

from tools_search_conformance.clients.generated import Shifting, unknown_members
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Script, found, serves, tool
from tools_search_conformance.target.properties import explore
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.eras import LEGACY

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.contract import Told

__all__: list[str] = []

_NEED: Final = "mend a clock"
_HOUR: Final = 3_600_000
_ONE: Final = tool("mend_clock", "Mends a clock.")
"""A tool that no peer lists, so that who has it has taken the result."""


async def _expect_found(bench: ClientBench, script: Script, case: str) -> Told:
    async with bench.connected(script) as session:
        told = await session.search(_NEED)
        message = f"{case}, and the search came to {told.describe()}"
        bench.expect(_ONE["name"] in told.names, session.last_search, message, case=case)
        return told


@client_check(
    "result-unknown-members",
    title="Unknown members of a result are ignored",
    sends=f"A result of `{METHOD}` with members that this draft does not know, some of them generated, and a "
    "tool that has some.",
    passes="The client has the tool, and does not take the result for an invalid one.",
)
async def ignores_unknown_members_of_results(bench: ClientBench) -> None:
    extra: JsonObject = {"facets": {"group": ["a"]}, "future": None, "warnings": ["x"], "_meta": {"example.com/x": [1]}}
    await _expect_found(bench, Script(search=serves(found(_ONE, **extra))), "the result had members nobody knows")
    odd = {**_ONE, "future": {"deep": [1, None]}, "_meta": {EXTENSION_ID: {"score": 0.5, "why": ["x"]}}}
    told = await _expect_found(bench, Script(search=serves(found(odd))), "the tool had members nobody knows")
    if told.heard:
        shifting = Shifting()
        async with bench.connected(Script(search=shifting)) as session:

            async def judge(members: JsonObject) -> None:
                shifting.now = serves(found(_ONE, **members))
                told = await session.search(shifting.next_query())
                case = f"members {json.dumps(members, ensure_ascii=False)}"
                message = f"the result had members nobody knows, and the search came to {told.describe()}"
                bench.expect(_ONE["name"] in told.names, session.last_search, message, case=case)

            await explore(bench, unknown_members(), judge, cost=2)


@client_check(
    "legacy-members-ignored",
    title="On a legacy connection the modern members of a result count for nothing",
    sends="Legacy results whose `resultType`, `ttlMs` and `cacheScope` are none; then the same search twice, without a "
    "`ttlMs`, with one of an hour, and with one of 0.",
    passes="The client has the tool each time, and `ttlMs` makes no difference to when it asks again.",
    eras=(LEGACY,),
)
async def ignores_modern_members_of_legacy_results(bench: ClientBench) -> None:
    misfits: tuple[JsonObject, ...] = (
        {"resultType": "surprise"},
        {"resultType": "input_required"},
        {"resultType": None, "ttlMs": None, "cacheScope": None},
        {"ttlMs": "soon"},
        {"ttlMs": -5},
        {"cacheScope": "everyone"},
    )
    for wrong in misfits:
        await _expect_found(
            bench, Script(search=serves(found(_ONE, **wrong))), f"a legacy result had {json.dumps(wrong)}"
        )
    hints: tuple[JsonObject, ...] = ({}, {"ttlMs": _HOUR}, {"ttlMs": 0})
    asked: list[int] = []
    for hint in hints:
        async with bench.connected(Script(search=serves(found(_ONE, **hint)))) as session:
            await session.search(_NEED)
            await session.search(_NEED)
            asked.append(len(session.peer.searches))
            message = f"the same search twice made {asked[0]} requests, and with ttlMs {asked[-1]}"
            bench.expect(asked[-1] == asked[0], session.last_search, message)
