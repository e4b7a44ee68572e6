"""A server that sends no list where one is due is at fault, and said to be: it is no healthy server without tools."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from clients import server_entry
from mcp import Client, StdioServerParameters
from mcp_ext_search_primitives import PROMPTS, RESOURCES
from mcp_ext_tools_search.client import TOOLS_SEARCH, raw_request, search_tools
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.programs.gateway import configured_gateway
from tools_search_server.programs.health import gateway_health
from tools_search_server.upstreams import listing
from tools_search_server.upstreams.lazy import Laziness
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


KINDS = {"tools/list": "tool", "prompts/list": "prompt", "resources/list": "resource"}
NUMBERED: dict[str, Any] = {
    "tools": [{"name": f"tool_{number}", "inputSchema": {"type": "object"}} for number in range(4)],
    "prompts": [{"name": f"prompt_{number}"} for number in range(4)],
    "resources": [{"uri": f"https://letters.example/{number}", "name": "letter"} for number in range(4)],
    "page": 2,
}
"""What a server lists in two pages."""

ANNOUNCE: dict[str, Any] = {"name": "long__tool_0", "arguments": {}}
"""A call, with which the server announces that all of its lists have changed."""

EVERY_METHOD = pytest.mark.parametrize("method", KINDS)
LATER_FAULTS = pytest.mark.parametrize("fault", [-32603, "mute", {"result": {"resultType": "complete"}}])


@dataclass
class Archive:
    """A server whose lists a test changes, and a gateway in front of it."""

    file: Path
    lazy: bool = False
    more: dict[str, Any] = field(default_factory=dict[str, Any])

    def write(self, spec: dict[str, Any]) -> None:
        draft = self.file.with_suffix(".draft")
        draft.write_text(json.dumps(spec))
        draft.replace(self.file)

    @asynccontextmanager
    async def gateway(self, mode: str = "auto") -> AsyncGenerator[tuple[Client, Callable[[], dict[str, Any]]]]:
        """Run a gateway, and yield its client and a function that returns what its health document says."""
        configuration = self.file.with_name("mcp.json")
        entry = server_entry("archive.py", self.file) | {"lazy": self.lazy} | self.more
        configuration.write_text(json.dumps({"mcpServers": {"long": entry}}))
        options = GatewayOptions(20, 20, laziness=Laziness(idle_seconds=0.2))
        gateway, _ = configured_gateway(configuration, Limits(), options)
        server = Endpoint(GatewaySearch(gateway, Limits())).server()
        async with gateway.running(), Client(server, mode=mode, extensions=[TOOLS_SEARCH]) as client:
            yield client, lambda: gateway_health(gateway)["servers"][0]


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Archive(tmp_path / "archive.json")


async def keys(client: Client, method: str) -> set[str]:
    page = await raw_request(client, method, {}, seconds=20)
    return {entry.get("uri", entry["name"]).rpartition("__")[2] for entry in page[method.removesuffix("/list")]}


def first(count: int, method: str) -> set[str]:
    return {entry.get("uri", entry["name"]) for entry in NUMBERED[method.removesuffix("/list")][:count]}


@both_eras
@LATER_FAULTS
async def test_tools_before_a_page_that_fails_are_found_and_called_and_the_failure_is_reported(
    archive: Archive, until: Any, monkeypatch: pytest.MonkeyPatch, era: str, fault: Any
) -> None:
    monkeypatch.setattr(listing, "_TOOLS_SECONDS", 1)
    monkeypatch.setattr(listing, "_FAILED_SECONDS", 0.1)
    spec = NUMBERED | {"legacy": era == "legacy", "quiet": True}
    archive.write(spec | {"faults": {"tools/list 2": fault}})
    with anyio.fail_after(60):
        async with archive.gateway() as (client, health):
            listed = await keys(client, "tools/list")
            found = [tool.name for tool in (await search_tools(client, "tool 1", limit=1)).tools]
            called = await raw_request(client, "tools/call", {"name": "long__tool_1", "arguments": {}}, seconds=20)
            partial = health()
            archive.write(spec)
            await until(lambda: health()["tools"] == 4)
            await until(lambda: not health()["reason"])
    assert (listed, found, called["content"]) == (first(2, "tools/list"), ["long__tool_1"], [])
    assert (partial["state"], partial["tools"]) == ("ready", 2)
    assert partial["reason"].startswith("its list of tools broke off after 2: ")


async def test_a_later_page_that_is_late_does_not_use_up_the_time_of_a_start(archive: Archive, until: Any) -> None:
    archive.more = {"startup_timeout_sec": 4}
    archive.write(NUMBERED | {"faults": {"tools/list 2": "mute"}})
    with anyio.fail_after(60):
        async with archive.gateway() as (client, health):
            await until(lambda: health()["state"] == "ready")
            assert await keys(client, "tools/list") == first(2, "tools/list")


async def test_a_later_page_whose_http_exchange_breaks_off_costs_only_itself(hostile: Any, archive: Archive) -> None:
    entry = await hostile("events", "modern", "breaking-off")
    archive.file.with_name("mcp.json").write_text(json.dumps({"mcpServers": {"long": entry}}))
    with anyio.fail_after(60):
        gateway, _ = configured_gateway(archive.file.with_name("mcp.json"), Limits(), GatewayOptions(20, 20))
        server = Endpoint(GatewaySearch(gateway, Limits())).server()
        async with gateway.running(), Client(server) as client:
            assert await keys(client, "tools/list") == {"say"}
            [state] = gateway_health(gateway)["servers"]
    assert state["reason"].startswith("its list of tools broke off after 1: ")


@EVERY_METHOD
@pytest.mark.parametrize(
    ("page", "fault"),
    [("", -32603), ("", "mute"), (" 2", -32603), (" 2", "mute"), (" 2", {"result": {"resultType": "complete"}})],
)
async def test_a_list_that_was_complete_stays_in_use_while_a_page_of_it_fails(
    archive: Archive, monkeypatch: pytest.MonkeyPatch, method: str, page: str, fault: Any
) -> None:
    for name, seconds in {"_TOOLS_SECONDS": 1, "_LIST_SECONDS": 1, "_FAILED_SECONDS": 0.1}.items():
        monkeypatch.setattr(listing, name, seconds)
    member = method.removesuffix("/list")
    changed = NUMBERED | {member: NUMBERED[member][1:]}
    archive.write(NUMBERED)
    seen: list[set[str]] = []
    with anyio.fail_after(60):
        async with archive.gateway() as (client, health):

            async def until_reported(fault: str) -> None:
                while fault not in health()["reason"] or bool(fault) != bool(health()["reason"]):
                    seen.append(await keys(client, method))
                    await anyio.sleep(0.05)

            before = await keys(client, method)
            archive.write(changed | {"faults": {f"{method}{page}": fault}})
            await raw_request(client, "tools/call", ANNOUNCE, seconds=20)
            await until_reported("known before")
            seen.append(await keys(client, method))
            reason = health()["reason"]
            archive.write(changed)
            await until_reported("")
            after = await keys(client, method)
            tools = await keys(client, "tools/list")
    assert before == first(4, method)
    assert [keys for keys in seen if keys != before and keys != after] == []
    how = "broke off after 2" if page else "failed"
    assert reason.startswith(f"its list of {KINDS[method]}s {how}, and the 4 known before are used: ")
    assert after == before - first(1, method)
    assert tools == (after if method == "tools/list" else first(4, "tools/list"))


async def test_a_lazy_server_is_known_by_a_complete_list_only(
    archive: Archive, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_FAILED_SECONDS", 0.1)
    archive.lazy = True
    broken = {"faults": {"tools/list 2": -32603}}
    archive.write(NUMBERED | broken)
    with anyio.fail_after(60):
        async with archive.gateway() as (client, health):
            assert await keys(client, "tools/list") == first(2, "tools/list")
            archive.write(NUMBERED)
            await until(lambda: health()["state"] == "idle")
        archive.write(NUMBERED | broken)
        async with archive.gateway() as (client, health):
            await raw_request(client, "tools/call", {"name": "long__tool_3", "arguments": {}}, seconds=20)
            assert await keys(client, "tools/list") == first(4, "tools/list")
            await until(lambda: health()["state"] == "idle")
            assert await keys(client, "tools/list") == first(4, "tools/list")
