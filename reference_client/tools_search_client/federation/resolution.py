"""From a name that somebody typed to the one tool that is meant.

A server that can be searched is searched for the name, since it must find a tool of exactly that name first; only a
server that cannot is listed. So calling one tool of a catalog of thousands costs one small answer.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Final

from mcp_ext_tools_search.types import HitMetadata
from tools_search_hosts import qualified_name, without_digest

from tools_search_client.errors import AmbiguousTool, UnknownTool
from tools_search_client.federation.reports import FederatedTool
from tools_search_client.servers.discovery import ServerTools
from tools_search_client.servers.found import Found, FoundTool

__all__ = ["candidates_for", "chosen"]

_CLOSEST: Final = 3
_CANDIDATES: Final = 10


async def candidates_for(tools: ServerTools, name: str, *, server: str, full_name: str) -> Found:
    """Return tools of one server that may be meant: all of a server that has to be listed.

    Args:
        tools: The server's.
        name: What the server may know the tool as.
        server: What the server is known as.
        full_name: As typed. One that was altered says too little to search for, so that a listing decides.

    Raises:
        ServerError: The server failed.
    """
    if tools.mode == "list":
        return await _listed(tools)
    found = await tools.search(name, limit=_CANDIDATES)
    shortened = without_digest(name)
    if shortened == name or _has(found, server, name, full_name):
        return found
    more = await tools.search(shortened, limit=_CANDIDATES) if shortened.strip("_") else found
    return more if _has(more, server, name, full_name) else await _listed(tools)


async def _listed(tools: ServerTools) -> Found:
    return Found(tuple(FoundTool(tool, HitMetadata()) for tool in await tools.list()), "list")


def _has(found: Found, server: str, name: str, full_name: str) -> bool:
    names = [hit.tool.name for hit in found.tools]
    return name in names or any(qualified_name(server, own) == full_name for own in names)


def chosen(name: str, candidates: Sequence[FederatedTool], failed: Sequence[str]) -> FederatedTool:
    """Return the tool that `name` means: the full name of one, or the bare name of exactly one.

    Args:
        name: As typed.
        candidates: From every server that was asked.
        failed: The servers that could not be asked.

    Raises:
        AmbiguousTool: It is the bare name of several.
        UnknownTool: It is the name of none.
    """
    full = _each_once(tool for tool in candidates if tool.name == name)
    meant = full or _each_once(tool for tool in candidates if tool.tool.name == name)
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise AmbiguousTool(name, [tool.name for tool in meant])
    raise UnknownTool(name, _closest(name, candidates), failed)


def _each_once(tools: Iterable[FederatedTool]) -> list[FederatedTool]:
    return list({(tool.server, tool.tool.name): tool for tool in tools}.values())


def _closest(name: str, candidates: Sequence[FederatedTool]) -> list[str]:
    spelled = {tool.tool.name: tool.name for tool in candidates} | {tool.name: tool.name for tool in candidates}
    similar = difflib.get_close_matches(name, spelled, n=2 * _CLOSEST)
    return list(dict.fromkeys(spelled[match] for match in similar))[:_CLOSEST]
