"""A client to copy: negotiate, search or fall back, federate, load tools on demand in a conversation.

What it offers is imported when it is first asked for: the command line has to be ready for Ctrl-C before that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tools_search_client.conversation.catalog import Catalog, ServerOffer, SourceAnswer, ToolSource
    from tools_search_client.conversation.definitions import Definition
    from tools_search_client.conversation.delegation import Delegate
    from tools_search_client.conversation.federated import FederationSource
    from tools_search_client.conversation.listed import ListedSource
    from tools_search_client.conversation.messages import Forward, Offer, Reply, ToolCall, TurnStart
    from tools_search_client.conversation.shelf import Addition
    from tools_search_client.conversation.state import Conversation
    from tools_search_client.conversation.statistics import Statistics
    from tools_search_client.conversation.synthetic import SyntheticTool, SyntheticToolResult
    from tools_search_client.conversation.wording import SEARCH_DESCRIPTION, SYSTEM_PROMPT_LINE
    from tools_search_client.errors import (
        AmbiguousTool,
        ConfigurationError,
        InvalidAnswer,
        InvalidServerResult,
        LocalMistake,
        ServerBusy,
        ServerError,
        ServerRefused,
        ServerTimedOut,
        ServerUnavailable,
        ToolsSearchClientError,
        UnknownTool,
    )
    from tools_search_client.federation.configuration import (
        Configuration,
        command_server,
        load_configuration,
        url_server,
    )
    from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
    from tools_search_client.federation.merging import reciprocal_rank_fusion
    from tools_search_client.federation.reports import (
        Failure,
        FederatedListing,
        FederatedSearch,
        FederatedTool,
        ServerDescription,
        ServerReport,
    )
    from tools_search_client.federation.tool_discovery import KNOWN_TOOL_LIMITS, ToolDiscovery
    from tools_search_client.servers.connection import ConnectionOptions, open_server
    from tools_search_client.servers.discovery import DiscoveryOptions, ServerTools
    from tools_search_client.servers.found import Found, FoundTool
    from tools_search_client.servers.supervision import SupervisedServer

__all__ = [
    "KNOWN_TOOL_LIMITS",
    "SEARCH_DESCRIPTION",
    "SYSTEM_PROMPT_LINE",
    "Addition",
    "AmbiguousTool",
    "Catalog",
    "Configuration",
    "ConfigurationError",
    "ConnectionOptions",
    "Conversation",
    "Definition",
    "Delegate",
    "DiscoveryOptions",
    "Failure",
    "FederatedListing",
    "FederatedSearch",
    "FederatedTool",
    "Federation",
    "FederationOptions",
    "FederationSource",
    "Forward",
    "Found",
    "FoundTool",
    "InvalidAnswer",
    "InvalidServerResult",
    "ListedSource",
    "LocalMistake",
    "Offer",
    "Reply",
    "ServerBusy",
    "ServerDescription",
    "ServerError",
    "ServerOffer",
    "ServerRefused",
    "ServerReport",
    "ServerTimedOut",
    "ServerTools",
    "ServerUnavailable",
    "SourceAnswer",
    "Statistics",
    "SupervisedServer",
    "SyntheticTool",
    "SyntheticToolResult",
    "ToolCall",
    "ToolDiscovery",
    "ToolSource",
    "ToolsSearchClientError",
    "TurnStart",
    "UnknownTool",
    "command_server",
    "load_configuration",
    "open_federation",
    "open_server",
    "reciprocal_rank_fusion",
    "url_server",
]

_MODULES = (
    "federation.configuration",
    "servers.connection",
    "conversation.catalog",
    "conversation.definitions",
    "conversation.delegation",
    "conversation.federated",
    "conversation.listed",
    "conversation.messages",
    "conversation.shelf",
    "conversation.state",
    "conversation.statistics",
    "conversation.synthetic",
    "conversation.wording",
    "servers.discovery",
    "errors",
    "federation.federation",
    "servers.found",
    "federation.merging",
    "federation.reports",
    "servers.supervision",
    "federation.tool_discovery",
)

if not TYPE_CHECKING:  # or every misspelt name would seem to exist

    def __getattr__(name: str) -> Any:
        """Return what one of the modules offers under `name`."""
        if name in __all__:
            for module in _MODULES:
                home = import_module(f"{__name__}.{module}")
                if name in home.__all__:
                    return getattr(home, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
