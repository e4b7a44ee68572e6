"""Links in results to resources of the server that answered, under the URIs that lead back to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

__all__ = ["with_public_links"]

_LISTS = ("content", "messages", "contents")


def with_public_links(result: Mapping[str, Any], public: Callable[[str], str]) -> dict[str, Any]:
    """Return the result of a call, a prompt or a read with the URIs of its resources, links and embedded ones.

    Args:
        result: What the server answered; it may be anything.
        public: Gives the public form of a URI.
    """
    changed = dict(result)
    for name in _LISTS:
        if name in changed:
            changed[name] = _linked(changed[name], public)
    return changed


def _linked(value: Any, public: Callable[[str], str]) -> Any:
    if isinstance(value, list):
        return [_linked(item, public) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    block = dict(cast("dict[str, Any]", value))
    match block:
        case {"type": "resource_link", "uri": str(uri)}:
            block["uri"] = public(uri)
        case {"type": "resource", "resource": {"uri": str(uri), **others}}:
            block["resource"] = others | {"uri": public(uri)}
        case {"role": _, "content": content}:
            block["content"] = _linked(content, public)
        case {"uri": str(uri)} if "type" not in block:
            block["uri"] = public(uri)
        case _:
            pass
    return block
