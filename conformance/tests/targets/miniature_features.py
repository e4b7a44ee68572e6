"""The miniature as a fixture that can do more: it follows its file, takes its time, and hides tools from callers."""

from __future__ import annotations

import json
import os
import secrets
import threading
from pathlib import Path
from typing import Any

from .faults import Fault, Json, member, without
from .miniature import Miniature
from .miniature_lists import others_of


class Varying(Miniature):
    """What one caller sees of a catalog of which others see something else."""

    @property
    def settings(self) -> Json:
        return without(super().settings, "catalogSize", "topics")

    def serve(self, method: str, params: Json, era: str, capabilities: Json, session: Json) -> Json:
        result = super().serve(method, params, era, capabilities, session)
        return {**result, "cacheScope": "private"} if "cacheScope" in result else result


class Fixture(Miniature):
    """A miniature for each caller of each state of the file; HTTP puts the caller's token into the session."""

    def __init__(self, file: Path, fault: Fault, *, tools_alone: bool = False) -> None:
        os.environ.setdefault(
            "TOOLS_SEARCH_CURSOR_KEY", secrets.token_hex(32)
        )  # cursors outlive every state of the file
        super().__init__([], fault)
        self._file = file
        self._tools_alone = tools_alone
        self._delay = int(os.environ.get("TOOLS_SEARCH_DELAY_MS", "0")) / 1000
        self._state: tuple[int, int] | None = None
        self._everyone: Miniature = self
        self._restricted: dict[str, Miniature] = {}
        self._reading = threading.Lock()

    def respond(self, message: Json, session: Json) -> Json | None:
        """Answer one message, unless it is a search that was cancelled before its delay was over."""
        if message.get("method") == "notifications/cancelled":
            self._cancel(member(message, "params").get("requestId"), session)
        if self._delay and str(message.get("method")).endswith("/search"):
            in_flight: dict[Any, threading.Event] = session.setdefault("in flight", {})
            cancelled = in_flight[message.get("id")] = threading.Event()
            if cancelled.wait(self._delay):
                return None
            del in_flight[message.get("id")]
        return self._seen_by(session.get("token", "")).respond(message, session)

    def _cancel(self, number: Any, session: Json) -> None:
        in_flight: dict[Any, threading.Event] = session.get("in flight", {})
        for other in self.fault.cancelled(number, list(in_flight)):
            if (cancelled := in_flight.pop(other, None)) is not None:
                cancelled.set()

    def _seen_by(self, token: str) -> Miniature:
        with self._reading:
            status = self._file.stat()
            if (state := (status.st_mtime_ns, status.st_ino)) != self._state:
                self._read()
                self._state = state
            return self._restricted.get(token, self._everyone)

    def _read(self) -> None:
        catalog = json.loads(self._file.read_text(encoding="utf-8"))
        if self._tools_alone:
            catalog = {name: catalog[name] for name in ("tools", "hidden") if name in catalog}
        tools: list[Json] = catalog["tools"]
        hidden, unreadable = member(catalog, "hidden"), member(catalog, "unreadable")
        varying = bool(hidden or unreadable)
        self._everyone = (Varying if varying else Miniature)(tools, self.fault, others_of(catalog))
        self._restricted = {}
        for token in {**hidden, **unreadable}:
            unseen: list[str] = hidden.get(token, [])
            sealed: list[str] = unreadable.get(token, [])
            others = others_of(catalog, unseen, sealed, searched=self.fault.searches_unreadable)
            self._restricted[token] = Varying([t for t in tools if t["name"] not in unseen], self.fault, others)
