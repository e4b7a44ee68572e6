"""Finding tools before the model is called, so that it needs no turn of its own for that.

What the user wrote may hold anything. It leaves the host only for servers that are configured for that; everybody else
gets the short descriptions that a function of the host makes of it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeAlias

from tools_search_client.conversation.finding import Finding, by_query
from tools_search_client.conversation.reach import Reach
from tools_search_client.federation.fanout import in_parallel

__all__ = ["Delegate", "find_for_turn"]

Delegate: TypeAlias = Callable[[str], Awaitable[Sequence[str]]]
"""Makes short descriptions of the tools that are needed out of what the user wrote; none where none is."""

_logger = logging.getLogger(__name__)

_LONGEST_TEXT: Final = 1_024
"""Characters of the user's text that are searched for."""


async def find_for_turn(
    reach: Reach, text: str, delegate: Delegate | None
) -> tuple[Sequence[Finding], Exception | None]:
    """Return what each search for this turn found, and what `delegate` raised.

    None is made where nothing is switched on.
    """
    searches: list[tuple[str, Collection[str] | None]] = []
    deferred = {tool.server for tool in reach.catalog.tools if tool.name in reach.deferred}
    switched_on = [
        offer.name
        for offer in reach.catalog.servers
        if offer.delegate == "turn" and (offer.tools is None or offer.name in deferred)
    ]
    if switched_on:
        searches.append((text[:_LONGEST_TEXT], switched_on))
    fault: Exception | None = None
    try:
        if delegate is not None:
            searches += [(query, None) for query in await delegate(text) if query.strip()]
    except Exception as error:  # the host's own program, such as another model: its mistakes cost no turn
        _logger.exception("the delegate failed")
        fault = error
    findings = await in_parallel(lambda search: by_query(reach, *search), [one for one in searches if one[0].strip()])
    return findings, fault
