"""An index of a gateway's tools in a database, shared by all its replicas.

Each replica lists its servers itself, and writes new and changed tools. A search finds only tools in the replica's own
view: the parts of servers that it shows to the caller. Each part is a group in the database. Tools of a server that is
down at one replica stay in the index, because it may be up at others, but that replica omits them.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
import psycopg
from mcp import MCPError
from mcp_ext_tools_search.ranking import Hit, distinct_hits
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.server.listing import wire_form
from mcp_ext_tools_search.types import BusyData
from mcp_types import INTERNAL_ERROR
from mcp_types.version import SUPPORTED_PROTOCOL_VERSIONS
from tools_search_hosts.counts import number_of
from tools_search_hosts.toolsets import Rule
from tools_search_ranking.postgres import (
    PostgresPool,
    SchemaError,
    ToolEntry,
    UnanswerableError,
    UnavailableError,
    UnknownCatalogError,
    UnreachableError,
    import_catalog,
    refusal,
    update_catalog,
)
from tools_search_ranking.postgres.schema import OPTIONS, Connection

from tools_search_server.gateway.gateway import ExposedTool, Gateway
from tools_search_server.gateway.views import View

logger = logging.getLogger(__name__)

_RETRY_AFTER_MS: Final = 1_000
"""Minimum time that a caller is asked to wait."""

_REST_SECONDS: Final = 5
"""Pause after a database is unreachable or refuses writes. Until it ends, searches fail at once if the database is
unreachable, or use the index as it is if it only refuses writes."""

_MOST_HITS: Final = 10_000
_BATCH: Final = 2_000
"""Maximum number of changed tools per update."""

_WRITING: Final[Mapping[str, Any]] = {
    **OPTIONS,
    "connect_timeout": 3,
    "tcp_user_timeout": 5_000,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
"""Connection timeouts for writes. Searches wait for writes, so they must not hang if the database is unreachable."""

_MARK_CHARS: Final = 8
_KNOWN: Final = """
    select tool.name, tool.digest, audience.groups
    from tools_search.catalog join tools_search.tool on tool.generation = catalog.generation
    join tools_search.audience on audience.generation = tool.generation and audience.id = tool.audience
    where catalog.name = %s
"""
_REVISION: Final = "select revision from tools_search.catalog where name = %s"


class _RestingError(Exception):
    """The database failed a moment ago and is not tried again until a time on the event loop's clock."""

    def __init__(self, until: float) -> None:
        super().__init__(until)
        self.until = until


class SharedIndex:
    """The tools of a gateway in a database that its replicas share.

    Args:
        gateway: The gateway whose tools are indexed.
        address: The database's address, with a role that owns the schema.
        catalog: Name of the catalog; the same for all replicas.
    """

    def __init__(self, gateway: Gateway, address: str, catalog: str) -> None:
        self._gateway, self._address, self._catalog = gateway, address, catalog
        self.pool = PostgresPool(address)
        """The connections for searches, to be entered before the first one."""
        self._lock = anyio.Lock()
        self._parts = WeakKeyDictionary[View, Sequence[str]]()
        self._written: tuple[str, Mapping[str, ExposedTool]] | None = None
        """The catalog and the gateway's tools at the last update of the index."""
        self._revision: int | None = None
        """The catalog's revision after that update."""
        self._has_changed = False
        """Whether another replica has changed the catalog since."""
        self._answered = -math.inf
        """Time of the last answered search."""
        self._rests_until = -math.inf
        self._writes_rest_until = -math.inf
        """When to write again after the database has refused a write."""

    async def rank(self, view: View, query: str, protocol_version: str) -> tuple[Sequence[Hit], bool]:
        """Return every tool of `view` that matches `query`, best first, and whether the index is up to date.

        It lacks new tools while the database refuses writes.

        Raises:
            MCPError: -32603, the database is not available, or was not a moment ago.
            ServerSetupError: Trying again does not help.
        """
        visible = view.pages.wire(protocol_version)
        began = anyio.current_time()
        try:
            if began < self._rests_until:
                raise _RestingError(self._rests_until)
            catalog, is_current = await self._up_to_date()
            parts = self._parts_of(view)
            # A tool that some revisions do not allow is in a group for each of the others.
            groups = [*parts, *(f"{protocol_version} {part}" for part in parts)]
            found = await self.pool.search(catalog, query, groups=groups, count=_MOST_HITS)
            if await self._was_changed(catalog, found.revision):  # perhaps by a replica that lacks tools of this one
                catalog, is_current = await self._up_to_date()
                if is_current:
                    found = await self.pool.search(catalog, query, groups=groups, count=_MOST_HITS)
        except (UnavailableError, UnknownCatalogError, psycopg.Error, _RestingError) as error:
            if isinstance(error, UnknownCatalogError):
                self._written = None  # it was removed: the next search writes it again
            wait = self._milliseconds_to_wait(error, began)
            text = f"The tools cannot be searched at the moment; search again in {wait} ms"
            raise MCPError(INTERNAL_ERROR, text, data=BusyData(retry_after_ms=wait).to_wire()) from None
        except (SchemaError, UnanswerableError) as error:
            raise ServerSetupError(str(error)) from None
        self._answered = anyio.current_time()
        return distinct_hits(found.hits, visible.keys()), is_current

    def _milliseconds_to_wait(self, error: Exception, began: float) -> int:
        """Return when to retry a failed search that began at `began`. If the database is gone, pause all searches."""
        if isinstance(error, _RestingError):
            return max(math.ceil(1000 * (error.until - anyio.current_time())), _RETRY_AFTER_MS)
        reason = type(error).__name__ if isinstance(error, psycopg.Error) else error
        logger.warning("a search failed in the --index database: %s", reason)
        is_gone = isinstance(error, UnreachableError) or (isinstance(error, psycopg.Error) and error.sqlstate is None)
        if not is_gone or self._answered >= began:  # the database may only be busy, or slow with this query
            return _RETRY_AFTER_MS
        self._rests_until = anyio.current_time() + _REST_SECONDS
        return 1000 * _REST_SECONDS

    async def _was_changed(self, catalog: str, revision: int | None) -> bool:
        """Return whether a search that found this revision, or nothing, found changes of another replica."""
        if revision is None:
            rows = await self.pool.rows(_REVISION, [catalog])
            revision = rows[0][0] if rows else None
        self._has_changed = revision != self._revision
        return self._has_changed

    async def _up_to_date(self) -> tuple[str, bool]:
        """Write changes since the last search. Return the catalog's name, and whether it is up to date.

        Raises:
            psycopg.Error: The database is unreachable.
            _RestingError: It was unreachable a moment ago.
        """
        async with self._lock:
            now = anyio.current_time()
            if now < self._rests_until:  # it failed while this search waited for the lock
                raise _RestingError(self._rests_until)
            catalog, tools = self._catalog_of_toolsets(), self._gateway.tools
            known, written = self._written or (None, None)
            is_written = known == catalog and written is tools
            if (self._has_changed or not is_written) and now >= self._writes_rest_until:
                settled = {upstream.name for upstream in self._gateway.upstreams if upstream.state.is_usable}
                configured = {upstream.name for upstream in self._gateway.upstreams}
                try:
                    down = configured - settled
                    self._revision = await anyio.to_thread.run_sync(self._write, catalog, tools, down, is_written)
                    self._written, self._has_changed, is_written = (catalog, tools), False, True
                except psycopg.Error as error:
                    if (reason := refusal(error) or error.sqlstate) is None:
                        raise
                    logger.warning("the index lacks new tools: the database refuses writes: %s", reason)
                    self._writes_rest_until = anyio.current_time() + _REST_SECONDS
            return catalog, is_written and not self._has_changed

    def _catalog_of_toolsets(self) -> str:
        """Return the catalog's name, which is different for each way in which toolsets divide servers into parts."""
        cuts = sorted((name, server, rule.excludes, sorted(rule.names)) for name, server, rule in self._cuts())
        mark = hashlib.sha256(json.dumps(cuts).encode()).hexdigest()[:_MARK_CHARS]
        return f"{self._catalog} {mark}" if cuts else self._catalog

    def _cuts(self) -> list[tuple[str, str, Rule]]:
        """Return the rules that show only part of a server, with the names of the toolset and the server."""
        return [
            (toolset.name, upstream.name, rule)
            for toolset in self._gateway.access.toolsets
            for upstream in self._gateway.upstreams
            if (rule := toolset.rule(upstream.name)) is not None and not rule.shows_all
        ]

    def _write(self, catalog: str, tools: Mapping[str, ExposedTool], down: set[str], only_missing: bool) -> int:
        """Write all changes, and return the catalog's revision. Tools of servers that are `down` here stay unchanged.

        With `only_missing`, tools of other replicas stay unchanged, too. If replicas undid each other's changes, they
        would do so at every search.
        """
        cuts = self._cuts_by_server()
        entries = {name: _entry(exposed, _part(exposed, cuts)) for name, exposed in tools.items()}
        with psycopg.connect(self._address, **_WRITING) as connection:
            # Other searches of this replica wait for this one, so it must not wait long for another replica.
            connection.execute("set local lock_timeout = '5s'")
            # Replicas write one at a time, so the next one sees what this one has written.
            connection.execute("insert into tools_search.catalog (name) values (%s) on conflict do nothing", [catalog])
            row = connection.execute(
                "select generation from tools_search.catalog where name = %s for update", [catalog]
            ).fetchone()
            if row is None or row[0] is None:
                import_catalog(connection, catalog, entries.values())
                return _revision(connection, catalog)
            known = {
                bytes(name).decode("utf-8", "surrogatepass"): (bytes(digest), groups)
                for name, digest, groups in connection.execute(_KNOWN, [catalog])
            }
            gone = [
                name
                for name, (_, groups) in known.items()
                if name not in entries and not any(_server_of(group) in down for group in groups)
            ]
            new = [entry for name, entry in entries.items() if known.get(name) != (entry.digest, entry.groups)]
            if only_missing:
                gone, new = [], [entry for name, entry in entries.items() if name not in known]
            if gone or new:
                # Once even without new tools, to remove those that are gone.
                for start in range(0, max(len(new), 1), _BATCH):
                    update_catalog(connection, catalog, gone if start == 0 else (), new[start : start + _BATCH])
                logger.info("the index has %s, %d of them new or changed", number_of(len(entries), "tool"), len(new))
            return _revision(connection, catalog)

    def _parts_of(self, view: View) -> Sequence[str]:
        """Return the parts of servers that make up a view."""
        if view not in self._parts:
            cuts = self._cuts_by_server()
            self._parts[view] = sorted({_part(exposed, cuts) for exposed in view.tools.values()})
        return self._parts[view]

    def _cuts_by_server(self) -> Mapping[str, Mapping[str, Rule]]:
        cuts: dict[str, dict[str, Rule]] = {}
        for toolset, server, rule in self._cuts():
            cuts.setdefault(server, {})[toolset] = rule
        return cuts


def _revision(connection: Connection, catalog: str) -> int:
    """Return the revision of a catalog that this transaction has locked."""
    ((revision,),) = connection.execute(_REVISION, [catalog]).fetchall()
    return revision


def _part(exposed: ExposedTool, cuts: Mapping[str, Mapping[str, Rule]]) -> str:
    """Return the part of its server that a tool belongs to: the tools that the same toolsets show."""
    server = exposed.upstream.name
    cut = cuts.get(server, {})
    showing = sorted(toolset for toolset, rule in cut.items() if rule.shows(exposed.original_name))
    return json.dumps([server, showing] if cut else [server])


def _entry(exposed: ExposedTool, part: str) -> ToolEntry:
    versions = [version for version in SUPPORTED_PROTOCOL_VERSIONS if wire_form(exposed.tool, version) is not None]
    is_for_all = len(versions) == len(SUPPORTED_PROTOCOL_VERSIONS)
    groups = [part] if is_for_all else sorted(f"{version} {part}" for version in versions)
    return ToolEntry(exposed.tool.model_dump(by_alias=True, mode="json", exclude_none=True), groups)


def _server_of(group: str) -> Any:
    return json.loads(group[group.index("[") :])[0]
