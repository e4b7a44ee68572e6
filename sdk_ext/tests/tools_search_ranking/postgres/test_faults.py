"""The database goes away, comes back, is killed, read-only, full or of another version, with servers that are so."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Event
from typing import Any, LiteralString

import anyio
import psycopg
import pytest
from anyio.abc import SocketAttribute, SocketStream
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from mcp_types import Tool
from psycopg import errors, sql
from tools_search_ranking.postgres import (
    PostgresIndex,
    PostgresPool,
    SchemaError,
    ToolEntry,
    UnanswerableError,
    UnavailableError,
    UnreachableError,
    import_catalog,
    importing,
    migrate,
    reindex_catalog,
    update_catalog,
)

from .clusters import Cluster
from .conftest import entries

PGBOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
_SECONDS = 60


def _tools(count: int, word: str) -> list[Tool]:
    return [
        Tool(name=f"{word}_{number}", description=f"Does {word}.", input_schema={"type": "object"})
        for number in range(count)
    ]


def _imported(address: str, tools: Sequence[Tool]) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        migrate(connection)
        import_catalog(connection, "catalog", entries(tools))


def _names(address: str, query: str) -> set[str]:
    with psycopg.connect(address, autocommit=True) as connection:
        return {hit.name for hit in PostgresIndex(connection, "catalog").search(query)}


def _reindexed(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as one, psycopg.connect(address, autocommit=True) as other:
        assert reindex_catalog(one, other, "catalog") == 50


def _updated(address: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        update_catalog(connection, "catalog", [], entries(_tools(1, "newer")))


@pytest.fixture(scope="module")
def shared(server: str) -> Generator[Cluster]:
    made = Cluster.create()
    try:
        yield made
    finally:
        made.remove()


@pytest.fixture
def cluster(shared: Cluster) -> Cluster:
    """A server that a test may end."""
    if not shared.is_running():
        _start_again(shared)
    _imported(shared.address(), _tools(30, "old"))
    return shared


async def _count(pool: PostgresPool) -> int:
    return (await pool.search("catalog", "old", groups=None, count=1)).total


@pytest.mark.anyio
async def test_searches_fail_while_the_database_is_gone_for_ten_seconds_and_succeed_soon_after_it_is_back(
    cluster: Cluster,
):
    with anyio.fail_after(_SECONDS):
        async with PostgresPool(cluster.address(), size=2) as pool:
            assert await _count(pool) == 30
            cluster.stop()
            gone_until = time.monotonic() + 10
            while time.monotonic() < gone_until:
                with anyio.fail_after(10), pytest.raises(UnavailableError):
                    await _count(pool)
            cluster.start()
            with anyio.fail_after(3):
                assert await _eventually(pool) == 30


@pytest.mark.anyio
async def test_a_search_fails_where_the_database_hangs_and_succeeds_once_it_goes_on(cluster: Cluster):
    with anyio.fail_after(_SECONDS):
        # One connection: a second one, which the pool may be opening, would not be stopped.
        async with PostgresPool(cluster.address(), size=1) as pool:
            assert await _count(pool) == 30
            backends = await pool.rows("select pid from pg_stat_activity where backend_type = 'client backend'")
            with (
                cluster.frozen([pid for (pid,) in backends]),
                anyio.fail_after(20),
                pytest.raises(UnavailableError, match="does not answer"),
            ):
                await _count(pool)
            assert await _eventually(pool) == 30


@contextmanager
def _lock_held(address: str) -> Generator[None]:
    """Let statements that take the lock 1 wait until the context ends."""
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("select pg_advisory_lock(1)")
        yield


@pytest.mark.anyio
async def test_a_search_that_gets_no_connection_because_all_are_busy_says_so(cluster: Cluster):
    with anyio.fail_after(_SECONDS):
        async with PostgresPool(cluster.address(), size=2) as pool, anyio.create_task_group() as tasks:
            with _lock_held(cluster.address()):
                for _ in range(2):
                    tasks.start_soon(pool.rows, "select from pg_advisory_xact_lock_shared(1)")
                with psycopg.connect(cluster.address(), autocommit=True) as connection:
                    waiting = "select count(*) from pg_stat_activity where wait_event = 'advisory'"
                    while connection.execute(waiting).fetchone() != (2,):
                        await anyio.lowlevel.checkpoint()
                with pytest.raises(UnavailableError, match=r"every connection to the database is busy \(2\)"):
                    await _count(pool)
            assert await _count(pool) == 30


@pytest.mark.anyio
async def test_a_search_says_why_the_database_accepts_no_more_connections(cluster: Cluster):
    with anyio.fail_after(_SECONDS), ExitStack() as others:
        with suppress(psycopg.OperationalError):
            while True:
                others.enter_context(psycopg.connect(cluster.address()))
        async with PostgresPool(cluster.address(), size=2) as pool:
            with pytest.raises(UnavailableError, match=r"refuses connections: (sorry|remaining)"):
                await _count(pool)
            others.close()
            assert await _eventually(pool) == 30


@pytest.mark.parametrize(
    ("severity", "reason"),
    [
        ("FATAL", "tut mir leid, schon zu viele Verbindungen"),
        ("ВАЖНО", "извините, уже слишком много клиентов"),
        ("致命错误", "对不起, 已经有太多的客户"),
        ("치명적오류", "최대 동시 접속자 수를 초과했습니다."),
    ],
)
@pytest.mark.anyio
async def test_a_search_says_why_a_database_that_answers_in_another_language_refuses_connections(
    severity: str, reason: str
):
    async def refuse(client: SocketStream) -> None:
        async with client:
            await client.receive()
            fields = b"".join(
                f"{kind}{text}\0".encode() for kind, text in zip("SCM", (severity, "53300", reason), strict=True)
            )
            await client.send(b"E" + struct.pack("!I", len(fields) + 5) + fields + b"\0")

    with anyio.fail_after(_SECONDS):
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, refuse)
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio
            address = f"postgresql://postgres@127.0.0.1:1,127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable"
            async with PostgresPool(address) as pool:
                with pytest.raises(UnavailableError, match=re.escape(f"refuses connections: {reason}")) as refused:
                    await _count(pool)
            assert not isinstance(refused.value, UnreachableError)
            tasks.cancel_scope.cancel()


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer (of Debian) is not installed")
@pytest.mark.anyio
async def test_a_search_says_why_a_pooler_accepts_no_more_connections(cluster: Cluster):
    assert PGBOUNCER is not None
    with (
        anyio.fail_after(_SECONDS),
        cluster.pooled(PGBOUNCER, max_client_conn=1) as address,
        psycopg.connect(address) as other,
    ):
        async with PostgresPool(address) as pool:
            with pytest.raises(UnavailableError, match="refuses connections: no more connections allowed"):
                await _count(pool)
            other.close()
            assert await _eventually(pool) == 30


@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer (of Debian) is not installed")
@pytest.mark.parametrize("mode", ["session", "transaction"])
@pytest.mark.anyio
async def test_searches_and_imports_go_through_a_pooler_and_leave_nothing_behind_in_its_connections(
    cluster: Cluster, mode: str
):
    totals: list[int] = []

    async def ask(pool: PostgresPool) -> None:
        totals.append(await _count(pool))

    with (
        anyio.fail_after(_SECONDS),
        cluster.pooled(str(PGBOUNCER), pool_mode=mode, default_pool_size=4 if mode == "session" else 2) as address,
    ):
        async with PostgresPool(address, size=4) as pool:
            for _ in range(5):
                async with anyio.create_task_group() as asking:
                    for _ in range(8):
                        asking.start_soon(ask, pool)
            settings = await pool.rows(
                "select current_setting('statement_timeout'), current_setting('transaction_read_only')"
            )
        assert totals == [30] * 40
        assert settings == [("5s", "on")]
        await anyio.to_thread.run_sync(_imported, address, _tools(20, "old"))
        async with PostgresPool(address, size=1) as pool:
            assert await _count(pool) == 20


@pytest.mark.rotating
@pytest.mark.skipif(PGBOUNCER is None, reason="pgbouncer (of Debian) is not installed")
@pytest.mark.anyio
async def test_programs_that_write_through_a_pooler_leave_no_prepared_statement_in_its_connections(
    cluster: Cluster, tmp_path: Path
):
    catalog, hosts = tmp_path / "tools.json", tmp_path / "mcp.json"
    definitions = [tool.model_dump(by_alias=True, exclude_none=True) for tool in _tools(2_000, "brewing")]
    catalog.write_text(json.dumps({"tools": definitions}))
    upstream = {"command": sys.executable, "args": ["-m", "tools_search_server", "--catalog", str(catalog)]}
    hosts.write_text(json.dumps({"mcpServers": {"teas": upstream}}))
    with (
        anyio.fail_after(_SECONDS),
        cluster.pooled(str(PGBOUNCER), pool_mode="transaction", default_pool_size=2) as address,
    ):
        for arguments in ("import", str(catalog), "--to", address), ("reindex", "--database", address):
            await anyio.run_process([sys.executable, "-m", "tools_search_server", *arguments])
        with _served("--config", str(hosts), "--index", address) as url:
            async with Client(url, extensions=[TOOLS_SEARCH]) as client:
                found = await search_tools(client, "brewing", limit=3)
        assert len(found.tools) == 3
        async with PostgresPool(address, size=4) as pool, anyio.create_task_group() as asking:
            for _ in range(8):
                asking.start_soon(_has_nothing_prepared, pool)


async def _has_nothing_prepared(pool: PostgresPool) -> None:
    assert await pool.rows("select count(*)::int from pg_prepared_statements where pg_sleep(0.1) is not null") == [(0,)]


@pytest.mark.anyio
async def test_a_search_that_meets_an_import_finds_all_of_the_old_tools_or_all_of_the_new_ones(cluster: Cluster):
    waiting = "select count(*)::int from pg_stat_activity where wait_event_type = 'Lock'"
    totals: list[int] = []

    async def ask(pool: PostgresPool) -> None:
        totals.append(await _count(pool))

    with anyio.fail_after(_SECONDS), psycopg.connect(cluster.address()) as connection:
        async with PostgresPool(cluster.address(), size=4) as pool:
            connection.execute("select")  # the import and its last step end together, at the commit below
            import_catalog(connection, "catalog", entries(_tools(50, "old")))
            async with anyio.create_task_group() as tasks:
                for _ in range(3):
                    tasks.start_soon(ask, pool)
                while await pool.rows(waiting) != [(3,)]:
                    pass
                connection.commit()
    assert totals == [50, 50, 50]


@pytest.mark.parametrize("change", [_reindexed, _updated])
def test_what_changes_a_catalog_while_it_is_imported_changes_the_new_tools(
    cluster: Cluster, change: Callable[[str], None]
):
    with ThreadPoolExecutor() as threads, psycopg.connect(cluster.address(), autocommit=True) as connection:
        changes: list[Future[None]] = []
        import_catalog(
            connection,
            "catalog",
            entries(_tools(50, "new")),
            on_progress=lambda _: changes.append(threads.submit(change, cluster.address())),
        )
        [changed] = changes
        changed.result(_SECONDS)
    assert len(_names(cluster.address(), "new")) == 50


@pytest.mark.anyio
async def test_a_restart_between_two_searches_is_not_noticed(cluster: Cluster):
    with anyio.fail_after(_SECONDS):
        async with PostgresPool(cluster.address(), size=1) as pool:
            assert await _count(pool) == 30
            cluster.restart()
            assert await _count(pool) == 30


@pytest.mark.anyio
async def test_a_read_only_database_is_searched_and_refuses_an_import(cluster: Cluster):
    address = cluster.address() + "&options=-c%20default_transaction_read_only%3Don"
    with anyio.fail_after(_SECONDS):
        async with PostgresPool(address) as pool:
            assert await _count(pool) == 30
    with pytest.raises(errors.ReadOnlySqlTransaction):
        _imported(address, _tools(3, "new"))
    assert len(_names(cluster.address(), "old")) == 30


@pytest.mark.anyio
async def test_searches_go_on_at_a_replica_when_the_primary_is_killed_and_imports_once_it_is_promoted(
    cluster: Cluster,
):
    replica = cluster.replica()
    try:
        with anyio.fail_after(_SECONDS):
            await _replayed(replica)
            failed: list[Exception] = []
            answered: list[int] = []
            busy, killed = anyio.Event(), anyio.Event()

            async def ask(pool: PostgresPool) -> None:
                after = 0
                while after < 20:
                    try:
                        answered.append(await _count(pool))
                        if len(answered) == 20:
                            busy.set()
                        after += killed.is_set()
                    except UnavailableError as error:
                        failed.append(error)

            async with PostgresPool(cluster.address(replica), size=4) as pool, anyio.create_task_group() as tasks:
                for _ in range(4):
                    tasks.start_soon(ask, pool)
                await busy.wait()
                cluster.kill()
                killed.set()
            assert set(answered) == {30}
            replica.promote()
            _imported(replica.address(), _tools(5, "new"))
            assert len(_names(replica.address(), "new")) == 5
    finally:
        replica.remove()


@pytest.mark.rotating
@pytest.mark.anyio
async def test_a_cursor_holds_at_every_replica_of_the_program_after_the_primary_is_killed(cluster: Cluster):
    replica = cluster.replica()
    try:
        with anyio.fail_after(_SECONDS), ExitStack() as programs:
            await _replayed(replica)
            addresses = cluster.address(replica), replica.address()
            one, other = [programs.enter_context(_serving(address)) for address in addresses]
            async with Client(one, extensions=[TOOLS_SEARCH]) as client:
                pages = [await search_tools(client, "old", limit=10)]
                cluster.kill()
                pages.append(await search_tools(client, "old", limit=10, cursor=pages[0].next_cursor))
            async with Client(other, extensions=[TOOLS_SEARCH]) as client:
                pages.append(await search_tools(client, "old", limit=10, cursor=pages[1].next_cursor))
                assert {tool.name for page in pages for tool in page.tools} == {tool.name for tool in _tools(30, "old")}
                assert pages[2].next_cursor is None
                replica.promote()
                _imported(replica.address(), _tools(31, "old"))
                with pytest.raises(MCPError, match="search again without a cursor"):
                    await search_tools(client, "old", limit=10, cursor=pages[1].next_cursor)
    finally:
        replica.remove()


@contextmanager
def _serving(address: str) -> Generator[str]:
    """Start a catalog server over a database and yield its URL."""
    with _served("--catalog", address, "--catalog-name", "catalog") as url:
        yield url


@contextmanager
def _served(*arguments: str) -> Generator[str]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tools_search_server", *arguments, "--http", "127.0.0.1:0"],
        env=os.environ | {"TOOLS_SEARCH_CURSOR_KEY": "k" * 32},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate(timeout=20)


def test_an_import_whose_connection_is_cut_leaves_what_was_there(cluster: Cluster):
    address = cluster.address()

    def cut(_: int) -> None:
        with psycopg.connect(address, autocommit=True) as other:
            other.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where pid <> pg_backend_pid() and backend_type = 'client backend'"
            )

    before = _relations(address)
    with psycopg.connect(address, autocommit=True) as connection, pytest.raises(psycopg.OperationalError):
        import_catalog(connection, "catalog", entries(_tools(9_000, "new")), on_progress=cut)
    assert _relations(address) == before
    assert (len(_names(address, "old")), _names(address, "new")) == (30, set())


@pytest.mark.parametrize(("limit", "applies"), [("0", "5s"), ("1min", "5s"), ("5001", "5s"), ("300ms", "300ms")])
@pytest.mark.anyio
async def test_a_search_keeps_a_time_limit_of_its_role_that_is_shorter_than_its_own(
    cluster: Cluster, limit: str, applies: str
):
    statement = sql.SQL("alter role postgres set statement_timeout = {}").format(limit)
    with anyio.fail_after(_SECONDS), psycopg.connect(cluster.address(), autocommit=True) as owner:
        try:
            owner.execute(statement)
            async with PostgresPool(cluster.address(), size=1) as pool:
                assert await pool.rows("select current_setting('statement_timeout')") == [(applies,)]
                if applies == limit:
                    with pytest.raises(UnavailableError, match="took too long"):
                        await pool.rows("select pg_sleep(3)")
                assert await _count(pool) == 30
        finally:
            owner.execute("alter role postgres reset all")


def test_time_limits_of_a_role_do_not_end_what_writes_a_whole_catalog(cluster: Cluster):
    limits = ("statement_timeout", "idle_in_transaction_session_timeout")

    def slow() -> Iterator[ToolEntry]:
        for tool in entries(_tools(9_000, "new")):
            time.sleep(0.3 if tool.definition["name"] == "new_8000" else 0)
            yield tool

    with psycopg.connect(cluster.address(), autocommit=True) as owner:
        try:
            for limit in limits:
                owner.execute(sql.SQL("alter role postgres set {} = '100ms'").format(sql.Identifier(limit)))
            with (
                psycopg.connect(cluster.address(), autocommit=True) as connection,
                psycopg.connect(cluster.address(), autocommit=True) as reading,
            ):
                assert import_catalog(connection, "limited", slow()) == 9_000
                assert reindex_catalog(connection, reading, "limited") == 9_000
                update_catalog(connection, "limited", [], entries(_tools(2_000, "newer")))
                for limit in limits:
                    assert connection.execute("select current_setting(%s)", [limit]).fetchone() == ("100ms",)
        finally:
            owner.execute("alter role postgres reset all")


def test_an_update_whose_program_is_frozen_gives_way_to_the_next_one(cluster: Cluster, monkeypatch: pytest.MonkeyPatch):
    holds, continues = Event(), Event()
    known_terms = importing._known_terms  # pyright: ignore[reportPrivateUsage]

    def frozen(*arguments: Any) -> dict[str, int]:
        if not holds.is_set():
            holds.set()
            assert continues.wait(_SECONDS)
        return known_terms(*arguments)

    monkeypatch.setattr(importing, "_known_terms", frozen)
    monkeypatch.setattr(importing, "NOT_FROZEN", "set local idle_in_transaction_session_timeout = '200ms'")
    with ThreadPoolExecutor() as executor:
        try:
            first = executor.submit(_updated, cluster.address())
            assert holds.wait(_SECONDS)
            executor.submit(_updated, cluster.address()).result(_SECONDS)
            assert _names(cluster.address(), "newer") == {"newer_0"}
        finally:
            continues.set()
        # The second is what psycopg raises if it meets the end of the connection before the message.
        with pytest.raises((errors.IdleInTransactionSessionTimeout, psycopg.OperationalError)):
            first.result(_SECONDS)


def test_an_import_whose_source_fails_while_the_database_writes_leaves_what_was_there(cluster: Cluster):
    def failing() -> Iterator[ToolEntry]:
        yield from entries(_tools(9_000, "new"))
        raise KeyboardInterrupt

    with psycopg.connect(cluster.address(), autocommit=True) as connection:
        with pytest.raises(KeyboardInterrupt):
            import_catalog(connection, "catalog", failing())
        assert (len(_names(cluster.address(), "old")), _names(cluster.address(), "new")) == (30, set())
        assert import_catalog(connection, "catalog", entries(_tools(40, "new"))) == 40


def test_a_server_that_is_killed_during_an_import_has_all_of_the_old_tools_when_it_is_started_again(
    cluster: Cluster,
):
    with psycopg.connect(cluster.address(), autocommit=True) as connection, pytest.raises(psycopg.OperationalError):
        import_catalog(connection, "catalog", entries(_tools(9_000, "new")), on_progress=lambda _: cluster.kill())
    _start_again(cluster)
    assert (len(_names(cluster.address(), "old")), _names(cluster.address(), "new")) == (30, set())


def test_a_full_disk_fails_an_import_and_leaves_what_was_there(cluster: Cluster):
    folder = Path(tempfile.mkdtemp(prefix="tools-search-full-"))
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=24m,mode=777", "tmpfs", str(folder)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        folder.rmdir()
        pytest.skip("a full disk takes a file system of its own, which only root can mount")
    shutil.chown(folder, "pgserver", "pgserver")
    try:
        with psycopg.connect(cluster.address(), autocommit=True) as connection:
            connection.execute(sql.SQL("create tablespace small location {}").format(str(folder)))
            connection.execute("create database small tablespace small")
        address = cluster.address().replace("/postgres?", "/small?")
        _imported(address, _tools(20, "old"))

        def endless() -> Iterator[ToolEntry]:
            for number in range(1_000_000):
                description = f"Does new things with {number} and more words so that it takes room."
                yield ToolEntry(
                    {"name": f"new_{number}", "description": description, "inputSchema": {"type": "object"}}
                )

        with psycopg.connect(address, autocommit=True) as connection, pytest.raises(errors.DiskFull):
            import_catalog(connection, "catalog", endless())
        assert (len(_names(address, "old")), _names(address, "new")) == (20, set())
        with psycopg.connect(cluster.address(), autocommit=True) as connection:
            connection.execute("drop database small")
            connection.execute("drop tablespace small")
    finally:
        subprocess.run(["umount", str(folder)], check=True)
        folder.rmdir()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("insert into tools_search.migration values (99, 'of a later version')", "update the program"),
        ("delete from tools_search.migration where number > 1", "run `reindex`"),
        ("update tools_search.migration set name = '0002_search.sql' where number = 2", "drop schema"),
        ("drop schema tools_search cascade", "run `import`"),
        ("alter table tools_search.catalog rename column generation to number", "run `import` or `reindex`"),
    ],
)
@pytest.mark.anyio
async def test_a_schema_of_another_version_is_said_with_what_to_do(address: str, change: Any, says: str):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop schema if exists tools_search cascade")
        migrate(connection)
        connection.execute(change)
    with anyio.fail_after(_SECONDS):
        async with PostgresPool(address) as pool:
            with pytest.raises(SchemaError, match=says):
                await _count(pool)


@pytest.mark.parametrize(
    ("statement", "state"), [("select 1 / 0", "22012"), ("select repeat('x', 1200000000)", "54000")]
)
@pytest.mark.anyio
async def test_what_fails_because_of_its_values_is_not_said_to_be_worth_another_try(
    address: str, statement: LiteralString, state: str
):
    with anyio.fail_after(_SECONDS):
        async with PostgresPool(address) as pool:
            with pytest.raises(UnanswerableError, match=f"SQLSTATE {state}, and would again"):
                await pool.rows(statement)


async def _eventually(pool: PostgresPool) -> int:
    while True:
        try:
            return await _count(pool)
        except UnavailableError:
            await anyio.sleep(0.1)


async def _replayed(replica: Cluster) -> None:
    while True:
        try:
            if len(_names(replica.address(), "old")) == 30:
                return
        except (psycopg.Error, SchemaError, LookupError, UnavailableError):
            pass
        await anyio.sleep(0.05)


def _start_again(cluster: Cluster) -> None:
    """Start a server that was killed, once its other processes have noticed and ended."""
    deadline = time.monotonic() + _SECONDS
    while time.monotonic() < deadline:
        with suppress(AssertionError):
            cluster.start()
            return
    raise TimeoutError


def _relations(address: str) -> int:
    with psycopg.connect(address, autocommit=True) as connection:
        row = connection.execute("select count(*) from pg_class").fetchone()
    return row[0] if row else 0
