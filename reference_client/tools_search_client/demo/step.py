"""One step of the demo: what it is, what it showed, and whether it succeeded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Shown", "StepFailed", "StepReport"]


class StepFailed(Exception):
    """A step could not show what it is there to show; the message says why."""


@dataclass(frozen=True, slots=True)
class Shown:
    """What a step has to show, for programs and for people."""

    facts: dict[str, Any]
    lines: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StepReport:
    """How a step went."""

    name: str
    title: str
    seconds: float
    shown: Shown = field(default_factory=lambda: Shown({}))
    problem: str | None = None
    """Why it failed; `None` where it did not."""

    def to_json(self) -> dict[str, Any]:
        """Return the step as `--json` prints it."""
        result: dict[str, Any] = {"step": self.name, "ok": self.problem is None, "seconds": round(self.seconds, 2)}
        if self.problem is not None:
            result["problem"] = self.problem
        return result | self.shown.facts
