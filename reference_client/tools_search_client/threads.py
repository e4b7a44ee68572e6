"""Functions of the host that may block, and that might never return."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar

import anyio
from anyio.from_thread import BlockingPortal

Result = TypeVar("Result")


async def in_daemon_thread(function: Callable[[], Result]) -> Result:
    """Return what `function` returns in a thread of its own, or raise what it raises.

    If the caller is cancelled, the thread goes on. Unlike anyio's threads, it does not keep the program from exiting.
    """
    outcome: Future[Result] = Future()
    ended = anyio.Event()
    async with BlockingPortal() as portal:

        def run() -> None:
            try:
                outcome.set_result(function())
            except BaseException as error:
                outcome.set_exception(error)
            with suppress(RuntimeError):  # nobody waits any more
                portal.start_task_soon(ended.set)

        threading.Thread(target=copy_context().run, args=(run,), daemon=True).start()
        await ended.wait()
    return outcome.result()
