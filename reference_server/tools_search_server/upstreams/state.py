"""An upstream's state and greeting, the errors of an unavailable one, and the delays between attempts."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

import anyio
from mcp import Client, MCPError
from mcp_ext_tools_search.types import EXTENSION_ID, METHOD
from mcp_types import ServerCapabilities
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ConfigDict
from tools_search_hosts.endings import connection_ended, malformed, refused_status, timed_out

from tools_search_server.base.redaction import printable, quoted

_FIRST_DELAY: Final = 0.5
_MAX_DELAY: Final = 60
_FIRST_DELAY_AFTER_EXCESS: Final = 60
_MAX_DELAY_AFTER_EXCESS: Final = 3600

STEADY_SECONDS: Final = 30
"""How long an attempt must last before the delays start over from the shortest."""

_MAX_INSTRUCTIONS_CHARS: Final = 4_000
_MAX_SUMMARY_CHARS: Final = 120


class UnavailableError(Exception):
    """The server is unavailable, or went away before it answered. The message says which, and since when."""


class SessionLostError(UnavailableError):
    """The server has restarted and no longer knows the session, so it did not process the request."""


def explained(error: MCPError) -> str:
    """Return what happened to a request that failed with `error`, with the server's own words in quotation marks."""
    # The SDK has its own words for these, which are not the server's.
    if connection_ended(error):
        return "it closed the connection"
    if timed_out(error):
        return "it did not answer in time"
    if malformed(error):
        return printable(error.message)
    if (status := refused_status(error)) is not None:
        return f"it answered HTTP {status}"
    return f"it answered with error {error.code}: {quoted(error.message)}"


StateKind: TypeAlias = Literal["starting", "ready", "idle", "down"]
"""`idle`: not connected because there has been no request for a while."""


@dataclass(frozen=True)
class State:
    """An upstream's state, since when, and why. `upstream.py` lists the transitions."""

    kind: StateKind
    since: datetime
    reason: str = ""

    @property
    def is_usable(self) -> bool:
        """Whether its tools are available."""
        return self.kind in ("ready", "idle")

    def __str__(self) -> str:
        since = f"since {self.since:%Y-%m-%d %H:%M:%S} UTC"
        return f"{self.kind} {since}: {self.reason}" if self.reason else f"{self.kind} {since}"


class Greeting(BaseModel):
    """What a server says about itself on connection."""

    model_config = ConfigDict(extra="forbid")

    summary: str = ""
    """Its purpose in its own words, on one short line."""

    instructions: str = ""
    """Its instructions to models, on one line."""

    protocol: str | None = None
    """The negotiated protocol revision."""

    capabilities: ServerCapabilities | None = None
    """`None` until the server has been reached once."""

    @classmethod
    def of(cls, client: Client) -> Greeting:
        """Return the greeting of a connected server."""
        info, stated = client.server_info, client.instructions or ""
        summary = _on_one_line((info and (info.description or info.title)) or stated, _MAX_SUMMARY_CHARS)
        instructions = _on_one_line(stated, _MAX_INSTRUCTIONS_CHARS) or summary
        return cls(
            summary=summary,
            instructions=instructions,
            protocol=client.protocol_version,
            capabilities=client.server_capabilities,
        )

    @property
    def features(self) -> list[str]:
        """Names of what the server offers in addition to tools."""
        offered = self.capabilities or ServerCapabilities()
        named = {
            "resources": offered.resources,
            "prompts": offered.prompts,
            "completions": offered.completions,
            METHOD: (offered.extensions or {}).get(EXTENSION_ID),
        }
        return [name for name, capability in named.items() if capability is not None]


def _on_one_line(text: str, max_chars: int) -> str:
    return printable(text).replace('"', "'").encode("utf-8", "replace").decode()[:max_chars]


def is_modern(client: Client) -> bool:
    """Return whether the negotiated revision is 2026-07-28 or later."""
    return client.protocol_version in MODERN_PROTOCOL_VERSIONS


def backoff_delays(longest: float = _MAX_DELAY, *, first: float = _FIRST_DELAY) -> Iterator[float]:
    """Yield growing delays in seconds, randomized so that many servers do not reconnect at the same time."""
    spread = secrets.SystemRandom()
    delay = first
    while True:
        yield delay * spread.uniform(0.5, 1.5)
        delay = min(delay * 2, longest)


class Retries:
    """Growing delays between attempts at a lasting operation. They start over after an attempt that lasted."""

    def __init__(self, longest: float = _MAX_DELAY) -> None:
        self._longest = longest
        self._delays = backoff_delays(longest)
        self._began = anyio.current_time()

    async def pause(self) -> None:
        """Wait before the next attempt."""
        if anyio.current_time() - self._began > STEADY_SECONDS:
            self._delays = backoff_delays(self._longest)
        await anyio.sleep(next(self._delays))
        self._began = anyio.current_time()


def attempt_delays() -> dict[bool, Iterator[float]]:
    """Return the delays between attempts to reach a server, by whether it has exceeded the size limits.

    A server that has is not contacted for at least a minute, because each attempt takes time from all other servers.
    """
    after_excess = backoff_delays(_MAX_DELAY_AFTER_EXCESS, first=_FIRST_DELAY_AFTER_EXCESS)
    return {False: backoff_delays(), True: after_excess}
