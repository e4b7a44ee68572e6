"""Clients with one rule broken: each class overrides one decision of the miniature client."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final, TypeVar

from .miniature_client import EXTENSION_ID, LEGACY, MODERN, PAGE, SETTINGS, Client, Federation, Invalid, Refused
from .miniature_transports import Json

FAULTS: Final[dict[str, type[Client] | type[Federation]]] = {}

Kind = TypeVar("Kind", bound=type[Client] | type[Federation])


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
        return super().counts(held) and held["maxLimit"] != 0


@fault("probes")
class Probes(Client):
    advertised = True

    def read_settings(self, capabilities: Json) -> Json | None:
        self.advertised = "extensions" in capabilities or "experimental" in capabilities
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


@fault("refused-cursor-keeps-pages")
class RefusedCursorKeepsPages(Client):
    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        return tools


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


@fault("cache-shared")
class CacheShared(Client):
    def is_shared(self, page: Json) -> bool:
        return True


@fault("lists-what-it-found")
class ListsWhatItFound(Client):
    def list_tools(self) -> list[Json]:
        return list(self.found.values()) or super().list_tools()


class _LegacyKept(Client):
    """Keeps legacy pages, too."""

    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 3_600_000

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return super().cursor_refused(query, tools)


@fault("legacy-kept-without-query")
class LegacyKeptWithoutQuery(_LegacyKept):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""})


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


@fault("query-in-header")
class QueryInHeader(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Query"] = params["query"].encode("ascii", errors="ignore").decode().strip()


@fault("query-in-header-encoded")
class QueryInHeaderEncoded(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = "=?base64?" + base64.b64encode(params["query"].encode()).decode() + "?="


@fault("unfit-tools-kept")
class UnfitToolsKept(Client):
    def fit(self, tool: Json) -> bool:
        return True


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


@fault("kind-of-result-ignored")
class KindOfResultIgnored(Client):
    def checked(self, result: Json) -> Json:
        return super().checked({**result, "resultType": "complete"} if "resultType" in result else result)


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


@fault("merged-by-score")
class MergedByScore(Federation):
    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        return sorted(found, key=lambda hit: -hit[2].get("_meta", {}).get(EXTENSION_ID, {}).get("score", 0))


@fault("bare-names")
class BareNames(Federation):
    def full_name(self, server: str, tool: Json) -> str:
        return tool["name"]


@fault("failures-untold")
class FailuresUntold(Federation):
    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": tools, "failed": []}


@fault("one-failure-fails-all")
class OneFailureFailsAll(Federation):
    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": [] if failed else tools, "failed": failed}


@fault("silent")
class Silent(Client):
    """A client that has never heard of the extension."""

    def declared(self, method: str) -> Json:
        return {}

    def searches(self) -> bool:
        return False
