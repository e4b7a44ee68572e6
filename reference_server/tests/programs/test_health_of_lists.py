"""No tool is lost on hosts that read one page or cut a list: large pages, warnings, pins, and `--compat auto`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from click.testing import CliRunner
from clients import ToolListChanges, compat_client, names
from mcp import Client
from mcp_ext_tools_search.client import server_settings
from mcp_types import Tool
from tools_search_server.base.defaults import MAX_PAGE_BYTES
from tools_search_server.base.paging import ToolPages
from tools_search_server.programs.cli import command

pytestmark = pytest.mark.anyio


def tools(count: int, description: str = "Does one thing", **meta: Any) -> list[dict[str, Any]]:
    return [
        {"name": f"tool_{number}", "description": description, "inputSchema": {"type": "object"}, "_meta": meta}
        for number in range(count)
    ]


def written(catalog: Path, offered: list[dict[str, Any]]) -> None:
    catalog.write_text(json.dumps({"tools": offered}))


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    return tmp_path / "tools.json"


@pytest.fixture
def file(configuration: Any, raw: Any, tmp_path: Path, catalog: Path) -> Path:
    return configuration(many=raw("stated", tmp_path))


async def test_a_host_that_reads_one_page_has_all_of_a_thousand_tools(connect: Any, file: Path, catalog: Path) -> None:
    written(catalog, tools(1000, "道具" * 100))
    with anyio.fail_after(90):
        async with connect("stdio", "legacy", "--config", str(file), "--start-deadline", "60") as client:
            page = await client.session.list_tools()
            assert len(page.tools) == 1000
            assert page.next_cursor is None


def test_a_page_is_bounded_in_bytes_whatever_the_characters() -> None:
    large = [Tool.model_validate(definition) for definition in tools(100, "道" * 10_000)]
    pages = ToolPages(large, 10_000)
    first = pages.page(None, "2025-11-25")
    sent = len(json.dumps(first, ensure_ascii=False).encode())
    assert 0.9 * MAX_PAGE_BYTES < sent < MAX_PAGE_BYTES + 1000
    counts = pages.counts("2025-11-25")
    assert (counts[0], len(counts)) == (len(first["tools"]), 4)


def ended(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "tools_search_server", *arguments]
    return subprocess.run(program, capture_output=True, text=True, check=False, timeout=60, stdin=subprocess.DEVNULL)


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("count", "options", "says", "silent_of"),
    [
        (60, [], [], ["Cursor", "GitHub", "claude.ai"]),
        (100, [], ["Cursor warns"], ["GitHub", "claude.ai"]),
        (300, [], ["first 256 tools", "more than 128", "--compat auto"], ["several pages"]),
        (300, ["--page-size", "4"], ["see 4 of 300 tools: claude.ai", "75 pages", "after 64"], []),
    ],
)
def test_the_check_names_the_hosts_that_lose_tools_and_what_helps(
    file: Path, catalog: Path, count: int, options: list[str], says: list[str], silent_of: list[str]
) -> None:
    written(catalog, tools(count))
    checked = ended("--config", str(file), "--check", *options)
    printed = " ".join(checked.stdout.split())
    assert checked.returncode == 0, checked.stderr
    assert all(text in printed for text in says), printed
    assert not any(text in printed for text in silent_of), printed


def test_a_schema_that_connectors_drop_is_named(file: Path, catalog: Path) -> None:
    schema = {"type": "object", "properties": {"text": {"type": "string", "description": "x" * 16_384}}}
    written(catalog, [*tools(2), {"name": "wide", "inputSchema": schema}])
    printed = " ".join(ended("--config", str(file), "--check").stdout.split())
    assert "drop tools whose input schema has more than 16384 bytes (2026-07): many__wide." in printed


async def test_the_log_and_the_status_of_a_gateway_tell_it_too(servers: Any, file: Path, catalog: Path) -> None:
    written(catalog, tools(300))
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(
            lambda: servers.start_http("--config", str(file), "--start-deadline", "60", stderr=subprocess.PIPE)
        )
        async with Client(url) as client:
            assert len((await client.list_tools()).tools) == 300
        shown = await anyio.to_thread.run_sync(lambda: CliRunner().invoke(command, ["status", "--url", url]))
        assert "warning: tools/list has 300 tools." in shown.stdout
        health = (await anyio.to_thread.run_sync(lambda: httpx2.get(f"{url.removesuffix('/mcp')}/healthz"))).json()
        assert health["status"] == "ok"
        assert len(health["warnings"]) == 1
        log = servers.running[-1].stderr
        await anyio.to_thread.run_sync(lambda: next(line for line in log if "WARNING" in line and "300 tools" in line))


@pytest.mark.parametrize("compat", ["meta-tools", "list-changed"])
async def test_pinned_tools_stand_in_the_list_behind_those_of_the_operator_within_bounds(
    compat_gateway: Any, file: Path, catalog: Path, compat: str, caplog: pytest.LogCaptureFixture
) -> None:
    pin: dict[str, Any] = {"anthropic/alwaysLoad": True}
    written(catalog, tools(9, **pin))
    document = json.loads(await anyio.Path(file).read_text()) | {"always_available": ["tool_8"]}
    await anyio.Path(file).write_text(json.dumps(document))
    with anyio.fail_after(60):
        async with compat_gateway(compat, "legacy", file) as client:
            pinned = [name for name in await names(client) if name.startswith("many__")]
            assert pinned == ["many__tool_8", *(f"many__tool_{number}" for number in range(5))]
            assert not (await client.call_tool("many__tool_0", {})).is_error
    assert "requests with 'anthropic/alwaysLoad' that 9 of its tools be always available, but only 6 are" in caplog.text


@pytest.mark.rotating
@pytest.mark.parametrize(("transport", "mode"), [("stdio", "legacy"), ("http", "legacy"), ("http", "auto")])
async def test_auto_lists_few_tools_plainly_and_tells_an_open_session_when_they_become_many(
    servers: Any, connect: Any, configuration: Any, catalog: Path, transport: str, mode: str
) -> None:
    file = configuration(
        many={"command": sys.executable, "args": ["-m", "tools_search_server", "--catalog", str(catalog)]}
    )
    written(catalog, tools(3))
    changes = ToolListChanges()

    async def until(reached: Callable[[list[str]], bool]) -> None:
        while not reached(await names(client)):
            if mode == "legacy":  # a modern client without a subscription asks again when its copy has expired
                await changes.once_more()

    with anyio.fail_after(90):
        of_file = ("auto:3", "--config", str(file))
        async with compat_client(servers, connect, transport, mode, *of_file, message_handler=changes) as client:
            assert server_settings(client) is None
            assert await names(client) == ["many__tool_0", "many__tool_1", "many__tool_2"]
            await anyio.to_thread.run_sync(lambda: written(catalog, tools(4)))
            await until(lambda listed: "search_tools" in listed)
            assert not any(name.startswith("many__") for name in await names(client))
            # What was listed before is called by its name as well as through the tools that find it.
            assert not (await client.call_tool("many__tool_0", {})).is_error
            assert not (await client.call_tool("call_tool", {"name": "many__tool_3", "arguments": {}})).is_error
            await anyio.to_thread.run_sync(lambda: written(catalog, tools(2)))
            await until(lambda listed: listed == ["many__tool_0", "many__tool_1"])
            found = await client.call_tool("search_tools", {"query": "tool_1"})
            assert "many__tool_1" in str(found.content)


@pytest.mark.parametrize(
    ("mode", "says"),
    [
        ("auto:0", "write a number of tools from 1"),
        ("auto:many", "write a number of tools from 1"),
        ("meta-tools:5", "is not one of 'meta-tools', 'list-changed', 'auto', 'auto:TOOLS'"),
    ],
)
def test_a_size_that_cannot_be_one_is_refused(file: Path, mode: str, says: str) -> None:
    refused = CliRunner().invoke(command, ["--config", str(file), "--compat", mode])
    assert refused.exit_code == 2
    assert says in " ".join(refused.stderr.split())
