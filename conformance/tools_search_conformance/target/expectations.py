"""What a check says of an exchange. Every verdict is made of these three: tested, not to be tested, not applicable."""

from __future__ import annotations

from tools_search_conformance.verdict import InapplicableError, UnverifiableError, ViolationError
from tools_search_conformance.wire.record import Exchange

__all__ = ["Expectations"]


class Expectations:
    """Keeps which exchanges a verdict stands on."""

    def __init__(self) -> None:
        self.judged: list[int] = []
        """Numbers of the exchanges that expectations were tested against."""

    def expect(self, condition: bool, exchange: Exchange, message: str, *, case: str | None = None) -> None:
        """Test one expectation against an exchange. What was never tested cannot pass.

        Raises:
            ViolationError: it does not hold.
        """
        if exchange.replied:
            self.judged.append(exchange.number)
        if not condition:
            raise ViolationError(message, exchange, case)

    def require(self, condition: bool, message: str, exchange: Exchange | None = None) -> None:
        """Go on only where the rule can be exercised.

        Raises:
            UnverifiableError: it cannot.
        """
        if not condition:
            raise UnverifiableError(message, exchange)

    def applies(self, condition: bool, message: str) -> None:
        """Go on only where the target has the optional part that the rule is about.

        Raises:
            InapplicableError: it has not.
        """
        if not condition:
            raise InapplicableError(message)
