"""A server's own words with the names of its tools as callers know them."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

from tools_search_hosts import qualified_name

__all__ = ["with_public_names"]

_NAME: Final = re.compile(r"(?P<before>[`'\"]?)(?P<name>[\w./-]*[\w])(?P<after>[`'\"(]| tool\b)?")
_PART: Final = re.compile(r"[\w-]+")
_WORD: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
"""What may be a word of the language as well as a name."""


def with_public_names(text: str, server: str, tools: Collection[str]) -> str:
    """Return `text` with the names of the server's tools replaced by those under which they can be called.

    A name that is also a word, such as `fetch`, is one where it is quoted, called or followed by "tool".

    Args:
        text: What the server says.
        server: Its name in the configuration.
        tools: The names that it gives its tools.
    """

    def public(match: re.Match[str]) -> str:
        name = match["name"]
        is_marked = bool(match["before"]) or match["after"] is not None
        if name in tools:
            return match[0].replace(name, _public(name, is_marked), 1)
        return _PART.sub(lambda part: _public(part[0], is_marked) if part[0] in tools else part[0], match[0])

    def _public(name: str, is_marked: bool) -> str:
        return name if _WORD.fullmatch(name) and not is_marked else qualified_name(server, name)

    return _NAME.sub(public, text)
