"""Public names of the gateway's tools: `server__tool`, whatever the servers call them.

A name is valid for MCP and for the model providers: letters, digits, `_` and `-`, a letter or `_` first, at most 64
characters. It depends only on the configuration and on the tool's own name, so it is the same after any restart, and
however many other tools come and go. Where a name had to be changed to be valid, a hash of the original keeps it apart
from the others.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["MAX_LENGTH", "public_name", "server_prefixes"]

MAX_LENGTH: Final = 64
"""The strictest of the limits that model providers publish."""

_SEPARATOR: Final = "__"
_MAX_PREFIX: Final = 28
_HASH_LENGTH: Final = 8

_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_-]")
_HASHED: Final = re.compile(rf"_[0-9a-f]{{{_HASH_LENGTH}}}\Z")


def server_prefixes(servers: Iterable[str]) -> Mapping[str, str]:
    """Return what stands before the separator for each server; no two are equal, and none contains the separator.

    A server whose name is valid as it is keeps it, whatever the others are called, unless it looks like a hashed one.
    """
    plain = {server: _prefix(server) for server in servers}
    wanted = list(plain.values())
    return {
        server: prefix if prefix == server or wanted.count(prefix) == 1 else _hashed(prefix, server, _MAX_PREFIX)
        for server, prefix in plain.items()
    }


def public_name(prefix: str, tool: str) -> str:
    """Return the name under which the gateway offers `tool` of the server with `prefix`."""
    room = MAX_LENGTH - len(prefix) - len(_SEPARATOR)
    if tool and len(tool) <= room and not _FORBIDDEN.search(tool) and not _HASHED.search(tool):
        return f"{prefix}{_SEPARATOR}{tool}"
    return f"{prefix}{_SEPARATOR}{_hashed(_FORBIDDEN.sub('_', tool), tool, room)}"


def _prefix(server: str) -> str:
    name = re.sub(r"_{2,}", "_", _FORBIDDEN.sub("_", server)).strip("_-")
    if not name[:1].isalpha():
        name = f"mcp_{name}".rstrip("_")
    is_usable = len(name) <= _MAX_PREFIX and not _HASHED.search(name)
    return name if is_usable else _hashed(name, server, _MAX_PREFIX)


def _hashed(text: str, original: str, length: int) -> str:
    digest = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{text[: length - _HASH_LENGTH - 1].rstrip('_')}_{digest}"
