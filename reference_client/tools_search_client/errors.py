"""Exceptions, grouped by whose fault they are.

    ToolsSearchClientError
    ├── LocalError                      correct the call or the configuration; nothing was sent
    │   ├── ConfigurationError          the configuration file, with every problem and its place
    │   ├── UnknownToolError            no server offers a tool of that name; the closest are named
    │   └── AmbiguousToolError          several servers offer it; the full names are given
    ├── InvalidAnswerError              a model's provider answered, but not in its own format
    └── ServerError                     one server's fault; the others go on
        ├── ServerUnavailableError      could not be started or reached, or died
        ├── ServerTimeoutError          did not answer in time
        ├── ServerRefusedError          answered with a JSON-RPC error
        │   └── ServerBusyError         is too busy to search at the moment
        └── InvalidServerResultError    answered, but not as the protocol says

Texts that quote a server hold what that server sent: clean them with `tools_search_client.text` before they reach a
terminal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import tools_search_hosts as hosts

FailureKind = Literal["unavailable", "timeout", "refused", "busy", "invalid-result"]
"""Short names of the ways in which a server fails, as reports and `--json` show them."""


class ToolsSearchClientError(Exception):
    """Base of every error that this package raises on purpose."""


class LocalError(ToolsSearchClientError):
    """The caller's or the operator's mistake."""


class ConfigurationError(LocalError, hosts.ConfigurationError):
    """A configuration that cannot be used; the message lists every problem, its place and its remedy."""


class UnknownToolError(LocalError):
    """No server that answered offers a tool of this name."""

    def __init__(self, name: str, closest: Sequence[str] = (), failed: Sequence[str] = ()) -> None:
        self.name = name
        self.closest = tuple(closest)
        self.failed = tuple(failed)
        text = f"no tool is named {name!r}"
        if self.closest:
            text += f"; the closest are {', '.join(self.closest)}"
        if self.failed:
            text += f" (not asked, because they failed: {', '.join(self.failed)})"
        super().__init__(text)


class AmbiguousToolError(LocalError):
    """Several servers offer a tool of this bare name."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(f"several servers offer {name!r}: say which with {' or '.join(self.candidates)}")


class InvalidAnswerError(ToolsSearchClientError):
    """The answer of a model's provider is not in its own format; the conversation is as it was before."""


class ServerError(ToolsSearchClientError):
    """A server failed to do its part."""

    kind: ClassVar[FailureKind]


class ServerUnavailableError(ServerError):
    """The server could not be started or reached, or the connection ended."""

    kind = "unavailable"


class ServerTimeoutError(ServerError):
    """The server did not answer before the deadline."""

    kind = "timeout"


class ServerRefusedError(ServerError):
    """The server answered a request with a JSON-RPC error."""

    kind = "refused"

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        self.code = code
        self.data = data
        super().__init__(f"{message} ({code})")


class ServerBusyError(ServerRefusedError):
    """The server is too busy to search at the moment; listing it would not help."""

    kind = "busy"

    def __init__(self, code: int, message: str, data: Any, retry_after: float) -> None:
        super().__init__(code, message, data)
        self.retry_after = retry_after
        """In how many seconds it may be searched again, as the server said."""


class InvalidServerResultError(ServerError):
    """The server's answer breaks the protocol: a wrong shape, a cursor loop, a listing without end."""

    kind = "invalid-result"
