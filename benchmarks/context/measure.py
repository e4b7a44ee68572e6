"""Requests to a model, the policy that simulates the model, and statistics over many tasks."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from itertools import islice
from statistics import fmean, median, quantiles
from time import process_time
from typing import Any, Final, TypeAlias

import numpy as np

from benchmarks.bootstrap import Estimate, mean
from benchmarks.context.catalog import Catalog, Task, ToolKey, words_of

ENCODING: Final = "o200k_base"


@dataclass(frozen=True)
class Request:
    """A request to a model, in the order in which providers read it: the tools, then the messages."""

    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]]

    available: frozenset[ToolKey]
    """The tools that the model can call from here, by any means."""

    searches: int
    """Number of searches before it."""

    @cached_property
    def body(self) -> bytes:
        """The request, entry by entry, so that a request that only adds to another one starts with its bytes."""
        return "".join(map(_line, [*self.tools, *self.messages])).encode()

    def kept_of(self, before: Request) -> int:
        """Return the length in bytes of the common prefix with the previous request."""
        length = min(len(before.body), len(self.body))
        earlier, later = (np.frombuffer(body, np.uint8, length) for body in (before.body, self.body))
        different = (earlier != later).nonzero()[0]
        return int(different[0]) if len(different) else length


class TokenCounter:
    """Counts tokens with the o200k vocabulary, without a network; each entry is counted once."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its own vocabulary
            encoding: Any = import_module("bpe_openai").get_encoding(ENCODING)
        self._encode: Callable[[str], Sequence[int]] = encoding.encode
        self._counted: dict[str, int] = {}

    def definitions(self, request: Request) -> int:
        """Return the tokens of the tool list, and of the host's text about tools before the user's message."""
        return self.tokens([*request.tools, *(message for message in request.messages if message["role"] == "system")])

    def everything(self, request: Request) -> int:
        """Return the tokens of the whole request."""
        return self.tokens([*request.tools, *request.messages])

    def tokens(self, entries: Iterable[Mapping[str, Any]]) -> int:
        """Return the tokens of entries as compact JSON, one per line."""
        total = 0
        for line in map(_line, entries):
            if line not in self._counted:
                self._counted[line] = len(self._encode(line))
            total += self._counted[line]
        return total


def system(text: str) -> dict[str, Any]:
    """Return a message with the host's instructions to the model."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """Return a message from the user, or from the host at the end of the input."""
    return {"role": "user", "content": text}


def called(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in which the model calls a tool."""
    return {"role": "assistant", "calls": [{"name": name, "arguments": arguments}]}


def answered(text: str) -> dict[str, Any]:
    """Return a message with a call's result."""
    return {"role": "tool", "content": text}


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


MAX_SEARCHES: Final = 2


class StandIn:
    """Simulates the model for one task: takes its requests, and says what to search for.

    Args:
        task: What the user wants.
        catalog: All tools; only definitions that were sent are read.
    """

    def __init__(self, task: Task, catalog: Catalog) -> None:
        self.task: Final = task
        self._catalog = catalog
        self._asked_at: float | None = None
        self._steps = [*task.steps]
        self.requests: Final[list[Request]] = []
        self.search_seconds: Final[list[float]] = []
        """Processor time from each search to the next request, as on an otherwise idle machine."""

    def search_for(self, request: Request) -> str | None:
        """Take a request, and return what to search for next; `None` ends the task."""
        if self._asked_at is not None:
            self.search_seconds.append(process_time() - self._asked_at)
        self.requests.append(request)
        wanted: str | None = self.task.text
        if self.task.steps:
            wanted = self._next_step(request.available)
        elif self.task.needed <= request.available or request.searches >= MAX_SEARCHES:
            wanted = None
        elif request.searches:  # the words that no definition has, or else the whole text again
            read = frozenset[str]().union(*(words_of(self._catalog.tools[key]) for key in request.available))
            words = re.findall(r"\w+", self.task.text)
            wanted = " ".join(word for word in words if word.casefold() not in read) or self.task.text
        self._asked_at = process_time()
        return wanted

    def _next_step(self, available: frozenset[ToolKey]) -> str | None:
        """Return the next step whose tools are not all available; each is searched once."""
        while self._steps:
            step = self._steps.pop(0)
            if not step.needed <= available:
                return step.text
        return None


Replay: TypeAlias = Callable[[StandIn], Awaitable[None]]
"""Runs a conversation with the simulated model: gives it requests and makes its searches until it ends."""
Way: TypeAlias = Callable[[Catalog, int | None], AbstractAsyncContextManager[Replay]]
"""Opens a host with a catalog in which all tools are deferred; the number limits each search's results, and `None` uses
the host's default.
"""


@dataclass(frozen=True)
class Turn:
    """One of a task's requests, as means over the tasks that get this far."""

    tasks: int
    definitions: float
    definition_tokens: float
    """Tokens of the tool list, and of the host's text about tools before the user's message."""

    tokens: float
    """Tokens of the whole request."""

    kept_bytes: float
    """Length in bytes of the common prefix with the previous request, which a provider can cache. 0 for the first
    request.
    """

    kept_share: float
    """`kept_bytes` as a share of the previous request's bytes."""


@dataclass(frozen=True)
class Measurement:
    """A method's statistics over all tasks."""

    way: str
    turns: Sequence[Turn]
    requests: float
    """Requests per task until all needed tools are available or the simulated model gives up."""

    tokens: float
    """Total tokens of a task's requests."""

    new_tokens: float
    """The same without the common prefix with the previous request, by its share of the bytes."""

    recall: Sequence[Estimate]
    """The share of a task's tools that are available after one and after two searches."""

    complete: Sequence[Estimate]
    """The share of tasks with all tools available after one and after two searches."""

    search_p50_ms: float
    search_p95_ms: float
    """Processor time from a search to the next request; 0 if there are no searches."""


async def measure(
    name: str, way: Way, catalog: Catalog, tasks: Sequence[Task], count: TokenCounter, limit: int | None
) -> Measurement:
    """Run a conversation for each task; the first task runs once before, so that one-time setup is not counted."""
    async with way(catalog, limit) as replay:
        await replay(StandIn(tasks[0], catalog))
        models = [StandIn(task, catalog) for task in tasks]
        for model in models:
            await replay(model)
    return measurement(name, models, count)


def measurement(name: str, models: Sequence[StandIn], count: TokenCounter) -> Measurement:
    """Return a method's statistics over finished conversations."""
    seconds = [second for model in models for second in model.search_seconds]
    found = [[_recall(model, searches) for model in models] for searches in range(1, MAX_SEARCHES + 1)]
    longest = max(len(model.requests) for model in models)
    return Measurement(
        way=name,
        turns=[_turn(models, place, count) for place in range(longest)],
        requests=fmean(len(model.requests) for model in models),
        tokens=fmean(sum(map(count.everything, model.requests)) for model in models),
        new_tokens=fmean(
            sum(count.everything(now) * (1 - kept / len(now.body)) for now, _, kept in _steps(model))
            for model in models
        ),
        recall=[mean(shares) for shares in found],
        complete=[mean([float(share == 1) for share in shares]) for shares in found],
        search_p50_ms=1000 * median(seconds or [0.0]),
        search_p95_ms=1000 * (quantiles(seconds, n=20)[-1] if len(seconds) > 1 else sum(seconds)),
    )


async def first_tokens(way: Way, catalog: Catalog, count: TokenCounter) -> int:
    """Return the tokens of the definitions in a conversation's first request."""
    model = StandIn(Task("Hello.", frozenset()), catalog)
    async with way(catalog, None) as replay:
        await replay(model)
    return count.definitions(model.requests[0])


def _steps(model: StandIn) -> Iterator[tuple[Request, Request | None, int]]:
    """Yield each request, the previous one, and the length in bytes of their common prefix."""
    before: Request | None = None
    for now in model.requests:
        yield now, before, now.kept_of(before) if before else 0
        before = now


def _turn(models: Sequence[StandIn], place: int, count: TokenCounter) -> Turn:
    steps = [step for model in models for step in islice(_steps(model), place, place + 1)]
    return Turn(
        tasks=len(steps),
        definitions=fmean(len(now.tools) for now, _, _ in steps),
        definition_tokens=fmean(count.definitions(now) for now, _, _ in steps),
        tokens=fmean(count.everything(now) for now, _, _ in steps),
        kept_bytes=fmean(kept for _, _, kept in steps),
        kept_share=fmean(kept / len(before.body) if before else 0 for _, before, kept in steps),
    )


def _recall(model: StandIn, searches: int) -> float:
    after = [request for request in model.requests if request.searches <= searches][-1]
    return len(model.task.needed & after.available) / len(model.task.needed)
