"""What programs in front of many servers share: the hosts' configuration file and names that cannot be confused."""

from tools_search_hosts.configuration import HostFile, load_host_file, parse_host_file, writers_warning
from tools_search_hosts.errors import ConfigurationError
from tools_search_hosts.inputs import AskForInput, Input
from tools_search_hosts.names import (
    MAX_NAME_LENGTH,
    SEPARATOR,
    own_name,
    qualified_name,
    split_candidates,
    without_digest,
)
from tools_search_hosts.targets import HttpTarget, ServerEntry, StdioTarget, Target, UnusableTarget
from tools_search_hosts.toolsets import Rule, Toolset

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
