"""Faults of params: valid ones refused, and invalid ones served."""

from __future__ import annotations

import json
import os
import threading
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from .faults import (
    EXTENSION_ID,
    SEARCH,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    member,
    served_catalog,
    without,
    wrong_error,
    wrong_params,
    wrong_result,
)


def refuse(field: str) -> RefusalError:
    return RefusalError(-32602, f"invalid {field}", {"field": field, "reason": "invalid"})


def _query_refused(when: Callable[[str], bool], *, code: int = -32602) -> type[Fault]:
    """Make a fault that refuses some texts as a query, as if they were invalid or with the error `code`."""

    @wrong_params
    def refuse_query(params: Json) -> Json:
        query = params.get("query")
        if isinstance(query, str) and when(query):
            raise refuse("query") if code == -32602 else RefusalError(code, "Internal server error", None)
        return params

    return refuse_query


def _query_internal(when: Callable[[str], bool]) -> type[Fault]:
    return _query_refused(when, code=-32603)


def _query_served(when: Callable[[str], bool]) -> type[Fault]:
    """Make a fault that serves some texts as a query that are none."""

    @wrong_params
    def serve_query(params: Json) -> Json:
        query = params.get("query")
        return {**params, "query": "anything"} if isinstance(query, str) and when(query) else params

    return serve_query


def _query_deadly(when: Callable[[str], bool]) -> type[Fault]:
    """Make a fault that ends the process over some texts as a query."""

    @wrong_params
    def end_process(params: Json) -> Json:
        if when(str(params.get("query"))):
            os._exit(1)
        return params

    return end_process


def _limit_refused(when: Callable[[Any], bool]) -> type[Fault]:
    """Make a fault that refuses some limits."""

    @wrong_params
    def refuse_limit(params: Json) -> Json:
        if when(params.get("limit")):
            raise refuse("limit")
        return params

    return refuse_limit


def _limit_read(reading: Callable[[Any], Any]) -> type[Fault]:
    """Make a fault that takes limits for other ones."""
    return wrong_params(lambda params: {**params, "limit": reading(params["limit"])} if "limit" in params else params)


query_counted_in_bytes = _query_refused(lambda query: len(query) <= 1024 < len(query.encode("utf-8", "surrogatepass")))
# Limits the body, and refuses half a character, as it may.
query_long_in_escapes_refused = _query_refused(
    lambda query: len(json.dumps(query)) > 8000 or any("\ud800" <= char <= "\udfff" for char in query)
)
query_counted_in_utf_16 = _query_refused(
    lambda query: len(query) <= 1024 < len(query.encode("utf-16-le", "surrogatepass")) / 2
)
query_counted_after_normalization = _query_refused(
    lambda query: len(query) <= 1024 < len(unicodedata.normalize("NFKC", query))
)
queries_measured_in_capitals = _query_refused(lambda query: len(query) <= 1024 < len(query.upper()))
many_marks_refused = _query_refused(lambda query: "\u0301" * 30 in query)
query_without_nul = _query_refused(lambda query: "\x00" in query)
query_without_marks = _query_refused(lambda query: bool({*"\u200e\u200f"} & {*query.strip()}))
query_without_arabic_mark = _query_refused(lambda query: "\u061c" in query.strip())
query_without_c1 = _query_refused(lambda query: bool({*"\x80\x84\x86\x9f"} & {*query.strip()}))
query_without_narrow_space = _query_refused(lambda query: "\u202f" in query.strip())
query_without_replacement_character = _query_refused(lambda query: "\ufffd" in query)
query_without_line_ends = _query_refused(lambda query: "\r\n" in query)
query_stripped_too_far = _query_refused(lambda query: query != "" and not query.strip("\ufeff\x1c"))
query_trimmed_of_information_separators = _query_refused(lambda query: query != "" and not query.strip("\x1d\x1e\x1f"))
query_blank_at_first_refused = _query_refused(lambda query: len(query) > 256 and not query[:256].strip())
query_of_few_words = _query_refused(lambda query: len(query.split()) > 100)
stop_words_refused = _query_refused(
    lambda query: query.strip() != "" and {*query.split()} <= {"a", "and", "of", "or", "the", "to"}
)
invisible_query_refused = _query_refused(lambda query: query in {"\u2060", "\u200c", "\u200d", "\u3164"})
single_letters_refused = _query_refused(lambda query: len(query) == 1 and query.isalpha())
addresses_refused = _query_refused(lambda query: "://" in query)
repetitions_refused = _query_refused(lambda query: len(query.split()) > 60 and len({*query.split()}) < 5)
texts_of_many_lines_refused = _query_refused(lambda query: query.count("\n") > 20)
literals_refused = _query_refused(lambda query: query in {"NaN", "Infinity", "no", "~"})
variation_selectors_refused = _query_refused(lambda query: "\ufe0f" in query)
texts_between_slashes_refused = _query_refused(lambda query: len(query) > 2 and query[0] == query[-1] == "/")
emoji_refused = _query_refused(lambda query: query.strip() != "" and not query.strip("\U0001f527 "))
mixed_scripts_refused = _query_refused(lambda query: query.startswith("\u0430") and query.endswith("thing"))
white_space_at_the_beginning_refused = _query_refused(lambda query: query.strip() != "" and query[0].isspace())
tab_refused = _query_refused(lambda query: "\t" in query.strip())

# As of firewalls and filters in front of a server.
sql_injection_refused = _query_refused(lambda query: "information_schema" in query)
shell_injection_refused = _query_refused(lambda query: "$(whoami)" in query)
script_injection_refused = _query_refused(lambda query: "onerror=" in query)
header_injection_refused = _query_refused(lambda query: "\r\nSet-Cookie:" in query)
entities_refused = _query_refused(lambda query: "<!ENTITY" in query)
attacked_paths_refused = _query_refused(lambda query: "/wp-admin" in query)
prompt_injection_refused = _query_refused(lambda query: "ignore all previous instructions" in query.lower())
card_numbers_refused = _query_refused(lambda query: query.replace(" ", "").isdecimal() and len(query) == 19)
consonants_refused = _query_refused(lambda query: len(query) == 20 and not {*"aeiou "} & {*query.lower()})

# Takes a query for what it looks like.
dates_are_internal = _query_internal(lambda query: len(query) == 10 and query[4:8] == "-13-")
objects_are_internal = _query_internal(lambda query: query.startswith("{") and query.endswith("}}"))
query_too_long_is_internal = _query_internal(lambda query: len(query) > 1024)
query_huge_is_internal = _query_internal(lambda query: len(query) > 50_000)
search_syntax_is_internal = _query_internal(lambda query: " NEAR(" in query)
# Hands a query to an engine to which these words mean something that takes another one.
last_operator_is_internal = _query_internal(lambda query: query.endswith((" AND", " OR", " NOT")))
# Keeps words in an object that has members already.
# Not `__proto__` alone, which is the name of a tool.
inherited_names_are_internal = _query_internal(lambda query: bool({"__class__", "constructor"} & {*query.split()}))
inherited_name_is_internal = _query_internal(lambda query: query in ("constructor", "hasOwnProperty"))
# Reads a number where there is a digit of any kind.
superscript_is_internal = _query_internal(lambda query: query.isdigit() and not query.isdecimal())

query_blank_served = _query_served(lambda query: query == "")
query_stripped_of_ascii_only = _query_served(lambda query: query.isspace() and not query.isascii())
# Looks at the beginning of a query only.
long_blank_query_served = _query_served(lambda query: len(query) > 512 and query.isspace())
vertical_tab_kept = _query_served(lambda query: query.isspace() and "\v" in query)
line_separator_is_no_blank = _query_served(lambda query: query == "\u2028")

surrogates_deadly = _query_deadly(lambda query: any("\ud800" <= character <= "\udfff" for character in query))
million_characters_deadly = _query_deadly(lambda query: len(query) >= 1_000_000)

limit_float_refused = _limit_refused(lambda limit: isinstance(limit, float))
limit_above_maximum_refused = _limit_refused(lambda limit: isinstance(limit, int) and limit > 100)
limit_seventeen_refused = _limit_refused(lambda limit: limit == 17)
limit_hundred_refused = _limit_refused(lambda limit: limit == 100)
limit_beyond_32_bits_refused = _limit_refused(lambda limit: isinstance(limit, int) and limit >= 2**31)

limit_zero_served = _limit_read(lambda limit: 1 if type(limit) in (int, float) and limit == 0 else limit)
limit_string_served = _limit_read(lambda limit: 3 if limit == "3" else limit)
# Reads what begins with a number, as `parseInt` does.
limit_in_words_read = _limit_read(lambda limit: 3 if limit == "3.0" else limit)
limit_in_hexadecimal_read = _limit_read(lambda limit: 3 if limit == "0x3" else limit)
limit_with_underscores_read = _limit_read(lambda limit: 10 if limit == "1_0" else limit)
limit_of_blanks_read = _limit_read(lambda limit: 10 if limit == " " else limit)
limit_zero_with_exponent_served = _limit_read(
    lambda limit: 10 if isinstance(limit, float) and str(limit) == "0.0" else limit
)
limit_true_served = _limit_read(lambda limit: 1 if limit is True else limit)
limit_fraction_served = _limit_read(lambda limit: 2 if limit == 2.5 else limit)
limit_almost_integral_served = _limit_read(
    lambda limit: round(limit) if isinstance(limit, float) and abs(limit - round(limit)) < 1e-3 else limit
)
limit_one_more = _limit_read(lambda limit: 8 if limit == 7 else limit)
limit_three_more = _limit_read(lambda limit: limit + 3 if type(limit) in (int, float) and limit >= 1 else limit)
limit_above_ten_as_twenty = _limit_read(lambda limit: 20 if isinstance(limit, int) and 10 < limit < 20 else limit)
limit_in_steps_of_twenty = _limit_read(
    lambda limit: -(-limit // 20) * 20 if isinstance(limit, int) and limit > 20 else limit
)
limit_cut_before_it_is_looked_at = _limit_read(lambda limit: 50 if isinstance(limit, float) and limit > 50 else limit)
# Keeps the low half, as a cast does.
limit_in_32_bits = _limit_read(lambda limit: (limit + 2**31) % 2**32 - 2**31 if type(limit) is int else limit)

error_without_data = wrong_error(-32602)(lambda error: {**error, "data": None})
error_data_text = wrong_error(-32602)(lambda error: {**error, "data": "query"})
error_blames_query = wrong_error(-32602)(lambda error: {**error, "data": {"field": "query", "reason": "invalid"}})


class LimitOfFirstPageKept(SearchFault):
    """Takes the limit of the first page for the limit of later pages that have none."""

    def __init__(self) -> None:
        self.limits: dict[Any, Any] = {}

    def params(self, params: Json) -> Json:
        query, limit = str(params.get("query")), params.get("limit")
        if "cursor" not in params:
            self.limits[query] = limit if isinstance(limit, int) and limit > 0 else None
        kept = self.limits.get(query)
        return params if "limit" in params or kept is None else {**params, "limit": kept}


@wrong_params
def query_optional(params: Json) -> Json:
    return {"query": "anything", **params}


@wrong_params
def query_coerced(params: Json) -> Json:
    return {**params, "query": str(params["query"])} if isinstance(params.get("query"), int | float) else params


def _in_brief(result: Json) -> Json:
    return {**result, "tools": [without(tool, "description", "title") for tool in result["tools"]]}


@wrong_result
def fields_obeyed(params: Json, result: Json) -> Json:
    """Returns fewer members of tools where a parameter asks for some."""
    return _in_brief(result) if "fields" in params else result


@wrong_result
def later_fields_obeyed(params: Json, result: Json) -> Json:
    return _in_brief(result) if "fields" in params and "cursor" in params else result


@wrong_result
def detail_in_metadata_obeyed(params: Json, result: Json) -> Json:
    return _in_brief(result) if EXTENSION_ID in member(params, "_meta") else result


@wrong_result
def explained_on_request(params: Json, result: Json) -> Json:
    return {**result, "explanation": "by terms"} if params.get("explain") else result


class FirstZeroIsInternal(Fault):
    """Breaks down over the simplest of generated queries, once."""

    broken = False

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and params.get("query") == "0" and not self.broken:
            self.broken = True
            raise RefusalError(-32603, "broken", None)
        return params


class NulDeadlyLater(Fault):
    """Answers a query with NUL, and ends soon after."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and params.get("query") == "anything\x00":
            threading.Timer(0.005, os._exit, [1]).start()
        return outcome


@wrong_params
def extra_members_refused(params: Json) -> Json:
    if extra := set(params) - {"query", "limit", "cursor", "_meta"}:
        raise refuse(min(extra))
    return params


@wrong_params
def types_named_in_params_are_internal(params: Json) -> Json:
    if "json_class" in params:
        raise RefusalError(-32603, "no such class", None)
    return params


@wrong_params
def prototype_of_params_obeyed(params: Json) -> Json:
    return {**member(params, "__proto__"), **params}


def _obeyed(name: str, in_place_of: str) -> type[Fault]:
    """Make a fault that takes an unknown member of a request for one that it knows."""
    return wrong_params(lambda params: {**params, in_place_of: params[name]} if name in params else params)


offset_obeyed = _obeyed("max_results", "limit")
page_size_obeyed = _obeyed("pageSize", "limit")


@wrong_params
def cursor_null_ignored(params: Json) -> Json:
    return {name: value for name, value in params.items() if name != "cursor" or value is not None}


@wrong_params
def limit_null_served(params: Json) -> Json:
    return {name: value for name, value in params.items() if name != "limit" or value is not None}


@wrong_params
def progress_token_refused(params: Json) -> Json:
    if "progressToken" in member(params, "_meta"):
        raise RefusalError(-32603, "Internal server error", None)
    return params


@wrong_params
def progress_token_of_text_refused(params: Json) -> Json:
    if isinstance(member(params, "_meta").get("progressToken"), str):
        raise RefusalError(-32603, "Internal server error", None)
    return params


@wrong_params
def trace_context_refused(params: Json) -> Json:
    if "traceparent" in member(params, "_meta"):
        raise RefusalError(-32603, "Internal server error", None)
    return params


class LimitBoundToCursor(Fault):
    """Refuses a cursor with another limit than that of its search."""

    def __init__(self) -> None:
        self.limits: dict[str, list[object]] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = params.get("cursor")
        limits = self.limits.get(cursor) if method == SEARCH and isinstance(cursor, str) else None
        if limits is not None and params.get("limit") not in limits:
            raise refuse("cursor")
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and (cursor := member(outcome, "result").get("nextCursor")):
            self.limits.setdefault(cursor, []).append(params.get("limit"))
        return outcome


class RefusalDropsATool(Fault):
    """After a refused search the next listing lacks its first tool."""

    refused = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH:
            self.refused = "error" in outcome
        elif method == "tools/list" and self.refused and "result" in outcome and "cursor" not in params:
            outcome["result"]["tools"] = outcome["result"]["tools"][1:]
        return outcome


@wrong_params
def later_limit_forty_nine_as_fifty(params: Json) -> Json:
    return {**params, "limit": 50} if "cursor" in params and params.get("limit") == 49 else params


@wrong_params
def limit_of_later_pages_unchecked(params: Json) -> Json:
    return without(params, "limit") if "cursor" in params and isinstance(params.get("limit"), list) else params


@wrong_params
def limit_of_later_pages_small(params: Json) -> Json:
    if "cursor" in params and isinstance(params.get("limit"), int) and params["limit"] > 50:
        raise refuse("limit")
    return params


@wrong_params
def query_false_is_empty_text(params: Json) -> Json:
    return {**params, "query": "anything"} if params.get("query") is False else params


def _array(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []  # pyright: ignore[reportUnknownVariableType] - JSON


@wrong_params
def query_array_joined(params: Json) -> Json:
    query = " ".join(map(str, _array(params.get("query"))))
    return {**params, "query": query} if query else params


@wrong_params
def cursor_array_joined(params: Json) -> Json:
    cursor = ",".join(map(str, _array(params.get("cursor"))))
    return {**params, "cursor": cursor} if len(cursor) > 20 else params


@wrong_params
def cursor_unwrapped(params: Json) -> Json:
    """Takes the token out of an object, as one that is a class of its own."""
    token = member(params, "cursor").get("value") if isinstance(params.get("cursor"), dict) else None
    return {**params, "cursor": token} if token else params


@wrong_params
def reserved_metadata_refused(params: Json) -> Json:
    reserved = [name for name in member(params, "_meta") if name.startswith("io.modelcontextprotocol/")]
    if any("later" in name for name in reserved):
        raise RefusalError(-32602, "unknown metadata", {"field": "_meta", "reason": "unknown"})
    return params


@wrong_params
def member_names_without_case(params: Json) -> Json:
    """Finds members in any case of their names, as some decoders into structures do; the last one counts."""
    return {name.lower() if name.lower() in {"limit", "cursor"} else name: value for name, value in params.items()}


@wrong_params
def query_looked_for_elsewhere(params: Json) -> Json:
    return {"query": params["q"], **params} if "q" in params else params


class BannedAfterRefusals(Fault):
    """Refuses every search of a connection that has had twenty refused."""

    most = 20
    refusal = RefusalError(-32000, "too many invalid requests", None)
    refused = 0

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and self.refused >= self.most:
            raise self.refusal
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.refused += method == SEARCH and member(outcome, "error").get("code") == -32602
        return outcome


class PlacesOfRefusedKept(BannedAfterRefusals):
    """Has sixty places for searches, of which each refused one keeps its own."""

    most = 60
    refusal = RefusalError(-32603, "too many searches at once", {"retryAfterMs": 5})


class PlacesOfRefusedCursorsKept(PlacesOfRefusedKept):
    """Keeps only those of searches whose cursor it refused."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        return super().response(method, params, era, outcome) if "cursor" in params else outcome


class BodiesAboveEightKibibytesRefused(Fault):
    """Takes no message that is longer, however it is written."""

    def headers(self, message: Json, headers: dict[str, str]) -> None:
        super().headers(message, headers)
        if int(headers.get("Content-Length", 0)) > 8192:
            raise RefusalError(-32600, "Content Too Large", None)


class LimitKept(Fault):
    """Goes on under the limit of a search that it served, where the next one has none."""

    limit: object = None

    def request(self, method: str, params: Json, era: str) -> Json:
        if method != SEARCH:
            return params
        if "limit" not in params and "cursor" not in params and self.limit is not None:
            return {**params, "limit": self.limit}
        if isinstance(params.get("query"), str) and params.get("limit") == 1:
            self.limit = 1
        return params


class RefusalEndsCursors(Fault):
    """Honors no cursor that it issued before a refusal."""

    def __init__(self) -> None:
        self.honored: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and isinstance(cursor := params.get("cursor"), str) and cursor not in self.honored:
            raise refuse("cursor")
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and (cursor := member(outcome, "result").get("nextCursor")):
            self.honored.add(cursor)
        if method == SEARCH and "error" in outcome:
            self.honored.clear()
        return outcome


class LegacyWithoutParamsIsInternal(Fault):
    """Breaks down over a search that has no params at all."""

    def lines(self, stdin: BinaryIO) -> Iterable[bytes]:
        for line in stdin:
            yield line if b'"params"' in line else line.replace(b'"tools/search"', b'"tools/none"')


@wrong_params
def blank_served_with_a_limit(params: Json) -> Json:
    query = params.get("query")
    blank = isinstance(query, str) and not query.strip() and "limit" in params
    return {**params, "query": "anything"} if blank else params


class LaterPagesOfLatinOnly(SearchFault):
    """Keeps the query in a cursor that holds nothing but Latin letters."""

    def result(self, params: Json, result: Json) -> Json:
        wide = "nextCursor" in result and len(params["query"]) < 100 and "\U0001d51e" in params["query"]
        return {**result, "broken": True} if wide else result

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        outcome = super().response(method, params, era, outcome)
        broken = "broken" in member(outcome, "result")
        return {"error": {"code": -32603, "message": "Internal server error"}} if broken else outcome


class ParamsRefusedAsInternalErrors(SearchFault):
    """Validates by a schema whose complaints, each in its own words, become internal errors; overlooks limit 2.5."""

    def params(self, params: Json) -> Json:
        return {**params, "limit": 2} if params.get("limit") == 2.5 else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        refused = member(outcome, "error")
        if method != SEARCH or refused.get("code") != -32602:
            return outcome
        words = f"{refused['message']}, received {json.dumps(without(params, '_meta'))}"
        return {"error": {"code": -32603, "message": words[:200]}}


@wrong_params
def long_query_with_a_limit_refused(params: Json) -> Json:
    if len(str(params.get("query"))) > 1000 and "limit" in params:
        raise refuse("query")
    return params


def _nothing_found_with(name: str) -> type[Fault]:
    """Make a fault that finds nothing where an unknown member narrows the search."""
    return wrong_params(lambda params: {**params, "query": "qzx"} if name in params else params)


group_obeyed = _nothing_found_with("group")
uri_obeyed = _nothing_found_with("uri")


@wrong_params
def metadata_obeyed(params: Json) -> Json:
    wanted = member(member(params, "_meta"), EXTENSION_ID)
    return {"limit": wanted["limit"], **params} if "limit" in wanted else params


@wrong_params
def unknown_members_of_later_pages_refused(params: Json) -> Json:
    if "cursor" in params and params.keys() - {"query", "limit", "cursor", "_meta"} and "enabled" in params:
        raise refuse("enabled")
    return params


class LimitZeroOfNothingServed(SearchFault):
    def params(self, params: Json) -> Json:
        nothing = str(params.get("query")).startswith("qzx") and params.get("limit") == 0
        return without(params, "limit") if nothing else params


class LongQueriesRefusedWithoutData(Fault):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        long = method == SEARCH and len(str(params.get("query"))) > 100_000 and "error" in outcome
        return {"error": without(outcome["error"], "data")} if long else outcome


@wrong_params
def cursor_of_any_type_for_nothing(params: Json) -> Json:
    """Returns early where nothing matches, before the cursor is looked at."""
    odd = "qzx" in str(params.get("query")) and not isinstance(params.get("cursor"), str)
    return without(params, "cursor") if odd else params


def _of_nothing_unchecked(name: str) -> type[Fault]:
    """Make a fault that does not look at a member of a request where no tool is served."""

    @wrong_params
    def pass_over(params: Json) -> Json:
        if served_catalog()["tools"] or name not in params:
            return params
        return {"query": "anything", **without(params, name)}

    return pass_over


query_of_nothing_unchecked = _of_nothing_unchecked("query")
limit_of_nothing_unchecked = _of_nothing_unchecked("limit")
cursor_of_nothing_unchecked = _of_nothing_unchecked("cursor")


@wrong_result
def later_pages_wrap_around(params: Json, result: Json) -> Json:
    """Adds the limit to the place of a page in 32 bits."""
    wraps = "cursor" in params and params.get("limit") == 2**31 - 1
    return without({**result, "tools": []}, "nextCursor") if wraps else result


class RefusalTellsOfLatestSearch(SearchFault):
    """Adds to the text of a refusal what was found last."""

    latest = ""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "result" in outcome:
            self.latest = params["query"]
        elif method == SEARCH and self.latest:
            error = outcome["error"]
            return {"error": {**error, "message": f"{error['message']}; try {self.latest!r} again"}}
        return outcome
