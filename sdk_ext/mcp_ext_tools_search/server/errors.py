"""The errors that a client receives (draft: Error Handling).

A client learns what is wrong with its request. Of a fault of the server it learns only that there was one: left alone,
the SDK sends the text of an exception to legacy clients, and reports a validation error of the server's own data as a
mistake of the client.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcp import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS

from mcp_ext_tools_search.types import BusyData

logger = logging.getLogger(__name__)

# Many times the length of a search, so that refused clients do not come back to the same crowd.
_RETRY_AFTER_MS: Final = 1000


class ServerSetupError(RuntimeError):
    """A fault of how the server is set up; the text says what to do, and holds nothing of any request."""


@contextmanager
def internal_faults_hidden(activity: str) -> Generator[None]:
    """Turn any exception inside into -32603, and log it; errors meant for the client pass unchanged.

    The log names the place and the type. The text of an exception may hold the query, so it appears at DEBUG only.
    """
    try:
        yield
    except MCPError:
        raise
    except ServerSetupError as fault:
        logger.error("%s failed: %s", activity, fault)
    except Exception as error:
        place = "".join(traceback.format_tb(error.__traceback__))
        logger.error("%s failed with %s\n%s", activity, type(error).__name__, place)
        logger.debug("%s failed", activity, exc_info=True)
    else:
        return
    raise MCPError(INTERNAL_ERROR, "Internal server error")


def invalid_params(field: str, reason: str) -> MCPError:
    """Return the error for a parameter that is wrong; nothing of its value is repeated."""
    return MCPError(INVALID_PARAMS, f"Invalid params: {field} {reason}", data={"field": field, "reason": reason})


def too_busy() -> MCPError:
    """Return the error for a search that is one too many at the moment."""
    message = f"Too many searches at once; search again in {_RETRY_AFTER_MS} ms"
    return MCPError(INTERNAL_ERROR, message, data=BusyData(retry_after_ms=_RETRY_AFTER_MS).to_wire())
