"""Which cells judge a check for the lists other than that of tools, and which cases each cell tries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.model import CELLS, Cell
from tools_search_conformance.run.judging import run_check
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.bench import Bench, transport_of
from tools_search_conformance.target.primitives import OTHER_METHODS, primitive_of
from tools_search_conformance.target.server import Server
from tools_search_conformance.target.target import UrlTarget
from tools_search_conformance.wire.eras import LEGACY
from tools_search_conformance.wire.record import Recorder
from tools_search_spec import METHOD

pytestmark = pytest.mark.anyio

SHARED = {
    check.id: (check, methods)
    for check in SERVER_CHECKS.all
    if (methods := [method for method in check.methods if method in OTHER_METHODS])
}


@pytest.mark.parametrize("id_", SHARED)
def test_each_check_judges_some_list_over_each_transport(id_: str) -> None:
    check, methods = SHARED[id_]
    over = {transport_of(check, method, check.transports) for method in methods}
    assert len(over) == min(len(methods), len(check.transports))


@pytest.mark.parametrize("id_", SHARED)
def test_each_check_judges_every_other_list_over_each_transport_and_in_each_era(id_: str, benches: list[Bench]) -> None:
    check, methods = SHARED[id_]
    cells = [bench for bench in benches if bench.cell.transport in check.transports and bench.cell.era in check.eras]
    for method in methods:
        judged = list[tuple[bool, Cell]]()
        for bench in cells:
            other = bench.searching(primitive_of(method))
            other.has_served = True
            if other._is_to_judge(check):  # pyright: ignore[reportPrivateUsage] - the rule itself
                judged.append((other.options.effective_brief, bench.cell))
        assert len({cell.transport for _, cell in judged}) == len({bench.cell.transport for bench in cells})
        assert len({cell.era for _, cell in judged}) == len({bench.cell.era for bench in cells})
        assert [brief for brief, _ in judged].count(False) == 1


@pytest.mark.parametrize("most", [1, 3, 5])
@pytest.mark.parametrize("count", [1, 4, 7, 24])
def test_cells_that_share_cases_try_all_of_them_over_each_transport_and_in_each_era(
    count: int, most: int, benches: list[Bench]
) -> None:
    tried = {bench.cell: bench.some(range(count), most) for bench in benches}
    for cell in CELLS:
        alike = [cases for other, cases in tried.items() if other.transport == cell.transport]
        assert {*alike[0], *alike[1]} == {*range(count)}
        alike = [cases for other, cases in tried.items() if other.era == cell.era]
        assert {*alike[0], *alike[1]} == {*range(count)}
    assert all(len(cases) <= count // 2 + most for cases in tried.values())


@pytest.mark.parametrize("id_", [check.id for check in SERVER_CHECKS.all if not all(map(check.applies, CELLS))])
async def test_a_check_of_one_transport_or_one_era_tries_all_cases_in_each_of_its_cells(
    id_: str, benches: list[Bench]
) -> None:
    tried = dict[Cell, list[int]]()

    async def body(bench: Bench) -> None:
        tried[bench.cell] = [*bench.some(range(24), 1)]

    (check,) = (check for check in SERVER_CHECKS.all if check.id == id_)
    for bench in benches:
        await run_check(replace(check, run=body, fixture_feature=None, methods=(METHOD,)), bench, deadline=math.inf)
    assert tried == {cell: [*range(24)] for cell in CELLS if check.applies(cell)}


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[list[Bench]]:
    """Benches of the four cells of a run, without a connection."""
    selection = SERVER_CHECKS.select([])
    options = Options(selection=selection, out=tmp_path, argv=("serve",), http_argv=("serve",), profile="fixture")

    with ExitStack() as recorders:

        def bench(cell: Cell) -> Bench:
            recorder = recorders.enter_context(closing(Recorder(cell.name, tmp_path / f"{cell.name}.jsonl")))
            server = Server(options, cell, UrlTarget("http://127.0.0.1/mcp", options), recorder)
            return Bench(server, first_of_target=cell.era != LEGACY)

        yield [bench(cell) for cell in CELLS]
