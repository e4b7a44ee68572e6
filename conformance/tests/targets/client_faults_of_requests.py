"""Requests: queries, cursors, limits and ids, and HTTP headers of searches and calls."""

from __future__ import annotations

import base64
import unicodedata
from typing import Any
from urllib.parse import quote

from .client_library import LEGACY, Client
from .miniature_transports import Json


class QueryTrimmedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.strip(), "cursor": cursor}


class QueryLoweredWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.lower(), "cursor": cursor}


class QueryLeftOutWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"cursor": cursor}


class QueryBlankWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": "", "cursor": cursor}


class QueryNormalizedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": unicodedata.normalize("NFC", query), "cursor": cursor}


class QueryCleanedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": "".join(each for each in query if each >= " "), "cursor": cursor}


class QueryCutWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query[:1000], "cursor": cursor}


class CursorTrimmed(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor.strip()}


class CursorNormalized(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": unicodedata.normalize("NFC", cursor)}


class CursorPercentEncoded(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": quote(cursor)}


class CursorCut(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor[:255]}


class AsksBeyondTheEnd(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        tools = super().all_pages(query, again=again)
        self.request("tools/search", {"query": query})
        return tools


class CursorNullAtFirst(Client):
    def page(self, params: Json) -> Json:
        return super().page({"cursor": None, **params})


class LimitNull(Client):
    def page(self, params: Json) -> Json:
        return super().page({"limit": None, **params})


class LimitZero(Client):
    def limited(self, limit: int | None) -> Json:
        return {"limit": limit or 0}


class IdsBroken(Client):
    def next_id(self) -> Any:
        return super().next_id() + 0.5


class IdsUsedAgain(Client):
    def next_id(self) -> Any:
        return 1 + super().next_id() % 3 if self.era == LEGACY else super().next_id()


class _Headers(Client):
    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        if method == "tools/search":
            self.change(headers, params)
        return headers

    def change(self, headers: dict[str, str], params: Json) -> None:
        raise NotImplementedError


class MethodHeaderMissing(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers.pop("Mcp-Method", None)


class MethodHeaderOther(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["Mcp-Method"] = "tools/list"


class QueryInHeader(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Query"] = params["query"].encode("ascii", errors="ignore").decode().strip()


class QueryInHeaderOfListing(Client):
    sought = ""

    def search_all(self, query: str) -> list[Json]:
        self.sought = query
        return super().search_all(query)

    def headers(self, method: str, params: Json) -> dict[str, str]:
        sought = {"X-Query": quote(self.sought)} if method == "tools/list" and self.sought else {}
        return {**super().headers(method, params), **sought}


class QueryInHeaderEncoded(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = "=?base64?" + base64.b64encode(params["query"].encode()).decode() + "?="


class QueryInHeaderHexadecimal(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = params["query"].encode().hex()


class UnfitToolsKept(Client):
    def fit(self, tool: Json) -> bool:
        return True


class UnfitToolsWithNumbersKept(Client):
    def carries_header(self, kind: str) -> bool:
        return kind == "number" or super().carries_header(kind)


class UnfitToolsWithItemsKept(Client):
    def takes_hidden_headers(self) -> bool:
        return True


class UnfitToolsDistinguishedByCase(Client):
    def apart(self, names: list[str]) -> bool:
        return len(set(names)) == len(names)


class UnfitToolsOfLaterPagesKept(Client):
    later = False

    def page(self, params: Json) -> Json:
        self.later = "cursor" in params
        return super().page(params)

    def fit(self, tool: Json) -> bool:
        return self.later or super().fit(tool)


class ParamHeadersMissing(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        return {}


class ParamHeadersOfStringsOnly(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        return {name: value for name, value in super().param_headers(params).items() if not value.isdecimal()}


class ParamHeadersOfListing(Client):
    """The definition that was listed first counts."""

    first: dict[str, Json] | None = None

    def list_tools(self) -> list[Json]:
        tools = super().list_tools()
        self.first = {tool["name"]: tool for tool in tools}
        return tools

    def param_headers(self, params: Json) -> dict[str, str]:
        self.found |= self.first or {}
        return super().param_headers(params)


class ListsBeforeItCalls(Client):
    """Breaks no rule: what it has listed since it searched decides."""

    def call(self, name: str, arguments: Json) -> Json:
        self.found |= {tool["name"]: tool for tool in self.listed()}
        return super().call(name, arguments)


class ParamHeadersAsPythonHasIt(Client):
    def header_value(self, value: Any) -> str:
        return str(value) if isinstance(value, bool) else super().header_value(value)


class ParamHeadersNotEncoded(Client):
    def header_value(self, value: Any) -> str:
        return value if isinstance(value, str) else super().header_value(value)
