"""Faults of pages and cursors."""

from __future__ import annotations

import secrets
import unicodedata

from .faults import SEARCH, Fault, Json, Refusal, member, wrong_params, wrong_result


@wrong_result
def boundary_loses_a_tool(params: Json, result: Json) -> Json:
    if "nextCursor" in result and len(result["tools"]) > 2:
        return {**result, "tools": result["tools"][:-1]}
    return result


@wrong_result
def later_pages_lost(params: Json, result: Json) -> Json:
    return {
        name: value
        for name, value in result.items()
        if name != "nextCursor" or "cursor" not in params or params.get("limit") == 1
    }


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
        elif "limit" in params and len(tools) < min(params["limit"], 20) and params["query"] in self.first:
            tools.append(self.first[params["query"]])
        return outcome


class EndlessNothing(Fault):
    """A search without matches never ends."""

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and params.get("cursor") == "more of nothing":
            return {name: value for name, value in params.items() if name != "cursor"}
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and member(outcome, "result").get("tools") == []:
            outcome["result"]["nextCursor"] = "more of nothing"
        return outcome


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


@wrong_params
def cursor_empty_ignored(params: Json) -> Json:
    return _without_cursor(params) if params.get("cursor") == "" else params


@wrong_params
def cursor_unreadable_ignored(params: Json) -> Json:
    cursor = params.get("cursor")
    return _without_cursor(params) if isinstance(cursor, str) and " " in cursor else params


@wrong_params
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
            self.issued[cursor] = params.get("query", "") if method == SEARCH else method
        return outcome


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


class CursorUnbound(_Cursors):
    """Goes on with the query that a cursor was issued for, whatever the query is."""

    def request(self, method: str, params: Json, era: str) -> Json:
        query = self.issued.get(str(params.get("cursor")))
        bound = method != SEARCH or "query" not in params or query in {None, "tools/list"}
        return params if bound else {**params, "query": query}


class CursorOfListServed(_Cursors):
    """Takes a cursor of a listing for the beginning."""

    def request(self, method: str, params: Json, era: str) -> Json:
        return (
            _without_cursor(params)
            if method == SEARCH and self.issued.get(str(params.get("cursor"))) == "tools/list"
            else params
        )


class _CursorBoundTo(_Cursors):
    """Compares queries after making them alike, and goes on with the one that the cursor was issued for."""

    def alike(self, query: str) -> object:
        raise NotImplementedError

    def request(self, method: str, params: Json, era: str) -> Json:
        issued, query = self.issued.get(str(params.get("cursor"))), params.get("query")
        if method != SEARCH or issued is None or not isinstance(query, str) or self.alike(query) != self.alike(issued):
            return params
        return {**params, "query": issued}


class CursorBoundToFoldedQuery(_CursorBoundTo):
    def alike(self, query: str) -> object:
        return query.casefold()


class CursorBoundToTrimmedQuery(_CursorBoundTo):
    def alike(self, query: str) -> object:
        return query.strip()


class CursorBoundToComposedQuery(_CursorBoundTo):
    def alike(self, query: str) -> object:
        return unicodedata.normalize("NFC", query)


class CursorBoundToWords(_CursorBoundTo):
    def alike(self, query: str) -> object:
        return sorted(query.split(" "))


class CursorWithoutQuery(_Cursors):
    """Takes the query from the cursor when it is absent."""

    def request(self, method: str, params: Json, era: str) -> Json:
        query = self.issued.get(str(params.get("cursor")))
        return params if method != SEARCH or query is None else {"query": query, **params}


class _OpaqueCursors(Fault):
    """Issues cursors of which no two are equal."""

    def __init__(self) -> None:
        self.genuine: dict[str, str] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = params.get("cursor")
        if method != SEARCH or not isinstance(cursor, str):
            return params
        return {**params, "cursor": self.genuine.get(cursor, f"{cursor} was not issued")}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and (genuine := member(outcome, "result").get("nextCursor")):
            outcome["result"]["nextCursor"] = cursor = secrets.token_urlsafe()
            self.genuine[cursor] = genuine
        return outcome


class CursorUsedOnce(_OpaqueCursors):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and "result" in outcome:
            self.genuine.pop(params.get("cursor", ""), None)
        return super().response(method, params, era, outcome)


class LimitBoundsCandidates(_OpaqueCursors):
    """Ranks no more than three times as many candidates as the first page may hold."""

    def __init__(self) -> None:
        super().__init__()
        self.left: dict[str, int] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or "result" not in outcome:
            return outcome
        left = self.left[params["cursor"]] if "cursor" in params else 3 * int(params.get("limit", 10))
        result = outcome["result"]
        result["tools"] = result["tools"][:left]
        left -= len(result["tools"])
        if not left:
            result.pop("nextCursor", None)
        changed = super().response(method, params, era, outcome)
        self.left[changed["result"].get("nextCursor", "")] = left
        return changed


class CursorForgivesLimit(Fault):
    """Does not look at the limit of later pages, unless it is one."""

    def request(self, method: str, params: Json, era: str) -> Json:
        limit, later = params.get("limit"), isinstance(params.get("cursor"), str)
        refused = "limit" in params and (isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 1)
        return {**params, "limit": 1} if method == SEARCH and later and refused else params


class PagesWithoutEnd(Fault):
    """After the last page come empty ones for ever."""

    def __init__(self) -> None:
        self.ended: dict[str, str] = {}

    def request(self, method: str, params: Json, era: str) -> Json:
        return _without_cursor(params) if method == SEARCH and self._beyond(params) else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or "result" not in outcome:
            return outcome
        if self._beyond(params):
            outcome["result"]["tools"] = []
            outcome["result"].pop("nextCursor", None)
        if "nextCursor" not in outcome["result"]:
            outcome["result"]["nextCursor"] = cursor = f"beyond {len(self.ended)}"
            self.ended[cursor] = params["query"]
        return outcome

    def _beyond(self, params: Json) -> bool:
        query = self.ended.get(str(params.get("cursor")))
        return query is not None and query == params.get("query")


class LatestSearchOnly(Fault):
    """Begins a search anew when it is continued a second time after another one has begun."""

    def __init__(self) -> None:
        self.first: dict[str, list[Json]] = {}
        self.continued: set[str] = set()
        self.latest = ""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or "result" not in outcome:
            return outcome
        query = params["query"]
        if "cursor" not in params:
            self.latest, self.first[query] = query, outcome["result"]["tools"]
            self.continued.discard(query)
        elif self.latest != query and query in self.continued:
            outcome["result"]["tools"] = self.first[query][:1]
        else:
            self.continued.add(query)
        return outcome


@wrong_result
def last_cursor_empty(params: Json, result: Json) -> Json:
    return {"nextCursor": "", **result}


@wrong_result
def small_pages_reversed(params: Json, result: Json) -> Json:
    # The first match stays, since the one whose name is the query has to.
    first, rest = result["tools"][:1], result["tools"][1:]
    return {**result, "tools": [*first, *rest[::-1]]} if params.get("limit") == 3 else result


@wrong_params
def default_limit_large(params: Json) -> Json:
    return {"limit": 40, **params}
