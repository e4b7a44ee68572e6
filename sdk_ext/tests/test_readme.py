"""The README's snippets run as they stand."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult

pytestmark = pytest.mark.anyio

README = Path(__file__).parents[1] / "README.md"


async def test_the_client_of_the_readme_searches_and_calls_the_server_of_the_readme() -> None:
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    names: dict[str, Any] = {"__name__": "readme"}
    with anyio.fail_after(30):
        for snippet in snippets:
            code = compile(snippet, README, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            outcome = eval(code, names)  # noqa: S307 - our own README
            if inspect.isawaitable(outcome):
                await outcome
    result = names["result"]
    assert len(snippets) == 2
    assert isinstance(result, CallToolResult)
    assert result.structured_content == {"result": "sent 3 to Ada"}


def test_the_readme_is_read_in_one_sitting_and_its_links_lead_somewhere() -> None:
    text = README.read_text()
    assert len(text.splitlines()) <= 60
    for link in re.findall(r"\]\((\.\./examples/[^)]+)\)", text):
        assert (README.parent / link).is_file()
