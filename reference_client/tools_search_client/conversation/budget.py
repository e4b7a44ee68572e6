"""The token budget of a search: how much one search can add to the model's context.

The budget is `max_search_tokens` if set. Otherwise, a conversation's first searches by query together cost no more than
listing everything, if deferring can pay off at all: with a few small tools, the definition of `search_tools` alone is
as long as theirs. The first search can spend half of the budget, and each later one an even share of the rest. The best
tool is loaded if it fits in the whole budget, to which a first search may add the margin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tools_search_client.conversation.messages import Definition
from tools_search_client.conversation.offered_tools import OfferedTools
from tools_search_client.found import FoundTool

_SEARCHES: Final = 5
"""How many searches together cost no more than listing everything."""

_SHARE: Final = 0.88
"""Share of the listing's tokens to spend; the rest is a margin for estimation error (`estimate_tokens`)."""

_MIN_LOADED: Final = 3
"""Deferring can pay off if these searches can load this many tools of average size."""

_ANSWER_TOKENS: Final = 70
"""Tokens of a search that loads nothing: its call, and its answer without tool names."""


def affordable(
    offered: OfferedTools, found: Sequence[FoundTool], texts: Mapping[str, str], *, by_query: bool
) -> list[FoundTool]:
    """Return the found tools that fit in the budget, best first.

    Args:
        offered: The conversation's tools.
        found: The search's results; already loaded tools cost nothing.
        texts: The answer's text for each tool, by name.
        by_query: Whether they were found by a query, rather than by their names or their server's name.
    """
    tokens, definitions = offered.tokens, offered.state.definitions
    most = share = offered.discovery.max_search_tokens
    if most is None and by_query:
        named = [f"{tool.name}, " for tool in found]
        named += [texts.get(tool.name, "") for tool in found if tool.name in definitions]
        most, share = _left(offered, sum(map(tokens.of_text, named)))
    if most is None or share is None:
        return list(found)
    kept: list[FoundTool] = []
    spent = 0
    for tool in found:
        cost = 0
        if tool.name not in definitions:
            cost = tokens.of_text(Definition.of(tool).serialized()) + tokens.of_text(texts.get(tool.name, ""))
        # The best tool is loaded even if it is as large as several others.
        if not cost or spent + cost <= (share if spent else max(share, most)):
            kept.append(tool)
            spent += cost
    return kept


def count_search(offered: OfferedTools, *texts: str) -> None:
    """Count a search whose call and answer are these texts; a search before the model's turn has none."""
    offered.state.searches += 1
    offered.state.search_tokens += sum(map(offered.tokens.of_text, texts))


def _left(offered: OfferedTools, said: int) -> tuple[int | None, int | None]:
    """Return the tokens that remain for searches by query, and the next one's share; `None` means no limit.

    Later answers are assumed to use as many tokens as this one uses without loading anything (`said`).
    """
    state, tokens = offered.state, offered.tokens
    coming = _SEARCHES - state.searches
    if coming <= 0 or state.catalog.unlisted:  # the cost of listing is only known for servers that were listed
        return None, None
    of_servers = [definition for definition in state.definitions.values() if definition.tool is not None]
    first = [definition for definition in of_servers if definition.name not in state.discovered]
    number, listed = offered.listed
    deferred = number - len(first)
    search = [definition for definition in state.definitions.values() if definition.name == state.search_name]
    # What on-demand loading costs even if it loads nothing must leave room for a few tools of average size.
    always = tokens.of([*search, *first]) + _SEARCHES * _ANSWER_TOKENS
    if deferred <= 0 or listed - always < _MIN_LOADED * (listed - tokens.of(first)) / deferred:
        return None, None  # deferring cannot pay off
    used = tokens.of([*search, *of_servers]) + state.search_tokens
    left = int(_SHARE * listed) - used - coming * (_ANSWER_TOKENS + said)
    if not state.searches:  # a first search that loads nothing helps nobody: its best tool may use the margin
        return left + int((1 - _SHARE) * listed), max(0, left) // 2
    return max(0, left), max(0, left) // coming
