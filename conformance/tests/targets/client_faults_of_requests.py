"""Requests: queries, cursors, limits and ids, and HTTP headers of searches and calls."""

from __future__ import annotations

import base64
import html
import json
import re
import unicodedata
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, ClassVar
from urllib.parse import quote

from .client_faults_of_paging import ReadsOn
from .client_library import ENCODED, LEGACY, MODERN, Client, Federation, InvalidError, OnceRefused, RefusedError
from .miniature_transports import Json


def _last_part(name: str) -> str:
    return re.split("[./]", name)[-1]


def _with_cursor(
    query_read: Callable[[str], str] | None = None, cursor_read: Callable[[str], str] | None = None
) -> type[Client]:
    """Make a client that asks for later pages with another query, or with another cursor."""

    class WithCursor(Client):
        def next_params(self, query: str, cursor: str) -> Json:
            read = query_read(query) if query_read else query
            return super().next_params(read, cursor_read(cursor) if cursor_read else cursor)

    return WithCursor


query_trimmed_with_cursor = _with_cursor(str.strip)
query_lowered_with_cursor = _with_cursor(str.lower)
query_blank_with_cursor = _with_cursor(lambda query: "")
query_normalized_with_cursor = _with_cursor(lambda query: unicodedata.normalize("NFC", query))
query_cleaned_with_cursor = _with_cursor(lambda query: "".join(each for each in query if each >= " "))
query_cut_with_cursor = _with_cursor(lambda query: query[:1000])
query_cut_at_the_limit_with_cursor = _with_cursor(lambda query: query[:1024])
query_cut_by_bytes_with_cursor = _with_cursor(lambda query: query.encode()[:2048].decode(errors="ignore"))
query_cut_after_many_words_with_cursor = _with_cursor(lambda query: " ".join(query.split(" ")[:256]))
query_unescaped_with_cursor = _with_cursor(html.unescape)
query_unquoted_with_cursor = _with_cursor(lambda query: query.strip('"'))
# A single line break at the end is left out, as by a reader of lines.
query_without_its_line_end = _with_cursor(lambda query: re.sub(r"(?<!\r)\n\Z", "", query))
query_without_tags = _with_cursor(lambda query: re.sub("<[^>]*>", "", query))
query_without_control_sequences = _with_cursor(lambda query: re.sub(r"\x1b\[[0-9;]*m", "", query))
query_with_spaces_alike = _with_cursor(lambda query: re.sub("[\v\f]", " ", query))
query_read_as_a_number = _with_cursor(
    lambda query: f"{float(query):g}" if re.fullmatch(r"[0-9]+(\.[0-9]+)?", query) else query
)
query_without_variation_selectors = _with_cursor(
    lambda query: re.sub("[\ufe00-\ufe0f\U000e0100-\U000e01ef]", "", query)
)
query_without_noncharacters = _with_cursor(lambda query: re.sub("[\ufdd0-\ufdef\ufffe\uffff]", "", query))
query_with_turkish_letters_alike = _with_cursor(lambda query: re.sub("[\u0130\u0131]", "i", query))
query_unescaped_twice = _with_cursor(lambda query: query.replace("\\\\", "\\").replace("$$", "$"))
query_read_as_a_template = _with_cursor(lambda query: query.replace("$&", "query"))


def _encoded_again(cursor: str) -> str:
    """Return a cursor as it is if it is kept as the bytes that it has in base64."""
    try:
        return base64.b64encode(base64.b64decode(cursor + "=" * (-len(cursor) % 4), validate=True)).decode()
    except ValueError:
        return cursor


cursor_decoded_and_encoded = _with_cursor(None, _encoded_again)
cursor_read_as_number = _with_cursor(
    None, lambda cursor: f"{float(cursor):g}" if re.fullmatch(r"[0-9]e[0-9]", cursor) else cursor
)
cursor_unescaped = _with_cursor(None, html.unescape)
cursor_cut = _with_cursor(None, lambda cursor: cursor[:255])
cursor_cut_after_eight_thousand = _with_cursor(None, lambda cursor: cursor[:8192])
cursor_trimmed = _with_cursor(None, str.strip)
cursor_with_single_spaces = _with_cursor(None, lambda cursor: re.sub("  +", " ", cursor))
cursor_line_ends_normalized = _with_cursor(None, lambda cursor: cursor.replace("\r\n", "\n"))
cursor_normalized = _with_cursor(None, lambda cursor: unicodedata.normalize("NFC", cursor))
cursor_percent_encoded = _with_cursor(None, quote)
# Cursors that are JSON are written as this client writes it.
cursor_compacted = _with_cursor(
    None,
    lambda cursor: json.dumps(json.loads(cursor), separators=(",", ":")) if cursor.startswith("{") else cursor,
)


def _asking_with(change: Callable[[Json], Json]) -> type[Client]:
    """Make a client that asks for every page with other params."""

    class AskingWith(Client):
        def page(self, params: Json) -> Json:
            return super().page(change(params))

    return AskingWith


cursor_null_at_first = _asking_with(lambda params: {"cursor": None, **params})
limit_null = _asking_with(lambda params: {"limit": None, **params})
# Searches for what it was written for, and not for what it is asked.
words_of_its_own = _asking_with(lambda params: {**params, "query": "read a file"})


class QueryLeftOutWithCursor(Client):
    def next_params(self, query: str, cursor: str) -> Json:
        return {"cursor": cursor}


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


class AsksBeyondTheEnd(Client):
    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        tools = super().all_pages(query, again=again)
        self.page({"query": query})
        return tools


class LimitZero(Client):
    def limited(self, limit: int | None) -> Json:
        return {"limit": limit or 0}


class LimitAsText(Client):
    def limited(self, limit: int | None) -> Json:
        return {} if limit is None else {"limit": str(limit)}


class LimitOfAFraction(Client):
    def limited(self, limit: int | None) -> Json:
        return {} if limit is None else {"limit": limit - 0.5}


class IdsBroken(Client):
    def next_id(self) -> Any:
        return super().next_id() + 0.5


class ConnectsForEachSearch(Client):
    """Has a connection for each search, on which it counts its requests from one, as any client may."""

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.target = target

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        return self.over_another(lambda client: client.all_pages(query, again=again))

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        return (
            self.over_another(lambda client: client.search(query, limit))
            if self.searches()
            else super().search(query, limit)
        )

    def over_another(self, act: Callable[[Client], list[Json]]) -> list[Json]:
        client = Client(self.target, self.era)
        client.user = self.user
        try:
            client.open()
            return act(client)
        finally:
            self.found |= client.found
            client.close()


class IdsUsedAgainAtOnce(Client):
    def next_id(self) -> Any:
        return 7 if self.era == MODERN else super().next_id()


class IdsUsedAgain(Client):
    def next_id(self) -> Any:
        return 1 + super().next_id() % 3 if self.era == LEGACY else super().next_id()


class _Headers(Client, ABC):
    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        return {**headers, **self.more(params)} if method == f"{self.path}/search" else headers

    @abstractmethod
    def more(self, params: Json) -> dict[str, str]:
        """Return more headers for a search."""


def _header(name: str, written: Callable[[str], str], when: Callable[[Json], bool] = lambda _: True) -> type[Client]:
    """Make a client that sends what is `written` of the query in a header, with all searches or some."""

    class Header(_Headers):
        def more(self, params: Json) -> dict[str, str]:
            return {name: written(params["query"])} if when(params) else {}

    return Header


def _base64_of(data: bytes) -> str:
    return base64.b64encode(data).decode()


method_header_other = _header("Mcp-Method", lambda _: "tools/list")
version_header_other = _header("MCP-Protocol-Version", lambda _: "2025-06-18")
query_in_header = _header("X-Query", lambda query: query.encode("ascii", errors="ignore").decode().strip())
query_in_header_where_long = _header("X-Query", quote, lambda params: len(params["query"]) > 200)
query_in_header_where_one_word = _header("X-Query", str, lambda params: params["query"].isalpha())
query_in_header_where_not_ascii = _header("X-Query", quote, lambda params: not params["query"].isascii())
query_in_header_with_limit = _header("X-Query", quote, lambda params: "limit" in params)
query_in_header_cut = _header("X-Topic", lambda query: quote(query)[:7])
query_in_header_as_references = _header("X-Query", lambda query: "".join(f"&#{ord(each)};" for each in query))
query_in_header_encoded = _header("X-Trace", lambda query: f"=?base64?{_base64_of(query.encode())}?=")
# Encodes what is encoded once more, as a library does that gets a value ready to send.
query_in_header_encoded_twice = _header("X-Trace", lambda query: _base64_of(_base64_of(query.encode()).encode()))
query_in_header_compressed = _header("X-Trace", lambda query: _base64_of(zlib.compress(query.encode())))
query_in_header_hexadecimal = _header("X-Trace", lambda query: query.encode().hex())
# Encodes it as mail headers are encoded.
query_in_header_quoted = _header(
    "X-Trace", lambda query: "=?utf-8?q?" + "".join(f"={byte:02X}" for byte in query.encode()) + "?="
)
query_in_header_among_others = _header(
    "X-Trace", lambda query: "search-" + base64.urlsafe_b64encode(query.encode("utf-16-le")).decode()
)
query_in_cookie = _header("Cookie", lambda query: f"last={quote(query)}")


class MethodHeaderMissing(Client):
    header = "Mcp-Method"

    def headers(self, method: str, params: Json) -> dict[str, str]:
        headers = super().headers(method, params)
        if method == f"{self.path}/search" and self.is_missing():
            headers.pop(self.header, None)
        return headers

    def is_missing(self) -> bool:
        """Return whether the search to send has no such header."""
        return True


class MethodHeaderMissingWhenSentAgain(OnceRefused, MethodHeaderMissing):
    def is_missing(self) -> bool:
        return self.refused


class VersionHeaderMissing(MethodHeaderMissing):
    header = "MCP-Protocol-Version"


class QueryInHeaderOfListing(Client):
    sought = ""

    def search_all(self, query: str) -> list[Json]:
        self.sought = query
        return super().search_all(query)

    def headers(self, method: str, params: Json) -> dict[str, str]:
        sought = {"X-Query": quote(self.sought)} if method == "tools/list" and self.sought else {}
        return {**super().headers(method, params), **sought}


class QueryInHeaderWhenSentAgain(OnceRefused, _Headers):
    def more(self, params: Json) -> dict[str, str]:
        return {"X-Query": quote(params["query"])} if self.refused else {}


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


def _arguments_read(reading: Callable[[Json], Json]) -> type[Client]:
    """Make a client that takes other arguments than a call's for its headers."""

    class ArgumentsRead(Client):
        def param_headers(self, params: Json) -> dict[str, str]:
            return super().param_headers({**params, "arguments": reading(params["arguments"])})

    return ArgumentsRead


param_headers_missing = _arguments_read(lambda _: {})
param_headers_at_top_only = _arguments_read(
    lambda arguments: {name: value for name, value in arguments.items() if not isinstance(value, dict)}
)
param_headers_of_truthy_values_only = _arguments_read(
    lambda arguments: {name: value for name, value in arguments.items() if value}
)
param_headers_of_null = _arguments_read(
    lambda arguments: {name: "null" if value is None else value for name, value in arguments.items()}
)


def _param_headers_sent(sent: Callable[[str], bool]) -> type[Client]:
    """Make a client that sends some values of headers for parameters only."""

    class ParamHeadersSent(Client):
        def param_headers(self, params: Json) -> dict[str, str]:
            return {name: value for name, value in super().param_headers(params).items() if sent(value)}

    return ParamHeadersSent


param_headers_of_strings_only = _param_headers_sent(lambda value: not value.isdecimal())
param_headers_of_text_only = _param_headers_sent(lambda value: value != "")
param_headers_of_short_values_only = _param_headers_sent(lambda value: len(value) <= 255)


def _param_headers_written(written: Callable[[Any], str | None]) -> type[Client]:
    """Make a client that writes some values of headers for parameters otherwise."""

    class ParamHeadersWritten(Client):
        def header_value(self, value: Any) -> str:
            text = written(value)
            return super().header_value(value) if text is None else text

    return ParamHeadersWritten


param_headers_as_python_has_it = _param_headers_written(lambda value: str(value) if isinstance(value, bool) else None)
param_headers_not_encoded = _param_headers_written(lambda value: value if isinstance(value, str) else None)
# Writes every number as a language does that has no integers in JSON.
param_headers_as_floats = _param_headers_written(lambda value: f"{float(value):g}" if type(value) is int else None)
# Takes every integer for one of 32 bits.
param_headers_as_small_integers = _param_headers_written(
    lambda value: str((value + 2**31) % 2**32 - 2**31) if type(value) is int else None
)
param_headers_trimmed_at_the_end = _param_headers_written(
    lambda value: value.rstrip() if isinstance(value, str) and value.isascii() and value[:1].isalpha() else None
)
param_headers_normalized = _param_headers_written(
    lambda value: (
        f"=?base64?{base64.b64encode(unicodedata.normalize('NFC', value).encode()).decode()}?="
        if isinstance(value, str) and not unicodedata.is_normalized("NFC", value)
        else None
    )
)
param_headers_with_tabs = _param_headers_written(
    lambda value: " ".join(value.split()) if isinstance(value, str) and "\t" in value else None
)
# Sends a text that looks encoded as it is.
param_headers_encoded_once = _param_headers_written(
    lambda value: value if isinstance(value, str) and ENCODED.fullmatch(value) else None
)


class ParamHeadersTrimmed(Client):
    def header_value(self, value: Any) -> str:
        return super().header_value(value.strip() if isinstance(value, str) else value)


@contextmanager
def _found_in_place(client: Client, others: Mapping[str, Json]) -> Generator[None]:
    """Have other definitions in place of what a client has found, for the block alone."""
    found, client.found = client.found, {**client.found, **others}
    try:
        yield
    finally:
        client.found = found


def _with_schema(client: Client, name: str, schema: Json) -> Json:
    """Return the definition of a tool with another output schema."""
    return {**client.found.get(name, {}), "outputSchema": schema}


class ParamHeadersOfListing(Client):
    """The definition that was listed first counts for headers, but not for the validation of results."""

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.first: dict[str, Json] = {}

    def list_tools(self) -> list[Json]:
        tools = super().list_tools()
        self.first = {tool["name"]: tool for tool in tools}
        return tools

    def param_headers(self, params: Json) -> dict[str, str]:
        with _found_in_place(self, self.first):
            return super().param_headers(params)


class _FirstFound(Client):
    """Knows the definitions that were found first."""

    def __init__(self, target: Json, era: str) -> None:
        super().__init__(target, era)
        self.first: dict[str, Json] = {}

    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.first = {tool["name"]: tool for tool in page["tools"]} | self.first
        return page


class ParamHeadersOfFirstFound(_FirstFound):
    def param_headers(self, params: Json) -> dict[str, str]:
        with _found_in_place(self, self.first):
            return super().param_headers(params)


class ParamHeadersOfLongestFound(_FirstFound):
    """The definition that says most counts."""

    def page(self, params: Json) -> Json:
        before = self.first
        page = super().page(params)
        longest = sorted([*page["tools"], *before.values()], key=lambda tool: len(str(tool)))
        self.first = {tool["name"]: tool for tool in longest}
        return page

    def param_headers(self, params: Json) -> dict[str, str]:
        with _found_in_place(self, self.first):
            return super().param_headers(params)


class CallValidatedByFirstFound(_FirstFound):
    def call(self, name: str, arguments: Json) -> Json:
        schemas = {first: tool.get("outputSchema", {}) for first, tool in self.first.items()}
        with _found_in_place(self, {first: _with_schema(self, first, schema) for first, schema in schemas.items()}):
            return super().call(name, arguments)


def _call_validated_by(own: Callable[[str], str], sought: Callable[[str], str]) -> type[Client]:
    """Make a client that looks for the schema of a result by something else than the name."""

    class CallValidatedBy(Client):
        def call(self, name: str, arguments: Json) -> Json:
            schemas = {own(other): tool.get("outputSchema", {}) for other, tool in self.found.items()}
            with _found_in_place(self, {name: _with_schema(self, name, schemas.get(sought(name), {}))}):
                return super().call(name, arguments)

    return CallValidatedBy


call_validated_blind_to_case = _call_validated_by(str.lower, str.lower)
call_validated_by_first_part_of_names = _call_validated_by(lambda name: re.split("[./]", name)[0], str)


class ParamHeadersNamedByParameter(Client):
    def header_name(self, path: tuple[str, ...], schema: Json) -> str:
        return f"Mcp-Param-{path[-1]}"


class ParamHeadersOfDefaults(Client):
    def param_headers(self, params: Json) -> dict[str, str]:
        properties = self.definition(params["name"]).get("inputSchema", {}).get("properties", {})
        defaults = {name: each["default"] for name, each in properties.items() if "default" in each}
        return super().param_headers({**params, "arguments": defaults | params["arguments"]})


class ParamHeadersOfLastPageOnly(Client):
    def page(self, params: Json) -> Json:
        self.found = {}
        return super().page(params)


def _definitions_by(reading: Callable[[str], str]) -> type[Client]:
    """Make a client for which several names are one; the definition that it found last counts."""

    class DefinitionsBy(Client):
        def definition(self, name: str) -> Json:
            return {reading(other): tool for other, tool in self.found.items()}.get(reading(name), {})

    return DefinitionsBy


param_headers_blind_to_case = _definitions_by(str.lower)
definitions_by_last_part_of_names = _definitions_by(_last_part)
definitions_by_trimmed_names = _definitions_by(str.strip)
definitions_by_normalized_names = _definitions_by(lambda name: unicodedata.normalize("NFKC", name))


class DefinitionsByLastPartOfNamesFirstFound(Client):
    def definition(self, name: str) -> Json:
        return next((tool for other, tool in self.found.items() if _last_part(other) == _last_part(name)), Json())


class DefinitionsBlindToCaseFirstFound(Client):
    def definition(self, name: str) -> Json:
        return next((tool for other, tool in self.found.items() if other.lower() == name.lower()), Json())


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


class NameHeaderSent(_Headers):
    def more(self, params: Json) -> dict[str, str]:
        return {"Mcp-Name": "search"} if self.era != LEGACY else {}


class QueryInHeaderOfCall(Client):
    sought = ""

    def page(self, params: Json) -> Json:
        self.sought = params["query"]
        return super().page(params)

    def headers(self, method: str, params: Json) -> dict[str, str]:
        found_by = {"X-Found-By": quote(self.sought)} if method == "tools/call" else {}
        return {**super().headers(method, params), **found_by}


class ListsBeforeItCalls(Client):
    """Breaks no rule: what it has listed since it searched decides."""

    def call(self, name: str, arguments: Json) -> Json:
        self.found |= {tool["name"]: tool for tool in self.listed()}
        return super().call(name, arguments)


class DefinitionOfKeptPageTaken(Client):
    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.found |= {tool["name"]: tool for tool in page["tools"]}
        return page


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


class CursorNullWhenBegunAgain(Client):
    again = False

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        self.again = again
        return super().all_pages(query, again=again)

    def message(self, method: str, params: Json) -> Json:
        return super().message(method, {"cursor": None, **params} if self.again and "query" in params else params)


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


class DefinitionsOfWholeSearchesOnly(Client):
    def kept_pages(self, tools: list[Json]) -> list[Json]:
        for tool in tools:
            self.found.pop(tool["name"], None)
        return tools


class LimitOfWhatIsLeft(Client):
    """After a page, it asks for as many tools as are still wanted, even if there were too many."""

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        self.last = Json()
        tools = super().search(query, limit)
        if limit is not None and "nextCursor" in self.last and (left := limit - len(self.last["tools"])):
            with suppress(RefusedError, InvalidError):
                self.page({"query": query, "limit": left, "cursor": self.last["nextCursor"]})
        return tools

    def page(self, params: Json) -> Json:
        self.last = super().page(params)
        return self.last


class DefinitionsOfTheLastHundred(Client):
    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.found = dict([*self.found.items()][-100:])
        return page


class DefinitionsOfTheFirstHundred(Client):
    def page(self, params: Json) -> Json:
        page = super().page(params)
        self.found = dict([*self.found.items()][:100])
        return page


class CallValidatedByAnotherServers(Client):
    """Keeps one output schema for each name, for the life of the process."""

    schemas: ClassVar[dict[str, Json]] = {}

    def definition(self, name: str) -> Json:
        found = super().definition(name)
        schema = self.schemas.setdefault(name, found.get("outputSchema", {}))
        return {**found, "outputSchema": schema} if "outputSchema" in found else found


class DefinitionsRenewedWithoutLimitOnly(Client):
    def page(self, params: Json) -> Json:
        before = dict(self.found) if "limit" in params else {}
        page = super().page(params)
        self.found = {**self.found, **before}
        return page


class NamesOfHeadersOfLettersOnly(Client):
    def apart(self, names: list[str]) -> bool:
        return super().apart(names) and all(name.replace("-", "").isalnum() for name in names)


class CursorOfAPrototypeIsKnown(Client):
    """Keeps the cursors that it has seen as members of an object that inherits some."""

    def came_before(self, cursor: str, cursors: list[str]) -> bool:
        return cursor in {"constructor", "__proto__"} or super().came_before(cursor, cursors)


class CursorLeftOver(ReadsOn):
    """Begins a search with the cursor that the one before did not need, if pages are kept."""

    left: str | None = None

    def page(self, params: Json) -> Json:
        left, self.left = self.left, None
        return super().page(params if left is None else {"cursor": left, **params})

    def cut(self, tools: list[Json], limit: int | None) -> list[Json]:
        is_left = self.era == MODERN and limit is not None and len(tools) >= limit
        self.left = self.following if is_left else None
        return super().cut(tools, limit)

    def checked(self, result: Json) -> Json:
        page = super().checked(result)
        self.following: str | None = page.get("nextCursor")
        return page


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
    def more(self, params: Json) -> dict[str, str]:
        return {"If-None-Match": f'"{quote(params["query"])}"'} if self.kept else {}


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
