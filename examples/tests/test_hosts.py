"""The hosts among the examples, as their users run them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[1]
SERVERS = FOLDER.parent / "reference_client" / "tests" / "fixtures" / "servers"


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
