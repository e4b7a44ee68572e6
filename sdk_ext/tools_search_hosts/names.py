"""Names and labels of tools among several servers, and which of them a model always has.

Names are unambiguous over all servers and valid for every model provider.

A tool is known as `server__tool`: letters, digits, `_` and `-`, a letter or `_` first, at most 64 characters. The same
tool of the same server always gets the same name, regardless of everything else that is configured, found or listed:
an altered name carries a digest of the original, rather than a number that depends on its neighbors.

Why no two are equal: a name that was altered ends with a digest, and one that only looks as if it did is altered too;
of the others, the first `__` stands where the server's name ends.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from mcp_ext_tools_search.types import EXTENSION_ID, published_metadata
from mcp_types import Tool

SEPARATOR: Final = "__"
"""Stands between the server's name and the tool's."""

MAX_NAME_LENGTH: Final = 64
"""The shortest limit among the model providers."""

ALWAYS_LOAD: Final = "anthropic/alwaysLoad"
"""Member of a tool's `_meta` by which its server asks that the definition is never deferred: Claude Code's name."""

MAX_PINNED_PER_SERVER: Final = 5
"""Pinned tools of one server that are honored: what every definition costs is paid by all the others."""

MAX_PINNED: Final = 20
"""Pinned tools of all servers that are honored."""

_Server = TypeVar("_Server")
_Pinned = TypeVar("_Pinned")

_DIGEST_LENGTH: Final = 12
_MAX_STEM: Final = MAX_NAME_LENGTH - _DIGEST_LENGTH - 1
_MAX_SERVER: Final = 24
"""What is left of a server's name where the whole is too long: the tool's own name says more."""

_VALID: Final = re.compile(rf"[A-Za-z_][A-Za-z0-9_-]{{0,{MAX_NAME_LENGTH - 1}}}")
_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST_SUFFIX: Final = re.compile(rf"_[0-9a-f]{{{_DIGEST_LENGTH}}}\Z")
_NOT_AMONG: Final = frozenset({"category", "categoryDescription", "score", "matched"})
"""Labels that a gateway states itself, and those that only the result of a search has."""


def qualified_name(server: str, tool: str) -> str:
    """Return the name by which a model and a user know `tool` of `server`.

    An empty `server` stands for the only one there is: its tools keep their own names, as far as providers allow.
    """
    exact = f"{server}{SEPARATOR}{tool}" if server else tool
    if _VALID.fullmatch(exact) and not _DIGEST_SUFFIX.search(exact) and not _splits_elsewhere(server, tool):
        return exact
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{_stem(server, tool)}_{digest}"


def own_name(server: str, name: str) -> str | None:
    """Return what `server` calls the tool that is known as `name`; `None` where that cannot be read off the name."""
    own = name.partition(SEPARATOR)[2] if server else name
    return own if qualified_name(server, own) == name else None


def split_candidates(name: str, servers: Iterable[str]) -> list[tuple[str, str]]:
    """Return the `(server, rest)` readings of a qualified name that `servers` allow, the longest match first."""
    prefixes = {(server, prefix) for server in servers if server for prefix in _prefixes(server)}
    readings = sorted((-len(prefix), server) for server, prefix in prefixes if name.startswith(prefix))
    return [(server, name[-length:]) for length, server in readings]


def without_digest(name: str) -> str:
    """Return `name` without the digest of one that was altered: the beginning of a name that its server knows."""
    return _DIGEST_SUFFIX.sub("", name)


def labels_among_servers(server: str, labels: Mapping[str, Any], category: object) -> dict[str, Any]:
    """Return labels with the server as the group of the tool.

    Args:
        server: The configured name.
        labels: What is published of the tool.
        category: The part of its server that the tool belongs to; passed over where it is no text.
    """
    among = {name: label for name, label in labels.items() if label is not None and name not in _NOT_AMONG}
    return {**among, "group": server, **({"category": category} if isinstance(category, str) and category else {})}


def tool_among_servers(server: str, tool: Tool) -> Tool:
    """Return `tool` of `server` under its qualified name, and labeled as a gateway labels it.

    Gateways publish tools like this, and clients that ask the servers themselves rank them like this: both get the same
    order only from definitions that are the same to a word. An empty `server` stands for the only one there is, whose
    tools stay as they are.
    """
    name, own = qualified_name(server, tool.name), published_metadata(tool.meta)
    if not server:
        return tool.model_copy(update={"name": name})
    labels = labels_among_servers(server, own, own.get("group"))
    return tool.model_copy(update={"name": name, "meta": {**(tool.meta or {}), EXTENSION_ID: labels}})


def is_pinned(tool: Tool) -> bool:
    """Whether the server of a tool asks that its definition is always loaded: `true`, and nothing else."""
    return (tool.meta or {}).get(ALWAYS_LOAD) is True


def pinned_within_bounds(pinned: Iterable[tuple[_Server, _Pinned]]) -> list[_Pinned]:
    """Return the pinned tools that are honored: the first ones of each server, and of those the first ones.

    This is no part of `tools/search`: a server lists and finds such tools as any others.

    Args:
        pinned: Each pinned tool with its server, in the order of the listing.
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
    if len(whole) > _MAX_STEM and server:
        whole = f"{_spelled(server)[:_MAX_SERVER]}{SEPARATOR}{_NOT_ALLOWED.sub('_', tool)}"
    return whole[:_MAX_STEM]


def _prefixes(server: str) -> set[str]:
    spelled = _spelled(server)
    return {spelled + SEPARATOR, spelled[:_MAX_SERVER] + SEPARATOR}


def _spelled(text: str) -> str:
    """Return `text` in the characters that are allowed, and beginning as is allowed."""
    allowed = _NOT_ALLOWED.sub("_", text)
    return allowed if _VALID.match(allowed) else f"_{allowed}"


def _splits_elsewhere(server: str, tool: str) -> bool:
    """Return whether another pair could spell the same: `a` + `b__c` and `a__b` + `c`, or `a_` + `b` and `a` + `_b`."""
    return bool(server) and (SEPARATOR in server or server.endswith("_") or tool.startswith("_"))
