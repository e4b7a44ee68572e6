"""Exceptions, grouped by who is at fault.

A `LocalError` is the caller's: correct the call or the configuration. Nothing was sent. A `ServerError` is one
server's; the other servers continue. A `HostError` comes from the host's own code.

A `ServerError`'s message can quote its server. It is safe to show in a terminal, but trust it no more than anything
else a server says.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

import tools_search_hosts as hosts
from tools_search_hosts.counts import number_of

from tools_search_client.text import printable

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

FailureKind = Literal["unavailable", "unauthorized", "timeout", "refused", "busy", "invalid-result", "host"]
"""Kinds of failure, as reports and `--json` show them; `host` is not the server's fault."""


class ToolsSearchClientError(Exception):
    """Base class of all errors this package raises deliberately."""


class LocalError(ToolsSearchClientError, ValueError):
    """A mistake by the caller or the operator."""


def refuse_single_name(argument: str, names: object) -> None:
    """Raise `LocalError` unless `names` has several: a string would be a collection of its letters."""
    if isinstance(names, str):
        raise LocalError(f"`{argument}` must be a collection of names, such as [{names!r}]")
    require_kind(argument, names, Collection, instead="a collection of names")


def require_kind(argument: str, value: object, *kinds: Any, instead: str) -> None:
    """Raise `LocalError` if `value` is of none of these kinds, with what to pass `instead`.

    For arguments that are easily mistaken, such as a path where its content is expected. To Python, `True` is an `int`.
    """
    if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
        raise LocalError(f"`{argument}` is of type `{type(value).__name__}`, but must be {instead}")


def require_kinds(argument: str, values: Iterable[object], *kinds: type, instead: str) -> None:
    """Do the same for each of some values."""
    for position, value in enumerate(values):
        require_kind(f"{argument}[{position}]", value, *kinds, instead=instead)


def require_functions(options: DataclassInstance, *names: str) -> None:
    """Do the same for those of some options that are set and have to be functions."""
    for name in names:
        require_kind(name, getattr(options, name), Callable, NoneType, instead="a function")


def require_choice(argument: str, value: object, choices: Collection[str]) -> None:
    """Raise `LocalError` if this is set and none of the choices."""
    if value is not None and value not in choices:
        raise LocalError(f"`{argument}` is {value!r}, but must be one of {', '.join(map(repr, choices))}")


def require_seconds(argument: str, seconds: object, *, or_zero: bool = False) -> None:
    """Raise `LocalError` unless this is a number of seconds above 0, which can be `math.inf`; or 0 if that is valid."""
    instead = f"a number of seconds {'from 0 on' if or_zero else 'above 0'}"
    require_kind(argument, seconds, int, float, instead=instead)
    number = cast("float", seconds)
    if not (number > 0 or (or_zero and number == 0)):  # NaN is neither
        raise LocalError(f"`{argument}` is {number:g}, but must be {instead}")


def require_times(options: DataclassInstance, *names: str, or_zero: bool = False) -> None:
    """Do the same for those of some options that are set."""
    for name in names:
        if (seconds := getattr(options, name)) is not None:
            require_seconds(name, seconds, or_zero=or_zero)


def require_count(argument: str, number: object, instead: str) -> None:
    """Raise `LocalError` unless this is a whole number of at least 1."""
    require_kind(argument, number, int, instead=instead)
    if cast("int", number) < 1:
        raise LocalError(f"`{argument}` is {number}, but must be at least 1")


class ConfigurationError(hosts.ConfigurationError, LocalError):
    """A configuration cannot be used; the message lists every problem, its location and its remedy."""


class SavedConversationError(LocalError):
    """A saved conversation cannot be read: wrong version, wrong format, or too large. Nothing was restored."""


class UnknownToolError(LocalError):
    """No server that answered offers a tool of this name."""

    def __init__(
        self,
        name: str,
        closest: Sequence[str] = (),
        errors: Mapping[str, ServerError | HostError] | None = None,
        *,
        is_server: bool = False,
    ) -> None:
        self.name = name
        self.closest = tuple(closest)
        self.errors = dict(errors or {})
        """The errors of the servers that could not be asked."""
        self.failed = {server: Failure.of(error) for server, error in self.errors.items()}
        text = f"no tool is named {name!r}"
        if is_server:
            text += ", which is the name of a server"
            text += f", with tools such as {', '.join(self.closest[:3])}" if self.closest else ""
        elif self.closest:
            text += f"; the closest {'is' if len(self.closest) == 1 else 'are'} {', '.join(self.closest)}"
        if self.failed:
            reasons = [f"{server}: {failure}" if server else str(failure) for server, failure in self.failed.items()]
            text += f" (these servers failed: {'; '.join(reasons)})"
        super().__init__(text)


class AmbiguousToolError(LocalError):
    """Several servers offer a tool of this bare name."""

    def __init__(self, name: str, candidates: Sequence[str]) -> None:
        self.name = name
        self.candidates = tuple(candidates)
        super().__init__(f"several servers offer {name!r}: choose one with {' or '.join(self.candidates)}")


class InvalidAnswerError(ToolsSearchClientError):
    """A model provider's answer is not in the provider's format. The conversation is unchanged."""


class RerankingError(ToolsSearchClientError):
    """The host's re-ranker failed, timed out, or did not return an order of the given tools."""


class HostError(ToolsSearchClientError):
    """Code supplied by the host, such as a token store or a callback, raised an exception, which is the `__cause__`.

    The message names only the exception's type, because a model might read it.
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
    listed: tuple[Any, ...] = ()
    """What the server had listed before a later page of its list failed."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class ServerUnavailableError(ServerError):
    """The server could not be started or reached, or the connection ended."""

    kind = "unavailable"


class SessionLostError(ServerUnavailableError):
    """The server refused the request because it no longer knows the session, so it did not carry it out."""


@dataclass(frozen=True, slots=True)
class Challenge:
    """The authorization that a server asks for in its answer."""

    status: int
    """401, or 403 if the authorization sent is not sufficient."""

    scheme: str = ""
    """The scheme of `WWW-Authenticate`, such as `Bearer`."""

    scope: str = ""
    """Scopes, separated by spaces."""

    resource_metadata: str = ""
    """URL where the server describes its authorization servers (RFC 9728), for signing in with OAuth."""

    problem: str = ""
    """What is wrong with the authorization sent."""


class UnauthorizedError(ServerUnavailableError):
    """The server requires authorization (HTTP 401), or more than it was given (HTTP 403)."""

    kind = "unauthorized"

    def __init__(self, challenge: Challenge) -> None:
        self.challenge = challenge
        stated = [f"scheme {challenge.scheme}"] if challenge.scheme else []
        stated += [f"scope {challenge.scope!r}"] if challenge.scope else []
        text = f"it answered HTTP {challenge.status}"
        text += f" and asks for authorization ({', '.join(stated)})" if stated else " and asks for authorization"
        text += f"; {challenge.problem}" if challenge.problem else ""
        super().__init__(text)


SignInStep = Literal["registration", "redirect", "token", "other"]
"""Which part of a sign-in failed: registering the client, waiting for the user, getting tokens, or another one."""


class SignInError(ServerUnavailableError):
    """A sign-in failed, other than by the user's choice. `step` says where, so that a host can say what to do."""

    def __init__(self, reason: str, step: SignInStep = "other") -> None:
        self.step: SignInStep = step
        super().__init__(f"the sign-in failed: {reason}")


class ConsentRefusedError(ServerError):
    """The user declined to sign in; asking again right away would not help."""

    kind = "unauthorized"


RESOLVABLE = (UnauthorizedError, HostError)
"""Errors that a sign-in or the host can resolve at any time, so that a retry never has to wait."""


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
        """Seconds until it can be searched again, as stated by the server."""


class InvalidServerResultError(ServerError):
    """The server's answer breaks the protocol: a malformed result, a cursor loop, an endless listing."""

    kind = "invalid-result"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a server contributed nothing to an answer, or only a part."""

    kind: FailureKind
    message: str
    code: int | None = None
    """The JSON-RPC error code if the server refused."""
    challenge: Challenge | None = None
    """What the server asks for if the kind is `unauthorized`."""
    listed: int = 0
    """How many items the server listed before a later page of its list failed. The answer contains them."""

    @classmethod
    def of(cls, error: ServerError | HostError) -> Failure:
        """Return the failure for an error."""
        code = error.code if isinstance(error, ServerRefusedError) else None
        challenge = error.challenge if isinstance(error, UnauthorizedError) else None
        listed = len(error.listed) if isinstance(error, ServerError) else 0
        text = f"its list broke off after {number_of(listed, 'entry', 'entries')}: {error}" if listed else str(error)
        return cls(error.kind, text, code, challenge, listed)

    def __str__(self) -> str:
        return self.message
