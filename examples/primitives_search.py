"""A server with resources that are found by their content, and prompts by their purpose.

Run it over stdio with `python examples/primitives_search.py`, or `python examples/primitives_search.py FOLDER` to serve
the text files of a folder.
"""

import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp.server.mcpserver.resources import FileResource
from mcp_ext_search_primitives.server import ResourcesSearch
from mcp_ext_tools_search.server import ToolsSearch

mcp = MCPServer("library")

folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1] / "spec").resolve()
for file in sorted(folder.rglob("*.md")):
    uri = f"library://{file.relative_to(folder).as_posix()}"
    mcp.add_resource(FileResource(uri=uri, name=file.name, path=file, mime_type="text/markdown"))


@mcp.resource("library://{chapter}/summary")
def summary(chapter: str) -> str:
    """The summary of one chapter."""
    return f"What {chapter} says, in one sentence."


@mcp.prompt()
def review(document: str, audience: str = "everyone") -> str:
    """Ask for a critical review of a document."""
    return f"Review {document} for {audience}."


ToolsSearch(resources=ResourcesSearch(contents=True), prompts=True).install(mcp)

if __name__ == "__main__":
    mcp.run()
