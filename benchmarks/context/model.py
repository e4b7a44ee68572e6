"""The same tasks with a real model behind a chat completions endpoint.

The model words its own searches and decides when to stop. No tool is executed: each call gets the same answer, and
counts as the choice of a tool.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from statistics import fmean
from time import perf_counter
from typing import Any, Final

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Reply
from tools_search_client.conversation.prompts import SYSTEM_PROMPT_LINE
from tools_search_client.conversation.sources import ListedSource
from tools_search_client.errors import ToolsSearchClientError
from tools_search_client.federation.configuration import ToolDiscovery
from tools_search_client.providers import ChatCompletions
from tools_search_client.text import shorten

from benchmarks.bootstrap import mean
from benchmarks.context.catalog import Catalog, Task, ToolKey
from benchmarks.context.ways import DEFERRED, DELEGATED, LISTED, OURS

_SYSTEM: Final = (
    "Choose the tools that the user's task takes, and call each of them once. Make up arguments that you do not know: "
    f"nothing is carried out. Say DONE when you have called all. {SYSTEM_PROMPT_LINE}"
)
_RESULT: Final = "The call is noted. Nothing was carried out; go on as if it had succeeded."
_MAX_REQUESTS: Final = 20
_MAX_REASON_CHARS: Final = 200

_USAGE: Final = ("requests", "searches", "prompt_tokens", "cached_tokens", "completion_tokens", "seconds")
"""A task's figures: requests, searches, tokens as counted by the endpoint, and duration in seconds."""

MODEL_WAYS: Final[Mapping[str, ToolDiscovery]] = {
    LISTED: ToolDiscovery(),
    OURS: DEFERRED,
    DELEGATED: DEFERRED,
    "ours, automatic": ToolDiscovery(enabled=True, auto=True),
}


@dataclass
class Trial:
    """One task with the model."""

    task: Task
    called: set[ToolKey] = field(default_factory=set[ToolKey])
    usage: dict[str, float] = field(default_factory=lambda: dict.fromkeys(_USAGE, 0.0))

    failure: str = ""
    """Why the endpoint did not answer."""

    def add(self, **more: float | None) -> None:
        """Add to the usage."""
        for name, figure in more.items():
            self.usage[name] += figure or 0


async def measure_model(
    model: str, base_url: str | None, ways: Sequence[str], catalog: Catalog, tasks: Sequence[Task]
) -> list[dict[str, Any]]:
    """Give every task to the model with every method; the SDK reads the key from the environment."""
    sdk: Any = import_module("openai")
    outcomes: list[dict[str, Any]] = []
    async with sdk.AsyncOpenAI(base_url=base_url) as client:
        for way in ways:
            trials = [await _trial(client, model, way, catalog, task) for task in tasks]
            outcomes.append(_outcome(way, trials))
    return outcomes


async def _trial(client: Any, model: str, way: str, catalog: Catalog, task: Task) -> Trial:
    source = ListedSource.of(catalog.servers)
    if way == DELEGATED:
        source.offers = tuple(replace(offer, delegate="turn") for offer in source.offers)
    conversation = Conversation(source, MODEL_WAYS[way])
    # Send all of them: if an endpoint refuses because it accepts fewer, that is a result.
    adapter = ChatCompletions(conversation, model, system=_SYSTEM, most_tools=len(catalog.tools) + 1)
    await conversation.begin_turn(task.text)
    adapter.say(task.text)
    trial = Trial(task)
    try:
        while trial.usage["requests"] < _MAX_REQUESTS:
            trial.add(requests=1)
            began = perf_counter()
            answer = (await client.chat.completions.create(**adapter.request())).to_dict(mode="json")
            trial.add(seconds=perf_counter() - began)
            usage: Mapping[str, Any] = answer.get("usage") or {}
            details: Mapping[str, Any] = usage.get("prompt_tokens_details") or {}
            trial.add(
                prompt_tokens=usage.get("prompt_tokens"),
                cached_tokens=details.get("cached_tokens"),
                completion_tokens=usage.get("completion_tokens"),
            )
            message = adapter.read(answer)
            if not message.calls:
                break
            for call in message.calls:
                step = await conversation.take(call)
                if isinstance(step, Reply):
                    trial.add(searches=call.name == conversation.search_name)
                else:
                    trial.called.add((step.tool.server, step.tool.tool.name))
                    step = Reply(call, _RESULT)
                adapter.answer(call, step)
    except (import_module("openai").OpenAIError, ToolsSearchClientError) as error:
        trial.failure = shorten(f"{type(error).__name__}: {error}", _MAX_REASON_CHARS)
    return trial


def _outcome(way: str, trials: Sequence[Trial]) -> dict[str, Any]:
    """Return a method's figures, as means over the tasks that the endpoint answered."""
    failures = [trial.failure for trial in trials if trial.failure]
    answered = [trial for trial in trials if not trial.failure]
    shares = [len(trial.called & trial.task.needed) / len(trial.task.needed) for trial in answered] or [0.0]
    return {
        "way": way,
        "tasks": len(answered),
        "failed": len(failures),
        "first_failure": failures[0] if failures else "",
        **{name: fmean([trial.usage[name] for trial in answered] or [0.0]) for name in _USAGE},
        # The share of the task's tools that the model called, and the called tools that the labels do not include.
        "found": asdict(mean(shares)),
        "complete": asdict(mean([float(share == 1) for share in shares])),
        "others": fmean([len(trial.called - trial.task.needed) for trial in answered] or [0.0]),
    }
