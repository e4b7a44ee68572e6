"""What programs in front of many servers share: the hosts' configuration file and names that cannot be confused."""

from mcp_ext_tools_search.hosts.configuration import HostFile, load_host_file, parse_host_file
from mcp_ext_tools_search.hosts.errors import ConfigurationError
from mcp_ext_tools_search.hosts.names import (
    MAX_NAME_LENGTH,
    SEPARATOR,
    own_name,
    qualified_name,
    split_candidates,
    without_digest,
)
from mcp_ext_tools_search.hosts.targets import HttpTarget, ServerEntry, StdioTarget, Target

__all__ = [
    "MAX_NAME_LENGTH",
    "SEPARATOR",
    "ConfigurationError",
    "HostFile",
    "HttpTarget",
    "ServerEntry",
    "StdioTarget",
    "Target",
    "load_host_file",
    "own_name",
    "parse_host_file",
    "qualified_name",
    "split_candidates",
    "without_digest",
]
