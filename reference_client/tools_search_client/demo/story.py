"""The demo from beginning to end: workspace, gateway, and one step after the other."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias

from tools_search_client.demo import steps as demo_steps
from tools_search_client.demo.installation import Installation
from tools_search_client.demo.programs import running_gateway
from tools_search_client.demo.stage import START_SECONDS, Shown, Stage, StepError, StepReport, over_gateway
from tools_search_client.demo.workspace import demo_servers, make_workspace, missing_servers
from tools_search_client.errors import ToolsSearchClientError

Working: TypeAlias = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Shows that something takes its time, given its name; yields a function that takes note of how far it is."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the demo."""

    title: str
    perform: Callable[[Stage], Awaitable[Shown]]
    activity: str = "working"
    """Its name while it is performed."""


STEPS: Final[Mapping[str, Step]] = {
    "negotiate": Step("Negotiation: what each side says, in both eras", demo_steps.negotiate),
    "search": Step("Search over the gateway, in plain language", demo_steps.search, "searching"),
    "call": Step("Call what was found, and look at what it did", demo_steps.call, "calling"),
    "fallback": Step(
        "The same servers without the extension: list, rank here, fuse",
        demo_steps.fall_back,
        "starting each server by itself",
    ),
    "compare": Step("Listing everything against searching, measured", demo_steps.compare, "listing everything"),
    "judge": Step("The verdict of the conformance suite", demo_steps.judge, "judging"),
}


@dataclass(frozen=True, slots=True)
class Demo:
    """One run of the demo."""

    servers: tuple[str, ...]
    notes: tuple[str, ...]
    steps: tuple[StepReport, ...]
    seconds: float
    """Without installation."""
    installation_seconds: float

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the steps that failed."""
        return tuple(step.name for step in self.steps if step.problem is not None)

    def to_json(self) -> dict[str, Any]:
        """Return the demo as `--json` prints it."""
        return {
            "ok": not self.failed,
            "failed": list(self.failed),
            "seconds": round(self.seconds, 1),
            "installationSeconds": round(self.installation_seconds, 1),
            "servers": list(self.servers),
            "notes": list(self.notes),
            "steps": [step.to_json() for step in self.steps],
        }


@contextmanager
def _silent(_: str) -> Generator[Callable[[str], None]]:
    yield lambda _: None


async def play(
    installation: Installation | None,
    *,
    steps: Mapping[str, Step] = STEPS,
    open_with: Callable[[tuple[str, ...], tuple[str, ...]], None] | None = None,
    announce: Callable[[str], None],
    show: Callable[[StepReport], None],
    working: Working = _silent,
) -> Demo:
    """Perform the demo in a temporary folder.

    Args:
        installation: The servers beyond this environment; `None` does without.
        steps: The steps to perform.
        open_with: Called once with the names of the servers, and with notes on those that this machine cannot run.
        announce: Called with the title of each step before it is performed, since some take a while.
        show: Called with each step when it is over.
        working: Shows that a step takes its time.

    Raises:
        StepError: There was no gateway to perform with.
    """
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="tools-search-demo-") as name:
        folder = Path(name)
        workspace = make_workspace(folder)
        servers = demo_servers(workspace, installation)
        notes = missing_servers(workspace, installation)
        if open_with is not None:
            open_with(tuple(servers), notes)
        configuration = folder / "mcp.json"
        configuration.write_text(json.dumps({"mcpServers": servers}, indent=2), encoding="utf-8")
        async with running_gateway(configuration) as url:
            with working("starting the servers behind a gateway"):
                await _wait_for_servers(url)
            async with over_gateway(url, "auto") as (gateway, meter):
                stage = Stage(workspace, configuration, demo_steps.queries(workspace), url, gateway, meter)
                reports: list[StepReport] = []
                for key, step in steps.items():
                    announce(step.title)
                    with working(step.activity) as stage.progress:
                        reports.append(await _perform(key, step, stage))
                    show(reports[-1])
    seconds = perf_counter() - started
    return Demo(tuple(servers), notes, tuple(reports), seconds, installation.seconds if installation else 0.0)


async def _wait_for_servers(url: str) -> None:
    """Wait until the gateway lists tools, which it does when each of its servers has answered or failed."""
    async with over_gateway(url, "auto") as (gateway, _):
        listing = await gateway.list(deadline=2 * START_SECONDS)
    if listing.servers[0].failure is not None:
        raise StepError(f"the gateway does not answer: {listing.servers[0].failure.message}")


async def _perform(name: str, step: Step, stage: Stage) -> StepReport:
    started = perf_counter()
    shown, problem = Shown({}), None
    try:
        shown = await step.perform(stage)
    except (StepError, ToolsSearchClientError) as error:
        problem = str(error)
    except Exception as error:  # a step that breaks is reported like one that fails, and the others are performed
        problem = f"{type(error).__name__}: {error}"
    return StepReport(name, step.title, perf_counter() - started, shown, problem)
