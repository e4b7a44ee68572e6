"""The other lists of the miniature: resources, templates and prompts are searched as tools are, and used otherwise."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

from .faults import Fault, Json, RefusalError, member
from .miniature import WHITE_SPACE, Miniature, terms


class Other(Miniature, ABC):
    """The items of one list."""

    setting = ""
    use_method = ""

    def __init__(self, items: list[Json]) -> None:
        super().__init__(items, Fault())

    @abstractmethod
    def used(self, params: Json) -> Json:
        """Return the result of using an item."""

    def found(self, key: Any) -> Json:
        """Return an item by its key, or refuse."""
        for item in self.tools:
            if item[self.key] == key:
                return item
        raise RefusalError(-32602, f"there is no {self.key} {key!r}", {"uri": key})


class Resources(Other):
    """Resources, by their definitions and what they say."""

    method = "resources/search"
    list_method = "resources/list"
    use_method = "resources/read"
    member = "resources"
    key = "uri"
    setting = "resources"
    max_limit = 22

    def __init__(
        self,
        items: list[Json],
        contents: Mapping[str, str],
        unreadable: Collection[str] = (),
        *,
        searched: bool = False,
    ) -> None:
        super().__init__(items)
        self._contents = {item["uri"]: contents.get(item["uri"], "") for item in items if item["uri"] not in unreadable}
        for item, words in zip(items, self._words, strict=True):
            words.update(terms((contents if searched else self._contents).get(item["uri"], "")))

    @property
    def settings(self) -> Json:
        return {**super().settings, "contents": True}

    def ranked(self, query: str) -> list[tuple[float, int]]:
        name, ranked = query.strip(WHITE_SPACE), super().ranked(query)
        named = {n for n, item in enumerate(self.tools) if item["name"] == name}
        known = {n for _, n in ranked}
        raised = [(max(score, 1.5) if n in named else score, n) for score, n in ranked]
        return sorted([*raised, *((1.5, n) for n in named - known)], key=lambda hit: (-hit[0], hit[1]))

    def used(self, params: Json) -> Json:
        resource = self.found(params.get("uri"))
        if resource["uri"] not in self._contents:
            raise RefusalError(-32602, "not for you", {"uri": resource["uri"]})
        kept = {name: resource[name] for name in ("uri", "mimeType") if name in resource}
        return {"contents": [{**kept, "text": self._contents[resource["uri"]]}]}


class Templates(Resources):
    """Templates of resources; none is read."""

    method = "resources/templates/search"
    list_method = "resources/templates/list"
    member = "resourceTemplates"
    key = "uriTemplate"

    def __init__(self, items: list[Json]) -> None:
        Other.__init__(self, items)


class Prompts(Other):
    """Prompts."""

    method = "prompts/search"
    list_method = "prompts/list"
    use_method = "prompts/get"
    member = "prompts"
    key = "name"
    setting = "prompts"

    def used(self, params: Json) -> Json:
        prompt, given = self.found(params.get("name")), member(params, "arguments")
        declared: list[Json] = prompt.get("arguments", [])
        if lacking := [each["name"] for each in declared if each.get("required") and each["name"] not in given]:
            raise RefusalError(-32602, f"arguments are missing: {lacking}", None)
        text = json.dumps({"name": prompt["name"], "arguments": given})
        return {"messages": [{"role": "user", "content": {"type": "text", "text": text}}]}


def others_of(
    catalog: Json, unseen: Collection[str] = (), unreadable: Collection[str] = (), *, searched: bool = False
) -> list[Other]:
    """Return the other lists of a catalog file that has any, as a caller sees them that does not see some keys.

    The content of what the caller cannot read is not searched unless it is `searched`.
    """

    def seen(name: str, key: str) -> list[Json]:
        return [item for item in catalog.get(name, []) if item[key] not in unseen]

    others: list[Other] = []
    if "resources" in catalog or "resourceTemplates" in catalog:
        # Templates come first, so that what reads resources is what stays.
        others.append(Templates(seen("resourceTemplates", "uriTemplate")))
        others.append(Resources(seen("resources", "uri"), catalog.get("contents", {}), unreadable, searched=searched))
    if "prompts" in catalog:
        others.append(Prompts(seen("prompts", "name")))
    return others
