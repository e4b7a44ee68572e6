"""The log of the program, on standard error."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

import anyio

LogFormat: TypeAlias = Literal["text", "json"]

_LOGGED: Final = ("server", "state", "reason", "tools", "protocol")
"""Optional members of JSON log records."""


def log_to_stderr(form: LogFormat) -> None:
    """Log to standard error, as text lines or as one JSON object per line. Neither contains queries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _Lines("%(levelname)s %(origin)s%(message)s"))
    handler.addFilter(_is_news)
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    for name in ("tools_search_server", "tools_search_ranking"):
        logging.getLogger(name).setLevel(logging.INFO)
    # This program reports each upstream problem once, in one line; the SDK adds a traceback for each stray line.
    for name in ("client", "mcp.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # This program logs lost connections itself.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    # uvicorn logs malformed requests before authentication, so anyone could fill the disk.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a record says more than that a client ended its session with messages on the way.

    The SDK logs a traceback for each of these, so that any client could fill the disk.
    """
    kind = record.exc_info[0] if record.exc_info else None
    return not (
        record.name.startswith("mcp.server.") and kind in (anyio.ClosedResourceError, anyio.BrokenResourceError)
    )


class _Lines(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Format a record as a line, with the logger's name unless the logger is this program's."""
        record.origin = "" if record.name.startswith("tools_search_server") else f"{record.name}: "
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """Return the traceback and type of an error, without its text, which might repeat what a caller sent."""
        kind, _, frames = ei
        return "".join([*traceback.format_tb(frames), getattr(kind, "__name__", "")])


class _JsonLines(_Lines):
    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: getattr(record, name) for name in _LOGGED if hasattr(record, name)}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
