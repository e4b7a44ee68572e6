"""The public names of the library. Import them from `tools_search_client`."""

from __future__ import annotations

from mcp_ext_tools_search.ranking.fusion import reciprocal_rank_fusion

from tools_search_client.conversation.catalog import Catalog, ServerOffer, SourceAnswer, ToolSource
from tools_search_client.conversation.conversation import Conversation, Statistics
from tools_search_client.conversation.messages import (
    Addition,
    Definition,
    Forward,
    Offer,
    Reply,
    SyntheticTool,
    SyntheticToolResult,
    ToolCall,
    TurnStart,
)
from tools_search_client.conversation.prompts import SEARCH_DESCRIPTION, SYSTEM_PROMPT_LINE
from tools_search_client.conversation.search import Delegate
from tools_search_client.conversation.sources import FederationSource, ListedSource
from tools_search_client.errors import (
    AmbiguousToolError,
    ConfigurationError,
    InvalidAnswerError,
    InvalidServerResultError,
    LocalError,
    ServerBusyError,
    ServerError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolsSearchClientError,
    UnknownToolError,
)
from tools_search_client.federation.configuration import (
    KNOWN_TOOL_LIMITS,
    Configuration,
    ToolDiscovery,
    command_server,
    load_configuration,
    url_server,
)
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import (
    Failure,
    FederatedListing,
    FederatedSearch,
    Found,
    FoundTool,
    ServerDescription,
    ServerReport,
)
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery import DiscoveryOptions, ServerTools
from tools_search_client.servers.supervision import SupervisedServer

__all__ = [
    "KNOWN_TOOL_LIMITS",
    "SEARCH_DESCRIPTION",
    "SYSTEM_PROMPT_LINE",
    "Addition",
    "AmbiguousToolError",
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
    "Federation",
    "FederationOptions",
    "FederationSource",
    "Forward",
    "Found",
    "FoundTool",
    "InvalidAnswerError",
    "InvalidServerResultError",
    "ListedSource",
    "LocalError",
    "Offer",
    "Reply",
    "ServerBusyError",
    "ServerDescription",
    "ServerError",
    "ServerOffer",
    "ServerRefusedError",
    "ServerReport",
    "ServerTimeoutError",
    "ServerTools",
    "ServerUnavailableError",
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
    "UnknownToolError",
    "command_server",
    "load_configuration",
    "open_federation",
    "open_server",
    "reciprocal_rank_fusion",
    "url_server",
]
