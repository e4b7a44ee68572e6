"""The demo from curtain to curtain."""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Final, TypeAlias

from tools_search_client.demo.calling import call, queries
from tools_search_client.demo.comparing import compare
from tools_search_client.demo.installation import Installation
from tools_search_client.demo.judging import judge
from tools_search_client.demo.negotiating import negotiate
from tools_search_client.demo.programs import running_gateway
from tools_search_client.demo.searching import fall_back, search
from tools_search_client.demo.servers import demo_servers, notes, write_configuration
from tools_search_client.demo.stage import PATIENCE_SECONDS, Stage, over_gateway
from tools_search_client.demo.step import Shown, StepFailed, StepReport
from tools_search_client.demo.workspace import make_workspace
from tools_search_client.errors import ToolsSearchClientError

__all__ = ["STEPS", "Demo", "play"]

Step: TypeAlias = Callable[[Stage], Awaitable[Shown]]

STEPS: Final[Mapping[str, tuple[str, Step]]] = {
    "negotiate": ("Negotiation: what each side says, in both eras", negotiate),
    "search": ("Search over the gateway, in plain language", search),
    "call": ("Call what was found, and look at what it did", call),
    "fallback": ("The same servers without the extension: list, rank here, fuse", fall_back),
    "compare": ("Listing everything against searching, measured", compare),
    "judge": ("The verdict of the conformance suite", judge),
}
"""Name, title and deed of each step, in order."""

_DOING: Final = {
    "search": "searching",
    "call": "calling",
    "fallback": "starting each server by itself",
    "compare": "listing everything",
    "judge": "judging",
}
"""What a step is called while it is performed."""


@dataclass(frozen=True, slots=True)
class Demo:
    """One performance."""

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


Working: TypeAlias = Callable[[str], AbstractContextManager[Callable[[str], None]]]
"""Shows that something takes its time, from what it is called; what it gives says how far it is."""


@contextmanager
def _unseen(_: str) -> Generator[Callable[[str], None]]:
    yield lambda _: None


async def play(
    installation: Installation | None,
    *,
    steps: Mapping[str, tuple[str, Step]] = STEPS,
    open_with: Callable[[tuple[str, ...], tuple[str, ...]], None] | None = None,
    announce: Callable[[str], None],
    show: Callable[[StepReport], None],
    working: Working = _unseen,
) -> Demo:
    """Perform the demo in a folder of its own, which is gone afterwards.

    Args:
        installation: The servers beyond this environment; `None` does without.
        steps: What to perform.
        open_with: Called once with the names of the servers, and with what this machine has to do without.
        announce: Called with the title of each step before it is performed, since some take a while.
        show: Called with each step when it is over.
        working: Shows that a step takes its time.

    Raises:
        StepFailed: There was no gateway to perform with.
    """
    started = perf_counter()
    with tempfile.TemporaryDirectory(prefix="tools-search-demo-") as name:
        folder = Path(name)
        workspace = make_workspace(folder)
        servers = demo_servers(workspace, installation)
        remarks = notes(workspace, installation)
        if open_with is not None:
            open_with(tuple(servers), remarks)
        configuration = folder / "mcp.json"
        write_configuration(servers, configuration)
        async with running_gateway(configuration) as url:
            with working("starting the servers behind a gateway"):
                await _wait_for_all(url)
            async with over_gateway(url, "auto") as (gateway, meter):
                stage = Stage(workspace, configuration, queries(workspace), url, gateway, meter)
                reports: list[StepReport] = []
                for step, (title, deed) in steps.items():
                    announce(title)
                    with working(_DOING.get(step, "working")) as stage.progress:
                        reports.append(await _perform(step, title, deed, stage))
                    show(reports[-1])
    return Demo(
        tuple(servers), remarks, tuple(reports), perf_counter() - started, installation.seconds if installation else 0.0
    )


async def _wait_for_all(url: str) -> None:
    """Wait until the gateway has heard from its servers, which it does before it lists their tools."""
    async with over_gateway(url, "auto") as (gateway, _):
        listing = await gateway.list(deadline=2 * PATIENCE_SECONDS)
    if listing.servers[0].failure is not None:
        raise StepFailed(f"the gateway does not answer: {listing.servers[0].failure.message}")


async def _perform(name: str, title: str, deed: Step, stage: Stage) -> StepReport:
    started = perf_counter()
    shown, problem = Shown({}), None
    try:
        shown = await deed(stage)
    except (StepFailed, ToolsSearchClientError) as error:
        problem = str(error)
    except Exception as error:  # a step that breaks is reported like one that fails, and the others are performed
        problem = f"{type(error).__name__}: {error}"
    return StepReport(name, title, perf_counter() - started, shown, problem)
