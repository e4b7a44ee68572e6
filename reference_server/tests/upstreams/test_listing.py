"""A server that sends no list where one is due is at fault, and said to be: it is no healthy server without tools."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp_ext_search_primitives import PROMPTS, RESOURCES
from mcp_ext_tools_search.client import raw_request
from tools_search_server.upstreams.listing import Lists

UPSTREAMS = Path(__file__).parents[1] / "servers"
TOOL = {"name": "say", "inputSchema": {"type": "object"}}
LISTS = {
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}

pytestmark = pytest.mark.anyio

both_eras = pytest.mark.parametrize("era", ["modern", "legacy"])

no_lists = pytest.mark.parametrize(
    ("page", "problem"),
    [
        ({}, "`{}` is missing"),
        ({"{}": None}, "`{}` is missing"),
        ({"{}": "none"}, "`{}` is no array"),
        ({"{}": {"say": {}}}, "`{}` is no array"),
        ({"{}": [], "nextCursor": 2}, "`nextCursor` is no string"),
        ({"{}": [7, None, {"title": "nameless"}]}, "holds no valid"),
    ],
)


def answering(era: str, **pages: Any) -> dict[str, Any]:
    return {"command": sys.executable, "args": [str(UPSTREAMS / "answering.py"), era, json.dumps(pages)]}


def filled(page: dict[str, Any], member: str) -> dict[str, Any]:
    return {name.format(member): value for name, value in page.items()}


@both_eras
@no_lists
async def test_a_server_without_a_list_of_tools_is_down_with_the_reason(
    gateway: Any, caplog: pytest.LogCaptureFixture, era: str, page: dict[str, Any], problem: str
) -> None:
    entry = answering(era, **{"tools/list": filled(page, "tools")})
    with anyio.fail_after(60):
        async with gateway("auto", odd=entry, good=answering("legacy")) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} == {"good__say"}
            result = await raw_request(client, "tools/call", {"name": "odd__say", "arguments": {}}, seconds=20)
    assert result["isError"] is True
    assert "'odd' is down since" in result["content"][0]["text"]
    assert problem.format("tools") in result["content"][0]["text"]
    assert "odd is down: its tools/list" in caplog.text


async def test_a_server_whose_list_turns_into_none_is_down_with_the_reason(
    gateway: Any, raw: Any, tmp_path: Path, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.fail_after(60):
        async with gateway("auto", turning=raw("turning", tmp_path)) as client:
            assert len((await client.list_tools()).tools) == 1
            (tmp_path / "turned").touch()
            await raw_request(client, "tools/call", {"name": "turning__plain", "arguments": {}}, seconds=20)
            await until(lambda: "turning is down: its tools/list is malformed" in caplog.text)


@both_eras
@no_lists
@pytest.mark.parametrize("method", LISTS)
async def test_another_list_that_is_none_costs_that_list_alone_and_is_logged(
    gateway: Any, caplog: pytest.LogCaptureFixture, era: str, method: str, page: dict[str, Any], problem: str
) -> None:
    member = LISTS[method]
    good = {"uri": "memo:1", "name": "1", "uriTemplate": "memo:{x}"}
    with anyio.fail_after(60):
        async with gateway(
            "auto",
            odd=answering(era, **{method: filled(page, member)}),
            good=answering("legacy", **{method: {member: [good]}}),
        ) as client:
            listed = await raw_request(client, method, {}, seconds=20)
            assert len((await client.list_tools()).tools) == 2
    assert len(listed[member]) == 1
    assert "odd: its list of " in caplog.text
    assert problem.format(member) in caplog.text


async def test_a_list_that_failed_takes_no_room_from_the_others(caplog: pytest.LogCaptureFixture) -> None:
    prompts = {"prompts": [{"name": "p" * 600}], "nextCursor": 2}
    resources = {"resources": [{"uri": "memo:1", "name": "r" * 600}]}
    entry = answering("legacy", **{"prompts/list": prompts, "resources/list": resources})
    with anyio.fail_after(60):
        async with Client(StdioServerParameters(**entry)) as client:
            lists = Lists("odd", client, 1000)
            failed, read = await lists.entries(PROMPTS), await lists.entries(RESOURCES)
    assert "`nextCursor` is no string" in caplog.text
    assert (len(failed), [*read]) == (0, ["memo:1"])


def test_a_check_names_what_is_wrong_with_each_list(configuration: Any) -> None:
    file = configuration(
        tools=answering("legacy", **{"tools/list": {"tools": {}}}),
        prompts=answering("modern", **{"prompts/list": {"prompts": {}}, "resources/list": {}}),
        good=answering("modern"),
    )
    argv = [sys.executable, "-m", "tools_search_server", "--check", "--config", str(file)]
    checked = subprocess.run(
        argv, env=os.environ, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL
    )
    shown = " ".join(checked.stdout.split())
    states = {line.split()[0]: line.split()[1] for line in reversed(checked.stdout.splitlines()) if line.split()[1:]}
    assert checked.returncode == 1
    assert states | {"tools": "down", "prompts": "ready", "good": "ready"} == states
    assert "its tools/list is malformed: `tools` is no array" in shown
    assert "its list of prompts failed: its prompts/list is malformed: `prompts` is no array" in shown
    assert "its list of resources failed: its resources/list is malformed: `resources` is missing" in shown


async def test_health_names_a_list_that_failed_until_it_is_read_again(servers: Any, configuration: Any) -> None:
    file = configuration(odd=answering("legacy", **{"prompts/list": {"prompts": 5}}))
    with anyio.fail_after(60):
        url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file)))
        async with httpx2.AsyncClient(trust_env=False) as http:
            before = await _server(http, url)
            await _list_prompts(url)
            after = await _server(http, url)
    assert before["reason"] == ""
    assert after["state"] == "ready"
    assert "its prompts/list is malformed: `prompts` is no array" in after["reason"]


async def _server(http: httpx2.AsyncClient, url: str) -> dict[str, Any]:
    while True:
        [server] = (await http.get(url.replace("/mcp", "/healthz"))).json()["servers"]
        if server["state"] == "ready":
            return server
        await anyio.sleep(0.05)


async def _list_prompts(url: str) -> None:
    async with Client(url) as client:
        assert (await client.list_prompts()).prompts == []


async def test_a_fault_of_a_list_that_changes_again_and_again_is_logged_once(
    gateway: Any, raw: Any, tmp_path: Path, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tools_search_server")
    with anyio.fail_after(60):
        async with gateway("auto", odd=raw("growing", tmp_path)) as client:
            for number, name in enumerate(["plain", "plain", "new", "newer"]):
                await raw_request(client, "tools/call", {"name": "odd__plain", "arguments": {"name": name}}, seconds=20)
                if number > 1:
                    await until(lambda count=number: f"odd changed: {count} tools" in caplog.text)
    assert caplog.text.count('odd: the second tool named "plain" is left out') == 1


async def test_a_list_of_faults_takes_a_few_short_lines_of_the_log(
    gateway: Any, caplog: pytest.LogCaptureFixture
) -> None:
    tools = [TOOL | {"name": "n" * 1_000}] * 60 + [{"title": "nameless"}] * 40
    with anyio.fail_after(60):
        async with gateway("auto", odd=answering("legacy", **{"tools/list": {"tools": tools}})) as client:
            assert len((await client.list_tools()).tools) == 1
    logged = [record.getMessage() for record in caplog.records if "left out" in record.getMessage()]
    assert len(logged) == 11
    assert logged[-1] == "odd: 89 more tools are left out"
    assert max(map(len, logged)) < 400
