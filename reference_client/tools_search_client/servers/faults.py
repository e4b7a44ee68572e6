"""Converts exceptions from the SDK and the transports to a `ServerError` or `HostError`, by who is at fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final

import anyio
import httpx2
from mcp import MCPError
from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError
from mcp_ext_tools_search.client import InvalidSearchResultError, retry_after
from pydantic import ValidationError
from tools_search_hosts.endings import connection_ended, first_error, malformed, session_lost, timed_out
from tools_search_hosts.unreachable import CannotStartError, why_not_connected
from tools_search_hosts.validation import validation_problem

from tools_search_client.errors import (
    Challenge,
    HostError,
    InvalidServerResultError,
    ServerBusyError,
    ServerError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerUnavailableError,
    SessionLostError,
    SignInError,
    SignInStep,
    UnauthorizedError,
)
from tools_search_client.text import shorten

AUTHORIZATION_PROBLEM: Final = "authorization_problem"
"""The request extension in which an `httpx2.Auth` says why it sent the request without authorization: a text, or the
error to raise.
"""

_PARAMETER: Final = re.compile(r'\b(\w+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",]+))')
_HEADER_CHARS: Final = 4000
_CHALLENGE_CHARS: Final = 300

_FAULTS = (
    MCPError,
    ValidationError,
    InvalidSearchResultError,
    TimeoutError,
    OSError,
    httpx2.HTTPError,
    anyio.ClosedResourceError,
    anyio.BrokenResourceError,
)
"""Exceptions that the SDK and the transports raise because of a server; anything else is a bug on the client's side."""


@contextmanager
def server_faults(ended: Callable[[], str]) -> Generator[None]:
    """Convert server-caused exceptions in the block to a `ServerError`; `ended` returns why the connection ended."""
    try:
        yield
    except _FAULTS as error:
        raise as_server_error(error, ended()) from error


@contextmanager
def host_faults(part: str, *permitted: type[Exception]) -> Generator[None]:
    """Convert exceptions that the host's code raises in the block to a `HostError` that names `part`.

    Exceptions of the `permitted` types pass through unchanged.
    """
    try:
        yield
    except (HostError, *permitted):
        raise
    except Exception as error:
        raise HostError(part, error) from error


def as_server_error(error: BaseException, ended: str = "") -> ServerError | HostError:
    """Convert an exception, or the first one of a group.

    `ended` says why the connection ended; it is empty while the connection is open, or if unknown.
    """
    return _fault(first_error(error), ended)


def refusal(response: httpx2.Response) -> ServerUnavailableError | HostError | None:
    """Return the error for a response that asks for authorization; `None` if it does not."""
    stated = response.headers.get("www-authenticate", "")
    if response.status_code != HTTPStatus.UNAUTHORIZED and (response.status_code != HTTPStatus.FORBIDDEN or not stated):
        return None
    parameters = {
        name: shorten(quoted.replace('\\"', '"') or plain, _CHALLENGE_CHARS)
        for name, quoted, plain in reversed(_PARAMETER.findall(stated[:_HEADER_CHARS]))
    }
    problem = ": ".join(parameters[name] for name in ("error", "error_description") if name in parameters)
    # The client's own authorization might know better what is wrong.
    problem = response.request.extensions.get(AUTHORIZATION_PROBLEM, problem)
    if isinstance(problem, HostError | ServerUnavailableError):
        return problem
    address = parameters.get("resource_metadata", "")
    return UnauthorizedError(
        Challenge(
            response.status_code,
            shorten(stated.partition(" ")[0], _CHALLENGE_CHARS),
            parameters.get("scope", ""),
            address if address.startswith(("https://", "http://")) else "",
            problem,
        )
    )


def _fault(error: BaseException, ended: str) -> ServerError | HostError:  # noqa: C901 - a table of the ways to fail
    match error:
        case ServerError() | HostError():
            return error
        case MCPError() if isinstance(error.data, ServerUnavailableError | HostError):
            return error.data
        case MCPError() if session_lost(error):
            return SessionLostError(f"the connection ended: {ended or error.message}")
        case MCPError() if connection_ended(error):  # the SDK's own words say no more than that
            return ServerUnavailableError(f"the connection ended{f': {ended}' if ended else ' before it answered'}")
        case MCPError() if malformed(error):
            return InvalidServerResultError(error.message)
        case MCPError() if (wait := retry_after(error)) is not None:
            return ServerBusyError(error.code, error.message, error.data, wait)
        case MCPError() if not timed_out(error):
            return ServerRefusedError(error.code, error.message, error.data)
        case MCPError() | TimeoutError():
            return ServerTimeoutError("no answer in time")
        case ValidationError():
            return InvalidServerResultError(f"the answer has the wrong shape: {validation_problem(error.errors()[0])}")
        case InvalidSearchResultError():
            return InvalidServerResultError(str(error))
        case anyio.ClosedResourceError() | anyio.BrokenResourceError() if ended:
            return ServerUnavailableError(f"the connection ended: {ended}")
        case OAuthFlowError():
            steps: dict[type, SignInStep] = {OAuthRegistrationError: "registration", OAuthTokenError: "token"}
            return SignInError(shorten(str(error), _CHALLENGE_CHARS), steps.get(type(error), "other"))
        case httpx2.HTTPStatusError() if (refused := refusal(error.response)) is not None:
            return refused
        case httpx2.HTTPStatusError():  # its text contains the address, which might include a key
            return ServerUnavailableError(f"cannot be reached: it answered HTTP {error.response.status_code}")
        case CannotStartError():
            return ServerUnavailableError(str(error))
        case httpx2.ConnectError():
            return ServerUnavailableError(why_not_connected(error))
        case _:
            return ServerUnavailableError(f"cannot be reached: {str(error) or type(error).__name__}")
