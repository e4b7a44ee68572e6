"""What the README shows is what runs."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_snippet_stands_in_an_example_to_the_letter():
    sources = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").glob("*.py"))]
    snippets = re.findall(r"```python\n(.*?)```", README, re.DOTALL)

    assert len(snippets) == 3
    for snippet in snippets:
        assert any(snippet in source for source in sources), snippet


def test_every_file_that_the_readme_links_to_exists():
    links = re.findall(r"\]\(([^)#:]+)\)", README)

    assert len(links) > 10
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_continuous_integration_runs_the_two_commands_that_the_readme_gives():
    commands = re.findall(r"<!-- ci: (\w+) -->\n```sh\n(.+)\n```", README)
    check = (ROOT / ".ci/run").read_text(encoding="utf-8")

    assert [name for name, _ in commands] == ["demo", "tests"]
    assert all(f"run_readme {name}" in check for name, _ in commands)
