"""The hosts among the examples, as their users run them."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

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


class Turns:
    """What a conversation is told at the beginning of its turns."""

    def __init__(self) -> None:
        self.texts: list[str | None] = []

    async def begin_turn(self, text: str | None) -> None:
        self.texts.append(text)


@pytest.mark.anyio
async def test_runs_of_a_pydantic_ai_agent_share_a_conversation_that_gets_the_text_beside_a_picture():
    framework: Any = pytest.importorskip("pydantic_ai")
    turns = Turns()
    toolset = _example("pydantic_ai_toolset").SearchedTools(None, turns)
    prompt = ["What is this?", framework.BinaryContent(b"png", media_type="image/png")]
    for _run in range(2):
        assert await toolset.for_run(SimpleNamespace(prompt=prompt)) is toolset
    assert turns.texts == ["What is this?"] * 2


@pytest.mark.anyio
async def test_a_langchain_conversation_gets_the_text_beside_a_picture():
    messages: Any = pytest.importorskip("langchain_core.messages")
    turns = Turns()
    middleware = _example("langchain_middleware").SearchedTools(None, turns)
    message = messages.HumanMessage(["What is this?", {"type": "image", "base64": "cG5n", "mime_type": "image/png"}])
    await middleware.abefore_agent({"messages": [message]}, None)
    assert turns.texts == ["What is this?"]


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for its dataclass
    spec.loader.exec_module(module)
    return module
