"""What can be wrong with a host's configuration."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["ConfigurationError"]


class ConfigurationError(Exception):
    """A configuration that cannot be used; the message lists every problem with its place and its mend."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        lines = "\n".join(f"  - {problem}" for problem in self.problems)
        super().__init__(f"{source} cannot be used:\n{lines}")
