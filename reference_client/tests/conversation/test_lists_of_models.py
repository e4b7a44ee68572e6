"""What servers say of the place of a tool before a model: for their user interface alone, or always loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from mcp_types import Tool
from tools_search_client import (
    Configuration,
    Conversation,
    Forward,
    ListedSource,
    Reply,
    ToolCall,
    ToolDiscovery,
    open_federation,
)
from tools_search_client.cli.command_line import commands
from tools_search_hosts import ServerEntry, StdioTarget
from tools_search_hosts.names import MAX_PINNED, MAX_PINNED_PER_SERVER

pytestmark = pytest.mark.anyio

HIDDEN = "refresh_cart_view"


def definition(name: str, **meta: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"The cart of the shop: {name.replace('_', ' ')}",
        "inputSchema": {"type": "object"},
        "_meta": meta,
    }


APP_ONLY: dict[str, Any] = {"ui": {"visibility": ["app"]}}
PIN: dict[str, Any] = {"anthropic/alwaysLoad": True}
SHOP = [
    *(definition(f"{HIDDEN}_{number}", **APP_ONLY, **PIN) for number in range(6)),
    definition("show_cart", ui={"visibility": ["model", "app"]}),
    definition("add_to_cart"),
]


@pytest.fixture
def shop(tmp_path: Path) -> StdioTarget:
    file = tmp_path / "shop.json"
    file.write_text(json.dumps({"tools": SHOP}))
    return StdioTarget(sys.executable, ("-m", "tools_search_server", "--catalog", str(file)))


def pinning(count: int, prefix: str = "tool") -> list[Tool]:
    return [Tool.model_validate(definition(f"{prefix}_{number}", **PIN)) for number in range(count)]


@pytest.mark.rotating
@pytest.mark.parametrize("is_listed", [True, False], ids=["listed", "searched"])
@pytest.mark.parametrize("enabled", [True, False], ids=["on demand", "all loaded"])
async def test_a_model_never_meets_a_tool_that_is_for_apps_alone(
    shop: StdioTarget, is_listed: bool, enabled: bool
) -> None:
    discovery = ToolDiscovery(enabled=enabled, defer_all=True, auto=is_listed, context_window=1)
    configuration = Configuration((ServerEntry("shop", shop, defer_loading=True, delegate="turn"),), discovery)
    with anyio.fail_after(60):
        async with open_federation(configuration) as federation:
            conversation = Conversation(federation)
            begun = await conversation.begin_turn("refresh the view of the cart")
            assert not begun.failed
            said: list[Any] = [begun.loaded, conversation.manifest]
            for arguments in (
                {"query": "refresh cart view"},
                {"query": f"{HIDDEN}_1"},
                {"tool_names": [f"shop__{HIDDEN}_1", f"{HIDDEN}_2"]},
                {"server_name": "shop"},
            ):
                if enabled:
                    reply = await conversation.take(ToolCall("search_tools", arguments))
                    assert isinstance(reply, Reply)
                    said += [reply.loaded, reply.text.replace(str(arguments.get("tool_names")), "")]
            offered = {tool.name for tool in conversation.offer().tools} - {"search_tools"}
            assert offered == {"shop__show_cart", "shop__add_to_cart"}
            named = [line for line in str(said).split("\\n") if HIDDEN in line and "Not found" not in line]
            assert not named
            refused = await conversation.take(ToolCall(f"shop__{HIDDEN}_1", {}))
            assert isinstance(refused, Reply)
            assert refused.is_error
            # Hosts see it as before.
            listing = await federation.list()
            assert f"shop__{HIDDEN}_1" in {tool.name for tool in listing.tools}
            found = await federation.search("refresh cart view", limit=3)
            assert all(HIDDEN in tool.name for tool in found.tools)


async def test_a_loaded_tool_that_its_server_takes_back_for_its_app_cannot_be_called_any_more() -> None:
    def shop(**meta: Any) -> dict[str, list[Tool]]:
        return {"shop": [Tool.model_validate(definition("add_to_cart", **meta))]}

    source = ListedSource.of(shop())
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    await conversation.begin_turn()
    call = ToolCall("shop__add_to_cart", {})
    assert isinstance(await conversation.take(call), Forward)
    source.offers = ListedSource.of(shop(**APP_ONLY)).offers
    await conversation.begin_turn()
    assert isinstance(await conversation.take(call), Reply)


async def test_tools_that_a_deferred_server_pins_are_loaded_from_the_start_within_bounds() -> None:
    greedy = {f"server{number}": pinning(9) for number in range(8)}
    source = ListedSource.of({**greedy, "own": [Tool.model_validate(definition("ask"))]}, deferred=greedy)
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    await conversation.begin_turn()
    names = [tool.name for tool in conversation.offer().tools]
    assert names[0] == "own__ask"
    assert names[1 : MAX_PINNED_PER_SERVER + 1] == [f"server0__tool_{number}" for number in range(5)]
    assert len(names) == 1 + MAX_PINNED + 1
    assert names[-1] == "search_tools"


async def test_a_server_that_pins_others_from_turn_to_turn_gets_no_more_of_them_loaded() -> None:
    source = ListedSource.of({"greedy": pinning(9, "first")}, deferred=["greedy"])
    conversation = Conversation(source, ToolDiscovery(enabled=True))
    for prefix in ("first", "second", "third"):
        source.offers = ListedSource.of({"greedy": pinning(9, prefix)}, deferred=["greedy"]).offers
        await conversation.begin_turn()
    pinned = {tool.name for tool in conversation.offer().tools} - {"search_tools"}
    assert pinned == {f"greedy__first_{number}" for number in range(MAX_PINNED_PER_SERVER)}
    conversation.start_over()
    pinned = {tool.name for tool in conversation.offer().tools} - {"search_tools"}
    assert pinned == {f"greedy__third_{number}" for number in range(MAX_PINNED_PER_SERVER)}


@pytest.mark.rotating
def test_the_commands_mark_it_and_the_page_to_copy_leaves_it_out(
    shop: StdioTarget, write_configuration: Callable[[dict[str, object]], Path]
) -> None:
    config = write_configuration({"shop": {"command": shop.command, "args": list(shop.args)}})

    def tools(*options: str) -> str:
        return CliRunner().invoke(commands, ["tools", "--config", str(config), *options]).stdout

    shown = json.loads(tools("--json"))["tools"]
    assert {tool["status"] for tool in shown if HIDDEN in tool["name"]} == {"app only"}
    assert {tool["status"] for tool in shown if HIDDEN not in tool["name"]} == {"loaded"}
    assert "app only" in tools()
    program = [sys.executable, "-m", "tools_search_client.one_server", "refresh the view of the cart", "--"]
    line = [*program, shop.command, *shop.args]
    page = subprocess.run(line, capture_output=True, text=True, check=True, timeout=60).stdout
    assert HIDDEN not in page
    assert "show_cart" in page
