"""Tools that stand in the list of a compatibility endpoint from the start."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any, Final, cast

from mcp_ext_tools_search.hosts import ConfigurationError, HostFile

from tools_search_server.gateway import Offer
from tools_search_server.views import View

__all__ = ["ALWAYS_VARIABLE", "AlwaysAvailable", "read_always_available"]

logger = logging.getLogger(__name__)

ALWAYS_VARIABLE: Final = "ALWAYS_AVAILABLE_TOOLS"
"""Environment variable with names, separated by commas; it stands before the configuration's `always_available`."""

_MOST: Final = 50


class AlwaysAvailable:
    """Chooses the always-available tools of a view.

    Args:
        names: Public names (`server__tool`), or names that servers give their tools.
    """

    def __init__(self, names: tuple[str, ...] = ()) -> None:
        self.names = names
        self._reported: set[str] = set()

    def of(self, view: View) -> Mapping[str, Offer]:
        """Return those that a caller sees, by public name, in the order of the listing."""
        if not self.names:
            return {}
        wanted = set(self.names)
        found = {name: offer for name, offer in view.offers.items() if {name, offer.original_name} & wanted}
        return dict(list(found.items())[:_MOST])

    def unknown(self, offers: Mapping[str, Offer]) -> list[str]:
        """Return the names that no tool has."""
        known = {known for name, offer in offers.items() for known in (name, offer.original_name)}
        return sorted({*self.names} - known)

    def report_unknown(self, view: View) -> None:
        """Warn once of each name that no tool has, when every server is there."""
        if not all(seen.state.is_usable for seen in view.upstreams):
            return
        for name in self.unknown(view.offers):
            if name in self._reported:
                continue
            self._reported.add(name)
            logger.warning("always_available names %r, but no tool has that name", name)


def read_always_available(file: HostFile, source: str) -> AlwaysAvailable:
    """Return what the environment or the configuration names.

    Raises:
        ConfigurationError: The member is not a list of at most 50 names.
    """
    if stated := os.environ.get(ALWAYS_VARIABLE):
        return AlwaysAvailable(tuple(name.strip() for name in stated.split(",") if name.strip()))
    names = file.members.get("always_available", [])
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in cast("list[Any]", names))
    if not is_list or len(cast("list[Any]", names)) > _MOST:
        raise ConfigurationError(source, [f"`always_available` must be a list of at most {_MOST} names of tools"])
    return AlwaysAvailable(tuple(cast("list[str]", names)))
