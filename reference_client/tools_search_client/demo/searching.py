"""Steps: searches in plain language over the gateway, and the same over the servers without the extension."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tools_search_client.demo.meter import WireMeter
from tools_search_client.demo.stage import LIMIT, Stage, observed
from tools_search_client.demo.step import Shown, StepFailed
from tools_search_client.federation.configuration import load_configuration
from tools_search_client.federation.federation import open_federation
from tools_search_client.found import FederatedSearch, ServerDescription

__all__ = ["MEASURED", "fall_back", "search"]

_SHOWN = 3

MEASURED: Final = (57, 79)
"""What part of the right tools comes first, and among the first five, in percent, over five public sets of requests."""


_HOW_GOOD: Final = (
    "These requests use the words of the tools. Not all do: over the requests of five public sets, "
    f"{MEASURED[0]} % of the right tools come first and {MEASURED[1]} % are among the first five "
    "(benchmarks/RESULTS.md)."
)


async def search(stage: Stage) -> Shown:
    """Search the gateway, and keep what was found and what it cost."""
    for query in stage.queries:
        before = stage.meter.traffic
        answer = await stage.gateway.search(query, limit=LIMIT)
        if answer.failed or answer.servers[0].mode != "search" or not answer.tools:
            raise StepFailed(f"{query!r} was not answered by tools/search with any tool")
        stage.searching.append(stage.meter.traffic.since(before))
        stage.answers[query] = answer
    wrong = [query for query, tool in stage.queries.items() if _first(stage.answers[query]) != tool]
    if wrong:
        raise StepFailed(f"the right tool is not first for {', '.join(map(repr, wrong))}")
    facts = {"limit": LIMIT, "searches": [_answer_json(query, answer) for query, answer in stage.answers.items()]}
    return Shown(facts, [*_answer_lines(stage.answers), "", _HOW_GOOD])


async def fall_back(stage: Stage) -> Shown:
    """Ask the same servers themselves: none offers the extension, so each is listed and the answers are fused."""
    configuration = load_configuration(stage.configuration)
    async with open_federation(configuration, observed(WireMeter())) as federation:
        servers = await federation.describe(deadline=None)
        answers = {query: await federation.search(query, limit=LIMIT) for query in stage.queries}
    failed = [f"{one.report.server} ({one.report.failure.message})" for one in servers if one.report.failure]
    if failed:
        raise StepFailed(f"not every server answered: {', '.join(failed)}")
    agree = sum(_first(stage.answers[query]) == _first(answer) for query, answer in answers.items())
    facts = {
        "servers": [_server_json(one) for one in servers],
        "searches": [_answer_json(query, answer) for query, answer in answers.items()],
        "sameFirstTool": agree,
    }
    lines = [
        *_server_lines(servers),
        *_answer_lines(answers),
        f"{agree} of {len(answers)} begin with the same tool as over the gateway",
    ]
    return Shown(facts, lines)


def _first(answer: FederatedSearch) -> str | None:
    return answer.tools[0].name if answer.tools else None


def _answer_json(query: str, answer: FederatedSearch) -> dict[str, Any]:
    tools = [{"name": tool.name, "score": tool.hit.score, "matched": tool.hit.matched} for tool in answer.tools]
    milliseconds = max(report.milliseconds for report in answer.servers)
    return {"query": query, "milliseconds": milliseconds, "tools": tools}


def _answer_lines(answers: dict[str, FederatedSearch]) -> list[str]:
    lines: list[str] = []
    for query, answer in answers.items():
        milliseconds = max(report.milliseconds for report in answer.servers)
        lines.append(f'"{query}"  ({milliseconds:.0f} ms)')
        for rank, tool in enumerate(answer.tools[:_SHOWN], start=1):
            lines.append(f"  {rank}. {tool.name:<28} matched {', '.join(tool.hit.matched or ['?'])}")
    return lines


def _server_json(one: ServerDescription) -> dict[str, Any]:
    return {
        "server": one.report.server,
        "mode": one.report.mode,
        "era": one.report.era,
        "protocolVersion": one.protocol_version,
        "tools": one.tools,
    }


def _server_lines(servers: Sequence[ServerDescription]) -> list[str]:
    lines = [f"{'server':<11} {'protocol':<19} {'mode':<7} tools"]
    for one in servers:
        protocol = f"{one.protocol_version} {one.report.era}"
        lines.append(f"{one.report.server:<11} {protocol:<19} {one.report.mode or '-':<7} {one.tools}")
    return lines
