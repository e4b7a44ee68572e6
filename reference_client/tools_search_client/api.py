"""The public names of the library. Import them from `tools_search_client`."""

from __future__ import annotations

from tools_search_ranking.fusion import reciprocal_rank_fusion

from tools_search_client.conversation.catalog import Catalog, ServerOffer, SourceAnswer, ToolSource
from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import (
    Addition,
    Compaction,
    Definition,
    Forward,
    Offer,
    Reply,
    SyntheticTool,
    SyntheticToolResult,
    ToolCall,
    TurnStart,
)
from tools_search_client.conversation.offered_tools import Delegate
from tools_search_client.conversation.prompts import SEARCH_DESCRIPTION, SYSTEM_PROMPT_LINE
from tools_search_client.conversation.sources import FederationSource, ListedSource
from tools_search_client.conversation.state import Statistics
from tools_search_client.errors import (
    AmbiguousToolError,
    Challenge,
    ConfigurationError,
    Failure,
    HostError,
    InvalidAnswerError,
    InvalidServerResultError,
    LocalError,
    RerankingError,
    SavedConversationError,
    ServerBusyError,
    ServerError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerUnavailableError,
    ToolsSearchClientError,
    UnauthorizedError,
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
    FederatedListing,
    FederatedOffers,
    FederatedSearch,
    Found,
    FoundTool,
    Offered,
    ServerDescription,
    ServerReport,
)
from tools_search_client.reranking import Reranker, Reranking
from tools_search_client.servers.connection import ConnectionOptions, open_server
from tools_search_client.servers.discovery import DiscoveryOptions, ServerTools
from tools_search_client.servers.host_connection import ConnectedServer, HostConnection
from tools_search_client.servers.oauth import (
    FileTokenStore,
    LoopbackRedirect,
    OAuth,
    Redirect,
    TokenStore,
    loopback_redirect,
)
from tools_search_client.servers.supervision import SupervisedServer

__all__ = [
    "KNOWN_TOOL_LIMITS",
    "SEARCH_DESCRIPTION",
    "SYSTEM_PROMPT_LINE",
    "Addition",
    "AmbiguousToolError",
    "Catalog",
    "Challenge",
    "Compaction",
    "Configuration",
    "ConfigurationError",
    "ConnectedServer",
    "ConnectionOptions",
    "Conversation",
    "Definition",
    "Delegate",
    "DiscoveryOptions",
    "Failure",
    "FederatedListing",
    "FederatedOffers",
    "FederatedSearch",
    "Federation",
    "FederationOptions",
    "FederationSource",
    "FileTokenStore",
    "Forward",
    "Found",
    "FoundTool",
    "HostConnection",
    "HostError",
    "InvalidAnswerError",
    "InvalidServerResultError",
    "ListedSource",
    "LocalError",
    "LoopbackRedirect",
    "OAuth",
    "Offer",
    "Offered",
    "Redirect",
    "Reply",
    "Reranker",
    "Reranking",
    "RerankingError",
    "SavedConversationError",
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
    "TokenStore",
    "ToolCall",
    "ToolDiscovery",
    "ToolSource",
    "ToolsSearchClientError",
    "TurnStart",
    "UnauthorizedError",
    "UnknownToolError",
    "command_server",
    "load_configuration",
    "loopback_redirect",
    "open_federation",
    "open_server",
    "reciprocal_rank_fusion",
    "url_server",
]
