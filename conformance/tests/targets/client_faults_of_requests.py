"""What a client sends: queries, cursors, limits, ids."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import quote

from .client_faults import fault
from .miniature_client import LEGACY, Client
from .miniature_transports import Json


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


@fault("query-blank-with-cursor")
class QueryBlankWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": "", "cursor": cursor}


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


@fault("cursor-normalised")
class CursorNormalised(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": unicodedata.normalize("NFC", cursor)}


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
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        tools = super().all_pages(query, again=again)
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


@fault("limit-zero")
class LimitZero(Client):
    def limited(self, limit: int | None) -> Json:
        return {"limit": limit or 0}


@fault("ids-broken")
class IdsBroken(Client):
    def next_id(self) -> Any:
        return super().next_id() + 0.5


@fault("ids-used-again")
class IdsUsedAgain(Client):
    def next_id(self) -> Any:
        return 1 + super().next_id() % 3 if self.era == LEGACY else super().next_id()
