"""Which tools go together, and why: said to be related, with tags in common, or of the same category."""

from __future__ import annotations

from typing import Any

from tools_search_server.base.labels import category_of, tags_of
from tools_search_server.compat.callers_tools import CallersTools

__all__ = ["related_tools"]


def related_tools(tools: CallersTools, name: str) -> list[dict[str, Any]]:
    """Return the relatives of a tool with their relation, the strongest first.

    Explicit ones come in their published order; then those with the most tags in common; then those of its category.
    """
    tool = tools.offer(name).tool
    tags = tags_of(tool)
    explicit = tools.named_by(name)
    sharing: dict[str, list[str]] = {}
    for other in tools.definitions:
        theirs = set(tags_of(tools.offer(other).tool))
        if other != name and other not in explicit and (common := [tag for tag in tags if tag in theirs]):
            sharing[other] = common
    neighbours = [other for other in tools.categories.get(category_of(tool), ()) if other != name]
    found: list[dict[str, Any]] = [{"name": other, "relation": "explicit"} for other in explicit]
    found += [
        {"name": other, "relation": "shared_tags", "shared_tags": common}
        for other, common in sorted(sharing.items(), key=lambda item: (-len(item[1]), item[0]))
    ]
    known = {name, *explicit, *sharing}
    return found + [{"name": other, "relation": "same_category"} for other in neighbours if other not in known]
