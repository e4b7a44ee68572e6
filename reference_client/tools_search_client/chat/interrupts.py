"""Ctrl-C, while there is a conversation: it ends what is under way, and nothing else."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import anyio

__all__ = ["Interrupts"]


class Interrupts:
    """What is cancelled when the user interrupts the program."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    def stop(self) -> None:
        """Cancel what is under way, if anything is."""
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def cancellable(self) -> Generator[anyio.CancelScope]:
        """Have the block cancelled by `stop`, which its scope tells afterwards."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield scope
            finally:
                self._scope = None
