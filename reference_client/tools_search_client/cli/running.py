"""The work of a command, run so that it exits cleanly on a signal.

Without this, Ctrl-C cancels the work once, after which waiting for a child process goes on; and the signals of a
service manager or of a closed terminal end the program at once, leaving processes and folders behind.
"""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptionError(Exception):
    """A signal ended the work before it was done; everything that it had started is gone."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"interrupted by {signal.Signals(number).name}")


def run_until_signal(work: Callable[[], Awaitable[T]], *, on_interrupt: Callable[[], None] | None = None) -> T:
    """Run `work` to its end and return its result, or raise its exception; Ctrl-C only calls `on_interrupt`, if given.

    Raises:
        InterruptionError: A signal came first. A second one ends the program without any cleaning up.
    """

    async def run() -> T:
        received: list[int] = []
        outcome: list[T | Exception] = []

        async def watch() -> None:
            with anyio.open_signal_receiver(*_SIGNALS) as signals:
                async for number in signals:
                    if number == signal.SIGINT and on_interrupt is not None:
                        on_interrupt()
                    else:
                        received.append(number)
                        tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                outcome.append(await work())
            except Exception as error:  # kept, because a task group would wrap it
                outcome.append(error)
            tasks.cancel_scope.cancel()
        if received:
            raise InterruptionError(received[0])
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    return anyio.run(run)


@contextmanager
def interruptible_question() -> Generator[None]:
    """Let Ctrl-C interrupt a question that is asked while the event loop stands still."""
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
