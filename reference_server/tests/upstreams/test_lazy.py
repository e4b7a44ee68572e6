"""Lazy servers: known from their last listing, started by the first request, stopped when nobody asks any more."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from clients import UPSTREAMS, ToolListChanges, call, names
from mcp import Client
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.programs.gateway import configured_gateway
from tools_search_server.programs.health import gateway_health
from tools_search_server.upstreams import listing
from tools_search_server.upstreams.lazy import Laziness

pytestmark = pytest.mark.anyio


@dataclass
class Lazy:
    """A lazy server in a folder, and gateways in front of it."""

    folder: Path

    @property
    def starts(self) -> int:
        """How often it has been started."""
        file = self.folder / "starts"
        return len(file.read_text()) if file.exists() else 0

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return int((self.folder / "pid").read_text())

    @property
    def cache(self) -> Path:
        [file] = (self.folder / "cache" / "tools-search-server").glob("[!.]*")
        return file

    async def learn(self) -> None:
        """Let a gateway get to know the server."""
        folder = self.folder / "cache" / "tools-search-server"
        async with self.gateway() as (client, _):
            await client.session.list_tools()
            while not list(folder.glob("[!.]*")):  # noqa: ASYNC110 - what is written to a file sets no event
                await anyio.sleep(0.02)

    @asynccontextmanager
    async def gateway(
        self, idle_seconds: float = 60, behavior: str = "good", **client: Any
    ) -> AsyncGenerator[tuple[Client, Callable[[], Any]]]:
        start = f'exec "{sys.executable}" "{UPSTREAMS}/raw.py" {behavior} .'
        program = f"[ -e broken ] && exit 3; printf x >> starts; {start}"
        entry = {"command": "sh", "args": ["-c", program], "cwd": str(self.folder), "lazy": True}
        file = self.folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {"old": entry}}))
        options = GatewayOptions(20, 20, laziness=Laziness(idle_seconds=idle_seconds))
        gateway, _ = configured_gateway(file, Limits(), options)
        server = Endpoint(GatewaySearch(gateway, Limits())).server()
        async with gateway.running(), Client(server, **client) as connected:
            yield connected, lambda: gateway_health(gateway)


@pytest.fixture
def lazy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lazy:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Lazy(tmp_path)


async def test_an_unknown_lazy_server_is_started_once_and_then_only_when_it_is_called(
    lazy: Lazy, is_alive: Callable[[int], bool], until: Any
) -> None:
    with anyio.fail_after(60):
        async with lazy.gateway(idle_seconds=0.2) as (client, health):
            assert await names(client) == ["old__plain"]
            await until(lambda: health()["idle"] == 1)
            await until(lambda: not is_alive(lazy.pid))
            assert health()["status"] == "ok"
        assert lazy.starts == 1
        assert lazy.cache.stat().st_mode & 0o777 == 0o600
        async with lazy.gateway(idle_seconds=0.2) as (client, health):
            assert await names(client) == ["old__plain"]
            assert lazy.starts == 1
            results: list[tuple[bool, str]] = []

            async def collect() -> None:
                results.append(await call(client, "old__plain"))

            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(collect)
            assert len(results) == 5
            [(is_error, _)] = set(results)
            assert not is_error
            assert lazy.starts == 2
            await until(lambda: health()["idle"] == 1)
            await until(lambda: not is_alive(lazy.pid))
            assert not (await call(client, "old__plain"))[0]
            assert lazy.starts == 3


async def test_a_lazy_server_that_is_used_again_while_its_listing_is_saved_is_stopped_later(
    lazy: Lazy, is_alive: Callable[[int], bool], until: Any
) -> None:
    with anyio.fail_after(60):
        async with lazy.gateway(idle_seconds=0.3, behavior="dawdling") as (client, health):
            await until((lazy.folder / "dawdles").exists)
            assert not (await call(client, "old__plain"))[0]
            await until(lambda: health()["idle"] == 1)
            await until(lambda: not is_alive(lazy.pid))
    assert lazy.starts == 1


async def test_a_list_that_fails_when_a_lazy_server_is_stopped_is_known_as_it_was(
    lazy: Lazy, until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_FRESH_SECONDS", 0)
    with anyio.fail_after(60):
        async with lazy.gateway(idle_seconds=0.2, behavior="failing") as (client, health):
            await until(lambda: health()["idle"] == 1)
            [prompt] = (await client.session.list_prompts()).prompts
    assert prompt.name == "old__only"
    assert '"prompts":[{"name":"only"}]' in lazy.cache.read_text()


async def test_a_lazy_server_that_cannot_be_started_says_so_to_every_caller_and_is_tried_again_later(
    lazy: Lazy,
) -> None:
    with anyio.fail_after(60):
        await lazy.learn()
        (lazy.folder / "broken").touch()
        async with lazy.gateway() as (client, health):
            first, second = await call(client, "old__plain"), await call(client, "old__plain")
            state = health()["servers"][0]["state"]
            listed = await names(client)
            (lazy.folder / "broken").unlink()
            while (third := await call(client, "old__plain"))[0]:  # noqa: ASYNC110
                await anyio.sleep(0.02)  # a call is the only thing to look at
    assert first[0]
    assert second[0]
    assert "'old' is down since" in first[1]
    assert state == "down"
    assert listed == ["old__plain"]
    assert not third[0]


async def test_a_tool_that_is_gone_since_the_last_listing_is_named_and_the_change_is_told(lazy: Lazy) -> None:
    changes = ToolListChanges()
    with anyio.fail_after(60):
        await lazy.learn()
        kept = lazy.cache.read_text()
        lazy.cache.write_text(kept.replace('"plain"', '"gone"'))
        async with lazy.gateway(mode="legacy", message_handler=changes) as (client, _):
            before = await names(client)
            is_error, text = await call(client, "old__gone")
            await changes.once_more()
            after = await names(client)
    assert before == ["old__gone"]
    assert is_error
    assert "no tool 'gone' any more" in text
    assert after == ["old__plain"]


@pytest.mark.parametrize("spoilt", ["unreadable", "foreign"])
async def test_a_kept_listing_that_cannot_be_relied_on_is_passed_over(lazy: Lazy, spoilt: str) -> None:
    with anyio.fail_after(60):
        await lazy.learn()
        lazy.cache.write_text(lazy.cache.read_text().replace('"plain"', '"planted"'))
        if spoilt == "foreign":
            lazy.cache.chmod(0o622)
        else:
            lazy.cache.write_text('{"version": 1, "tools": [{"name": 7}]}')
        async with lazy.gateway() as (client, _):
            assert await names(client) == ["old__plain"]
    assert lazy.starts == 2


async def test_a_lazy_server_that_is_removed_while_its_listing_is_read_costs_itself_alone(lazy: Lazy) -> None:
    with anyio.fail_after(60):
        await lazy.learn()
        kept = json.loads(lazy.cache.read_text())
        kept["tools"] = [kept["tools"][0] | {"name": f"tool{number}"} for number in range(20_000)]
        lazy.cache.write_text(json.dumps(kept))
        gateway, _ = configured_gateway(lazy.folder / "mcp.json", Limits(), GatewayOptions(20, 20, laziness=Laziness()))
        [upstream] = gateway.upstreams
        threads = anyio.to_thread.current_default_thread_limiter()
        async with gateway.running():
            while not threads.borrowed_tokens:
                await anyio.lowlevel.checkpoint()
            gateway.reconfigure([], gateway.metadata)
        assert (upstream.state.kind, gateway.tools) == ("down", {})


async def test_lists_that_cannot_be_saved_are_used_and_the_log_says_once_where_and_what_to_do(
    lazy: Lazy, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    (lazy.folder / "cache").write_text("a file where the folder is due")
    with anyio.fail_after(60):
        async with lazy.gateway(idle_seconds=0.05) as (client, health):
            for _ in range(2):
                await until(lambda: health()["idle"] == 1)
                assert not (await call(client, "old__plain"))[0]
            await until(lambda: health()["idle"] == 1)
    [said] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert said.startswith(f"old: its lists are not saved in {lazy.folder}/cache/tools-search-server, so ")
    assert said.endswith(": Not a directory; make room there, or set XDG_CACHE_HOME to a folder that can be written")
