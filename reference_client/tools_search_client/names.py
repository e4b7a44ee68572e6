"""Names that are unambiguous over many servers and valid for every model provider.

A tool is known as `server__tool`: letters, digits, `_` and `-`, at most 64 characters. The same tool of the same server
always gets the same name, whatever else is configured, found or listed before it: a name that has to be altered
carries a digest of what it stands for, rather than a number that depends on its neighbours.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final

__all__ = ["DIGEST_SUFFIX", "MAX_NAME_LENGTH", "SEPARATOR", "qualified_name", "split_candidates"]

SEPARATOR: Final = "__"
"""Stands between the server's name and the tool's."""

MAX_NAME_LENGTH: Final = 64
"""The shortest limit among the model providers."""

_DIGEST_LENGTH: Final = 8

DIGEST_SUFFIX: Final = re.compile(rf"_[0-9a-f]{{{_DIGEST_LENGTH}}}$")
"""What the name of a tool ends with if it had to be altered."""

_NOT_ALLOWED: Final = re.compile(r"[^A-Za-z0-9_-]")


def qualified_name(server: str, tool: str) -> str:
    """Return the name by which a model and a user know `tool` of `server`.

    An empty `server` stands for the only one there is: its tools keep their own names, as far as providers allow.
    """
    exact = f"{server}{SEPARATOR}{tool}" if server else tool
    allowed = _NOT_ALLOWED.sub("_", exact)
    if allowed == exact and len(exact) <= MAX_NAME_LENGTH and not _splits_elsewhere(server, tool):
        return exact
    digest = hashlib.sha256(f"{server}\0{tool}".encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    return f"{allowed[: MAX_NAME_LENGTH - _DIGEST_LENGTH - 1]}_{digest}"


def split_candidates(name: str, servers: list[str]) -> list[tuple[str, str]]:
    """Return the `(server, rest)` readings of a qualified name that `servers` allow, the longest server name first."""
    readings = [(server, name[len(prefix) :]) for server in servers if name.startswith(prefix := _prefix(server))]
    return sorted(readings, key=lambda reading: -len(reading[0]))


def _prefix(server: str) -> str:
    return _NOT_ALLOWED.sub("_", server) + SEPARATOR if server else ""


def _splits_elsewhere(server: str, tool: str) -> bool:
    """Tell whether another pair could spell the same: `a` + `b__c` and `a__b` + `c`, or `a_` + `b` and `a` + `_b`."""
    return bool(server) and (SEPARATOR in server or server.endswith("_") or tool.startswith("_"))
