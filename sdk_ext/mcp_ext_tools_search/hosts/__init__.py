"""What programs in front of many servers share: the hosts' configuration file and names that cannot be confused."""

from mcp_ext_tools_search.hosts.configuration import HostFile, load_host_file, parse_host_file, writers_warning
from mcp_ext_tools_search.hosts.errors import ConfigurationError
from mcp_ext_tools_search.hosts.inputs import AskForInput, Input
from mcp_ext_tools_search.hosts.names import (
    MAX_NAME_LENGTH,
    SEPARATOR,
    own_name,
    qualified_name,
    split_candidates,
    without_digest,
)
from mcp_ext_tools_search.hosts.targets import HttpTarget, ServerEntry, StdioTarget, Target, UnusableTarget
from mcp_ext_tools_search.hosts.toolsets import Rule, Toolset

__all__ = [
    "MAX_NAME_LENGTH",
    "SEPARATOR",
    "AskForInput",
    "ConfigurationError",
    "HostFile",
    "HttpTarget",
    "Input",
    "Rule",
    "ServerEntry",
    "StdioTarget",
    "Target",
    "Toolset",
    "UnusableTarget",
    "load_host_file",
    "own_name",
    "parse_host_file",
    "qualified_name",
    "split_candidates",
    "without_digest",
    "writers_warning",
]
