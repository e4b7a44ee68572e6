"""The example with resources and prompts, run as its first lines say, over real stdio in both eras."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_ext_search_primitives import PROMPTS, RESOURCE_TEMPLATES, RESOURCES
from mcp_ext_search_primitives.client import find
from mcp_ext_tools_search.client import TOOLS_SEARCH
from mcp_types import TextContent, TextResourceContents

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[1] / "primitives_search.py"


@pytest.mark.parametrize("era", ["auto", "legacy"], ids=["modern", "legacy"])
async def test_a_document_is_found_by_what_it_says_and_a_prompt_by_what_it_does(era: str, tmp_path: Path) -> None:
    (tmp_path / "terms.md").write_text("A parcel that is lost on its way is paid for by us.")
    (tmp_path / "menu.md").write_text("Soup, and bread.")
    target = StdioServerParameters(command=sys.executable, args=[str(EXAMPLE), str(tmp_path)])
    with anyio.fail_after(60):
        async with Client(target, mode=era, extensions=[TOOLS_SEARCH]) as client:
            (document, *_) = (await find(RESOURCES, client, "who pays for lost parcels")).items
            assert document.uri == "library://terms.md"
            [content] = (await client.read_resource(document.uri)).contents
            assert isinstance(content, TextResourceContents)
            assert "paid for by us" in content.text
            (prompt, *_) = (await find(PROMPTS, client, "what do critics think of my text")).items
            message = (await client.get_prompt(prompt.name, {"document": "terms.md"})).messages[0]
            assert isinstance(message.content, TextContent)
            assert message.content.text == "Review terms.md for everyone."
            assert (await find(RESOURCE_TEMPLATES, client, "summary of a chapter")).items[0].name == "summary"
