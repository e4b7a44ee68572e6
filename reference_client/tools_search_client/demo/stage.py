"""The demo's stage: a folder, published servers, a gateway over them, and a meter for the messages on a wire."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from mcp_types import JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from tools_search_client.demo.installation import Installation
from tools_search_client.demo.programs import START_SECONDS, StepError, running_gateway
from tools_search_client.demo.workspace import Workspace, demo_servers, make_workspace, missing_servers
from tools_search_client.federation.configuration import url_server
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import FederatedSearch
from tools_search_client.servers.connection import ConnectionOptions, Negotiation

Working: TypeAlias = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Shows that something takes its time, given its name; yields a function that takes note of how far it is."""


class WireMeter:
    """A `WireObserver` that counts every JSON-RPC message of a connection, in the bytes of its compact form."""

    def __init__(self) -> None:
        self.traffic: Final = Counter[str]()
        """`messages` and `bytes`, both ways together."""
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
        """Return parameters and result of the answered requests of one method, in the order of their answers."""
        return [(request.params or {}, result) for request, result in self._answered if request.method == method]

    def _count(self, message: JSONRPCMessage) -> None:
        size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        self.traffic.update(messages=1, bytes=size)


@dataclass
class Stage:
    """The state of one run, which its steps share."""

    workspace: Workspace
    servers: Mapping[str, Any]
    """The configuration of each server behind the gateway."""
    notes: tuple[str, ...]
    """The servers that this machine cannot run, each with the reason."""
    url: str
    gateway: Federation
    """The gateway, asked in the newest protocol."""
    meter: WireMeter
    """Of the messages between the gateway and this client."""
    answers: dict[str, FederatedSearch] = field(default_factory=dict[str, FederatedSearch])
    """The answer of the gateway to each query."""
    searching: list[Counter[str]] = field(default_factory=list[Counter[str]])
    """The traffic of each search."""
    progress: Callable[[str], None] = lambda _: None
    """Takes note of how far a step is that takes its time."""


@asynccontextmanager
async def open_stage(installation: Installation | None, working: Working) -> AsyncGenerator[Stage]:
    """Start the servers of the demo behind a gateway, in a temporary folder, until the block ends.

    Args:
        installation: The servers beyond this environment; `None` does without.
        working: Shows that starting them takes its time.

    Raises:
        StepError: There is no gateway.
    """
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
                raise StepError(f"the gateway does not answer: {report.failure.message}")
            async with over_gateway(url, "auto") as (gateway, meter):
                yield Stage(workspace, servers, missing_servers(workspace, installation), url, gateway, meter)


@asynccontextmanager
async def over_gateway(url: str, negotiation: Negotiation) -> AsyncGenerator[tuple[Federation, WireMeter]]:
    """Connect to the gateway in one era, with a meter of every message; only the steps' own messages pass."""
    meter = WireMeter()
    connection = ConnectionOptions(negotiation=negotiation, follow_changes=False, observer=meter)
    async with open_federation(url_server(url, name=""), FederationOptions(connection=connection)) as federation:
        yield federation, meter
