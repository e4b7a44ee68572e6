"""What the README shows is what runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_line_of_a_snippet_stands_in_its_example():
    snippets = re.findall(r"\((examples/\w+\.py)\):\n\n```python\n(.*?)```", README, re.DOTALL)

    assert [example for example, _ in snippets] == ["examples/mcpserver_search.py", "examples/client_search.py"]
    for example, snippet in snippets:
        lines = {line.strip() for line in (ROOT / example).read_text(encoding="utf-8").splitlines()}
        own = {
            "anyio.run(main)",
            'SERVER = StdioServerParameters(command="python", args=["examples/mcpserver_search.py"])',
        }
        strange = [
            line
            for line in map(str.strip, snippet.splitlines())
            if line not in lines | own and not line.startswith(("print(", "from mcp import"))
        ]
        assert strange == []


def test_continuous_integration_runs_the_two_commands_that_the_readme_gives():
    commands = re.findall(r"<!-- ci: (\w+) -->\n```sh\n(.+)\n```", README)
    check = (ROOT / ".ci/run").read_text(encoding="utf-8")

    assert [name for name, _ in commands] == ["demo", "tests"]
    assert all(f"run_readme {name}" in check for name, _ in commands)
