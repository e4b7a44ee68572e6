"""The same question to many servers at once, with one deadline and one answer or failure from each."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, TypeAlias, TypeVar

import anyio

from tools_search_client.discovery import ServerTools
from tools_search_client.errors import InvalidServerResult, ServerError, ServerTimedOut
from tools_search_client.found import Found
from tools_search_client.reports import Failure, ServerReport
from tools_search_client.supervision import SupervisedServer

__all__ = ["Answer", "Question", "ask_all"]

_logger = logging.getLogger(__name__)

Value = TypeVar("Value")

Question: TypeAlias = Callable[[str, ServerTools], Awaitable[Value]]
"""What to do with the tools of one server, which is named."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """What came of asking one server: a value or a failure."""

    server: str
    milliseconds: float
    tools: ServerTools | None
    """The server's tools, where it was connected."""
    value: Value | None = None
    failure: Failure | None = None

    def report(self, *, hits: int = 0, found: Found | None = None) -> ServerReport:
        """Return what to tell of this server."""
        return ServerReport(
            server=self.server,
            mode=found.mode if found else self.tools.mode if self.tools else None,
            era=self.tools.era if self.tools else None,
            milliseconds=round(self.milliseconds, 1),
            hits=hits,
            left_out=self.tools.left_out if self.tools else 0,
            fallback=found.fallback if found else None,
            failure=self.failure,
        )


async def ask_all(
    servers: Mapping[str, SupervisedServer],
    question: Question[Value],
    *,
    deadline: float | None,
) -> list[Answer[Value]]:
    """Ask every server at once and return the answers in the order of `servers`.

    A server that fails, or has not answered after `deadline` seconds, is an answer with a failure; the others are not
    kept waiting longer than that.
    """
    answers: dict[str, Answer[Value]] = {}

    async def ask(name: str, server: SupervisedServer) -> None:
        answers[name] = await _ask(name, server, question, deadline)

    async with anyio.create_task_group() as tasks:
        for name, server in servers.items():
            tasks.start_soon(ask, name, server)
    return [answers[name] for name in servers]


async def _ask(
    name: str,
    server: SupervisedServer,
    question: Question[Value],
    deadline: float | None,
) -> Answer[Value]:
    started = perf_counter()
    tools: ServerTools | None = None
    value: Value | None = None
    failure: Failure | None = None
    try:
        with anyio.fail_after(deadline):
            tools = await server.tools()
            value = await question(name, tools)
    except ServerError as error:
        failure = Failure.of(error)
    except TimeoutError:
        doing = "starting" if tools is None else "answering"
        failure = Failure.of(ServerTimedOut(f"still {doing} after {deadline:g} seconds{server.quotation()}"))
    except Exception as error:  # the boundary between servers: what one of them brings about never loses the others
        _logger.exception("asking %r failed in an unforeseen way", name)
        failure = Failure.of(InvalidServerResult(f"the answer could not be used: {type(error).__name__}"))
    return Answer(name, (perf_counter() - started) * 1000, tools, value, failure)
