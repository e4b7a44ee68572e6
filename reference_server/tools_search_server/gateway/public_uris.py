"""URIs that are unambiguous over many servers: `gateway://SERVER/URI`.

Every URI of a server is known by its own with the server before it, so that it is unique, stays the same whatever else
is configured, and leads back to its server on every replica, listed or not. Templates are prefixed alike: what a
template is filled in to is then the public URI of what it was for. Web addresses stay as they are: a client may fetch
them by itself, and they name the same thing whoever lists them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import quote, unquote

__all__ = ["public_uri", "split_uri"]

_SCHEME: Final = "gateway://"
_WEB: Final = ("http://", "https://")


def public_uri(server: str, uri: str) -> str:
    """Return the URI, or URI template, by which callers know `uri` of `server`."""
    return uri if uri.lower().startswith(_WEB) else f"{_SCHEME}{quote(server, safe='')}/{uri}"


def split_uri(uri: str, servers: Iterable[str]) -> tuple[str, str] | None:
    """Return the server and its own URI that a public one stands for; `None` if it is that of none of `servers`."""
    if not uri.startswith(_SCHEME):
        return None
    place, slash, own = uri[len(_SCHEME) :].partition("/")
    server = unquote(place)
    return (server, own) if slash and server in servers else None
