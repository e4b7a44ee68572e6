"""Which tools are loaded from the start, and which are deferred until they are found.

A toolset was applied before: what it hides is not in the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from tools_search_client.conversation.catalog import Catalog, ServerOffer
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.found import FoundTool

__all__ = ["eager_tools"]


def eager_tools(
    catalog: Catalog,
    discovery: ToolDiscovery,
    *,
    tokens: Callable[[FoundTool], int],
    most: int | None = None,
    reserved: int = 0,
    pinned: Collection[str] = (),
) -> tuple[FoundTool, ...]:
    """Return the tools that are loaded from the start, in the order of the configuration and of each server.

    Where there are more of them than `most` allows, the last ones are deferred as well, so that there is room for what
    a search finds.

    Args:
        catalog: What the servers offer.
        discovery: The host's choices.
        tokens: How many tokens a definition is.
        most: The most definitions that are ever sent at once; `None` means any number.
        reserved: Definitions of the host's own that are always sent.
        pinned: Names of tools of deferred servers that are loaded all the same; they come last.
    """
    eager = catalog.tools
    if discovery.enabled:
        deferred = _is_deferred(catalog, discovery, tokens)
        by_server = [(offer, deferred(offer)) for offer in catalog.servers]
        loaded = [tool for offer, later in by_server if not later for tool in offer.tools or ()]
        kept = [tool for offer, later in by_server if later for tool in offer.tools or () if tool.name in pinned]
        eager = (*loaded, *catalog.unassigned, *kept)
    if most is None:
        return eager
    complete = len(eager) == len(catalog.tools) and not catalog.unlisted
    room = most - reserved
    if complete and len(eager) <= room:
        return eager
    return eager[: max(0, room - 1 - discovery.max_search_results)]


def _is_deferred(
    catalog: Catalog, discovery: ToolDiscovery, tokens: Callable[[FoundTool], int]
) -> Callable[[ServerOffer], bool]:
    if discovery.auto and _is_small(catalog, discovery, tokens):
        return lambda _: False
    # Automatic deferral has to defer something where the configuration does not say what.
    says_nothing = not any(offer.defer_loading for offer in catalog.servers)
    if discovery.defer_all or (discovery.auto and says_nothing):
        return lambda _: True
    return lambda offer: offer.defer_loading


def _is_small(catalog: Catalog, discovery: ToolDiscovery, tokens: Callable[[FoundTool], int]) -> bool:
    if catalog.unlisted:
        return False
    left = discovery.context_share * discovery.context_window
    for tool in catalog.tools:
        left -= tokens(tool)
        if left < 0:
            return False
    return True
