"""Public forms of the names and URIs that upstreams use.

* The public name of a tool or prompt is its qualified name (`tools_search_hosts.qualified_name`). Tool names in an
  upstream's own texts are replaced too, so that a model can call the tools that it reads about.
* The public URI of a resource or template is `gateway://SERVER/URI`. It is unique, does not depend on other servers,
  and leads back to its upstream on every replica, listed or not. Expanding a public template gives a public URI.
* Web addresses stay unchanged: clients can fetch them directly, and they mean the same on every server.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final
from urllib.parse import quote, unquote

from tools_search_hosts import qualified_name

_SCHEME: Final = "gateway://"
_WEB: Final = ("http://", "https://")

_NAME: Final = re.compile(
    # From the start of a run of such characters to its last letter or digit, in linear time.
    r"(?P<before>[`'\"]?)(?<![./-])(?P<name>[./-]*+\w++(?:[./-]++\w++)*+)(?P<after>[`'\"(]| tool\b)?"
)
_PART: Final = re.compile(r"[\w-]+")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""A name that could also be an ordinary word of the text."""


def public_uri(server: str, uri: str) -> str:
    """Return the public form of a URI or URI template of `server`."""
    return uri if uri.lower().startswith(_WEB) else f"{_SCHEME}{quote(server, safe='')}/{uri}"


def split_uri(uri: str, servers: Iterable[str]) -> tuple[str, str] | None:
    """Return the server of a public URI and its own URI, or `None` if the URI belongs to none of `servers`."""
    if not uri.startswith(_SCHEME):
        return None
    host, slash, own = uri[len(_SCHEME) :].partition("/")
    server = unquote(host)
    return (server, own) if slash and server in servers else None


def with_public_names(text: str, server: str, tools: Collection[str]) -> str:
    """Return a text of `server` with the names of its `tools` replaced by their public names.

    A name that is also an ordinary word, such as `fetch`, is replaced only if it is quoted, called or followed by
    "tool".
    """

    def public(name: str, *, is_marked: bool) -> str:
        return name if _WORD.fullmatch(name) and not is_marked else qualified_name(server, name)

    def replaced(match: re.Match[str]) -> str:
        name = match["name"]
        is_marked = bool(match["before"]) or match["after"] is not None
        if name in tools:
            return match[0].replace(name, public(name, is_marked=is_marked), 1)
        return _PART.sub(lambda part: public(part[0], is_marked=is_marked) if part[0] in tools else part[0], match[0])

    return _NAME.sub(replaced, text)
