"""The tools that a compatibility endpoint always lists."""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Mapping
from typing import Final

from mcp_ext_tools_search.client import is_for_model
from tools_search_hosts import ConfigurationError, HostFile
from tools_search_hosts.json_values import is_list
from tools_search_hosts.names import ALWAYS_LOAD, MAX_PINNED, MAX_PINNED_PER_SERVER, is_pinned

from tools_search_server.gateway.gateway import ExposedTool
from tools_search_server.gateway.views import View

logger = logging.getLogger(__name__)

ALWAYS_VARIABLE: Final = "ALWAYS_AVAILABLE_TOOLS"
"""Environment variable with comma-separated names, which takes precedence over `always_available`."""

_MAX_TOOLS: Final = 50


class AlwaysAvailable:
    """Selects a view's always-available tools: first those that the operator names, then those that servers pin.

    The operator uses public names (`server__tool`) or the servers' own names.
    """

    def __init__(self, names: frozenset[str]) -> None:
        self.names = names
        self._reported: set[str] = set()

    def of(self, view: View) -> Mapping[str, ExposedTool]:
        """Return the always-available tools that the caller's model may see, by public name: at most 50."""
        stated: list[str] = []
        if self.names:  # skip the loop over all tools, which may be many
            tools = view.for_model.tools.items()
            stated = [name for name, exposed in tools if {name, exposed.original.name} & self.names]
        chosen = dict.fromkeys([*stated[:_MAX_TOOLS], *view.pinned])
        return {name: view.tools[name] for name in list(chosen)[:_MAX_TOOLS]}

    def unknown(self, tools: Mapping[str, ExposedTool]) -> list[str]:
        """Return the names that no tool has."""
        known = {known for name, exposed in tools.items() for known in (name, exposed.original.name)}
        return sorted(self.names - known)

    def left_out(self, view: View) -> list[str]:
        """Return a sentence for each reason why requested tools are not always available."""
        reasons = [
            f"always_available names {name!r}, which is only for its server's user interface"
            for name, exposed in view.tools.items()
            if {name, exposed.original.name} & self.names and not is_for_model(exposed.tool)
        ]
        asked = Counter(exposed.upstream.name for exposed in view.for_model.tools.values() if is_pinned(exposed.tool))
        chosen = self.of(view)
        kept = Counter(exposed.upstream.name for exposed in chosen.values() if is_pinned(exposed.tool))
        return reasons + [
            f"{server} requests with {ALWAYS_LOAD!r} that {count} of its tools be always available, but only "
            f"{kept[server]} are: the limit is {MAX_PINNED_PER_SERVER} per server and {MAX_PINNED} in total. "
            "Name others in always_available."
            for server, count in asked.items()
            if kept[server] < count
        ]

    def report(self, view: View) -> None:
        """Warn once about each unknown name and each omission, when every upstream is ready."""
        # The tools of an upstream that is not ready are unknown, so a name might be one of them.
        if not all(seen.state.is_usable for seen in view.upstreams):
            return
        unknown = [f"always_available names {name!r}, but no tool has that name" for name in self.unknown(view.tools)]
        for problem in [*unknown, *self.left_out(view)]:
            if problem not in self._reported:
                self._reported.add(problem)
                logger.warning("%s", problem)


def read_always_available(file: HostFile, source: str) -> frozenset[str]:
    """Return the names of tools that the environment or the configuration states.

    Raises:
        ConfigurationError: The member is not a list of at most 50 names.
    """
    if stated := os.environ.get(ALWAYS_VARIABLE):
        return frozenset(name.strip() for name in stated.split(",") if name.strip())
    names = file.members.get("always_available", [])
    if not is_list(names) or len(names) > _MAX_TOOLS or not all(isinstance(name, str) for name in names):
        raise ConfigurationError(source, [f"`always_available` must be a list of at most {_MAX_TOOLS} tool names"])
    return frozenset(names)
