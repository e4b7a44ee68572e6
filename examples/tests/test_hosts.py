"""The hosts among the examples, as their users run them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.server.lowlevel import Server
from mcp_types import CallToolResult, ListToolsResult, Tool
from tools_search_client import Configuration, ConnectedServer, Conversation, load_configuration, open_federation

FOLDER = Path(__file__).parents[1]
SERVERS = FOLDER.parent / "reference_client" / "tests" / "fixtures" / "servers"


@pytest.mark.rotating
def test_a_host_signs_in_once_and_finds_tools_with_the_stored_tokens(tmp_path: Path):
    browser = tmp_path / "browser"
    browser.write_text(f"#!{sys.executable}\nimport sys, httpx2; httpx2.get(sys.argv[1], follow_redirects=True)\n")
    browser.chmod(0o700)
    environment = os.environ | {"XDG_STATE_HOME": str(tmp_path), "BROWSER": f"{browser} %s"}
    with subprocess.Popen([sys.executable, str(SERVERS / "oauth.py")], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        host = [sys.executable, str(FOLDER / "host_with_oauth.py"), url, "create an invoice"]
        try:
            first = subprocess.run(host, env=environment, capture_output=True, text=True, timeout=60, check=True)
            nobody = environment | {"BROWSER": "false %s"}
            second = subprocess.run(host, env=nobody, capture_output=True, text=True, timeout=60, check=True)
        finally:
            server.kill()
    assert first.stdout.splitlines()[0] == second.stdout.splitlines()[0]
    assert first.stdout.splitlines()[0].endswith("__create_invoice")


@pytest.mark.rotating
def test_a_host_searches_the_connections_that_it_opened_itself():
    commands = [f"{sys.executable} {SERVERS / name}" for name in ("plain.py", "asking.py")]
    host = [sys.executable, str(FOLDER / "host_with_connections.py"), "add two numbers", *commands]
    done = subprocess.run(host, capture_output=True, text=True, timeout=60, check=True)
    assert "server1__add_numbers" in done.stdout.splitlines()


def test_the_page_for_hosts_shows_lines_of_the_examples():
    page = (FOLDER.parent / "reference_client" / "docs" / "hosts.md").read_text(encoding="utf-8")
    shown = re.findall(r"\((?:\.\./)+(examples/\w+\.py)\):\n\n```python\n(.*?)```", page, re.DOTALL)
    assert [example for example, _ in shown] == ["examples/host_with_oauth.py", "examples/host_with_connections.py"]
    for example, snippet in shown:
        lines = [line.strip() for line in (FOLDER.parent / example).read_text(encoding="utf-8").splitlines()]
        assert [line for line in snippet.splitlines() if line.strip() not in lines] == []


@pytest.mark.rotating
@pytest.mark.parametrize(
    ("package", "example"), [("pydantic_ai", "pydantic_ai_toolset.py"), ("langchain", "langchain_middleware.py")]
)
def test_an_agent_of_another_framework_has_the_tools_that_its_model_found(package: str, example: str, tmp_path: Path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed, so examples/{example} is NOT tested")
    shop = {"command": sys.executable, "args": [str(FOLDER / "mcpserver_search.py")], "defer_loading": True}
    configuration = tmp_path / "mcp.json"
    configuration.write_text(json.dumps({"mcpServers": {"shop": shop}, "tool_discovery": {"enabled": True}}))
    program = [sys.executable, str(FOLDER / example), str(configuration), "send an invoice"]
    done = subprocess.run(program, capture_output=True, text=True, timeout=60, check=True)
    assert "search_tools shop__send_invoice" in done.stdout


@pytest.mark.anyio
async def test_runs_of_a_pydantic_ai_agent_share_a_conversation_that_gets_the_text_beside_a_picture(tmp_path: Path):
    framework: Any = pytest.importorskip("pydantic_ai")
    messages: Any = pytest.importorskip("pydantic_ai.messages")
    models: Any = pytest.importorskip("pydantic_ai.models.function")
    offered: list[list[str]] = []

    def model(_: Any, info: Any) -> Any:
        offered.append([tool.name for tool in info.function_tools])
        return messages.ModelResponse(parts=[messages.TextPart("done")])

    picture = framework.BinaryContent(b"png", media_type="image/png")
    agent = framework.Agent(models.FunctionModel(model), deps_type=type(None))
    async with open_federation(load_configuration(_searched_by_turn(tmp_path))) as servers:
        chat = _example("pydantic_ai_toolset").SearchedTools(servers, Conversation(servers))
        for prompt in (["send an invoice", picture], [picture]):
            await agent.run(prompt, toolsets=[chat])
    assert "shop__send_invoice" in offered[0]
    assert offered[1] == offered[0]


@pytest.mark.anyio
async def test_a_langchain_conversation_gets_the_text_beside_a_picture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    agents: Any = pytest.importorskip("langchain.agents")
    messages: Any = pytest.importorskip("langchain_core.messages")
    example = _example("langchain_middleware")
    model = example.StandIn(messages=iter([messages.AIMessage("done")]))
    message = messages.HumanMessage(["send an invoice", {"type": "image", "base64": "cG5n", "mime_type": "image/png"}])
    async with open_federation(load_configuration(_searched_by_turn(tmp_path))) as servers:
        agent = agents.create_agent(model, [], middleware=[example.SearchedTools(servers, Conversation(servers))])
        await agent.ainvoke({"messages": [message]})
    assert "shop__send_invoice" in capsys.readouterr().out


def _searched_by_turn(folder: Path) -> Path:
    """Write the configuration of a server that is searched for the text of each turn before the model is asked."""
    program = {"command": sys.executable, "args": [str(FOLDER / "mcpserver_search.py")]}
    shop = program | {"defer_loading": True, "delegate": "turn"}
    file = folder / "mcp.json"
    discovery = {"enabled": True, "deadline": 60}  # seconds, for a busy machine
    file.write_text(json.dumps({"mcpServers": {"shop": shop}, "tool_discovery": discovery}))
    return file


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for its dataclass
    spec.loader.exec_module(module)
    return module


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("package", "example"), [("pydantic_ai", "pydantic_ai_toolset"), ("langchain", "langchain_middleware")]
)
async def test_an_agent_of_another_framework_is_sent_schemas_that_providers_accept(package: str, example: str):
    pytest.importorskip(package)
    received: list[Any] = []
    arguments = {"first name": {"type": "string"}}
    schema = {"type": "object", "properties": arguments, "oneOf": [{"required": ["first name"]}]}

    async def listed(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="greet", description="Greet somebody.", input_schema=schema)])

    async def called(_: Any, params: Any) -> CallToolResult:
        received.append(params.arguments)
        return CallToolResult(content=[])

    async with (
        Client(Server("own", on_list_tools=listed, on_call_tool=called)) as own,
        open_federation(Configuration((ConnectedServer("own", connection=own),))) as servers,
    ):
        host = _example(example).SearchedTools(servers, Conversation(servers))
        sent = await (_sent_by_pydantic_ai(host) if package == "pydantic_ai" else _sent_by_langchain(host))
    assert "oneOf" not in sent
    assert list(sent["properties"]) == ["first_name"]
    assert received == [{"first name": "Ada"}]


async def _sent_by_pydantic_ai(toolset: Any) -> Any:
    """Let the model call the tool, and return the schema that it was sent."""
    framework: Any = importlib.import_module("pydantic_ai")
    messages: Any = importlib.import_module("pydantic_ai.messages")
    models: Any = importlib.import_module("pydantic_ai.models.function")
    sent: list[Any] = []
    parts = [messages.ToolCallPart("own__greet", {"first_name": "Ada"}), messages.TextPart("done")]

    def model(_: Any, info: Any) -> Any:
        sent.append(info.function_tools[0].parameters_json_schema)
        return messages.ModelResponse(parts=[parts.pop(0)])

    await framework.Agent(models.FunctionModel(model), deps_type=type(None)).run("greet Ada", toolsets=[toolset])
    return sent[0]


async def _sent_by_langchain(middleware: Any) -> Any:
    """Do the same with LangChain."""
    agents: Any = importlib.import_module("langchain.agents")
    messages: Any = importlib.import_module("langchain_core.messages")
    sent: list[Any] = []

    class Model(_example("langchain_middleware").StandIn):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            sent.append(tools[0]["function"]["parameters"])
            return self

    call = {"name": "own__greet", "args": {"first_name": "Ada"}, "id": "1"}
    said = [messages.AIMessage("", tool_calls=[call]), messages.AIMessage("done")]
    agent = agents.create_agent(Model(messages=iter(said)), [], middleware=[middleware])
    await agent.ainvoke({"messages": [messages.HumanMessage("greet Ada")]})
    return sent[0]
