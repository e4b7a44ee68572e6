"""Which tools a model has from the start under a configuration, and which have to be found."""

from __future__ import annotations

from typing import Literal, TypeAlias

from tools_search_client.configuration import Configuration
from tools_search_client.conversation.federated import FederationSource
from tools_search_client.conversation.state import Conversation
from tools_search_client.federation import Federation
from tools_search_client.reports import FederatedListing

__all__ = ["Status", "loading_status"]

Status: TypeAlias = Literal["loaded", "deferred"]


async def loading_status(
    federation: Federation, configuration: Configuration, listing: FederatedListing, *, deadline: float
) -> dict[str, Status] | None:
    """Return the status of each tool of `listing` by name, or `None` where tools are not loaded on demand."""
    if not configuration.tool_discovery.enabled:
        return None
    source = FederationSource(federation, configuration, deadline=deadline)
    conversation = Conversation(source, configuration.tool_discovery)
    await conversation.begin_turn()
    return {tool.name: "loaded" if conversation.definition(tool.name) else "deferred" for tool in listing.tools}
