"""What each way of offering tools comes to over many tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median, quantiles

from benchmarks.bootstrap import Estimate, estimate
from benchmarks.context.catalog import Catalog, Task
from benchmarks.context.requests import Request, TokenCounter
from benchmarks.context.stand_in import MOST_SEARCHES, StandIn
from benchmarks.context.ways.interface import Way

__all__ = ["Measurement", "Turn", "first_tokens", "measure", "measurement"]


@dataclass(frozen=True)
class Turn:
    """What is sent with one of the requests of a task, as means over the tasks that get so far."""

    tasks: int
    definitions: float
    definition_tokens: float
    """Of the list of tools, and of what the host tells of tools before the user's message."""

    tokens: float
    """Of the whole request."""

    kept_bytes: float
    """At the beginning of the request before, which are the beginning of this one: what a provider need not read
    again. 0 for the first request."""

    kept_share: float
    """Of the bytes of the request before."""


@dataclass(frozen=True)
class Measurement:
    """What one way came to over all tasks."""

    way: str
    turns: Sequence[Turn]
    requests: float
    """To the model, for one task, until the tools that it takes are all there or the stand-in gives up."""

    tokens: float
    """Of all requests of one task together."""

    new_tokens: float
    """The same without what is kept of the request before, by its share of the bytes."""

    recall: Sequence[Estimate]
    """The share of the tools that a task takes which are there, after one search and after two."""

    complete: Sequence[Estimate]
    """The share of tasks with every tool there, after one search and after two."""

    search_p50_ms: float
    search_p95_ms: float
    """Of the processor, from a search of the model to the next request to it; 0 where it makes none."""


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
    """Return what a way came to over conversations that have ended."""
    seconds = [second for model in models for second in model.search_seconds]
    found = [[_recall(model, searches) for model in models] for searches in range(1, MOST_SEARCHES + 1)]
    sent = [[count.everything(request) for request in model.requests] for model in models]
    return Measurement(
        way=name,
        turns=_turns(models, count),
        requests=fmean(len(model.requests) for model in models),
        tokens=fmean(map(sum, sent)),
        new_tokens=fmean(
            sum(own * (1 - _kept_of(model, place)) for place, own in enumerate(tokens))
            for model, tokens in zip(models, sent, strict=True)
        ),
        recall=[estimate(shares) for shares in found],
        complete=[estimate([float(share == 1) for share in shares]) for shares in found],
        search_p50_ms=1000 * median(seconds or [0.0]),
        search_p95_ms=1000 * (quantiles(seconds, n=20)[-1] if len(seconds) > 1 else sum(seconds)),
    )


async def first_tokens(way: Way, catalog: Catalog, count: TokenCounter) -> int:
    """Return the tokens of definitions in the first request of a conversation that takes no tool."""
    model = StandIn(Task("Hello.", frozenset()), catalog)
    async with way(catalog, None) as replay:
        await replay(model)
    return count.definitions(model.requests[0])


def _turns(models: Sequence[StandIn], count: TokenCounter) -> Sequence[Turn]:
    longest = max(len(model.requests) for model in models)
    return [_turn([model for model in models if len(model.requests) > place], place, count) for place in range(longest)]


def _turn(models: Sequence[StandIn], place: int, count: TokenCounter) -> Turn:
    requests = [model.requests[place] for model in models]
    before = [model.requests[place - 1] if place else None for model in models]
    kept = [now.kept_of(then) if then else 0 for now, then in zip(requests, before, strict=True)]
    return Turn(
        tasks=len(models),
        definitions=fmean(len(request.tools) for request in requests),
        definition_tokens=fmean(map(count.definitions, requests)),
        tokens=fmean(map(count.everything, requests)),
        kept_bytes=fmean(kept),
        kept_share=fmean(own / len(then.body) if then else 0 for own, then in zip(kept, before, strict=True)),
    )


def _kept_of(model: StandIn, place: int) -> float:
    """Return the share of a request that stands at the beginning of the one before as well."""
    if place == 0:
        return 0.0
    now = model.requests[place]
    return now.kept_of(model.requests[place - 1]) / len(now.body)


def _recall(model: StandIn, searches: int) -> float:
    after: Request = [request for request in model.requests if request.searches <= searches][-1]
    return len(model.task.needed & after.available) / len(model.task.needed)
