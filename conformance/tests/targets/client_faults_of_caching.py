"""Caching: the key of a kept page, and how long it is kept."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from concurrent.futures import Future
from typing import ClassVar
from unicodedata import normalize

from .client_faults_of_paging import ReadsOn
from .client_library import LEGACY, MODERN, Client, Federation, InvalidError, RefusedError
from .miniature_transports import Json


class CacheWithoutQuery(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""})


class CacheWithoutLimit(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


class CacheWithoutLimitReadOn(CacheWithoutLimit):
    """Reads on where the page that it has kept holds too few, so that each search makes a request."""

    following: str | None = None

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        self.following = None
        tools = super().search(query, limit)
        if limit is None or len(tools) >= limit or self.following is None:
            return tools
        return tools + self.page({"query": query, "limit": limit, "cursor": self.following})["tools"]

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.following = page.get("nextCursor")
        return page


class CacheWithoutCursor(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": ""})


class ListChangeOfTheConnectionOnly(Client):
    """Keeps pages for all connections to an address, of which a list change drops those of its own connection."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.of_address = self.by_address.setdefault(json.dumps([target.get("url"), target.get("args"), era]), {})
        self.kept = dict(self.of_address)

    def keep(self, key: str, page: Json, user: str) -> None:
        super().keep(key, page, user)
        self.of_address.update(self.kept)


class CacheWithoutRevision(Client):
    """One cache for all connections to one address."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.kept = self.by_address.setdefault(json.dumps(target), {})


class CacheBlindToCase(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"].lower()})


class CacheBlindToSpacing(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": " ".join(params["query"].split())})


class CacheBlindToOrder(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": sorted(params["query"].split(" "))})


class CacheKeyCut(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"][:255]})


class CacheBlindToCaseOfCursors(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": params.get("cursor", "").lower()})


class CacheByTens(Client):
    """Limits are rounded up, and what was kept for more is cut."""

    def key(self, params: Json) -> str:
        return super().key({**params, "limit": -(-params.get("limit", 0) // 10)})


class CacheKeyJoined(Client):
    def key(self, params: Json) -> str:
        return "".join(str(params.get(member, "")) for member in ("query", "limit", "cursor"))


class CacheKeySeparated(Client):
    def key(self, params: Json) -> str:
        return "|".join(str(params.get(member, "")) for member in ("limit", "cursor", "query"))


class CacheKeyOfAddress(Client):
    def key(self, params: Json) -> str:
        return "&".join(f"{member}={params[member]}" for member in ("query", "limit", "cursor") if member in params)


class CacheBlindToEmptyCursors(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": params.get("cursor") or None})


class CacheOfEveryMethod(Client):
    def of(self, member: str) -> Client:
        other = super().of(member)
        other.kept = self.kept
        return other


class CacheKeyOfLimitOrCursor(Client):
    def key(self, params: Json) -> str:
        return f"{params['query']}:{params.get('limit', params.get('cursor'))}"


class CacheOfTheUsualLimit(Client):
    """Takes a search without a limit for one with the limit that servers usually have."""

    def key(self, params: Json) -> str:
        return super().key({"limit": 10, **params})


class CacheBlindToForm(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": normalize("NFC", params["query"])})


class CacheBlindToArticles(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": [w for w in params["query"].split(" ") if w not in {"a", "the"}]})


class CacheBlindToMarks(Client):
    """Only what can be seen counts."""

    def key(self, params: Json) -> str:
        return super().key({**params, "query": "".join(filter(str.isprintable, params["query"]))})


class CacheKeyHashed(Client):
    """The hash is that of strings in Java."""

    def key(self, params: Json) -> str:
        number = 0
        for character in params["query"]:
            number = (number * 31 + ord(character)) % 2**32
        return super().key({**params, "query": number})


class CacheKeyCutLate(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"][:900]})


class CacheKeyCutOfCursors(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": params.get("cursor", "")[:64]})


class CacheOfEight(Client):
    """Takes a search without a limit for one with the limit that it would have."""

    def key(self, params: Json) -> str:
        return super().key({"limit": 8, **params})


class CacheWithoutLimitOfLaterPages(ReadsOn):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0} if "cursor" in params else params)


class CacheByCursorAlone(Client):
    def key(self, params: Json) -> str:
        return params.get("cursor") or super().key(params)


class _Joined(Client, ABC):
    """Waits for a request that is under way, where another search needs the same."""

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.flights: dict[str, Future[Json]] = {}

    @abstractmethod
    def flight(self, params: Json) -> str:
        """Return the name of the request that a search can share."""

    def page(self, params: Json) -> Json:
        own = Future[Json]()
        flight = self.flights.setdefault(name := self.flight(params), own)
        if flight is not own:
            return flight.result()
        try:
            own.set_result(page := super().page(params))
            return page
        except Exception as error:
            own.set_exception(error)
            raise
        finally:
            del self.flights[name]


class JoinedBlindToCase(_Joined):
    def flight(self, params: Json) -> str:
        return f"{self.user} {json.dumps(params).lower()}"


class JoinedForUsers(_Joined):
    def flight(self, params: Json) -> str:
        return json.dumps(params)


class ScopeBlindToCase(Client):
    def is_shared(self, page: Json) -> bool:
        return str(page.get("cacheScope")).lower() == "public"


class KeptBeyondItsTime(Client):
    def ttl(self, page: Json) -> float:
        return max(super().ttl(page), 30_000) if super().ttl(page) > 0 else 0


class KeptForNoTime(Client):
    def ttl(self, page: Json) -> float:
        return 30_000 if self.era == MODERN and page.get("ttlMs") == 0 else super().ttl(page)


class EmptyResultBelieved(Client):
    """What was not found once is never asked for again."""

    def ttl(self, page: Json) -> float:
        return super().ttl(page) if page["tools"] or self.era == LEGACY else 3_600_000


class KeptAsLongAsItIsRead(Client):
    def page(self, params: Json) -> Json:
        user = self.user
        page = super().page(params)
        self.keep(self.key(params), page, user)
        return page


class FirstTtlForAllPages(Client):
    first = 0.0

    def page(self, params: Json) -> Json:
        if "cursor" not in params:
            self.first = 0.0
        page = super().page(params)
        if "cursor" not in params:
            self.first = self.ttl(page)
        return page

    def ttl(self, page: Json) -> float:
        return self.first or super().ttl(page)


class MissingTtlIsAnHour(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) if "ttlMs" in page or self.era == LEGACY else 3_600_000


class NegativeTtlIsForEver(Client):
    def ttl(self, page: Json) -> float:
        return 3_600_000 if super().ttl(page) < 0 else super().ttl(page)


class TextOfTtlRead(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs")
        return float(ttl) if isinstance(ttl, str) and self.era == MODERN else super().ttl(page)


class FractionOfTtlRead(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs")
        return ttl if isinstance(ttl, float) and self.era == MODERN else super().ttl(page)


class MalformedHintsListed(Client):
    def checked(self, result: Json) -> Json:
        ttl = result.get("ttlMs")
        if self.era == MODERN and (type(ttl) is not int or ttl < 0):
            raise InvalidError("no valid ttlMs")
        return super().checked(result)


class MalformedScopeIsAnError(Client):
    def checked(self, result: Json) -> Json:
        if self.era == MODERN and result.get("cacheScope") not in ("public", "private"):
            raise RefusedError({"message": "no valid cacheScope"})
        return super().checked(result)


class ScopeOfAnotherTypeIsAnError(Client):
    def checked(self, result: Json) -> Json:
        if self.era == MODERN and not isinstance(result.get("cacheScope") or "", str):
            raise RefusedError({"message": "cacheScope is not a string"})
        return super().checked(result)


class CacheShared(Client):
    def is_shared(self, page: Json) -> bool:
        return True


class MissingScopeIsPublic(Client):
    def is_shared(self, page: Json) -> bool:
        return "cacheScope" not in page or super().is_shared(page)


class UnknownScopeIsPublic(Client):
    def is_shared(self, page: Json) -> bool:
        return page.get("cacheScope") != "private"


class ScopeByPrefix(Client):
    def is_shared(self, page: Json) -> bool:
        return str(page.get("cacheScope")).startswith("public")


class ScopeOfOneElement(Client):
    def is_shared(self, page: Json) -> bool:
        return page.get("cacheScope") == ["public"] or super().is_shared(page)


class KeptForTheNextUser(Client):
    def keep(self, key: str, page: Json, user: str) -> None:
        super().keep(key, page, self.user)


class UsersBlindToCase(Client):
    def page(self, params: Json) -> Json:
        self.user = self.user.lower()
        return super().page(params)


class UsersByPrefix(Client):
    def key(self, params: Json) -> str:
        self.user = self.user[:3]
        return super().key(params)


class LaterPagesShared(Client):
    def is_shared(self, page: Json) -> bool:
        return "nextCursor" not in page or super().is_shared(page)


class ScopeOfFirstPage(Client):
    first = False

    def page(self, params: Json) -> Json:
        page = super().page(params)
        if "cursor" not in params:
            self.first = super().is_shared(page)
        return page

    def is_shared(self, page: Json) -> bool:
        return super().is_shared(page) if "nextCursor" in page else self.first


class PrivatePagesByAddress(Client):
    """One cache for all connections to one address; a new connection is taken for the same user."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.address = json.dumps([target, era])
        self.users: dict[str, str] = {}

    def key(self, params: Json) -> str:
        self.kept = self.by_address.setdefault(self.address, self.kept)
        number = self.users.setdefault(self.user, f"user {len(self.users)}")
        return f"{super().key(params)} {number}"

    def is_shared(self, page: Json) -> bool:
        return True


class ListsWhatItFound(Client):
    def list_tools(self) -> list[Json]:
        return list(self.found.values()) or super().list_tools()


class ListsAsItFound(Client):
    """Gives the definition that it has, wherever it has it from."""

    def list_tools(self) -> list[Json]:
        return [self.found.get(tool["name"], tool) for tool in super().list_tools()]


class KeepsListingAsItFound(Client):
    """Keeps the names that it has listed, and one definition for each, wherever that is from."""

    names: list[str] | None = None

    def list_tools(self) -> list[Json]:
        if self.names is None:
            listed = super().list_tools()
            self.names = [tool["name"] for tool in listed]
            self.found |= {tool["name"]: tool for tool in listed}
        return [self.found[name] for name in self.names]

    def notified(self, notification: Json) -> None:
        self.names = None
        super().notified(notification)


class ListsFoundToolsToo(Client):
    def list_tools(self) -> list[Json]:
        listed = super().list_tools()
        names = {tool["name"] for tool in listed}
        return listed + [tool for name, tool in self.found.items() if name not in names]


class ListsWhatItFoundOfAsMany(Client):
    """Takes the tools that it has found for all, where there are as many as the server says that it has."""

    def list_tools(self) -> list[Json]:
        size = (self.settings or {}).get("catalogSize")
        return list(self.found.values()) if len(self.found) == size else super().list_tools()


class ListsFoundPages(Client):
    """Keeps the pages of searches and of listings under their cursors alone."""

    def listed(self) -> list[Json]:
        tools: list[Json] = []
        cursor: Json = {}
        while True:
            kept = [page for key, (_, page) in self.kept.items() if cursor and json.dumps(cursor["cursor"]) in key]
            page = kept[0] if kept else self.request("tools/list", cursor)
            tools += page["tools"]
            if "nextCursor" not in page:
                return tools
            cursor = {"cursor": page["nextCursor"]}


class _LegacyKept(Client):
    """Keeps legacy pages, too."""

    def ttl(self, page: Json) -> float:
        return super().ttl(page) if self.era == MODERN else 3_600_000

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return super().cursor_refused(query, tools)


class LegacyKeptWithoutQuery(_LegacyKept):
    """Only in searches with a limit: in searches for all tools, each query has its own pages."""

    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""} if "limit" in params else params)


class LegacyKeptWithoutLimit(_LegacyKept):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


class LegacyKeptForEveryUser(_LegacyKept):
    def is_shared(self, page: Json) -> bool:
        return self.era == LEGACY or super().is_shared(page)


class LegacyKeptWhateverChanges(_LegacyKept):
    def notified(self, notification: Json) -> None:
        return


class ListChangeOfToolsOnly(Client):
    def notified(self, notification: Json) -> None:
        if notification["method"] == "notifications/tools/list_changed":
            super().notified(notification)


class ListChangeKeepsTemplates(Client):
    def notified(self, notification: Json) -> None:
        templates = self.of("resourceTemplates")
        templates.kept, kept = {}, templates.kept
        super().notified(notification)
        templates.kept = kept


class ListChangeDropsFirstPages(Client):
    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if '"cursor"' in key}


class ListChangeIgnored(Client):
    def notified(self, notification: Json) -> None:
        return


class ListChangeHeededOnce(Client):
    heeded = False

    def notified(self, notification: Json) -> None:
        if not self.heeded:
            super().notified(notification)
        self.heeded = True


class ListChangeHeededThreeTimes(Client):
    most = 3
    heeded = 0

    def notified(self, notification: Json) -> None:
        self.heeded += 1
        if self.heeded <= self.most:
            super().notified(notification)


class ListChangeHeededTenTimes(ListChangeHeededThreeTimes):
    most = 10


class ListChangeHeededOnceASecond(Client):
    """Takes a notification soon after another one for the same."""

    heeded = 0.0

    def notified(self, notification: Json) -> None:
        if time.monotonic() > self.heeded + 1:
            self.heeded = time.monotonic()
            super().notified(notification)


class ListChangeWithUnknownParamsIgnored(Client):
    def notified(self, notification: Json) -> None:
        if notification.get("params", {}).keys() <= {"_meta"}:
            super().notified(notification)


class ListChangeWithUnknownMetadataIgnored(Client):
    def notified(self, notification: Json) -> None:
        if len(notification.get("params", {}).get("_meta", {})) <= 1:
            super().notified(notification)


class ListChangeDropsLastQuery(Client):
    last = ""

    def page(self, params: Json) -> Json:
        self.last = json.dumps(params["query"])
        return super().page(params)

    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if self.last not in key}


class ListChangeUnheardWhileSearching(Client):
    under_way = False

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.under_way = True
        try:
            return super().all_pages(query, again=again)
        finally:
            self.under_way = False

    def notified(self, notification: Json) -> None:
        if not self.under_way:
            super().notified(notification)


class ListChangeKeepsEmptyPages(Client):
    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if not page[1]["tools"]}


class ListChangeForThisUserOnly(Client):
    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if not key.startswith(("None ", f"{self.user!r} "))}


class ListChangeAfterOnceMore(Client):
    """Gives each page that it has kept out once more."""

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.outdated: set[str] = set()

    def notified(self, notification: Json) -> None:
        self.outdated = {key.partition(" ")[2] for key in self.kept}

    def page(self, params: Json) -> Json:
        page = super().page(params)
        if (key := self.key(params)) in self.outdated:
            self.outdated.discard(key)
            for user in (None, self.user):
                self.kept.pop(f"{user!r} {key}", None)
        return page


class _NeverCleared(dict[str, tuple[float, Json]]):
    def clear(self) -> None:
        """Do nothing."""


class ListChangeIgnoredOfSeveral(Federation):
    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        for client in clients.values():
            client.kept = _NeverCleared()


class CacheBlindToHyphens(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"].replace("-", " ")})


class CacheBlindToRepetition(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": list(dict.fromkeys(params["query"].split(" ")))})


class CacheBlindToQuotationMarks(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"].strip('"')})


class CacheBlindToSharpS(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"].replace("\u00df", "ss")})


class CacheBlindToPadding(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": params.get("cursor", "none").rstrip("=")})


class CacheOfHundredAtMost(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": min(params.get("limit", -1), 100)})


class AllThatWasFoundCut(Client):
    """A search that found all there was, on one page, answers those with a limit."""

    def page(self, params: Json) -> Json:
        kept = self.kept.get(f"None {self.key({'query': params['query']})}")
        whole = kept is not None and "nextCursor" not in kept[1]
        return kept[1] if kept is not None and whole and "limit" in params else super().page(params)


class ScopeOfThePageBefore(Client):
    """A page without a scope has that of the page before."""

    scope = ""

    def is_shared(self, page: Json) -> bool:
        self.scope = page.get("cacheScope", self.scope)
        return self.scope == "public"


class EmptyPagesShared(Client):
    def is_shared(self, page: Json) -> bool:
        return super().is_shared(page) or not page["tools"]


class ListsWhatItFoundWhereRefused(Client):
    def list_tools(self) -> list[Json]:
        try:
            return super().list_tools()
        except RefusedError:
            return list(self.found.values())


class ListsWhatItFoundWhereNone(Client):
    def list_tools(self) -> list[Json]:
        return super().list_tools() or list(self.found.values())


class ListsWithHitMetadata(Client):
    def list_tools(self) -> list[Json]:
        kept = {name: {"_meta": tool["_meta"]} for name, tool in self.found.items() if "_meta" in tool}
        return [{**tool, **kept.get(tool["name"], {})} for tool in super().list_tools()]


class CacheKeyCutAtAThousand(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"][:1000]})


class PrivatePagesForNobody(Client):
    """One cache for all connections to one address; who is nobody in particular may have what anybody was sent."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.kept = self.by_address.setdefault(json.dumps([target, era]), {})

    def page(self, params: Json) -> Json:
        if not self.user:
            kept = [page for key, page in self.kept.items() if key.endswith(f" {self.key(params)}")]
            self.kept |= {f"None {self.key(params)}": page for page in kept}
        return super().page(params)


class UsersByTheirBeginning(Client):
    def key(self, params: Json) -> str:
        self.user = self.user[:64]
        return super().key(params)


class CacheBlindToFormOfCursors(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": normalize("NFC", params.get("cursor", ""))})


class FoundToolAnswersItsName(Client):
    """Asks no more for a tool by its name, once it was found by another query."""

    def page(self, params: Json) -> Json:
        known = self.found.get(params["query"])
        return super().page(params) if known is None else {"tools": [known]}


class NothingFoundNothingMore(Client):
    """Expects nothing of a query that only adds words to one for which nothing was found."""

    def page(self, params: Json) -> Json:
        for key, (until, page) in self.kept.items():
            query = json.loads(key.partition(" ")[2])["query"]
            if until > time.monotonic() and not page["tools"] and params["query"].startswith(f"{query} "):
                return page
        return super().page(params)
