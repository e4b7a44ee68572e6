"""Scripts: the behavior of a check's scripted server.

A default script is an ordinary server with a small catalog, in either protocol era. A check only changes the part in
which the server should lie, fail or wait.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import anyio
from tools_search_spec import EXTENSION_ID, METHOD

from tools_search_conformance.target.vocabulary import WHITE_SPACE
from tools_search_conformance.wire.codec import JsonObject, as_object, integer
from tools_search_conformance.wire.eras import LEGACY, LEGACY_REVISIONS, META_PREFIX, MODERN, Era

_SERVER: Final = {"name": "peer", "version": "1"}
_LISTING_CURSOR: Final = "listed "
_CURSOR_DIGITS: Final = 9
"""The maximum number of digits in a listing's cursor."""


OWN_ID: Final = "the id of the request itself"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The server's reply to a request: a `result`, an `error`, or nothing."""

    result: JsonObject | None = None
    error: JsonObject | None = None
    before: Sequence[JsonObject] = ()
    """Messages to send first, on the same stream; one with `OWN_ID` gets the id of the client's request."""
    divided: bool = False
    """Whether to send the bytes in small pieces; on an event stream, mixed with everything else that it can contain."""
    streamed: bool = False
    """Whether a modern HTTP response is an event stream too."""
    status: int | None = None
    """The HTTP status in the modern era, instead of the usual one."""
    kind: str = "application/json"
    """The content type of an HTTP response that is not an event stream."""
    text: str | None = None
    """The body of a modern HTTP response that is not JSON, sent in place of the reply."""
    plain: bool = False
    """Whether to send a modern result without the members that every modern result has."""
    seconds: float = 0
    """The delay before the server answers."""
    held: anyio.Event | None = None
    """The event to wait for; over HTTP, the headers of an event stream are sent first."""
    silent: bool = False
    hangs_up: bool = False
    """Whether to close the connection instead."""

    def adding(self, members: Mapping[str, Any]) -> Reply:
        """Return the reply with more members of its result, whatever their names."""
        return replace(self, result={**(self.result or {}), **members})


class RefusalError(Exception):
    """Raised for a request that any conformant server would refuse."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.reply = Reply(error={"code": code, "message": message} | ({} if data is None else {"data": data}))


HOUR_MS: Final = 3_600_000
CACHEABLE: Final[Mapping[str, Any]] = {"ttlMs": HOUR_MS, "cacheScope": "public"}
"""Members of a result that every user's client may keep for an hour."""
BUSY: Final = RefusalError(-32603, "too busy", {"retryAfterMs": 1}).reply
EXPIRED: Final = RefusalError(-32602, "the cursor expired").reply


Search = Callable[[JsonObject], Reply]
"""Maps the params of a valid search to the reply."""


def tool(name: str, description: str = "", **members: Any) -> JsonObject:
    """Return a tool definition."""
    text = {"description": description} if description else {}
    return {"name": name, **text, "inputSchema": {"type": "object"}, **members}


def is_as_sent(reported: Mapping[str, Any], sent: JsonObject) -> bool:
    """Return whether a client reported a tool with the name and description that were `sent`."""
    return all(reported.get(member) == sent[member] for member in ("name", "description"))


def found(*tools: JsonObject, cursor: str | None = None, before: Sequence[JsonObject] = (), **members: Any) -> Reply:
    """Return a page as a reply; `members` are added to the result, or replace what it would have."""
    following = {} if cursor is None else {"nextCursor": cursor}
    return Reply(result={"tools": list(tools), **following, **members}, before=before)


def refuses(code: int, data: Any = None, **of_http: Any) -> Search:
    """Return a search that is always refused."""
    return serves(replace(RefusalError(code, "refused", data).reply, **of_http))


def serves(reply: Reply) -> Search:
    """Return a search with the same reply for every request."""
    return lambda _: reply


def serves_each(replies: Mapping[str, Reply]) -> Search:
    """Return a search with a reply for each query; any other query finds nothing."""
    return lambda params: replies.get(params["query"], found())


def two_pages(first: Reply, second: Reply) -> Search:
    """Return a search with one reply for the first page, and another for any cursor."""
    return lambda params: second if "cursor" in params else first


class Pages:
    """A search with several pages, each reached by the previous page's cursor."""

    def __init__(self, *pages: Sequence[JsonObject], cursors: Sequence[str] | None = None, **members: Any) -> None:
        """Take the pages, the `cursors` from the first to the second, and so on, and members of every page."""
        self.cursors = tuple(cursors or (f"page{number}" for number in range(2, len(pages) + 1)))
        self._pages = pages
        self._members = members

    def __call__(self, params: JsonObject) -> Reply:
        """Return the page that `params` requests."""
        number = 0
        if "cursor" in params:
            if params["cursor"] not in self.cursors:
                raise RefusalError(-32602, "invalid cursor", {"field": "cursor", "reason": "not issued here"})
            number = self.cursors.index(params["cursor"]) + 1
        return found(*self._pages[number], cursor=(*self.cursors, None)[number], **self._members)


class Troubled:
    """A search that has other replies to its first requests."""

    def __init__(self, search: Search, first: Sequence[Reply] = (BUSY,), later: Sequence[Reply] = (EXPIRED,)) -> None:
        """Take the underlying search, and the other replies to requests for a `first` page and for a `later` one."""
        self._search = search
        self._left = {False: [*first], True: [*later]}

    def __call__(self, params: JsonObject) -> Reply:
        """Return the next of the other replies, or else that of the search."""
        left = self._left["cursor" in params]
        return left.pop(0) if left else self._search(params)


class SwitchedSearch:
    """A search that is replaced for each case, with a separate query, so that one connection serves all cases."""

    def __init__(self, search: Search | None = None) -> None:
        """Take the search to use before the first case; by default, it finds nothing."""
        self._current = search or serves(found())
        self._cases = 0

    def __call__(self, params: JsonObject) -> Reply:
        """Answer with the current case's search."""
        return self._current(params)

    def switch(self, search: Search) -> str:
        """Switch to the next case's search, and return its unique query."""
        self._current = search
        self._cases += 1
        return f"mend clock number {self._cases}"


class HeldSearch:
    """A search that answers each query only when it is released."""

    def __init__(self, replies: Mapping[str, Reply]) -> None:
        """Take the reply to each query; any other query immediately finds nothing."""
        self._held = {query: anyio.Event() for query in replies}
        self._search = serves_each({query: replace(reply, held=self._held[query]) for query, reply in replies.items()})

    def __call__(self, params: JsonObject) -> Reply:
        """Return the reply, which waits for its release."""
        return self._search(params)

    def release(self, query: str) -> None:
        """Answer every search for `query`, present and future."""
        self._held[query].set()


SETTINGS: Final[Mapping[str, Any]] = {"catalogSize": 5000, "topics": ["fixtures of a judge"], "maxLimit": 50}
"""Settings for a catalog so large that a client searches it instead of listing it."""

TOOLS: Final = (
    tool("archive_ledger", "Archives the ledger of a past quarter."),
    tool("brew_coffee", "Brews a pot of coffee."),
    tool("count_sheep", "Counts sheep until somebody sleeps."),
    tool("dispatch_courier", "Dispatches a courier to a street."),
    tool("export_almanac", "Exports the almanac as a file."),
    tool("fold_origami", "Folds a crane out of paper."),
    tool("graft_orchid", "Use it to graft an orchid onto a stem."),
)
"""An ordinary script's tools."""


VARIED: Final = tuple(
    (need.format(number) * (1 + number % 2 * 60), limit)
    for number, (need, limit) in enumerate(
        (need, limit)
        for limit in (1, 3, 20, 100, 1000)
        for need in ("keep {} books", "garder {} cahiers \u00e0 c\u00f4t\u00e9", "\U0001f4d6 {}")
    )
)
"""Queries in several scripts, short or long, each with a limit."""

MANY: Final = tuple(tool(f"mend_{number}", f"Mends part {number} of a clock.") for number in range(2000))
"""A large catalog's tools."""


@dataclass(kw_only=True)
class Script:
    """A server's behavior: that of a conformant server, except for the parts that are set."""

    search: Search = field(default_factory=lambda: Pages(TOOLS[3:5]))
    tools: Sequence[JsonObject] = TOOLS
    list_page: int = 3
    list_hints: JsonObject = field(default_factory=dict[str, Any])
    """Members of every `tools/list` page, such as how long it can be cached."""
    refuses: Mapping[str, int] = field(default_factory=dict[str, int])
    """Error codes of methods for which every request is refused."""
    list_starts_empty: bool = False
    """Whether the listing starts with a page without tools."""
    structured: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """The `structuredContent` of calls, by tool name."""
    hangs_up: bool = False
    """Whether to close the connection as soon as the client requests tools, by search or listing."""
    silent: bool = False
    """Whether requests for tools, by search or listing, are never answered."""
    unreachable: bool = False
    """Whether the server is unavailable, so that connections are refused."""
    settings: Any = field(default_factory=lambda: SETTINGS)
    """The value at the extension identifier, in every place where a server in this era advertises it."""
    advertised: Mapping[str, Any] | None = None
    """Overrides the values by place, `extensions` or `experimental`; if empty, nothing is advertised."""
    handshake: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Members of the result of `server/discover` or `initialize` in addition to its capabilities."""
    capabilities: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Capabilities in addition to `tools`, or in its place, where the extension is not advertised; `None` is absent."""

    def reply(self, era: Era, message: JsonObject) -> Reply:
        """Return the reply to a request, with the members that its era requires. The request is not kept."""
        method = message["method"]
        if (self.hangs_up or self.silent) and method in (METHOD, "tools/list"):
            return Reply(hangs_up=self.hangs_up, silent=self.silent)
        try:
            reply = self._answer(era, method, as_object(message.get("params")) or {})
        except RefusalError as refusal:
            return refusal.reply
        if era == LEGACY or reply.result is None or reply.plain:
            return reply
        cacheable = {} if method == "tools/call" else {"ttlMs": 0, "cacheScope": "private"}
        return replace(reply, result={"resultType": "complete", **cacheable, **reply.result})

    def _answer(self, era: Era, method: Any, params: JsonObject) -> Reply:
        if (code := self.refuses.get(str(method))) is not None:
            raise RefusalError(code, "refused")
        if method == METHOD:
            return self._search(params)
        if method == "tools/list":
            return self._list(params)
        if method == "tools/call":
            call: JsonObject = {"name": params.get("name"), "arguments": params.get("arguments") or {}}
            name = str(call["name"])
            structured = {"structuredContent": self.structured[name]} if name in self.structured else {}
            return Reply(result={"content": [{"type": "text", "text": json.dumps(call)}], **structured})
        if method == "server/discover" and era == MODERN:
            about = {"supportedVersions": [MODERN], "_meta": {f"{META_PREFIX}serverInfo": _SERVER}}
            return Reply(result={**about, "capabilities": self._capabilities("extensions"), **self.handshake})
        if method == "initialize" and era == LEGACY:
            wanted = params.get("protocolVersion")
            revision = wanted if str(wanted) in LEGACY_REVISIONS else LEGACY
            capabilities = self._capabilities("extensions", "experimental")
            about = {"protocolVersion": revision, "serverInfo": _SERVER}
            return Reply(result={**about, "capabilities": capabilities, **self.handshake})
        if method == "ping" and era == LEGACY:
            return Reply(result={})
        raise RefusalError(-32601, "Method not found")

    def _capabilities(self, *places: str) -> JsonObject:
        held = dict.fromkeys(places, self.settings) if self.advertised is None else self.advertised
        advertised = {place: {EXTENSION_ID: value} for place, value in held.items()}
        capabilities = {"tools": {"listChanged": True}, **self.capabilities, **advertised}
        return {name: held for name, held in capabilities.items() if held is not None}

    def _list(self, params: JsonObject) -> Reply:
        start = 0
        if "cursor" in params:
            cursor = str(params["cursor"]).removeprefix(_LISTING_CURSOR)
            if not cursor.isdecimal() or len(cursor) > _CURSOR_DIGITS:
                raise RefusalError(-32602, "invalid cursor")
            start = int(cursor)
        elif self.list_starts_empty:
            return found(cursor=f"{_LISTING_CURSOR}0")
        end = start + self.list_page
        cursor = f"{_LISTING_CURSOR}{end}" if end < len(self.tools) else None
        return found(*self.tools[start:end], cursor=cursor, **self.list_hints)

    def _search(self, params: JsonObject) -> Reply:
        # A null, an invalid `limit` and a query that is not repeated each have a separate check. For all other checks,
        # the search continues as if the request were valid.
        params = {name: value for name, value in params.items() if value is not None}
        blank = not isinstance(params.get("query"), str) or not params["query"].strip(WHITE_SPACE)
        if "cursor" in params and blank:
            params["query"], blank = "not repeated", False
        if (integer(params.get("limit")) or 0) < 1:
            params.pop("limit", None)
        if blank:
            raise RefusalError(-32602, "invalid query", {"field": "query", "reason": "no string, or blank"})
        if not isinstance(params.get("cursor", ""), str):
            raise RefusalError(-32602, "invalid cursor", {"field": "cursor", "reason": "no string"})
        return self.search(params)
