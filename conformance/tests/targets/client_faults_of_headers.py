"""Streamable HTTP: the headers of searches and of calls, and the tools whose annotations are unfit."""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import quote

from .client_faults import fault
from .miniature_client import Client
from .miniature_transports import Json


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


@fault("lists-before-it-calls")
class ListsBeforeItCalls(Client):
    """Breaks no rule: what it has listed since it searched decides."""

    def call(self, name: str, arguments: Json) -> Json:
        self.found |= {tool["name"]: tool for tool in self.listed()}
        return super().call(name, arguments)


@fault("param-headers-as-python-has-it")
class ParamHeadersAsPythonHasIt(Client):
    def header_value(self, value: Any) -> str:
        return str(value) if isinstance(value, bool) else super().header_value(value)


@fault("param-headers-not-encoded")
class ParamHeadersNotEncoded(Client):
    def header_value(self, value: Any) -> str:
        return value if isinstance(value, str) else super().header_value(value)
