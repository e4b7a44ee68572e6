"""The README's snippets run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"
ROOT = README.parents[1]


def test_the_client_of_the_readme_searches_and_calls_the_server_of_the_readme() -> None:
    server, client = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, "-c", client],
        cwd=ROOT,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "sent 3 to Ada" in done.stdout
    example = (ROOT / "examples" / "mcpserver_search.py").read_text(encoding="utf-8")
    assert [line for line in server.splitlines() if line not in example.splitlines()] == []


def test_the_readme_is_read_in_one_sitting_and_its_links_lead_somewhere() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 110
    for link in re.findall(r"\]\((\.\./examples/[^)]+)\)", text):
        assert (README.parent / link).is_file()
