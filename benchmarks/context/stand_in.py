"""The policy that stands in for a model; the package tells what it does, and why."""

from __future__ import annotations

import re
from time import process_time
from typing import Final

from benchmarks.context.catalog import Catalog, Task, words_of
from benchmarks.context.requests import Request

__all__ = ["MOST_SEARCHES", "StandIn"]

MOST_SEARCHES: Final = 2


class StandIn:
    """Takes the requests of one task, and says what to search for.

    Args:
        task: What the user wants.
        catalog: All tools there are; only definitions that it was given are read.
    """

    def __init__(self, task: Task, catalog: Catalog) -> None:
        self.task: Final = task
        self._catalog = catalog
        self._asked_at: float | None = None
        self.requests: Final[list[Request]] = []
        self.search_seconds: Final[list[float]] = []
        """Of the processor, from each search to the next request: what it takes on a machine that does nothing else."""

    def search_for(self, request: Request) -> str | None:
        """Take a request, and return what to search for; `None` ends the task."""
        if self._asked_at is not None:
            self.search_seconds.append(process_time() - self._asked_at)
        self.requests.append(request)
        wanted = self._wanted(request)
        self._asked_at = process_time()
        return wanted

    def _wanted(self, request: Request) -> str | None:
        if self.task.needed <= request.available or request.searches >= MOST_SEARCHES:
            return None
        return self._left_over(request) if request.searches else self.task.text

    def _left_over(self, request: Request) -> str:
        """Return the words that no definition has; the whole text again where every word is in one."""
        read = frozenset[str]().union(*(words_of(self._catalog.tools[key]) for key in request.available))
        words = re.findall(r"\w+", self.task.text)
        return " ".join(word for word in words if word.casefold() not in read) or self.task.text
