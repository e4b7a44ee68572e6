"""The tools that the model of one caller may use, and the answers of meta-tools about them.

A tool that its server keeps for its own user interface is visible to the host, but not to the model.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from mcp_ext_tools_search.client import is_for_model
from tools_search_hosts import qualified_name

from tools_search_server.base.errors import closest_names
from tools_search_server.gateway.gateway import ExposedTool
from tools_search_server.gateway.tool_metadata import category_of, examples_of, related_of, tags_of
from tools_search_server.gateway.views import View

_BRIEF_CHARS: Final = 300
_MAX_CATEGORIES: Final = 64
_MAX_CHARS: Final = 150_000
"""Length of all definitions in one answer; official clients refuse events of more than 1 MiB."""

_DEFINITION: Final = ("title", "inputSchema", "outputSchema", "annotations")


class ToolFailureError(Exception):
    """A call that cannot be answered as it stands: says what is wrong, and what to do about it, for a model to read."""

    def __init__(self, error: str, suggestions: Sequence[str] = (), **more: Any) -> None:
        super().__init__(error)
        self.document: dict[str, Any] = {"error": error, **({"suggestions": [*suggestions]} if suggestions else {})}
        self.document |= more


def answer(document: dict[str, Any], *, is_error: bool = False) -> dict[str, Any]:
    """Return the result of a call: a JSON object, as text and as structured content."""
    # The answer may repeat what the caller has sent, even if that cannot be encoded.
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace").decode()
    result = {"resultType": "complete", "content": [{"type": "text", "text": text}]}
    return result | {"structuredContent": json.loads(text), "isError": is_error}


@dataclass(frozen=True)
class ModelTools:
    """The tools that a model can find and call for one caller."""

    view: View
    """What the caller sees, including tools that are not for models."""

    definitions: Mapping[str, Mapping[str, Any]]
    """The tools that are for models, by name, as the caller's listing carries them and in its order."""

    not_indexed: Mapping[str, ExposedTool] = field(default_factory=dict[str, ExposedTool])
    """Tools of upstreams that search themselves, as far as they are known."""

    @property
    def total(self) -> int:
        """About how many tools there are, including those that are not indexed."""
        elsewhere = sum(delegate.size or 0 for _, delegate in self.view.delegated)
        return len(self.definitions) - sum(name in self.definitions for name in self.not_indexed) + elsewhere

    @cached_property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """Names of the tools by category, in the order of the listing."""
        found: dict[str, list[str]] = {}
        for name in self.definitions:
            found.setdefault(category_of(self.exposed(name).tool), []).append(name)
        return found

    def exposed(self, name: str) -> ExposedTool:
        """Return the tool behind a name of `definitions`."""
        return self.not_indexed[name] if name in self.not_indexed else self.view.tools[name]

    def known(self, name: str) -> ExposedTool:
        """Return the tool behind a name that a caller gives.

        Raises:
            ToolFailureError: There is no such tool, or it is not for a model.
        """
        if name in self.definitions:
            return self.exposed(name)
        hidden = self.not_indexed.get(name) or self.view.tools.get(name)
        if hidden is not None and not is_for_model(hidden.tool):
            raise not_for_models(name)
        closest = closest_names(name, self.definitions)
        raise ToolFailureError(f"There is no tool named {name[:128]!r}.", _did_you_mean(closest), closest=closest)

    def select(self, arguments: Mapping[str, Any]) -> Collection[str]:
        """Return the names of the tools that pass the filters of a meta-tool, in the order of the listing.

        Case does not matter.

        Raises:
            ToolFailureError: There is no such category or server.
        """
        names: Collection[str] = self.definitions
        if "category" in arguments:
            names = self.categories[_existing("category", arguments["category"], self.categories)]
        if "server" in arguments:
            server = _existing("server", arguments["server"], [seen.name for seen in self.view.upstreams])
            names = [name for name in names if self.exposed(name).upstream.name == server]
        if wanted := {tag.casefold() for tag in arguments.get("tags", ())}:
            least = len(wanted) if arguments.get("match_mode") == "all" else 1
            tags = {name: {tag.casefold() for tag in tags_of(self.exposed(name).tool)} for name in names}
            names = [name for name in names if len(wanted & tags[name]) >= least]
        return names if names is self.definitions else dict.fromkeys(names)

    def related(self, name: str) -> list[dict[str, Any]]:
        """Return the tools that go together with a tool, the closest relation first.

        Explicitly related tools come in their published order, then those with the most common tags, then those of the
        same category.
        """
        tool = self.exposed(name).tool
        tags = tags_of(tool)
        explicit = self._explicitly_related(name)
        sharing: dict[str, list[str]] = {}
        for other in self.definitions.keys() - {name, *explicit}:
            theirs = set(tags_of(self.exposed(other).tool))
            if common := [tag for tag in tags if tag in theirs]:
                sharing[other] = common
        closest = sorted(sharing, key=lambda other: (-len(sharing[other]), other))
        known = {name, *explicit, *sharing}
        neighbors = [other for other in self.categories.get(category_of(tool), ()) if other not in known]
        return [
            *({"name": other, "relation": "explicit"} for other in explicit),
            *({"name": other, "relation": "shared_tags", "shared_tags": sharing[other]} for other in closest),
            *({"name": other, "relation": "same_category"} for other in neighbors),
        ]

    def _explicitly_related(self, name: str) -> list[str]:
        """Return the visible tools that a tool names as related, by its server's names for them or by public ones."""
        exposed = self.exposed(name)
        own = {qualified_name(exposed.upstream.name, other): other for other in related_of(exposed.tool)}
        found = [public if public in self.definitions else other for public, other in own.items()]
        return [other for other in dict.fromkeys(found) if other in self.definitions and other != name]

    def metadata(self, found: int, level: str) -> dict[str, Any]:
        """Return the numbers that go with an answer."""
        return {
            "total_count": self.total,
            "filtered_count": found,
            "categories_available": self.some_categories(),
            "detail_level": level,
        }

    def some_categories(self) -> list[str]:
        """Return the names of the categories, within a bound."""
        return sorted(self.categories)[:_MAX_CATEGORIES]

    def shown(self, names: Iterable[str], level: str) -> list[Any]:
        """Return tools as an answer shows them. When there is no more room, the rest are names alone."""
        room = _MAX_CHARS
        shown: list[Any] = []
        for name in names:
            tool = self._shown(name, level)
            room -= len(str(tool))
            shown.append(tool if room >= 0 else name)
        return shown

    def _shown(self, name: str, level: str) -> Any:
        if level == "minimal":
            return name
        definition, tool = self.definitions[name], self.exposed(name).tool
        description = definition.get("description") or ""
        if level == "brief" and len(description) > _BRIEF_CHARS:
            description = description[:_BRIEF_CHARS] + "…"
        shown: dict[str, Any] = {"name": name, "description": description, "category": category_of(tool)}
        if level == "full":
            shown["server"] = self.exposed(name).upstream.name
            shown |= {member: definition[member] for member in _DEFINITION if member in definition}
            shown |= {"examples": examples_of(tool), "related": self._explicitly_related(name)}
        shown["tags"] = tags_of(tool)
        return {member: value for member, value in shown.items() if value not in ([], None)}


def not_for_models(name: str) -> ToolFailureError:
    """Return the refusal of a tool that its server keeps for its user interface."""
    why = f"{name} is for the user interface of its server alone, and no model may call it."
    return ToolFailureError(why, ["Look for another tool that does what is needed."])


def _existing(what: str, given: str, known: Iterable[str]) -> str:
    """Return the known category or server that a caller means."""
    folded = {name.casefold(): name for name in known}
    if (name := folded.get(given.casefold())) is not None:
        return name
    closest = [folded[name] for name in closest_names(given.casefold(), folded)]
    some = sorted(folded.values())[:_MAX_CATEGORIES]
    available = {"available_categories" if what == "category" else "available_servers": some}
    raise ToolFailureError(f"There is no {what} named {given[:128]!r}.", _did_you_mean(closest), **available)


def _did_you_mean(closest: Sequence[str]) -> list[str]:
    return [f"Did you mean {' or '.join(closest)}?"] if closest else []
