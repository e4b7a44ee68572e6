"""Each fault turns exactly its declared checks red, and each check is turned red by some fault."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import anyio
import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.model import FIXTURE_FEATURES, SERVER_PREFIX, Cell, Effort, FixtureFeature, Run
from tools_search_conformance.report.checks_page import rows_in
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.judge import judge_server
from tools_search_conformance.wire.eras import ERAS, Era, TransportName

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]

ANY: Final = ("any",)
TRANSPORTS: Final[tuple[TransportName, ...]] = ("stdio", "http")
CHECKS: Final = {check.id.removeprefix(SERVER_PREFIX): check for check in SERVER_CHECKS.all}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A row of mutants.yaml."""

    name: str
    turns_red: tuple[str, ...]
    cells: tuple[str, ...] = ()
    unverified: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    """The checks that it turns red as well, if the fixture can do whatever they need."""
    because: str = ""
    reference: bool = False
    effort: Effort = "quick"
    brief: bool = True
    """Whether a brief run is enough to see the fault; never where it takes another start."""
    live: bool = True
    """Whether the fault also shows in a server that serves its own tools."""
    with_features: tuple[FixtureFeature, ...] = ()
    """What else a fixture has to be able to do than what the checks need without which they are skipped."""
    elsewhere: bool = False
    """Whether other searches than that for tools are broken, each of which is judged in some of the cells only."""

    def shows_in(self, cell: str) -> bool:
        """Return whether the fault can be seen in the cell, apart from checks that do not apply there."""
        return not self.cells or any(part in cell for part in self.cells)

    def shows_in_era(self, era: Era) -> bool:
        """Return whether the fault can be seen in any cell of the era."""
        return any(self.shows_in(f"{transport}-{era}") for transport in ("stdio", "http"))

    @property
    def features(self) -> frozenset[FixtureFeature]:
        """What a fixture has to be able to do for the fault to show."""
        needed: frozenset[FixtureFeature] = frozenset(
            feature for rule in self.turns_red if (feature := CHECKS[rule].fixture_feature)
        )
        return needed.union(self.with_features)

    @property
    def lists(self) -> tuple[str, ...]:
        """The arguments by which the miniature serves tools alone, where nothing of the other lists is broken."""
        return () if self.elsewhere or _OF_SEVERAL_LISTS.intersection(self.turns_red) else ("--tools-alone",)

    @property
    def in_brief(self) -> bool:
        """Whether it is judged by a brief run."""
        return self.brief and self.effort == "quick" and not self.features

    @property
    def cells_that_show(self) -> list[tuple[TransportName, Era]]:
        """The cells in which every killed check applies and the fault can be seen."""
        return [
            (transport, era)
            for era in ERAS
            for transport in TRANSPORTS
            if self.shows_in(Cell(transport=transport, era=era).name)
            and all(transport in CHECKS[rule].transports and era in CHECKS[rule].eras for rule in self.turns_red)
        ]

    @property
    def turn(self) -> tuple[TransportName, Era]:
        """The cell where each mutant is judged in one. It depends on the name, so that new mutants move no other."""
        return self.cells_that_show[crc32(self.name.encode()) % len(self.cells_that_show)]


def _read() -> dict[str, Mutant]:
    return {name: _mutant(name, row) for name, row in rows_in(Path(__file__).with_name("mutants.yaml")).items()}


def _mutant(name: str, row: dict[str, Any]) -> Mutant:
    lists = {key: tuple(row.pop(key, ())) for key in ("with_features",)}
    lists |= {key: tuple(map(str, row.pop(key, ()))) for key in ("turns_red", "cells", "unverified", "also")}
    row.setdefault("elsewhere", "@" in name)
    return Mutant(name=name, **lists, **row)


MUTANTS: Final = _read()
OF_LIVE_SERVERS: Final = [
    name
    for name, mutant in MUTANTS.items()
    if mutant.live and any("live" in CHECKS[rule].profiles for rule in mutant.turns_red)
]
OF_THE_REFERENCE: Final = [name for name, mutant in MUTANTS.items() if mutant.reference]
_OF_SEVERAL_LISTS: Final = frozenset(
    {"primitives-advertised", "primitives-settings-shape", "primitives-served", "cursor-other-method"}
)
SOME: Final = 12
FEW: Final = 24
SEVERAL: Final = 6
RARE: Final = 48
CORE: Final = Path(catalogs.__file__).parent / "core.json"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    everything = bool(metafunc.config.getoption("--all-cells"))
    each = bool(metafunc.config.getoption("--every-mutant")) or everything
    of_each = bool(metafunc.config.getoption("--every-check"))
    if "mutant" in metafunc.fixturenames:
        one_each = {mutant.turns_red: name for name, mutant in reversed(MUTANTS.items())}
        sample = sorted(one_each.values()) if of_each else list(MUTANTS)[::SOME]
        metafunc.parametrize("mutant", list(MUTANTS) if each else sample)
    if "broken_reference" in metafunc.fixturenames:
        metafunc.parametrize("broken_reference", OF_THE_REFERENCE[:: 1 if everything else SEVERAL if each else FEW])
    if "live_mutant" in metafunc.fixturenames:
        some = [name for name in OF_LIVE_SERVERS if everything or crc32(name.encode()) % RARE == 0]
        metafunc.parametrize("live_mutant", some)


# Faults that show in the other era only must be seen, too.
_IN_BOTH_ERAS: Final = {
    "not-discovered", "advertised-as-true", "legacy-unadvertised", "gate-opened-by-legacy-clients",
    "pages-kept-for-both-eras", "era-of-the-latest-search", "legacy-templates-untyped",
    "legacy-prompts-scored-in-percent",
}  # fmt: skip

Judge = Callable[..., Awaitable[Run]]


@pytest.fixture
def judge(pytestconfig: pytest.Config, tmp_path: Path) -> Judge:
    everywhere = bool(pytestconfig.getoption("--all-cells"))

    async def run(mutant: Mutant, argv: tuple[str, ...], *http: str, all_cells: bool = False, **more: Any) -> Run:
        transport, era = mutant.turn
        every = everywhere and all_cells
        whole = Options(
            selection=SERVER_CHECKS.select([]),
            out=tmp_path,
            argv=argv if every or transport == "stdio" else (),
            http_argv=(*argv, *http) if every or transport == "http" else (),
            era="auto" if every or mutant.name in _IN_BOTH_ERAS else era,
            fixture_features=frozenset(FIXTURE_FEATURES) if every else mutant.features,
            seed=1,
            effort=mutant.effort,
            brief=mutant.in_brief and not every,  # what takes another start is left out of some cells only
            **more,
        )
        with anyio.fail_after(300):
            if not mutant.brief or (every and mutant.effort == "default") or (mutant.in_brief and not every):
                return await judge_server(whole)
            # All checks with such an effort would take a minute: its own are run with it, the others briefly.
            its_own = SERVER_CHECKS.select([SERVER_PREFIX + rule for rule in mutant.turns_red])
            seen = await judge_server(replace(whole, selection=its_own))
            others = await judge_server(replace(whole, effort="quick", brief=True))
            own_ids = {check.id for check in its_own.checks}
            rest_of_all = [result for result in others.results if result.check not in own_ids]
            return replace(others, results=(*seen.results, *rest_of_all))

    return run


def _assert_exact(mutant: Mutant, run: Run) -> None:
    seen, shown_in = set[str](), dict[str, dict[str, bool]]()
    for cell in run.cells:
        of_cell = {result.check.removeprefix(SERVER_PREFIX): result for result in run.results if result.cell == cell}
        red = {rule: result.message for rule, result in of_cell.items() if result.status in {"fail", "warn", "advice"}}
        red = {rule: message for rule, message in red.items() if rule not in mutant.also}
        stuck = {rule: result.message for rule, result in of_cell.items() if result.status in {"unverified", "error"}}
        # What a brief run leaves out shows nothing, so that a mutant of it needs a longer one.
        applicable = {rule for rule, r in of_cell.items() if r.status != "skip" or r.skip == "effort"}
        expected = set(mutant.turns_red) & applicable if mutant.shows_in(cell.name) else set[str]()
        share_cases = len({cell.transport for cell in run.cells}) > 1
        if share_cases or ((mutant.elsewhere or mutant.effort == "default") and len(run.cells) > 1):
            for rule in expected:
                for part in (cell.transport, cell.era):
                    parts = shown_in.setdefault(rule, {})
                    parts[part] = parts.get(part, False) or rule in red
            expected &= red.keys()  # the rest of many cases is tried in other cells
        assert red.keys() == expected, (cell.name, red, stuck)
        if mutant.unverified != ANY:
            judged = {rule for rule, result in of_cell.items() if result.status != "skip"}
            wanted = set(mutant.unverified) & judged if expected or share_cases else set[str]()
            fewer = mutant.elsewhere or share_cases  # some of what cannot be judged is judged in other cells alone
            assert stuck.keys() <= wanted if fewer else stuck.keys() == wanted, (cell.name, stuck)
        assert {rule for rule, result in of_cell.items() if result.status == "error"} == set(), (cell.name, stuck)
        seen |= expected
    assert seen == set(mutant.turns_red)
    # Cells share the cases, but each transport and each era gets all of them.
    if not mutant.elsewhere:
        unseen = {(rule, part) for rule, parts in shown_in.items() for part in parts if not parts[part]}
        assert not unseen, unseen


@pytest.mark.rotating
async def test_each_fault_turns_exactly_its_checks_red(
    mutant: str, target: Command, judge: Judge, pytestconfig: pytest.Config
):
    argv = target("miniature", "--fault", mutant, *MUTANTS[mutant].lists)
    # In all cells the largest catalogs are searched as well, on machines under other load.
    patience = 15 if pytestconfig.getoption("--all-cells") else 5
    _assert_exact(MUTANTS[mutant], await judge(MUTANTS[mutant], argv, "--http", all_cells=True, timeout=patience))


@pytest.mark.rotating
async def test_each_fault_of_the_reference_turns_exactly_its_checks_red(
    broken_reference: str, target: Command, judge: Judge
):
    # In all four cells each would take a minute, and the faults are those of the miniature.
    chosen = MUTANTS[broken_reference]
    argv = target("reference_mutant", broken_reference, "--page-size", "20")
    _assert_exact(chosen, await judge(chosen, argv, "--http", "127.0.0.1:0", timeout=20, start_timeout=60))


@pytest.mark.rotating
async def test_each_fault_shows_in_a_live_server_unless_it_says_so(live_mutant: str, target: Command, judge: Judge):
    mutant, argv = MUTANTS[live_mutant], target("miniature", "--fault", live_mutant)
    own_tools: dict[str, Any] = {"profile": "live", "timeout": 5, "env": {"TOOLS_SEARCH_CATALOG": str(CORE)}}
    run = await judge(mutant, argv, "--http", **own_tools)
    live = {rule for rule in mutant.turns_red if "live" in CHECKS[rule].profiles}
    where = [cell for cell in run.cells if mutant.shows_in(cell.name)]
    shown = [result for result in run.results if result.cell in where or result.cell not in run.cells]
    assert {
        result.check.removeprefix(SERVER_PREFIX) for result in shown if result.status in {"fail", "warn", "advice"}
    } == live
    assert not run.of("error")
