"""Clients with one rule broken: each class overrides one decision of the miniature client."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Callable
from typing import Any, Final, TypeVar
from urllib.parse import quote

from .miniature_client import EXTENSION_ID, LEGACY, META, MODERN, PAGE, SETTINGS, Client, Federation, Invalid, Refused
from .miniature_transports import Json, TransportError

FAULTS: Final[dict[str, type[Client] | type[Federation]]] = {}

Kind = TypeVar("Kind", bound=type[Client] | type[Federation])


def score_of(tool: Json) -> float:
    """Return what the server says of how well a tool fits."""
    return tool.get("_meta", {}).get(EXTENSION_ID, {}).get("score", 0)


def fault(name: str) -> Callable[[Kind], Kind]:
    """Register a class as the fault `name`."""

    def register(kind: Kind) -> Kind:
        FAULTS[name] = kind
        return kind

    return register


@fault("declares-when-searching-only")
class DeclaresWhenSearchingOnly(Client):
    def declared(self, method: str) -> Json:
        return super().declared(method) if self.era == LEGACY or method == "tools/search" else {}


@fault("declares-in-experimental")
class DeclaresInExperimental(Client):
    def declared(self, method: str) -> Json:
        return {"experimental": {EXTENSION_ID: {}}} if self.era == MODERN else super().declared(method)


@fault("undeclared-with-cursor")
class UndeclaredWithCursor(Client):
    def message(self, method: str, params: Json) -> Json:
        message = super().message(method, params)
        if self.era == MODERN and "cursor" in params:
            message["params"]["_meta"][META + "clientCapabilities"] = {}
        return message


@fault("undeclared-when-listening")
class UndeclaredWhenListening(Client):
    def declared(self, method: str) -> Json:
        return {} if method == "subscriptions/listen" else super().declared(method)


@fault("undeclared-in-handshake")
class UndeclaredInHandshake(Client):
    def declared(self, method: str) -> Json:
        return {} if method == "initialize" else super().declared(method)


@fault("declares-true-in-handshake")
class DeclaresTrueInHandshake(Client):
    def declared(self, method: str) -> Json:
        return {"extensions": {EXTENSION_ID: True}} if method == "initialize" else super().declared(method)


@fault("advertised-as-true")
class AdvertisedAsTrue(Client):
    def counts(self, held: Any) -> bool:
        return held is True or super().counts(held)


@fault("extensions-only")
class ExtensionsOnly(Client):
    def places(self) -> tuple[str, ...]:
        return ("extensions",)


@fault("experimental-only-in-legacy")
class ExperimentalOnlyInLegacy(Client):
    def places(self) -> tuple[str, ...]:
        return ("extensions",) if self.era == MODERN else ("experimental",)


@fault("first-place-decides")
class FirstPlaceDecides(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        first = (capabilities.get("extensions") or Json()).get(EXTENSION_ID, {})
        return super().read_settings(capabilities) if self.counts(first) else None


@fault("experimental-in-discovery")
class ExperimentalInDiscovery(Client):
    def places(self) -> tuple[str, ...]:
        return ("extensions", "experimental")


@fault("settings-closed")
class SettingsClosed(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and set(held) <= SETTINGS


@fault("settings-strict")
class SettingsStrict(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and held.get("maxLimit") != 0


@fault("settings-believed")
class SettingsBelieved(Client):
    def limited(self, limit: int | None) -> Json:
        most: Any = (self.settings or {}).get("maxLimit")
        return {"limit": min(limit, most)} if limit and isinstance(most, int | float) else super().limited(limit)


@fault("advertised-by-another")
class AdvertisedByAnother(Client):
    def read_settings(self, capabilities: Json) -> Json | None:
        others = [name for name in capabilities.get("extensions") or Json() if name.endswith("/tools-search")]
        return {} if others and EXTENSION_ID not in others else super().read_settings(capabilities)


@fault("probes")
class Probes(Client):
    advertised = True

    def read_settings(self, capabilities: Json) -> Json | None:
        self.advertised = EXTENSION_ID in json.dumps(capabilities)
        return super().read_settings(capabilities)

    def searches(self) -> bool:
        if not self.advertised:
            self.request("tools/search", {"query": "is anybody there"})
        return super().searches()


@fault("query-trimmed-with-cursor")
class QueryTrimmedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.strip(), "cursor": cursor}


@fault("query-lowered-with-cursor")
class QueryLoweredWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.lower(), "cursor": cursor}


@fault("query-left-out-with-cursor")
class QueryLeftOutWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"cursor": cursor}


@fault("query-normalised-with-cursor")
class QueryNormalisedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": unicodedata.normalize("NFC", query), "cursor": cursor}


@fault("query-cleaned-with-cursor")
class QueryCleanedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": "".join(each for each in query if each >= " "), "cursor": cursor}


@fault("query-cut-with-cursor")
class QueryCutWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query[:1000], "cursor": cursor}


@fault("cursor-trimmed")
class CursorTrimmed(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor.strip()}


@fault("cursor-percent-encoded")
class CursorPercentEncoded(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": quote(cursor)}


@fault("cursor-cut")
class CursorCut(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor[:255]}


@fault("asks-beyond-the-end")
class AsksBeyondTheEnd(Client):
    def all_pages(self, query: str) -> list[Json]:
        tools = super().all_pages(query)
        self.request("tools/search", {"query": query})
        return tools


@fault("cursor-null-at-first")
class CursorNullAtFirst(Client):
    def page(self, params: Json) -> Json:
        return super().page({"cursor": None, **params})


@fault("limit-null")
class LimitNull(Client):
    def page(self, params: Json) -> Json:
        return super().page({"limit": None, **params})


@fault("ids-broken")
class IdsBroken(Client):
    def next_id(self) -> Any:
        return super().next_id() + 0.5


@fault("ids-used-again")
class IdsUsedAgain(Client):
    def next_id(self) -> Any:
        return 1 + super().next_id() % 3 if self.era == LEGACY else super().next_id()


@fault("empty-start-ends")
class EmptyStartEnds(Client):
    begun = False

    def all_pages(self, query: str) -> list[Json]:
        self.begun = False
        return super().all_pages(query)

    def is_last(self, page: Json) -> bool:
        first, self.begun = not self.begun, True
        return super().is_last(page) or (first and not page["tools"])


@fault("empty-page-ends")
class EmptyPageEnds(Client):
    def is_last(self, page: Json) -> bool:
        return super().is_last(page) or not page["tools"]


@fault("empty-cursor-ends")
class EmptyCursorEnds(Client):
    def is_last(self, page: Json) -> bool:
        return not page.get("nextCursor")


@fault("circle-is-the-end")
class CircleIsTheEnd(Client):
    def in_a_circle(self) -> None:
        return


@fault("circle-followed")
class CircleFollowed(Client):
    def all_pages(self, query: str) -> list[Json]:
        try:
            return super().all_pages(query)
        except Refused as error:
            if error.code is not None:
                raise
        params: Json = {"query": query}
        while not self.is_last(page := self.page(params)):
            params = self.next_params(query, page["nextCursor"])
        return []


@fault("circle-of-one-found-only")
class CircleOfOneFoundOnly(Client):
    def all_pages(self, query: str) -> list[Json]:
        tools: list[Json] = []
        params: Json = {"query": query}
        while True:
            try:
                page = self.page(params)
            except Refused as error:
                if "cursor" not in params or error.code != -32602:
                    raise
                return self.cursor_refused(query, tools)
            tools += page["tools"]
            if self.is_last(page):
                return tools
            if page["nextCursor"] == params.get("cursor"):
                self.in_a_circle()
            params = self.next_params(query, page["nextCursor"])


@fault("scores-compared")
class ScoresCompared(Client):
    def all_pages(self, query: str) -> list[Json]:
        return sorted(super().all_pages(query), key=lambda tool: -score_of(tool))


@fault("refused-cursor-keeps-pages")
class RefusedCursorKeepsPages(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools


@fault("refused-cursor-keeps-cache")
class RefusedCursorKeepsCache(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return self.page({"query": query})["tools"]


@fault("refused-cursor-adds-pages")
class RefusedCursorAddsPages(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools + self.all_pages(query)


@fault("legacy-members-checked")
class LegacyMembersChecked(Client):
    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        if page.get("resultType", "complete") != "complete":
            raise Invalid("an unknown kind of result")
        return page


@fault("legacy-ttl-obeyed")
class LegacyTtlObeyed(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs", 0)
        return ttl if isinstance(ttl, int) else 0


@fault("legacy-ttl-of-zero-obeyed")
class LegacyTtlOfZeroObeyed(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 0 if page.get("ttlMs") == 0 else 30_000


@fault("unknown-members-of-tools-refused")
class UnknownMembersOfToolsRefused(Client):
    def checked(self, result: Json) -> Json:
        if any(isinstance(tool, dict) and "future" in tool for tool in result.get("tools") or ()):
            raise Invalid("unknown members")
        return super().checked(result)


@fault("unknown-members-refused")
class UnknownMembersRefused(Client):
    def checked(self, result: Json) -> Json:
        if "tools" in result and not set(result) <= PAGE:
            raise Invalid("unknown members")
        return super().checked(result)


@fault("cache-without-query")
class CacheWithoutQuery(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""})


@fault("cache-without-limit")
class CacheWithoutLimit(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


@fault("cache-without-cursor")
class CacheWithoutCursor(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": ""})


@fault("cache-blind-to-case")
class CacheBlindToCase(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"].lower()})


@fault("cache-key-joined")
class CacheKeyJoined(Client):
    def key(self, params: Json) -> str:
        return "".join(str(params.get(member, "")) for member in ("query", "limit", "cursor"))


@fault("kept-beyond-its-time")
class KeptBeyondItsTime(Client):
    def ttl(self, page: Json) -> float:
        return max(super().ttl(page), 30_000) if super().ttl(page) else 0


@fault("kept-for-no-time")
class KeptForNoTime(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) or (30_000 if self.era == MODERN else 0)


@fault("cache-shared")
class CacheShared(Client):
    def is_shared(self, page: Json) -> bool:
        return True


@fault("lists-what-it-found")
class ListsWhatItFound(Client):
    def list_tools(self) -> list[Json]:
        return list(self.found.values()) or super().list_tools()


@fault("searches-what-it-listed")
class SearchesWhatItListed(Client):
    listing: list[Json] | None = None

    def list_tools(self) -> list[Json]:
        self.listing = super().list_tools()
        return self.listing

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        return super().search(query, limit) if self.listing is None else self.ranked(query, self.listing)[:limit]


class _LegacyKept(Client):
    """Keeps legacy pages, too."""

    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 3_600_000

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return super().cursor_refused(query, tools)


@fault("legacy-kept-without-query")
class LegacyKeptWithoutQuery(_LegacyKept):
    """Only where the host wants so many: to find all, each query has pages of its own."""

    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""} if "limit" in params else params)


@fault("legacy-kept-without-limit")
class LegacyKeptWithoutLimit(_LegacyKept):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


@fault("legacy-kept-whatever-changes")
class LegacyKeptWhateverChanges(_LegacyKept):
    def told(self, notification: Json) -> None:
        return


@fault("list-change-ignored")
class ListChangeIgnored(Client):
    def told(self, notification: Json) -> None:
        return


class _Headers(Client):
    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        if method == "tools/search":
            self.change(headers, params)
        return headers

    def change(self, headers: dict[str, str], params: Json) -> None:
        raise NotImplementedError


@fault("method-header-missing")
class MethodHeaderMissing(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers.pop("Mcp-Method", None)


@fault("method-header-other")
class MethodHeaderOther(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["Mcp-Method"] = "tools/list"


@fault("name-header")
class NameHeader(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["Mcp-Name"] = "search"


@fault("name-header-with-cursor")
class NameHeaderWithCursor(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if "cursor" in params:
            headers["Mcp-Name"] = "search"


@fault("query-in-header")
class QueryInHeader(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Query"] = params["query"].encode("ascii", errors="ignore").decode().strip()


@fault("query-in-header-of-listing")
class QueryInHeaderOfListing(Client):
    sought = ""

    def search_all(self, query: str) -> list[Json]:
        self.sought = query
        return super().search_all(query)

    def headers(self, method: str, params: Json) -> dict[str, str]:
        sought = {"X-Query": quote(self.sought)} if method == "tools/list" and self.sought else {}
        return {**super().headers(method, params), **sought}


@fault("query-in-header-encoded")
class QueryInHeaderEncoded(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = "=?base64?" + base64.b64encode(params["query"].encode()).decode() + "?="


@fault("query-in-header-hexadecimal")
class QueryInHeaderHexadecimal(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = params["query"].encode().hex()


@fault("unfit-tools-kept")
class UnfitToolsKept(Client):
    def fit(self, tool: Json) -> bool:
        return True


@fault("unfit-tools-with-numbers-kept")
class UnfitToolsWithNumbersKept(Client):
    def carries_header(self, kind: str) -> bool:
        return kind == "number" or super().carries_header(kind)


@fault("unfit-tools-with-items-kept")
class UnfitToolsWithItemsKept(Client):
    def takes_hidden_headers(self) -> bool:
        return True


@fault("unfit-tools-told-apart-by-case")
class UnfitToolsToldApartByCase(Client):
    def apart(self, names: list[str]) -> bool:
        return len(set(names)) == len(names)


@fault("unfit-tools-of-later-pages-kept")
class UnfitToolsOfLaterPagesKept(Client):
    later = False

    def page(self, params: Json) -> Json:
        self.later = "cursor" in params
        return super().page(params)

    def fit(self, tool: Json) -> bool:
        return self.later or super().fit(tool)


@fault("param-headers-missing")
class ParamHeadersMissing(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        return {}


@fault("param-headers-of-strings-only")
class ParamHeadersOfStringsOnly(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        return {name: value for name, value in super().param_headers(params).items() if not value.isdecimal()}


@fault("param-headers-of-listing")
class ParamHeadersOfListing(Client):
    """The definition that was listed first is the one that counts."""

    first: dict[str, Json] | None = None

    def list_tools(self) -> list[Json]:
        tools = super().list_tools()
        self.first = {tool["name"]: tool for tool in tools}
        return tools

    def param_headers(self, params: Json) -> dict[str, str]:
        self.found |= self.first or {}
        return super().param_headers(params)


@fault("param-headers-as-python-has-it")
class ParamHeadersAsPythonHasIt(Client):
    def header_value(self, value: Any) -> str:
        return str(value) if isinstance(value, bool) else super().header_value(value)


@fault("param-headers-not-encoded")
class ParamHeadersNotEncoded(Client):
    def header_value(self, value: Any) -> str:
        return value if isinstance(value, str) else super().header_value(value)


@fault("kind-of-result-ignored")
class KindOfResultIgnored(Client):
    def checked(self, result: Json) -> Json:
        return super().checked({**result, "resultType": "complete"} if "resultType" in result else result)


@fault("input-awaited")
class InputAwaited(Client):
    def check_modern(self, result: Json) -> None:
        awaited = result.get("resultType") == "input_required"
        super().check_modern({**result, "resultType": "complete"} if awaited else result)


@fault("empty-settings-are-none")
class EmptySettingsAreNone(Client):
    def counts(self, held: Any) -> bool:
        return super().counts(held) and bool(held)


@fault("lists-what-is-large")
class ListsWhatIsLarge(Client):
    def searches(self) -> bool:
        return super().searches() and (self.settings or {}).get("catalogSize", 0) < 100_000


@fault("unadvertised-unranked")
class UnadvertisedUnranked(Client):
    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        return super().ranked(query, tools) if self.settings is not None else tools


@fault("unadvertised-is-an-error-for-all")
class UnadvertisedIsAnErrorForAll(Client):
    def search_all(self, query: str) -> list[Json]:
        if self.settings is None:
            raise Invalid("the server cannot search")
        return super().search_all(query)


@fault("unadvertised-first-page-only")
class UnadvertisedFirstPageOnly(Client):
    def listed(self) -> list[Json]:
        return super().listed() if self.settings is not None else self.request("tools/list", {})["tools"]


@fault("unadvertised-is-an-error")
class UnadvertisedIsAnError(Client):
    def searches(self) -> bool:
        if self.settings is None:
            raise Invalid("the server cannot search")
        return True


@fault("unknown-method-is-an-error")
class UnknownMethodIsAnError(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Refused) and error.code == -32601:
            raise error
        return super().instead(error, query)


@fault("missing-capability-is-an-error")
class MissingCapabilityIsAnError(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Refused) and error.code == -32021:
            raise error
        return super().instead(error, query)


@fault("invalid-result-is-an-error")
class InvalidResultIsAnError(Client):
    def instead(self, error: Refused | Invalid, query: str) -> list[Json]:
        if isinstance(error, Invalid):
            raise error
        return super().instead(error, query)


@fault("later-refusal-is-the-end")
class LaterRefusalIsTheEnd(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except Refused as error:
            if "cursor" not in params or error.code == -32602:
                raise
            return {"tools": []}


@fault("later-invalid-result-is-the-end")
class LaterInvalidResultIsTheEnd(Client):
    def page(self, params: Json) -> Json:
        try:
            return super().page(params)
        except Invalid:
            if "cursor" not in params:
                raise
            return {"tools": []}


@fault("invalid-cursor-ignored")
class InvalidCursorIgnored(Client):
    def checked(self, result: Json) -> Json:
        if not isinstance(result.get("nextCursor", ""), str):
            del result["nextCursor"]
        return super().checked(result)


@fault("searching-servers-only")
class SearchingServersOnly(Federation):
    def asked(self) -> list[str]:
        return [name for name, client in self.clients.items() if client.searches()]


@fault("asks-until-it-has-enough")
class AsksUntilItHasEnough(Federation):
    def has_enough(self, answers: dict[str, list[Json]], limit: int) -> bool:
        return sum(map(len, answers.values())) >= limit


@fault("merged-one-after-the-other")
class MergedOneAfterTheOther(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        return found


@fault("merged-by-score")
class MergedByScore(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        return sorted(found, key=lambda hit: -score_of(hit[2]))


@fault("bare-names")
class BareNames(Federation):
    def full_name(self, server: str, tool: Json) -> str:
        return tool["name"]


@fault("names-joined")
class NamesJoined(Federation):
    def full_name(self, server: str, tool: Json) -> str:
        return f"{server}__{tool['name']}"


@fault("names-by-result")
class NamesByResult(Federation):
    """The first tool of a name in each result has it bare."""

    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        self.taken: set[str] = set()

    def search(self, query: str, limit: int) -> Json:
        self.taken.clear()
        return super().search(query, limit)

    def full_name(self, server: str, tool: Json) -> str:
        name = super().full_name(server, tool) if tool["name"] in self.taken else tool["name"]
        self.taken.add(tool["name"])
        return name


@fault("failures-untold")
class FailuresUntold(Federation):
    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": tools, "failed": []}


@fault("lost-server-untold")
class LostServerUntold(Federation):
    def told_of(self, name: str, error: Exception) -> list[str]:
        return [] if isinstance(error, TransportError) else super().told_of(name, error)


@fault("one-failure-fails-all")
class OneFailureFailsAll(Federation):
    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": [] if failed else tools, "failed": failed}


@fault("any-answer-taken")
class AnyAnswerTaken(Client):
    def is_answer(self, request: Json, response: Json) -> bool:
        return super().is_answer(request, response) if self.over_http else True


@fault("answers-confounded")
class AnswersConfounded(Client):
    """What comes while another search is under way is taken for the answer to that one, too."""

    def __init__(self, target: Json, era: str) -> None:
        self.under_way = 0
        self.came: Json | None = None
        super().__init__(target, era)

    def request(self, method: str, params: Json) -> Json:
        self.under_way += 1
        try:
            result = super().request(method, params)
        finally:
            self.under_way -= 1
        self.came, result = (result if self.under_way else None), self.came or result
        return result


@fault("answers-taken-in-order")
class AnswersTakenInOrder(Client):
    """Each answer is for the oldest request."""

    def __init__(self, target: Json, era: str) -> None:
        self.unanswered: list[Any] = []
        super().__init__(target, era)

    def message(self, method: str, params: Json) -> Json:
        message = super().message(method, params)
        if method != "subscriptions/listen":
            self.unanswered.append(message["id"])
        return message

    def is_answer(self, request: Json, response: Json) -> bool:
        if self.over_http:
            return super().is_answer(request, response)
        if response.get("id") not in range(1, self.ids + 1) or request["id"] != self.unanswered[0]:
            return False
        del self.unanswered[0]
        return True

    def cancel(self, number: Any) -> None:
        self.unanswered.remove(number)
        super().cancel(number)


@fault("cancelled-untold")
class CancelledUntold(Client):
    def cancel(self, number: Any) -> None:
        pass


@fault("last-request-cancelled")
class LastRequestCancelled(Client):
    def cancel(self, number: Any) -> None:
        super().cancel(self.ids)


@fault("cancelled-by-text")
class CancelledByText(Client):
    def tell_cancelled(self, number: Any) -> None:
        super().tell_cancelled(str(number))


@fault("cancelled-all")
class CancelledAll(Client):
    def cancel(self, number: Any) -> None:
        for each in self.asked.values():
            super().cancel(each)


@fault("silent")
class Silent(Client):
    """A client that has never heard of the extension."""

    def declared(self, method: str) -> Json:
        return {}

    def searches(self) -> bool:
        return False
