"""Where client checks are declared, found by id and chosen by pattern."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from tools_search_conformance.model import CLIENT_PREFIX, Check, DriverFeature, Level
from tools_search_conformance.run.selection import choose_checks
from tools_search_conformance.wire.eras import ERAS, Era
from tools_search_conformance.wire.transport import TransportName

if TYPE_CHECKING:
    from tools_search_conformance.clients.bench import ClientBench

__all__ = ["client_check", "declared_client_checks", "select_client_checks"]

_CHECKS: Final[dict[str, Check]] = {}

Body = Callable[["ClientBench"], Awaitable[None]]


def client_check(
    rule: str,
    *,
    title: str,
    sends: str,
    passes: str,
    level: Level = "MUST",
    eras: tuple[Era, ...] = ERAS,
    transports: tuple[TransportName, ...] = ("stdio", "http"),
    feature: DriverFeature | None = None,
) -> Callable[[Body], Check]:
    """Declare the decorated body as the check `tools-search-client-<rule>`; `sends` tells what the peer does.

    A check with a `feature` is for drivers that have it.
    """

    def register(body: Body) -> Check:
        declared = Check(
            id=CLIENT_PREFIX + rule,
            title=title,
            sends=sends,
            passes=passes,
            run=body,
            level=level,
            eras=eras,
            transports=transports,
            profiles=("fixture",),
            driver_feature=feature,
        )
        if declared.id in _CHECKS:
            raise ValueError(f"two checks with the id {declared.id}")
        _CHECKS[declared.id] = declared
        return declared

    return register


def declared_client_checks() -> tuple[Check, ...]:
    """Return every client check declared so far; `tools_search_conformance.clients.checks` declares them all."""
    return tuple(_CHECKS.values())


def select_client_checks(patterns: Sequence[str]) -> tuple[Check, ...]:
    """Return the checks whose id, with or without its prefix, matches one of the glob `patterns`; all for none.

    Raises:
        UnknownCheckError: a pattern matches nothing.
    """
    return choose_checks(patterns, declared_client_checks())
