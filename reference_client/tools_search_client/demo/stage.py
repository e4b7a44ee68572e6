"""What the steps of the demo share: the servers, the gateway before them, and what was found so far."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools_search_client.demo.meter import Traffic, WireMeter
from tools_search_client.demo.workspace import Workspace
from tools_search_client.federation.configuration import url_server
from tools_search_client.federation.federation import Federation, FederationOptions, open_federation
from tools_search_client.found import FederatedSearch
from tools_search_client.servers.connection import ConnectionOptions, Negotiation

__all__ = ["LIMIT", "PATIENCE_SECONDS", "Stage", "observed", "over_gateway"]

LIMIT: Final = 5
"""Tools per search: what a host would put in front of a model."""

PATIENCE_SECONDS: Final = 30
"""For all servers to be started on a machine that is slow or busy."""


@dataclass
class Stage:
    """The state of one run."""

    workspace: Workspace
    configuration: Path
    queries: Mapping[str, str]
    """What is searched for, each with the tool that is right for it."""
    url: str
    gateway: Federation
    """The gateway, asked in the newest protocol."""
    meter: WireMeter
    """What passes between the gateway and this client."""
    answers: dict[str, FederatedSearch] = field(default_factory=dict[str, FederatedSearch])
    """What each query found over the gateway."""
    searching: list[Traffic] = field(default_factory=list[Traffic])
    """What each search put on the wire."""
    progress: Callable[[str], None] = lambda _: None
    """Says how far a step is that takes its time."""


def observed(meter: WireMeter, negotiation: Negotiation = "auto") -> FederationOptions:
    """Return options under which every message is counted and nothing else passes than what the steps ask for."""
    connection = ConnectionOptions(negotiation=negotiation, follow_changes=False, observer=meter)
    return FederationOptions(connection=connection)


@asynccontextmanager
async def over_gateway(url: str, negotiation: Negotiation) -> AsyncGenerator[tuple[Federation, WireMeter]]:
    """Connect to the gateway in one era, with a meter."""
    meter = WireMeter()
    async with open_federation(url_server(url), observed(meter, negotiation)) as federation:
        yield federation, meter
