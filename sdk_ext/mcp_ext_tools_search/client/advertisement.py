"""Declaring the extension, and reading what a server says of it (draft: Capability Negotiation)."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from mcp import Client, ClientSession
from mcp.client import advertise
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from mcp_ext_tools_search.types import EXTENSION_ID, ClientSettings, ServerSettings

__all__ = ["TOOLS_SEARCH", "Target", "advertised", "server_settings", "session_of"]

TOOLS_SEARCH: Final = advertise(EXTENSION_ID, ClientSettings().to_wire())
"""Declares that the client uses the extension: `Client(target, extensions=[TOOLS_SEARCH])`."""

Target: TypeAlias = Client | ClientSession
"""What can be searched: a connected client, or the session of one."""


def session_of(target: Target) -> ClientSession:
    """Return the session that requests go through."""
    return target.session if isinstance(target, Client) else target


def server_settings(target: Target) -> ServerSettings | None:
    """Return what the server says of its search, or `None` if it has none.

    A legacy server may say it at either of two places. Members that are not valid are left out, since a bad hint is no
    reason not to search.
    """
    stated = advertised(session_of(target))
    return None if stated is None else _read(stated)


def advertised(session: ClientSession) -> dict[str, Any] | None:
    """Return what the server says of its search as it came, or `None` if it has none."""
    capabilities = session.server_capabilities
    if capabilities is None:
        return None
    places = [capabilities.extensions]
    if session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        places.append(capabilities.experimental)
    for place in places:
        settings: object = (place or {}).get(EXTENSION_ID)
        if isinstance(settings, dict):
            return settings
    return None


def _read(settings: dict[str, Any]) -> ServerSettings:
    try:
        return ServerSettings.model_validate(settings, by_name=False)
    except ValidationError as error:
        wrong = {detail["loc"][0] for detail in error.errors(include_input=False, include_url=False)}
        valid = {name: value for name, value in settings.items() if name not in wrong}
        return ServerSettings.model_validate(valid, by_name=False)
