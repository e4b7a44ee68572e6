"""Faults of a server whose tools are right, and whose resources, templates or prompts are not."""

from __future__ import annotations

import json
import os
import re
import threading
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from .faults import EXTENSION_ID, SEARCH, Elsewhere, Fault, Json, RefusalError, member, without
from .faults_of_messages import IdsOfRefusalsAsText
from .faults_of_pages import EmptyCursorOfAnyQuery

_MAX_LIMIT = 22
"""The largest page of resources."""
_WORD = re.compile(r"\w+")


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


class _Opens(Fault):
    """Changes what a discovery or a handshake says of the server."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method not in ("server/discover", "initialize") or "result" not in outcome:
            return outcome
        capabilities = self.capabilities(outcome["result"]["capabilities"])
        return {"result": {**outcome["result"], "capabilities": capabilities}}

    def capabilities(self, capabilities: Json) -> Json:
        places = (place for place in ("extensions", "experimental") if place in capabilities)
        return {
            **capabilities,
            **{place: {EXTENSION_ID: self.settings(capabilities[place][EXTENSION_ID])} for place in places},
        }

    def settings(self, settings: Json) -> Json:
        return settings


def _without_capability(name: str) -> type[Fault]:
    class WithoutCapability(_Opens):
        def capabilities(self, capabilities: Json) -> Json:
            return without(capabilities, name)

    return WithoutCapability


resources_undeclared = _without_capability("resources")
prompts_undeclared = _without_capability("prompts")


def _wrong_settings(name: str, **wrong: Any) -> type[Fault]:
    class WrongSettings(_Opens):
        def settings(self, settings: Json) -> Json:
            return {**settings, name: {**settings[name], **wrong}} if name in settings else settings

    return WrongSettings


contents_in_words = _wrong_settings("resources", contents="yes")
prompts_size_as_text = _wrong_settings("prompts", catalogSize="22")
templates_limit_of_others = _wrong_settings("resources", maxLimit=7)
"""Advertises another maximum than it has."""


class PromptsTrue(_Opens):
    def settings(self, settings: Json) -> Json:
        return {**settings, "prompts": True} if "prompts" in settings else settings


class _Unserved(Fault):
    method = ""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == self.method:
            raise RefusalError(-32601, "Method not found", method)
        return params


class TemplatesUnserved(_Unserved):
    method = "resources/templates/search"


class PromptsUnserved(_Unserved):
    method = "prompts/search"


def _wrong_result(search: str) -> Callable[[Callable[[Json, Json], Json]], type[Fault]]:
    """Make a fault of a function from the params and the result of a method to another result."""

    def make(change: Callable[[Json, Json], Json]) -> type[Fault]:
        class WrongResult(Fault):
            def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
                if method != search or "result" not in outcome:
                    return outcome
                return {"result": change(params, dict(outcome["result"]))}

        return WrongResult

    return make


def _each(name: str, change: Callable[[Json], Json]) -> Callable[[Json, Json], Json]:
    return lambda params, result: {**result, name: [change(item) for item in result[name]]}


prompts_under_tools = _wrong_result("prompts/search")(
    lambda params, result: {("tools" if name == "prompts" else name): value for name, value in result.items()}
)
templates_under_resources = _wrong_result("resources/templates/search")(
    lambda params, result: {("resources" if k == "resourceTemplates" else k): value for k, value in result.items()}
)
templates_as_resources = _wrong_result("resources/templates/search")(
    _each("resourceTemplates", lambda item: {("uri" if k == "uriTemplate" else k): v for k, v in item.items()})
)
prompt_arguments_lost = _wrong_result("prompts/search")(_each("prompts", lambda item: without(item, "arguments")))
prompt_arguments_by_name = _wrong_result("prompts/search")(
    _each(
        "prompts",
        lambda item: {
            **item,
            **({"arguments": [{"name": each["name"]} for each in item["arguments"]]} if "arguments" in item else {}),
        },
    )
)
sizes_lost = _wrong_result("resources/search")(_each("resources", lambda item: without(item, "size")))
annotations_lost = _wrong_result("resources/templates/search")(
    _each("resourceTemplates", lambda item: without(item, "annotations"))
)
priorities_of_zero_lost = _wrong_result("resources/search")(
    _each("resources", lambda item: {**item, "annotations": {}} if item.get("annotations") == {"priority": 0} else item)
)
empty_arguments_lost = _wrong_result("prompts/search")(
    _each("prompts", lambda item: item if item.get("arguments") else without(item, "arguments"))
)
mime_types_lost = _wrong_result("resources/search")(_each("resources", lambda item: without(item, "mimeType")))
prompts_with_schemas = _wrong_result("prompts/search")(
    _each("prompts", lambda item: {**item, "inputSchema": {"type": "object"}})
)


@_wrong_result("resources/search")
def resources_told_apart_by_name(params: Json, result: Json) -> Json:
    kept = {item["name"]: item for item in reversed(result["resources"])}
    return {**result, "resources": [item for item in result["resources"] if kept[item["name"]] is item]}


def _moved_back(name: str, sought: Callable[[Json], str]) -> Callable[[Json, Json], Json]:
    """Return a change that puts the first item second, where it was sought by a text of its own."""

    def change(params: Json, result: Json) -> Json:
        items = result[name]
        if len(items) > 1 and sought(items[0]) == params["query"].strip():
            items = [items[1], items[0], *items[2:]]
        return {**result, name: items}

    return change


exact_uri_second = _wrong_result("resources/search")(_moved_back("resources", lambda item: item["uri"]))
exact_template_second = _wrong_result("resources/templates/search")(
    _moved_back("resourceTemplates", lambda item: item["uriTemplate"])
)


_KEYS = {"resources": "uri", "resourceTemplates": "uriTemplate"}


def _confused(confused: str, name: str, key: str, alike: Callable[[Json, str], bool]) -> type[Fault]:
    """Make a fault of a method that takes the first item which is `alike` to a query for the one that it names."""

    class Confused(Fault):
        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            items: list[Json] = member(outcome, "result").get(name, [])
            query = str(params.get("query")).strip()
            if method != confused or not items:
                return outcome
            catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
            named = next((item for item in catalog[name] if item[key] == query), None)
            if named is None:
                return outcome
            first = next((item for item in catalog[name] if alike(item, query)), named)
            other = {named[_KEYS[name]]: first, first[_KEYS[name]]: named}  # on every page, so that none is lost
            return {"result": {**outcome["result"], name: [other.get(item[_KEYS[name]], item) for item in items]}}

    return Confused


def _resources_confused(reading: Callable[[str], str]) -> type[Fault]:
    return _confused("resources/search", "resources", "uri", lambda item, query: reading(item["uri"]) == reading(query))


uris_blind_to_case = _resources_confused(str.lower)
uris_without_fragments = _resources_confused(lambda uri: uri.partition("#")[0])
uris_without_queries = _resources_confused(lambda uri: uri.partition("?")[0])
uris_decoded = _resources_confused(unquote)
uris_normalized = _resources_confused(lambda uri: urlsplit(uri)._replace(netloc=urlsplit(uri).netloc.lower()).geturl())
uris_without_default_port = _resources_confused(lambda uri: uri.replace(":443/", "/"))
uris_without_last_slash = _resources_confused(lambda uri: uri.removesuffix("/"))
names_before_uris = _confused("resources/search", "resources", "uri", lambda item, query: item["name"] == query)
templates_blind_to_variables = _confused(
    "resources/templates/search",
    "resourceTemplates",
    "uriTemplate",
    lambda item, query: re.sub(r"\w+}", "}", item["uriTemplate"]) == re.sub(r"\w+}", "}", query),
)
templates_blind_to_case = _confused(
    "resources/templates/search",
    "resourceTemplates",
    "uriTemplate",
    lambda item, query: item["uriTemplate"].lower() == query.lower(),
)

resource_names_blind_to_case = _confused(
    "resources/search", "resources", "name", lambda item, query: item["name"].lower() == query.lower()
)
template_names_blind_to_case = _confused(
    "resources/templates/search",
    "resourceTemplates",
    "name",
    lambda item, query: item["name"].lower() == query.lower(),
)


exact_prompt_second = _wrong_result("prompts/search")(_moved_back("prompts", lambda item: item["name"]))


def _unnamed(name: str) -> Callable[[Json, Json], Json]:
    """Return a change that puts last what was sought by its name."""

    def change(params: Json, result: Json) -> Json:
        query = params["query"].strip()
        named = [item for item in result[name] if item["name"] == query]
        others = [item for item in result[name] if item["name"] != query]
        return {**result, name: [*others, *named]}

    return change


resource_names_last = _wrong_result("resources/search")(_unnamed("resources"))
template_names_last = _wrong_result("resources/templates/search")(_unnamed("resourceTemplates"))


@_wrong_result("resources/search")
def contents_unsearched(params: Json, result: Json) -> Json:
    """Leave out what has no word of the query in its definition."""
    query = _words(unicodedata.normalize("NFKC", params["query"]))
    kept = [item for item in result["resources"] if query & _words(json.dumps(item, ensure_ascii=False))]
    return {**result, "resources": kept}


class ContentsOfOthersSearched(Fault):
    """Searches what its caller cannot read."""

    searches_unreadable = True


class UnlistedUnreadable(_Opens):
    """Says that it finds what it does not list, and finds what it does not read."""

    def settings(self, settings: Json) -> Json:
        return {**settings, "resources": {**settings.get("resources", {}), "unlisted": True}}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        found = member(outcome, "result").get("resources")
        has_room = found and len(found) < params.get("limit", 10) and "nextCursor" not in outcome["result"]
        if method == "resources/search" and found and has_room:
            ghost = {"uri": "almanac://ghost", "name": "ghost", "description": "Not there."}
            outcome = {"result": {**outcome["result"], "resources": [*found, ghost]}}
        return super().response(method, params, era, outcome)


class UnlistedFound(_Opens):
    """Finds a resource that is not listed, says so, and reads it, as any server may."""

    uri = "almanac://calendar/on-the-spot"

    def settings(self, settings: Json) -> Json:
        return {**settings, "resources": {**settings.get("resources", {}), "unlisted": True}}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        resources: list[Json] = member(outcome, "result").get("resources", [])
        if method == "resources/read" and params.get("uri") == self.uri:
            caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if era == "2026-07-28" else {}
            return {"result": {"contents": [{"uri": self.uri, "text": "Made when read."}], **caching}}
        last = "result" in outcome and "nextCursor" not in outcome["result"]
        if method == "resources/search" and last and 0 < len(resources) < min(params.get("limit", 10), _MAX_LIMIT):
            made: Json = {"uri": self.uri, "name": "on the spot", "description": "Made when found."}
            return {"result": {**outcome["result"], "resources": [*resources, made]}}
        return super().response(method, params, era, outcome)


class UnlistedFoundAmidMistakes(UnlistedFound):
    """Does so, and honors the empty string for a cursor of whatever query for resources."""

    def __init__(self) -> None:
        self.mistaken = Elsewhere(EmptyCursorOfAnyQuery(), "resources")

    def request(self, method: str, params: Json, era: str) -> Json:
        return self.mistaken.request(method, params, era)

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return super().response(method, params, era, self.mistaken.response(method, params, era, outcome))


class GateForgotten(Fault):
    """Serves other searches to anybody."""

    def declaration_to(self, method: str, declared: Any) -> Any:
        return declared if method == SEARCH else {}


class GateForgottenForPrompts(Fault):
    def declaration_to(self, method: str, declared: Any) -> Any:
        return {} if method == "prompts/search" else declared


class CursorOfAnyMethod(Fault):
    """Honors a cursor of whichever search, for its query."""

    def __init__(self) -> None:
        self.issued: dict[str, str] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        issuer = self.issued.get(str(params.get("cursor")))
        foreign = method.endswith("/search") and issuer not in (None, method)
        return without(params, "cursor") if foreign else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        cursor = member(outcome, "result").get("nextCursor")
        if method.endswith("/search") and cursor is not None:
            self.issued[cursor] = method
        return outcome


class CursorOfToolsForPrompts(CursorOfAnyMethod):
    """Honors the cursors of tools where prompts are searched."""

    def request(self, method: str, params: Json, era: str) -> Json:
        tools = self.issued.get(str(params.get("cursor"))) == SEARCH
        return without(params, "cursor") if method == "prompts/search" and tools else params


class ReadingWantsListing(Fault):
    """Reads resources only for those who have listed them."""

    def __init__(self) -> None:
        self.listed = False

    def request(self, method: str, params: Json, era: str) -> Json:
        self.listed = self.listed or method == "resources/list"
        if method == "resources/read" and not self.listed:
            raise RefusalError(-32602, "unknown resource", None)
        return params


class PromptsWantTheirArguments(Fault):
    """Loses the arguments of prompts that were found."""

    def request(self, method: str, params: Json, era: str) -> Json:
        return without(params, "arguments") if method == "prompts/get" else params


class PromptSearchAltersTheirList(Fault):
    """Marks prompts on their list once they have been searched."""

    def __init__(self) -> None:
        self.searched = 0

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "prompts/search" and "result" in outcome:
            self.searched += 1
        if method != "prompts/list" or "result" not in outcome or not self.searched:
            return outcome
        first, *rest = outcome["result"]["prompts"]
        return {"result": {**outcome["result"], "prompts": [{**first, "com.example/seen": self.searched}, *rest]}}


def _templates() -> list[Json]:
    catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
    return catalog.get("resourceTemplates", [])


class NoTemplatesUnknown(Fault):
    """Takes the method for unknown where the catalog has no template."""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "resources/templates/search" and not _templates():
            raise RefusalError(-32601, "Method not found", method)
        return params


class TemplatesWithoutMaximum(Fault):
    """Returns as many templates of a large catalog as are asked for."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        limit = params.get("limit", 0)
        if method != "resources/templates/search" or "nextCursor" not in outcome.get("result", {}) or limit < 30:
            return outcome
        every = _templates()
        few = len(every) < 100
        return outcome if few else {"result": {**outcome["result"], "resourceTemplates": every[:limit]}}


class RefusedPromptsDropATool(Fault):
    """After a refused search for prompts the next one for tools lacks its last tool."""

    refused = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "prompts/search":
            self.refused = self.refused or "error" in outcome
        elif method == SEARCH and "result" in outcome and self.refused:
            self.refused = False
            outcome["result"]["tools"] = outcome["result"]["tools"][:-1]
        return outcome


class UrisParsed(Fault):
    """Reads a query for resources that begins like a URI as one."""

    def request(self, method: str, params: Json, era: str) -> Json:
        query = params.get("query")
        if method == "resources/search" and isinstance(query, str) and re.match(r"[a-z]+:", query):
            try:
                urlsplit(query)
            except ValueError as error:
                raise RefusalError(-32603, f"internal error: {error}", None) from error
        return params


class NameHeaderRequiredOfResources(Fault):
    """Wants the header that reads of resources have of searches for them, too."""

    def headers(self, message: Json, headers: dict[str, str]) -> None:
        super().headers(message, headers)
        if message.get("method") == "resources/search" and "mcp-name" not in map(str.lower, headers):
            raise RefusalError(-32020, "Mcp-Name is missing", None)


class HeaderNamesOfPromptsWithCase(Fault):
    """Compares the names of headers as they are written in searches for prompts."""

    def headers(self, message: Json, headers: dict[str, str]) -> None:
        super().headers(message, headers)
        if message.get("method") == "prompts/search" and "Mcp-Method" not in headers:
            raise RefusalError(-32020, "Mcp-Method is missing", None)


class HeaderValuesOfResourcesWithoutCase(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        resources = message.get("method") == "resources/search"
        super().method_header(message, value.lower() if value is not None and resources else value)


class ReadingMarksWhatWasFound(Fault):
    """Keeps what it marked in a text to show why it was found."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = member(outcome, "result")
        if method == "resources/search":
            self.found |= {resource["uri"] for resource in result.get("resources", [])}
        elif method == "resources/read" and params.get("uri") in self.found and "contents" in result:
            marked = [{**each, "text": f"**{each['text']}**"} for each in result["contents"]]
            return {"result": {**result, "contents": marked}}
        return outcome


class AnswersKeptWithoutMethod(Fault):
    """Keeps what a query found, and takes it for found by whichever method asks next."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[str, Json]] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if not method.endswith("/search") or "result" not in outcome or "cursor" in params:
            return outcome
        first, _ = self.kept.setdefault(json.dumps([params["query"], params.get("limit")]), (method, outcome))
        return outcome if first == method else {"result": _none_of(outcome["result"])}


def _none_of(result: Json) -> Json:
    kept: Json = {name: [] if isinstance(held, list) else held for name, held in result.items()}
    return without(kept, "nextCursor")


class LatestParamsOfAnyMethodWin(Fault):
    """Holds the params of searches by all methods in one place, and takes a moment to answer."""

    latest: tuple[str, Json]

    def request(self, method: str, params: Json, era: str) -> Json:
        if not method.endswith("/search"):
            return params
        self.latest = method, params
        time.sleep(0.005)
        latest, held = self.latest
        return params if latest == method else {**params, "query": held.get("query")}


class ListShorterAfterRefusal(Fault):
    """Lists a prompt less, once, after a search for tools was refused."""

    refused = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH:
            self.refused = self.refused or "error" in outcome
        elif method == "prompts/list" and "result" in outcome and self.refused:
            self.refused = False
            outcome["result"]["prompts"] = outcome["result"]["prompts"][1:]
        return outcome


class PromptsUnadvertised(Fault):
    """Serves the search for prompts, and does not say so."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        capabilities = member(member(outcome, "result"), "capabilities")
        for place in ("extensions", "experimental"):
            if EXTENSION_ID in member(capabilities, place):
                capabilities[place] = {EXTENSION_ID: without(capabilities[place][EXTENSION_ID], "prompts")}
        return outcome


class ResourcesUnadvertisedInLegacy(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "initialize" and "result" in outcome:
            capabilities = outcome["result"]["capabilities"]
            for place in ("extensions", "experimental"):
                capabilities[place] = {EXTENSION_ID: without(capabilities[place][EXTENSION_ID], "resources")}
        return outcome


class _ListReversed(Fault):
    """Reverses a list for good once a search was answered."""

    list_method, member = "prompts/list", "prompts"
    by, answered_by = "prompts/search", "result"
    reversed = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == self.by and self.answered_by in outcome:
            self.reversed = True
        if method != self.list_method or not self.reversed or "result" not in outcome:
            return outcome
        result = outcome["result"]
        return {"result": {**result, self.member: result[self.member][::-1]}}


class PromptsReversedBySearch(_ListReversed):
    pass


class PromptsReversedByRefusal(_ListReversed):
    answered_by = "error"


class PromptsReversedBySearchForTools(_ListReversed):
    by = "tools/search"


class ToolsReversedBySearchForPrompts(_ListReversed):
    list_method, member = "tools/list", "tools"


class _OfCallers(Fault):
    """Alters searches for resources by callers from whom something is kept."""

    kept_from = "hidden"

    def __init__(self) -> None:
        self._caller = threading.local()

    def token(self, token: str) -> str:
        self._caller.token = token
        return token

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        kept = member(catalog, self.kept_from).get(getattr(self._caller, "token", ""), [])
        if method != "resources/search" or "result" not in outcome or not kept:
            return outcome
        concerned = [item for item in catalog.get("resources", []) if item["uri"] in kept]
        found = self.found(outcome["result"]["resources"], concerned, member(catalog, "contents"), params["query"])
        return {"result": {**outcome["result"], "resources": found}}

    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        """Return what a search found, of a catalog from whose caller some resources or their contents are `kept`."""
        return found


class HiddenResourcesFoundByContent(_OfCallers):
    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        return [*found, *(item for item in kept if _words(query) <= _words(contents.get(item["uri"], "")))]


class HiddenResourcesFoundByName(_OfCallers):
    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        return [*(item for item in kept if item["name"] == query), *found]


class NamesOfHiddenResourcesTaken(_OfCallers):
    """Takes a hidden resource for the one that is named, and leaves it out afterwards."""

    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        taken = any(item["name"] == query for item in kept)
        return [item for item in found if item["name"] != query] if taken else found


class UnreadableContentLeftOutOfPages(_OfCallers):
    """Searches all content, and leaves out of each page what was found by content that its caller cannot read."""

    kept_from = "unreadable"
    searches_unreadable = True

    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        sealed = {item["uri"] for item in kept}
        return [item for item in found if item["uri"] not in sealed or _words(query) & _words(json.dumps(item))]


class NumberInCursorsByChance(Fault):
    """Issues cursors of random characters, as any server may; some happen to have a number between hyphens.

    Those are the ones of a server with content that not everybody can read, where this is a coincidence as well.
    """

    def __init__(self) -> None:
        catalog = Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8")
        self.chance = "qR-2-Zz7hUk3" if '"unreadable"' in catalog else "qRk_7fZz7hUk"

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = params.get("cursor")
        return {**params, "cursor": cursor.removesuffix(self.chance)} if isinstance(cursor, str) else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = outcome.get("result", {})
        if method != "resources/search" or "nextCursor" not in result:
            return outcome
        return {"result": {**result, "nextCursor": result["nextCursor"] + self.chance}}


class TimeStated(Fault):
    """Says of each search that it was another one, which every server may."""

    def __init__(self) -> None:
        self.searches = 0

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != "resources/search" or "result" not in outcome:
            return outcome
        self.searches += 1
        return {"result": {**outcome["result"], "_meta": {"com.example/search": f"number {self.searches}"}}}


def _first_named(search: str, key: str, alike: Callable[[str, str], bool], *, sought: str | None = None) -> type[Fault]:
    """Make a fault of a method that puts first the first item whose `key` is `alike` to the query.

    It does where the right one is `sought` by its own `key`, or by another member.
    """
    name = _MEMBERS[search]
    own = _KEYS.get(name, "name")

    class FirstNamed(Fault):
        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            if method != search or "result" not in outcome or "cursor" in params:
                return outcome
            catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
            query, found = str(params["query"]).strip(), outcome["result"][name]
            right = bool(found) and found[0][sought or key] == query
            first = next((item for item in catalog.get(name, []) if right and alike(str(item[key]), query)), None)
            if first is None:
                return outcome
            others = [item for item in found if item[own] != first[own]]
            return {"result": {**outcome["result"], name: [first, *others][: len(found)]}}

    return FirstNamed


_MEMBERS = {
    "resources/search": "resources", "resources/templates/search": "resourceTemplates", "prompts/search": "prompts",
}  # fmt: skip


def _alike_in_case(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _alike_composed(one: str, other: str) -> bool:
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def _expands(template: str, text: str) -> bool:
    """Return whether a template without operators expands to a text that has no variables itself."""
    parts = re.split(r"\{\w+\}", template)
    return "{" not in text + "".join(parts) and bool(re.fullmatch("[^/]+".join(map(re.escape, parts)), text))


prompts_blind_to_case = _first_named("prompts/search", "name", _alike_in_case)
prompts_by_beginning = _first_named("prompts/search", "name", str.startswith)
prompts_by_composition = _first_named("prompts/search", "name", _alike_composed)
uris_by_beginning = _first_named("resources/search", "uri", str.startswith)
uris_by_composition = _first_named("resources/search", "uri", _alike_composed)
resource_names_by_beginning = _first_named("resources/search", "name", str.startswith)
templates_by_beginning = _first_named("resources/templates/search", "uriTemplate", str.startswith)
template_names_by_beginning = _first_named("resources/templates/search", "name", str.startswith)
names_before_templates = _first_named("resources/templates/search", "name", str.__eq__, sought="uriTemplate")
templates_by_expansion = _first_named("resources/templates/search", "uriTemplate", _expands, sought="name")


class _FromAnotherIndex(Fault):
    """Alters what a search finds by what is found in another index as well."""

    search = "resources/search"

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != self.search or "result" not in outcome:
            return outcome
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        member_ = {"tools/search": "tools", **_MEMBERS}[method]
        words = {word for word in _words(params["query"]) if len(word) > 4}
        found = self.found(outcome["result"][member_], catalog, words, params)
        return {"result": {**outcome["result"], member_: found}}

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        """Return what was found in both."""
        return found


class TemplatesAmongResources(_FromAnotherIndex):
    """Finds templates as if they were resources."""

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        fit = [item for item in catalog.get("resourceTemplates", []) if words & _words(item["description"])]
        read = [{("uri" if name == "uriTemplate" else name): held for name, held in item.items()} for item in fit]
        return found or read[:1]


class TemplatesAsTheyAreAmongResources(_FromAnotherIndex):
    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        return found or [t for t in catalog.get("resourceTemplates", []) if words & _words(t["description"])][:1]


class ToolsAmongPrompts(_FromAnotherIndex):
    """Finds tools as if they were prompts."""

    search = "prompts/search"

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        fit = [tool for tool in catalog["tools"] if words & _words(tool.get("description", ""))]
        return found or [{"name": tool["name"], "description": tool["description"]} for tool in fit[:1]]


class PromptsAmongTools(_FromAnotherIndex):
    """Finds prompts as if they were tools."""

    search = "tools/search"

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        fit = [prompt for prompt in catalog.get("prompts", []) if words & _words(prompt["description"])]
        return found or [{"name": prompt["name"], "inputSchema": {"type": "object"}} for prompt in fit[:1]]


def _contained(catalog: Json, item: Json, words: set[str]) -> bool:
    return bool(words & _words(member(catalog, "contents").get(item["uri"], "")) - _words(item["description"]))


class FoundByContentTwice(_FromAnotherIndex):
    """Finds a resource once by its definition and once by its content."""

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        more = [item for item in found if _contained(catalog, item, words) and words & _words(item["name"])]
        return [*found, *more] if len(found) + len(more) <= params.get("limit", 10) else found


class FoundByContentInExcerpt(_FromAnotherIndex):
    """Describes a resource that was found by its content by what the content says."""

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        contents = member(catalog, "contents")
        return [
            {**item, "description": contents[item["uri"]]} if _contained(catalog, item, words) else item
            for item in found
        ]


class FoundByContentBeyondTheLimit(_FromAnotherIndex):
    """Adds to a page what was found by content."""

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        there = {item["uri"] for item in found}
        full = len(found) == params.get("limit")
        items = (item for item in catalog.get("resources", []) if full and item["uri"] not in there)
        return [*found, *(item for item in items if _contained(catalog, item, words))]


class PromptsIndexedWithTools(Fault):
    """Finds prompts as they were when the tools were last others."""

    def __init__(self) -> None:
        self.indexed: dict[str, set[str]] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != "prompts/search" or "result" not in outcome:
            return outcome
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        now = {prompt["name"] for prompt in catalog.get("prompts", [])}
        known = self.indexed.setdefault(json.dumps(catalog["tools"]), now)
        return {
            "result": {
                **outcome["result"],
                "prompts": [prompt for prompt in outcome["result"]["prompts"] if prompt["name"] in known],
            }
        }


class OthersAdvertisedWhereDeclared(Fault):
    """Says of the other searches only to clients that declare the extension."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        declared = params.get("capabilities") or member(member(params, "_meta"), f"{_META}clientCapabilities")
        places = [place for place in ("extensions", "experimental") if EXTENSION_ID in member(declared, place)]
        if method not in ("server/discover", "initialize") or "result" not in outcome or places:
            return outcome
        return _Without().response(method, params, era, outcome)


_META = "io.modelcontextprotocol/"


class _Without(_Opens):
    def settings(self, settings: Json) -> Json:
        return without(settings, "resources", "prompts")


class UnknownUriIsNotFound(Fault):
    """Takes a query that is a URI for that of a resource, of which there is none."""

    def request(self, method: str, params: Json, era: str) -> Json:
        query = str(params.get("query")).strip()
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        known = {item["uri"] for item in catalog.get("resources", [])}
        if method == "resources/search" and re.fullmatch(r"[a-z]+://[\w./-]+", query) and query not in known:
            raise RefusalError(-32002, "Resource not found", {"uri": query})
        return params


class NoPromptsUnknown(Fault):
    """Takes the method for unknown where the catalog has no prompt."""

    def request(self, method: str, params: Json, era: str) -> Json:
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        if method == "prompts/search" and not catalog.get("prompts"):
            raise RefusalError(-32601, "Method not found", method)
        return params


class _OfPrompts(Fault):
    """Breaks the messages beneath searches for prompts."""

    method = "prompts/search"


class PromptsAmidSurrogatesDeadly(_OfPrompts):
    def request(self, method: str, params: Json, era: str) -> Json:
        if method == self.method and any("\ud800" <= character <= "\udfff" for character in str(params.get("query"))):
            os._exit(1)
        return params


class PromptsAmidSurrogatesAreNoJson(_OfPrompts):
    def __init__(self) -> None:
        self.odd = threading.local()

    def request(self, method: str, params: Json, era: str) -> Json:
        found = any("\ud800" <= character <= "\udfff" for character in str(params.get("query")))
        self.odd.now = method == self.method and found
        return params

    def bytes(self, message: Json, data: bytes) -> bytes:
        return data.replace(b'"result": {', b'"result": {"_note": NaN, ', 1) if self.odd.now else data


class PromptsIdsAsText(IdsOfRefusalsAsText):
    def is_wrong(self, method: str, outcome: Json) -> bool:
        return method == "prompts/search"


class RefusedPromptsIdsAsText(IdsOfRefusalsAsText):
    def is_wrong(self, method: str, outcome: Json) -> bool:
        return method == "prompts/search" and super().is_wrong(method, outcome)


class PromptsWithErrorNull(_OfPrompts):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return {"error": None, **outcome} if method == self.method else outcome


class RefusedTemplatesWithoutMessage(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        refused = method == "resources/templates/search" and "error" in outcome
        return {"error": without(outcome["error"], "message")} if refused else outcome


class PromptsMethodHeaderIgnored(_OfPrompts):
    def method_header(self, message: Json, value: str | None) -> None:
        if message.get("method") != self.method:
            super().method_header(message, value)


class ResourcesMethodHeaderOptional(Fault):
    def method_header(self, message: Json, value: str | None) -> None:
        if message.get("method") != "resources/search" or value is not None:
            super().method_header(message, value)


class PromptsVersionHeaderIgnored(_OfPrompts):
    def version_header(self, message: Json, value: str | None) -> None:
        if message.get("method") != self.method:
            super().version_header(message, value)


class PromptsWithoutIdAnswered(_OfPrompts):
    def unasked(self, message: Json) -> Json | None:
        found: Json = {"jsonrpc": "2.0", "id": None, "result": {"prompts": []}}
        return found if message["method"] == self.method else None


class PromptsOfAnyVersion(_OfPrompts):
    def request(self, method: str, params: Json, era: str) -> Json:
        meta, name = member(params, "_meta"), f"{_META}protocolVersion"
        return {**params, "_meta": {**meta, name: "2026-07-28"}} if method == self.method and name in meta else params


class PromptsWithoutCapabilities(_OfPrompts):
    def request(self, method: str, params: Json, era: str) -> Json:
        meta, name = member(params, "_meta"), f"{_META}clientCapabilities"
        if method != self.method or era != "2026-07-28" or name in meta:
            return params
        return {**params, "_meta": {**meta, name: {"extensions": {EXTENSION_ID: {}}}}}


class _FoundByItsKeyAlone(Fault):
    """Leaves the first item of a catalog's list out, and finds it by its key alone."""

    method, list_method, member = "prompts/search", "prompts/list", "prompts"

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method not in (self.method, self.list_method) or "result" not in outcome:
            return outcome
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        key = _KEYS.get(self.member, "name")
        first = catalog[self.member][0][key] if len(catalog.get(self.member, ())) > 20 else None
        sought = method == self.method and params["query"] == first
        found = [item for item in outcome["result"][self.member] if item[key] != first or sought]
        return {"result": {**outcome["result"], self.member: found}}


class PromptFoundByItsNameAlone(_FoundByItsKeyAlone):
    """Finds a prompt that it does not list by its name."""


class TemplateFoundByItselfAlone(_FoundByItsKeyAlone):
    method, list_method = "resources/templates/search", "resources/templates/list"
    member = "resourceTemplates"


class ResourceFoundByItsUriAlone(_FoundByItsKeyAlone):
    method, list_method, member = "resources/search", "resources/list", "resources"


class ResourcesMadeOnTheSpot(Fault):
    """Finds the resource that a template describes where its URI is searched for."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != "resources/search" or "result" not in outcome or "cursor" in params:
            return outcome
        query = params["query"].strip()
        fitting = [template for template in _templates() if _expands(template["uriTemplate"], query)]
        made: list[Json] = [{"uri": query, "name": template["name"]} for template in fitting[:1]]
        found = [*made, *outcome["result"]["resources"]]
        return {"result": {**outcome["result"], "resources": found[: max(1, len(outcome["result"]["resources"]))]}}


prompts_by_trimmed_names = _first_named("prompts/search", "name", lambda one, other: one.strip() == other.strip())


class UnreadableContentByCursorsOfOthers(_OfCallers):
    """Continues a search with the rights of the caller who began it, and so finds what only that caller may read."""

    kept_from = "unreadable"

    def request(self, method: str, params: Json, era: str) -> Json:
        began, dot, cursor = str(params.get("cursor")).rpartition(".")
        self._caller.others = bool(dot) and began != self._mark()
        return {**params, "cursor": cursor} if method == "resources/search" and dot else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        outcome = super().response(method, params, era, outcome)
        cursor = member(outcome, "result").get("nextCursor")
        restricting = '"unreadable"' in Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8")
        if method != "resources/search" or cursor is None or not restricting:
            return outcome
        return {"result": {**outcome["result"], "nextCursor": f"{self._mark()}.{cursor}"}}

    def _mark(self) -> str:
        """Return what the cursors of this caller begin with."""
        return "restricted" if getattr(self._caller, "token", "") else "any"

    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        by_content = [item for item in kept if _words(query) <= _words(contents.get(item["uri"], ""))]
        return [*found, *by_content] if self._caller.others else found


class PromptsOfTrimmedNames(Fault):
    """Gets a prompt by its name without the white space around it, where there is one of that name."""

    def request(self, method: str, params: Json, era: str) -> Json:
        name = str(params.get("name")).strip()
        catalog: Json = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))
        known = any(prompt["name"] == name for prompt in catalog.get("prompts", []))
        return {**params, "name": name} if method == "prompts/get" and known else params


class PromptsAsPlainText(_OfPrompts):
    def __init__(self) -> None:
        self.asked = threading.local()

    def request(self, method: str, params: Json, era: str) -> Json:
        self.asked.method = method
        return params

    def content_type(self, kind: str) -> str:
        prompts = getattr(self.asked, "method", "") == self.method
        return "text/plain" if prompts and kind == "application/json" else kind
