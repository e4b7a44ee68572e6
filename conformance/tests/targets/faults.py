"""What a fault is: a place between a correct server and the wire where exactly one rule gets broken.

Faults know messages only, so that the same fault breaks the miniature and the reference server.
"""

from __future__ import annotations

import importlib
import json
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from functools import partial
from io import BufferedIOBase
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

Json = dict[str, Any]

EXTENSION_ID: Final = "io.github.tools-search/tools-search"
SEARCH: Final = "tools/search"

session: Final = ContextVar("session", default="")
"""The legacy session over HTTP that a message belongs to; on stdio a process has one."""

caller: Final = ContextVar("caller", default="")
"""The token that a message over HTTP is taken to have."""

asked: Final = ContextVar[Json]("asked")
"""The request that is answered; none where it is refused for its headers or as no JSON."""


def member(value: Json, name: str) -> Json:
    """Return a member that is an object, or an empty one."""
    found = value.get(name)
    return cast("Json", found) if isinstance(found, dict) else {}


def search_of(params: Json) -> str:
    """Return what a search asks for, as a key."""
    return json.dumps([params.get(name) for name in ("query", "limit", "cursor")])


def served_catalog() -> Json:
    """Return the catalog that the server has to serve now."""
    return json.loads(Path(os.environ["TOOLS_SEARCH_CATALOG"]).read_text(encoding="utf-8"))


class RefusalError(Exception):
    """A JSON-RPC error on its way to the client."""

    def __init__(self, code: int, message: str, data: Any) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class Fault:
    """Breaks nothing; subclasses override one place."""

    searches_unreadable = False
    """Whether the content is searched that a caller cannot read."""

    def request(self, method: str, params: Json, era: str) -> Json:
        """Return the params that the server gets to see, or refuse."""
        return params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        """Return the `{"result": …}` or `{"error": …}` that the client gets to see; `params` are the client's own."""
        return outcome

    def declaration_to(self, method: str, declared: Any) -> Any:
        """Return what the gate of a method takes for the client's declaration: faults are of tools."""
        return self.declaration(declared) if method == SEARCH else declared

    def declaration(self, declared: Any) -> Any:
        """Return what the gate takes for the client's declaration."""
        return declared

    def bound_to(self, method: str, query: str) -> str:
        """Return what cursors of a method are bound to in place of the query: faults are of tools."""
        return self.bound(query) if method == SEARCH else query

    def bound(self, query: str) -> str:
        """Return what cursors are bound to in place of the query."""
        return query

    def headers(self, message: Json, headers: dict[str, str]) -> None:
        """Refuse a modern HTTP request for its headers."""
        named = {name.lower(): value for name, value in headers.items()}
        self.version_header(message, named.get("mcp-protocol-version"))
        self.method_header(message, named.get("mcp-method"))

    def version_header(self, message: Json, value: str | None) -> None:
        """Refuse a request for its `MCP-Protocol-Version`."""
        if value != member(member(message, "params"), "_meta").get("io.modelcontextprotocol/protocolVersion"):
            raise RefusalError(-32020, "MCP-Protocol-Version does not match", None)

    def method_header(self, message: Json, value: str | None) -> None:
        """Refuse a request for its `Mcp-Method`."""
        if value != message.get("method"):
            raise RefusalError(-32020, "Mcp-Method does not match", None)

    def token(self, token: str) -> str:
        """Return the token that an HTTP request is taken to have."""
        return token

    def status(self, code: int | None, status: int) -> int:
        """Return the HTTP status of an answer with this error code."""
        return status

    def bytes(self, message: Json, data: bytes) -> bytes:
        """Return the bytes that are written."""
        return data

    def lines(self, stdin: BinaryIO) -> Iterable[bytes]:
        """Yield what is taken for a message each."""
        return stdin

    def body(self, stream: BufferedIOBase, length: int) -> bytes:
        """Return the body of a POST, which has `length` bytes."""
        return stream.read(length)

    def id(self, value: Any) -> Any:
        """Return the id that the response to the request `value` carries."""
        return value

    def unasked(self, message: Json) -> Json | None:
        """Return what a message without an id is answered with."""
        return None

    def content_type(self, kind: str) -> str:
        """Return the content type of an answer."""
        return kind

    def input_closed(self) -> None:
        """Return when the process is to end."""

    def cancelled(self, number: Any, in_flight: list[Any]) -> list[Any]:
        """Return the ids of the requests `in_flight` that end when the one with the id `number` is cancelled."""
        return [number]

    def abandoned(self) -> None:
        """Take note that a client closed an HTTP connection before it got the answer."""


class SearchFault(Fault):
    """Breaks searches, and passes all other messages on. Subclasses override one or both of its own methods."""

    method = SEARCH
    """The method of the searches that it breaks."""

    def params(self, params: Json) -> Json:
        """Return the params that the server gets to see, or refuse."""
        return params

    def result(self, params: Json, result: Json) -> Json:
        """Return the result that the client gets to see; `params` are the client's own."""
        return result

    def request(self, method: str, params: Json, era: str) -> Json:
        return self.params(params) if method == self.method else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method != self.method or "result" not in outcome:
            return outcome
        return {**outcome, "result": self.result(params, outcome["result"])}


class EncodedCursors(SearchFault, ABC):
    """Issues cursors in another form than the server."""

    @abstractmethod
    def encoded(self, genuine: str) -> str:
        """Return what is issued for a cursor of the server."""

    @abstractmethod
    def decoded(self, cursor: str) -> str:
        """Return the server's cursor for one that a client has sent, or one that the server refuses."""

    def params(self, params: Json) -> Json:
        cursor = params.get("cursor")
        return {**params, "cursor": self.decoded(cursor)} if isinstance(cursor, str) else params

    def result(self, params: Json, result: Json) -> Json:
        genuine = result.get("nextCursor")
        return {**result, "nextCursor": self.encoded(genuine)} if genuine else result


class Advertising(Fault):
    """Changes what a discovery or a handshake says of the server. Subclasses override one of its own methods."""

    methods: tuple[str, ...] = ("server/discover", "initialize")

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method not in self.methods or "result" not in outcome:
            return outcome
        capabilities = self.capabilities(outcome["result"]["capabilities"])
        return {"result": {**outcome["result"], "capabilities": capabilities}}

    def capabilities(self, capabilities: Json) -> Json:
        """Return the capabilities that the client gets to see."""
        places = (place for place in ("extensions", "experimental") if place in capabilities)
        changed = {place: {EXTENSION_ID: self.settings(capabilities[place][EXTENSION_ID])} for place in places}
        return {**capabilities, **changed}

    def settings(self, settings: Json) -> Json:
        """Return the extension's settings that the client gets to see."""
        return settings


def without(value: Json, *names: str) -> Json:
    """Return an object without some of its members."""
    return {name: held for name, held in value.items() if name not in names}


_MODULES: Final = ("answers", "catalogs", "features", "messages", "negotiation", "pages", "parameters", "primitives")


class Elsewhere(Fault):
    """A fault of tools that breaks the search of another list, which it sees as if that had tools, and leaves tools."""

    def __init__(self, fault: Fault, member: str) -> None:
        path, self._key = _OTHERS[member]
        self._fault, self._member = fault, member
        self._methods = {f"{path}/search": SEARCH, f"{path}/list": "tools/list"}

    def request(self, method: str, params: Json, era: str) -> Json:
        return self._fault.request(self._methods[method], params, era) if method in self._methods else params

    def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
        if method not in self._methods:
            return outcome
        changed = self._fault.response(self._methods[method], params, era, self._as_tools(outcome))
        return self._as_they_are(changed)

    def declaration_to(self, method: str, declared: Any) -> Any:
        return self._fault.declaration(declared) if method in self._methods else declared

    def _as_tools(self, outcome: Json) -> Json:
        names = {self._key: "name", "name": "own name"} if self._key != "name" else {}
        return _renamed(outcome, {self._member: "tools"}, names)

    def _as_they_are(self, outcome: Json) -> Json:
        names = {"name": self._key, "own name": "name"} if self._key != "name" else {}
        return _renamed(outcome, {"tools": self._member}, names)


MEMBERS: Final = {
    "tools/search": "tools",
    "resources/search": "resources",
    "resources/templates/search": "resourceTemplates",
    "prompts/search": "prompts",
}
"""The members of results that hold what the searches found."""

_OTHERS: Final = {
    "resources": ("resources", "uri"),
    "resourceTemplates": ("resources/templates", "uriTemplate"),
    "prompts": ("prompts", "name"),
}


def _renamed(outcome: Json, members: dict[str, str], names: dict[str, str]) -> Json:
    """Return an outcome with other names of the result's members, and of those of each definition in it."""

    def definition(item: Any) -> Any:
        return {names.get(name, name): value for name, value in item.items()} if isinstance(item, dict) else item  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType] - JSON

    if not isinstance(outcome.get("result"), dict):
        return outcome
    before: Json = outcome["result"]
    result: Json = {members.get(name, name): value for name, value in before.items()}
    for name in members.values():
        if isinstance(result.get(name), list):
            result[name] = [definition(item) for item in result[name]]
    return {**outcome, "result": result}


def find_fault(name: str) -> Fault:
    """Return a fault in its first state: `cursor-empty` is the class `CursorEmpty`, or the function `cursor_empty`.

    After an `@` comes the member of results whose search it breaks in place of that for tools, such as `prompts`.
    """
    if name == "none":
        return Fault()
    name, _, of = name.partition("@")
    if of:
        return Elsewhere(find_fault(name), of)
    names = ("".join(part.capitalize() for part in name.split("-")), name.replace("-", "_"))
    for kind in _MODULES:
        module = vars(importlib.import_module(f".faults_of_{kind}", __package__))
        for each in names:
            if each in module:
                return module[each]()
    raise LookupError(f"there is no fault {name}")


def wrong_params(change: Callable[[Json], Json]) -> type[Fault]:
    """Make a fault of a function from the params of a search to other ones, or to a refusal."""

    class WrongParams(SearchFault):
        def params(self, params: Json) -> Json:
            return change(dict(params))

    return WrongParams


def wrong_result(change: Callable[[Json, Json], Json], *, method: str = SEARCH) -> type[Fault]:
    """Make a fault of a function from the params and result of a served search to another result."""

    class WrongResult(SearchFault):
        def result(self, params: Json, result: Json) -> Json:
            return change(params, dict(result))

    WrongResult.method = method
    return WrongResult


def wrong_result_of(method: str) -> Callable[[Callable[[Json, Json], Json]], type[Fault]]:
    """Make such a fault of the searches by another method."""
    return partial(wrong_result, method=method)


def kept_answers(key: Callable[[Json, Json], object], *, method: str = SEARCH) -> type[Fault]:
    """Make a fault that finds what was found first by a search with the same key; those with `None` are not kept."""
    name = MEMBERS[method]

    class KeptAnswers(SearchFault):
        def __init__(self) -> None:
            self.kept: dict[object, Any] = {}

        def result(self, params: Json, result: Json) -> Json:
            own = key(params, result)
            return result if own is None else {**result, name: self.kept.setdefault(own, result[name])}

    KeptAnswers.method = method
    return KeptAnswers


def wrong_items(change: Callable[[Json], Json], *, method: str = SEARCH) -> type[Fault]:
    """Make a fault of a function from the definition of a found item to another one."""
    name = MEMBERS[method]
    return wrong_result(lambda _, result: {**result, name: [change(item) for item in result[name]]}, method=method)


def wrong_capabilities(change: Callable[[Json], Json], *methods: str) -> type[Fault]:
    """Make a fault of a function from the advertised capabilities to other ones, by all or some of the methods."""

    class WrongCapabilities(Advertising):
        def capabilities(self, capabilities: Json) -> Json:
            return change(capabilities)

    WrongCapabilities.methods = methods or Advertising.methods
    return WrongCapabilities


def wrong_settings(change: Callable[[Json], Json], *methods: str) -> type[Fault]:
    """Make a fault of a function from the extension's advertised settings to other ones."""

    class WrongSettings(Advertising):
        def settings(self, settings: Json) -> Json:
            return change(settings)

    WrongSettings.methods = methods or Advertising.methods
    return WrongSettings


def wrong_error(code: int) -> Callable[[Callable[[Json], Json]], type[Fault]]:
    """Make a fault of a function from a search's error `code` to another error."""

    def make(change: Callable[[Json], Json]) -> type[Fault]:
        class WrongError(Fault):
            def response(self, method: str, params: Json, era: str, outcome: Json) -> Json:
                error = member(outcome, "error")
                return {"error": change(dict(error))} if method == SEARCH and error.get("code") == code else outcome

        return WrongError

    return make
