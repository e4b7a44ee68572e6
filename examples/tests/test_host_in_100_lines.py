"""The host in 100 lines is one: it loads what its model finds, calls it, and survives what goes wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_client import ToolCall, load_configuration

FOLDER = Path(__file__).parents[1]
EXAMPLE = FOLDER / "host_in_100_lines.py"


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """A file as hosts have it: a server that offers the search and is deferred, and one that cannot be started."""
    shop = {"command": sys.executable, "args": [str(FOLDER / "mcpserver_search.py")], "defer_loading": True}
    path = tmp_path / "mcp.json"
    servers = {"shop": shop, "gone": {"command": "/nowhere/program", "defer_loading": True}}
    path.write_text(json.dumps({"mcpServers": servers, "tool_discovery": {"enabled": True, "max_search_results": 2}}))
    return path


def say_that_tools_only_read(configuration: Path) -> None:
    server = (FOLDER / "mcpserver_search.py").read_text(encoding="utf-8")
    annotated = "@mcp.tool(annotations=ToolAnnotations(read_only_hint=True))"
    own = configuration.with_name("reading.py")
    own.write_text("from mcp_types import ToolAnnotations\n" + server.replace("@mcp.tool()", annotated))
    stated = configuration.read_text().replace(json.dumps(str(FOLDER / "mcpserver_search.py")), json.dumps(str(own)))
    configuration.write_text(stated)


def allow(configuration: Path, tool: str) -> None:
    stated = json.loads(configuration.read_text())
    stated["mcpServers"]["shop"]["alwaysAllow"] = [tool]
    configuration.write_text(json.dumps(stated))


@pytest.fixture
def host() -> Any:
    spec = spec_from_file_location("host_in_100_lines", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = module_from_spec(spec)  # dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


def test_it_has_at_most_100_lines():
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 100


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("said", "user", "operator"),
    [("nothing", True, False), ("nothing", False, True), ("reads", True, False), ("reads", False, False)],
)
async def test_a_model_that_searches_and_calls_gets_what_the_user_or_the_operator_allows(
    host: Any, configuration: Path, said: str, user: bool, operator: bool
):
    if said == "reads":
        say_that_tools_only_read(configuration)
    if operator:
        allow(configuration, "send_invoice")
    seen: list[list[str]] = []
    asked: list[str] = []

    async def ask(question: str) -> bool:
        asked.append(question)
        return user

    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        seen.append([tool["name"] for tool in tools])
        script = [
            ToolCall("shop__send_invoice", {"customer": "Ada", "amount": 3}, "too early"),
            ToolCall("search_tools", {"query": "send it to a customer"}, "search"),
            ToolCall("shop__send_invoice", {"customer": "Ada", "amount": 3}, "call"),
        ]
        if len(seen) <= len(script):
            return host.Said(calls=[script[len(seen) - 1]])
        return host.Said(f"Done: {messages[-1]['content']}")

    with anyio.fail_after(30):
        async with host.open_host(load_configuration(configuration), model, ask) as talk:
            answer = await talk.turn("Bill Ada 3 euros.")
    assert answer == f"Done: {'sent 3 to Ada' if user or operator else 'The user does not allow this call.'}"
    assert asked == ([] if operator else ["Call shop__send_invoice {'customer': 'Ada', 'amount': 3}?"])
    assert seen[:2] == [["search_tools"]] * 2
    assert "shop__send_invoice" in seen[2]
    assert seen[3] == seen[2]
    results = {message["id"]: message["content"] for message in talk.messages if message["role"] == "tool"}
    assert "is not yet loaded" in results["too early"]
    assert "This tool is now loaded" in results["search"]
    if user:
        assert talk.conversation.statistics.calls_by_tool == {"search_tools": 1, "shop__send_invoice": 1}


@pytest.mark.anyio
async def test_a_model_that_never_stops_calling_is_stopped(host: Any, configuration: Path):
    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> Any:
        return host.Said(calls=[ToolCall("search_tools", {"query": "send it to a customer"}, "again")])

    with anyio.fail_after(30):
        async with host.open_host(load_configuration(configuration), model, host.ask_in_terminal) as talk:
            assert await talk.turn("Bill Ada.") == "Stopped after 20 requests to the model."
    assert sum(message["role"] == "assistant" for message in talk.messages) == 20


def test_without_arguments_it_says_how_it_is_used():
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Run: `python examples/host_in_100_lines.py mcp.json" in done.stderr


def test_it_runs_with_a_stand_in_for_a_model(configuration: Path):
    command = [sys.executable, str(EXAMPLE), str(configuration), "send it to a customer"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.startswith("Found 1 tool:\n\n- shop:send_invoice\n")
