"""Each fault of a client turns exactly its declared checks red, and each client check is turned red by some fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from zlib import crc32

import anyio
import pytest
from tools_search_conformance.clients.checks import CLIENT_CHECKS
from tools_search_conformance.clients.judge import judge_client
from tools_search_conformance.model import Cell, Check
from tools_search_conformance.report.checks_page import rows_in
from tools_search_conformance.run.options import Options
from tools_search_conformance.wire.eras import ERAS, Era, TransportName

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]

SOME: Final = 12
TRANSPORTS: Final[tuple[TransportName, ...]] = ("stdio", "http")
CHECKS: Final[dict[str, Check]] = {check.rule: check for check in CLIENT_CHECKS.all}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A row of client_mutants.yaml."""

    name: str
    turns_red: tuple[str, ...]
    cells: tuple[str, ...] = ()
    because: str = ""
    elsewhere: bool = False
    """Whether other searches than that for tools are broken."""

    def shows_in(self, cell: str) -> bool:
        """Return whether the fault can be seen in the cell, apart from checks that do not apply there."""
        return not self.cells or any(part in cell for part in self.cells)

    @property
    def lists(self) -> tuple[str, ...]:
        """The arguments by which the miniature searches tools alone, where no search of another list is broken."""
        return () if self.elsewhere else ("--without", "primitives")

    @property
    def turn(self) -> tuple[TransportName, Era]:
        """The cell where each mutant is judged in one. It depends on the name, so that new mutants move no other."""
        checks = [CHECKS[rule] for rule in self.turns_red]
        cells: list[tuple[TransportName, Era]] = [
            (transport, era)
            for era in ERAS
            for transport in TRANSPORTS
            if self.shows_in(Cell(transport=transport, era=era).name)
            and all(transport in check.transports and era in check.eras for check in checks)
        ]
        return cells[crc32(self.name.encode()) % len(cells)]


def _read() -> dict[str, Mutant]:
    rows = rows_in(Path(__file__).with_name("client_mutants.yaml"))
    return {
        name: Mutant(
            name=name,
            turns_red=tuple(row["turns_red"]),
            cells=tuple(map(str, row.get("cells", ()))),
            because=row.get("because", ""),
            elsewhere=row.get("elsewhere", "@" in name),
        )
        for name, row in rows.items()
    }


MUTANTS: Final = _read()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    each = metafunc.config.getoption("--every-mutant") or metafunc.config.getoption("--all-cells")
    if "mutant" in metafunc.fixturenames:
        one_each = {mutant.turns_red: name for name, mutant in reversed(MUTANTS.items())}
        sample = sorted(one_each.values()) if metafunc.config.getoption("--every-check") else list(MUTANTS)[::SOME]
        metafunc.parametrize("mutant", list(MUTANTS) if each else sample)


@pytest.mark.rotating
async def test_each_fault_of_a_client_turns_exactly_its_checks_red(
    mutant: str, target: Command, pytestconfig: pytest.Config, tmp_path: Path
):
    every = bool(pytestconfig.getoption("--all-cells"))
    transport, era = MUTANTS[mutant].turn
    options = Options(
        selection=CLIENT_CHECKS.select([]),
        out=tmp_path,
        argv=target("miniature_client", "--fault", mutant, *MUTANTS[mutant].lists),
        effort="quick",
        era="auto" if every else era,
    )
    # Each transport is judged on its own: one run over both would share cases out between them.
    with anyio.fail_after(300):
        runs = [await judge_client(replace(options, transport=each)) for each in (TRANSPORTS if every else [transport])]
    results = [result for run in runs for result in run.results]
    seen: set[str] = set()
    for cell in [cell for run in runs for cell in run.cells]:
        of_cell = {
            result.check.removeprefix("tools-search-client-"): result for result in results if result.cell == cell
        }
        red = {rule: result.message for rule, result in of_cell.items() if result.status in {"fail", "warn", "advice"}}
        stuck = {rule: result.message for rule, result in of_cell.items() if result.status in {"unverified", "error"}}
        applicable = {rule for rule, result in of_cell.items() if result.status != "skip"}
        expected = set(MUTANTS[mutant].turns_red) & applicable if MUTANTS[mutant].shows_in(cell.name) else set[str]()
        assert red.keys() == expected, (cell.name, red, stuck)
        assert not stuck, (cell.name, stuck)
        seen |= expected
    assert seen == set(MUTANTS[mutant].turns_red)
