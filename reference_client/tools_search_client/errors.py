"""Exceptions, grouped by whose fault they are.

A `LocalError` is the caller's, who has to correct the call or the configuration; nothing was sent. A `ServerError` is
one server's, and the others go on. A `HostError` is that of the host's own program.

The text of a `ServerError` may quote its server: it can be shown in a terminal, and is as little to be trusted as
anything that a server says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import tools_search_hosts as hosts

from tools_search_client.text import printable

FailureKind = Literal["unavailable", "unauthorized", "timeout", "refused", "busy", "invalid-result", "host"]
"""Short names of the ways in which a server fails, as reports and `--json` show them; `host` is no fault of it."""


class ToolsSearchClientError(Exception):
    """Base of every error that this package raises on purpose."""


class LocalError(ToolsSearchClientError):
    """The caller's or the operator's mistake."""


class ConfigurationError(LocalError, hosts.ConfigurationError):
    """A configuration that cannot be used; the message lists every problem, its place and its remedy."""


class SavedConversationError(LocalError):
    """A saved conversation cannot be read: another version, another shape, or too large; nothing was restored."""


class UnknownToolError(LocalError):
    """No server that answered offers a tool of this name."""

    def __init__(
        self, name: str, closest: Sequence[str] = (), errors: Mapping[str, ServerError | HostError] | None = None
    ) -> None:
        self.name = name
        self.closest = tuple(closest)
        self.errors = dict(errors or {})
        """What was raised by the servers that could not be asked."""
        self.failed = {server: Failure.of(error) for server, error in self.errors.items()}
        text = f"no tool is named {name!r}"
        if self.closest:
            text += f"; the closest {'is' if len(self.closest) == 1 else 'are'} {', '.join(self.closest)}"
        if self.failed:
            reasons = [f"{server}: {failure}" if server else str(failure) for server, failure in self.failed.items()]
            text += f" (not asked, because they failed: {'; '.join(reasons)})"
        super().__init__(text)


class AmbiguousToolError(LocalError):
    """Several servers offer a tool of this bare name."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(f"several servers offer {name!r}: say which with {' or '.join(self.candidates)}")


class InvalidAnswerError(ToolsSearchClientError):
    """The answer of a model's provider is not in its own format; the conversation is as it was before."""


class RerankingError(ToolsSearchClientError):
    """The host's re-ranker failed, was late, or gave no order of the tools that it was given."""


class HostError(ToolsSearchClientError):
    """Something that the host brought raised, such as its token store or a callback: `__cause__` is what it raised.

    The message has only the kind of that, since a model may read it.
    """

    kind: ClassVar[FailureKind] = "host"

    def __init__(self, part: str, error: Exception, reason: str = "") -> None:
        self.part = part
        reason = reason or (isinstance(error, OSError) and error.strerror) or type(error).__name__
        super().__init__(f"{part} of the host failed: {reason}")
        self.__cause__ = error


class ServerError(ToolsSearchClientError):
    """A server failed to do its part."""

    kind: ClassVar[FailureKind]

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class ServerUnavailableError(ServerError):
    """The server could not be started or reached, or the connection ended."""

    kind = "unavailable"


@dataclass(frozen=True, slots=True)
class Challenge:
    """The authorization that a server asks for, as far as its answer says so."""

    status: int
    """401, or 403 where the authorization that was given does not suffice."""

    scheme: str = ""
    """The scheme of `WWW-Authenticate`, such as `Bearer`."""

    scope: str = ""
    """Scopes, separated by spaces."""

    resource_metadata: str = ""
    """Where the server describes its authorization servers (RFC 9728): a client can sign in with OAuth there."""

    problem: str = ""
    """The fault of the authorization that was given."""


class UnauthorizedError(ServerUnavailableError):
    """The server answers only those whom it knows (HTTP 401), or not everything that they may ask (HTTP 403)."""

    kind = "unauthorized"

    def __init__(self, challenge: Challenge) -> None:
        self.challenge = challenge
        stated = [f"scheme {challenge.scheme}"] if challenge.scheme else []
        stated += [f"scope {challenge.scope!r}"] if challenge.scope else []
        text = f"it answered HTTP {challenge.status}"
        text += f" and asks for authorization ({', '.join(stated)})" if stated else " and asks for authorization"
        text += f"; {challenge.problem}" if challenge.problem else ""
        super().__init__(text)


class ConsentRefusedError(ServerError):
    """The person who was to sign in said no; asking again at once would not help."""

    kind = "unauthorized"


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


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server contributed nothing to an answer."""

    kind: FailureKind
    message: str
    code: int | None = None
    """The JSON-RPC code where the server refused."""
    challenge: Challenge | None = None
    """What the server asks for where the kind is `unauthorized`."""

    @classmethod
    def of(cls, error: ServerError | HostError) -> Failure:
        """Return the failure that `error` stands for."""
        code = error.code if isinstance(error, ServerRefusedError) else None
        return cls(error.kind, str(error), code, error.challenge if isinstance(error, UnauthorizedError) else None)

    def __str__(self) -> str:
        return self.message
