"""Requests to a model, the policy that stands in for the model, and the figures of many tasks."""

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
    """One request to a model, in the order in which providers read it: the tools, then the messages."""

    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]]

    available: frozenset[ToolKey]
    """The tools that the model can call from here, in any way."""

    searches: int
    """How many searches were made before it."""

    @cached_property
    def body(self) -> bytes:
        """The whole request, entry by entry, so that one that only adds to another begins with its bytes."""
        return "".join(map(_line, [*self.tools, *self.messages])).encode()

    def kept_of(self, before: Request) -> int:
        """Return the number of bytes at the beginning that the request before has there as well."""
        length = min(len(before.body), len(self.body))
        one, other = (np.frombuffer(body, np.uint8, length) for body in (before.body, self.body))
        different = (one != other).nonzero()[0]
        return int(different[0]) if len(different) else length


class TokenCounter:
    """Counts with the vocabulary o200k, which needs no network; every entry is counted once."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its own vocabulary
            encoding: Any = import_module("bpe_openai").get_encoding(ENCODING)
        self._encode: Callable[[str], Sequence[int]] = encoding.encode
        self._counted: dict[str, int] = {}

    def definitions(self, request: Request) -> int:
        """Return the tokens of the list of tools, and of the host's text about tools before the user's message."""
        return self.tokens([*request.tools, *(one for one in request.messages if one["role"] == "system")])

    def everything(self, request: Request) -> int:
        """Return the tokens of the whole request."""
        return self.tokens([*request.tools, *request.messages])

    def tokens(self, entries: Iterable[Mapping[str, Any]]) -> int:
        """Return the tokens of entries as compact JSON, each on a line of its own."""
        total = 0
        for line in map(_line, entries):
            if line not in self._counted:
                self._counted[line] = len(self._encode(line))
            total += self._counted[line]
        return total


def system(text: str) -> dict[str, Any]:
    """Return a message in which the host instructs the model."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """Return a message of the user, or of the host at the end of the input."""
    return {"role": "user", "content": text}


def called(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in which the model calls a tool."""
    return {"role": "assistant", "calls": [{"name": name, "arguments": arguments}]}


def answered(text: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "content": text}


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"


MAX_SEARCHES: Final = 2


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
        self._steps = [*task.steps]
        self.requests: Final[list[Request]] = []
        self.search_seconds: Final[list[float]] = []
        """Processor time from each search to the next request: what it takes on a machine that does nothing else."""

    def search_for(self, request: Request) -> str | None:
        """Take a request, and return what to search for; `None` ends the task."""
        if self._asked_at is not None:
            self.search_seconds.append(process_time() - self._asked_at)
        self.requests.append(request)
        wanted: str | None = self.task.text
        if self.task.steps:
            wanted = self._next_step(request.available)
        elif self.task.needed <= request.available or request.searches >= MAX_SEARCHES:
            wanted = None
        elif request.searches:  # the words that no definition has; the whole text again where every word is in one
            read = frozenset[str]().union(*(words_of(self._catalog.tools[key]) for key in request.available))
            words = re.findall(r"\w+", self.task.text)
            wanted = " ".join(word for word in words if word.casefold() not in read) or self.task.text
        self._asked_at = process_time()
        return wanted

    def _next_step(self, available: frozenset[ToolKey]) -> str | None:
        """Return the text of the next step that needs a tool which is not there; each is searched once."""
        while self._steps:
            step = self._steps.pop(0)
            if not step.needed <= available:
                return step.text
        return None


Replay: TypeAlias = Callable[[StandIn], Awaitable[None]]
"""Holds one conversation with the stand-in: gives it request after request and makes its searches, until it ends."""
Way: TypeAlias = Callable[[Catalog, int | None], AbstractAsyncContextManager[Replay]]
"""Opens a host with a catalog whose tools are all deferred; the number bounds what one search finds, and `None`
leaves that to the host's own default."""


@dataclass(frozen=True)
class Turn:
    """One of the requests of a task, as means over the tasks that get so far."""

    tasks: int
    definitions: float
    definition_tokens: float
    """Tokens of the list of tools, and of the host's text about tools before the user's message."""

    tokens: float
    """Tokens of the whole request."""

    kept_bytes: float
    """Bytes at the beginning of this request that the request before began with: a provider need not read them again.
    0 for the first request."""

    kept_share: float
    """`kept_bytes` as a share of the bytes of the request before."""


@dataclass(frozen=True)
class Measurement:
    """The figures of one way over all tasks."""

    way: str
    turns: Sequence[Turn]
    requests: float
    """Requests to the model for one task, until the tools that it takes are all there or the stand-in gives up."""

    tokens: float
    """Tokens of all requests of one task together."""

    new_tokens: float
    """The same without the part that the request before begins with as well, by its share of the bytes."""

    recall: Sequence[Estimate]
    """The share of the tools that a task takes which are there, after one search and after two."""

    complete: Sequence[Estimate]
    """The share of tasks with every tool there, after one search and after two."""

    search_p50_ms: float
    search_p95_ms: float
    """Processor time from a search of the model to the next request to it; 0 where it makes none."""


async def measure(
    name: str, way: Way, catalog: Catalog, tasks: Sequence[Task], count: TokenCounter, limit: int | None
) -> Measurement:
    """Hold one conversation for each task; the first is held once before, so that what is built once is not counted."""
    async with way(catalog, limit) as replay:
        await replay(StandIn(tasks[0], catalog))
        models = [StandIn(task, catalog) for task in tasks]
        for model in models:
            await replay(model)
    return measurement(name, models, count)


def measurement(name: str, models: Sequence[StandIn], count: TokenCounter) -> Measurement:
    """Return the figures of a way over conversations that have ended."""
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
    """Return the tokens of definitions in the first request of a conversation that takes no tool."""
    model = StandIn(Task("Hello.", frozenset()), catalog)
    async with way(catalog, None) as replay:
        await replay(model)
    return count.definitions(model.requests[0])


def _steps(model: StandIn) -> Iterator[tuple[Request, Request | None, int]]:
    """Yield each request, the one before, and the number of bytes that it begins with as that one does."""
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
