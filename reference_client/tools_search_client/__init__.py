"""A client to copy: negotiate, search or fall back, federate."""

from tools_search_client.configuration import Configuration, command_server, load_configuration, url_server
from tools_search_client.connection import ConnectionOptions, open_server
from tools_search_client.discovery import DiscoveryOptions, ServerTools
from tools_search_client.errors import (
    AmbiguousTool,
    ConfigurationError,
    InvalidServerResult,
    LocalMistake,
    ServerError,
    ServerRefused,
    ServerTimedOut,
    ServerUnavailable,
    ToolsSearchClientError,
    UnknownTool,
)
from tools_search_client.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import Found, FoundTool
from tools_search_client.fusion import reciprocal_rank_fusion
from tools_search_client.reports import (
    Failure,
    FederatedListing,
    FederatedSearch,
    FederatedTool,
    ServerDescription,
    ServerReport,
)
from tools_search_client.supervision import SupervisedServer

__all__ = [
    "AmbiguousTool",
    "Configuration",
    "ConfigurationError",
    "ConnectionOptions",
    "DiscoveryOptions",
    "Failure",
    "FederatedListing",
    "FederatedSearch",
    "FederatedTool",
    "Federation",
    "FederationOptions",
    "Found",
    "FoundTool",
    "InvalidServerResult",
    "LocalMistake",
    "ServerDescription",
    "ServerError",
    "ServerRefused",
    "ServerReport",
    "ServerTimedOut",
    "ServerTools",
    "ServerUnavailable",
    "SupervisedServer",
    "ToolsSearchClientError",
    "UnknownTool",
    "command_server",
    "load_configuration",
    "open_federation",
    "open_server",
    "reciprocal_rank_fusion",
    "url_server",
]
