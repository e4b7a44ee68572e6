"""A client to copy: negotiate, search or fall back, federate.

What it offers is imported when it is first asked for: the command line has to be ready for Ctrl-C before that.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
    from tools_search_client.merging import reciprocal_rank_fusion
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

_MODULES = (
    "configuration",
    "connection",
    "discovery",
    "errors",
    "federation",
    "found",
    "merging",
    "reports",
    "supervision",
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
