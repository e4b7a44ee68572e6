"""The errors that a client receives (draft: Error Handling).

A client learns what is wrong with its request, but about a server fault, only that there was one. By default, the SDK
sends the text of an exception to legacy clients, and reports a validation error in the server's own data as a mistake
of the client.
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

# Much longer than a search takes, so that refused clients do not return while the server is still busy.
_RETRY_AFTER_MS: Final = 1000


class ServerSetupError(RuntimeError):
    """The server is set up incorrectly. The text says what to do, and contains nothing from a request."""


@contextmanager
def internal_faults_hidden(activity: str) -> Generator[None]:
    """Convert any exception inside to -32603 and log it. Errors meant for the client pass through unchanged.

    The log has the place and the type. The text of an exception may contain the query, so it only appears at DEBUG.
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
    """Return the error for an invalid parameter, without its value."""
    return MCPError(INVALID_PARAMS, f"Invalid params: {field} {reason}", data={"field": field, "reason": reason})


def too_busy() -> MCPError:
    """Return the error for a search when the server is too busy."""
    message = f"Too many searches at once; search again in {_RETRY_AFTER_MS} ms"
    return MCPError(INTERNAL_ERROR, message, data=BusyData(retry_after_ms=_RETRY_AFTER_MS).to_wire())
