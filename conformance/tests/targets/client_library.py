"""The miniature client: a whole client that uses `tools/search`, on nothing but the standard library.

It speaks both eras, over stdio and Streamable HTTP. Faults override one of the small methods of `Client` or
`Federation`, each of which holds one decision.
"""

from __future__ import annotations

import base64
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, ClassVar, Final, cast

from .miniature_transports import HttpTransport, Json, StdioTransport, TransportError

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
MODERN: Final = "2026-07-28"
LEGACY: Final = "2025-11-25"
META: Final = "io.modelcontextprotocol/"
LISTS: Final = {
    "resources": ("resources", "uri"),
    "resourceTemplates": ("resources/templates", "uriTemplate"),
    "prompts": ("prompts", "name"),
}
SETTINGS: Final = {"catalogSize", "topics", "maxLimit", "resources", "prompts"}
PATIENCE_MS: Final = 5000
PAGE: Final = {"tools", "nextCursor", "resultType", "ttlMs", "cacheScope", "_meta"}
ENCODED: Final = re.compile(r"=\?base64\?.*\?=")
TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")


class RefusedError(Exception):
    def __init__(self, error: Json) -> None:
        super().__init__(error.get("message"))
        self.code = error.get("code")
        self.data: Any = error.get("data")


class InvalidError(Exception):
    """A result that cannot be used."""


def extensions_in(capabilities: Json, place: str = "extensions") -> Json:
    """Return what a server advertises in a place; where that is no object, nothing."""
    held: Any = capabilities.get(place)
    return cast("Json", held) if isinstance(held, dict) else {}


class Client:
    others_types: ClassVar[dict[str, type[Client]]] = {}
    """Which client another list is searched by, where it is one with a fault."""
    http_transport = HttpTransport
    stdio_transport = StdioTransport

    def __init__(self, target: Json, era: str) -> None:
        self.era = era
        self.user = ""
        self.settings: Json | None = None
        self.found: dict[str, Json] = {}
        self.kept: dict[str, tuple[float, Json]] = {}
        self.others: dict[str, Client] = {}
        """This client as it searches other lists, by the member of their results."""
        self.path, self.member, self.key_member = "tools", "tools", "name"
        self.numbers = [0]
        self.asked: dict[int, Any] = {}
        """The id of the last request of each thread."""
        if target["transport"] == "http":
            self.transport: HttpTransport | StdioTransport = self.http_transport(
                target["url"], self.notified, self.is_answer
            )
        else:
            argv = [target["command"], *target["args"]]
            self.transport = self.stdio_transport(argv, target["env"], self.notified, self.is_answer)

    @property
    def ids(self) -> int:
        """The id of the last request, of whichever list."""
        return self.numbers[0]

    @ids.setter
    def ids(self, number: int) -> None:
        self.numbers[0] = number

    def of(self, member: str) -> Client:
        """Return the client that finds items of another list over the same transport."""
        if member not in self.others:
            other = self.others[member] = copy(self)
            # Faults of tools are of tools alone.
            object.__setattr__(other, "__class__", self.others_types.get(member, Client))
            other.path, other.key_member = LISTS[member]
            other.member, other.found, other.kept = member, {}, {}
            held: Any = (self.settings or {}).get(other.path.partition("/")[0])
            other.settings = held if other.counts(held) else None
        return self.others[member]

    @property
    def over_http(self) -> bool:
        return isinstance(self.transport, HttpTransport)

    # Opening

    def open(self) -> None:
        if self.era == MODERN:
            opened = self.request("server/discover", {})
        else:
            described = {"clientInfo": {"name": "mini", "version": "1"}, "protocolVersion": LEGACY}
            opened = self.request("initialize", {**described, "capabilities": self.declared("initialize")})
            headers = {"MCP-Protocol-Version": LEGACY}
            self.transport.notify({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
        self.settings = self.read_settings(opened["capabilities"])
        self.listen()

    def declared(self, method: str) -> Json:
        return {"extensions": {EXTENSION_ID: {}}}

    def places(self) -> tuple[str, ...]:
        return ("extensions",) if self.era == MODERN else ("extensions", "experimental")

    def read_settings(self, capabilities: Json) -> Json | None:
        for place in self.places():
            held: Any = extensions_in(capabilities, place).get(EXTENSION_ID)
            if self.counts(held):
                return held
        return None

    def counts(self, held: Any) -> bool:
        return isinstance(held, dict)

    def listen(self) -> None:
        if self.era == LEGACY:
            self.transport.listen(None, {"MCP-Protocol-Version": LEGACY})
            return
        params = {"notifications": {f"{each}ListChanged": True for each in ("tools", "resources", "prompts")}}
        message = self.message("subscriptions/listen", params)
        self.transport.listen(message, self.headers("subscriptions/listen", params))

    def notified(self, notification: Json) -> None:
        for each in (self, *self.others.values()):
            if notification["method"] == f"notifications/{each.path.partition('/')[0]}/list_changed":
                each.kept.clear()

    # Finding tools

    def search(self, query: str, limit: int | None = None) -> list[Json]:
        if not self.searches():
            return self.ranked(query, self.listed())[: limit or 10]
        try:
            params = {"query": query} | self.limited(limit)
            return self.page(params)["tools"][:limit]
        except (RefusedError, InvalidError) as error:
            return self.instead(error, query)[: limit or 10]

    def limited(self, limit: int | None) -> Json:
        return {} if limit is None else {"limit": limit}

    def search_all(self, query: str) -> list[Json]:
        if not self.searches():
            return self.ranked(query, self.listed())
        try:
            return self.all_pages(query)
        except (RefusedError, InvalidError) as error:
            return self.instead(error, query)

    def searches(self) -> bool:
        return self.settings is not None

    def instead(self, error: RefusedError | InvalidError, query: str) -> list[Json]:
        if isinstance(error, RefusedError) and error.code not in {-32601, -32021}:
            raise error
        return self.ranked(query, self.listed())

    def came_before(self, cursor: str, cursors: list[str]) -> bool:
        """Return whether a cursor is among the `cursors` that were followed, oldest first."""
        return cursor in cursors

    def all_pages(self, query: str, *, again: bool = False) -> list[Json]:
        tools: list[Json] = []
        cursors: list[str] = []
        params: Json = {"query": query}
        while True:
            try:
                page = self.page(params)
            except RefusedError as error:
                if "cursor" not in params or (again and error.code == -32602):
                    raise
                if error.code != -32602:
                    return self.kept_pages(tools)
                return self.cursor_refused(query, tools)
            tools += page["tools"]
            if self.is_last(page):
                return tools
            if self.came_before(page["nextCursor"], cursors):
                self.in_a_circle()
                return tools
            cursors.append(page["nextCursor"])
            params = self.next_params(query, page["nextCursor"])

    def is_last(self, page: Json) -> bool:
        return "nextCursor" not in page

    def next_params(self, query: str, cursor: str) -> Json:
        return {"query": query, "cursor": cursor}

    def in_a_circle(self) -> None:
        raise RefusedError({"message": "the pages go round in a circle"})

    def cursor_refused(self, query: str, tools: list[Json]) -> list[Json]:
        self.kept.clear()
        return self.all_pages(query, again=True)

    def kept_pages(self, tools: list[Json]) -> list[Json]:
        """Return the tools of the pages before one that failed."""
        return tools

    def page(self, params: Json) -> Json:
        key, kept = self.key(params), None
        for user in (None, self.user):
            kept = kept or self.kept.get(f"{user!r} {key}")
        if kept is not None and kept[0] > time.monotonic():
            return kept[1]
        user = self.user
        page = self.checked(self.patiently(f"{self.path}/search", params))
        self.keep(key, page, user)
        if self.member == "tools":
            page["tools"] = [tool for tool in page["tools"] if not self.over_http or self.fit(tool)]
            self.found |= {tool["name"]: tool for tool in page["tools"]}
        return page

    def patiently(self, method: str, params: Json) -> Json:
        """Ask again, once, where the server is too busy at the moment."""
        try:
            return self.request(method, params)
        except RefusedError as error:
            if not self.is_busy(error) or error.data["retryAfterMs"] > PATIENCE_MS:
                raise
            time.sleep(error.data["retryAfterMs"] / 1000)
            return self.request(method, params)

    def is_busy(self, error: RefusedError) -> bool:
        return error.code == -32603 and "retryAfterMs" in (error.data or {})

    def key(self, params: Json) -> str:
        return json.dumps(params, sort_keys=True)

    def keep(self, key: str, page: Json, user: str) -> None:
        if (ttl := self.ttl(page)) > 0:
            whose = None if self.is_shared(page) else user
            self.kept[f"{whose!r} {key}"] = (time.monotonic() + ttl / 1000, page)

    def ttl(self, page: Json) -> float:
        ttl = page.get("ttlMs")
        return ttl if self.era == MODERN and type(ttl) is int else 0

    def is_shared(self, page: Json) -> bool:
        return page.get("cacheScope") == "public"

    def checked(self, result: Json) -> Json:
        if result.get("nextCursor", "") is None:
            result = {name: value for name, value in result.items() if name != "nextCursor"}
        tools, cursor = result.get(self.member), result.get("nextCursor", "")
        usable = self.era == LEGACY or self.kind(result) == "complete"
        if not isinstance(tools, list) or not isinstance(cursor, str) or not usable:
            raise InvalidError("no page of tools")
        return {**result, "tools": [each for each in tools if self.is_tool(each)]}  # pyright: ignore[reportUnknownVariableType] - JSON

    def kind(self, result: Json) -> Any:
        return result.get("resultType", "complete")

    def is_tool(self, entry: Any) -> bool:
        held = cast("Json", entry) if isinstance(entry, dict) else Json()
        called = self.member != "tools" or isinstance(held.get("inputSchema"), dict)
        return isinstance(held.get(self.key_member), str) and called

    def fit(self, tool: Json) -> bool:
        names: list[Any] = []
        for _, schema in self.marked(tool["inputSchema"]):
            names.append(schema["x-mcp-header"])
            if not self.carries_header(schema["type"]):
                return False
        if json.dumps(tool["inputSchema"]).count('"x-mcp-header"') > len(names):
            return self.takes_hidden_headers()
        fit = all(isinstance(name, str) and TOKEN.fullmatch(name) for name in names)
        return fit and self.apart(names)

    def marked(self, schema: Json, *path: str) -> Iterator[tuple[tuple[str, ...], Json]]:
        """Give the path of each property that has a header, and its schema."""
        for name, each in schema.get("properties", {}).items():
            if "x-mcp-header" in each:
                yield (*path, name), each
            yield from self.marked(each, *path, name)

    def carries_header(self, kind: str) -> bool:
        return kind in {"string", "integer", "boolean"}

    def takes_hidden_headers(self) -> bool:
        return False

    def apart(self, names: list[str]) -> bool:
        return len({name.lower() for name in names}) == len(names)

    def listed(self) -> list[Json]:
        tools: list[Json] = []
        cursor: Json = {}
        while True:
            page = self.request(f"{self.path}/list", cursor)
            tools += page[self.member]
            if "nextCursor" not in page:
                return tools
            cursor = {"cursor": page["nextCursor"]}

    def list_tools(self) -> list[Json]:
        return self.listed()

    def ranked(self, query: str, tools: list[Json]) -> list[Json]:
        wanted = set(re.findall(r"\w+", query.lower()))
        key = self.key_member
        words = {tool[key]: set(re.findall(r"[^\W_]+", str(tool).lower())) for tool in tools}
        fit = [tool for tool in tools if wanted & words[tool[key]]]
        return sorted(fit, key=lambda tool: -len(wanted & words[tool[key]]))

    def call(self, name: str, arguments: Json) -> Json:
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        required: list[str] = self.definition(name).get("outputSchema", {}).get("required", [])
        if not set(required) <= set(result.get("structuredContent", ())):
            raise InvalidError("the result does not fit the definition")
        return result

    def definition(self, name: str) -> Json:
        return self.found.get(name, {})

    # Requests

    def request(self, method: str, params: Json) -> Json:
        message = self.message(method, params)
        self.asked[threading.get_ident()] = message["id"]
        whose = {"Authorization": f"Bearer {self.user}"} if self.user else {}
        response = self.transport.request(message, {**self.headers(method, params), **whose})
        if "error" in response:
            raise RefusedError(response["error"])
        return response["result"]

    def is_answer(self, request: Json, response: Json) -> bool:
        return response.get("id") == request["id"]

    def cancel(self, number: Any) -> None:
        if self.era == LEGACY or not self.over_http:
            self.notify_cancelled(number)
        self.transport.abandon(number)

    def notify_cancelled(self, number: Any) -> None:
        params: Json = {"requestId": number}
        message: Json = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        self.transport.notify(message, self.headers(message["method"], params))

    def message(self, method: str, params: Json) -> Json:
        message: Json = {"jsonrpc": "2.0", "id": self.next_id(), "method": method, "params": params}
        if self.era == MODERN:
            described = {"protocolVersion": MODERN, "clientInfo": {"name": "mini", "version": "1"}}
            meta = {META + name: value for name, value in described.items()}
            meta[META + "clientCapabilities"] = self.declared(method)
            message["params"] = {**params, "_meta": meta}
        return message

    def next_id(self) -> Any:
        self.ids += 1
        return self.ids

    def headers(self, method: str, params: Json) -> dict[str, str]:
        if self.era == LEGACY:
            return {} if method == "initialize" else {"MCP-Protocol-Version": LEGACY}
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if method == "tools/call":
            headers["Mcp-Name"] = params["name"]
            headers |= self.param_headers(params)
        return headers

    def param_headers(self, params: Json) -> dict[str, str]:
        headers: dict[str, str] = {}
        for path, schema in self.marked(self.definition(params["name"]).get("inputSchema", {})):
            value: Any = params["arguments"]
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - JSON
            if value is not None:
                headers[self.header_name(path, schema)] = self.header_value(value)
        return headers

    def header_name(self, path: tuple[str, ...], schema: Json) -> str:
        return f"Mcp-Param-{schema['x-mcp-header']}"

    def header_value(self, value: Any) -> str:
        text = value if isinstance(value, str) else json.dumps(value)
        plain = text.isascii() and text.isprintable() and text == text.strip() and not ENCODED.fullmatch(text)
        return text if plain else f"=?base64?{base64.b64encode(text.encode()).decode()}?="

    def close(self) -> None:
        self.transport.close()


class OnceRefused(Client):
    """Knows whether any request was refused."""

    refused = False

    def request(self, method: str, params: Json) -> Json:
        try:
            return super().request(method, params)
        except RefusedError:
            self.refused = True
            raise


class Federation:
    """Several clients as one."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self.clients = clients
        self.lost: dict[str, TransportError] = {}
        self.named: dict[str, tuple[str, str]] = {}
        self.under_way: dict[int, dict[str, threading.Thread]] = {}

    def open(self) -> None:
        for name, client in self.clients.items():
            try:
                client.open()
            except TransportError as error:
                self.cannot_open(name, error)

    def cannot_open(self, name: str, error: TransportError) -> None:
        self.lost[name] = error

    def search(self, query: str, limit: int) -> Json:
        answers: dict[str, list[Json]] = {}
        failed = [server for name, error in self.lost.items() for server in self.failed_servers(name, error)]

        def ask(name: str) -> None:
            try:
                answers[name] = self.clients[name].search(query, limit)
            except (RefusedError, InvalidError, TransportError) as error:
                failed.extend(self.failed_servers(name, error))

        self.ask_each([name for name in self.asked() if name not in self.lost], ask, answers, limit)
        found = [(rank, name, tool) for name in self.clients for rank, tool in enumerate(answers.get(name, []))]
        merged = self.merged(found)[:limit]
        tools = [{"name": self.full_name(name, tool), "server": name, "tool": tool["name"]} for _, name, tool in merged]
        self.named |= {tool["name"]: (tool["server"], tool["tool"]) for tool in tools}
        return self.outcome(tools, failed)

    def asked(self) -> list[str]:
        return list(self.clients)

    def ask_each(
        self, names: list[str], ask: Callable[[str], None], answers: dict[str, list[Json]], limit: int
    ) -> None:
        threads = {name: threading.Thread(target=ask, args=(name,), daemon=True) for name in names}
        self.under_way[threading.get_ident()] = threads
        for thread in threads.values():
            thread.start()
        for thread in threads.values():
            thread.join()

    def cancel(self, search: int) -> None:
        for name, thread in self.under_way[search].items():
            self.clients[name].cancel(self.clients[name].asked[thread.ident or 0])

    def call(self, name: str, arguments: Json) -> Json:
        server, tool = self.named[name]
        return self.clients[server].call(tool, arguments)

    def failed_servers(self, name: str, error: Exception) -> list[str]:
        return [name]

    def merged(self, found: list[tuple[int, str, Json]]) -> list[tuple[int, str, Json]]:
        return sorted(found, key=lambda hit: hit[0])

    def full_name(self, server: str, tool: Json) -> str:
        return f"{len(server)}_{server}__{tool['name']}"

    def outcome(self, tools: list[Json], failed: list[str]) -> Json:
        return {"tools": tools, "failed": failed}

    def close(self) -> None:
        for client in self.clients.values():
            client.close()
