"""Faults of params: valid ones refused, and invalid ones served."""

from __future__ import annotations

import json
import os
import threading
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO

from .faults import (
    EXTENSION_ID,
    SEARCH,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    member,
    without,
    wrong_error,
    wrong_params,
    wrong_result,
)


def refuse(field: str) -> RefusalError:
    return RefusalError(-32602, f"invalid {field}", {"field": field, "reason": "invalid"})


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


@wrong_params
def query_stripped_of_ascii_only(params: Json) -> Json:
    query = params.get("query")
    return (
        {**params, "query": "anything"}
        if isinstance(query, str) and query and query.isspace() and not query.isascii()
        else params
    )


@wrong_params
def query_blank_served(params: Json) -> Json:
    return {**params, "query": "anything"} if params.get("query") == "" else params


@wrong_params
def query_counted_in_bytes(params: Json) -> Json:
    if (
        isinstance(query := params.get("query"), str)
        and len(query.encode("utf-8", "surrogatepass")) > 1024
        and len(query) <= 1024
    ):
        raise refuse("query")
    return params


@wrong_params
def query_too_long_is_internal(params: Json) -> Json:
    if isinstance(query := params.get("query"), str) and len(query) > 1024:
        raise RefusalError(-32603, "Internal server error", None)
    return params


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


@wrong_params
def query_without_nul(params: Json) -> Json:
    if "\x00" in str(params.get("query")):
        raise refuse("query")
    return params


class FirstZeroIsInternal(Fault):
    """Breaks down over the simplest of generated queries, once."""

    broken = False

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and params.get("query") == "0" and not self.broken:
            self.broken = True
            raise RefusalError(-32603, "broken", None)
        return params


@wrong_params
def query_huge_is_internal(params: Json) -> Json:
    if len(str(params.get("query"))) > 50_000:
        raise RefusalError(-32603, "Internal server error", None)
    return params


def _refuse_characters(characters: str) -> Callable[[Json], Json]:
    def refuse_characters(params: Json) -> Json:
        if set(characters) & set(str(params.get("query")).strip()):
            raise refuse("query")
        return params

    return refuse_characters


query_without_marks = wrong_params(_refuse_characters("\u200e\u200f"))
query_without_arabic_mark = wrong_params(_refuse_characters("\u061c"))
query_without_c1 = wrong_params(_refuse_characters("\x80\x84\x86\x9f"))
query_without_narrow_space = wrong_params(_refuse_characters("\u202f"))


@wrong_params
def surrogates_deadly(params: Json) -> Json:
    if any("\ud800" <= character <= "\udfff" for character in str(params.get("query"))):
        os._exit(1)
    return params


class NulDeadlyLater(Fault):
    """Answers a query with NUL, and ends soon after."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and params.get("query") == "anything\x00":
            threading.Timer(0.005, os._exit, [1]).start()
        return outcome


@wrong_params
def query_stripped_too_far(params: Json) -> Json:
    if isinstance(query := params.get("query"), str) and query and not query.strip("\ufeff\x1c"):
        raise refuse("query")
    return params


@wrong_params
def query_blank_at_first_refused(params: Json) -> Json:
    if isinstance(query := params.get("query"), str) and len(query) > 256 and not query[:256].strip():
        raise refuse("query")
    return params


@wrong_params
def extra_members_refused(params: Json) -> Json:
    if extra := set(params) - {"query", "limit", "cursor", "_meta"}:
        raise refuse(min(extra))
    return params


@wrong_params
def offset_obeyed(params: Json) -> Json:
    return {**params, "limit": params["max_results"]} if "max_results" in params else params


@wrong_params
def cursor_null_ignored(params: Json) -> Json:
    return {name: value for name, value in params.items() if name != "cursor" or value is not None}


@wrong_params
def limit_zero_served(params: Json) -> Json:
    return {**params, "limit": 1} if params.get("limit") == 0 and params.get("limit") is not False else params


@wrong_params
def limit_string_served(params: Json) -> Json:
    return {**params, "limit": 3} if params.get("limit") == "3" else params


@wrong_params
def limit_true_served(params: Json) -> Json:
    return {**params, "limit": 1} if params.get("limit") is True else params


@wrong_params
def limit_null_served(params: Json) -> Json:
    return {name: value for name, value in params.items() if name != "limit" or value is not None}


@wrong_params
def limit_fraction_served(params: Json) -> Json:
    return {**params, "limit": 2} if params.get("limit") == 2.5 else params


@wrong_params
def limit_float_refused(params: Json) -> Json:
    if isinstance(params.get("limit"), float):
        raise refuse("limit")
    return params


@wrong_params
def limit_above_maximum_refused(params: Json) -> Json:
    if isinstance(limit := params.get("limit"), int) and limit > 100:
        raise refuse("limit")
    return params


@wrong_params
def limit_hundred_refused(params: Json) -> Json:
    if params.get("limit") == 100:
        raise refuse("limit")
    return params


@wrong_params
def limit_beyond_32_bits_refused(params: Json) -> Json:
    if isinstance(limit := params.get("limit"), int) and limit >= 2**31:
        raise refuse("limit")
    return params


@wrong_params
def progress_token_refused(params: Json) -> Json:
    if "progressToken" in member(params, "_meta"):
        raise RefusalError(-32603, "Internal server error", None)
    return params


@wrong_params
def limit_one_more(params: Json) -> Json:
    return {**params, "limit": 8} if params.get("limit") == 7 else params


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


@wrong_error(-32602)
def error_without_data(error: Json) -> Json:
    return {**error, "data": None}


@wrong_error(-32602)
def error_data_text(error: Json) -> Json:
    return {**error, "data": "query"}


@wrong_error(-32602)
def error_blames_query(error: Json) -> Json:
    return {**error, "data": {"field": "query", "reason": "invalid"}}


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
def limit_above_ten_as_twenty(params: Json) -> Json:
    limit = params.get("limit")
    return {**params, "limit": 20} if isinstance(limit, int) and 10 < limit < 20 else params


@wrong_params
def later_limit_forty_nine_as_fifty(params: Json) -> Json:
    return {**params, "limit": 50} if "cursor" in params and params.get("limit") == 49 else params


@wrong_params
def limit_in_steps_of_twenty(params: Json) -> Json:
    limit = params.get("limit")
    return {**params, "limit": -(-limit // 20) * 20} if isinstance(limit, int) and limit > 20 else params


@wrong_params
def limit_cut_before_it_is_looked_at(params: Json) -> Json:
    limit = params.get("limit")
    return {**params, "limit": min(50, limit)} if isinstance(limit, float) and limit > 50 else params


@wrong_params
def limit_in_32_bits(params: Json) -> Json:
    """Keeps the low half, as a cast does."""
    limit = params.get("limit")
    if isinstance(limit, bool) or not isinstance(limit, int):
        return params
    return {**params, "limit": (limit + 2**31) % 2**32 - 2**31}


@wrong_params
def limit_almost_integral_served(params: Json) -> Json:
    limit = params.get("limit")
    return (
        {**params, "limit": round(limit)} if isinstance(limit, float) and abs(limit - round(limit)) < 1e-3 else params
    )


@wrong_params
def limit_in_words_read(params: Json) -> Json:
    """Reads what begins with a number, as `parseInt` does."""
    limit = params.get("limit")
    return {**params, "limit": 3} if limit == "3.0" else params


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
def page_size_obeyed(params: Json) -> Json:
    return {**params, "limit": params["pageSize"]} if "pageSize" in params else params


@wrong_params
def query_looked_for_elsewhere(params: Json) -> Json:
    return {"query": params["q"], **params} if "q" in params else params


@wrong_params
def long_blank_query_served(params: Json) -> Json:
    """Looks at the beginning of a query only."""
    query = params.get("query")
    return {**params, "query": "x"} if isinstance(query, str) and len(query) > 512 and query.isspace() else params


@wrong_params
def vertical_tab_kept(params: Json) -> Json:
    query = params.get("query")
    is_blank = isinstance(query, str) and query.isspace() and "\v" in query
    return {**params, "query": "anything"} if is_blank else params


@wrong_params
def query_counted_in_utf_16(params: Json) -> Json:
    query = params.get("query")
    if isinstance(query, str) and len(query) <= 1024 < len(query.encode("utf-16-le", "surrogatepass")) / 2:
        raise refuse("query")
    return params


@wrong_params
def query_counted_after_normalization(params: Json) -> Json:
    query = params.get("query")
    if isinstance(query, str) and len(query) <= 1024 < len(unicodedata.normalize("NFKC", query)):
        raise refuse("query")
    return params


@wrong_params
def query_of_few_words(params: Json) -> Json:
    if len(str(params.get("query")).split()) > 100:
        raise refuse("query")
    return params


@wrong_params
def million_characters_deadly(params: Json) -> Json:
    if len(str(params.get("query"))) >= 1_000_000:
        os._exit(1)
    return params


@wrong_params
def stop_words_refused(params: Json) -> Json:
    words = str(params.get("query")).split()
    if words and all(word in {"a", "and", "of", "or", "the", "to"} for word in words):
        raise refuse("query")
    return params


@wrong_params
def search_syntax_is_internal(params: Json) -> Json:
    if " NEAR(" in str(params.get("query")):
        raise RefusalError(-32603, "syntax error", None)
    return params


@wrong_params
def inherited_names_are_internal(params: Json) -> Json:
    """Keeps words in an object that has members already."""
    if {"__proto__", "constructor"} & {*str(params.get("query")).split()}:
        raise RefusalError(-32603, "words.push is not a function", None)
    return params


@wrong_params
def query_trimmed_of_information_separators(params: Json) -> Json:
    query = params.get("query")
    if isinstance(query, str) and query and not query.strip("\x1d\x1e\x1f"):
        raise refuse("query")
    return params


@wrong_params
def invisible_query_refused(params: Json) -> Json:
    if str(params.get("query")) in {"\u2060", "\u200c", "\u200d", "\u3164"}:
        raise refuse("query")
    return params


@wrong_params
def single_letters_refused(params: Json) -> Json:
    if len(str(params.get("query"))) == 1 and str(params.get("query")).isalpha():
        raise refuse("query")
    return params


class BannedAfterRefusals(Fault):
    """Refuses every search of a connection that has had twenty refused."""

    def __init__(self) -> None:
        self.refused = 0

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and self.refused >= 20:
            raise RefusalError(-32000, "too many invalid requests", None)
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.refused += method == SEARCH and member(outcome, "error").get("code") == -32602
        return outcome


class PlacesOfRefusedKept(Fault):
    """Has sixty places for searches, of which each refused one keeps its own."""

    taken = 0

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and self.taken >= 60:
            raise RefusalError(-32603, "too many searches at once", {"retryAfterMs": 5})
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.taken += method == SEARCH and member(outcome, "error").get("code") == -32602
        return outcome


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


@wrong_params
def line_separator_is_no_blank(params: Json) -> Json:
    return {**params, "query": "anything"} if params.get("query") == "\u2028" else params


class LaterPagesOfLatinOnly(SearchFault):
    """Keeps the query in a cursor that holds nothing but Latin letters."""

    def result(self, params: Json, result: Json) -> Json:
        wide = "nextCursor" in result and len(params["query"]) < 100 and "\U0001d51e" in params["query"]
        return {**result, "broken": True} if wide else result

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        outcome = super().response(method, params, era, outcome)
        broken = "broken" in member(outcome, "result")
        return {"error": {"code": -32603, "message": "Internal server error"}} if broken else outcome


@wrong_params
def inherited_name_is_internal(params: Json) -> Json:
    if params.get("query") in ("__proto__", "constructor", "hasOwnProperty"):
        raise RefusalError(-32603, "Internal server error", None)
    return params


@wrong_params
def addresses_refused(params: Json) -> Json:
    if "://" in str(params.get("query")):
        raise refuse("query")
    return params


@wrong_params
def long_query_with_a_limit_refused(params: Json) -> Json:
    if len(str(params.get("query"))) > 1000 and "limit" in params:
        raise refuse("query")
    return params


@wrong_params
def group_obeyed(params: Json) -> Json:
    return {**params, "query": "qzx"} if "group" in params else params


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
def queries_measured_in_capitals(params: Json) -> Json:
    query = str(params.get("query"))
    if len(query) <= 1024 < len(query.upper()):
        raise refuse("query")
    return params


@wrong_params
def last_operator_is_internal(params: Json) -> Json:
    """Hands a query to an engine to which these words mean something that takes another one."""
    if str(params.get("query")).endswith((" AND", " OR", " NOT")):
        raise RefusalError(-32603, "Internal server error", None)
    return params


@wrong_params
def repetitions_refused(params: Json) -> Json:
    words = str(params.get("query")).split()
    if len(words) > 60 and len({*words}) < 5:
        raise refuse("query")
    return params


@wrong_params
def texts_of_many_lines_refused(params: Json) -> Json:
    if str(params.get("query")).count("\n") > 20:
        raise refuse("query")
    return params


@wrong_params
def tab_refused(params: Json) -> Json:
    if "\t" in str(params.get("query")).strip():
        raise RefusalError(-32602, "invalid query", {"field": "query", "reason": "has a tab"})
    return params


@wrong_params
def superscript_is_internal(params: Json) -> Json:
    """Reads a number where there is a digit of any kind."""
    if str(params.get("query")).isdigit() and not str(params["query"]).isdecimal():
        raise RefusalError(-32603, "Internal server error", None)
    return params


@wrong_params
def cursor_of_any_type_for_nothing(params: Json) -> Json:
    """Returns early where nothing matches, before the cursor is looked at."""
    odd = "qzx" in str(params.get("query")) and not isinstance(params.get("cursor"), str)
    return without(params, "cursor") if odd else params


def _refused_with(text: str) -> type[Fault]:
    @wrong_params
    def refuse(params: Json) -> Json:
        if text in str(params.get("query")):
            raise RefusalError(-32602, "invalid query", {"field": "query", "reason": f"has {text!a}"})
        return params

    return refuse


query_without_replacement_character = _refused_with("\ufffd")
query_without_line_ends = _refused_with("\r\n")


class _OfNothing(SearchFault):
    """Does not look at a member of a request where no tool is served."""

    member = ""

    def params(self, params: Json) -> Json:
        served = json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))["tools"]
        if served or self.member not in params:
            return params
        return {"query": "anything", **without(params, self.member)}


class QueryOfNothingUnchecked(_OfNothing):
    member = "query"


class LimitOfNothingUnchecked(_OfNothing):
    member = "limit"


class CursorOfNothingUnchecked(_OfNothing):
    member = "cursor"


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
