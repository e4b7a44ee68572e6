"""Caching: the key of a kept page, and how long it is kept."""

from __future__ import annotations

import json
from typing import ClassVar

from .client_library import LEGACY, MODERN, Client, InvalidError, RefusedError
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


class CacheWithoutRevision(Client):
    """One cache for all connections to one address."""

    by_address: ClassVar[dict[str, dict[str, tuple[float, Json]]]] = {}

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.kept = self.by_address.setdefault(json.dumps(target), {})


class CacheBlindToCase(Client):
    def key(self, params: Json) -> str:
        return super().key({**params, "query": params["query"].lower()})


class CacheKeyJoined(Client):
    def key(self, params: Json) -> str:
        return "".join(str(params.get(member, "")) for member in ("query", "limit", "cursor"))


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


class MalformedHintsListed(Client):
    def checked(self, result: Json) -> Json:
        ttl = result.get("ttlMs")
        if self.era == MODERN and (type(ttl) is not int or ttl < 0):
            raise InvalidError("no valid ttlMs")
        return super().checked(result)


class MalformedScopeIsAnError(Client):
    def checked(self, result: Json) -> Json:
        if self.era == MODERN and result.get("cacheScope") not in {"public", "private"}:
            raise RefusedError({"message": "no valid cacheScope"})
        return super().checked(result)


class CacheShared(Client):
    def is_shared(self, page: Json) -> bool:
        return True


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


class LegacyKeptWithoutQuery(_LegacyKept):
    """Only in searches with a limit: in searches for all tools, each query has its own pages."""

    def key(self, params: Json) -> str:
        return super().key({**params, "query": ""} if "limit" in params else params)


class LegacyKeptWithoutLimit(_LegacyKept):
    def key(self, params: Json) -> str:
        return super().key({**params, "limit": 0})


class LegacyKeptWhateverChanges(_LegacyKept):
    def notified(self, notification: Json) -> None:
        return


class ListChangeDropsFirstPages(Client):
    def notified(self, notification: Json) -> None:
        self.kept = {key: page for key, page in self.kept.items() if '"cursor"' in key}


class ListChangeIgnored(Client):
    def notified(self, notification: Json) -> None:
        return
