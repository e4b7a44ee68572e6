"""Replicas behind the nginx of Debian, configured as the example says: any of them answers all that it can."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from mcp_ext_tools_search.client import TOOLS_SEARCH, search_tools
from mcp_types import EmptyResult, SubscribeRequest, SubscribeRequestParams
from tools_search_server.catalog.catalog_file import bundled_catalog

EXAMPLE = Path(__file__).parents[3] / "examples/tools-search-nginx.conf"
NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(NGINX is None, reason="nginx (of Debian: nginx-light) is not installed"),
]

SECONDS = 90
KEY = {"TOOLS_SEARCH_CURSOR_KEY": "k" * 32}

AROUND = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
    log_format answered "$http_authorization $http_mcp_method $status $upstream_addr";
    access_log {folder}/access.log answered;
    client_body_temp_path {folder};
    proxy_temp_path {folder};
    fastcgi_temp_path {folder};
    scgi_temp_path {folder};
    uwsgi_temp_path {folder};
    include {folder}/example.conf;
}}
"""


class Nginx:
    """The real nginx in front of replicas, with the example as its configuration."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/mcp"

    def start(self, replicas: Sequence[str], *, remembers_clients: bool = True) -> None:
        text = EXAMPLE.read_text()
        for number, replica in enumerate(replicas, start=1):
            text = text.replace(f"127.0.0.1:800{number}", replica)
        text = text.replace("listen 127.0.0.1:8000", f"listen 127.0.0.1:{self._port}")
        if not remembers_clients:
            text = re.sub(r"^ *hash .*;\n", "", text, flags=re.MULTILINE)
        (self._folder / "example.conf").write_text(text)
        (self._folder / "nginx.conf").write_text(AROUND.format(folder=self._folder))
        assert NGINX is not None
        self._process = subprocess.Popen(
            [NGINX, "-e", str(self._folder / "error.log"), "-c", str(self._folder / "nginx.conf")]
        )
        while True:
            assert self._process.poll() is None, (self._folder / "error.log").read_text()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._port)) == 0:
                    return

    def answered(self, pattern: str) -> list[str]:
        """Return which replica answered each request whose line of the log fits a pattern."""
        lines = (self._folder / "access.log").read_text().splitlines()
        return [line.split()[-1] for line in lines if re.search(pattern, line)]

    def end(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)


@pytest.fixture
def nginx(tmp_path: Path, unused_tcp_port: int) -> Generator[Nginx]:
    server = Nginx(tmp_path, unused_tcp_port)
    yield server
    server.end()


@pytest.fixture
def replicas(servers: Any, configuration: Any, raw: Any, tmp_path: Path) -> Callable[..., list[str]]:
    """Start three gateways that share the key of cursors, and return their addresses."""

    def start(*arguments: str) -> list[str]:
        as_listed: Any = {"by_alias": True, "mode": "json", "exclude_none": True, "exclude": {"output_schema"}}
        tools = [tool.model_dump(**as_listed) for tool in bundled_catalog().tools]
        (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
        file = configuration(catalog=raw("stated", tmp_path))
        options = ("--config", str(file), "--page-size", "100", "--default-limit", "20", *arguments)
        argv = ["-m", "tools_search_server", "--http", "127.0.0.1:0", *options]
        started = [servers.start(*argv, env=KEY) for _ in range(3)]
        return [json.loads(process.stdout.readline())["url"].split("/")[2] for process in started]

    return start


@asynccontextmanager
async def connected(url: str, mode: str, shown: str = "nobody") -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": shown}, trust_env=False) as http,
        Client(
            streamable_http_client(url, http_client=http), mode=mode, extensions=[TOOLS_SEARCH], cache=None
        ) as client,
    ):
        yield client


async def listing(client: Client) -> list[str]:
    """Read the whole list, then its pages again in the opposite order; return the names."""
    pages: dict[str | None, list[str]] = {}
    cursor: str | None = None
    while cursor not in pages:
        page = await client.list_tools(cursor=cursor)
        pages[cursor] = [tool.name for tool in page.tools]
        cursor = page.next_cursor
    for cursor in reversed(pages):
        page = await client.list_tools(cursor=cursor)
        assert [tool.name for tool in page.tools] == pages[cursor]
    return [name for page in pages.values() for name in page]


async def searching(client: Client, query: str) -> list[str]:
    """Read all pages of a search, then again in the opposite order; return the names."""
    pages: dict[str | None, list[str]] = {}
    cursor: str | None = None
    while cursor not in pages:
        page = await search_tools(client, query, cursor=cursor)
        pages[cursor] = [tool.name for tool in page.tools]
        cursor = page.next_cursor
    for cursor in reversed(pages):
        page = await search_tools(client, query, cursor=cursor)
        assert [tool.name for tool in page.tools] == pages[cursor]
    assert len(pages) > 3
    return [name for page in pages.values() for name in page]


@pytest.mark.rotating
async def test_any_replica_answers_any_page_and_one_that_dies_costs_no_answer(
    nginx: Nginx, replicas: Callable[..., list[str]], servers: Any
) -> None:
    with anyio.fail_after(SECONDS):
        addresses = await anyio.to_thread.run_sync(replicas)
        await anyio.to_thread.run_sync(nginx.start, addresses)
        async with connected(nginx.url, "auto") as client, connected(f"http://{addresses[0]}/mcp", "auto") as direct:
            listed, found = await listing(client), await searching(client, "send a message")
            assert listed == await listing(direct)
            assert found == await searching(direct, "send a message")
            assert set(found) <= set(listed)
            assert set(nginx.answered("tools/list 200")) == set(nginx.answered("tools/search 200")) == set(addresses)
            for token in ("alice", "bob"):
                async with connected(nginx.url, "legacy", token) as legacy:
                    assert await listing(legacy) == listed
                    assert await searching(legacy, "send a message") == found
                    assert (await legacy.call_tool(found[0], {})).content
                assert len(set(nginx.answered(f"^{token} "))) == 1
            servers.running[1].kill()
            servers.running[1].wait()
            assert await listing(client) == listed
            assert await searching(client, "send a message") == found
        async with connected(nginx.url, "legacy") as legacy:
            assert await listing(legacy) == listed


@pytest.mark.rotating
async def test_without_sessions_any_replica_answers_clients_of_both_eras(
    nginx: Nginx, replicas: Callable[..., list[str]]
) -> None:
    with anyio.fail_after(SECONDS):
        addresses = await anyio.to_thread.run_sync(replicas, "--stateless")
        await anyio.to_thread.run_sync(lambda: nginx.start(addresses, remembers_clients=False))
        async with connected(nginx.url, "auto") as modern, connected(nginx.url, "legacy", "legacy") as legacy:
            assert modern.server_capabilities.tools is not None
            assert modern.server_capabilities.tools.list_changed
            listed = await listing(legacy)
            assert listed == await listing(modern)
            assert await searching(legacy, "send a message") == await searching(modern, "send a message")
            assert (await legacy.call_tool(listed[0], {})).content
            assert set(nginx.answered("^legacy ")) == set(addresses)
            # What is not promised is not done: there is nothing to send it on.
            assert legacy.server_capabilities.tools is not None
            assert not legacy.server_capabilities.tools.list_changed
            wanted = SubscribeRequestParams(uri="gateway://catalog/x")
            with pytest.raises(MCPError, match="no sessions"):
                await legacy.session.send_request(SubscribeRequest(params=wanted), EmptyResult)


def test_another_name_of_the_address_is_refused(nginx: Nginx) -> None:
    nginx.start([])
    assert httpx2.get(nginx.url, headers={"Host": "evil.example"}, trust_env=False).status_code == 421
