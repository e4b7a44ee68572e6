"""Each fault that is put into the reference client, too, turns exactly its declared check red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
import pytest
from tools_search_conformance.clients.judge import ClientOptions, judge_client
from tools_search_conformance.model import Run
from tools_search_conformance.runner import say_nothing
from tools_search_conformance.wire.eras import ERAS, LEGACY, MODERN, Era
from tools_search_conformance.wire.transport import TransportName

pytestmark = pytest.mark.anyio

AT_ONCE: Final = 2
SOME: Final = 5


@dataclass(frozen=True)
class Fault:
    """What it turns red, and in which eras it shows."""

    kills: str
    eras: tuple[Era, ...] = ERAS


FAULTS: Final = {
    "users-confounded": Fault("cache-private", (MODERN,)),
    "kept-beyond-its-time": Fault("cache-stale", (MODERN,)),
    "changes-unheeded": Fault("list-change-drops-cache", (MODERN,)),
    "limits-confounded": Fault("cache-key", (MODERN,)),
    "refusals-told": Fault("fallback-after-refusal"),
    "empty-page-ends": Fault("empty-page-not-end"),
    "empty-cursor-ends": Fault("empty-cursor-followed"),
    "refused-cursor-ends": Fault("refused-cursor-discards"),
    "query-lowered-with-cursor": Fault("query-repeated"),
    "cursor-trimmed": Fault("cursor-verbatim"),
    "scores-decide": Fault("federation-merges-ranks"),
    "names-joined": Fault("federation-names-unique"),
    "failures-untold": Fault("federation-tells-failures"),
    "empty-settings-are-none": Fault("large-catalogue-searched"),
}


async def test_each_fault_of_the_reference_client_turns_exactly_its_check_red(
    target: Callable[..., tuple[str, ...]],
    client_options: Callable[..., ClientOptions],
    pytestconfig: pytest.Config,
    tmp_path_factory: pytest.TempPathFactory,
):
    every = bool(pytestconfig.getoption("--every-mutant") or pytestconfig.getoption("--all-cells"))
    runs: dict[str, Run] = {}
    limiter = anyio.CapacityLimiter(AT_ONCE)

    async def judge(name: str, transport: TransportName, era: Era) -> None:
        async with limiter:
            argv = target("reference_client_mutant", name)
            out = tmp_path_factory.mktemp(name)
            options = client_options(argv=argv, era=era, transport=transport, effort="quick", out=out)
            runs[name] = await judge_client(options, say_nothing)

    with anyio.fail_after(900):
        async with anyio.create_task_group() as tasks:
            for turn, name in enumerate(list(FAULTS)[:: 1 if every else SOME]):
                transport: TransportName = "stdio" if turn % 4 == 0 else "http"
                tasks.start_soon(judge, name, transport, FAULTS[name].eras[turn % len(FAULTS[name].eras)])
    red = {
        name: {result.check.removeprefix("tools-search-client-") for result in run.of("fail", "warn")}
        for name, run in runs.items()
    }
    assert red == {name: {FAULTS[name].kills} for name in runs}
    assert {name: [result.message for result in run.of("unverified", "error")] for name, run in runs.items()} == {
        name: [] for name in runs
    }


def test_the_faults_are_those_that_the_target_knows():
    assert LEGACY in ERAS
    assert len({fault.kills for fault in FAULTS.values()}) == len(FAULTS)
