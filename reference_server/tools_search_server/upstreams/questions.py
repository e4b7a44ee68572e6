"""What a legacy server asks while it works on a request: passed to whoever has sent that request.

Such a question does not say which request it belongs to. While the requests in progress are all of one client it can
only be for that one; otherwise it is refused, since a stranger must not see it, far less answer it.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import anyio
from mcp import MCPError
from mcp.client.context import ClientRequestContext
from mcp_types import (
    INVALID_REQUEST,
    CreateMessageRequestParams,
    CreateMessageResult,
    CreateMessageResultWithTools,
    ElicitRequestParams,
    ElicitResult,
    ErrorData,
)
from pydantic import BaseModel, ValidationError

ANSWER_SECONDS: Final = 600
"""How long a person may think about one question."""

_TELL_SECONDS: Final = 1
"""How long a client that does not read may hold up the messages of the server."""

_MOST_PAGES: Final = 256
"""Pages in a browser that may be unanswered; of those before, nobody is told."""

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Asks a client: the method and its parameters give the result, or `MCPError`."""


@dataclass(frozen=True)
class Caller:
    """Who has sent a request."""

    client: object
    """The same object for all requests of one client."""

    ask: Ask

    finish: Callable[[str], Awaitable[None]]
    """Tells the client that what it was asked by this id, on a page in a browser, was answered there."""


class Questions:
    """Finds out whom to ask, for one server, and stops the clock of requests while somebody thinks."""

    def __init__(self) -> None:
        self._callers: list[Caller] = []
        self._clocks: list[anyio.CancelScope] = []
        self._asking = 0
        self._on_pages: OrderedDict[str, Caller] = OrderedDict()

    @contextmanager
    def answered_by(self, caller: Caller) -> Generator[None]:
        """Count a request of `caller` as in progress."""
        self._callers.append(caller)
        try:
            yield
        finally:
            self._callers.remove(caller)

    @contextmanager
    def clock(self, seconds: float) -> Generator[anyio.CancelScope]:
        """Give a scope that ends what is done in it after as many seconds in which nobody was asked anything."""
        with anyio.CancelScope(deadline=anyio.current_time() + seconds) as scope:
            self._clocks.append(scope)
            try:
                yield scope
            finally:
                self._clocks.remove(scope)

    @contextmanager
    def _stopped_clocks(self) -> Generator[None]:
        # All of them: which of the requests in progress the question is for, the server does not say.
        began = anyio.current_time()
        stopped = [(clock, clock.deadline - began) for clock in self._clocks if clock.deadline != math.inf]
        for clock, _ in stopped:
            clock.deadline = math.inf
        self._asking += 1
        try:
            yield
        finally:
            self._asking -= 1
            for clock, left in stopped:
                clock.deadline = anyio.current_time() + left

    @property
    def is_busy(self) -> bool:
        """Whether any request is in progress."""
        return bool(self._callers)

    @property
    def is_asking(self) -> bool:
        """Whether a question of the server waits for an answer."""
        return self._asking > 0

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Answer `elicitation/create`."""
        answer = await self._ask("elicitation/create", params)
        return answer if isinstance(answer, ErrorData) else ElicitResult.model_validate(answer, by_name=False)

    async def completed(self, elicitation_id: str) -> None:
        """Tell whoever was asked by this id that the page was answered, if the one can still be told."""
        asked = self._on_pages.pop(elicitation_id, None)
        if asked is not None:
            with anyio.move_on_after(_TELL_SECONDS):
                await asked.finish(elicitation_id)

    async def sample(
        self, context: ClientRequestContext, params: CreateMessageRequestParams
    ) -> CreateMessageResult | CreateMessageResultWithTools | ErrorData:
        """Answer `sampling/createMessage`."""
        answer = await self._ask("sampling/createMessage", params)
        if isinstance(answer, ErrorData):
            return answer
        try:
            return CreateMessageResult.model_validate(answer, by_name=False)
        except ValidationError:
            return CreateMessageResultWithTools.model_validate(answer, by_name=False)

    async def _ask(self, method: str, params: BaseModel) -> dict[str, Any] | ErrorData:
        clients = {id(caller.client) for caller in self._callers}
        if len(clients) != 1:
            whose = "for no request in progress" if not clients else "while requests of several clients are in progress"
            text = f"The gateway cannot tell whom to ask: {method} came {whose}"
            return ErrorData(code=INVALID_REQUEST, message=text)
        try:
            dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
            asked = self._callers[-1]
            if isinstance(page := dumped.get("elicitationId"), str):
                self._on_pages[page] = asked
                if len(self._on_pages) > _MOST_PAGES:
                    self._on_pages.popitem(last=False)
            with self._stopped_clocks():
                return await asked.ask(method, dumped)
        except MCPError as error:
            text = f"The gateway's client was not asked, or refused ({method}): {error.message}"
            return ErrorData(code=error.code, message=text, data=error.data)
