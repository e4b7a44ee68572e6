"""What a client keeps, under which key and for how long."""

from __future__ import annotations

import json
from typing import ClassVar

from .client_faults import fault
from .miniature_client import LEGACY, MODERN, Client, Invalid, Refused
from .miniature_transports import Json


@fault("cache-without-query")
class CacheWithoutQuery(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""})


@fault("cache-without-limit")
class CacheWithoutLimit(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


@fault("cache-without-limit-read-on")
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


@fault("cache-without-cursor")
class CacheWithoutCursor(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "cursor": ""})


@fault("cache-without-revision")
class CacheWithoutRevision(Client):
    """One cache for all connections to one address."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.kept = self.by_address.setdefault(json.dumps(target), {})


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
        return max(super().ttl(page), 30_000) if super().ttl(page) > 0 else 0


@fault("kept-for-no-time")
class KeptForNoTime(Client):
    def ttl(self, page: Json) -> float:
        return 30_000 if self.era == MODERN and page.get("ttlMs") == 0 else super().ttl(page)


@fault("empty-result-believed")
class EmptyResultBelieved(Client):
    """What was not found once is never asked for again."""

    def ttl(self, page: Json) -> float:
        return super().ttl(page) if page["tools"] or self.era == LEGACY else 3_600_000


@fault("missing-ttl-is-an-hour")
class MissingTtlIsAnHour(Client):
    def ttl(self, page: Json) -> float:
        return super().ttl(page) if "ttlMs" in page or self.era == LEGACY else 3_600_000


@fault("negative-ttl-is-for-ever")
class NegativeTtlIsForEver(Client):
    def ttl(self, page: Json) -> float:
        return 3_600_000 if super().ttl(page) < 0 else super().ttl(page)


@fault("text-of-ttl-read")
class TextOfTtlRead(Client):
    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs")
        return float(ttl) if isinstance(ttl, str) and self.era == MODERN else super().ttl(page)


@fault("malformed-hints-listed")
class MalformedHintsListed(Client):
    def checked(self, result: Json) -> Json:
        ttl = result.get("ttlMs")
        if self.era == MODERN and (type(ttl) is not int or ttl < 0):
            raise Invalid("no valid ttlMs")
        return super().checked(result)


@fault("malformed-scope-is-an-error")
class MalformedScopeIsAnError(Client):
    def checked(self, result: Json) -> Json:
        if self.era == MODERN and result.get("cacheScope") not in {"public", "private"}:
            raise Refused({"message": "no valid cacheScope"})
        return super().checked(result)


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


@fault("list-change-drops-first-pages")
class ListChangeDropsFirstPages(Client):
    def told(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if '"cursor"' in key}


@fault("list-change-ignored")
class ListChangeIgnored(Client):
    def told(self, notification: Json) -> None:
        return
