"""Tests invariants on generated cases: Hypothesis generates and shrinks them, reproducibly from the run's seed.

Fixed cases are in the checks themselves and always run, so that a verdict never depends on chance alone.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

import anyio.from_thread
import anyio.to_thread
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, FlakyFailure
from tools_search_spec import PRIMITIVES

from tools_search_conformance.model import Effort, UnverifiableError, ViolationError
from tools_search_conformance.run.judging import Workbench
from tools_search_conformance.target.vocabulary import WHITE_SPACE, Vocabulary
from tools_search_conformance.wire.codec import JsonObject

EXAMPLES: Final[dict[Effort, int]] = {"quick": 3, "default": 30, "deep": 1000}
"""Number of generated cases per property."""

_MAX_INTEGER: Final = 2**53 - 1
"""Largest integer that is exact in every language."""
_KNOWN_MEMBERS: Final = frozenset(
    {primitive.member.lower() for primitive in PRIMITIVES}
    | {"nextcursor", "next_cursor", "resulttype", "result_type", "ttlms", "cachescope", "_meta"}
    | {"catalogsize", "topics", "maxlimit"}
)
_SCALARS: Final = st.characters(exclude_categories=["Cs"])
"""Unicode scalar values."""
_TEXT: Final = st.text(_SCALARS, max_size=12)

Case = TypeVar("Case")


def examples_for(bench: Workbench) -> int:
    """Return the number of generated cases per property."""
    return max(1, round(EXAMPLES[bench.options.effort] * bench.share_of_examples))


def texts() -> st.SearchStrategy[str]:
    """Return a strategy for valid queries: Unicode scalar values that are not all white space."""
    return st.text(_SCALARS, min_size=1, max_size=100).filter(lambda text: bool(text.strip(WHITE_SPACE)))


def queries(words: Vocabulary, contained: Sequence[str] = ()) -> st.SearchStrategy[str]:
    """Return queries that might match: words from the catalog in any number and order, names, odd texts.

    Some of the words are those `contained` in resources.
    """
    word = st.sampled_from(sorted(words.frequency) or ["anything"])
    word = st.one_of(word, word, st.sampled_from(contained)) if contained else word
    known = st.lists(word, min_size=1, max_size=5).map(" ".join)
    return st.one_of(known, st.sampled_from([name for name in words.keys if name.strip(WHITE_SPACE)] or ["a"]), texts())


def limits() -> st.SearchStrategy[int]:
    """Return limits, small ones first."""
    return st.integers(min_value=1, max_value=60)


def json_values() -> st.SearchStrategy[Any]:
    """Return JSON values that every language parses identically."""
    numbers = st.integers(-_MAX_INTEGER, _MAX_INTEGER) | st.floats(-1e6, 1e6)
    return st.recursive(
        st.none() | st.booleans() | numbers | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=6,
    )


def unknown_members() -> st.SearchStrategy[JsonObject]:
    """Return members that no result or settings object in the draft has, even in another spelling."""
    names = _TEXT.filter(lambda name: name.lower() not in _KNOWN_MEMBERS)
    return st.dictionaries(names, json_values(), min_size=1, max_size=3)


def cursors() -> st.SearchStrategy[str]:
    """Return values of `nextCursor`, except the empty string."""
    return st.text(_SCALARS, min_size=1, max_size=20)


async def explore(
    bench: Workbench,
    cases: st.SearchStrategy[Case],
    judge: Callable[[Case], Coroutine[Any, Any, object]],
    *,
    name: str | None = None,
    drawn: Sequence[Case] = (),
    cost: int = 1,
) -> None:
    """Judge generated cases until one fails or there are enough (fewer if each has a `cost`).

    The same `name` gives the same cases; you can pass the ones that `draw` returned for it. Raises the `ViolationError`
    of the smallest case found that breaks the rule; any other error stops immediately.
    """
    name, count = name or bench.recorder.check, max(1, examples_for(bench) // cost)
    seen, ended = list[ViolationError](), list[Exception]()

    async def attempt(case: Case) -> None:
        try:
            await judge(case)
        except ViolationError as violation:
            seen.append(violation)
            raise
        except UnverifiableError:
            return  # a single odd query that is not served must not prevent judging the property

    async def remember(case: Case) -> None:
        if ended:
            return
        try:
            await attempt(case)
        except ViolationError:
            raise
        except Exception as error:  # such as the target's exit, which does not depend on the case
            ended.append(error)

    with suppress(ViolationError):
        await bench.each(drawn or await draw(bench, cases, name, count), attempt)
        return

    @hypothesis_seed(bench, name)
    @quietly(count)
    @given(cases)
    def hold(case: Case) -> None:
        anyio.from_thread.run(remember, case)

    await search_in_thread(hold, seen, ended)
    raise _not_every_time(seen[0])


async def draw(bench: Workbench, cases: st.SearchStrategy[Case], name: str, count: int) -> list[Case]:
    """Return generated cases; the same name gives the same ones."""
    drawn: list[Case] = []

    @hypothesis_seed(bench, name)
    @quietly(count)
    @given(cases)
    def keep(case: Case) -> None:
        drawn.append(case)

    await anyio.to_thread.run_sync(keep)
    return drawn


def quietly(count: int) -> settings:
    """Return settings for `count` cases, without Hypothesis's health checks for slow or narrow generators."""
    return settings(
        max_examples=count,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large),
    )


def hypothesis_seed(bench: Workbench, name: str) -> Callable[[Any], Any]:
    """Return the decorator that seeds Hypothesis from the run's seed, the cell and a name."""
    return seed(zlib.crc32(f"{bench.options.seed} {bench.cell.name} {name}".encode()))


async def search_in_thread(
    search: Callable[[], object], seen: Sequence[ViolationError], ended: Sequence[Exception]
) -> None:
    """Run a Hypothesis search in a thread; each violation found is appended to `seen`.

    Raises the violation of the smallest case, or of a case that broke the rule only once; or else the error in `ended`,
    after which the search stops.
    """
    try:
        await anyio.to_thread.run_sync(search)
        if ended:
            raise ended[0]
    except (Flaky, FlakyFailure) as error:
        if not seen:
            raise
        raise _not_every_time(seen[0]) from error


def _not_every_time(first: ViolationError) -> ViolationError:
    violation = ViolationError(f"{first.message} (not every time)", first.exchange, first.case)
    violation.steps = first.steps
    return violation
