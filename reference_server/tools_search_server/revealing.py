"""What may be said of a server's troubles to whoever looks: nothing that its configuration keeps secret.

Reasons reach callers, logs and the health document, and a server's own words may repeat the key that it refuses.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from urllib.parse import unquote_plus, urlsplit

from mcp_ext_tools_search.hosts import HttpTarget, StdioTarget, Target

__all__ = ["printable", "without_secrets"]

_SHORTEST_SECRET: Final = 8
_LONG_SEGMENT: Final = 16
"""Parts of a path that may be keys; shorter ones, such as `mcp`, help to tell addresses apart."""

_MASK: Final = "…"


def without_secrets(text: str, target: Target) -> str:
    """Return `text` without any value that the configuration hands to the server, fit to be shown on a terminal."""
    for secret in sorted(set(_secrets(target)), key=len, reverse=True):
        text = text.replace(secret, _MASK)
    return printable(text)


def printable(text: str) -> str:
    """Return `text` on one line, without what a terminal obeys rather than shows."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _secrets(target: Target) -> Iterator[str]:
    match target:
        case StdioTarget(args=arguments, env=variables):
            values = [*variables.values(), *(argument.partition("=")[2] or argument for argument in arguments)]
        case HttpTarget(url=url, headers=headers):
            parts = urlsplit(url)
            values = [word for header in headers.values() for word in (header, *header.split())]
            values += [parts.password or "", *(member.partition("=")[2] for member in parts.query.split("&"))]
            values += [segment for segment in parts.path.split("/") if len(segment) >= _LONG_SEGMENT]
    for value in values:
        if len(value) >= _SHORTEST_SECRET:
            yield from (value, unquote_plus(value))
