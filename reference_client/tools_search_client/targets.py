"""What a server is reached by: declarations, with impossible ones refused when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

__all__ = ["HttpTarget", "ServerEntry", "StdioTarget", "Target"]


@dataclass(frozen=True, slots=True)
class StdioTarget:
    """A server that is started as a process and spoken to over its standard streams."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    """Added to the few variables that every server inherits (`PATH`, `HOME` and the like)."""
    cwd: str | None = None

    def __post_init__(self) -> None:
        if not self.command.strip():
            raise ValueError("`command` must name a program")


@dataclass(frozen=True, slots=True)
class HttpTarget:
    """A server that runs elsewhere."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    transport: Literal["streamable-http", "sse"] = "streamable-http"

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"`url` must be like https://host/mcp, not {self.url!r}")


Target: TypeAlias = StdioTarget | HttpTarget


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One configured server."""

    name: str
    """As configured; empty for the only server of a run that needs no name."""

    target: Target

    defer_loading: bool = False
    """Whether a host keeps this server's tools from its model until they are searched for."""
