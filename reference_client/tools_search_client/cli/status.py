"""Which tools a model has from the start under a configuration, and which have to be found."""

from __future__ import annotations

from typing import Literal, TypeAlias

from mcp_ext_tools_search.for_models import is_for_model

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.sources import FederationSource
from tools_search_client.federation.configuration import Configuration
from tools_search_client.federation.federation import Federation
from tools_search_client.found import FederatedListing

__all__ = ["Status", "loading_status"]

Status: TypeAlias = Literal["loaded", "deferred", "app only"]


async def loading_status(
    federation: Federation, configuration: Configuration, listing: FederatedListing, *, deadline: float
) -> dict[str, Status] | None:
    """Return the status of each tool of `listing` by name, or `None` where a model simply has all of them."""
    app_only = {tool.name for tool in listing.tools if not is_for_model(tool.tool)}
    if not configuration.tool_discovery.enabled and not app_only:
        return None
    source = FederationSource(federation, configuration, deadline=deadline)
    conversation = Conversation(source, configuration.tool_discovery)
    await conversation.begin_turn()

    def status(name: str) -> Status:
        return "app only" if name in app_only else "loaded" if conversation.definition(name) else "deferred"

    return {tool.name: status(tool.name) for tool in listing.tools}
