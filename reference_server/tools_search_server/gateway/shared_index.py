"""An index of a gateway's tools in a database, shared by all its replicas.

Each replica lists its servers itself, and writes new and changed tools that no other replica has written. A search
finds only tools in the replica's own view: the parts of servers that it shows to the caller. Each part is a group in
the database. Tools of a server that is down at one replica stay in the index, because it may be up at others, but that
replica omits them.

A replica remembers what the index contains, and reads what others have changed since. Only if something is still
missing does it write, in a task of its own: searches wait for it, but not long, and then do without it.

With an embedder, replicas share the work of making vectors, after the tools are written. A search ranks by words alone
until all tools that its caller may see have vectors.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from weakref import WeakKeyDictionary

import anyio
import anyio.to_thread
import psycopg
from anyio.abc import TaskGroup
from mcp import MCPError
from mcp_ext_tools_search.ranking import Hit, distinct_hits
from mcp_ext_tools_search.ranking.floor import Floor
from mcp_ext_tools_search.server.errors import ServerSetupError
from mcp_ext_tools_search.types import BusyData
from mcp_types import INTERNAL_ERROR, Tool
from psycopg.errors import LockNotAvailable
from tools_search_hosts.counts import number_of
from tools_search_ranking.postgres import (
    PostgresPool,
    SchemaError,
    UnanswerableError,
    UnavailableError,
    UnknownCatalogError,
    UnreachableError,
    embed_catalog,
    import_catalog,
    refusal,
    update_catalog,
)
from tools_search_ranking.postgres.schema import OPTIONS
from tools_search_ranking.semantic import Embedder, EmbedderError

from tools_search_server.gateway.gateway import ExposedTool, Gateway
from tools_search_server.gateway.index_contents import (
    CHANGES,
    Contents,
    IndexedTool,
    Partition,
    Wanted,
    groups_of_caller,
    server_of,
)
from tools_search_server.gateway.views import View

logger = logging.getLogger(__name__)

_RETRY_AFTER_MS: Final = 1_000
"""Minimum time that a caller is asked to wait."""

_REST_SECONDS: Final = 5
"""Pause after a database is unreachable or refuses writes. Until it ends, searches fail at once if the database is
unreachable, or use the index as it is if it only refuses writes."""

_REST_SHARE: Final = 10
"""Minimum pause after a refused write, as a multiple of the time that the write took. A write that fills a disk takes
long, and what it has written is not removed at once."""

_PATIENCE_SECONDS: Final = 1
"""How long a search waits until the index has new tools. Then it searches what the index has."""

_ANSWER_SECONDS: Final = 8
"""Time limit for a search, and how long it waits for an index that has nothing yet."""

_FIRST_PAUSE_SECONDS: Final = 0.05
"""How long to wait for another replica that is writing, before looking what it has written; then twice as long."""

_LONGEST_PAUSE_SECONDS: Final = 2
"""After a longer pause, the other replica takes too long."""

_TRUSTED_SECONDS: Final = 60
"""When to read the contents of the index as a whole again. A database that was restored from a backup, or lost its last
changes with its primary, may have other contents than its revisions suggest."""

_EMBEDDING_REST_SECONDS: Final = 60
"""Pause after the database has failed while vectors were made."""

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
"""Connection timeouts for writes, which must not hang if the database is unreachable."""

_WAITING: Final = (
    "set local lock_timeout = '5s'; set local idle_in_transaction_session_timeout = '30s'; "
    "set local tcp_keepalives_idle = 5; set local tcp_keepalives_interval = 2; set local tcp_keepalives_count = 3"
)
"""Settings of a transaction that writes. Without them, the database would hold the lock for hours after the replica's
machine is gone, or while it is paused."""

_REVISION: Final = "select revision from tools_search.catalog where name = %s"


class _RestingError(Exception):
    """The database failed a moment ago and is not tried again for a while."""


class SharedIndex:
    """The tools of a gateway in a database that its replicas share.

    The role in `address` must own the schema. All replicas use the same name of the catalog.
    """

    def __init__(self, gateway: Gateway, address: str, catalog: str, embedder: Embedder | None = None) -> None:
        self._gateway, self._address, self._catalog, self._embedder = gateway, address, catalog, embedder
        self._pool = PostgresPool(address, embedder=embedder)
        self._tasks: TaskGroup
        self._parts = WeakKeyDictionary[View, Sequence[str]]()
        self._floors = WeakKeyDictionary[View, tuple[Sequence[Tool], Floor]]()
        """The matching floor of the tools that the index lacks, by view, while it lacks any."""
        self._update: asyncio.Future[bool] | None = None
        """The update for which searches wait. Its result is whether the index has all tools that the gateway had when
        it began."""
        self._contents = Contents()
        """What the index contained when it was last read."""
        self._read_whole_at = -math.inf
        self._indexed: Mapping[str, IndexedTool] = {}
        """The gateway's tools at the last update."""
        self._written: tuple[str, Mapping[str, ExposedTool]] | None = None
        """The catalog and the gateway's tools when the index last had all of them."""
        self._has_own_definitions = True
        """Whether it had them as this gateway lists them, rather than as another one does."""
        self._answered = -math.inf
        """Time of the last answered search."""
        self._rests_until = -math.inf
        self._writes_rest_until = -math.inf
        """When to write again after the database has refused a write."""
        self._written_to = anyio.Event()
        """Set when the index may have tools without vectors."""

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Keep connections to the database open, and write to the index, until the context ends."""
        async with self._pool, anyio.create_task_group() as self._tasks:
            if self._embedder is not None:
                self._tasks.start_soon(self._embed, self._embedder)
            yield
            self._tasks.cancel_scope.cancel()

    async def rank(self, view: View, query: str, protocol_version: str) -> tuple[Sequence[Hit], bool]:
        """Return every tool of `view` that matches `query`, best first, and whether the index is up to date.

        If it lacks new tools, because the database refuses writes or another replica takes long to write, or has other
        definitions from a replica whose servers differ, these are found if the matching floor requires it.

        Raises:
            MCPError: -32603, the database is not available, or was not a moment ago.
            ServerSetupError: Trying again does not help.
        """
        visible = view.pages.wire(protocol_version)
        began = anyio.current_time()
        try:
            if began < self._rests_until:
                raise _RestingError
            with anyio.fail_after(_ANSWER_SECONDS):
                hits, is_current = await self._search(view, query, protocol_version)
        except (UnavailableError, UnknownCatalogError, _RestingError, TimeoutError) as error:
            if isinstance(error, UnknownCatalogError):
                self._written = None  # it was removed: the next search writes it again
            wait = self._milliseconds_to_wait(error, began)
            text = f"The tools cannot be searched at the moment; search again in {wait} ms"
            raise MCPError(INTERNAL_ERROR, text, data=BusyData(retry_after_ms=wait).to_wire()) from None
        except (SchemaError, UnanswerableError) as error:
            raise ServerSetupError(str(error)) from None
        self._answered = anyio.current_time()
        if is_current:
            self._floors.clear()
        else:
            hits = await anyio.to_thread.run_sync(self._with_missing, view, query, hits)
        return distinct_hits(hits, visible.keys()), is_current

    async def _search(self, view: View, query: str, protocol_version: str) -> tuple[Sequence[Hit], bool]:
        is_current = await self._up_to_date()
        partition = Partition(self._gateway)
        catalog = partition.name_of(self._catalog)
        groups = groups_of_caller(self._parts_of(view, partition), protocol_version)
        found = await self._pool.search(catalog, query, groups=groups, count=_MOST_HITS)
        if (revision := found.revision) is None:  # it found nothing
            rows = await self._pool.rows(_REVISION, [catalog])
            revision = rows[0][0] if rows else None
        if revision != self._contents.revision:
            # Another replica has changed the index, which may lack tools of this one.
            is_current = await self._up_to_date(was_changed=True)
            if revision != self._contents.revision:
                found = await self._pool.search(catalog, query, groups=groups, count=_MOST_HITS)
        return found.hits, is_current

    def _with_missing(self, view: View, query: str, hits: Sequence[Hit]) -> Sequence[Hit]:
        """Return `hits` with the matching floor applied to tools that the index lacks, or has as they were earlier."""
        known, stored = self._indexed, self._contents.tools
        lacking = [
            exposed.tool
            for name, exposed in view.tools.items()
            if (own := known.get(name)) is None or own.exposed is not exposed or stored.get(name) != own.stored
        ]
        kept = self._floors.get(view)
        if kept is None or kept[0] != lacking:  # mostly the same objects, whose comparison costs nothing
            kept = self._floors[view] = lacking, Floor(lacking)
        return kept[1].under(query, hits)

    def _milliseconds_to_wait(self, error: Exception, began: float) -> int:
        """Return when to retry a failed search that began at `began`. If the database is gone, pause all searches."""
        if isinstance(error, _RestingError):
            return max(math.ceil(1000 * (self._rests_until - anyio.current_time())), _RETRY_AFTER_MS)
        slow = f"it takes longer than {_ANSWER_SECONDS} s: see what else the database is doing"
        reason = slow if isinstance(error, TimeoutError) else error
        logger.warning("a search failed in the --index database: %s", reason)
        is_gone = isinstance(error, UnreachableError | TimeoutError)
        if not is_gone or self._answered >= began:  # the database may only be busy, or slow with this query
            return _RETRY_AFTER_MS
        self._rests_until = anyio.current_time() + _REST_SECONDS
        return 1000 * _REST_SECONDS

    async def _up_to_date(self, *, was_changed: bool = False) -> bool:
        """Wait, not long, until the index has the gateway's tools. Return whether it does.

        With `was_changed`, another replica has changed it.

        Raises:
            UnavailableError: The database is not available.
        """
        now = Partition(self._gateway).name_of(self._catalog), self._gateway.tools
        if not was_changed and self._has(now):
            return self._has_own_definitions
        is_empty = self._contents.generation is None
        with anyio.move_on_after(_ANSWER_SECONDS if is_empty else _PATIENCE_SECONDS):
            # Shielded: a search that gives up must not end the update, for which others wait.
            if self._update is not None:  # which may have begun before the change
                await asyncio.shield(self._update)
            if was_changed or not self._has(now):
                return await asyncio.shield(self._update or self._begin_update())
            return self._has_own_definitions
        return False

    def _has(self, tools: tuple[str, Mapping[str, ExposedTool]]) -> bool:
        """Return whether the index had all these tools when it was last read."""
        return self._written is not None and self._written[0] == tools[0] and self._written[1] is tools[1]

    def _begin_update(self) -> asyncio.Future[bool]:
        update = self._update = asyncio.get_running_loop().create_future()
        self._tasks.start_soon(self._run, update)
        return update

    async def _run(self, update: asyncio.Future[bool]) -> None:
        try:
            if anyio.current_time() < self._rests_until:  # it failed while searches waited for the update before
                raise _RestingError
            update.set_result(await self._write_missing())
            self._written_to.set()
        except Exception as error:  # of every search that waits for it
            update.set_exception(error)
            update.exception()  # all of them may have given up, which is no reason to report it on standard error
        finally:
            self._update = None
            if not update.done():  # the gateway stops
                update.set_result(False)

    async def _embed(self, embedder: Embedder) -> None:
        """Make the vectors that tools lack after each change of the index. Returns when the embedder fails."""
        while True:
            await self._written_to.wait()
            self._written_to = anyio.Event()
            try:
                await anyio.to_thread.run_sync(self._embed_missing, embedder, abandon_on_cancel=True)
            except EmbedderError as error:
                logger.error("ranking tools by words alone: %s", error)
                return
            except (psycopg.Error, SchemaError, LookupError) as error:
                reason = (refusal(error) if isinstance(error, psycopg.Error) else str(error)) or "it cannot be reached"
                logger.warning("the index lacks vectors of new tools: %s", reason)
                await anyio.sleep(_EMBEDDING_REST_SECONDS)
                self._written_to.set()

    def _embed_missing(self, embedder: Embedder) -> None:
        with psycopg.connect(self._address, **_WRITING, autocommit=True) as connection:
            embed_catalog(connection, self._contents.catalog, embedder)

    async def _write_missing(self) -> bool:
        """Write the tools that the index lacks. Return whether it has all of them, as the gateway lists them."""
        gateway, partition = self._gateway, Partition(self._gateway)
        now = partition.name_of(self._catalog), gateway.tools
        servers = frozenset(upstream.name for upstream in gateway.upstreams)
        down = servers - {upstream.name for upstream in gateway.upstreams if upstream.state.is_usable}
        wanted = Wanted(*now, partition, servers, down, only_missing=self._has(now))
        if self._contents.catalog != wanted.catalog:
            self._indexed = {}
        pause = _FIRST_PAUSE_SECONDS
        while True:
            self._contents = await self._read(wanted.catalog)
            gone, new = await anyio.to_thread.run_sync(self._compare, wanted)
            if not (gone or new):
                break
            if anyio.current_time() < self._writes_rest_until:
                return False
            began = anyio.current_time()
            try:
                self._contents = await anyio.to_thread.run_sync(self._write, wanted)
                break
            except LockNotAvailable:
                # Probably writing the same. If all replicas waited for the lock, each would look after the one before.
                if pause > _LONGEST_PAUSE_SECONDS:
                    return self._refused(
                        "another program is writing this catalog; if that does not end, see pg_stat_activity", began
                    )
                await anyio.sleep(pause)
                pause *= 2
            except psycopg.Error as error:
                if (reason := refusal(error)) is None:
                    text = "the connection broke while the index was written, or cannot be made"
                    raise UnreachableError(f"{text}: check that the database runs at this address") from None
                return self._refused(reason, began)
        self._written = now
        stored = self._contents.tools
        self._has_own_definitions = all(stored.get(name) == own.stored for name, own in self._indexed.items())
        return self._has_own_definitions

    def _refused(self, reason: str, began: float) -> bool:
        logger.warning("the index lacks new tools, which cannot be written: %s", reason)
        now = anyio.current_time()
        self._writes_rest_until = now + max(_REST_SECONDS, _REST_SHARE * (now - began))
        return False

    async def _read(self, catalog: str) -> Contents:
        """Return what the index contains now."""
        now, empty = anyio.current_time(), Contents(catalog)
        is_known = self._contents.catalog == catalog and now < self._read_whole_at + _TRUSTED_SECONDS
        if is_known and (contents := self._contents.after(await self._pool.rows(CHANGES, self._contents.values))):
            return contents
        self._read_whole_at = now
        return empty.after(await self._pool.rows(CHANGES, empty.values)) or empty

    def _compare(self, wanted: Wanted) -> tuple[Sequence[str], Sequence[str]]:
        """Return the tools to remove from the index, and those to add."""
        known, partition = self._indexed, wanted.partition
        self._indexed = {
            name: own if (own := known.get(name)) and own.exposed is tool else IndexedTool.of(tool, partition)
            for name, tool in wanted.tools.items()
        }
        return wanted.missing(self._contents, self._indexed)

    def _write(self, wanted: Wanted) -> Contents:
        """Write all changes that no other replica has written meanwhile, and return what the index then contains."""
        catalog, empty = wanted.catalog, Contents(wanted.catalog)

        def read(known: Contents) -> Contents:
            for before in known, empty:
                if contents := before.after(connection.execute(CHANGES, before.values).fetchall()):
                    return contents
            return empty

        with psycopg.connect(self._address, **_WRITING) as connection:
            connection.execute(_WAITING)
            if self._contents.revision is None:
                connection.execute(
                    "insert into tools_search.catalog (name) values (%s) on conflict do nothing", [catalog]
                )
            # Replicas write one at a time, so that the next one sees what this one has written.
            connection.execute("select from tools_search.catalog where name = %s for update nowait", [catalog])
            contents = read(self._contents)
            if contents.generation is None:
                import_catalog(connection, catalog, (tool.entry for tool in self._indexed.values()))
                return read(empty)
            gone, new = wanted.missing(contents, self._indexed)
            if gone or new:
                # Once even without new tools, to remove those that are gone.
                for start in range(0, max(len(new), 1), _BATCH):
                    added = [self._indexed[name].entry for name in new[start : start + _BATCH]]
                    update_catalog(connection, catalog, gone if start == 0 else (), added)
                total = number_of(len(wanted.tools), "tool")
                logger.info("the index has %s, %d of them new or changed", total, len(new))
                removed = {server_of(group) for name in gone for group in contents.tools[name][1]}
                if foreign := removed - wanted.servers:
                    text = "the index had tools of servers that this gateway does not have: %s. %s"
                    advice = "Gateways with different configurations need different values of --catalog-name."
                    logger.warning(text, ", ".join(map(repr, sorted(foreign))), advice)
            return read(contents)

    def _parts_of(self, view: View, partition: Partition) -> Sequence[str]:
        """Return the parts of servers that make up a view."""
        if view not in self._parts:
            self._parts[view] = sorted({partition.part_of(exposed) for exposed in view.tools.values()})
        return self._parts[view]
