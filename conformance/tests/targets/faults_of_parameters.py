"""Faults of params: valid ones refused, and invalid ones served."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .faults import SEARCH, Fault, Json, RefusalError, member, wrong_error, wrong_params


def refuse(field: str) -> RefusalError:
    return RefusalError(-32602, f"invalid {field}", {"field": field, "reason": "invalid"})


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
        self.limits: dict[str, object] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = params.get("cursor")
        if (
            method == SEARCH
            and isinstance(cursor, str)
            and self.limits.get(cursor, params.get("limit")) != params.get("limit")
        ):
            raise refuse("cursor")
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and (cursor := member(outcome, "result").get("nextCursor")):
            self.limits[cursor] = params.get("limit")
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
