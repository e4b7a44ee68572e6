"""Faults of pages and cursors."""

from __future__ import annotations

from .faults import SEARCH, Fault, Json, Refusal, fault, member, wrong_params, wrong_result


@wrong_result("boundary-loses-a-tool")
def boundary_loses_a_tool(params: Json, result: Json) -> Json:
    if "nextCursor" in result and len(result["tools"]) > 2:
        return {**result, "tools": result["tools"][:-1]}
    return result


@wrong_result("later-pages-lost")
def later_pages_lost(params: Json, result: Json) -> Json:
    return {
        name: value
        for name, value in result.items()
        if name != "nextCursor" or "cursor" not in params or params.get("limit") == 1
    }


@fault("first-comes-again")
class FirstComesAgain(Fault):
    """Puts the first match on the last page again, where it has room."""

    def __init__(self) -> None:
        self.first: dict[str, Json] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or not member(outcome, "result").get("tools"):
            return outcome
        tools = outcome["result"]["tools"]
        if "cursor" not in params:
            self.first[params["query"]] = tools[0]
        elif "limit" in params and len(tools) < params["limit"] and params["query"] in self.first:
            tools.append(self.first[params["query"]])
        return outcome


@fault("endless-nothing")
class EndlessNothing(Fault):
    """A search without matches never ends."""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and params.get("cursor") == "more of nothing":
            return {name: value for name, value in params.items() if name != "cursor"}
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and member(outcome, "result").get("tools") == []:
            outcome["result"]["nextCursor"] = "more of nothing"
        elif method == SEARCH and params.get("cursor") == "more of nothing":
            raise NotImplementedError
        return outcome


@fault("cursor-empty")
class CursorEmpty(Fault):
    """A search without matches has one page more, at the empty cursor."""

    def __init__(self) -> None:
        self.issued: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and params.get("cursor") == "" and str(params.get("query")) in self.issued:
            return {name: value for name, value in params.items() if name != "cursor"}
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and member(outcome, "result").get("tools") == [] and "cursor" not in params:
            outcome["result"]["nextCursor"] = ""
            self.issued.add(params["query"])
        return outcome


@fault("last-page-empty")
class LastPageEmpty(Fault):
    """A full last page is followed by an empty one."""

    def __init__(self) -> None:
        self.after: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and str(params.get("cursor")) in self.after:
            return {name: value for name, value in params.items() if name != "cursor"}
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = member(outcome, "result")
        if method != SEARCH or "tools" not in result:
            return outcome
        if str(params.get("cursor")) in self.after:
            outcome["result"] = {**{k: v for k, v in result.items() if k != "nextCursor"}, "tools": []}
        elif "nextCursor" not in result and len(result["tools"]) == params.get("limit") == 1 and "cursor" in params:
            cursor = f"after {params['query']}"
            self.after.add(cursor)
            result["nextCursor"] = cursor
        return outcome


def _without_cursor(params: Json) -> Json:
    return {name: value for name, value in params.items() if name != "cursor"}


@wrong_params("cursor-empty-ignored")
def cursor_empty_ignored(params: Json) -> Json:
    return _without_cursor(params) if params.get("cursor") == "" else params


@wrong_params("cursor-unreadable-ignored")
def cursor_unreadable_ignored(params: Json) -> Json:
    cursor = params.get("cursor")
    return _without_cursor(params) if isinstance(cursor, str) and " " in cursor else params


@wrong_params("cursor-forged-is-internal")
def cursor_forged_is_internal(params: Json) -> Json:
    if str(params.get("cursor", "")) == "null":
        raise Refusal(-32603, "Internal server error", None)
    return params


class _Cursors(Fault):
    """Remembers which cursors were issued, and for what."""

    def __init__(self) -> None:
        self.issued: dict[str, str] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        cursor = member(outcome, "result").get("nextCursor")
        if isinstance(cursor, str):
            self.issued[cursor] = params["query"] if method == SEARCH else method
        return outcome


@fault("cursor-half-read")
class CursorHalfRead(_Cursors):
    """Reads no more than a cursor's first half."""

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = params.get("cursor")
        if method != SEARCH or not isinstance(cursor, str):
            return params
        genuine = (known for known, query in self.issued.items() if query == params.get("query"))
        same = next(
            (
                known
                for known in genuine
                if len(cursor) >= len(known) > 8 and known[: len(known) // 2] == cursor[: len(known) // 2]
            ),
            cursor,
        )
        return {**params, "cursor": same}


@fault("cursor-unbound")
class CursorUnbound(_Cursors):
    """Goes on with the query that a cursor was issued for, whatever the query is."""

    def request(self, method: str, params: Json, era: str) -> Json:
        query = self.issued.get(str(params.get("cursor")))
        return {**params, "query": query} if method == SEARCH and query not in {None, "tools/list"} else params


@fault("cursor-of-list-served")
class CursorOfListServed(_Cursors):
    """Takes a cursor of a listing for the beginning."""

    def request(self, method: str, params: Json, era: str) -> Json:
        return (
            _without_cursor(params)
            if method == SEARCH and self.issued.get(str(params.get("cursor"))) == "tools/list"
            else params
        )


@wrong_result("small-pages-reversed")
def small_pages_reversed(params: Json, result: Json) -> Json:
    return {**result, "tools": result["tools"][::-1]} if params.get("limit") == 3 else result


@wrong_params("default-limit-large")
def default_limit_large(params: Json) -> Json:
    return {"limit": 40, **params}
