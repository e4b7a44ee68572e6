"""What the tests of the reference server share: processes, clients of both eras, and gateways in this process."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp_ext_tools_search.client import TOOLS_SEARCH
from tools_search_server.base.limits import Limits
from tools_search_server.compat.definitions import CompatOptions
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.gateway import gateway_program

# Besides fixtures, these tests share the functions in `clients.py` next to this file.
sys.path.insert(0, str(Path(__file__).parent))
from clients import UPSTREAMS, server_entry

Transport = Literal["stdio", "http"]


@dataclass
class Servers:
    """Starts `tools-search-server` and the other programs of a test; ends them all."""

    running: list[subprocess.Popen[str]] = field(default_factory=list[subprocess.Popen[str]])

    def start(self, *argv: str, env: Mapping[str, str] | None = None, **options: Any) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *argv], env=os.environ | dict(env or {}), text=True, stdout=subprocess.PIPE, **options
        )
        self.running.append(process)
        return process

    async def start_on(self, port: int, *argv: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[str]:
        """Start a program, and wait until it accepts connections on `port`."""
        process = self.start(*argv, env=env)
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.02)
            else:
                return process

    def start_http(self, *arguments: str, env: Mapping[str, str] | None = None, **options: Any) -> str:
        """Start the server on a free port and return its URL."""
        process = self.start("-m", "tools_search_server", "--http", "127.0.0.1:0", *arguments, env=env, **options)
        assert process.stdout is not None
        return json.loads(process.stdout.readline())["url"]

    def end(self) -> None:
        for process in self.running:
            process.terminate()
        for process in self.running:
            process.communicate(timeout=20)


@pytest.fixture
def servers() -> Generator[Servers]:
    started = Servers()
    yield started
    started.end()


Connect = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def connect(servers: Servers) -> Connect:
    """Connect to the server in a process of its own, over either transport, in either era."""

    @asynccontextmanager
    async def connected(
        transport: Transport, mode: str, *arguments: str, env: dict[str, str] | None = None, **options: Any
    ) -> AsyncGenerator[Client]:
        if transport == "http":
            target: Any = await anyio.to_thread.run_sync(lambda: servers.start_http(*arguments, env=env))
        else:
            argv = ["-m", "tools_search_server", *arguments]
            # The SDK hands down few variables; coverage of child processes needs its own.
            target = StdioServerParameters(command=sys.executable, args=argv, env=dict(os.environ) | (env or {}))
        async with Client(target, mode=mode, extensions=[TOOLS_SEARCH], **options) as client:
            yield client

    return connected


@pytest.fixture
def raw() -> Callable[..., dict[str, Any]]:
    """Return the configuration of an upstream without an SDK."""

    def entry(behavior: str, *folder: Path) -> dict[str, Any]:
        return server_entry("raw.py", behavior, *folder)

    return entry


@pytest.fixture
def versatile() -> Callable[[Path], dict[str, Any]]:
    """Return the configuration of an upstream on the SDK."""

    def entry(folder: Path) -> dict[str, Any]:
        return server_entry("versatile.py", folder)

    return entry


@pytest.fixture
def configuration(tmp_path: Path) -> Callable[..., Path]:
    """Write an mcp.json."""

    def write(**entries: Any) -> Path:
        file = tmp_path / "mcp.json"
        file.write_text(json.dumps({"mcpServers": entries}))
        return file

    return write


@pytest.fixture
def gateway(configuration: Callable[..., Path]) -> Connect:
    """Connect to a gateway in this process, whose upstream servers are real."""

    @asynccontextmanager
    async def connected(
        mode: str,
        *,
        start_deadline: float = 20,
        call_timeout: float = 20,
        client: dict[str, Any] | None = None,
        **entries: Any,
    ) -> AsyncGenerator[Client]:
        options = GatewayOptions(start_deadline, call_timeout)
        program = gateway_program(configuration(**entries), Limits(), options)
        async with (
            program.lifespan(),
            Client(program.server, mode=mode, extensions=[TOOLS_SEARCH], **(client or {})) as connected_client,
        ):
            yield connected_client
            program.on_stop()

    return connected


@pytest.fixture
def compat_gateway() -> Connect:
    """Connect to a compatibility endpoint in this process, whose upstream servers are real."""

    @asynccontextmanager
    async def connected(
        compat: str, mode: str, file: Path, *, prefix: str = "", most_tools: int = 100, **client: Any
    ) -> AsyncGenerator[Client]:
        chosen = CompatOptions((compat,), prefix, most_tools)
        program = gateway_program(file, Limits(), GatewayOptions(20, 20), chosen, over_http=False)
        async with program.lifespan(), Client(program.server, mode=mode, **client) as connected_client:
            yield connected_client
            program.on_stop()

    return connected


@pytest.fixture
def hostile(servers: Servers, unused_tcp_port: int) -> Callable[..., Any]:
    """Return the configuration of a hostile server, which is started where it is to be reached over HTTP."""

    async def start(way: str, era: str, behavior: str = "good", **env: str) -> dict[str, Any]:
        if way == "stdio":
            return server_entry("excessive.py", way, era, behavior) | {"env": env}
        argv = (str(UPSTREAMS / "excessive.py"), way, era, behavior, str(unused_tcp_port))
        await servers.start_on(unused_tcp_port, *argv, env=env)
        return {"url": f"http://127.0.0.1:{unused_tcp_port}/mcp"}

    return start


@pytest.fixture
def labeled() -> dict[str, Any]:
    """Return the configuration of an upstream whose tools have groups and tags."""
    return server_entry("labeled.py")


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Any]:
    """Wait until something in the world outside has happened; the test's deadline bounds it."""

    async def wait(happened: Callable[[], bool]) -> None:
        while not happened():  # noqa: ASYNC110 - other processes set no events
            await anyio.sleep(0.02)

    return wait


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    """Return whether a process exists and is no zombie."""

    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    return alive


@pytest.fixture
def kill() -> Callable[[Path], int]:
    """Kill the upstream that wrote its process id into a folder; return the id."""

    def killed(folder: Path) -> int:
        pid = int((folder / "pid").read_text())
        os.kill(pid, signal.SIGKILL)
        return pid

    return killed


@pytest.fixture
def unused_tcp_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
