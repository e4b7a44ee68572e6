"""The tokens that one search may add to what the model reads.

`max_search_tokens` is that number. Without it, the first searches of a conversation by a query load so much that they
cost no more than if everything had been listed, where deferring can pay at all: with a few small tools the definition
of `search_tools` alone is as long as theirs. The first search may take half of what there is to spend, and each later
one an even share of the rest. The best tool is loaded if it fits at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tools_search_client.conversation.offered_tools import OfferedTools
from tools_search_client.found import FoundTool

_SEARCHES: Final = 5
"""How many searches together cost no more than listing."""

_SHARE: Final = 0.88
"""Share of the tokens of listing that is spent; the rest is for the error of the estimate (`estimate_tokens`)."""

_MIN_LOADED: Final = 3
"""Deferring can pay where these searches can load as many tools of usual size."""

_ANSWER_TOKENS: Final = 70
"""Tokens of a search that loads nothing: its call, and its answer without the names of tools."""


def affordable(
    offered: OfferedTools, found: Sequence[FoundTool], texts: Mapping[str, str], *, by_query: bool
) -> list[FoundTool]:
    """Return those of the tools that a search found, best first, that may be loaded.

    Args:
        offered: What the search was made in.
        found: The tools; those that are loaded already cost nothing.
        texts: What the answer says of each, by name.
        by_query: Whether they were found by what they do, and not by their names or their server's.
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
            cost = tokens.of_tool(tool) + tokens.of_text(texts.get(tool.name, ""))
        if not cost or spent + cost <= (share if spent else max(share, most)):
            kept.append(tool)
            spent += cost
    return kept


def count_search(offered: OfferedTools, *texts: str) -> None:
    """Count a search whose call and answer are these texts; one before the model's turn has none."""
    offered.state.searches += 1
    offered.state.search_tokens += sum(map(offered.tokens.of_text, texts))


def _left(offered: OfferedTools, said: int) -> tuple[int | None, int | None]:
    """Return the most that the next search by a query may load, and its share of that; `None` for any number.

    Later answers are expected to have as many tokens as this one has even if it loads nothing (`said`).
    """
    state, tokens = offered.state, offered.tokens
    coming = _SEARCHES - state.searches
    if coming <= 0 or state.catalog.unlisted:  # what listing would cost is known only where it was done
        return None, None
    of_servers = [one for one in state.definitions.values() if one.tool is not None]
    first = [one for one in of_servers if one.name not in state.discovered]
    number, listed = offered.listed
    deferred = number - len(first)
    search = [one for one in state.definitions.values() if one.name == state.search_name]
    always = tokens.of([*search, *first]) + _SEARCHES * _ANSWER_TOKENS
    if deferred <= 0 or listed - always < _MIN_LOADED * (listed - tokens.of(first)) / deferred:
        return None, None  # it cannot pay
    used = tokens.of([*search, *of_servers]) + state.search_tokens
    left = max(0, int(_SHARE * listed) - used - coming * (_ANSWER_TOKENS + said))
    return left, left // (2 if not state.searches else coming)
