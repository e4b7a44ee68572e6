"""Outcomes of a gateway's searches, from which operators learn which words their tools lack.

A search for tools is successful once its caller calls one of the first that it found. Of other searches, it is only
counted whether they found anything. Each principal sees only the counts of its own searches. Queries are kept, and
logged for the operator, only if the operator has enabled that.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final, Literal

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_ext_tools_search.ranking import Hit, first_names

from tools_search_server.access.principals import caller_name

logger = logging.getLogger(__name__)

_COUNTED_HITS: Final = 20
"""Number of first hits that make a search successful when called: at most a default page."""

_SECONDS: Final = 600
"""How long after a search a call still counts for it."""

_MAX_OPEN: Final = 1_000
_MAX_QUERIES: Final = 50
_MAX_QUERY_CHARS: Final = 200

Outcome = Literal["nothing", "found", "called", "notCalled"]
"""`found` is that of searches for anything but tools, which are not followed any further."""

_TOOLS: Final = "tools"


@dataclass(frozen=True, slots=True)
class _Search:
    caller: str | None
    """The principal; `None` without principals."""
    query: str
    names: frozenset[str]
    until: float


@dataclass(kw_only=True)
class SearchOutcomes:
    """Counts searches by outcome."""

    keeps_queries: bool = False
    """Whether to keep and log the latest queries of unsuccessful searches."""

    others: Sequence[str] = ()
    """The other lists that can be searched, by the name of their member."""

    def __post_init__(self) -> None:
        self._since = datetime.now(UTC)
        self._counts = Counter[tuple[str | None, str, Outcome]]()
        """By caller, list and outcome."""
        self._open: deque[_Search] = deque()
        self._queries: OrderedDict[tuple[str | None, str, Outcome, str], int] = OrderedDict()

    def note_search(self, query: str, hits: Sequence[Hit]) -> None:
        """Record a search by the current caller and its hits, best first."""
        self._close_old()
        if not hits:
            self._count(caller_name(), _TOOLS, "nothing", query)
            return
        names = frozenset(first_names(hits, _COUNTED_HITS))
        # Not even in memory, unless the operator wants queries to be kept.
        query = query[:_MAX_QUERY_CHARS] if self.keeps_queries else ""
        self._open.append(_Search(caller_name(), query, names, monotonic() + _SECONDS))
        if len(self._open) > _MAX_OPEN:
            self._close_oldest()

    def note_other_search(self, searched: str, query: str, *, is_empty: bool) -> None:
        """Record a search of one of the `others` by the current caller."""
        self._count(caller_name(), searched, "nothing" if is_empty else "found", query)

    def note_call(self, name: str) -> None:
        """Count the current caller's open searches that found this tool as successful."""
        self._close_old()
        caller = caller_name()
        others = deque(search for search in self._open if search.caller != caller or name not in search.names)
        self._counts[caller, _TOOLS, "called"] += len(self._open) - len(others)
        self._open = others

    async def note_calls(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Middleware that records tool calls, including those made through a meta-tool."""
        if ctx.method == "tools/call":
            match ctx.params:
                # Perhaps of a meta-tool that calls the inner one, and perhaps of a tool with an argument `name`.
                case {"name": str(name), "arguments": {"name": str(inner)}}:
                    self.note_call(inner)
                    self.note_call(name)
                case {"name": str(name)}:
                    self.note_call(name)
                case _:
                    pass
        return await call_next(ctx)

    def document(self) -> dict[str, Any]:
        """Return the outcomes of the current caller's searches since the start.

        If queries are kept, this includes the latest unsuccessful ones, newest first.
        """
        self._close_old()
        caller = caller_name()
        document: dict[str, Any] = {
            "since": self._since.isoformat(timespec="seconds"),
            **{outcome: self._counts[caller, _TOOLS, outcome] for outcome in ("nothing", "called", "notCalled")},
            "open": sum(search.caller == caller for search in self._open),
        }
        if self.others:
            document["others"] = {
                name: {outcome: self._counts[caller, name, outcome] for outcome in ("nothing", "found")}
                for name in self.others
            }
        if self.keeps_queries:
            document["queries"] = [
                {"query": query, "outcome": outcome, "count": count, "searched": searched}
                for (owner, query, outcome, searched), count in reversed(self._queries.items())
                if owner == caller
            ]
        return document

    def _close_old(self) -> None:
        while self._open and self._open[0].until <= monotonic():
            self._close_oldest()

    def _close_oldest(self) -> None:
        search = self._open.popleft()
        self._count(search.caller, _TOOLS, "notCalled", search.query)

    def _count(self, caller: str | None, searched: str, outcome: Outcome, query: str) -> None:
        self._counts[caller, searched, outcome] += 1
        if self.keeps_queries and outcome != "found":
            key = caller, query[:_MAX_QUERY_CHARS], outcome, searched
            became = "found nothing" if outcome == "nothing" else "led to no call"
            logger.info("a search for %s %s: %r", searched, became, key[1])
            self._queries[key] = self._queries.pop(key, 0) + 1
            if len(self._queries) > _MAX_QUERIES:
                self._queries.popitem(last=False)
