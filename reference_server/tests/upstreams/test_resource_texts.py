"""Texts of resources are read within bounds, and what a hostile resource does costs no caller anything."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
from mcp import Client
from mcp_ext_search_primitives.client import search_resources
from mcp_ext_tools_search.client import TOOLS_SEARCH
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import Gateway, GatewayOptions
from tools_search_server.programs.gateway import gateway_program
from tools_search_server.upstreams import notifications, resource_texts

pytestmark = pytest.mark.anyio

UPSTREAM = Path(__file__).parents[1] / "servers" / "archive.py"
MAX_GROWTH = 128 * 1024
"""Memory that hostile resources may cost at most, in kB."""

FAULTS: dict[str, Any] = {
    "bad:endless": "endless",
    "bad:exit": "exit",
    "bad:mute": "mute",
    "bad:refused": -32603,
    "bad:null": {"result": None},
}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_texts, "_READ_SECONDS", 1)


def resource(uri: str, **members: Any) -> dict[str, Any]:
    return {"uri": uri, "name": uri, **members}


def entry(folder: Path, **spec: Any) -> dict[str, Any]:
    (folder / "archive.json").write_text(json.dumps(spec))
    return {"command": sys.executable, "args": [str(UPSTREAM), str(folder / "archive.json")]}


def requests(folder: Path) -> list[str]:
    return (folder / "archive.json.log").read_text().splitlines()


def peak(servers: Any) -> int:
    """Return the most memory that the gateway has had, in kB."""
    lines = Path(f"/proc/{servers.running[0].pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


@pytest.fixture
def has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no search wait for the first reading."""
    monkeypatch.setattr(Gateway, "start_ends", -math.inf)
    monkeypatch.setattr(resource_texts, "_WAITED_SECONDS", 0)


@pytest.fixture
def gateway_over(tmp_path: Path, configuration: Any) -> Callable[..., Any]:
    """Connect to a gateway in this process over one server, whose texts it reads."""

    @asynccontextmanager
    async def connected(**spec: Any) -> AsyncGenerator[Client]:
        options = GatewayOptions(20, 20, searched=frozenset({"contents"}))
        program = gateway_program(configuration(archive=entry(tmp_path, **spec)), Limits(), options)
        async with program.lifespan(), Client(program.server, extensions=[TOOLS_SEARCH]) as client:
            yield client
            program.on_stop()

    return connected


async def found(client: Client, query: str) -> list[str]:
    return [
        resource.uri.removeprefix("gateway://archive/")
        for resource in (await search_resources(client, query)).resources
    ]


async def found_in_the_end(client: Client, query: str) -> list[str]:
    while not (uris := await found(client, query)):  # noqa: ASYNC110 - a search is the only thing to look at
        await anyio.sleep(0.02)
    return uris


@pytest.mark.parametrize("legacy", [True, False])
async def test_resources_that_end_the_connection_or_never_end_cost_neither_the_others_nor_any_call(
    gateway_over: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture, until: Any, legacy: bool
) -> None:
    uris = ["good:1", "bad:endless", "good:2", "bad:exit", "good:3", "bad:mute", "bad:refused", "good:4"]
    texts = {"good:1": "alpha", "good:2": "bravo", "good:3": "charlie", "good:4": "delta"}
    with anyio.fail_after(60):
        async with gateway_over(
            legacy=legacy, resources=list(map(resource, uris)), texts=texts, faults=FAULTS
        ) as client:
            assert await found_in_the_end(client, "delta") == ["good:4"]
            assert await found(client, "alpha") == ["good:1"]
            assert await found(client, "charlie") == ["good:3"]
            await until(lambda: "archive: 4 of its resources are found by their definitions alone" in caplog.text)
            called = await client.call_tool("archive__announce", {})
    assert not called.is_error
    assert "is down" not in caplog.text
    reads = [line for line in requests(tmp_path) if line.startswith("resources/read bad:")]
    assert max(Counter(reads).values()) <= 2, "what cost a connection is read alone once, to know that it was this one"


async def test_the_log_says_once_why_texts_were_not_read_with_the_number_of_resources_for_each_reason(
    gateway_over: Any, caplog: pytest.LogCaptureFixture
) -> None:
    said = {f"bad:{number}": {"error": {"code": -32002, "message": f"no bad:{number}"}} for number in range(3)}
    faults = FAULTS | said | {"bad:mute2": "mute"}
    resources = [*map(resource, faults), resource("good:1")]
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts={"good:1": "zeppelins"}, faults=faults) as client:
            assert await found_in_the_end(client, "zeppelins") == ["good:1"]
            for _ in range(2):
                await client.call_tool("archive__announce", {})
                await found(client, "zeppelins")
    [line] = [record.getMessage() for record in caplog.records if "definitions alone" in record.getMessage()]
    assert line.startswith("archive: 9 of its resources are found by their definitions alone")
    for reason in (
        '3: it answered with error -32002: "no …"',
        "2: it took more than 1 s",
        '1: it answered with error -32603: "no"',
        "1: it sent",
        "1: it ended with exit code 3",
        "1: other reasons)",
    ):
        assert reason in line


async def test_while_the_gateway_starts_a_search_waits_for_the_texts_however_long_they_take(
    gateway_over: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_texts, "_WAITED_SECONDS", 0)
    resources, texts = [resource("bad:mute"), resource("good:1")], {"good:1": "zeppelins"}
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts=texts, faults=FAULTS) as client:
            assert await found(client, "zeppelins") == ["good:1"]


async def test_a_hostile_resource_costs_little_memory_in_a_gateway_that_serves_on(
    servers: Any, configuration: Any, tmp_path: Path
) -> None:
    uris = [*(f"bad:{number}" for number in range(8)), "good:1"]
    faults = {uri: "endless" for uri in uris if uri.startswith("bad")}
    file = configuration(archive=entry(tmp_path, resources=list(map(resource, uris)), faults=faults))
    url = await anyio.to_thread.run_sync(lambda: servers.start_http("--config", str(file), "--search", "contents"))

    with anyio.fail_after(60):
        async with Client(url, extensions=[TOOLS_SEARCH]) as client:
            before = peak(servers)
            for _ in range(3):
                assert "good:1" in await found(client, "good:1")
            called = await client.call_tool("archive__announce", {})
    assert not called.is_error
    assert peak(servers) - before < MAX_GROWTH


@pytest.mark.rotating
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_ten_million_resources_of_a_server_cost_little_and_those_of_others_are_found(
    servers: Any, connect: Any, configuration: Any, tmp_path: Path, transport: Any
) -> None:
    many, small = tmp_path / "many", tmp_path / "small"
    for folder in (many, small):
        folder.mkdir()
    small_entry = entry(small, resources=[resource("good:1")], texts={"good:1": "zeppelins"})
    file = configuration(many=entry(many, count=10_000_000), archive=small_entry)
    with anyio.fail_after(100):
        async with connect(transport, "auto", "--config", str(file), "--search", "contents") as client:
            assert await found_in_the_end(client, "zeppelins") == ["good:1"]
            assert not (await client.call_tool("archive__announce", {})).is_error
            if transport == "http":
                assert peak(servers) < 4 * MAX_GROWTH
    pages = [line for line in requests(many) if line.startswith("resources/list")]
    assert 0 < len(pages) < 1_000


async def test_only_what_can_have_text_and_is_small_is_read(gateway_over: Any, tmp_path: Path) -> None:
    resources = [
        resource("a:picture", mimeType="image/png"),
        resource("a:large", size=2**31),
        resource("a:blob"),
        resource("a:text", mimeType="text/plain", size=10),
    ]
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts={"a:blob": None, "a:text": "zeppelins"}) as client:
            assert await found_in_the_end(client, "zeppelins") == ["a:text"]
    assert [line for line in requests(tmp_path) if line.startswith("resources/read")] == [
        "resources/read a:blob",
        "resources/read a:text",
    ]


async def test_of_many_resources_the_first_are_read_and_the_others_found_by_their_definitions(
    gateway_over: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(resource_texts, "_MAX_RESOURCES", 5)
    resources = [resource(f"many:{number}") for number in range(5_000)]
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts={"many:4": "zeppelins", "many:5": "zeppelins"}) as client:
            assert await found_in_the_end(client, "zeppelins") == ["many:4"]
            assert (await found(client, "many:4999"))[0] == "many:4999"
    assert sum(line.startswith("resources/read") for line in requests(tmp_path)) == 5
    assert "archive: 4995 of its resources are found by their definitions alone" in caplog.text
    assert "(4995: only the first 5 are read)" in caplog.text


@pytest.mark.parametrize("legacy", [True, False])
async def test_a_search_that_goes_without_unread_texts_is_marked_and_not_cached_and_the_log_says_so_once(
    gateway_over: Any, caplog: pytest.LogCaptureFixture, has_started: None, legacy: bool
) -> None:
    told = "archive: searches go without the texts of its resources that are not read yet: raise --start-deadline"
    resources, texts = [resource("bad:mute"), resource("good:1")], {"good:1": "zeppelins"}
    mark = "io.github.tools-search/unread"
    with anyio.fail_after(60):
        async with gateway_over(legacy=legacy, resources=resources, texts=texts, faults=FAULTS) as client:
            early = page = await search_resources(client, "zeppelins")
            while mark in (page.meta or {}):  # a search is the only thing to look at
                await anyio.sleep(0.02)
                page = await search_resources(client, "zeppelins")
    assert (early.resources, early.ttl_ms, (early.meta or {}).get(mark)) == ([], 0, True)
    assert ([each.uri for each in page.resources], page.ttl_ms > 0) == (["gateway://archive/good:1"], True)
    assert caplog.text.count(told) == 1


async def test_a_search_is_marked_if_texts_that_it_went_without_are_read_before_it_is_answered(
    gateway_over: Any, has_started: None
) -> None:
    resources, texts = [resource("bad:mute"), resource("good:1")], {"good:1": "zeppelins"}
    faults = FAULTS | {"resources/search": "mute"}  # it waits longer for a search
    settings: dict[str, Any] = {"resources": {}}
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts=texts, faults=faults, settings=settings) as client:
            page = await search_resources(client, "zeppelins")
    assert (page.resources, page.meta and page.meta.get("io.github.tools-search/unread")) == ([], True)


@pytest.mark.parametrize("legacy", [True, False])
async def test_a_server_that_takes_its_time_for_each_resource_is_asked_for_several_at_once(
    gateway_over: Any, legacy: bool
) -> None:
    texts = {f"good:{number}": "mail" for number in range(11)} | {"good:last": "zeppelins"}
    with anyio.fail_after(60):
        async with gateway_over(legacy=legacy, resources=list(map(resource, texts)), texts=texts, together=4) as client:
            assert await found_in_the_end(client, "zeppelins") == ["good:last"]


async def test_the_texts_of_a_server_are_bounded_together(
    gateway_over: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource_texts, "_MAX_CHARS", 100)
    monkeypatch.setattr(resource_texts, "_MAX_ALL_CHARS", 250)
    resources = [resource(f"long:{number}") for number in range(9)]
    texts = {resource["uri"]: f"start {'filler ' * 100} end" for resource in resources}
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts=texts) as client:
            assert len(await found_in_the_end(client, "start")) == 3
            assert not await found(client, "end")


async def test_what_there_was_no_time_to_read_is_read_after_a_pause_and_nothing_is_read_again_before(
    gateway_over: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    has_started: None,
) -> None:
    monkeypatch.setattr(resource_texts, "_ALL_SECONDS", 4)
    monkeypatch.setattr(resource_texts, "_MAX_REST_SECONDS", 0.1)
    monkeypatch.setattr(resource_texts, "_AGAIN_SECONDS", 1)
    resources = [resource("good:1"), *(resource(f"bad:{number}") for number in range(4)), resource("good:2")]
    faults = {f"bad:{number}": "mute" for number in range(4)}
    texts = {"good:1": "zeppelins", "good:2": "airships"}
    with anyio.fail_after(60):
        async with gateway_over(resources=resources, texts=texts, faults=faults) as client:
            assert await found_in_the_end(client, "zeppelins") == ["good:1"]
            assert await found(client, "airships") == []
            assert await found_in_the_end(client, "airships") == ["good:2"]
    assert "reading takes more than 4 s, and goes on later" in caplog.text
    reads = [line.removeprefix("resources/read ") for line in requests(tmp_path) if line.startswith("resources/read")]
    assert reads[: reads.index("good:2")].count("good:1") == 1


@pytest.mark.parametrize("legacy", [True, False])
async def test_a_resource_is_read_again_soon_after_its_server_has_announced_an_update_and_no_other_is(
    gateway_over: Any, tmp_path: Path, legacy: bool
) -> None:
    texts = {"good:1": "first edition", "good:2": "mail"}
    spec: dict[str, Any] = {"legacy": legacy, "resources": list(map(resource, texts)), "updated": ["good:1"]}
    with anyio.fail_after(60):
        async with gateway_over(**spec, texts=texts) as client:
            assert await found_in_the_end(client, "edition") == ["good:1"]
            # The end of a caller's own subscription does not end the gateway's.
            async with client.listen(resource_subscriptions=["gateway://archive/good:1"]):
                pass
            for text in ("second copy", "third print"):
                entry(tmp_path, **spec, texts=texts | {"good:1": text})
                await client.call_tool("archive__announce", {})
                assert await found_in_the_end(client, text) == ["good:1"]
            assert await found(client, "edition") == []
    reads = [line for line in requests(tmp_path) if line.startswith("resources/read")]
    assert [*reads[:2], *{*reads[2:]}] == ["resources/read good:1", "resources/read good:2", "resources/read good:1"]


@pytest.mark.parametrize("legacy", [True, False])
async def test_of_many_resources_the_first_are_subscribed_to_and_a_flood_of_updates_causes_few_readings(
    gateway_over: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, legacy: bool
) -> None:
    monkeypatch.setattr(resource_texts, "_MAX_FOLLOWED", 3)
    uris = [f"good:{number}" for number in range(50)]
    spec: dict[str, Any] = {"legacy": legacy, "resources": list(map(resource, uris)), "updated": uris}
    with anyio.fail_after(60):
        async with gateway_over(**spec, texts={"good:2": "first edition"}) as client:
            assert await found_in_the_end(client, "edition") == ["good:2"]
            entry(tmp_path, **spec, texts={"good:2": "second copy"})
            for _ in range(50):
                await client.call_tool("archive__announce", {})
            assert await found_in_the_end(client, "copy") == ["good:2"]
    log = requests(tmp_path)
    reads = [line for line in log if line.startswith("resources/read")]
    assert {*reads[50:]} <= {f"resources/read good:{number}" for number in range(3)}
    assert reads.count("resources/read good:2") <= 3
    subscribed = sorted(line for line in log if line.startswith("resources/subscribe"))
    assert subscribed == ([f"resources/subscribe good:{number}" for number in range(3)] if legacy else [])


async def test_a_server_that_does_not_answer_a_subscription_has_its_resources_read(
    gateway_over: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifications, "_SUBSCRIBE_SECONDS", 0.5)
    spec: dict[str, Any] = {"legacy": True, "resources": [resource("good:1")], "texts": {"good:1": "zeppelins"}}
    with anyio.fail_after(60):
        async with gateway_over(**spec, updated=[], faults={"resources/subscribe": "mute"}) as client:
            assert await found_in_the_end(client, "zeppelins") == ["good:1"]
