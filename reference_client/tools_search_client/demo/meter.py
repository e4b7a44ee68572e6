"""Counting what really passes on a wire: every JSON-RPC message, in the bytes of its compact form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from mcp_types import JSONRPCMessage, JSONRPCRequest, JSONRPCResponse

__all__ = ["Exchange", "Traffic", "WireMeter"]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages and their bytes, both ways together."""

    messages: int = 0
    bytes: int = 0

    def since(self, earlier: Traffic) -> Traffic:
        """Return what was added after `earlier`."""
        return Traffic(self.messages - earlier.messages, self.bytes - earlier.bytes)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and what it was answered with."""

    params: dict[str, Any]
    result: dict[str, Any]


class WireMeter:
    """Watches one connection or several; a `WireObserver`."""

    def __init__(self) -> None:
        self.traffic = Traffic()
        self._requests: dict[tuple[str, Any], dict[str, Any]] = {}
        self._methods: dict[Any, str] = {}
        self._exchanges: list[tuple[str, Exchange]] = []

    def sent(self, message: JSONRPCMessage) -> None:
        """Count a message to a server, and keep a request until it is answered."""
        self._count(message)
        if isinstance(message, JSONRPCRequest):
            self._methods[message.id] = message.method
            self._requests[message.method, message.id] = message.params or {}

    def received(self, message: JSONRPCMessage) -> None:
        """Count a message from a server, and put an answer to its request."""
        self._count(message)
        if isinstance(message, JSONRPCResponse) and message.id in self._methods:
            method = self._methods.pop(message.id)
            params = self._requests.pop((method, message.id))
            self._exchanges.append((method, Exchange(params, message.result)))

    def closed(self) -> None:
        """Take no note of the end."""

    def exchanges(self, method: str) -> Iterator[Exchange]:
        """Return the answered requests of one method, in the order of their answers."""
        return (exchange for name, exchange in self._exchanges if name == method)

    def _count(self, message: JSONRPCMessage) -> None:
        size = len(message.model_dump_json(by_alias=True, exclude_unset=True).encode())
        self.traffic = Traffic(self.traffic.messages + 1, self.traffic.bytes + size)
