"""Each fault that is put into the reference client, too, turns exactly its declared checks red."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
import pytest
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.eras import ERAS, LEGACY, MODERN, Era, TransportName

pytestmark = pytest.mark.anyio

SOME: Final = 7


@dataclass(frozen=True)
class Fault:
    """What it turns red, and in which eras it shows."""

    turns_red: str
    eras: tuple[Era, ...] = ERAS
    also: frozenset[str] = frozenset()
    """Other checks that the same fault turns red."""


FAULTS: Final = {
    "users-confounded": Fault("cache-private", (MODERN,)),
    "kept-beyond-its-time": Fault("cache-stale", (MODERN,)),
    "changes-unheeded": Fault("list-change-drops-cache", (MODERN,)),
    "limits-confounded": Fault("cache-key", (MODERN,)),
    "refusals-reported": Fault("fallback-after-refusal"),
    "empty-page-ends": Fault("empty-page-not-end"),
    "empty-cursor-ends": Fault("empty-cursor-followed", (MODERN,)),
    "refused-cursor-combines": Fault("refused-cursor-discards"),
    "query-lowered-with-cursor": Fault("query-repeated"),
    "cursor-trimmed": Fault("cursor-verbatim"),
    "scores-decide": Fault("federation-scores-not-compared"),
    "names-joined": Fault("federation-names-unique"),
    # Silence is one of the failures.
    "failures-unreported": Fault("federation-tells-failures", (MODERN,), frozenset({"federation-bears-silence"})),
    "busy-is-broken": Fault("busy-not-listed"),
    "empty-settings-are-none": Fault("large-catalog-searched"),
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    each = metafunc.config.getoption("--every-mutant") or metafunc.config.getoption("--all-cells")
    if "mutant" in metafunc.fixturenames:
        metafunc.parametrize("mutant", list(FAULTS)[:: 1 if each else SOME])


@pytest.mark.rotating
async def test_each_fault_of_the_reference_client_turns_exactly_its_checks_red(
    mutant: str, target: Callable[..., tuple[str, ...]], client_options: Callable[..., Options]
):
    turn, fault = list(FAULTS).index(mutant), FAULTS[mutant]
    transport: TransportName = "stdio" if turn % 4 == 0 else "http"
    era = fault.eras[turn % len(fault.eras)]
    argv = target("reference_client_mutant", mutant)
    with anyio.fail_after(300):
        run = await judge_client(client_options(argv=argv, era=era, transport=transport, effort="quick"))
    red = {result.check.removeprefix("tools-search-client-") for result in run.of("fail", "warn", "advice")}
    assert red == {fault.turns_red, *fault.also}
    assert [result.message for result in run.of("unverified", "error")] == []


def test_the_faults_are_those_that_the_target_knows():
    assert LEGACY in ERAS
    assert len({fault.turns_red for fault in FAULTS.values()}) == len(FAULTS)
