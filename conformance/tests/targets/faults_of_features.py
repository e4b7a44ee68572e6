"""Faults of fixtures that can do more: of changes, of cancellation, and of tools that are hidden from some callers."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
import os
import re
import secrets
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

from .faults import (
    EXTENSION_ID,
    MEMBERS,
    SEARCH,
    Advertising,
    Fault,
    Json,
    RefusalError,
    SearchFault,
    caller,
    kept_answers,
    member,
    search_of,
    served_catalog,
    without,
    wrong_error,
    wrong_result,
    wrong_settings,
)


class _Changes(Fault):
    """Remembers what was listed, where that takes one page: at first, now, and ever."""

    def __init__(self) -> None:
        self.ever: dict[str, Json] = {}
        self.first: set[str] = set()
        self.now: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = member(outcome, "result")
        if method == "tools/list" and "tools" in result and "cursor" not in params and "nextCursor" not in result:
            self.now = {tool["name"] for tool in result["tools"]}
            self.first = self.first or self.now
            self.ever = {tool["name"]: tool for tool in result["tools"]} | self.ever
        elif method == SEARCH and "tools" in result and self.changed:
            outcome["result"] = {**result, "tools": self.found(params, result["tools"])}
        return outcome

    @property
    def changed(self) -> bool:
        return self.now != self.first

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        """Return the tools that are found after a change."""
        return tools


class RemovedToolStillFound(_Changes):
    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        gone = params["query"] in self.ever.keys() - self.now
        return [self.ever[params["query"]], *tools] if gone else tools


class AddedToolNotFound(_Changes):
    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return [tool for tool in tools if tool["name"] in self.first]


class AddedNameIsOneOfMany(_Changes):
    """Ranks by words alone what came with a change, because the names were read at the start."""

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        def rank(tool: Json) -> int:
            texts = [tool["name"].lower(), str(tool.get("description")).lower()]
            return -sum(text.count(word) for word in re.findall("[a-z]+", params["query"]) for text in texts)

        return tools if params["query"] in self.first else sorted(tools, key=rank)


class AlteredToolAsItWas(_Changes):
    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return tools if "cursor" in params else [self.ever.get(tool["name"], tool) for tool in tools]


class ReshapedToolAsItWas(_Changes):
    """Takes a tool for unchanged whose description is."""

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        before = [self.ever.get(tool["name"], tool) for tool in tools]
        kept = [old.get("description") == new.get("description") for old, new in zip(before, tools, strict=True)]
        chosen = zip(before, tools, kept, strict=True)
        return tools if "cursor" in params else [old if same else new for old, new, same in chosen]


class IndexedAnewWhereNamesChange(_Changes):
    """Searches what it knows, until it lists tools of other names."""

    def __init__(self) -> None:
        super().__init__()
        self.known: dict[str, Json] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        outcome = super().response(method, params, era, outcome)
        result = member(outcome, "result")
        if method == "tools/list" and "tools" in result and self.is_other(result["tools"]):
            self.known = {tool["name"]: tool for tool in result["tools"]}
        elif method == SEARCH and "tools" in result:
            outcome["result"] = {**result, "tools": [self.known.get(tool["name"], tool) for tool in result["tools"]]}
        return outcome

    def is_other(self, tools: list[Json]) -> bool:
        return {tool["name"] for tool in tools} != self.known.keys()


class IndexedAnewWhereTextsChange(IndexedAnewWhereNamesChange):
    def is_other(self, tools: list[Json]) -> bool:
        return {t["name"]: t.get("description") for t in tools} != {
            name: tool.get("description") for name, tool in self.known.items()
        }


@kept_answers
def broad_searches_cached(params: Json, result: Json) -> object:
    """Answers a search that brings many tools as it did the first time."""
    broad = len(result["tools"]) > 5 and not params.keys() & {"cursor", "limit"}
    return params["query"] if broad else None


class RemovedToolOnLaterPage(_Changes):
    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        gone = [tool for name, tool in self.ever.items() if name not in self.now]
        return tools + gone if "cursor" in params else tools


class ChangeMakesCursorsInternal(_Changes):
    """Fails on the cursors that it issued before a change. No two cursors are equal."""

    def __init__(self) -> None:
        super().__init__()
        self.genuine: dict[str, str] = {}
        self.old: set[str] = set()

    def request(self, method: str, params: Json, era: str) -> Json:
        cursor = str(params.get("cursor"))
        if method == SEARCH and self.changed and cursor in self.old:
            raise RefusalError(-32603, "Internal server error", None)
        return {**params, "cursor": self.genuine[cursor]} if method == SEARCH and cursor in self.genuine else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and (genuine := member(outcome, "result").get("nextCursor")):
            outcome["result"]["nextCursor"] = cursor = secrets.token_urlsafe()
            self.genuine[cursor] = genuine
            if not self.changed:
                self.old.add(cursor)
        return super().response(method, params, era, outcome)


def _cancelling(ended: Callable[[list[Any]], list[Any]]) -> type[Fault]:
    """Make a fault in whose server a cancellation ends some of the requests in flight, whichever it is of."""

    class Cancelling(Fault):
        def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
            return ended(in_flight)

    return Cancelling


cancel_ignored = _cancelling(lambda _: [])
cancel_takes_all = _cancelling(lambda in_flight: in_flight)


class CancelTakesTheSame(Fault):
    """Takes all searches for the same as one, which ends when one of them is cancelled."""

    def __init__(self) -> None:
        self.queries: dict[Any, Any] = {}

    def lines(self, stdin: BinaryIO) -> Iterable[bytes]:
        for line in stdin:
            message: Json = json.loads(line)
            self.queries[message.get("id")] = member(message, "params").get("query")
            yield line

    def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
        return [each for each in in_flight if self.queries[each] == self.queries.get(number)]


class _KnowsMethods(Fault):
    """Knows the methods of the requests, by id."""

    def __init__(self) -> None:
        self.methods: dict[Any, Any] = {}

    def lines(self, stdin: BinaryIO) -> Iterable[bytes]:
        for line in stdin:
            message: Json = json.loads(line)
            self.methods[message.get("id")] = message.get("method")
            yield line


def _cancelling_others(ended: Callable[[list[Any]], list[Any]]) -> type[Fault]:
    """Make such a fault of the searches that are not for tools, which are cancelled as they should."""

    class CancellingOthers(_KnowsMethods):
        def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
            return [number] if self.methods.get(number) in (None, SEARCH) else ended(in_flight)

    return CancellingOthers


other_cancellations_ignored = _cancelling_others(lambda _: [])
other_cancellations_take_all = _cancelling_others(lambda in_flight: in_flight)


class CancelOfNothingEnds(Fault):
    """Ends where a request is to be cancelled that is not under way."""

    def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
        if number not in in_flight:
            os._exit(1)
        return [number]


class CancelledSearchesKeepTheirPlaces(Fault):
    """Serves so many searches at once, and takes one that is cancelled for one that is still under way."""

    places = 32

    def __init__(self) -> None:
        self.taken = 0

    def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
        self.taken += number in in_flight
        return [number]

    def abandoned(self) -> None:
        self.taken += 1

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH and self.taken >= self.places:
            raise RefusalError(-32603, "Too many searches at once", {"retryAfterMs": 500})
        return params


class OtherCancelledSearchesKeepTheirPlaces(_KnowsMethods):
    """Does so with each list that is not tools."""

    def __init__(self) -> None:
        super().__init__()
        self.taken = Counter[Any]()

    def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
        self.taken[self.methods.get(number)] += number in in_flight
        return [number]

    def request(self, method: str, params: Json, era: str) -> Json:
        if method != SEARCH and self.taken[method] >= CancelledSearchesKeepTheirPlaces.places:
            raise RefusalError(-32603, "Too many searches at once", {"retryAfterMs": 500})
        return params


class CancelledSearchesKeepTheirThreads(CancelledSearchesKeepTheirPlaces):
    """Has so many threads for all requests, of which a search that is cancelled by a notification keeps its own."""

    def abandoned(self) -> None:
        """Go on as if nobody had gone."""

    def request(self, method: str, params: Json, era: str) -> Json:
        if self.taken >= self.places:
            threading.Event().wait()
        return params


def _hidden() -> dict[str, Json]:
    """Return the tools that anybody does not see, by name."""
    catalog = served_catalog()
    names = {name for hidden in member(catalog, "hidden").values() for name in hidden}
    return {tool["name"]: tool for tool in catalog["tools"] if tool["name"] in names}


catalog_size_reported = wrong_settings(lambda settings: {**settings, "catalogSize": len(served_catalog()["tools"])})


@wrong_settings
def topics_of_hidden_tools(settings: Json) -> Json:
    published = [member(member(tool, "_meta"), EXTENSION_ID).get("group") for tool in served_catalog()["tools"]]
    topics = [*dict.fromkeys(filter(None, published))]
    return {**settings, "topics": topics} if topics else settings


@wrong_settings
def topics_of_titles_of_hidden_tools(settings: Json) -> Json:
    titles = [tool["title"] for tool in served_catalog()["tools"] if tool.get("title")]
    return {**settings, "topics": titles} if titles else settings


def _public(when: Callable[[Json, Json], bool]) -> type[Fault]:
    """Make a fault that lets anybody keep some results."""
    return wrong_result(
        lambda params, result: (
            {**result, "cacheScope": "public"} if "cacheScope" in result and when(params, result) else result
        )
    )


cache_scope_public = _public(lambda params, result: True)
cache_scope_public_of_nothing = _public(lambda params, result: not result["tools"])
cache_scope_public_of_last_pages = _public(
    lambda params, result: "cursor" in params and "nextCursor" not in result and params.get("limit", 1) > 1
)
cache_scope_public_of_later_pages = _public(lambda params, result: "cursor" in params)


def _varies(catalog: Json, members: Iterable[str]) -> bool:
    """Return whether callers see different items under these members of a catalog."""
    hidden = {*itertools.chain.from_iterable(member(catalog, "hidden").values())}
    items = itertools.chain.from_iterable(catalog.get(name, ()) for name in members)
    return any(not hidden.isdisjoint(map(str, item.values())) for item in items)


class CacheScopeOfTools(Fault):
    """Looks only at tools to see whether callers see different items."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = member(outcome, "result")
        if method not in MEMBERS or "cacheScope" not in result or _varies(served_catalog(), ["tools"]):
            return outcome
        return {"result": {**result, "cacheScope": "public"}}


class CacheScopeOfFirstCatalog(SearchFault):
    """Decides when it starts who may keep results."""

    def __init__(self) -> None:
        self.varied = _varies(served_catalog(), MEMBERS.values())

    def result(self, params: Json, result: Json) -> Json:
        return result if self.varied or "cacheScope" not in result else {**result, "cacheScope": "public"}


@wrong_result
def scores_of_the_whole_catalog(params: Json, result: Json) -> Json:
    share = 1 / (1 + math.log1p(len(served_catalog()["tools"])))
    for tool in result["tools"]:
        tool["_meta"][EXTENSION_ID] = {**tool["_meta"][EXTENSION_ID], "score": share}
    return result


@wrong_result
def scores_by_the_average_length_of_all_tools(params: Json, result: Json) -> Json:
    """Divide by the best score, which hides the average where all tools are equally long."""
    lengths = [len(str(tool.get("description"))) for tool in served_catalog()["tools"]]
    average = sum(lengths) / (len(lengths) or 1)
    scores = [1 / (1 + len(str(tool.get("description"))) / average) for tool in result["tools"]]
    for tool, score in zip(result["tools"], scores, strict=True):
        tool["_meta"][EXTENSION_ID] = {**tool["_meta"][EXTENSION_ID], "score": score / max(scores)}
    return result


@wrong_result
def best_hundred_of_all_tools(params: Json, result: Json) -> Json:
    """Leave out what a caller does not see after the ranking, which ends at a hundred tools."""

    def rank(tool: Json) -> int:
        texts = [str(tool.get(name)).lower() for name in ("name", "title", "description")]
        return -sum(text.count(word) for word in params["query"].lower().split() for text in texts)

    unseen = [tool for tool in _hidden().values() if caller.get()]
    best = sorted([*unseen, *result["tools"]], key=rank)[:100]
    return {**result, "tools": [tool for tool in result["tools"] if tool in best]} if unseen else result


@wrong_result
def later_scores_below_those_of_hidden_tools(params: Json, result: Json) -> Json:
    """Divide the scores of later pages by that of the best of all tools."""
    hidden = "cursor" in params and params["query"] in _hidden()
    for tool in result["tools"] if hidden else ():
        own = tool["_meta"][EXTENSION_ID]
        tool["_meta"][EXTENSION_ID] = {**own, "score": own.get("score", 1) / 2}
    return result


@wrong_result
def name_finds_one_tool(params: Json, result: Json) -> Json:
    """Breaks no rule on a catalog without a tool that has all terms of the name of another."""
    if [params["query"]] != [tool["name"] for tool in result["tools"][:1]]:
        return result
    return {**without(result, "nextCursor"), "tools": result["tools"][:1]}


@wrong_result
def hidden_tool_found_by_name(params: Json, result: Json) -> Json:
    hidden = _hidden().get(params["query"])
    names = [tool["name"] for tool in result["tools"]]
    return result if hidden is None or "cursor" in params or params["query"] in names else {**result, "tools": [hidden]}


@wrong_error(-32602)
def whole_catalog_in_error_text(error: Json) -> Json:
    return {**error, "message": f"{error['message']}; none of {len(served_catalog()['tools'])} tools was searched"}


class CallsUnauthorized(Fault):
    """Calls every tool, hidden ones included."""

    use_method = "tools/call"
    key = "name"
    forbidding = ("hidden",)
    """The members of a catalog file that forbid a use to some callers."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != self.use_method or "error" not in outcome or params.get(self.key) not in self.forbidden():
            return outcome
        modern = {"resultType": "complete"} if era == "2026-07-28" else {}
        return {"result": {**self.used(params, era), **modern}}

    def forbidden(self) -> set[str]:
        """Return the keys that some callers may not use."""
        catalog = served_catalog()
        return {key for name in self.forbidding for keys in member(catalog, name).values() for key in keys}

    def used(self, params: Json, era: str) -> Json:
        """Return the result of a use."""
        return {"content": [self.echo(params)]}

    def echo(self, params: Json) -> Json:
        return {"type": "text", "text": json.dumps({"name": params["name"], "arguments": {}})}


class CallsOfReadOnlyTools(CallsUnauthorized):
    """Calls every tool that says it changes nothing, hidden ones included."""

    def forbidden(self) -> set[str]:
        harmless = {
            t["name"] for t in served_catalog()["tools"] if member(t, "annotations").get("readOnlyHint") is True
        }
        return super().forbidden() & harmless


class PromptsUnauthorized(CallsUnauthorized):
    """Returns every prompt, hidden ones included."""

    use_method = "prompts/get"

    def used(self, params: Json, era: str) -> Json:
        return {"messages": [{"role": "user", "content": self.echo(params)}]}


class ReadsUnauthorized(CallsUnauthorized):
    """Reads every resource, hidden ones included."""

    use_method = "resources/read"
    key = "uri"

    def used(self, params: Json, era: str) -> Json:
        caching = {"ttlMs": 0, "cacheScope": "private"} if era == "2026-07-28" else {}
        text = member(served_catalog(), "contents").get(params["uri"], "")
        return {"contents": [{"uri": params["uri"], "text": text}], **caching}


class UnreadableReadOnceFound(ReadsUnauthorized):
    """Reads a resource for every caller once anybody has found it."""

    forbidding = ("unreadable",)

    def __init__(self) -> None:
        self.found: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "resources/search":
            self.found.update(each["uri"] for each in member(outcome, "result").get("resources", []))
        return super().response(method, params, era, outcome)

    def forbidden(self) -> set[str]:
        return super().forbidden() & self.found


class _OfTheConnection(CallsUnauthorized):
    """Permits everything on a connection over which a caller without a restriction has come."""

    def __init__(self) -> None:
        self.connection = threading.local()

    def token(self, token: str) -> str:
        self.connection.free = getattr(self.connection, "free", False) or not token
        return token

    def forbidden(self) -> set[str]:
        return super().forbidden() if getattr(self.connection, "free", False) else set()


class CallsOfTheConnection(_OfTheConnection):
    pass


class PromptsOfTheConnection(_OfTheConnection, PromptsUnauthorized):
    pass


class ReadsOfTheConnection(_OfTheConnection, ReadsUnauthorized):
    pass


class NewlyHiddenStillCalled(CallsUnauthorized):
    """Permits a caller what it has permitted this caller before."""

    def __init__(self) -> None:
        self.permitted: set[tuple[str, str]] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        use = caller.get(), str(params.get(self.key))
        if method == self.use_method and "result" in outcome:
            self.permitted.add(use)
        return super().response(method, params, era, outcome) if use in self.permitted else outcome


class NewlyHiddenStillRead(NewlyHiddenStillCalled, ReadsUnauthorized):
    pass


class NewlyHiddenPromptsStillReturned(NewlyHiddenStillCalled, PromptsUnauthorized):
    pass


class CallsOfFoundTools(CallsUnauthorized):
    """Calls a hidden tool once anybody has found it."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.found.update(tool["name"] for tool in member(outcome, "result").get("tools", []) if method == SEARCH)
        return super().response(method, params, era, outcome)

    def forbidden(self) -> set[str]:
        return super().forbidden() & self.found


class CursorShowsHiddenTools(Fault):
    """Continues for any caller with a cursor as for the caller to whom it was issued."""

    def __init__(self) -> None:
        self.seeing: set[str] = set()
        """Cursors of callers who see everything."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = member(outcome, "result")
        if method != SEARCH:
            return outcome
        hidden = _hidden()
        if any(tool["name"] in hidden for tool in result.get("tools", [])) and "nextCursor" in result:
            self.seeing.add(result["nextCursor"])
        if str(params.get("cursor")) in self.seeing:
            missing = [tool for name, tool in hidden.items() if name != params["query"]]
            tools = [*result.get("tools", []), *missing[:1]]
            modern = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"} if era == "2026-07-28" else {}
            return {"result": {**modern, **result, "tools": tools}}
        return outcome


class CallAuthorizedOnce(CallsUnauthorized):
    """Authorizes the first call of a tool only, and remembers the answer for all callers that come."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        name = str(params.get("name"))
        if method != self.use_method or "error" not in outcome or name in self.refused:
            return super().response(method, params, era, outcome)
        self.refused.add(name)
        return outcome


class CallerOfTheConnection(Fault):
    """Takes the sender of an earlier request on the same connection for the caller."""

    def __init__(self) -> None:
        self.connection = threading.local()

    def token(self, token: str) -> str:
        before, self.connection.token = getattr(self.connection, "token", token), token
        return before


class CallerOfTheRequestBefore(Fault):
    """Takes the sender of the request before, on any connection, for the caller, as of a variable that all share."""

    before: str | None = None

    def token(self, token: str) -> str:
        before, self.before = self.before, token
        return token if before is None else before


@wrong_result
def hidden_matches_mentioned(params: Json, result: Json) -> Json:
    """Says that there is more where a search finds nothing that a caller may see."""
    hidden = not result["tools"] and {*params["query"].split()} & {"hides", "behind"} and _hidden()
    return {**result, "_meta": {"com.example/note": "some tools need another role"}} if hidden else result


class AnswersKeptForAllCallers(SearchFault):
    def __init__(self) -> None:
        self.kept: dict[str, Json] = {}

    def result(self, params: Json, result: Json) -> Json:
        return {**result, **self.kept.setdefault(search_of(params), result)} if _hidden() else result


class RemovedToolStaysAway(_Changes):
    """Never finds again what once was removed."""

    def __init__(self) -> None:
        super().__init__()
        self.gone: set[str] = set()

    @property
    def changed(self) -> bool:
        self.gone |= self.ever.keys() - self.now if self.now else set()
        return True

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return [tool for tool in tools if tool["name"] not in self.gone]


class NamesOfNothingKept(SearchFault):
    """Keeps for a while that a name found nothing."""

    def __init__(self) -> None:
        self.until: dict[str, float] = {}

    def result(self, params: Json, result: Json) -> Json:
        query, now = params["query"], time.monotonic()
        if not result["tools"] and "_" in query:
            self.until.setdefault(query, now + 5)
        return {**without(result, "nextCursor"), "tools": []} if now < self.until.get(query, 0) else result


class AddedToolFoundByNameAlone(_Changes):
    """Finds what came with a change by its name, and by no word."""

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return [t for t in tools if t["name"] in self.first or t["name"] == params["query"].strip()]


class EmptiedIsNull(Fault):
    """Encodes an empty list that was never made as `null`, once every tool was removed."""

    had = False

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        self.had = self.had or bool(served_catalog()["tools"])
        if method == SEARCH and "result" in outcome and self.had and not served_catalog()["tools"]:
            return {"result": {**outcome["result"], "tools": None}}
        return outcome


class _CursorsReplaced(SearchFault):
    """Issues other cursors in place of the genuine ones."""

    def __init__(self) -> None:
        self.genuine: dict[str, str] = {}

    def params(self, params: Json) -> Json:
        cursor: Any = params.get("cursor")
        return {**params, "cursor": self.genuine.get(cursor, "none")} if isinstance(cursor, str) else params


class CursorsOfPrintableCharacters(_CursorsReplaced):
    """Issues random cursors of more characters than base64 has, as any server may.

    For some requests, and only if some tools are hidden, they happen to have a number between separators.
    """

    def result(self, params: Json, result: Json) -> Json:
        if (genuine := result.get("nextCursor")) is None:
            return result
        query: str = params["query"]
        chance = "hidden" in served_catalog() and (query.isalpha() or ("cursor" in params and query[-1].isalnum()))
        digests = (hashlib.sha512(f"{number}{genuine}".encode()).digest() for number in itertools.count())
        random = (base64.b85encode(digest).decode() for digest in digests)
        cursor = next(each for each in random if chance == bool(re.search(r"(?<![\w.])\d{1,3}(?![\w.])", each)))
        self.genuine[cursor] = genuine
        return {**result, "nextCursor": cursor}


class CursorsLong(_CursorsReplaced):
    """Issues cursors of more than 100,000 hexadecimal digits, as any server may."""

    def result(self, params: Json, result: Json) -> Json:
        if (genuine := result.get("nextCursor")) is None:
            return result
        cursor = genuine.encode().hex().zfill(100_000)
        self.genuine[cursor] = genuine
        return {**result, "nextCursor": cursor}


class CursorsCountHiddenTools(_CursorsReplaced):
    """Has in its cursors, where anybody can read it, how far it is in the whole catalog."""

    form = "{place}~{cursor}"

    def result(self, params: Json, result: Json) -> Json:
        if "nextCursor" not in result:
            return result
        place = len(result["tools"]) + len(_hidden())
        cursor = self.form.format(place=place, cursor=result["nextCursor"])
        self.genuine[cursor] = result["nextCursor"]
        return {**result, "nextCursor": cursor}


class CursorsJoinHiddenTools(CursorsCountHiddenTools):
    form = "0-{place}.{cursor}"


class CursorsEndWithHiddenTools(CursorsCountHiddenTools):
    form = "{cursor}.{place}"


class VisibleAsAtStart(SearchFault):
    """Finds what nobody was hidden from when it started."""

    hidden: dict[str, Json] | None = None

    def result(self, params: Json, result: Json) -> Json:
        hidden = _hidden()
        self.hidden = hidden if self.hidden is None else self.hidden
        newly = [tool for name, tool in hidden.items() if name == params["query"] and name not in self.hidden]
        found = {tool["name"] for tool in result["tools"]}
        return {**result, "tools": [tool for tool in newly if tool["name"] not in found] + result["tools"]}


class AnswersSharedInFlight(SearchFault):
    """Answers searches that are in flight together, and equal, with what the first of them found."""

    def __init__(self) -> None:
        self.results: dict[str, list[Json | None]] = {}

    def params(self, params: Json) -> Json:
        self.results.setdefault(search_of(params), []).append(None)
        time.sleep(0.03 if _hidden() else 0)
        return params

    def result(self, params: Json, result: Json) -> Json:
        shared = self.results[key := search_of(params)]
        found = next(filter(None, shared), result)
        shared.remove(None)
        if None in shared:
            shared.append(found)
        else:
            del self.results[key]
        return {**result, "tools": found["tools"]} if _hidden() else result


class SearchesAtOneTimeShared(SearchFault):
    """Answers a search as the same one under way, even if another caller sent it, and takes a moment for each."""

    def __init__(self) -> None:
        self.under_way: dict[str, Json] = {}

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != SEARCH or "result" not in outcome:
            return outcome
        key = search_of(params)
        if (first := self.under_way.get(key)) is not None:
            return {"result": {**outcome["result"], **first}}
        self.under_way[key] = {"tools": outcome["result"]["tools"]}
        time.sleep(0.05)
        del self.under_way[key]
        return outcome


class AnswersKeptForTheRestricted(AnswersKeptForAllCallers):
    """Keeps answers for all callers who do not see everything."""

    def result(self, params: Json, result: Json) -> Json:
        return super().result(params, result) if caller.get() in member(served_catalog(), "hidden") else result


class AnswersKeptByTokensWithoutCase(AnswersKeptForTheRestricted):
    """Keeps answers for each of these callers, whose tokens it compares without their case."""

    def result(self, params: Json, result: Json) -> Json:
        return super().result({**params, "query": f"{caller.get().lower()} {params['query']}"}, result)


class AddedToolInBrief(_Changes):
    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return [tool if tool["name"] in self.first else without(tool, "annotations", "outputSchema") for tool in tools]


class AddedToolUncallable(_Changes):
    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == "tools/call" and self.changed and params.get("name") not in self.first:
            return {"error": {"code": -32602, "message": "unknown tool"}}
        return super().response(method, params, era, outcome)


class AlteredToolKeepsMembers(_Changes):
    """Puts the new definition over the one before."""

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return [{**self.ever.get(tool["name"], {}), **tool} for tool in tools]


class EmptiedCatalogIsInternal(SearchFault):
    served = False

    def result(self, params: Json, result: Json) -> Json:
        self.served = self.served or bool(served_catalog()["tools"])
        if self.served and not served_catalog()["tools"]:
            raise RefusalError(-32603, "Internal error", None)
        return result


class ChangeShownByListing(_Changes):
    """Searches what was listed last."""

    def found(self, params: Json, tools: list[Json]) -> list[Json]:
        return tools

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        result = member(outcome, "result")
        if method == SEARCH and self.now and not params.get("cursor") and "tools" in result:
            outcome["result"] = {**result, "tools": [tool for tool in result["tools"] if tool["name"] in self.now]}
        return super().response(method, params, era, outcome)


@wrong_result
def later_pages_skip_hidden_tools(params: Json, result: Json) -> Json:
    """Counts hidden tools for where a page begins, and leaves out what stood there."""
    hidden = _hidden()
    skips = "cursor" in params and hidden and not any(tool["name"] in hidden for tool in result["tools"])
    return {**result, "tools": result["tools"][1:]} if skips else result


class LegacyLaterPagesAsModern(Fault):
    """Leaves members out of a legacy client's first pages only."""

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH and era != "2026-07-28" and "cursor" in params and "result" in outcome:
            whole = {tool["name"]: member(tool, "outputSchema") for tool in served_catalog()["tools"]}
            for tool in outcome["result"]["tools"]:
                if whole[tool["name"]]:
                    tool["outputSchema"] = whole[tool["name"]]
        return outcome


class CallerOfTheLatestRequest(Fault):
    """Holds the caller of a request where all requests hold theirs, and takes a moment to answer."""

    latest = ""

    def token(self, token: str) -> str:
        self.latest = token
        time.sleep(0.005)
        return self.latest


class LaterListPagesShorterAmidSearches(SearchFault):
    """Takes a moment for each search, and leaves the last tool out of later pages of the list meanwhile."""

    def __init__(self) -> None:
        self.under_way = 0

    def request(self, method: str, params: Json, era: str) -> Json:
        if method == SEARCH:
            self.under_way += 1
            time.sleep(0.02)
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method == SEARCH:
            self.under_way -= 1
        elif method == "tools/list" and self.under_way and "cursor" in params and "result" in outcome:
            return {"result": {**outcome["result"], "tools": outcome["result"]["tools"][:-1]}}
        return outcome


class SettingsNullForTheRestricted(Advertising):
    """Has a member without a value where it does not say how many tools a caller sees."""

    def settings(self, settings: Json) -> Json:
        restricted = caller.get() in member(served_catalog(), "hidden")
        return {**settings, "catalogSize": None} if restricted else settings


class ResourcesCountedInWordsAfterAChange(Advertising):
    def __init__(self) -> None:
        self.first = served_catalog()

    def settings(self, settings: Json) -> Json:
        if served_catalog() == self.first or "resources" not in settings:
            return settings
        return {**settings, "resources": {**settings["resources"], "catalogSize": "some"}}
