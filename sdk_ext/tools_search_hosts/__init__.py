"""Shared code for programs that use many servers: hosts' configuration files, names, toolsets, transports."""

from tools_search_hosts.configuration import (
    ConfigurationError,
    HostFile,
    inspect_host_file,
    load_host_file,
    writers_warning,
)
from tools_search_hosts.names import (
    MAX_NAME_LENGTH,
    SEPARATOR,
    own_name,
    qualified_name,
    split_candidates,
    without_digest,
)
from tools_search_hosts.targets import EraChoice, HttpTarget, ServerEntry, StdioTarget, Target, UnusableTarget
from tools_search_hosts.toolsets import Rule, Toolset
from tools_search_hosts.variables import AskForInput, Input

__all__ = [
    "MAX_NAME_LENGTH",
    "SEPARATOR",
    "AskForInput",
    "ConfigurationError",
    "EraChoice",
    "HostFile",
    "HttpTarget",
    "Input",
    "Rule",
    "ServerEntry",
    "StdioTarget",
    "Target",
    "Toolset",
    "UnusableTarget",
    "inspect_host_file",
    "load_host_file",
    "own_name",
    "qualified_name",
    "split_candidates",
    "without_digest",
    "writers_warning",
]
