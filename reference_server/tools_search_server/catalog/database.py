"""The catalog server for a catalog in PostgreSQL. It keeps no definitions in this process.

Groups in the database control who sees a tool. There is one for each combination of a protocol version, whose revision
may not allow a definition, and a kind of caller. A tool that everyone sees has no groups.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final, Literal, TypeVar

import anyio
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.shared.inbound import decode_header_value
from mcp_ext_tools_search.server import Answer, ToolsSearch
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.server.listing import wire_form
from mcp_ext_tools_search.types import BusyData, ServerSettings
from mcp_types import INTERNAL_ERROR, CallToolRequestParams, CallToolResult, PaginatedRequestParams, Tool
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from tools_search_ranking.hits import LazyHits
from tools_search_ranking.postgres import (
    Excerpt,
    PostgresPool,
    SchemaError,
    ToolEntry,
    UnanswerableError,
    UnavailableError,
    UnknownCatalogError,
)

from tools_search_server.access.principals import bearer_token
from tools_search_server.base.defaults import MAX_PAGE_BYTES
from tools_search_server.base.errors import hide_internal_errors, unknown_tool
from tools_search_server.base.limits import Limits
from tools_search_server.base.paging import CursorSigner, invalid_cursor, page_of, room_for
from tools_search_server.catalog.answers import canned_answer
from tools_search_server.catalog.catalog_file import CatalogFile
from tools_search_server.catalog.catalog_server import CallTool, Catalog

logger = logging.getLogger(__name__)

Ctx = ServerRequestContext[Any, Any]

_TTL_MS: Final = 60_000
_POLL_SECONDS: Final = 1
_RETRY_AFTER_MS: Final = 1_000
_MOST_LISTED: Final = 2_000
"""Maximum number of tools that a list page considers. It reads the definitions of as many as fit, and one more."""

_COMPARED: Final = 20
"""Number of tools whose names are compared with an unknown name."""

_ATTEMPTS: Final = 3
"""How often to try a request that coincides with changes of the catalog."""

_OTHERS: Final = "others"
_LISTED = """
    select catalog.revision, catalog.generation, tool.id, tool.definition
    from tools_search.catalog left join lateral (
        select *, row_number() over (order by id) as place,
            sum(octet_length(definition)) over (order by id) - octet_length(definition) as bytes_before
        from (
            select tool.id, tool.definition from tools_search.tool
            join tools_search.audience on audience.generation = tool.generation and audience.id = tool.audience
            where tool.generation = catalog.generation and tool.id > %(after)s
                and (audience.groups = '{}' or audience.groups && %(groups)s::text[])
            order by tool.id limit %(most)s
        ) seen
    ) tool on place <= 2 or bytes_before <= %(room)s -- the page, and a tool that shows whether another follows
    where catalog.name = %(catalog)s
    order by tool.id
"""
_NAMED = """
    select catalog.revision, tool.definition, tool.answer from tools_search.catalog
    join tools_search.tool on tool.generation = catalog.generation and sha256(tool.name) = sha256(%(name)b)
    join tools_search.audience on audience.generation = tool.generation and audience.id = tool.audience
    where catalog.name = %(catalog)s and (audience.groups = '{}' or audience.groups && %(groups)s::text[])
"""
_REVISION = """
    select catalog.revision, generation.facts,
        (select sum(tools)::int from tools_search.audience where audience.generation = generation.id)
    from tools_search.catalog join tools_search.generation on generation.id = catalog.generation
    where catalog.name = %(catalog)s
"""


def catalog_entries(contents: CatalogFile) -> Iterator[ToolEntry]:
    """Yield the tools in a catalog file in the form in which a database stores them."""
    callers = {_OTHERS: frozenset[str](), **{_label(token): frozenset(own) for token, own in contents.hidden.items()}}
    for tool in contents.tools:
        answer = contents.answers.get(tool.name)
        yield ToolEntry(
            tool.model_dump(by_alias=True, mode="json", exclude_none=True),
            _groups(tool, [caller for caller, hidden in callers.items() if tool.name not in hidden], len(callers)),
            None if answer is None else answer.model_dump_json(by_alias=True, exclude_none=True),
        )


def catalog_facts(contents: CatalogFile) -> dict[str, Any]:
    """Return the facts, besides the tools, that a server needs to know about a catalog."""
    return {
        "topics": list(Catalog(contents).settings.topics or ()),
        "callers": [_label(token) for token in contents.hidden],
    }


def _groups(tool: Tool, callers: list[str], all_callers: int) -> list[str]:
    versions = [version for version in SUPPORTED_PROTOCOL_VERSIONS if wire_form(tool, version) is not None]
    if len(versions) == len(SUPPORTED_PROTOCOL_VERSIONS) and len(callers) == all_callers:
        return []
    return [f"{version} {caller}" for version in versions for caller in callers]


def _label(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()[:32]


@dataclass(frozen=True)
class _Revision:
    """The facts, besides the tools, that a server needs to know about one revision of a catalog."""

    number: int
    callers: frozenset[str]
    settings: ServerSettings

    @classmethod
    def of_row(cls, row: tuple[int, Mapping[str, Any], int | None]) -> _Revision:
        number, facts, tools = row
        callers = frozenset[str](facts.get("callers", ()))
        stated: dict[str, Any] = {"topics": facts["topics"]} if facts.get("topics") else {}
        if not callers:  # draft, Visibility: no size if callers see different numbers of tools
            stated["catalog_size"] = tools or 0
        return cls(number, callers, ServerSettings(**stated))

    @property
    def cache_scope(self) -> Literal["public", "private"]:
        """Whether a listing for one caller may be shown to another."""
        return "private" if self.callers else "public"

    def groups_of(self, ctx: Ctx) -> list[str]:
        """Return the groups of the caller of `ctx`."""
        return self.groups(ctx.protocol_version, {} if ctx.request is None else ctx.request.headers)

    def groups(self, protocol_version: str, headers: Mapping[str, str]) -> list[str]:
        """Return the groups of a caller who sends these headers; none on stdio."""
        label = _label(bearer_token(headers) or "")
        return [f"{protocol_version} {label if label in self.callers else _OTHERS}"]


_Found = TypeVar("_Found")


class DatabaseCatalog:
    """A catalog in a database, as its callers see it.

    All requests raise `MCPError` -32603 if the database is not available.
    """

    def __init__(self, address: str, name: str, limits: Limits) -> None:
        self.name, self.limits = name, limits
        self.pool = PostgresPool(address, embedder=limits.embedder)
        self._revision: _Revision | None = None
        self._signer = CursorSigner(limits.cursor_key)

    @property
    def settings(self) -> ServerSettings:
        """The advertised settings; empty until the database has been available once."""
        return ServerSettings() if self._revision is None else self._revision.settings

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep connections to the database open, and read the settings to advertise if it is available."""
        async with self.pool:
            with suppress(UnavailableError):
                await self._read_revision()
            yield

    async def follow(self, changed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Call `changed` after each change of the catalog; never returns."""
        known = self._revision
        fails = False
        while True:
            try:
                found = await self._read_revision()
            except Exception as error:  # any failure may be temporary
                if not fails:
                    logger.warning("the database is not available: %s", error)
                fails = True
            else:
                if fails:
                    logger.info("the database is available again")
                fails = False
                if known is not None and found.number != known.number:
                    await changed()
                known = found
            await anyio.sleep(_POLL_SECONDS)

    async def _read_revision(self) -> _Revision:
        rows = await self.pool.rows(_REVISION, {"catalog": self.name})
        if not rows:
            raise UnavailableError(f"the catalog {self.name!r} no longer exists: run `import` with this `--name`")
        self._revision = _Revision.of_row(rows[0])
        return self._revision

    async def _seen(
        self, read: Callable[[_Revision], Awaitable[tuple[int | None, _Found]]]
    ) -> tuple[_Revision, _Found]:
        """Return the result of `read`, and the catalog revision that it is from.

        A caller's groups depend on the revision, so a caller from whom tools were just hidden must not be treated as
        before. `read` returns the number of the revision that it found, or `None` if it found no rows.

        Raises:
            MCPError: -32603, the database is not available.
            ServerSetupError: Trying again does not help.
        """
        try:
            revision = self._revision or await self._read_revision()
            for _ in range(_ATTEMPTS):
                # No rows say nothing about the revision: the catalog may have changed, or the caller sees nothing.
                met, found = await read(revision)
                now = revision if met == revision.number else await self._read_revision()
                if now.number == revision.number:
                    return revision, found
                revision = now
            raise UnavailableError("the catalog keeps changing")
        except UnavailableError as error:
            logger.warning("a request failed: %s", error)
            text = f"The tools cannot be read at the moment; try again in {_RETRY_AFTER_MS} ms"
            raise MCPError(INTERNAL_ERROR, text, data=BusyData(retry_after_ms=_RETRY_AFTER_MS).to_wire()) from None
        except (SchemaError, UnanswerableError, UnknownCatalogError) as error:
            raise ServerSetupError(str(error)) from None

    async def page(self, ctx: Ctx, cursor: str | None) -> dict[str, Any]:
        """Return the page of `tools/list` at `cursor`, or the first one.

        Raises:
            MCPError: -32602, the listing has no such cursor.
        """
        place = [None, 0] if cursor is None else self._signer.verify(cursor)
        if place is None or [type(part) for part in place[-1:]] != [int] or len(place) != 2:
            raise invalid_cursor()  # or it is from another kind of server with the same key
        size = min(self.limits.page_size, _MOST_LISTED)
        values = {"catalog": self.name, "after": place[1], "most": size + 1, "room": MAX_PAGE_BYTES}

        async def read(revision: _Revision) -> tuple[int | None, list[tuple[Any, ...]]]:
            rows = await self.pool.rows(_LISTED, values | {"groups": revision.groups_of(ctx)})
            return (rows[0][0] if rows else None), rows

        revision, rows = await self._seen(read)
        # A place in one generation means nothing in another.
        if not rows or (place[0] is not None and place[0] != rows[0][1]):
            raise invalid_cursor()
        # The query returns one row without a tool if no tool follows, for the revision and the generation.
        found = [(generation, number, text) for _, generation, number, text in rows if number is not None]
        shown = found[: min(size, room_for([len(text) for _, _, text in found]))]
        wire = [_wire(json.loads(text), ctx.protocol_version) for _, _, text in shown]
        following = self._signer.sign([shown[-1][0], shown[-1][1]]) if len(shown) < len(found) else None
        return page_of(wire, following) | {"ttlMs": _TTL_MS, "cacheScope": revision.cache_scope}

    async def search(self, ctx: Ctx, query: str, places: range) -> Answer:
        """Return the answer to a search: the hits up to the end of `places`, and the definitions of those in it."""
        revision, found = await self._search(ctx, query, places.stop, places)
        hits = LazyHits(
            found.total,
            lambda: [hit.name for hit in found.hits],
            lambda wanted: [found.hits[place] for place in wanted],
        )
        tools = {name: _wire(tool, ctx.protocol_version) for name, tool in found.definitions.items()}
        return Answer(hits, tools, _TTL_MS, revision.cache_scope)

    async def _search(self, ctx: Ctx, query: str, count: int, definitions: range) -> tuple[_Revision, Excerpt]:
        async def read(revision: _Revision) -> tuple[int | None, Excerpt]:
            groups = revision.groups_of(ctx)
            found = await self.pool.search(self.name, query, groups=groups, count=count, definitions=definitions)
            return found.revision, found

        return await self._seen(read)

    async def tool(self, name: str, ctx: Ctx) -> tuple[Tool, CallToolResult | None] | None:
        """Return a tool and its fixed answer, or `None` if the caller sees no tool of that name."""
        _, rows = await self._seen(lambda revision: self._named(name, revision.groups_of(ctx)))
        if not rows:
            return None
        _, definition, answer = rows[0]
        return Tool.model_validate_json(definition), answer and CallToolResult.model_validate_json(answer)

    async def schema(self, name: str, protocol_version: str, headers: Mapping[str, str]) -> dict[str, Any] | None:
        """Return a tool's input schema, or `None` if the caller with these headers sees no tool of that name."""
        _, rows = await self._seen(lambda revision: self._named(name, revision.groups(protocol_version, headers)))
        return json.loads(rows[0][1])["inputSchema"] if rows else None

    async def _named(self, name: str, groups: list[str]) -> tuple[int | None, list[tuple[Any, ...]]]:
        values = {"catalog": self.name, "name": name.encode("utf-8", "surrogatepass"), "groups": groups}
        rows = await self.pool.rows(_NAMED, values)
        return (rows[0][0] if rows else None), rows

    async def closest(self, name: str, ctx: Ctx) -> list[str]:
        """Return the names of visible tools that an unknown name may have been meant for."""
        _, found = await self._search(ctx, name, _COMPARED, range(0))
        return [hit.name for hit in found.hits]


def _wire(definition: dict[str, Any], protocol_version: str) -> dict[str, Any]:
    return wire_form(Tool.model_validate(definition, by_name=False), protocol_version) or {}


_called_schema: ContextVar[dict[str, Any] | None] = ContextVar("tools_search_called_schema", default=None)


def database_server(catalog: DatabaseCatalog, answer: CallTool = canned_answer) -> Server[Any]:
    """Build a server that lists, searches and answers calls for a catalog in a database, in both protocol eras."""

    async def list_tools(ctx: Ctx, params: PaginatedRequestParams) -> dict[str, Any]:
        return await catalog.page(ctx, params.cursor)

    async def call_tool(ctx: Ctx, params: CallToolRequestParams) -> CallToolResult:
        found = await catalog.tool(params.name, ctx)
        if found is None:
            raise unknown_tool(params.name, await catalog.closest(params.name, ctx))
        tool, fixed = found
        return fixed or answer(tool, params.arguments or {})

    server = Server[Any](
        "tools-search-server",
        version=version("mcp-ext-tools-search"),
        on_call_tool=call_tool,
        # Without this, the SDK walks the whole listing before each call over modern Streamable HTTP.
        get_tool_input_schema=lambda _: _called_schema.get(),
    )
    # Not `on_list_tools`, which returns models: the definitions are already in wire form.
    server.add_request_handler("tools/list", PaginatedRequestParams, list_tools)
    limits = catalog.limits
    ToolsSearch(
        page_search=catalog.search,
        settings=lambda: catalog.settings,
        default_limit=limits.default_limit,
        max_limit=limits.max_limit,
        max_searches=limits.searches_at_once,
        cursor_key=limits.cursor_key,
    ).install(server)
    hide_internal_errors(server)
    return server


def with_schema_of_call(catalog: DatabaseCatalog, app: ASGIApp) -> ASGIApp:
    """Return an application that reads the called tool's input schema, which the SDK requests synchronously."""

    async def call(scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope) if scope["type"] == "http" else Headers()
        name = decode_header_value(headers.get("mcp-name")) if headers.get("mcp-method") == "tools/call" else None
        if name is not None:
            _called_schema.set(None)
            with suppress(MCPError, ServerSetupError):  # the call itself will fail for the same reason
                _called_schema.set(await catalog.schema(name, headers.get("mcp-protocol-version", ""), headers))
        await app(scope, receive, send)

    return call
