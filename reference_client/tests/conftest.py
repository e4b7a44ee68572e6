"""Servers as processes, honest and not, for every test of this folder."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Generator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event

import anyio
import pytest
from anyio.abc import Process
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp_ext_tools_search.ranking import Hit, ToolIndex
from mcp_types import Tool
from tools_search_client.known_tools import MANY
from tools_search_client.servers.connection import ConnectionOptions
from tools_search_client.servers.discovery_options import DiscoveryOptions
from tools_search_hosts import HttpTarget, StdioTarget
from tools_search_ranking import default_ranker

SERVERS = Path(__file__).parent / "fixtures" / "servers"

CATALOG = {
    "tools": [
        {"name": f"{verb}_{noun}", "description": f"{verb.title()} one {noun}.", "inputSchema": {"type": "object"}}
        for verb in ("create", "delete", "list")
        for noun in ("invoice", "customer", "shipment", "refund")
    ]
}


class LiarProcess:
    """How to start the by-hand server of `fixtures/servers/liar.py`, and what it was asked."""

    def __init__(self, log: Path, arguments: tuple[str, ...]) -> None:
        self.log = log
        self.target = StdioTarget(sys.executable, (str(SERVERS / "liar.py"), "--log", str(log), *arguments))

    def asked(self, *methods: str) -> list[str]:
        """Return the requests of these methods that arrived, in order; all where none is named."""
        lines = self.log.read_text().split() if self.log.exists() else []
        return [line for line in lines if not methods or line in methods]

    @property
    def pid(self) -> int:
        """The process that was started last."""
        return int(self.log.with_suffix(".pid").read_text())

    def open_gate(self) -> None:
        """Let the fault `gated` answer the search that it has received, or receives next."""
        self.gate.write_bytes(b"")

    @property
    def gate(self) -> Path:
        """The named pipe that the fault `gated` waits at."""
        return self.log.with_suffix(".gate")

    def as_configured(self) -> dict[str, object]:
        """Return the server as a configuration file has it."""
        return {"command": self.target.command, "args": list(self.target.args)}


@pytest.fixture
def liar(tmp_path: Path) -> Callable[..., LiarProcess]:
    """Return a maker of servers that break one rule: `liar(fault, era=…, place=…, tools=…)`."""
    count = 0

    def make(fault: str = "none", **options: object) -> LiarProcess:
        nonlocal count
        count += 1
        arguments = [text for name, value in options.items() for text in (f"--{name}", str(value))]
        made = LiarProcess(tmp_path / f"requests-{count}.log", ("--fault", fault, *arguments))
        if fault.endswith("gated"):
            os.mkfifo(made.gate)
        return made

    return make


@pytest.fixture(scope="session")
def liar_process() -> type[LiarProcess]:
    """Make such servers for more than one test."""
    return LiarProcess


@pytest.fixture(params=["modern", "legacy"])
def era(request: pytest.FixtureRequest) -> str:
    """Each of the two families of protocol revisions."""
    return request.param


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A catalog of twelve tools, for `tools-search-server --catalog`."""
    path = tmp_path / "catalog.json"
    path.write_text(json.dumps(CATALOG))
    return path


@pytest.fixture
def reference_program(catalog: Path) -> StdioTarget:
    """The reference server over stdio."""
    return StdioTarget(sys.executable, ("-m", "tools_search_server", "--catalog", str(catalog)))


@pytest.fixture
def plain_program() -> StdioTarget:
    """A server of the SDK over stdio that knows nothing of the extension."""
    return StdioTarget(sys.executable, (str(SERVERS / "plain.py"),))


@contextmanager
def _serving(*arguments: str) -> Generator[str]:
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            yield json.loads(line)["url"] if line.startswith("{") else line.strip()
        finally:
            process.kill()


@pytest.fixture(scope="session")
def reference_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpTarget]:
    """The same two over HTTP, where they are started once: the reference server with the catalog of twelve tools."""
    path = tmp_path_factory.mktemp("reference") / "catalog.json"
    path.write_text(json.dumps(CATALOG))
    with _serving("-m", "tools_search_server", "--catalog", str(path), "--http", "127.0.0.1:0") as url:
        yield HttpTarget(url)


@pytest.fixture(scope="session")
def plain_server() -> Iterator[HttpTarget]:
    """The one that knows nothing of the extension."""
    with _serving(str(SERVERS / "plain.py"), "--http") as url:
        yield HttpTarget(url)


@pytest.fixture(scope="session")
def asking_server() -> Iterator[HttpTarget]:
    """A server that asks back while it is called."""
    with _serving(str(SERVERS / "asking.py"), "--http") as url:
        yield HttpTarget(url)


@pytest.fixture(scope="session")
def notes_servers() -> Iterator[dict[str, HttpTarget]]:
    """Two servers with prompts, resources and templates, by their names."""
    with ExitStack() as running:
        yield {
            name: HttpTarget(running.enter_context(_serving(str(SERVERS / "notes.py"), name)))
            for name in ("ann", "bob")
        }


@pytest.fixture
def write_configuration(tmp_path: Path) -> Callable[[dict[str, object]], Path]:
    """Return a writer of `mcpServers` files."""

    def write(servers: dict[str, object]) -> Path:
        path = tmp_path / "mcp.json"
        path.write_text(json.dumps({"mcpServers": servers}))
        return path

    return write


@pytest.fixture
def impatient() -> ConnectionOptions:
    """Options under which a server that hangs is given up soon."""
    return ConnectionOptions(discovery=DiscoveryOptions(request_timeout=1.0, call_timeout=1.0))


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], Awaitable[None]]:
    """Return a waiter for what others bring about; the test's own deadline bounds it."""

    async def wait(condition: Callable[[], bool]) -> None:
        while not condition():  # noqa: ASYNC110 - what other processes do sets no events
            await anyio.sleep(0.01)  # they need the processor

    return wait


class PatientRanker:
    """Indexes many tools only once the event loop has gone on, and fails if it does not."""

    def __init__(self) -> None:
        self.indexed: list[list[str]] = []
        """The names of the tools of each index."""
        self.is_at_many, self.goes_on = Event(), Event()

    def __call__(self, tools: Sequence[Tool], /) -> ToolIndex:
        self.indexed.append([tool.name for tool in tools])
        if len(tools) >= MANY:
            self.is_at_many.set()
            if not self.goes_on.wait(10):
                raise TimeoutError("the event loop stands still")
        return _Fixed(default_ranker()(tools))


@dataclass(frozen=True)
class _Fixed:
    """An index that cannot be updated, so that all is indexed again after each change."""

    index: ToolIndex

    def search(self, query: str, *, visible: Collection[str] | None = None) -> Sequence[Hit]:
        return self.index.search(query, visible=visible)


@pytest.fixture
def patient_ranker() -> PatientRanker:
    """A ranker that shows whether the event loop goes on while it indexes."""
    return PatientRanker()


ServeHttp = Callable[..., AbstractAsyncContextManager[tuple[str, Process]]]


@pytest.fixture
def serve_http(tmp_path: Path) -> ServeHttp:
    """Return a starter of servers over HTTP: `async with serve_http("--catalog", …) as (url, process)`.

    Given `plain`, it starts the server of `fixtures/servers/plain.py` with those options.
    """

    @asynccontextmanager
    async def serve(*arguments: str, plain: str | None = None) -> AsyncGenerator[tuple[str, Process]]:
        ours = ["-m", "tools_search_server", *arguments, "--http", "127.0.0.1:0"]
        command = [sys.executable, *([str(SERVERS / "plain.py"), *plain.split()] if plain else ours)]
        with (tmp_path / "http-server.log").open("w") as log:
            async with await anyio.open_process(command, stderr=log) as process:
                assert process.stdout is not None
                line = await BufferedByteReceiveStream(process.stdout).receive_until(b"\n", 1000)
                try:
                    yield (line.decode() if plain else json.loads(line)["url"]), process
                finally:  # else a test that fails waits for the server for ever
                    if process.returncode is None:
                        process.kill()

    return serve
