"""Faults of a server whose tools are right, and whose resources, templates or prompts are not."""

from __future__ import annotations

import json
import os
import re
import time
import unicodedata
from collections.abc import Callable, Iterable
from functools import partial
from io import BufferedIOBase
from typing import Any
from urllib.parse import unquote, urlsplit

from .faults import (
    EXTENSION_ID,
    MEMBERS,
    SEARCH,
    Advertising,
    Elsewhere,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    asked,
    caller,
    member,
    served_catalog,
    without,
    wrong_capabilities,
    wrong_items,
    wrong_result,
    wrong_result_of,
    wrong_settings,
)
from .faults_of_messages import (
    AnyVersionServed,
    CapabilitiesOptional,
    ErrorNullInResults,
    IdsOfRefusalsAsText,
    NameHeaderRequired,
    SearchWithoutIdAnswered,
)
from .faults_of_pages import EmptyCursorOfAnyQuery

_MAX_LIMIT = 22
"""The largest page of resources."""
_WORD = re.compile(r"\w+")


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _other_settings(name: str, **wrong: Any) -> type[Fault]:
    """Make a fault of the settings for other searches, where they are advertised."""
    return wrong_settings(
        lambda settings: {**settings, name: {**settings[name], **wrong}} if name in settings else settings
    )


resources_undeclared = wrong_capabilities(lambda capabilities: without(capabilities, "resources"))
prompts_undeclared = wrong_capabilities(lambda capabilities: without(capabilities, "prompts"))
contents_in_words = _other_settings("resources", contents="yes")
prompts_size_as_text = _other_settings("prompts", catalogSize="22")
prompts_topics_null = _other_settings("prompts", topics=None)
prompts_limit_of_fraction = _other_settings("prompts", maxLimit=22.5)
# Advertises another maximum than it has.
templates_limit_of_others = _other_settings("resources", maxLimit=7)
prompts_true = wrong_settings(lambda settings: {**settings, "prompts": True} if "prompts" in settings else settings)
# Serves the search for prompts, and does not say so.
prompts_unadvertised = wrong_settings(lambda settings: without(settings, "prompts"))
resources_unadvertised_in_legacy = wrong_settings(lambda settings: without(settings, "resources"), "initialize")


def _unserved(unserved: str, when: Callable[[str], bool] = lambda _era: True) -> type[Fault]:
    """Make a fault that does not know a method, or takes it for unknown in an era or at times."""

    class Unserved(Fault):
        def request(self, method: str, params: Json, era: str) -> Json:
            if method == unserved and when(era):
                raise RefusalError(-32601, "Method not found", method)
            return params

    return Unserved


templates_unserved = _unserved("resources/templates/search")
prompts_unserved = _unserved("prompts/search")
templates_unserved_in_legacy = _unserved("resources/templates/search", lambda era: era != "2026-07-28")
resources_unserved_in_modern = _unserved("resources/search", lambda era: era == "2026-07-28")
# Where the catalog has none of them.
no_templates_unknown = _unserved(
    "resources/templates/search", lambda _era: not served_catalog().get("resourceTemplates")
)
no_resources_unknown = _unserved("resources/search", lambda _era: not served_catalog().get("resources"))
no_prompts_unknown = _unserved("prompts/search", lambda _era: not served_catalog().get("prompts"))


def _renamed(value: Json, old: str, new: str) -> Json:
    return {(new if name == old else name): held for name, held in value.items()}


_wrong_resources = partial(wrong_items, method="resources/search")
_wrong_templates = partial(wrong_items, method="resources/templates/search")
_wrong_prompts = partial(wrong_items, method="prompts/search")

prompts_under_tools = wrong_result(lambda _, result: _renamed(result, "prompts", "tools"), method="prompts/search")
templates_under_resources = wrong_result(
    lambda _, result: _renamed(result, "resourceTemplates", "resources"), method="resources/templates/search"
)
templates_as_resources = _wrong_templates(lambda item: _renamed(item, "uriTemplate", "uri"))
annotations_lost = _wrong_templates(lambda item: without(item, "annotations"))
sizes_lost = _wrong_resources(lambda item: without(item, "size"))
mime_types_lost = _wrong_resources(lambda item: without(item, "mimeType"))
priorities_of_zero_lost = _wrong_resources(
    lambda item: {**item, "annotations": {}} if item.get("annotations") == {"priority": 0} else item
)
prompt_arguments_lost = _wrong_prompts(lambda item: without(item, "arguments"))
prompt_arguments_by_name = _wrong_prompts(
    lambda item: (
        {**item, "arguments": [{"name": argument["name"]} for argument in item["arguments"]]}
        if "arguments" in item
        else item
    )
)
required_arguments_first = _wrong_prompts(
    lambda item: (
        {**item, "arguments": sorted(item["arguments"], key=lambda argument: not argument.get("required"))}
        if "arguments" in item
        else item
    )
)


def _arguments_changed(change: Callable[[list[Json]], list[Json]]) -> type[Fault]:
    return _wrong_prompts(
        lambda item: {**item, "arguments": change(item["arguments"])} if "arguments" in item else item
    )


fourth_argument_lost = _arguments_changed(lambda arguments: arguments[:3])
arguments_blind_to_case = _arguments_changed(
    lambda arguments: list({argument["name"].lower(): argument for argument in reversed(arguments)}.values())[::-1]
)
arguments_trimmed = _arguments_changed(
    lambda arguments: [
        {name: value.strip() if isinstance(value, str) else value for name, value in argument.items()}
        for argument in arguments
    ]
)
empty_arguments_lost = _wrong_prompts(lambda item: item if item.get("arguments") else without(item, "arguments"))
empty_mime_types_lost = _wrong_resources(lambda item: item if item.get("mimeType") else without(item, "mimeType"))
prompts_with_schemas = _wrong_prompts(lambda item: {**item, "inputSchema": {"type": "object"}})


class LegacyTemplatesUntyped(Fault):
    """Leaves out what a template says of its content where it adapts results to legacy clients."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != "resources/templates/search" or era == "2026-07-28" or "result" not in outcome:
            return outcome
        kept = [without(item, "mimeType") for item in outcome["result"]["resourceTemplates"]]
        return {"result": {**outcome["result"], "resourceTemplates": kept}}


class ResourcesUntypedOverHttp(Fault):
    """Leaves out the media types of found resources over HTTP alone."""

    over_http = False

    def body(self, stream: BufferedIOBase, length: int) -> bytes:
        self.over_http = True
        return super().body(stream, length)

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != "resources/search" or not self.over_http or "result" not in outcome:
            return outcome
        kept = [without(item, "mimeType") for item in outcome["result"]["resources"]]
        return {"result": {**outcome["result"], "resources": kept}}


class LegacyPromptsScoredInPercent(Fault):
    """Scales the scores of prompts only for modern clients."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "prompts/search" and era != "2026-07-28" and "result" in outcome:
            for item in outcome["result"]["prompts"]:
                item["_meta"][EXTENSION_ID]["score"] *= 100
        return outcome


@wrong_result_of("resources/search")
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


exact_uri_second = wrong_result_of("resources/search")(_moved_back("resources", lambda item: item["uri"]))
exact_template_second = wrong_result_of("resources/templates/search")(
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
            catalog = served_catalog()
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


class NamesBeforeUrisAmidSpaces(names_before_uris):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        query = str(params.get("query"))
        return super().response(method, params, era, outcome) if query != query.strip() else outcome


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
titles_of_resources_before_names = _confused(
    "resources/search", "resources", "name", lambda item, query: item.get("title") == query
)
titles_of_templates_before_names = _confused(
    "resources/templates/search", "resourceTemplates", "name", lambda item, query: item.get("title") == query
)
template_names_blind_to_case = _confused(
    "resources/templates/search",
    "resourceTemplates",
    "name",
    lambda item, query: item["name"].lower() == query.lower(),
)


exact_prompt_second = wrong_result_of("prompts/search")(_moved_back("prompts", lambda item: item["name"]))


def _unnamed(name: str) -> Callable[[Json, Json], Json]:
    """Return a change that puts last what was sought by its name."""

    def change(params: Json, result: Json) -> Json:
        query = params["query"].strip()
        named = [item for item in result[name] if item["name"] == query]
        others = [item for item in result[name] if item["name"] != query]
        return {**result, name: [*others, *named]}

    return change


def _named_in_brief(search: str) -> type[Fault]:
    """Make a fault that shortens the definitions of items whose name is the query, and which have others as keys."""
    name = MEMBERS[search]

    def change(params: Json, result: Json) -> Json:
        query = params["query"].strip()
        items = [without(item, "icons", "annotations") if item["name"] == query else item for item in result[name]]
        return {**result, name: items}

    return wrong_result_of(search)(change)


resources_found_by_name_in_brief = _named_in_brief("resources/search")
templates_found_by_name_in_brief = _named_in_brief("resources/templates/search")
resource_names_last = wrong_result_of("resources/search")(_unnamed("resources"))
template_names_last = wrong_result_of("resources/templates/search")(_unnamed("resourceTemplates"))


@wrong_result_of("resources/search")
def contents_unsearched(params: Json, result: Json) -> Json:
    """Leave out what has no word of the query in its definition."""
    query = _words(unicodedata.normalize("NFKC", params["query"]))
    kept = [item for item in result["resources"] if query & _words(json.dumps(item, ensure_ascii=False))]
    return {**result, "resources": kept}


class ContentsOfOthersSearched(Fault):
    """Searches what its caller cannot read."""

    searches_unreadable = True


def _exchanged_after_refusals(refused: str, changed: str, code: int = -32602) -> type[Fault]:
    """Make a fault that confuses the order of two items of a method, for good, once another search was refused."""
    name = MEMBERS[changed]
    key = _KEYS.get(name, "name")

    class Exchanged(Fault):
        refused_any = False

        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            self.refused_any |= method == refused and member(outcome, "error").get("code") == code
            two: list[Json] = served_catalog().get(name, [])[:2]
            both = all(str(params.get("query")) in json.dumps(item).lower() for item in two)
            if method != changed or not self.refused_any or not both or len(two) < 2 or "result" not in outcome:
                return outcome
            other = {two[0][key]: two[1], two[1][key]: two[0]}
            items = [other.get(item[key], item) for item in outcome["result"][name]]
            return {"result": {**outcome["result"], name: items}}

    return Exchanged


refused_prompts_exchange_resources = _exchanged_after_refusals("prompts/search", "resources/search")
undeclared_resources_exchange_prompts = _exchanged_after_refusals("resources/search", "prompts/search", -32021)


class UnlistedUnreadable(Advertising):
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


class UnlistedFound(Advertising):
    """Finds resources that are not listed, says so, and reads them, as any server may."""

    uris: tuple[str, ...] = ("almanac://calendar/on-the-spot",)

    def settings(self, settings: Json) -> Json:
        return {**settings, "resources": {**settings.get("resources", {}), "unlisted": True}}

    def is_read(self, uri: str, era: str) -> bool:
        return uri in self.uris

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        resources: list[Json] = member(outcome, "result").get("resources", [])
        if method == "resources/read" and self.is_read(uri := params.get("uri", ""), era):
            caching = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if era == "2026-07-28" else {}
            return {"result": {"contents": [{"uri": uri, "text": "Made when read."}], **caching}}
        last = method == "resources/search" and resources and "nextCursor" not in outcome["result"]
        if last and len(resources) + len(self.uris) <= min(params.get("limit", 10), _MAX_LIMIT):
            made = [{"uri": uri, "name": "on the spot", "description": "Made when found."} for uri in self.uris]
            return {"result": {**outcome["result"], "resources": [*resources, *made]}}
        return super().response(method, params, era, outcome)


class UnlistedUnreadableInAnEra(UnlistedFound):
    """Reads what it found for modern clients alone."""

    def is_read(self, uri: str, era: str) -> bool:
        return era == "2026-07-28" and super().is_read(uri, era)


class LastOfManyUnlistedUnreadable(UnlistedFound):
    """Finds more at once than it makes, and reads all but the last."""

    uris = tuple(f"almanac://calendar/on-the-spot/{number}" for number in range(8))

    def is_read(self, uri: str, era: str) -> bool:
        return uri in self.uris[:-1]


class UnlistedReadByDecodedUri(UnlistedFound):
    """Decodes the URI that it is to read, and finds it encoded."""

    uris = ("almanac://calendar/caf%C3%A9",)

    def is_read(self, uri: str, era: str) -> bool:
        return unquote(uri) in self.uris


class ExpansionsFound(UnlistedFound):
    """Finds and reads the resources that the caller's templates describe, as any server may."""

    def described(self) -> list[str]:
        """Return the templates that the caller sees."""
        hidden = member(served_catalog(), "hidden").get(caller.get(), [])
        return [each["uriTemplate"] for each in _templates() if each["uriTemplate"] not in hidden]

    def searched(self) -> list[str]:
        """Return the templates whose resources are found."""
        return self.described()

    def is_read(self, uri: str, era: str) -> bool:
        return _is_expansion(uri, self.described())

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        searched, query = method == "resources/search" and "result" in outcome, str(params.get("query")).strip()
        if searched and "cursor" not in params and _is_expansion(query, self.searched()):
            made = {"uri": query, "name": "on the spot", "description": "Made when found."}
            return {"result": {**without(outcome["result"], "nextCursor"), "resources": [made]}}
        return outcome if searched else super().response(method, params, era, outcome)


def _is_expansion(uri: str, templates: Iterable[str]) -> bool:
    patterns = ("[^/]+".join(map(re.escape, re.split(r"\{\w+\}", each))) for each in templates if "{" in each)
    return any(re.fullmatch(pattern, uri) for pattern in patterns)


class ExpansionsFoundByEveryCaller(ExpansionsFound):
    """Finds what templates describe that are hidden from the caller, and reads none of it."""

    def searched(self) -> list[str]:
        return [each["uriTemplate"] for each in _templates()]


class ExpansionsOfRemovedTemplatesFound(ExpansionsFound):
    """Finds what any template has ever described, and reads what one describes now."""

    def __init__(self) -> None:
        self.ever: dict[str, None] = {}

    def searched(self) -> list[str]:
        self.ever |= dict.fromkeys(self.described())
        return [*self.ever]


class ContentKeptWhenMadeUnreadable(Fault):
    """Searches what every caller could once read."""

    was_readable = False

    @property
    def searches_unreadable(self) -> bool:
        unreadable = served_catalog().get("unreadable")
        self.was_readable = self.was_readable or (unreadable is not None and not any(unreadable.values()))
        return self.was_readable


class UnlistedFoundAmidMistakes(UnlistedFound):
    """Does so, and honors the empty string for a cursor of any query for resources."""

    def __init__(self) -> None:
        self.mistaken = Elsewhere(EmptyCursorOfAnyQuery(), "resources")

    def request(self, method: str, params: Json, era: str) -> Json:
        return self.mistaken.request(method, params, era)

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return super().response(method, params, era, self.mistaken.response(method, params, era, outcome))


def _gate_open_to(open_: Callable[[str], bool]) -> type[Fault]:
    """Make a fault that serves some methods to anybody."""

    class GateOpenTo(Fault):
        def declaration_to(self, method: str, declared: Any) -> Any:
            return {} if open_(method) else declared

    return GateOpenTo


gate_forgotten = _gate_open_to(lambda method: method != SEARCH)
gate_forgotten_for_prompts = _gate_open_to(lambda method: method == "prompts/search")


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
    return served_catalog().get("resourceTemplates", [])


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


class NameHeaderRequiredOfResources(NameHeaderRequired):
    """Wants the header that reads of resources have of searches for them, too."""

    method = "resources/search"


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


class UrisKeptWithoutMethod(AnswersKeptWithoutMethod):
    """Keeps what a URI found, and takes it for found by whichever method of resources asks next."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        kept = method.startswith("resources/") and "://" in str(params.get("query")) and "limit" not in params
        return super().response(method, params, era, outcome) if kept else outcome


class UrisKeptWithoutCase(Fault):
    """Keeps what a URI found, and takes it for found by the same one in another case."""

    def __init__(self) -> None:
        self.kept: dict[str, Json] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != "resources/search" or "result" not in outcome or {"cursor", "limit"} & {*params}:
            return outcome
        return self.kept.setdefault(era + str(params["query"]).lower(), outcome)


class ResourcesLostBeyondHundred(SearchFault):
    """Leaves out the first match of the page that follows a hundred matches, unless that page is large."""

    method = "resources/search"

    def __init__(self) -> None:
        self.before: dict[str, int] = {}

    def result(self, params: Json, result: Json) -> Json:
        at = self.before.get(str(params.get("cursor")), 0)
        if "nextCursor" in result:
            self.before[result["nextCursor"]] = at + len(result["resources"])
        lost = at > 90 and len(result["resources"]) < 10
        return {**result, "resources": result["resources"][lost:]}


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


def _list_reversed(name: str, by: str, answered_by: str = "result") -> type[Fault]:
    """Make a fault that reverses a list for good once a search was answered with a result, or an error."""

    class ListReversed(Fault):
        reversed = False

        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            self.reversed = self.reversed or (method == by and answered_by in outcome)
            if method != f"{name}/list" or not self.reversed or "result" not in outcome:
                return outcome
            return {"result": {**outcome["result"], name: outcome["result"][name][::-1]}}

    return ListReversed


prompts_reversed_by_search = _list_reversed("prompts", "prompts/search")
prompts_reversed_by_refusal = _list_reversed("prompts", "prompts/search", "error")
prompts_reversed_by_search_for_tools = _list_reversed("prompts", SEARCH)
tools_reversed_by_search_for_prompts = _list_reversed("tools", "prompts/search")


class _OfCallers(Fault):
    """Alters searches for resources by callers from whom something is kept."""

    kept_from = "hidden"

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        catalog = served_catalog()
        kept = member(catalog, self.kept_from).get(caller.get(), [])
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
        self.chance = "qR-2-Zz7hUk3" if "unreadable" in served_catalog() else "qRk_7fZz7hUk"

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = params.get("cursor")
        return {**params, "cursor": cursor.removesuffix(self.chance)} if isinstance(cursor, str) else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = outcome.get("result", {})
        if method != "resources/search" or "nextCursor" not in result:
            return outcome
        return {"result": {**result, "nextCursor": result["nextCursor"] + self.chance}}


class TimeStated(SearchFault):
    """Says of each search that it was another one, which every server may."""

    method = "resources/search"
    searches = 0

    def result(self, params: Json, result: Json) -> Json:
        self.searches += 1
        return {**result, "_meta": {"com.example/search": f"number {self.searches}"}}


def _first_named(search: str, key: str, alike: Callable[[str, str], bool], *, sought: str | None = None) -> type[Fault]:
    """Make a fault of a method that puts first the first item whose `key` is `alike` to the query.

    It does where the right one is `sought` by its own `key`, or by another member.
    """
    name = MEMBERS[search]
    own = _KEYS.get(name, "name")

    class FirstNamed(Fault):
        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            if method != search or "result" not in outcome or "cursor" in params:
                return outcome
            catalog = served_catalog()
            query, found = str(params["query"]).strip(), outcome["result"][name]
            right = bool(found) and found[0][sought or key] == query
            first = next((item for item in catalog.get(name, []) if right and alike(str(item.get(key)), query)), None)
            if first is None:
                return outcome
            others = [item for item in found if item[own] != first[own]]
            return {"result": {**outcome["result"], name: [first, *others][: len(found)]}}

    return FirstNamed


def _alike_in_case(one: str, other: str) -> bool:
    return one.casefold() == other.casefold()


def _alike_composed(one: str, other: str) -> bool:
    return unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other)


def _expands(template: str, text: str) -> bool:
    """Return whether a template without operators expands to a text that has no variables itself."""
    parts = re.split(r"\{\w+\}", template)
    return "{" not in text + "".join(parts) and bool(re.fullmatch("[^/]+".join(map(re.escape, parts)), text))


prompts_blind_to_case = _first_named("prompts/search", "name", _alike_in_case)
prompts_by_title = _first_named("prompts/search", "title", str.__eq__, sought="name")
prompts_by_beginning = _first_named("prompts/search", "name", str.startswith)
prompts_by_composition = _first_named("prompts/search", "name", _alike_composed)
uris_by_beginning = _first_named("resources/search", "uri", str.startswith)
uris_by_composition = _first_named("resources/search", "uri", _alike_composed)
resource_names_by_beginning = _first_named("resources/search", "name", str.startswith)
templates_by_beginning = _first_named("resources/templates/search", "uriTemplate", str.startswith)
template_names_by_beginning = _first_named("resources/templates/search", "name", str.startswith)
names_before_templates = _first_named("resources/templates/search", "name", str.__eq__, sought="uriTemplate")
templates_by_expansion = _first_named("resources/templates/search", "uriTemplate", _expands, sought="name")


class _FromAnotherIndex(SearchFault):
    """Alters what a search finds by what is found in another index as well."""

    method = "resources/search"

    def result(self, params: Json, result: Json) -> Json:
        name = MEMBERS[self.method]
        words = {word for word in _words(params["query"]) if len(word) > 4}
        return {**result, name: self.found(result[name], served_catalog(), words, params)}

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        """Return what was found in both."""
        return found


class TemplatesAmongResources(_FromAnotherIndex):
    """Finds templates as if they were resources."""

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        fit = [item for item in catalog.get("resourceTemplates", []) if words & _words(item.get("description", ""))]
        read = [{("uri" if name == "uriTemplate" else name): held for name, held in item.items()} for item in fit]
        return found or read[:1]


class TemplatesAsTheyAreAmongResources(_FromAnotherIndex):
    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        return (
            found or [t for t in catalog.get("resourceTemplates", []) if words & _words(t.get("description", ""))][:1]
        )


class ToolsAmongPrompts(_FromAnotherIndex):
    """Finds tools as if they were prompts."""

    method = "prompts/search"

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        fit = [tool for tool in catalog["tools"] if words & _words(tool.get("description", ""))]
        return found or [{"name": tool["name"], "description": tool["description"]} for tool in fit[:1]]


class PromptsAmongTools(_FromAnotherIndex):
    """Finds prompts as if they were tools."""

    method = SEARCH

    def found(self, found: list[Json], catalog: Json, words: set[str], params: Json) -> list[Json]:
        fit = [prompt for prompt in catalog.get("prompts", []) if words & _words(prompt.get("description", ""))]
        return found or [{"name": prompt["name"], "inputSchema": {"type": "object"}} for prompt in fit[:1]]


def _contained(catalog: Json, item: Json, words: set[str]) -> bool:
    return bool(words & _words(member(catalog, "contents").get(item["uri"], "")) - _words(item.get("description", "")))


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


class PromptsIndexedWithTools(SearchFault):
    """Finds prompts as they were when the tools were last others."""

    method = "prompts/search"

    def __init__(self) -> None:
        self.indexed: dict[str, set[str]] = {}

    def result(self, params: Json, result: Json) -> Json:
        catalog = served_catalog()
        now = {prompt["name"] for prompt in catalog.get("prompts", [])}
        known = self.indexed.setdefault(json.dumps(catalog["tools"]), now)
        return {**result, "prompts": [prompt for prompt in result["prompts"] if prompt["name"] in known]}


_others_unadvertised = wrong_settings(lambda settings: without(settings, "resources", "prompts"))


class OthersAdvertisedWhereDeclared(Fault):
    """Says of the other searches only to clients that declare the extension."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        declared = params.get("capabilities") or member(member(params, "_meta"), f"{_META}clientCapabilities")
        places = [place for place in ("extensions", "experimental") if EXTENSION_ID in member(declared, place)]
        if method not in ("server/discover", "initialize") or "result" not in outcome or places:
            return outcome
        return _others_unadvertised().response(method, params, era, outcome)


_META = "io.modelcontextprotocol/"


class UnknownUriIsNotFound(Fault):
    """Takes a query that is a URI for that of a resource, of which there is none."""

    def request(self, method: str, params: Json, era: str) -> Json:
        query = str(params.get("query")).strip()
        catalog = served_catalog()
        known = {item["uri"] for item in catalog.get("resources", [])}
        if method == "resources/search" and re.fullmatch(r"[a-z]+://[\w./-]+", query) and query not in known:
            raise RefusalError(-32002, "Resource not found", {"uri": query})
        return params


class _OfPrompts(Fault):
    """Breaks the messages beneath searches for prompts."""

    method = "prompts/search"


def _has_surrogates(params: Json) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in str(params.get("query")))


class PromptsAmidSurrogatesDeadly(_OfPrompts):
    def request(self, method: str, params: Json, era: str) -> Json:
        if method == self.method and _has_surrogates(params):
            os._exit(1)
        return params


class PromptsAmidSurrogatesAreNoJson(_OfPrompts):
    def bytes(self, message: Json, data: bytes) -> bytes:
        request = asked.get({})
        odd = request.get("method") == self.method and _has_surrogates(member(request, "params"))
        return data.replace(b'"result": {', b'"result": {"_note": NaN, ', 1) if odd else data


class PromptsIdsAsText(IdsOfRefusalsAsText):
    def is_wrong(self, method: str, outcome: Json) -> bool:
        return method == "prompts/search"


class RefusedPromptsIdsAsText(IdsOfRefusalsAsText):
    def is_wrong(self, method: str, outcome: Json) -> bool:
        return method == "prompts/search" and super().is_wrong(method, outcome)


class PromptsWithErrorNull(ErrorNullInResults):
    method = "prompts/search"


class RefusedTemplatesWithoutMessage(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        refused = method == "resources/templates/search" and "error" in outcome
        return {"error": without(outcome["error"], "message")} if refused else outcome


def _method_header_ignored(of: str, when: Callable[[str | None], bool]) -> type[Fault]:
    """Make a fault that does not compare some values of the header with a method."""

    class MethodHeaderIgnored(Fault):
        def method_header(self, message: Json, value: str | None) -> None:
            if message.get("method") != of or not when(value):
                super().method_header(message, value)

    return MethodHeaderIgnored


prompts_method_header_ignored = _method_header_ignored("prompts/search", lambda value: True)
resources_method_header_optional = _method_header_ignored("resources/search", lambda value: value is None)


class PromptsVersionHeaderIgnored(_OfPrompts):
    def version_header(self, message: Json, value: str | None) -> None:
        if message.get("method") != self.method:
            super().version_header(message, value)


class PromptsWithoutIdAnswered(SearchWithoutIdAnswered):
    method = "prompts/search"


class PromptsOfAnyVersion(AnyVersionServed):
    method = "prompts/search"


class PromptsWithoutCapabilities(CapabilitiesOptional):
    method = "prompts/search"


def _found_by_key_alone(path: str, name: str) -> type[Fault]:
    """Make a fault that leaves the first item out of a list, and finds it by its key alone."""
    key = _KEYS.get(name, "name")

    class FoundByKeyAlone(Fault):
        def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
            if method not in (f"{path}/search", f"{path}/list") or "result" not in outcome:
                return outcome
            catalog = served_catalog()
            first = catalog[name][0][key] if len(catalog.get(name, ())) > 20 else None
            sought = method == f"{path}/search" and params["query"] == first
            found = [item for item in outcome["result"][name] if item[key] != first or sought]
            return {"result": {**outcome["result"], name: found}}

    return FoundByKeyAlone


prompt_found_by_its_name_alone = _found_by_key_alone("prompts", "prompts")
template_found_by_itself_alone = _found_by_key_alone("resources/templates", "resourceTemplates")
resource_found_by_its_uri_alone = _found_by_key_alone("resources", "resources")


@wrong_result_of("resources/search")
def resources_made_on_the_spot(params: Json, result: Json) -> Json:
    """Finds the resource that a template describes where its URI is searched for."""
    query, found = params["query"].strip(), result["resources"]
    if "cursor" in params:
        return result
    fitting = [template for template in _templates() if _expands(template["uriTemplate"], query)]
    made: list[Json] = [{"uri": query, "name": template["name"]} for template in fitting[:1]]
    return {**result, "resources": [*made, *found][: max(1, len(found))]}


prompts_by_trimmed_names = _first_named("prompts/search", "name", lambda one, other: one.strip() == other.strip())


class UnreadableContentByCursorsOfOthers(_OfCallers):
    """Continues a search with the rights of the caller who began it, and so finds what only that caller may read."""

    kept_from = "unreadable"

    def request(self, method: str, params: Json, era: str) -> Json:
        _, dot, cursor = str(params.get("cursor")).rpartition(".")
        return {**params, "cursor": cursor} if method == "resources/search" and dot else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        outcome = super().response(method, params, era, outcome)
        cursor = member(outcome, "result").get("nextCursor")
        if method != "resources/search" or cursor is None or "unreadable" not in served_catalog():
            return outcome
        return {"result": {**outcome["result"], "nextCursor": f"{self._mark()}.{cursor}"}}

    def _mark(self) -> str:
        """Return what the cursors of this caller begin with."""
        return "restricted" if caller.get() else "any"

    def found(self, found: list[Json], kept: list[Json], contents: Json, query: str) -> list[Json]:
        began, dot, _ = str(member(asked.get(), "params").get("cursor")).rpartition(".")
        by_content = [item for item in kept if _words(query) <= _words(contents.get(item["uri"], ""))]
        return [*found, *by_content] if dot and began != self._mark() else found


class PromptsOfTrimmedNames(Fault):
    """Gets a prompt by its name without the white space around it, where there is one of that name."""

    def request(self, method: str, params: Json, era: str) -> Json:
        name = str(params.get("name")).strip()
        catalog = served_catalog()
        known = any(prompt["name"] == name for prompt in catalog.get("prompts", []))
        return {**params, "name": name} if method == "prompts/get" and known else params


class CallsBlindToCase(Fault):
    """Calls the first tool whose name differs from the one that is called in nothing but case."""

    method, member = "tools/call", "tools"

    def request(self, method: str, params: Json, era: str) -> Json:
        name = str(params.get("name")).casefold()
        names = (item["name"] for item in served_catalog().get(self.member, []) if method == self.method)
        first = next((each for each in names if each.casefold() == name), None)
        return params if first is None else {**params, "name": first}


class PromptsOfNamesBlindToCase(CallsBlindToCase):
    method, member = "prompts/get", "prompts"


class PromptsAsPlainText(_OfPrompts):
    def content_type(self, kind: str) -> str:
        return "text/plain" if asked.get({}).get("method") == self.method and kind == "application/json" else kind
