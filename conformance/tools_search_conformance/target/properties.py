"""Invariants tried on generated cases: Hypothesis finds them, shrinks what fails, and repeats itself by the run's seed.

Fixed cases stand in the checks themselves and always run, so that chance never decides a verdict alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio.from_thread
import anyio.to_thread
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, FlakyFailure

from tools_search_conformance.target.vocabulary import WHITE_SPACE, Vocabulary
from tools_search_conformance.verdict import UnverifiableError, ViolationError

if TYPE_CHECKING:
    from tools_search_conformance.model import Effort
    from tools_search_conformance.run.judging import Workbench

__all__ = ["EXAMPLES", "explore", "limits", "queries", "texts"]

EXAMPLES: Final[dict[Effort, int]] = {"quick": 3, "default": 30, "deep": 1000}
"""How many generated cases one property gets."""

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
        ViolationError: of the smallest case that was found to break the rule.
    """
    seen: list[ViolationError] = []

    async def remember(case: Case) -> None:
        try:
            await judge(case)
        except ViolationError as violation:
            seen.append(violation)
            raise
        except UnverifiableError:
            return  # one odd query that is not served spoils no property of what is

    try:
        name, examples = shared or bench.recorder.check, EXAMPLES[bench.setting.effort] // cost
        await anyio.to_thread.run_sync(_search, bench, cases, remember, name, examples)
    except (Flaky, FlakyFailure) as error:
        # The rule was broken once and not when the same was sent again: still broken.
        if not seen:
            raise
        raise ViolationError(f"{seen[0].message} (not every time)", seen[0].exchange, seen[0].case) from error


def _search(
    bench: Workbench,
    cases: st.SearchStrategy[Case],
    judge: Callable[[Case], Coroutine[Any, Any, None]],
    name: str,
    examples: int,
) -> None:
    @seed(zlib.crc32(f"{bench.setting.seed} {bench.cell.name} {name}".encode()))
    @settings(
        max_examples=max(1, examples),
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    @given(cases)
    def hold(case: Case) -> None:
        anyio.from_thread.run(judge, case)

    hold()
