"""How the body of a check ends early: broken rule, nothing to judge, or nothing that applies."""

from __future__ import annotations

from tools_search_conformance.model import SkipReason
from tools_search_conformance.wire.codec import JsonObject
from tools_search_conformance.wire.record import Exchange

__all__ = ["InapplicableError", "LeftOutError", "UnverifiableError", "VerdictError", "ViolationError"]


class VerdictError(Exception):
    """Base of the three. A body that returns instead has nothing to complain of.

    VerdictError
    ├── ViolationError      the rule is broken: fail, warn or advice
    ├── UnverifiableError   the rule applies, but the target could not be brought to exercise it
    └── InapplicableError   the target lacks the optional part that the rule is about
        └── LeftOutError    the run is a brief one, and judging the rule would take long
    """

    def __init__(self, message: str, exchange: Exchange | None = None, case: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.exchange = exchange
        self.case = case
        self.steps: tuple[Exchange, ...] = ()
        """The exchanges that led to it, where it took more than following a cursor."""
        self.catalog: str | JsonObject | None = None
        """Which catalog it was seen on, by its name or as it is; `None` for the usual one."""


class ViolationError(VerdictError):
    """The rule is broken, as `exchange` shows."""


class UnverifiableError(VerdictError):
    """The rule applies, but could not be exercised; the message says why and what would help."""


class InapplicableError(VerdictError):
    """The rule does not apply to this target."""

    kind: SkipReason = "not-offered"


class LeftOutError(InapplicableError):
    """The rule applies, but a brief run leaves it out."""

    kind: SkipReason = "effort"
