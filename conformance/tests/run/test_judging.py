"""What the body of a check says becomes a result, and nothing passes on no evidence."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_conformance.checks import SERVER_CHECKS
from tools_search_conformance.model import SERVER_PREFIX, Cell, Check, Result, UnverifiableError, ViolationError
from tools_search_conformance.run import judging
from tools_search_conformance.run.judging import Timeouts, check_seconds, run_check
from tools_search_conformance.run.options import Options
from tools_search_conformance.target.bench import Bench
from tools_search_conformance.target.properties import explore, limits
from tools_search_conformance.target.server import Opening, Server
from tools_search_conformance.target.target import StdioTarget
from tools_search_conformance.wire.eras import LEGACY, MODERN
from tools_search_conformance.wire.http import WAITING
from tools_search_conformance.wire.process import TargetError
from tools_search_conformance.wire.record import Recorder

pytestmark = pytest.mark.anyio

Command = Callable[..., tuple[str, ...]]
Body = Callable[[Bench], Awaitable[None]]


@asynccontextmanager
async def bench_of(argv: tuple[str, ...], folder: Path, *, seed: int = 0) -> AsyncGenerator[Bench]:
    cell = Cell(transport="stdio", era=MODERN)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            options = Options(selection=SERVER_CHECKS.select(), out=folder, timeout=5, start_timeout=10, seed=seed)
            target = StdioTarget(argv, options, tasks, folder)
            bench = Bench(Server(options, cell, target, Recorder("c")))
            try:
                yield bench
            finally:
                await bench.aclose()
                await target.aclose()


def a_check(body: Body, **rest: Any) -> Check:
    return Check(id=SERVER_PREFIX + "x", title="", sends="", passes="", run=body, **rest)


@pytest.fixture
def judge(target: Command, tmp_path: Path) -> Callable[..., Awaitable[Result]]:
    async def run(body: Body, *, left: float = 20, **rest: Any) -> Result:
        async with bench_of(target("miniature"), tmp_path) as bench:
            return await run_check(a_check(body, **rest), bench, deadline=time.monotonic() + left)

    return run


Judge = Callable[..., Awaitable[Result]]


async def test_a_check_that_tests_an_expectation_passes(judge: Judge):
    async def body(bench: Bench) -> None:
        exchange = await bench.server.search({"query": "lumenfield"})
        bench.expect(exchange.result is not None, exchange, "refused")

    result = await judge(body)
    assert (result.status, result.evidence.observations) == ("pass", 1)
    assert result.evidence.exchanges
    assert result.evidence.decisive is None


async def test_what_a_rate_limit_takes_is_no_part_of_the_time_of_a_check(judge: Judge, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(judging._CHECK_SECONDS, "default", 0.2)  # pyright: ignore[reportPrivateUsage]

    def waits(seconds: float) -> Body:
        async def body(bench: Bench) -> None:
            WAITING.get()(seconds)
            await anyio.sleep(0.4)
            exchange = await bench.server.search({"query": "lumenfield"})
            bench.expect(exchange.result is not None, exchange, "refused")

        return body

    assert (await judge(waits(5))).status == "pass"
    assert (await judge(waits(0))).message == "not finished within 0 s"
    assert (await judge(waits(5), left=0.1)).message == "not finished when the time for the whole run was over"


async def test_a_check_that_tests_nothing_leaves_its_rule_unverified(judge: Judge):
    async def body(bench: Bench) -> None:
        for tool in (await bench.server.page("no such word whatever")).items:
            raise AssertionError(tool)

    result = await judge(body)
    assert result.status == "unverified"
    assert result.message == "nothing that the target answered could be tested"


@pytest.mark.parametrize(("level", "status"), [("MUST", "fail"), ("SHOULD", "warn"), ("ADVICE", "advice")])
async def test_an_expectation_that_does_not_hold_is_as_bad_as_its_level(judge: Judge, level: str, status: str):
    async def body(bench: Bench) -> None:
        exchange = await bench.server.search({"query": "lumenfield"})
        bench.expect(False, exchange, "it is so", case="query 'lumenfield'")

    result = await judge(body, level=level)
    assert (result.status, result.message, result.evidence.case) == (status, "it is so", "query 'lumenfield'")
    assert result.evidence.decisive is not None
    assert result.evidence.requests


async def test_a_corrected_request_that_is_refused_as_well_shows_nothing(judge: Judge):
    async def body(bench: Bench) -> None:
        await bench.refused({"query": ""}, {"query": " "}, "an empty query")

    result = await judge(body)
    assert result.status == "unverified"
    assert result.message == "a valid request, sent for comparison with an empty query, got error -32602"


async def test_a_rule_without_its_optional_part_is_skipped(judge: Judge):
    async def body(bench: Bench) -> None:
        bench.applies(False, "there is none")

    result = await judge(body)
    assert (result.status, result.skip, result.message) == ("skip", "not-offered", "there is none")


async def test_a_check_that_needs_an_unclaimed_feature_of_the_fixture_is_skipped_and_says_how_to_run_it(judge: Judge):
    async def body(bench: Bench) -> None:
        raise AssertionError("it is not run")

    result = await judge(body, fixture_feature="reload")
    assert (result.status, result.skip) == ("skip", "fixture-feature")
    assert result.message.endswith("--fixture-features reload")


async def test_a_further_fixture_is_started_once_and_its_evidence_counts(judge: Judge):
    async def body(bench: Bench) -> None:
        for _ in range(2):
            other = await bench.fixture("small", Opening(catalog="single"))
            await other.served({"query": "anything"}, "a search")
            opened.append(await other.server.connection())

    opened: list[object] = []
    result = await judge(body)
    assert (result.status, result.evidence.observations) == ("pass", 2)
    assert opened[0] is opened[1]


async def test_a_request_that_is_waited_for_no_longer_is_recorded_all_the_same(judge: Judge):
    async def body(bench: Bench) -> None:
        connection = await bench.server.connection()
        with bench.recorder.keeping() as kept:
            with anyio.CancelScope() as scope:
                scope.cancel()
                await connection.request("tools/search", {"query": "x"}, seconds=5)
            await bench.served({"query": "x"}, "a search")
        answers.extend(exchange.answer.fault for exchange in kept)

    answers: list[str | None] = []
    assert (await judge(body)).status == "pass"
    assert answers == ["waited for no longer", None]


async def test_a_fault_of_the_suite_is_no_fault_of_the_target(judge: Judge):
    async def body(bench: Bench) -> None:
        raise KeyError("oops")

    result = await judge(body)
    assert result.status == "error"
    assert "KeyError" in result.message


async def test_a_check_without_time_left_is_unverified(judge: Judge):
    async def body(bench: Bench) -> None:
        await anyio.sleep_forever()

    assert (await judge(body, left=0)).status == "unverified"


@pytest.mark.parametrize(
    ("narrowed", "reason"),
    [({"eras": (LEGACY,)}, "era"), ({"transports": ("http",)}, "transport"), ({"profiles": ("live",)}, "profile")],
)
async def test_a_check_that_does_not_apply_to_the_cell_is_skipped(judge: Judge, narrowed: dict[str, Any], reason: str):
    async def body(bench: Bench) -> None:
        pytest.fail("it is run where it does not apply")

    result = await judge(body, **narrowed)
    assert (result.status, result.skip) == ("skip", reason)


async def test_a_target_that_cannot_be_started_again_is_unverified(tmp_path: Path):
    async def body(bench: Bench) -> None:
        await bench.server.search({"query": "anything"})

    async with bench_of(("no-such-program",), tmp_path) as bench:
        result = await run_check(a_check(body), bench, deadline=time.monotonic() + 5)
    assert result.status == "unverified"
    assert "no-such-program" in result.message


@pytest.mark.rotating
async def test_a_target_that_keeps_dying_is_given_up(target: Command, tmp_path: Path):
    async def body(bench: Bench) -> None:
        while True:
            await bench.server.search({"query": "anything"})

    async with bench_of(target("nulls", "crash_on_search"), tmp_path) as bench:
        with pytest.raises(TargetError, match="more than 60 times"):
            await body(bench)


@pytest.mark.parametrize(("level", "status"), [("MUST", "fail"), ("SHOULD", "warn"), ("ADVICE", "advice")])
async def test_a_target_that_ends_by_itself_breaks_the_rule_whatever_it_is_about(
    target: Command, tmp_path: Path, level: str, status: str
):
    async def body(bench: Bench) -> None:
        await bench.server.search({"query": "anything"})
        bench.applies(False, "there is nothing to see here")

    async with bench_of(target("nulls", "crash_on_search"), tmp_path) as bench:
        result = await run_check(a_check(body, level=level), bench, deadline=time.monotonic() + 30)
    assert result.status == status
    ended = "the process ended with exit status 3; stderr: about to crash"
    assert result.message == f"the target ended in the middle of this check: {ended}"
    assert result.evidence.decisive is not None


async def test_a_listing_that_never_rests_is_unverified(target: Command, tmp_path: Path):
    async with bench_of(target("miniature"), tmp_path) as bench:
        full, lacking = await bench.server.listing(), await bench.server.listing()
        lacking = type(full)(full.items[1:], full.exchange)
        listings = iter([lacking, full, lacking])

        async def changing() -> Any:
            return next(listings)

        async def nothing(_: object) -> None:
            """Find nothing out meanwhile."""

        bench.server.listing = changing  # pyright: ignore[reportAttributeAccessIssue] - a server of which each listing differs
        with pytest.raises(UnverifiableError, match="changed during each of 3 comparisons"):
            await bench.with_stable_listing(nothing)


async def test_a_broken_invariant_comes_back_as_its_smallest_case(target: Command, tmp_path: Path):
    async with bench_of(target("miniature"), tmp_path) as bench:
        page = await bench.server.page("lumenfield")

        async def holds_below_seven(limit: int) -> None:
            bench.expect(limit < 7, page.exchange, "too much", case=str(limit))

        with pytest.raises(ViolationError) as found:
            await explore(bench, limits(), holds_below_seven)
    assert found.value.case == "7"


async def test_an_invariant_that_breaks_only_sometimes_is_broken(target: Command, tmp_path: Path):
    async with bench_of(target("miniature"), tmp_path) as bench:
        page, seen = await bench.server.page("lumenfield"), list[int]()

        async def holds_the_second_time(limit: int) -> None:
            seen.append(limit)
            bench.expect(len(seen) != 3, page.exchange, "too much")

        with pytest.raises(ViolationError, match="not every time"):
            await explore(bench, limits(), holds_the_second_time)


async def test_a_target_that_ends_is_no_case_that_breaks_an_invariant(target: Command, tmp_path: Path):
    async with bench_of(target("miniature"), tmp_path) as bench:
        cases: list[int] = []

        async def ends_the_third_time(limit: int) -> None:
            cases.append(limit)
            if len(cases) == 3:
                raise TargetError("it is gone")

        with pytest.raises(TargetError, match="it is gone"):
            await explore(bench, limits(), ends_the_third_time)
    assert len(cases) == 3


async def test_what_ends_one_of_several_tasks_ends_the_check(judge: Judge):
    async def body(bench: Bench) -> None:
        async with anyio.create_task_group() as tasks:

            async def ask() -> None:
                raise TargetError("it is gone")

            tasks.start_soon(ask)

    result = await judge(body)
    assert (result.status, result.message) == ("unverified", "the target could not be reached again: it is gone")


async def test_the_same_seed_generates_the_same_cases(target: Command, tmp_path: Path):
    async def generated(seed: int) -> list[int]:
        async with bench_of(target("miniature"), tmp_path, seed=seed) as bench:
            cases: list[int] = []

            async def keep(limit: int) -> None:
                cases.append(limit)

            await explore(bench, limits(), keep)
            return cases

    assert await generated(1) == await generated(1)
    assert await generated(1) != await generated(2)


def test_a_check_of_a_slow_target_may_take_longer_but_not_without_end():
    assert check_seconds("default", 0) == check_seconds("default", 50) == 60
    assert check_seconds("default", 150) == 180
    assert check_seconds("default", 10_000) == 360


async def test_how_slow_a_target_is_follows_from_its_answers(judge: Judge):
    async def body(bench: Bench) -> None:
        assert bench.recorder.milliseconds == 0 or bench.recorder.last is not None
        with bench.recorder.keeping() as kept:
            await bench.served({"query": "x"}, "a search")
            await bench.served({"query": "y"}, "a search")
        times.extend(exchange.milliseconds for exchange in kept)
        assert bench.recorder.milliseconds > 0

    times: list[float] = []
    assert (await judge(body)).status == "pass"
    assert min(times) > 0


def test_a_method_that_is_never_answered_is_soon_waited_for_no_longer():
    timeouts = Timeouts(10)
    waits: list[float] = []
    for _ in range(5):
        waits.append(timeouts.for_request("m"))
        timeouts.timed_out("m")
    assert waits == [10, 10, 10, 0.2, 0.2]
    assert timeouts.for_request("other") == 10
    timeouts.answered("m")
    assert timeouts.for_request("m") == 10


def test_one_that_is_answered_now_and_then_is_waited_for_less_as_well():
    timeouts = Timeouts(10)
    for _ in range(12):
        timeouts.timed_out("m")
        timeouts.answered("m")
    assert timeouts.for_request("m") == 1


def test_two_failed_starts_in_a_row_are_enough():
    timeouts = Timeouts(10, 20)
    timeouts.start_failed("it died")
    timeouts.answered("m")
    timeouts.start_failed("it died")
    assert timeouts.gone is None
    assert timeouts.for_start() == 2
    timeouts.start_failed("it died again")
    assert "it died again" in str(timeouts.gone)
