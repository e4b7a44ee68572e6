"""The targets of the requirements, each with what was measured and a verdict.

They hold for the client as it is used most plainly: every server deferred, and the model searches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.context.measure import Measurement
from benchmarks.context.sizes import Size

__all__ = ["Target", "targets"]

_LEAST_SAVED = 0.5
_AIM_SAVED = 0.95
_AIMED_AT = 100
_LEAST_FOUND = 0.95
_MOST_MS = 10.0


@dataclass(frozen=True)
class Target:
    """One target and what became of it."""

    says: str
    measured: str
    met: bool


def targets(own: Measurement, sizes: Sequence[Size]) -> Sequence[Target]:
    """Judge one data set.

    Args:
        own: What the client came to.
        sizes: Its first requests, for catalogs of 10 and more tools.
    """
    saved = [
        Target(
            f"more than {_LEAST_SAVED:.0%} fewer definition tokens in the first request, {size.tools} deferred tools",
            f"{size.saved:.1%}, at least {size.least_saved:.1%}",
            size.least_saved > _LEAST_SAVED,
        )
        for size in sizes
    ]
    aimed = [
        Target(
            f"aim: {_AIM_SAVED:.0%} fewer with {size.tools}",
            f"{size.saved:.1%}, at least {size.least_saved:.1%}",
            size.saved >= _AIM_SAVED,
        )
        for size in sizes
        if size.tools >= _AIMED_AT
    ]
    found, milliseconds = own.complete[0], own.search_p95_ms
    return [
        *saved,
        *aimed,
        Target(
            f"the right tools among the results of one search in more than {_LEAST_FOUND:.0%} of the requests",
            f"{found.mean:.1%} ({found.low:.1%} to {found.high:.1%})",
            found.mean > _LEAST_FOUND,
        ),
        Target(
            f"a search takes less than {_MOST_MS:g} ms of the processor",
            f"{own.search_p50_ms:.1f} ms (median), {milliseconds:.1f} (95th percentile)",
            milliseconds < _MOST_MS,
        ),
    ]
