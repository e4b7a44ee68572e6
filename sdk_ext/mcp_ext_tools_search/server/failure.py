"""What a client learns of a fault that is not its own: nothing but that there was one.

Left alone, the SDK sends the text of an exception to legacy clients, and reports a validation error of the server's own
data as a mistake of the client.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Generator
from contextlib import contextmanager

from mcp import MCPError
from mcp_types import INTERNAL_ERROR

__all__ = ["ServerFault", "internal_faults_hidden"]

logger = logging.getLogger(__name__)


class ServerFault(RuntimeError):
    """Something is wrong with how the server is set up; the text says what to do, and holds nothing of any request."""


@contextmanager
def internal_faults_hidden(activity: str) -> Generator[None]:
    """Turn whatever goes wrong inside into -32603, and log it; errors meant for the client pass unchanged.

    The log names the place and the type. The text of an exception may hold the query, so it appears at DEBUG only.
    """
    try:
        yield
    except MCPError:
        raise
    except ServerFault as fault:
        logger.error("%s failed: %s", activity, fault)
    except Exception as error:
        place = "".join(traceback.format_tb(error.__traceback__))
        logger.error("%s failed with %s\n%s", activity, type(error).__name__, place)
        logger.debug("%s failed", activity, exc_info=True)
    else:
        return
    raise MCPError(INTERNAL_ERROR, "Internal server error")
