"""What a request to many servers came to: the answer, and what each server contributed to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Implementation, Tool

from tools_search_client.errors import FailureKind, ServerError, ServerRefused
from tools_search_client.servers.discovery import Era
from tools_search_client.servers.found import Mode

__all__ = [
    "Failure",
    "FederatedListing",
    "FederatedSearch",
    "FederatedTool",
    "ServerDescription",
    "ServerReport",
]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server contributed nothing."""

    kind: FailureKind
    message: str
    code: int | None = None
    """The JSON-RPC code where the server refused."""

    @classmethod
    def of(cls, error: ServerError) -> Failure:
        """Return the failure that `error` tells of."""
        return cls(error.kind, str(error), error.code if isinstance(error, ServerRefused) else None)


@dataclass(frozen=True, slots=True)
class ServerReport:
    """How one server did."""

    server: str
    mode: Mode | None
    """How it was asked; `None` where it never got so far."""
    era: Era | None
    milliseconds: float
    """From the request to this server's answer or failure, connecting included."""
    hits: int = 0
    """How many tools it contributed, before fusion."""
    left_out: int = 0
    """How many tools its listing is without, because the protocol forbids their definitions."""
    fallback: str | None = None
    """Why it was listed although it advertises the search."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class FederatedTool:
    """One tool among those of many servers."""

    name: str
    """Unambiguous, and valid for every model provider: what to call it by."""
    server: str
    tool: Tool
    hit: HitMetadata
    """Why its own server, or the ranking on this side, found it; empty for a listing."""
    mode: Mode
    """How it was found."""
    weight: float = 0.0
    """Of the fusion; comparable only within one answer."""


@dataclass(frozen=True, slots=True)
class FederatedSearch:
    """The fused answer, best first, and one report per server in the order of the configuration."""

    tools: tuple[FederatedTool, ...]
    servers: tuple[ServerReport, ...]

    @property
    def failed(self) -> tuple[ServerReport, ...]:
        """The servers whose tools are missing."""
        return tuple(report for report in self.servers if report.failure is not None)


@dataclass(frozen=True, slots=True)
class FederatedListing:
    """Every tool of every server that answered, in the order of the configuration and of each server."""

    tools: tuple[FederatedTool, ...]
    servers: tuple[ServerReport, ...]


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What one server is and offers."""

    report: ServerReport
    info: Implementation | None = None
    protocol_version: str | None = None
    settings: dict[str, Any] | None = None
    """As advertised, on the wire's names; `None` where it offers no search."""
    tools: int | None = None
    """How many tools it has: counted where it was listed, as advertised where it is searched."""
