"""From a name that somebody typed to the one tool that is meant.

A server that can be searched is searched for the name, since it must find a tool of exactly that name first; only a
server that cannot is listed. So calling one tool of a catalogue of thousands costs one small answer.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from mcp_ext_tools_search.types import HitMetadata

from tools_search_client.discovery import ServerTools
from tools_search_client.errors import AmbiguousTool, UnknownTool
from tools_search_client.found import Found, FoundTool
from tools_search_client.reports import FederatedTool

__all__ = ["candidates_for", "chosen"]

_CLOSEST: Final = 3
_CANDIDATES: Final = 10

_DIGEST_SUFFIX: Final = re.compile(r"_[0-9a-f]{8}$")
"""What a full name ends with where the tool's own name had to be altered; a server knows nothing of it."""


async def candidates_for(tools: ServerTools, name: str) -> Found:
    """Return tools of one server that may be meant by `name`: all of a server that has to be listed.

    Raises:
        ServerError: The server failed.
    """
    if tools.mode == "list":
        return Found(tuple(FoundTool(tool, HitMetadata()) for tool in await tools.list()), "list")
    found = await tools.search(name, limit=_CANDIDATES)
    shortened = _DIGEST_SUFFIX.sub("", name)
    if shortened == name or any(hit.tool.name == name for hit in found.tools):
        return found
    more = await tools.search(shortened, limit=_CANDIDATES)
    return Found((*found.tools, *more.tools), found.mode, found.fallback)


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
