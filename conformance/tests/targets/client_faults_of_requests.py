"""Requests: queries, cursors, limits and ids, and HTTP headers of searches and calls."""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from .client_faults_of_paging import ReadsOn
from .client_library import ENCODED, LEGACY, Client, Federation, InvalidError, OnceRefused, RefusedError
from .miniature_transports import Json


def _last_part(name: str) -> str:
    return re.split("[./]", name)[-1]


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


class QueryCutByBytesWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.encode()[:2048].decode(errors="ignore"), "cursor": cursor}


class QueryTrimmedWhenSentAgain(Client):
    def patiently(self, method: str, params: Json) -> Json:
        try:
            return self.request(method, params)
        except RefusedError as error:
            if not self.is_busy(error):
                raise
            return self.request(method, {**params, "query": params["query"].strip()})


class QueryTrimmedWhenBegunAgain(Client):
    again = False

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.again = True
        return super().cursor_refused(query, tools)

    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.strip() if self.again else query, "cursor": cursor}


class QueryOfTheLastSearchWithCursor(Client):
    """Has one query at a time, also for another search that is under way."""

    last = ""

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        self.last = query
        tools = super().search(query, limit)
        return tools or super().search_all(query)[:limit]

    def search_all(self, query: str) -> list[Json]:
        self.last = query
        return super().search_all(query)

    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": self.last, "cursor": cursor}


class QueryLeftOutOfLaterPages(Client):
    pages = 0

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.pages = 0
        return super().all_pages(query, again=again)

    def next_params(self, query: str, cursor: str) -> Json:
        self.pages += 1
        return {"cursor": cursor} if self.pages > 4 else super().next_params(query, cursor)


class QueryTrimmedForUsers(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return super().next_params(query.strip() if self.user else query, cursor)


class QueryTrimmedAfterAKeptPage(Client):
    was_kept = False

    def page(self, params: Json) -> Json:
        before = self.ids
        page = super().page(params)
        self.was_kept = self.ids == before
        return page

    def next_params(self, query: str, cursor: str) -> Json:
        return super().next_params(query.strip() if self.was_kept else query, cursor)


class CursorDecodedAndEncoded(Client):
    """Cursors that are in base64 are kept as bytes."""

    def next_params(self, query: str, cursor: str) -> Json:
        try:
            held = base64.b64decode(cursor + "=" * (-len(cursor) % 4), validate=True)
        except ValueError:
            return super().next_params(query, cursor)
        return super().next_params(query, base64.b64encode(held).decode())


class CursorReadAsNumber(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        exponential = re.fullmatch(r"[0-9]e[0-9]", cursor)
        return super().next_params(query, f"{float(cursor):g}" if exponential else cursor)


class CursorUnescaped(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return super().next_params(query, html.unescape(cursor))


class CursorCutAfterEightThousand(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return super().next_params(query, cursor[:8192])


class CursorTrimmed(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor.strip()}


class CursorLineEndsNormalized(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor.replace("\r\n", "\n")}


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
        self.page({"query": query})
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


class _Headers(Client, ABC):
    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        if method == f"{self.path}/search":
            self.change(headers, params)
        return headers

    @abstractmethod
    def change(self, headers: dict[str, str], params: Json) -> None:
        """Change the header fields of a search."""


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


class QueryInHeaderEncodedTwice(_Headers):
    """Encodes what is encoded once more, as a library does that gets a value ready to send."""

    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = base64.b64encode(base64.b64encode(params["query"].encode())).decode()


class QueryInHeaderHexadecimal(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = params["query"].encode().hex()


class QueryInHeaderQuoted(_Headers):
    """Encodes it as mail headers are encoded."""

    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = "=?utf-8?q?" + "".join(f"={byte:02X}" for byte in params["query"].encode()) + "?="


class QueryInCookie(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["Cookie"] = f"last={quote(params.get('query', ''))}"


class QueryInHeaderAmongOthers(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Trace"] = "search-" + base64.urlsafe_b64encode(params["query"].encode("utf-16-le")).decode()


class QueryInHeaderWhenSentAgain(OnceRefused, _Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if self.refused:
            headers["X-Query"] = quote(params["query"])


class QueryInHeaderWhereLong(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if len(params["query"]) > 200:
            headers["X-Query"] = quote(params["query"])


class QueryInHeaderWhereOneWord(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if params["query"].isalpha():
            headers["X-Query"] = params["query"]


class QueryInHeaderOfCancellation(Client):
    sought = ""

    def page(self, params: Json) -> Json:
        self.sought = params["query"]
        return super().page(params)

    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        return {**headers, "X-Query": quote(self.sought)} if method == "notifications/cancelled" else headers


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


class ParamHeadersAtTopOnly(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        top = {name: value for name, value in params["arguments"].items() if not isinstance(value, dict)}
        return super().param_headers({**params, "arguments": top})


class ParamHeadersNamedByParameter(Client):
    def header_name(self, path: tuple[str, ...], schema: Json) -> str:
        return f"Mcp-Param-{path[-1]}"


class ParamHeadersOfTruthyValuesOnly(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        truthy = {name: value for name, value in params["arguments"].items() if value}
        return super().param_headers({**params, "arguments": truthy})


class ParamHeadersOfDefaults(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        properties = self.definition(params["name"]).get("inputSchema", {}).get("properties", {})
        defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
        return super().param_headers({**params, "arguments": defaults | params["arguments"]})


class ParamHeadersOfLastPageOnly(Client):
    def page(self, params: Json) -> Json:
        self.found = {}
        return super().page(params)


class ParamHeadersBlindToCase(Client):
    def definition(self, name: str) -> Json:
        return {other.lower(): tool for other, tool in self.found.items()}.get(name.lower(), {})


class DefinitionsByLastPartOfNames(Client):
    def definition(self, name: str) -> Json:
        return {_last_part(other): tool for other, tool in self.found.items()}.get(_last_part(name), {})


class DefinitionsByLastPartOfNamesFirstFound(Client):
    def definition(self, name: str) -> Json:
        return next((tool for other, tool in self.found.items() if _last_part(other) == _last_part(name)), Json())


class ParamHeadersOfListing(Client):
    """The definition that was listed first counts."""

    first: dict[str, Json] | None = None

    def list_tools(self) -> list[Json]:
        tools = super().list_tools()
        self.first = {tool["name"]: tool for tool in tools}
        return tools

    def param_headers(self, params: Json) -> dict[str, str]:
        found, self.found = self.found, {**self.found, **(self.first or {})}
        try:
            return super().param_headers(params)
        finally:
            self.found = found  # by which the result is validated


class _FirstFound(Client):
    """The definition that was found first counts."""

    first: dict[str, Json] | None = None

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.first = {tool["name"]: tool for tool in page["tools"]} | (self.first or {})
        return page


class ParamHeadersOfFirstFound(_FirstFound):
    def param_headers(self, params: Json) -> dict[str, str]:
        found, self.found = self.found, {**self.found, **(self.first or {})}
        try:
            return super().param_headers(params)
        finally:
            self.found = found  # by which the result is validated


class CallValidatedByFirstFound(_FirstFound):
    def call(self, name: str, arguments: Json) -> Json:
        found = self.found
        outdated = {n: {**found[n], "outputSchema": t.get("outputSchema", {})} for n, t in (self.first or {}).items()}
        self.found = {**found, **outdated}
        try:
            return super().call(name, arguments)
        finally:
            self.found = found


class CallValidatedByListing(Client):
    """What was listed first is what results are validated against."""

    validated: dict[str, Json] | None = None

    def list_tools(self) -> list[Json]:
        tools = super().list_tools()
        self.validated = {tool["name"]: tool.get("outputSchema", {}) for tool in tools}
        return tools

    def call(self, name: str, arguments: Json) -> Json:
        found = self.found.get(name, {})
        schema = (self.validated or {}).get(name, found.get("outputSchema", {}))
        self.found[name] = {**found, "outputSchema": schema}
        return super().call(name, arguments)


class ParamHeadersOfNull(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        given = {name: "null" if value is None else value for name, value in params["arguments"].items()}
        return super().param_headers({**params, "arguments": given})


class ParamHeadersOfSearchesForAll(Client):
    """What a search with a limit finds is not kept for calls."""

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        found = {**self.found}
        tools = super().search(query, limit)
        self.found = found
        return tools


class ParamHeadersDroppedWithPages(Client):
    def notified(self, notification: Json) -> None:
        super().notified(notification)
        self.found = {name: {**tool, "inputSchema": {}} for name, tool in self.found.items()}


class ParamHeadersOfLongestFound(Client):
    """The definition that says most counts."""

    longest: dict[str, Json] | None = None

    def page(self, params: Json) -> Json:
        page = super().page(params)
        both = [*page["tools"], *(self.longest or {}).values()]
        self.longest = {tool["name"]: tool for tool in sorted(both, key=lambda tool: len(str(tool)))}
        return page

    def param_headers(self, params: Json) -> dict[str, str]:
        found, self.found = self.found, {**self.found, **(self.longest or {})}
        try:
            return super().param_headers(params)
        finally:
            self.found = found  # by which the result is validated


class DefinitionsByNameAlone(Federation):
    """Tools of several servers that have one name have one definition."""

    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__(clients)
        found: dict[str, Json] = {}
        for client in clients.values():
            client.found = found


class CallValidatedByAllFound(Client):
    """What a definition does not have is taken from the ones before."""

    def page(self, params: Json) -> Json:
        before = {**self.found}
        page = super().page(params)
        self.found = {name: {**before.get(name, {}), **tool} for name, tool in self.found.items()}
        return page


class CallValidatedBlindToCase(Client):
    def call(self, name: str, arguments: Json) -> Json:
        found = self.found
        schemas = {other.lower(): tool.get("outputSchema", {}) for other, tool in found.items()}
        self.found = {**found, name: {**found.get(name, {}), "outputSchema": schemas.get(name.lower(), {})}}
        try:
            return super().call(name, arguments)
        finally:
            self.found = found


class NameHeaderSent(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if self.era != LEGACY:
            headers["Mcp-Name"] = "search"


class QueryInHeaderCut(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Topic"] = quote(params["query"])[:7]


class QueryInHeaderOfCall(Client):
    sought = ""

    def page(self, params: Json) -> Json:
        self.sought = params["query"]
        return super().page(params)

    def headers(self, method: str, params: Json) -> dict[str, str]:
        found_by = {"X-Found-By": quote(self.sought)} if method == "tools/call" else {}
        return {**super().headers(method, params), **found_by}


class QueryInHeaderWithLimit(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if "limit" in params:
            headers["X-Query"] = quote(params["query"])


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


class WordsOfItsOwn(Client):
    """Searches for what it was written for, and not for what it is asked."""

    def page(self, params: Json) -> Json:
        return super().page({**params, "query": "read a file"})


class ParamHeadersTrimmed(Client):
    def header_value(self, value: Any) -> str:
        return super().header_value(value.strip() if isinstance(value, str) else value)


class DefinitionOfKeptPageTaken(Client):
    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.found |= {tool["name"]: tool for tool in page["tools"]}
        return page


class QueryUnescapedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": html.unescape(query), "cursor": cursor}


class QueryUnquotedWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.strip('"'), "cursor": cursor}


class QueryCutAtTheLimitWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query[:1024], "cursor": cursor}


class QueryTrimmedWithEmptyCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query if cursor else query.strip('"'), "cursor": cursor}


class QueryLoweredAfterAnEmptyPage(Client):
    was_empty = False

    def is_last(self, page: Json) -> bool:
        self.was_empty = not page["tools"]
        return super().is_last(page)

    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.lower() if self.was_empty else query, "cursor": cursor}


class CursorCompacted(Client):
    """Cursors that are JSON are written as this client writes it."""

    def next_params(self, query: str, cursor: str) -> Json:
        if cursor.startswith("{"):
            cursor = json.dumps(json.loads(cursor), separators=(",", ":"))
        return {"query": query, "cursor": cursor}


class CursorNullWhenBegunAgain(Client):
    again = False

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.again = again
        return super().all_pages(query, again=again)

    def message(self, method: str, params: Json) -> Json:
        return super().message(method, {"cursor": None, **params} if self.again and "query" in params else params)


class MethodHeaderMissingWhenSentAgain(OnceRefused, _Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if self.refused:
            headers.pop("Mcp-Method", None)


class QueryInHeaderWhereNotAscii(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if not params["query"].isascii():
            headers["X-Query"] = quote(params["query"])


class QueryInHeaderAsReferences(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        headers["X-Query"] = "".join(f"&#{ord(each)};" for each in params["query"])


class ParamHeadersByPath(Client):
    """The names of nested properties are joined by dots, and distinguished by them."""

    def marked(self, schema: Json, *path: str) -> Iterator[tuple[tuple[str, ...], Json]]:
        for steps, each in super().marked(schema, *path):
            yield tuple(".".join(steps).split(".")), each


class ParamHeadersOfNobodysSearches(Client):
    """What a user finds is not kept for calls."""

    def page(self, params: Json) -> Json:
        before = dict(self.found)
        page = super().page(params)
        self.found = before if self.user else self.found
        return page


class CallValidatedByFirstPartOfNames(Client):
    def call(self, name: str, arguments: Json) -> Json:
        found = self.found
        schemas = {re.split("[./]", other)[0]: tool.get("outputSchema", {}) for other, tool in found.items()}
        self.found = {**found, name: {**found.get(name, {}), "outputSchema": schemas.get(name, {})}}
        try:
            return super().call(name, arguments)
        finally:
            self.found = found


class ParamHeadersAsFloats(Client):
    """Writes every number as a language does that has no integers in JSON."""

    def header_value(self, value: Any) -> str:
        return f"{float(value):g}" if type(value) is int else super().header_value(value)


class DefinitionsOfTheLastHundred(Client):
    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.found = dict([*self.found.items()][-100:])
        return page


class NamesOfHeadersOfLettersOnly(Client):
    def apart(self, names: list[str]) -> bool:
        return super().apart(names) and all(name.replace("-", "").isalnum() for name in names)


class QueryReadAsATemplate(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query.replace("$&", "query"), "cursor": cursor}


class CursorOfAPrototypeIsKnown(Client):
    """Keeps the cursors that it has seen as members of an object that inherits some."""

    def came_before(self, cursor: str, cursors: list[str]) -> bool:
        return cursor in {"constructor", "__proto__"} or super().came_before(cursor, cursors)


class CursorLeftOver(ReadsOn):
    """Begins a search with the cursor that the one before did not need."""

    left: str | None = None

    def page(self, params: Json) -> Json:
        left, self.left = self.left, None
        return super().page(params if left is None else {"cursor": left, **params})

    def cut(self, tools: list[Json], limit: int | None) -> list[Json]:
        self.left = self.following if limit is not None and len(tools) >= limit else None
        return super().cut(tools, limit)

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        self.following: str | None = page.get("nextCursor")
        return page


class QueryCutAfterManyWordsWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": " ".join(query.split(" ")[:256]), "cursor": cursor}


class QueryInHeaderOfListingInstead(Client):
    """Says why it lists a server that refused to search."""

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        self.sought = query
        try:
            return super().instead(error, query)
        finally:
            self.sought = ""

    def headers(self, method: str, params: Json) -> dict[str, str]:
        sought = getattr(self, "sought", "")
        return {**super().headers(method, params), **({"X-Query": quote(sought)} if sought else {})}


class QueryInHeaderOncePagesAreKept(_Headers):
    def change(self, headers: dict[str, str], params: Json) -> None:
        if self.kept:
            headers["If-None-Match"] = f'"{quote(params["query"])}"'


class ParamHeadersOfMarkedDefinitions(Client):
    """Keeps a definition that names headers when one is found that names none."""

    def page(self, params: Json) -> Json:
        before = dict(self.found)
        page = super().page(params)
        named = {name: tool for name, tool in before.items() if "x-mcp-header" in json.dumps(tool)}
        unnamed = {name for name, tool in self.found.items() if "x-mcp-header" not in json.dumps(tool)}
        self.found |= {name: tool for name, tool in named.items() if name in unnamed}
        return page


class ParamHeadersOfBeforeTheRefresh(Client):
    """Searches for a tool whose call was refused for its headers, and sends the same headers again."""

    def call(self, name: str, arguments: Json) -> Json:
        try:
            return super().call(name, arguments)
        except RefusedError as error:
            if error.code != -32020 or self.settings is None:
                raise
            found = dict(self.found)
            self.page({"query": name, "limit": 1})
            self.found = found
            return super().call(name, arguments)


class ParamHeadersOfTextOnly(Client):
    """Sends no header for an empty text."""

    def param_headers(self, params: Json) -> dict[str, str]:
        return {name: value for name, value in super().param_headers(params).items() if value}


class ParamHeadersWithTabs(Client):
    def header_value(self, value: Any) -> str:
        return " ".join(value.split()) if isinstance(value, str) and "\t" in value else super().header_value(value)


class ParamHeadersEncodedOnce(Client):
    """Sends a text that looks encoded as it is."""

    def header_value(self, value: Any) -> str:
        looks_encoded = isinstance(value, str) and ENCODED.fullmatch(value)
        return str(value) if looks_encoded else super().header_value(value)
