"""The log on standard error: lines for people, or one JSON object per line for programs; no queries in either."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

LogFormat: TypeAlias = Literal["text", "json"]

_FIELDS: Final = ("server", "state", "reason", "tools", "protocol")
"""Additional members of the records of this program, each where it applies."""


def log_to_stderr(form: LogFormat) -> None:
    """Send log records to standard error, in `form`."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if form == "json" else _Lines("%(levelname)s %(origin)s%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
    logging.getLogger("tools_search_server").setLevel(logging.INFO)
    # This program reports upstreams once and in one line; the SDK adds a traceback for each stray line.
    for name in ("client", "mcp.client"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Before any authentication, anyone could fill the disk with its lines about malformed requests.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)


class _Lines(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        """Return the line of a record, with the name of the logger if that is not one of this program."""
        record.origin = "" if record.name.startswith("tools_search_server") else f"{record.name}: "
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:
        """Return the place and the type of an error, without its text, which may repeat what a caller has sent."""
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
        entry |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        if record.exc_info:
            entry["error"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)
