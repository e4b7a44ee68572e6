"""Where checks are declared, found by id and chosen by pattern."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from tools_search_conformance.model import CHECK_PREFIX, Check, Effort, FixtureFeature, Level, Profile
from tools_search_conformance.run.selection import UnknownCheckError, choose_checks
from tools_search_conformance.wire.eras import ERAS, Era
from tools_search_conformance.wire.transport import TransportName

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench

__all__ = ["UnknownCheckError", "check", "registered", "select"]

_CHECKS: Final[dict[str, Check]] = {}

Body = Callable[["Bench"], Awaitable[None]]


def check(
    rule: str,
    *,
    title: str,
    sends: str,
    passes: str,
    level: Level = "MUST",
    eras: tuple[Era, ...] = ERAS,
    transports: tuple[TransportName, ...] = ("stdio", "http"),
    profiles: tuple[Profile, ...] = ("fixture", "live"),
    efforts: tuple[Effort, ...] = ("quick", "default", "deep"),
    feature: FixtureFeature | None = None,
) -> Callable[[Body], Check]:
    """Declare the decorated body as the check `tools-search-server-<rule>`; what needs a `feature` is for fixtures."""

    def register(body: Body) -> Check:
        declared = Check(
            id=CHECK_PREFIX + rule,
            title=title,
            sends=sends,
            passes=passes,
            run=body,
            level=level,
            eras=eras,
            transports=transports,
            profiles=profiles if feature is None else ("fixture",),
            efforts=efforts,
            fixture_feature=feature,
        )
        if declared.id in _CHECKS:
            raise ValueError(f"two checks with the id {declared.id}")
        _CHECKS[declared.id] = declared
        return declared

    return register


def registered() -> tuple[Check, ...]:
    """Return every check declared so far; `tools_search_conformance.checks` declares them all."""
    return tuple(_CHECKS.values())


def select(patterns: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks whose id, with or without its prefix, matches one of the glob `patterns`; all for none.

    Raises:
        UnknownCheckError: a pattern matches nothing.
    """
    return choose_checks(patterns, registered())
