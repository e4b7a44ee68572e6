"""An MCP server of documents: the README of every Python package in this environment.

It has no search of its own; the demo's gateway lists its resources, reads their texts and searches both.
"""

from __future__ import annotations

from importlib.metadata import distributions

from mcp.server import MCPServer
from mcp.server.mcpserver.resources import TextResource


def packages_server() -> MCPServer:
    """Return a server with one resource, `readme://NAME`, for each installed package that has a README."""
    server = MCPServer("packages")
    readmes = {package.name: package.metadata.json.get("description") for package in distributions()}
    for name, text in sorted(readmes.items()):
        if text:
            server.add_resource(
                TextResource(uri=f"readme://{name}", name=name, text=str(text), mime_type="text/markdown")
            )
    return server


if __name__ == "__main__":
    packages_server().run()
