"""From what a model asks for to tools: what is at hand is searched here, servers that were never listed are asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion
from tools_search_ranking import never_silent

from tools_search_client.conversation.catalog import SourceAnswer
from tools_search_client.conversation.known_tools import KnownTools
from tools_search_client.conversation.reach import Reach, called
from tools_search_client.federation.fanout import in_parallel
from tools_search_client.found import FoundTool

__all__ = ["MOST_BROWSED", "Finding", "by_names", "by_query", "by_server"]

MOST_BROWSED: Final = 100
"""The largest server that is loaded as a whole; a larger one would fill the context that deferral is to save."""

_MOST_CORRECTED: Final = 5
"""Names for which the closest are looked for; that is the one thing here that takes its time."""

_VOTES_OF_OWN_RANKING: Final = 2
"""As in `merging`: only the ranking on this side compares tools of different servers."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and what was not."""

    tools: tuple[FoundTool, ...] = ()
    """Best first."""

    beside: tuple[FoundTool, ...] = ()
    """Tools that are always loaded and fit as well."""

    missing: tuple[str, ...] = ()
    """Names that no tool has."""

    closest: tuple[str, ...] = ()
    """Full names that may have been meant."""

    by_query_instead: bool = False
    """Whether the tools are those of the query, because no tool has any of the names."""

    too_many: int | None = None
    """How many tools a server has that is too large to be loaded as a whole."""

    failures: Mapping[str, str] = field(default_factory=dict[str, str])
    """Servers that gave no answer, each with the reason."""


async def by_query(reach: Reach, query: str, servers: Collection[str] | None = None) -> Finding:
    """Return the best tools for `query` of these servers or of all, the one that is named exactly so first.

    The same query finds the same tools again, whether they were loaded meanwhile or not: a model that repeats itself
    is told so, instead of being given worse and worse tools.
    """
    wanted = query.strip()
    fits = reach.known.ranked(wanted, servers=servers)[: reach.limit]
    here = reach.known.ranked(wanted, among=reach.deferred, servers=servers)[: reach.limit]
    named = [tool for tool in reach.known.named(wanted, servers) if tool.name in reach.deferred]
    answer = await reach.searched(wanted, servers)
    found = _each_once([*named, *called(wanted, answer.tools), *_fused(wanted, [here, answer.tools], reach.ranker)])
    beside = tuple(tool for tool in fits if tool.name not in reach.deferred)
    return Finding(tuple(found[: reach.limit]), beside, failures=answer.failures)


async def by_names(reach: Reach, names: Sequence[str], servers: Collection[str] | None = None) -> Finding:
    """Return the tools that `names` mean, in that order; the bare name of several tools means all of them."""
    at_hand = {name: reach.known.named(name, servers) for name in names}
    unknown = [name for name, tools in at_hand.items() if not tools]
    looked_up = await in_parallel(lambda name: reach.looked_up(name, servers), unknown)
    answers = {name: SourceAnswer(tuple(tools)) for name, tools in at_hand.items()}
    answers |= dict(zip(unknown, looked_up, strict=True))
    found: list[FoundTool] = []
    missing: list[str] = []
    closest: list[str] = []
    failures: dict[str, str] = {}
    for name, answer in answers.items():
        failures |= answer.failures
        if 0 < len(answer.tools) <= reach.limit:
            found += answer.tools
            continue
        missing.append(name)
        # A bare name of more tools than a search may load is answered with full ones to choose from.
        near = [tool.name for tool in answer.tools or reach.known.named(name)] or list(answer.closest)
        if not near and len(missing) <= _MOST_CORRECTED:
            near = reach.known.closest(name, servers)
        closest += near
    return Finding(
        tuple(_each_once(found)), missing=tuple(missing), closest=tuple(dict.fromkeys(closest)), failures=failures
    )


async def by_server(reach: Reach, server: str) -> Finding:
    """Return every tool of one server of the catalog, unless it is too large to be loaded as a whole."""
    offer = reach.catalog.server(server)
    if offer is None:
        return Finding()
    if offer.failure is not None:
        return Finding(offer.tools or (), failures={server: offer.failure})
    if offer.tools is None and (offer.size or 0) > MOST_BROWSED:
        return Finding(too_many=offer.size)
    answer = SourceAnswer(offer.tools) if offer.tools is not None else await reach.browsed(server)
    if len(answer.tools) > MOST_BROWSED:
        return Finding(too_many=len(answer.tools), failures=answer.failures)
    return Finding(answer.tools, failures=answer.failures)


def _fused(query: str, rankings: Sequence[Sequence[FoundTool]], ranker: Ranker) -> list[FoundTool]:
    """Return one order of what was found here and at the servers, by rank and never by score."""
    filled = [ranking for ranking in rankings if ranking]
    if len(filled) < 2:
        return [tool for ranking in filled for tool in ranking]
    tools = {tool.name: tool for ranking in filled for tool in ranking}
    together = [tool.name for tool in KnownTools(tools.values(), never_silent(ranker)).ranked(query)]
    names = [[tool.name for tool in ranking] for ranking in filled]
    return [tools[name] for name, _ in reciprocal_rank_fusion([*names, *[together] * _VOTES_OF_OWN_RANKING])]


def _each_once(tools: Iterable[FoundTool]) -> list[FoundTool]:
    return list({tool.name: tool for tool in tools}.values())
