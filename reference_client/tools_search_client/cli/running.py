"""Run a command's work so that it exits cleanly on a signal.

Without this, Ctrl-C cancels the work once but keeps waiting for child processes, and signals from a service manager or
a closed terminal end the program immediately, leaving processes and folders behind.
"""

from __future__ import annotations

import gc
import signal
import sys
import termios
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeVar

import anyio

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class InterruptionError(Exception):
    """A signal interrupted the work; everything it had started is cleaned up."""

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(f"interrupted by {signal.Signals(number).name}")


def run_until_signal(work: Callable[[], Awaitable[T]], *, on_interrupt: Callable[[], None] | None = None) -> T:
    """Run `work` and return its result. If `on_interrupt` is given, Ctrl-C calls it instead of ending the work.

    Raises:
        InterruptionError: A signal came first. A second signal ends the program without cleanup.
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
            except Exception as error:  # stored because a task group would wrap it
                outcome.append(error)
            tasks.cancel_scope.cancel()
        if received:
            raise InterruptionError(received[0])
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    gc.freeze()
    gc.enable()
    return anyio.run(run)


def can_be_asked() -> bool:
    """Return whether standard input and standard error are terminals, so that the user can be asked."""
    return all(stream and stream.isatty() for stream in (sys.stdin, sys.stderr))  # a closed stream is `None`


@contextmanager
def interruptible_question() -> Generator[None]:
    """Let Ctrl-C interrupt a question that blocks the event loop.

    What was typed before the question appeared is discarded, so that it cannot answer the question. If there is no
    answer, what follows is on another line.
    """
    termios.tcflush(sys.stdin, termios.TCIFLUSH)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except Exception:  # for Click, Ctrl-C and Ctrl-D are exceptions
        print(file=sys.stderr)  # noqa: T201
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
