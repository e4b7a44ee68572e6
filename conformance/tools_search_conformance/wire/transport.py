"""What both transports have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.record import Answer

__all__ = ["Transport", "TransportName"]

TransportName = Literal["stdio", "http"]


class Transport(Protocol):
    """Carries messages to one target and brings back what it answers."""

    @property
    def name(self) -> TransportName:
        """Which of the two it is."""
        ...

    @property
    def ended(self) -> str | None:
        """Why nothing more can be sent, or `None` while something can."""
        ...

    @property
    def malformed(self) -> list[str]:
        """What arrived and was no JSON-RPC message, and why, oldest first."""
        ...

    @property
    def noise(self) -> list[str]:
        """What a process wrote to its stdout and did not even begin as a message, oldest first."""
        ...

    @property
    def strays(self) -> list[JsonObject]:
        """Responses that answer no request that waits for one, oldest first."""
        ...

    async def request(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """Send a message with an id and wait up to `seconds` seconds for its response; never raises for the target."""
        ...

    async def notify(self, message: JsonObject, headers: Mapping[str, str], seconds: float) -> Answer:
        """Send a message that is not answered."""
        ...

    async def aclose(self) -> None:
        """Leave the target, or end it where this transport started it."""
        ...
