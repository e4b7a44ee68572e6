"""Final re-ranking of tools by a model, a cross-encoder, or any other code supplied by the host."""

from __future__ import annotations

import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast

import anyio
from tools_search_hosts.counts import number_of

from tools_search_client.errors import RerankingError, require_count, require_kind, require_seconds
from tools_search_client.found import FoundTool
from tools_search_client.text import shorten
from tools_search_client.threads import in_daemon_thread

_MAX_THREADS: Final = 8
"""Maximum threads for re-rankers that are not coroutines and do not return."""

_POLL_SECONDS: Final = 0.01

_NAME_CHARS: Final = 80

_logger = logging.getLogger(__name__)


class Reranker(Protocol):
    """Orders tools. If it is not `async`, it runs in another thread, so that it blocks nothing else."""

    def __call__(self, query: str, tools: Sequence[FoundTool], /) -> Sequence[str] | Awaitable[Sequence[str]]:
        """Return the names (`FoundTool.name`) of some or all of `tools`, best match for `query` first."""
        ...


@dataclass(frozen=True, slots=True)
class Reranking:
    """A re-ranker, how many tools it is given, and how long it may take.

    Raises:
        LocalError: An argument is of the wrong type, or `pool` or `deadline` is too small.
    """

    reranker: Reranker

    pool: int = 4
    """Number of tools to pass to it, as a multiple of the search's limit."""

    deadline: float = 5.0
    """Timeout in seconds; after that, the original order is used."""

    _threads: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(_MAX_THREADS), init=False, repr=False, compare=False
    )
    """Held until the re-ranker returns, even if it has timed out."""

    def __post_init__(self) -> None:
        require_kind("reranker", self.reranker, Callable, instead="a function of a query and tools")
        require_count("pool", self.pool, instead="a multiple of a search's limit")
        require_seconds("deadline", self.deadline)

    async def order(self, query: str, tools: Sequence[FoundTool]) -> tuple[Sequence[FoundTool], RerankingError | None]:
        """Return all `tools` in the re-ranker's order. Tools that it leaves out come last, in their previous order.

        If it raises, is late, or returns names that are repeated or were not given, the order does not change, and the
        error says why.
        """
        if len(tools) < 2:
            return tools, None
        try:
            with anyio.move_on_after(self.deadline):
                first = _named(await self._answer(query, tools), tools)
                return [*first.values(), *(tool for tool in tools if tool.name not in first)], None
        except RerankingError as error:
            return tools, error
        except Exception as error:  # the host's own program, such as another model: its mistakes cost no search
            _logger.exception("the re-ranker failed")
            failed = RerankingError(f"the re-ranker failed: {type(error).__name__}")
            failed.__cause__ = error
            return tools, failed
        return tools, RerankingError(f"the re-ranker took longer than {number_of(self.deadline, 'second')}")

    async def _answer(self, query: str, tools: Sequence[FoundTool]) -> object:
        reranker = self.reranker
        if inspect.iscoroutinefunction(reranker) or inspect.iscoroutinefunction(type(reranker).__call__):
            answer: object = reranker(query, tools)
        else:
            answer = await self._in_thread(lambda: reranker(query, tools))
        return await cast("Awaitable[object]", answer) if inspect.isawaitable(answer) else answer

    async def _in_thread(self, function: Callable[[], object]) -> object:
        while not self._threads.acquire(blocking=False):  # noqa: ASYNC110 - a thread frees it; the deadline ends that
            await anyio.sleep(_POLL_SECONDS)

        def run() -> object:
            try:
                return function()
            finally:
                self._threads.release()

        return await in_daemon_thread(run)


def _named(answer: Any, tools: Sequence[FoundTool]) -> dict[str, FoundTool]:
    """Return the tools that a re-ranker named, in its order; they must be distinct members of `tools`."""
    if isinstance(answer, str | bytes) or not isinstance(answer, Sequence) or not answer:
        raise RerankingError("the re-ranker answered with no list of names")
    given = {tool.name: tool for tool in tools}
    named: dict[str, FoundTool] = {}
    for name in cast("Sequence[object]", answer):
        tool = given.get(name) if isinstance(name, str) else None
        if tool is None or tool.name in named:
            what = "twice" if tool else "although it was not given that"
            raise RerankingError(f"the re-ranker named {shorten(str(name), _NAME_CHARS)!r} {what}")
        named[tool.name] = tool
    return named
