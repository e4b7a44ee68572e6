"""The tools that a model of one caller may see, by category, server and tag, and as it is shown them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from mcp_ext_tools_search.for_models import is_for_model
from mcp_ext_tools_search.ranking import Hit
from tools_search_hosts import qualified_name

from tools_search_server.base.errors import closest_names
from tools_search_server.base.labels import category_of, examples_of, related_of, tags_of
from tools_search_server.compat.answers import ToolFailure
from tools_search_server.gateway.gateway import Offer
from tools_search_server.gateway.views import View

__all__ = ["CallersTools", "Filters", "not_for_models"]

_BRIEF_CHARS: Final = 300
_MOST_CATEGORIES: Final = 64
_MOST_CHARS: Final = 150_000
"""What the definitions in one answer may come to; official clients refuse events of more than 1 MiB."""

_DEFINED: Final = ("title", "inputSchema", "outputSchema", "annotations")


@dataclass(frozen=True)
class Filters:
    """Which tools are asked for; upper and lower case are the same."""

    category: str | None = None
    server: str | None = None
    tags: Sequence[str] = ()
    match_all: bool = False

    @property
    def any_set(self) -> bool:
        """Whether they leave anything out."""
        return self.category is not None or self.server is not None or bool(self.tags)


@dataclass(frozen=True)
class CallersTools:
    """What a model can find and call for one caller."""

    view: View
    """What the caller sees, tools for apps alone included."""

    definitions: Mapping[str, Mapping[str, Any]]
    """The tools that are for models, as the caller's listing carries them, by name, in its order."""

    beyond: Mapping[str, Offer] = field(default_factory=dict[str, Offer])
    """What stands behind names that are in no index: tools of servers that search themselves."""

    @property
    def total(self) -> int:
        """About how many tools there are, those included that stand in no index."""
        elsewhere = sum(remote.size or 0 for _, remote in self.view.remotes)
        return len(self.definitions) - sum(name in self.definitions for name in self.beyond) + elsewhere

    @cached_property
    def categories(self) -> Mapping[str, Sequence[str]]:
        """Names of the tools by category, in the order of the listing."""
        found: dict[str, list[str]] = {}
        for name in self.definitions:
            found.setdefault(category_of(self.offer(name).tool), []).append(name)
        return found

    def offer(self, name: str) -> Offer:
        """Return what stands behind a name of `definitions`."""
        return self.beyond[name] if name in self.beyond else self.view.offers[name]

    def known(self, name: str) -> Offer:
        """Return what stands behind a name that a caller gives.

        Raises:
            ToolFailure: There is no such tool, or it is not for a model.
        """
        if name in self.definitions:
            return self.offer(name)
        if (offer := self.beyond.get(name) or self.view.offers.get(name)) is not None and not is_for_model(offer.tool):
            raise not_for_models(name)
        closest = closest_names(name, self.definitions)
        raise ToolFailure(f"There is no tool named {name[:128]!r}.", _meant(closest), closest=closest)

    def named_by(self, name: str) -> list[str]:
        """Return the tools that a tool is explicitly related to: by its server's names for them, or by the public ones.

        Of those only what the caller sees.
        """
        offer = self.offer(name)
        own = {qualified_name(offer.upstream.name, other): other for other in related_of(offer.tool)}
        found = [public if public in self.definitions else other for public, other in own.items()]
        return [other for other in dict.fromkeys(found) if other in self.definitions and other != name]

    def select(self, filters: Filters) -> list[str]:
        """Return the names of the tools that pass the filters, in the order of the listing.

        Raises:
            ToolFailure: There is no such category or server.
        """
        names: Iterable[str] = self.definitions
        if filters.category is not None:
            names = self.categories[self._named("category", filters.category, self.categories)]
        if filters.server is not None:
            server = self._named("server", filters.server, [seen.name for seen in self.view.upstreams])
            names = [name for name in names if self.offer(name).upstream.name == server]
        if not filters.tags:
            return list(names)
        wanted = {tag.casefold() for tag in filters.tags}
        least = len(wanted) if filters.match_all else 1
        return [name for name in names if len(wanted & self._folded_tags(name)) >= least]

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
        return sorted(self.categories)[:_MOST_CATEGORIES]

    def shown(self, names: Iterable[str], level: str, hits: Mapping[str, Hit] | None = None) -> list[Any]:
        """Return tools as an answer shows them; those for which there is no room by name alone."""
        room = _MOST_CHARS
        shown: list[Any] = []
        for name in names:
            tool = self._shown(name, level, (hits or {}).get(name))
            room -= len(str(tool))
            shown.append(tool if room >= 0 else name)
        return shown

    def _shown(self, name: str, level: str, hit: Hit | None) -> Any:
        if level == "minimal":
            return name
        definition, tool = self.definitions[name], self.offer(name).tool
        description = definition.get("description") or ""
        if level == "brief" and len(description) > _BRIEF_CHARS:
            description = description[:_BRIEF_CHARS] + "…"
        shown: dict[str, Any] = {"name": name, "description": description, "category": category_of(tool)}
        if level == "full":
            shown["server"] = self.offer(name).upstream.name
            shown |= {member: definition[member] for member in _DEFINED if member in definition}
            shown |= {"examples": examples_of(tool), "related": self.named_by(name)}
        shown["tags"] = tags_of(tool)
        if hit is not None:
            shown["relevance"] = round(hit.score, 4)
        return {member: value for member, value in shown.items() if value not in ([], None)}

    def _folded_tags(self, name: str) -> set[str]:
        return {tag.casefold() for tag in tags_of(self.offer(name).tool)}

    def _named(self, what: str, given: str, known: Iterable[str]) -> str:
        folded = {name.casefold(): name for name in known}
        if (name := folded.get(given.casefold())) is not None:
            return name
        closest = [folded[name] for name in closest_names(given.casefold(), folded)]
        some = sorted(folded.values())[:_MOST_CATEGORIES]
        available = {"available_categories" if what == "category" else "available_servers": some}
        raise ToolFailure(f"There is no {what} named {given[:128]!r}.", _meant(closest), **available)


def not_for_models(name: str) -> ToolFailure:
    """Return the refusal of a tool that its server keeps for its app."""
    why = f"{name} is for the user interface of its server alone, and no model may call it."
    return ToolFailure(why, ["Look for another tool that does what is needed."])


def _meant(closest: Sequence[str]) -> list[str]:
    return [f"Did you mean {' or '.join(closest)}?"] if closest else []
