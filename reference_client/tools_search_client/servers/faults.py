"""Exceptions of the SDK and of transports, as the `ServerError` that says whose fault it was."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import cast

import anyio
import httpx2
from mcp import MCPError
from mcp_ext_tools_search.client import InvalidSearchResultError, retry_after
from pydantic import ValidationError
from tools_search_hosts.endings import connection_ended, malformed, timed_out

from tools_search_client.errors import (
    InvalidServerResultError,
    ServerBusyError,
    ServerError,
    ServerRefusedError,
    ServerTimeoutError,
    ServerUnavailableError,
)


@contextmanager
def server_faults(ended: Callable[[], str] = str) -> Generator[None]:
    """Raise what a server did wrong inside the block as a `ServerError`.

    Args:
        ended: Returns why the connection ended; empty where that is not known.
    """
    try:
        yield
    except ServerError:
        raise
    except (
        MCPError,
        ValidationError,
        InvalidSearchResultError,
        TimeoutError,
        OSError,
        httpx2.HTTPError,
        anyio.ClosedResourceError,
        anyio.BrokenResourceError,
    ) as error:
        raise as_server_error(error, ended()) from error


def as_server_error(error: BaseException, ended: str = "") -> ServerError:
    """Return the `ServerError` that says what `error` means; a group is judged by its most telling member.

    Args:
        error: What was raised.
        ended: Why the connection ended; empty while it lasts, and where that is not known.
    """
    faults = [_single(leaf, ended) for leaf in _leaves(error)]
    explained = [fault for fault in faults if fault.args[0]]
    return (explained or faults or [ServerUnavailableError("the connection ended")])[0]


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        for member in group.exceptions:
            yield from _leaves(member)
    else:
        yield error


def _single(error: BaseException, ended: str) -> ServerError:
    match error:
        case ServerError():
            return error
        case MCPError():
            return _of_an_answer(error, ended)
        case TimeoutError():
            return ServerTimeoutError("no answer in time")
        case ValidationError():
            return InvalidServerResultError(f"the answer has the wrong shape: {_first_problem(error)}")
        case InvalidSearchResultError():
            return InvalidServerResultError(str(error))
        case anyio.ClosedResourceError() | anyio.BrokenResourceError() if ended:
            return ServerUnavailableError(f"the connection ended: {ended}")
        case _:
            return ServerUnavailableError(_unreached(error))


def _unreached(error: BaseException) -> str:
    match error:
        case httpx2.HTTPStatusError():  # whose text holds the address, and with it perhaps a key
            return f"cannot be reached: it answered HTTP {error.response.status_code}"
        case FileNotFoundError():
            advice = "install it, or give its full path as `command`; if it is a folder, correct `cwd`"
            return f"{error.filename!r} was not found; {advice}"
        case httpx2.ConnectError() if (place := _unanswered(error)) is not None:
            return f"nothing answers at {place}"
        case _:
            return f"cannot be reached: {str(error) or type(error).__name__}"


def _unanswered(error: httpx2.ConnectError) -> str | None:
    """Return where nobody listens, without the path, which may hold a key; `None` where TLS is what failed."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLError):
            return None
        cause = cause.__cause__ or cause.__context__
    try:
        url = error.request.url
    except RuntimeError:  # it was not raised for any request
        return None
    return f"{url.scheme}://{url.netloc.decode('ascii').rpartition('@')[2]}"


def _of_an_answer(error: MCPError, ended: str) -> ServerError:
    if timed_out(error):
        return ServerTimeoutError("no answer in time")
    if connection_ended(error):
        return ServerUnavailableError(f"the connection ended: {ended or error.message}")
    if malformed(error):
        return InvalidServerResultError(error.message)
    if (wait := retry_after(error)) is not None:
        return ServerBusyError(error.code, error.message, error.data, wait)
    return ServerRefusedError(error.code, error.message, error.data)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(step) for step in problem["loc"])
    return f"{place}: {problem['msg']}" if place else problem["msg"]
