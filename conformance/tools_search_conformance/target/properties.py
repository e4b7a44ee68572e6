"""Invariants tried on generated cases: Hypothesis finds them, shrinks what fails, and repeats itself by the run's seed.

Fixed cases stand in the checks themselves and always run, so that chance never decides a verdict alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, TypeVar

import anyio.from_thread
import anyio.to_thread
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, FlakyFailure

from tools_search_conformance.model import Effort, UnverifiableError, ViolationError
from tools_search_conformance.run.judging import Workbench
from tools_search_conformance.target.vocabulary import WHITE_SPACE, Vocabulary

EXAMPLES: Final[dict[Effort, int]] = {"quick": 3, "default": 30, "deep": 1000}
"""How many generated cases one property gets."""

SUPPRESSED: Final = (HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large)
"""Hypothesis's complaints about slow or narrow generators, which a judge of servers has to live with."""

Case = TypeVar("Case")


def texts() -> st.SearchStrategy[str]:
    """Return any text that is a query: Unicode scalar values, not all of them white space."""
    scalars = st.characters(exclude_categories=["Cs"])
    return st.text(scalars, min_size=1, max_size=100).filter(lambda text: bool(text.strip(WHITE_SPACE)))


def queries(words: Vocabulary) -> st.SearchStrategy[str]:
    """Return queries that may match something: words of the catalog in any number and order, names, odd texts."""
    known = st.lists(st.sampled_from(sorted(words.frequency) or ["anything"]), min_size=1, max_size=5).map(" ".join)
    return st.one_of(
        known, st.sampled_from([name for name in words.names if name.strip(WHITE_SPACE)] or ["a"]), texts()
    )


def limits() -> st.SearchStrategy[int]:
    """Return limits, small ones first."""
    return st.integers(min_value=1, max_value=60)


async def explore(
    bench: Workbench,
    cases: st.SearchStrategy[Case],
    judge: Callable[[Case], Coroutine[Any, Any, None]],
    *,
    shared: str | None = None,
    cost: int = 1,
) -> None:
    """Judge generated cases until one fails or there are enough, which is sooner where each has a `cost`.

    Cases of one `shared` name are the same ones.

    Raises:
        ViolationError: Of the smallest case that was found to break the rule.
    """
    seen: list[ViolationError] = []

    async def remember(case: Case) -> None:
        try:
            await judge(case)
        except ViolationError as violation:
            seen.append(violation)
            raise
        except UnverifiableError:
            return  # one odd query that is not served does not keep a property from being judged

    @hypothesis_seed(bench, shared or bench.recorder.check)
    @settings(
        max_examples=max(1, EXAMPLES[bench.options.effort] // cost),
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=SUPPRESSED,
    )
    @given(cases)
    def hold(case: Case) -> None:
        anyio.from_thread.run(remember, case)

    await search_in_thread(hold, seen)


def hypothesis_seed(bench: Workbench, name: str) -> Callable[[Any], Any]:
    """Return the decorator that has Hypothesis generate what follows from the run's seed, the cell and a name."""
    return seed(zlib.crc32(f"{bench.options.seed} {bench.cell.name} {name}".encode()))


async def search_in_thread(search: Callable[[], object], seen: Sequence[ViolationError]) -> None:
    """Run a search of Hypothesis in a thread; `seen` grows by each violation that it comes upon.

    Raises:
        ViolationError: Of the smallest case, or of one that broke the rule once and not when it was sent again.
    """
    try:
        await anyio.to_thread.run_sync(search)
    except (Flaky, FlakyFailure) as error:
        if not seen:
            raise
        first = seen[0]
        not_every_time = ViolationError(f"{first.message} (not every time)", first.exchange, first.case)
        not_every_time.steps = first.steps
        raise not_every_time from error
