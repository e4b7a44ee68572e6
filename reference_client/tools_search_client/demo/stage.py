"""The state that the demo's steps share, the results of steps, and a meter for the messages on a wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from mcp_types import JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

from tools_search_client.demo.workspace import Workspace
from tools_search_client.federation.configuration import url_server
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import FederatedSearch
from tools_search_client.servers.connection import ConnectionOptions, Negotiation

START_SECONDS: Final = 30
"""For all servers to start on a machine that is slow or busy."""


class StepError(Exception):
    """A step could not show what it is there to show; the message says why."""


@dataclass(frozen=True, slots=True)
class Shown:
    """The result of a step, for programs and for people."""

    facts: dict[str, Any]
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StepReport:
    """A step that is over."""

    name: str
    title: str
    seconds: float
    shown: Shown = field(default_factory=lambda: Shown({}))
    problem: str | None = None
    """Why it failed; `None` where it did not."""

    def to_json(self) -> dict[str, Any]:
        """Return the step as `--json` prints it."""
        result: dict[str, Any] = {"step": self.name, "ok": self.problem is None, "seconds": round(self.seconds, 2)}
        if self.problem is not None:
            result["problem"] = self.problem
        return result | self.shown.facts


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages and their bytes, both ways together."""

    messages: int = 0
    bytes: int = 0

    def since(self, earlier: Traffic) -> Traffic:
        """Return the traffic after `earlier`."""
        return Traffic(self.messages - earlier.messages, self.bytes - earlier.bytes)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its result."""

    method: str
    params: dict[str, Any]
    result: dict[str, Any]


class WireMeter:
    """A `WireObserver` that counts every JSON-RPC message of a connection, in the bytes of its compact form."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self._requests: dict[Any, JSONRPCRequest] = {}
        self._exchanges: list[Exchange] = []

    def sent(self, message: JSONRPCMessage) -> None:
        """Count a message to a server, and keep a request until it is answered."""
        self._count(message)
        if isinstance(message, JSONRPCRequest):
            self._requests[message.id] = message

    def received(self, message: JSONRPCMessage) -> None:
        """Count a message from a server, and match a result with its request."""
        self._count(message)
        if isinstance(message, JSONRPCResponse) and message.id in self._requests:
            request = self._requests.pop(message.id)
            self._exchanges.append(Exchange(request.method, request.params or {}, message.result))

    def closed(self) -> None:
        """Do nothing at the end of the connection."""

    def exchanges(self, method: str) -> Iterator[Exchange]:
        """Return the answered requests of one method, in the order of their answers."""
        return (exchange for exchange in self._exchanges if exchange.method == method)

    def _count(self, message: JSONRPCMessage) -> None:
        size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        self.traffic = Traffic(self.traffic.messages + 1, self.traffic.bytes + size)


@dataclass
class Stage:
    """The state of one run."""

    workspace: Workspace
    configuration: Path
    queries: Mapping[str, str]
    """The searches, each with the tool that is right for it."""
    url: str
    gateway: Federation
    """The gateway, asked in the newest protocol."""
    meter: WireMeter
    """Of the messages between the gateway and this client."""
    answers: dict[str, FederatedSearch] = field(default_factory=dict[str, FederatedSearch])
    """The answer of the gateway to each query."""
    searching: list[Traffic] = field(default_factory=list[Traffic])
    """The traffic of each search."""
    progress: Callable[[str], None] = lambda _: None
    """Takes note of how far a step is that takes its time."""


def observed(meter: WireMeter, negotiation: Negotiation = "auto") -> FederationOptions:
    """Return options under which every message is counted, and only the steps' own messages pass."""
    connection = ConnectionOptions(negotiation=negotiation, follow_changes=False, observer=meter)
    return FederationOptions(connection=connection)


@asynccontextmanager
async def over_gateway(url: str, negotiation: Negotiation) -> AsyncGenerator[tuple[Federation, WireMeter]]:
    """Connect to the gateway in one era, with a meter."""
    meter = WireMeter()
    async with open_federation(url_server(url), observed(meter, negotiation)) as federation:
        yield federation, meter
