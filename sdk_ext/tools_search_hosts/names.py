"""Names and labels for the tools of several servers, and the tools that a model always has.

Names are unique across all servers and valid for every model provider.

A tool's name is `server__tool`: letters, digits, `_` and `-`, starting with a letter or `_`, at most 64 characters. The
same tool of the same server always gets the same name, regardless of what else is configured, found or listed: an
altered name contains a digest of the original, not a number that depends on other names.

Names never collide: an altered name ends with a digest, and a name that only looks as if it did is altered too. In all
others, the first `__` marks the end of the server's name.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from mcp_types import Tool

SEPARATOR: Final = "__"
"""Separates the server's name from the tool's."""

MAX_NAME_LENGTH: Final = 64
"""The lowest limit of any model provider."""

ALWAYS_LOAD: Final = "anthropic/alwaysLoad"
"""Member of a tool's `_meta`, defined by Claude Code, with which a server asks never to defer the definition."""

MAX_PINNED_PER_SERVER: Final = 5
"""Maximum number of pinned tools per server, since all servers share the cost of each definition."""

MAX_PINNED: Final = 20
"""Maximum number of pinned tools of all servers."""

_Server = TypeVar("_Server")
_Pinned = TypeVar("_Pinned")

_DIGEST_LENGTH: Final = 12
_MAX_STEM: Final = MAX_NAME_LENGTH - _DIGEST_LENGTH - 1
_MAX_SERVER: Final = 24
"""Length to which a server's name is truncated if the whole name is too long."""

_VALID: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_SUFFIX: Final = re.compile(rf"_[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")
_NOT_AMONG: Final = frozenset({"category", "categoryDescription", "score", "matched"})
"""Labels that a gateway sets itself, and labels that only search results have."""


def qualified_name(server: str, tool: str) -> str:
    """Return the name of a server's `tool` for models and users.

    If `server` is empty, it is the only one, and its tools keep their own names as far as providers allow.
    """
    exact = f"{server}{SEPARATOR}{tool}" if server else tool
    # An exact name that looks like an altered one is altered too, or the two might be the same.
    if _VALID.fullmatch(exact) and not _DIGEST_SUFFIX.search(exact) and not _splits_elsewhere(server, tool):
        return exact
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{_stem(server, tool)}_{digest}"


def own_name(server: str, name: str) -> str | None:
    """Return the server's own name for the tool with this qualified name; `None` if it cannot be derived from it."""
    own = name.partition(SEPARATOR)[2] if server else name
    return own if qualified_name(server, own) == name else None


def split_candidates(name: str, servers: Iterable[str]) -> list[tuple[str, str]]:
    """Return the possible `(server, rest)` splits of a qualified name for these servers, longest match first."""
    prefixes = {(server, prefix) for server in servers if server for prefix in _prefixes(server)}
    readings = sorted((-len(prefix), server) for server, prefix in prefixes if name.startswith(prefix))
    return [(server, name[-length:]) for length, server in readings]


def without_digest(name: str) -> str:
    """Return `name` without the digest of an altered name."""
    return _DIGEST_SUFFIX.sub("", name)


def labels_among_servers(server: str, labels: Mapping[str, Any], category: object) -> dict[str, Any]:
    """Return a tool's published labels with the server as its group.

    `category` is the part of the server that the tool belongs to. It is ignored if it is not a string.
    """
    among = {name: label for name, label in labels.items() if label is not None and name not in _NOT_AMONG}
    return {**among, "group": server, **({"category": category} if isinstance(category, str) and category else {})}


def renamed(server: str, tool: Tool) -> Tool:
    """Return a server's `tool` under its qualified name.

    If that does not contain its own name, as in scripts that providers do not accept in names, the own name becomes its
    title, unless it has one: users can read it, and searches find it by the words in it.
    """
    name = qualified_name(server, tool.name)
    title = tool.title if tool.title or tool.name in name else tool.name
    return tool.model_copy(update={"name": name, "title": title})


def tool_among_servers(server: str, tool: Tool) -> Tool:
    """Return a server's `tool` under its qualified name, with a gateway's labels.

    Gateways publish tools in this form, and clients that use the servers directly rank them in this form, because only
    identical definitions give the same order. If `server` is empty, it is the only one, and the labels do not change.
    """
    # Imported here, so that completion and help, which need names only, start without loading the protocol's types.
    from mcp_ext_tools_search.types import EXTENSION_ID, published_metadata

    named = renamed(server, tool)
    if not server:
        return named
    own = published_metadata(tool.meta)
    labels = labels_among_servers(server, own, own.get("group"))
    return named.model_copy(update={"meta": {**(tool.meta or {}), EXTENSION_ID: labels}})


def is_pinned(tool: Tool) -> bool:
    """Return whether a tool's server asks to always load its definition. Only `true` counts."""
    return (tool.meta or {}).get(ALWAYS_LOAD) is True


def pinned_within_bounds(pinned: Iterable[tuple[_Server, _Pinned]]) -> list[_Pinned]:
    """Apply the limits to pinned tools, given with their servers in the order of the listing.

    Keep the first ones of each server, and then the first ones in total. This is not part of `tools/search`: a server
    lists and finds such tools like any others.
    """
    counts: Counter[_Server] = Counter()
    kept: list[_Pinned] = []
    for server, tool in pinned:
        counts[server] += 1
        if counts[server] <= MAX_PINNED_PER_SERVER:
            kept.append(tool)
    return kept[:MAX_PINNED]


def _stem(server: str, tool: str) -> str:
    whole = _spelled(f"{server}{SEPARATOR}{tool}" if server else tool)
    # Shorten the server's name rather than the tool's, which says more.
    if len(whole) > _MAX_STEM and server:
        whole = f"{_spelled(server)[:_MAX_SERVER]}{SEPARATOR}{_NOT_ALLOWED.sub('_', tool)}"
    return whole[:_MAX_STEM]


def _prefixes(server: str) -> set[str]:
    spelled = _spelled(server)
    return {spelled + SEPARATOR, spelled[:_MAX_SERVER] + SEPARATOR}


def _spelled(text: str) -> str:
    """Return `text` with only allowed characters and a valid start."""
    allowed = _NOT_ALLOWED.sub("_", text)
    return allowed if _VALID.match(allowed) else f"_{allowed}"


def _splits_elsewhere(server: str, tool: str) -> bool:
    """Return whether another pair could give the same name: `a` + `b__c`, `a__b` + `c`; or `a_` + `b`, `a` + `_b`."""
    return bool(server) and (SEPARATOR in server or server.endswith("_") or tool.startswith("_"))
