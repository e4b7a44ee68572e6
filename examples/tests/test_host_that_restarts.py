"""The host that restarts goes on where the process before it ended."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parents[1]


@pytest.mark.rotating
def test_each_process_goes_on_with_the_tools_and_the_transcript_of_the_one_before(tmp_path: Path):
    shop = {"command": sys.executable, "args": [str(FOLDER / "mcpserver_search.py")], "defer_loading": True}
    configuration, file = tmp_path / "mcp.json", tmp_path / "conversation.json"
    configuration.write_text(json.dumps({"mcpServers": {"shop": shop}, "tool_discovery": {"enabled": True}}))
    program = [sys.executable, str(FOLDER / "host_that_restarts.py"), str(configuration), str(file)]
    saved: list[dict[str, Any]] = []
    for text in ("send an invoice", "send an invoice"):
        done = subprocess.run([*program, text], capture_output=True, text=True, check=True, timeout=60)
        assert "send_invoice" in done.stdout
        saved.append(json.loads(file.read_text()))
    first, second = saved
    assert "Already loaded" in done.stdout
    assert second["items"][: len(first["items"])] == first["items"]
    loaded = [[tool["name"] for tool in state["conversation"]["definitions"]] for state in saved]
    assert loaded[0] == loaded[1]
    assert "shop__send_invoice" in loaded[0]
    assert second["conversation"]["prefix"] == first["conversation"]["prefix"]
