"""The servers of the demo, as the configuration file that any host could have."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tools_search_client.demo.installation import Installation
from tools_search_client.demo.workspace import Workspace

__all__ = ["demo_servers", "missing_packages", "notes", "write_configuration"]

_NEEDED: Final = {
    "bpe_openai": "bpe-openai",
    "excel_mcp": "excel-mcp-server",
    "mcp_server_git": "mcp-server-git",
    "mcp_server_time": "mcp-server-time",
}
"""Modules of the `demo` extra and the packages that bring them."""


def missing_packages() -> list[str]:
    """Return the packages of the `demo` extra that are not installed."""
    return [package for module, package in _NEEDED.items() if find_spec(module) is None]


def demo_servers(workspace: Workspace, installation: Installation | None) -> dict[str, Any]:
    """Return the `mcpServers` of the demo: what this machine can run, each confined to the workspace."""
    servers = _published_on_pypi(workspace)
    if installation and installation.legacy_server:
        arguments = ["--db-path", str(workspace.database)]
        servers["sqlite"] = {"command": str(installation.legacy_server), "args": arguments}
    if installation and installation.node_programs:
        servers |= _node_servers(installation.node_programs, workspace)
    return servers


def notes(workspace: Workspace, installation: Installation | None) -> tuple[str, ...]:
    """Return what this machine has to do without, and why."""
    missing = () if workspace.no_git is None else (f"without the git server: {workspace.no_git}",)
    return missing if installation is None else (*missing, *installation.notes)


def write_configuration(servers: dict[str, Any], path: Path) -> None:
    """Write the file that gateway and client read."""
    path.write_text(json.dumps({"mcpServers": servers}, indent=2), encoding="utf-8")


def _published_on_pypi(workspace: Workspace) -> dict[str, Any]:
    servers: dict[str, Any] = {}
    if workspace.no_git is None:
        arguments = ["-m", "mcp_server_git", "--repository", str(workspace.repository)]
        servers["git"] = {"command": sys.executable, "args": arguments}
    servers["time"] = {"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone", "UTC"]}
    arguments = ["-m", "excel_mcp", "stdio", "--allow-dir", str(workspace.folder)]
    servers["excel"] = {"command": sys.executable, "args": arguments}
    return servers


def _node_servers(programs: Path, workspace: Workspace) -> dict[str, Any]:
    memory = {"MEMORY_FILE_PATH": str(workspace.folder / "memory.json")}
    return {
        "everything": {"command": str(programs / "mcp-server-everything")},
        "files": {"command": str(programs / "mcp-server-filesystem"), "args": [str(workspace.folder)]},
        "memory": {"command": str(programs / "mcp-server-memory"), "env": memory},
    }
