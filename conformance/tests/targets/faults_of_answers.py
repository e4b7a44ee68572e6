"""Faults of results, and side effects of searches."""

from __future__ import annotations

import hashlib
import html
import json
import re
import time
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from .faults import (
    EXTENSION_ID,
    SEARCH,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    kept_answers,
    member,
    search_of,
    served_catalog,
    session,
    without,
    wrong_items,
    wrong_params,
    wrong_result,
)

next_cursor_null = wrong_result(lambda _, result: {"nextCursor": None, **result})
last_page_cursor_null = wrong_result(
    lambda params, result: {"nextCursor": None, **result} if "cursor" in params else result
)
no_match_is_null = wrong_result(lambda _, result: {**result, "tools": result["tools"] or None})
tools_by_name = wrong_result(lambda _, result: {**result, "tools": {tool["name"]: tool for tool in result["tools"]}})
result_meta_text = wrong_result(lambda _, result: {**result, "_meta": "primary"})
result_type_page = wrong_result(lambda _, result: {**result, "resultType": "page"})
ttl_negative = wrong_result(lambda _, result: {**result, "ttlMs": -1})
ttl_missing = wrong_result(lambda _, result: without(result, "ttlMs"))
cache_scope_unknown = wrong_result(lambda _, result: {**result, "cacheScope": "shared"})
cache_scope_changes = wrong_result(
    lambda params, result: {**result, "cacheScope": "private" if "cursor" in params else "public"}
)


@wrong_result
def matches_key(params: Json, result: Json) -> Json:
    if params["query"].startswith("qzx"):
        result["matches"] = result.pop("tools")
    return result


@wrong_result
def asks_for_input(params: Json, result: Json) -> Json:
    able = params.get("_meta", {}).get("io.modelcontextprotocol/clientCapabilities", {})
    if "elicitation" not in able:
        return result
    schema = {"type": "object", "properties": {"query": {"type": "string"}}}
    wanted = {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": "Which?", "requestedSchema": schema},
    }
    return {"resultType": "input_required", "inputRequests": {"which": wanted}, "requestState": "s"}


@wrong_result
def last_page_untyped(params: Json, result: Json) -> Json:
    last = "cursor" in params and "nextCursor" not in result
    return without(result, "resultType") if last else result


@wrong_result
def last_page_ttl_text(params: Json, result: Json) -> Json:
    last = "cursor" in params and "nextCursor" not in result
    return {**result, "ttlMs": "1000"} if last and "ttlMs" in result else result


def _hits(result: Json, change: Json) -> Json:
    tools = [
        {**t, "_meta": {**t.get("_meta", {}), EXTENSION_ID: {**t.get("_meta", {}).get(EXTENSION_ID, {}), **change}}}
        for t in result["tools"]
    ]
    return {**result, "tools": tools}


score_in_percent = wrong_result(lambda _, result: _hits(result, {"score": 87.5}))
matched_text = wrong_result(lambda _, result: _hits(result, {"matched": "name"}))


@wrong_result
def later_scores_over_one(params: Json, result: Json) -> Json:
    return {
        **result,
        "tools": [*result["tools"][:10], *_hits({"tools": result["tools"][10:]}, {"score": 1.5})["tools"]],
    }


@wrong_result
def score_of_trimmed_name(params: Json, result: Json) -> Json:
    trimmed = params["query"] != params["query"].strip()
    return _hits(result, {"score": 2}) if trimmed else result


class TotalReported(SearchFault):
    """Adds the number of matches, learned by asking for all of them first."""

    def __init__(self) -> None:
        self.totals: dict[str, set[str]] = {}

    def result(self, params: Json, result: Json) -> Json:
        found = self.totals.setdefault(params["query"], set())
        found.update(tool["name"] for tool in result["tools"])
        return result | self.reported(len(found), len(result["tools"]))

    def reported(self, total: int, on_page: int) -> Json:
        return {"total": total}


def _total_as(report: Callable[[int, int], Json]) -> type[Fault]:
    """Make a fault that adds the number of matches, reported with the number on the page in some way."""

    class TotalAs(TotalReported):
        def reported(self, total: int, on_page: int) -> Json:
            return report(total, on_page)

    return TotalAs


total_in_words = _total_as(lambda total, _: {"_meta": {"com.example/summary": f"{total} tools match"}})
remainder_reported = _total_as(lambda total, on_page: {"remaining": total - on_page})
# Does not count on beyond ten.
total_up_to_ten = _total_as(lambda total, _: {"hits": {"value": min(total, 10)}})
total_of_groups = _total_as(lambda total, _: {"groups": {"one": total // 2, "other": total - total // 2}})
matches_named = _total_as(lambda total, _: {"_meta": {"com.example/ranks": {f"n{n}": None for n in range(total)}}})
matches_numbered = _total_as(lambda total, _: {"_meta": {"com.example/ranks": [*range(total)]}})


class TotalOnLaterPages(TotalReported):
    def result(self, params: Json, result: Json) -> Json:
        changed = super().result(params, result)
        return changed if "cursor" in params else result


class TotalUnderLargerLimits(TotalReported):
    def result(self, params: Json, result: Json) -> Json:
        changed = super().result(params, result)
        return changed if params.get("limit", 10) > 2 else result


class TotalInHitMetadata(TotalReported):
    total = 0

    def result(self, params: Json, result: Json) -> Json:
        return _hits(super().result(params, result), {"com.example/of": self.total})

    def reported(self, total: int, on_page: int) -> Json:
        self.total = total
        return {}


@wrong_result
def unlisted_tool_found(params: Json, result: Json) -> Json:
    if "limit" not in params and "nextCursor" not in result and result["tools"]:
        return {**result, "tools": [*result["tools"], {**result["tools"][-1], "name": "hidden_tool"}]}
    return result


def _schema_without(tool: Json, name: str) -> Json:
    return {**tool, "inputSchema": without(tool["inputSchema"], name)}


def _described(tool: Json, change: Callable[[str], str]) -> Json:
    return {**tool, "description": change(tool["description"])} if "description" in tool else tool


descriptions_cut = wrong_items(lambda tool: _described(tool, lambda text: text[:40]))
descriptions_end_with_nul = wrong_items(lambda tool: _described(tool, lambda text: text.partition("\0")[0]))
output_schema_left_out = wrong_items(lambda tool: without(tool, "outputSchema"))
meta_left_out = wrong_items(lambda tool: without(tool, "_meta"))


@wrong_result
def meta_of_later_pages_left_out(params: Json, result: Json) -> Json:
    return {**result, "tools": [without(tool, "_meta") for tool in result["tools"]]} if "cursor" in params else result


icons_left_out = wrong_items(lambda tool: without(tool, "icons"))
unknown_members_left_out = wrong_items(lambda tool: without(tool, *(name for name in tool if name.startswith("x-"))))
# Encodes what is null as absent, as many JSON writers do.
null_members_left_out = wrong_items(lambda tool: {name: value for name, value in tool.items() if value is not None})
schema_dialect_left_out = wrong_items(lambda tool: _schema_without(tool, "$schema"))
additional_properties_left_out = wrong_items(lambda tool: _schema_without(tool, "additionalProperties"))
markup_escaped = wrong_items(lambda tool: {**tool, "title": html.escape(tool["title"])} if "title" in tool else tool)
descriptions_cut_at_1000 = wrong_items(lambda tool: _described(tool, lambda text: text[:1000]))
descriptions_printable = wrong_items(lambda tool: _described(tool, lambda text: re.sub("[\x01-\x08\x7f]", "", text)))
descriptions_trimmed = wrong_items(lambda tool: _described(tool, str.strip))
descriptions_composed = wrong_items(lambda tool: _described(tool, lambda text: unicodedata.normalize("NFC", text)))


@wrong_items
def descriptions_of_parameters_cut(tool: Json) -> Json:
    """Cuts them off where only a long catalog entry reaches."""
    schema = member(tool, "inputSchema")
    cut = {name: _described(held, lambda text: text[:2000]) for name, held in member(schema, "properties").items()}
    return {**tool, "inputSchema": {**schema, "properties": cut}} if "properties" in schema else tool


@wrong_result
def later_hits_summarized(params: Json, result: Json) -> Json:
    """Defines the ten best in full."""
    summaries = [{**tool, "inputSchema": {"type": "object"}} for tool in result["tools"][10:]]
    return {**result, "tools": [*result["tools"][:10], *summaries]}


class LegacyOutputSchemaAny(Fault):
    """Defines tools for legacy clients with output schemas that only the modern era has."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if era != "2026-07-28" and method in {"tools/list", SEARCH}:
            for tool in member(outcome, "result").get("tools", []):
                if tool["name"] == "LibraryRenewLoan":
                    tool["outputSchema"] = {"type": "array"}
        return outcome


@wrong_result
def first_repeated(params: Json, result: Json) -> Json:
    if "limit" not in params and "nextCursor" not in result and len(result["tools"]) > 1:
        return {**result, "tools": [*result["tools"], result["tools"][0]]}
    return result


@wrong_result
def last_repeated_without_score(params: Json, result: Json) -> Json:
    if "limit" in params or "nextCursor" in result or len(result["tools"]) < 2:
        return result
    last = dict(result["tools"][-1])
    meta = {name: value for name, value in last.pop("_meta", {}).items() if name != EXTENSION_ID}
    return {**result, "tools": [*result["tools"], {**last, "_meta": meta} if meta else last]}


class SearchMarksListing(Fault):
    """Tools that were searched for by name are marked in later listings."""

    def __init__(self) -> None:
        self.sought: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "query" in params:
            self.sought.add(str(params["query"]))
        for tool in member(outcome, "result").get("tools", []):
            if tool["name"] in self.sought:
                tool["title"] = "Most used"  # words that are no query of any check
        return outcome


class ManySearchesChangeDefinitions(Fault):
    """Drops the titles of tools, found or listed, from the second search on."""

    searches = 0

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.searches += method == SEARCH
        for tool in member(outcome, "result").get("tools", []):
            if self.searches > 1:
                tool.pop("title", None)
        return outcome


class NamesOfDigitsUnknown(SearchFault):
    """Takes a query of digits for an id, which no name is: another tool that has it comes first."""

    def params(self, params: Json) -> Json:
        return {**params, "limit": 2} if self._is_number(params) and params.get("limit") == 1 else params

    def result(self, params: Json, result: Json) -> Json:
        known = self._is_number(params) and len(result["tools"]) > 1
        return {**result, "tools": result["tools"][1:]} if known else result

    def _is_number(self, params: Json) -> bool:
        return str(params.get("query")).isdecimal()


class SearchCompletesSchemas(Fault):
    """Adds what a schema lacks to the definition that is listed, when it is found."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        tools: list[Json] = member(outcome, "result").get("tools", [])
        for tool in tools:
            if tool["name"] in self.found and "properties" not in tool["inputSchema"]:
                tool["inputSchema"] = {**tool["inputSchema"], "properties": {}}
        if method == SEARCH:
            self.found |= {tool["name"] for tool in tools if params.get("limit") == 1}
        return outcome


class _Enabling(Fault, ABC):
    """Remembers what was found, in the same process."""

    def __init__(self) -> None:
        self.found: list[Json] = []

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        tools: list[Json] = member(outcome, "result").get("tools", [])
        if method == SEARCH:
            self.found += tools[:1]
        elif method == "tools/list" and self.found:
            outcome["result"]["tools"] = self.listed(tools, "cursor" not in params)
        return outcome

    @abstractmethod
    def listed(self, tools: list[Json], first: bool) -> list[Json]: ...


class SearchEnablesATool(_Enabling):
    """Lists one tool more, whose name cannot be searched for."""

    def listed(self, tools: list[Json], first: bool) -> list[Json]:
        return [*tools, *[{"name": " ", "inputSchema": {"type": "object"}}][: int(first)]]


class SearchMovesATool(_Enabling):
    """Lists the tool that was found last at the end of its page."""

    def listed(self, tools: list[Json], first: bool) -> list[Json]:
        name = self.found[-1]["name"]
        return sorted(tools, key=lambda tool: tool["name"] == name)


class IndexHalfBuiltAtFirst(SearchFault):
    """Begins its index at the first search, and takes it for whole when others come at the same time."""

    is_begun = is_built = False

    def result(self, params: Json, result: Json) -> Json:
        if not self.is_begun:
            self.is_begun = True
            time.sleep(0.05)
            self.is_built = True
        return result if self.is_built else {**without(result, "nextCursor"), "tools": self.indexed(params, result)}

    def indexed(self, params: Json, result: Json) -> list[Json]:
        """Return what is found with no index yet."""
        return []


class IndexOfWordsHalfBuiltAtFirst(IndexHalfBuiltAtFirst):
    """Finds a tool by its name without the index."""

    def indexed(self, params: Json, result: Json) -> list[Json]:
        return [tool for tool in result["tools"] if tool["name"] == params["query"]]


class SearchWantsListing(Fault):
    """Finds nothing in a process that has not listed yet."""

    listed = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.listed = self.listed or method == "tools/list"
        if method == SEARCH and not self.listed and "result" in outcome:
            outcome["result"]["tools"] = []
        return outcome


class SessionWantsListing(Fault):
    """Finds nothing in a session that has not listed yet."""

    def __init__(self) -> None:
        self.listed: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "tools/list":
            self.listed.add(session.get())
        if method == SEARCH and session.get() not in self.listed and "result" in outcome:
            outcome["result"]["tools"] = []
        return outcome


@wrong_result
def exact_name_second(params: Json, result: Json) -> Json:
    tools = result["tools"]
    if "limit" not in params and len(tools) > 1 and tools[0]["name"] == params["query"].strip():
        return {**result, "tools": [tools[1], tools[0], *tools[2:]]}
    return result


@wrong_result
def capitals_match_nothing(params: Json, result: Json) -> Json:
    return {**result, "tools": []} if params["query"].isupper() and " " not in params["query"] else result


def _unmatched(is_odd: Callable[[str], bool]) -> type[Fault]:
    """Return the fault that finds nothing by a word in which a character is odd, except a name."""

    def unmatched(params: Json, result: Json) -> Json:
        query = unicodedata.normalize("NFC", params["query"]).strip()
        named = any(tool["name"].strip() == params["query"].strip() for tool in result["tools"])
        odd = " " not in query and any(map(is_odd, query)) and not named
        return {**result, "tools": []} if odd else result

    return wrong_result(unmatched)


other_capitals_match_nothing = _unmatched(lambda c: c.isupper() and not c.isascii())
greek_capitals_match_nothing = _unmatched(lambda c: "\u0391" <= c <= "\u03a9")
astral_capitals_match_nothing = _unmatched(lambda c: c.isupper() and c > "\uffff")


def _of_nothing(change: Callable[[Json], Json]) -> type[Fault]:
    """Make a fault of the results where no tool is listed."""
    return wrong_result(lambda _, result: result if served_catalog()["tools"] else change(result))


# Encodes an empty list that was never made as `null`.
nothing_is_null = _of_nothing(lambda result: {**result, "tools": None})
nothing_is_untyped = _of_nothing(lambda result: without(result, "resultType"))
nothing_is_uncached = _of_nothing(lambda result: without(result, "ttlMs", "cacheScope"))


def _words(*texts: object) -> set[str]:
    return set(re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", " ".join(map(str, texts))).casefold()))


def _wrong_match(passes_over: Callable[[str, Json], bool]) -> type[Fault]:
    def keep(params: Json, result: Json) -> Json:
        query = params["query"]

        def is_kept(tool: Json) -> bool:
            # Of another list, the name comes after the identifier.
            return query.strip() in (tool["name"], tool.get("own name")) or not passes_over(query, tool)

        return {**result, "tools": [tool for tool in result["tools"] if is_kept(tool)]}

    return wrong_result(keep)


titles_unsearched = _wrong_match(
    lambda query, tool: not _words(query) & _words(tool["name"], tool.get("description")) and "title" in tool
)
descriptions_unsearched = _wrong_match(lambda query, tool: not _words(query) & _words(tool["name"], tool.get("title")))
three_terms_match_nothing = _wrong_match(lambda query, tool: len(_words(query)) == 3)
ascii_terms_only = _wrong_match(lambda query, tool: re.search("[A-Za-z0-9]", query) is None)
figures_unsearched = _wrong_match(lambda query, tool: any(word.isdigit() for word in _words(query)))
letters_unindexed = _wrong_match(
    lambda query, tool: len(_words(query)) == 2 and any(len(word) == 1 for word in _words(query))
)
other_figures_unsearched = _wrong_match(
    lambda query, tool: any(c.isdecimal() and not unicodedata.normalize("NFKC", c).isascii() for c in query)
)
ligatures_kept = _wrong_match(lambda query, tool: re.search("[\ufb00-\ufb06]", query) is not None)
operators_read = _wrong_match(lambda query, tool: re.search(r'^["(\'@+-]|[*?]$', query) is not None)
nothing_after_nul = _wrong_match(lambda query, tool: query.startswith("\0"))
beginnings_indexed = _wrong_match(
    lambda query, tool: not _words(query) & _words(tool["name"], tool.get("description", "")[:500])
)
long_descriptions_cut = _wrong_match(
    lambda query, tool: not _words(query) & _words(tool["name"], tool.get("description", "")[:8000])
)
apostrophes_kept = _wrong_match(
    lambda query, tool: (
        re.search(rf"\w'{re.escape(query)}\b|\b{re.escape(query)}'\w", tool.get("description", "")) is not None
    )
)
# As of a server that maps each code point to the lower case of its upper case.
capital_sharp_s_kept = _wrong_match(lambda query, tool: "ẞ" in query)
sharp_s_kept = _wrong_match(lambda query, tool: "ss" in query and "ß" in tool.get("description", ""))


def _unmatched_queries(when: Callable[[str], bool]) -> type[Fault]:
    return wrong_result(lambda params, result: {**result, "tools": []} if when(params["query"]) else result)


names_without_terms_unsearched = _unmatched_queries(lambda query: not _words(query))
exact_name_beside_nel = wrong_result(
    lambda params, result: {**result, "tools": result["tools"][1:]} if "\x85" in params["query"] else result
)


@wrong_result
def common_name_amid_much_space_unfound(params: Json, result: Json) -> Json:
    """Trim only so much white space, and rank the named tool by its words, which many others have."""
    query = params["query"].strip()
    named = [tool["name"] for tool in result["tools"][:1]] == [query] and len(params["query"]) > len(query) + 500
    common = named and sum(query in json.dumps(tool) for tool in served_catalog()["tools"]) > 50
    return {**result, "tools": result["tools"][1:]} if common else result


@wrong_result
def common_name_without_limit_unfound(params: Json, result: Json) -> Json:
    """Ranks the tool that many others resemble by its words, unless the request has a limit."""
    tools = result["tools"]
    named = [tool["name"] for tool in tools[:1]] == [params["query"]] and "limit" not in params
    common = named and sum(params["query"] in json.dumps(tool) for tool in served_catalog()["tools"]) > 50
    return {**result, "tools": tools[1:]} if common else result


@wrong_result
def names_alike_beyond_sixteen_bits(params: Json, result: Json) -> Json:
    """Compares as some collations of databases do, for which all characters beyond 16 bits are equal."""

    def collated(text: str) -> str:
        return "".join(min(character, "\U00010000") for character in text)

    alike = [tool for tool in served_catalog()["tools"] if collated(tool["name"]) == collated(params["query"])]
    return {**result, "tools": [*alike[:1], *result["tools"][1:]]} if len(alike) > 1 else result


@wrong_result
def name_of_prototype_unknown(params: Json, result: Json) -> Json:
    return {**result, "tools": [tool for tool in result["tools"] if tool["name"] != "__proto__"]}


@wrong_result
def exact_name_under_large_limits(params: Json, result: Json) -> Json:
    tools = result["tools"]
    named = bool(tools) and tools[0]["name"] == params["query"].strip()
    return {**result, "tools": tools[1:]} if named and params.get("limit", 0) > 50 else result


def _without_zeros(members: Json) -> Json:
    return {name: value for name, value in members.items() if value not in (0, False)}


zeros_left_out = wrong_items(
    lambda tool: {**tool, "inputSchema": json.loads(json.dumps(tool["inputSchema"]), object_hook=_without_zeros)}
)
empty_titles_left_out = wrong_items(lambda tool: tool if tool.get("title") != "" else without(tool, "title"))
plain_meta_left_out = wrong_items(
    lambda tool: {**tool, "_meta": {key: value for key, value in member(tool, "_meta").items() if "/" in key}}
)
nested_hits_left_out = wrong_items(
    lambda tool: json.loads(json.dumps(tool), object_hook=lambda members: without(members, EXTENSION_ID))
)
null_meta_left_out = wrong_items(
    lambda tool: {**tool, "_meta": {key: value for key, value in member(tool, "_meta").items() if value is not None}}
)


def _respelled(spelling: str, other: str) -> type[Fault]:
    """Make a fault that spells a part of input schemas in another way."""

    @wrong_items
    def respell(tool: Json) -> Json:
        return {**tool, "inputSchema": json.loads(json.dumps(tool["inputSchema"]).replace(spelling, other))}

    return respell


type_alone = _respelled('["string"]', '"string"')
keys_without_leading_zeros = _respelled('"007":', '"7":')
dots_in_keys_replaced = _respelled('"v1.2":', '"v1_2":')
second_icons_left_out = wrong_items(lambda tool: {**tool, "icons": tool["icons"][:1]} if "icons" in tool else tool)


@wrong_result
def names_trimmed(params: Json, result: Json) -> Json:
    """Compares with the query what names are without white space at their ends, too."""
    alike = [tool for tool in result["tools"] if tool["name"].strip() == params["query"].strip()]
    return {**result, "tools": [*alike[1:], *alike[:1], *(tool for tool in result["tools"] if tool not in alike)]}


def _with_first(name: str, result: Json) -> Json:
    """Return a result whose page begins with the tool of that name, if it is on it."""
    return {**result, "tools": sorted(result["tools"], key=lambda tool: tool["name"] != name)}


def _number(text: str) -> float | None:
    with suppress(ValueError):
        return float(text)
    return None


@wrong_result
def names_of_equal_numbers(params: Json, result: Json) -> Json:
    """Compares texts that look like numbers by their values; the first tool with an equal name comes first."""
    number = _number(params["query"])
    equal = [tool for tool in served_catalog()["tools"] if number is not None and _number(tool["name"]) == number]
    others = [tool for tool in result["tools"] if tool["name"] not in {tool["name"] for tool in equal[:1]}]
    return {**result, "tools": [*equal[:1], *others][: len(result["tools"])]}


@wrong_result
def query_trimmed_first(params: Json, result: Json) -> Json:
    """Compares names with the query without white space at its ends alone."""
    return _with_first(params["query"].strip(), result)


@wrong_result
def names_composed_alike(params: Json, result: Json) -> Json:
    """Compares names and the query as they are composed: of two tools, the one whose name is composed comes first."""
    return _with_first(unicodedata.normalize("NFC", params["query"]), result)


@wrong_result
def names_composed_alike_amid_spaces(params: Json, result: Json) -> Json:
    """Does so where the query has white space at its ends."""
    query = params["query"].strip()
    return _with_first(unicodedata.normalize("NFC", query), result) if query != params["query"] else result


@wrong_result
def names_alike_but_for_invisible_characters(params: Json, result: Json) -> Json:
    return _with_first(params["query"].strip().replace("\u00ad", ""), result)


def _trimmed_of(characters: str) -> Callable[[Json, Json], Json]:
    """Make a function that takes more than white space away at the ends of a query that has some there."""

    def trimmed(params: Json, result: Json) -> Json:
        query = params["query"].strip()
        return _with_first(query.strip(characters), result) if query != params["query"] else result

    return trimmed


byte_order_mark_trimmed = wrong_result(_trimmed_of("\ufeff"))
zero_width_space_trimmed = wrong_result(_trimmed_of("\u200b"))
quotes_trimmed = wrong_result(_trimmed_of("'\"`"))


@wrong_result
def inner_spaces_joined(params: Json, result: Json) -> Json:
    """Takes all white space inside a query that has some at its ends for one space."""
    query = params["query"].strip()
    return _with_first(" ".join(query.split()), result) if query != params["query"] else result


class _Calls(Fault, ABC):
    """Refuses some calls, as if of unknown tools."""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "tools/call" and not self.is_known(str(params.get("name"))):
            raise RefusalError(-32602, "Unknown tool", None)
        return params

    @abstractmethod
    def is_known(self, name: str) -> bool:
        """Return whether a tool can be called by this name."""


class CallsOfNamesInAsciiOnly(_Calls):
    def is_known(self, name: str) -> bool:
        return name.isascii()


class CallsOfShortNamesOnly(_Calls):
    """Holds no name of more than 64 characters for one of a tool, as the interfaces of some models do."""

    def is_known(self, name: str) -> bool:
        return len(name) <= 64


class CallWantsListing(_Calls):
    """Refuses a call unless the request before the last search was a listing."""

    listed = False

    def is_known(self, name: str) -> bool:
        return self.listed

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method in {"tools/list", SEARCH}:
            self.listed = method == "tools/list"
        return outcome


class CallsOfTheLatestSearchOnly(_Calls):
    """Lets nothing be called but what the search before found, if there was one."""

    def __init__(self) -> None:
        self.found: set[str] | None = None

    def is_known(self, name: str) -> bool:
        return self.found is None or name in self.found

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "result" in outcome:
            self.found = {tool["name"] for tool in outcome["result"]["tools"]}
        return outcome


class CallsOfKnownToolsOnly(_Calls):
    """Lets nothing be called but what was listed or found."""

    def __init__(self) -> None:
        self.known: set[str] = set()

    def is_known(self, name: str) -> bool:
        return name in self.known

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method in {SEARCH, "tools/list"} and "result" in outcome:
            self.known |= {tool["name"] for tool in outcome["result"]["tools"]}
        return outcome


def _calls_of(name_read: Callable[[str], str]) -> type[Fault]:
    """Make a fault that calls tools by other names than those that calls have."""

    class CallsOf(Fault):
        def request(self, method: str, params: Json, era: str) -> Json:
            return {**params, "name": name_read(str(params.get("name")))} if method == "tools/call" else params

    return CallsOf


calls_of_trimmed_names = _calls_of(str.strip)
calls_of_composed_names = _calls_of(lambda name: unicodedata.normalize("NFKC", name))
calls_of_canonically_composed_names = _calls_of(lambda name: unicodedata.normalize("NFC", name))


@wrong_result
def tools_of_other_names_in_ascii(params: Json, result: Json) -> Json:
    """Describes a tool whose name is not ASCII in ASCII alone."""

    def fit(tool: Json) -> Json:
        plain = str(tool.get("description")).encode("ascii", "replace").decode()
        return tool if tool["name"].isascii() else {**tool, "description": plain}

    return {**result, "tools": [fit(tool) for tool in result["tools"]]}


@wrong_result
def exact_name_far_inside(params: Json, result: Json) -> Json:
    """Looks for names in the first 256 characters of a query."""
    far = len(params["query"]) > 256 and not params["query"][:256].strip()
    return {**result, "tools": result["tools"][1:]} if far else result


class ExactNameOnSecondPage(SearchFault):
    """Begins a search for a name with an empty page."""

    def params(self, params: Json) -> Json:
        return without(params, "cursor") if params.get("cursor") == self._second(params) else params

    def result(self, params: Json, result: Json) -> Json:
        found = result["tools"]
        if "cursor" not in params and found and found[0]["name"] == params["query"].strip():
            return {**result, "tools": [], "nextCursor": self._second(params)}
        return result

    def _second(self, params: Json) -> str:
        return "second-" + hashlib.sha256(str(params.get("query")).encode("utf-8", "surrogatepass")).hexdigest()


class OnlyToolUnfound(SearchFault):
    """Gives a word no weight that every tool has, as each word of the only one."""

    def result(self, params: Json, result: Json) -> Json:
        return {**result, "tools": []} if len(served_catalog()["tools"]) == 1 else result


class ExactNameAmongCandidates(SearchFault):
    """Looks for a tool of that name among the first fifty tools that have the word."""

    def result(self, params: Json, result: Json) -> Json:
        query, tools, found = params["query"], served_catalog()["tools"], result["tools"]
        if "cursor" in params or not found or found[0]["name"] != query:
            return result
        ahead = tools[: next(place for place, tool in enumerate(tools) if tool["name"] == query)]
        candidates = [tool for tool in ahead if query in _words(tool["name"], tool.get("description"))]
        return {**result, "tools": [candidates[0], *found[1:]]} if len(candidates) >= 50 else result


def _best_only(most: int) -> type[Fault]:
    """Make a fault that finds the best few and no more, on however many pages."""

    class BestOnly(SearchFault):
        def __init__(self) -> None:
            self.left: dict[str, int] = {}

        def result(self, params: Json, result: Json) -> Json:
            left = self.left.get(params.get("cursor", ""), most)
            result["tools"] = result["tools"][:left]
            left -= len(result["tools"])
            if left and "nextCursor" in result:
                self.left[result["nextCursor"]] = left
            return result if left else without(result, "nextCursor")

    return BestOnly


best_five_only = _best_only(5)
best_hundred_only = _best_only(100)
best_thousand_only = _best_only(1000)


def _refused_as_error(code: int, when: Callable[[Json], bool]) -> type[Fault]:
    """Make a fault that refuses some searches."""

    @wrong_params
    def refuse(params: Json) -> Json:
        if when(params):
            data = {"field": "query", "reason": "has no letter"} if code == -32602 else None
            raise RefusalError(code, "nothing found", data)
        return params

    return refuse


symbols_are_error = _refused_as_error(
    -32602, lambda params: re.fullmatch(r"[\U0001f300-\U0001faff]+", str(params.get("query"))) is not None
)
no_match_is_error = _refused_as_error(-32603, lambda params: str(params.get("query")).startswith("qzx"))
no_match_under_limits_is_error = _refused_as_error(
    -32603, lambda params: str(params.get("query")).startswith("qzx") and "limit" in params
)


class Shuffled(SearchFault):
    """Turns the tail of each result a little further."""

    turns = 0

    def result(self, params: Json, result: Json) -> Json:
        if params.get("limit", 0) > 20:
            self.turns += 1
            first, rest = result["tools"][:1], result["tools"][1:]
            place = self.turns % len(rest) if rest else 0
            result["tools"] = first + rest[place:] + rest[:place]
        return result


class SurrogatesEchoed(Fault):
    """Makes the answer to an odd query invalid JSON."""

    odd = False

    def request(self, method: str, params: Json, era: str) -> Json:
        self.odd = "\udfff" in str(params.get("query"))
        return params

    def bytes(self, message: Json, data: bytes) -> bytes:
        return data.replace(b'"result": {', b'"result": {"_note": NaN, ', 1) if self.odd else data


class RepeatedWordsScoreTwice(SearchFault):
    def result(self, params: Json, result: Json) -> Json:
        words = params["query"].split()
        return _hits(result, {"score": 1.7}) if len(words) > len({*words}) else result


@wrong_result
def trimmed_name_twice(params: Json, result: Json) -> Json:
    trimmed = params["query"] != params["query"].strip() and "limit" not in params and "nextCursor" not in result
    return {**result, "tools": [*result["tools"], *result["tools"][:1]]} if trimmed else result


class TotalOnTheLastPage(TotalReported):
    def reported(self, total: int, on_page: int) -> Json:
        return {"_meta": {"seen": total}} if total > on_page else {}

    def result(self, params: Json, result: Json) -> Json:
        changed = super().result(params, result)
        return result if "nextCursor" in result else changed


class TotalOfWholePages(TotalReported):
    """Says how many tools match where one page holds them all."""

    def result(self, params: Json, result: Json) -> Json:
        return result if "cursor" in params or "nextCursor" in result else super().result(params, result)


@wrong_result
def total_of_nothing(params: Json, result: Json) -> Json:
    return result if result["tools"] else {**result, "total": 0}


@wrong_result
def total_of_nothing_in_words(params: Json, result: Json) -> Json:
    return result if result["tools"] else {**result, "_meta": {"com.example/note": "0 of our tools match"}}


@wrong_result
def hits_of_nothing(params: Json, result: Json) -> Json:
    return result if result["tools"] else {**result, "_meta": {"com.example/hits": {"value": 0, "relation": "eq"}}}


class SearchesInTopics(Fault):
    """Returns in the answer to discovery what was searched for last."""

    latest = "fixtures"

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "result" in outcome:
            self.latest = params["query"]
        if method == "server/discover" and "result" in outcome:
            settings = outcome["result"]["capabilities"]["extensions"][EXTENSION_ID]
            outcome["result"]["capabilities"]["extensions"] = {EXTENSION_ID: {**settings, "topics": [self.latest]}}
        return outcome


class SmallLimitRaisesMaximum(Fault):
    """Has one object of settings, which a search with a small limit alters for everyone."""

    raised = 0

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.raised |= method == SEARCH and params.get("limit") == 1
        if method == "server/discover" and "result" in outcome:
            settings = outcome["result"]["capabilities"]["extensions"][EXTENSION_ID]
            raised = {**settings, "maxLimit": settings["maxLimit"] + self.raised}
            outcome["result"]["capabilities"]["extensions"] = {EXTENSION_ID: raised}
        return outcome


class RefusalSpoilsNextCall(Fault):
    """Leaves what a refused search began, for the request after it."""

    spoiled = False

    def request(self, method: str, params: Json, era: str) -> Json:
        spoiled, self.spoiled = self.spoiled, False
        if method == "tools/call" and spoiled:
            raise RefusalError(-32603, "The search is not over", None)
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.spoiled = method == SEARCH and "error" in outcome
        return outcome


class CalledToolsMarked(Fault):
    """Says in the definition of a found tool that it was called before."""

    def __init__(self) -> None:
        self.called: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "tools/call" and "result" in outcome:
            self.called.add(params["name"])
        if method == SEARCH and "result" in outcome:
            tools = outcome["result"]["tools"]
            marked = [{**tool, "title": "Used before"} if tool["name"] in self.called else tool for tool in tools]
            return {"result": {**outcome["result"], "tools": marked}}
        return outcome


def without_output_schemas(result: Json) -> Json:
    """Return a result with only the output schemas that both eras have."""
    tools = [{**tool} for tool in result["tools"]]
    for tool in tools:
        if tool.get("outputSchema", {}).get("type") != "object":
            tool.pop("outputSchema", None)
    return {**result, "tools": tools}


class PagesKeptForBothEras(Fault):
    """Keeps what a search found until its next page, by the query alone, also for a client of the other era."""

    def __init__(self) -> None:
        self.eras: dict[str, str] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or "result" not in outcome:
            return outcome
        if "cursor" not in params:
            self.eras[params["query"]] = era
        if self.eras.get(params["query"], era) == era:
            return outcome
        return {"result": without_output_schemas(outcome["result"])}


class EraOfTheLatestSearch(Fault):
    """Holds the era of a search where all searches hold theirs, and takes a moment to answer."""

    latest = ""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or "result" not in outcome:
            return outcome
        self.latest = era
        time.sleep(0.005)
        return outcome if self.latest == era else {"result": without_output_schemas(outcome["result"])}


class SearchEndsListings(Fault):
    """Has room for one cursor of a listing, which a search takes."""

    ended = False

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == "tools/list" and "cursor" in params and self.ended:
            raise RefusalError(-32602, "Invalid cursor", None)
        self.ended = method == SEARCH
        return params


long_queries_by_their_beginning = kept_answers(
    lambda params, _: (
        (params["query"][:500], params.get("limit")) if len(params["query"]) > 500 and "cursor" not in params else None
    )
)


@kept_answers
def queries_of_one_hash_alike(params: Json, result: Json) -> object:
    """Keeps answers by a hash of the query."""
    hashed = reduce(lambda value, unit: (value * 31 + ord(unit)) % 2**32, params["query"], 0)
    return None if "cursor" in params else (hashed, params.get("limit"))


class EmptyTheSecondTime(SearchFault):
    """Takes the same search twice in a row for one that was sent again by mistake, and has nothing to add to it."""

    latest = ""

    def result(self, params: Json, result: Json) -> Json:
        key = f"{params['query']} {params.get('limit')} {params.get('cursor')}"
        again, self.latest = key == self.latest and len(result["tools"]) > 9, "" if key == self.latest else key
        return {**without(result, "nextCursor"), "tools": []} if again else result


class OneMoreForgotten(TotalReported):
    """Takes what has one tool left for what has none, where pages hold more than one."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: dict[str, int] = {}

    def result(self, params: Json, result: Json) -> Json:
        total = super().result(params, result)["total"]
        end = self.ends.get(str(params.get("cursor")), 0) + len(result["tools"])
        self.ends[result.get("nextCursor", "")] = end
        return without(result, "nextCursor") if total - end == 1 and params.get("limit", 1) > 1 else result


@wrong_result
def second_of_names_alike_unknown(params: Json, result: Json) -> Json:
    """Knows no name that, but for what separates its words, begins as that of another tool."""
    alike = params["query"].endswith("-long_name") and params.get("limit") == 1
    return {**result, "tools": []} if alike else result


title_of_annotations = wrong_items(
    lambda tool: {**tool, "title": tool["annotations"]["title"]} if "title" in tool.get("annotations", {}) else tool
)
descriptions_escaped = wrong_items(lambda tool: _described(tool, lambda text: html.escape(text, quote=False)))


def _changed_texts(change: Callable[[str], str]) -> type[Fault]:
    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: changed(held) for name, held in value.items()}  # pyright: ignore[reportUnknownVariableType] - JSON
        if isinstance(value, list):
            return [changed(held) for held in value]  # pyright: ignore[reportUnknownVariableType] - JSON
        return change(value) if isinstance(value, str) else value

    @wrong_result
    def change_result(params: Json, result: Json) -> Json:
        return {**result, "tools": changed(result["tools"])}

    return change_result


byte_order_marks_left_out = _changed_texts(lambda text: text.replace("\ufeff", ""))
texts_unescaped = _changed_texts(lambda text: text.replace("%41", "A"))
carriage_returns_left_out = _changed_texts(lambda text: text.replace("\r\n", "\n"))
ends_of_lines_trimmed = _changed_texts(lambda text: re.sub(r"[ \t]+\n", "\n", text))
hosts_in_lower_case = _changed_texts(lambda text: re.sub("(?<=//)[A-Z]+", lambda host: host[0].lower(), text))
references_resolved = _changed_texts(lambda text: text.replace("&#65;", "A"))


def _in_universal_time(text: str) -> str:
    has_offset = re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+[+-]\d\d:\d\d", text)
    return datetime.fromisoformat(text).astimezone(UTC).isoformat() if has_offset else text


dates_in_universal_time = _changed_texts(_in_universal_time)


class TtlOfWhatIsLeft(SearchFault):
    """Keeps answers for a second, and says of a kept one what is left of that, in fractions."""

    def __init__(self) -> None:
        self.kept = set[str]()

    def result(self, params: Json, result: Json) -> Json:
        known = (key := search_of(params)) in self.kept
        self.kept.add(key)
        return {**result, "ttlMs": 999.5} if known and "ttlMs" in result else result
