"""Questions of a legacy upstream while it works on a request: elicitation and sampling, passed to the request's caller.

Such a question does not say which request it belongs to. While all requests in progress are of one client, it can only
be for that one; otherwise it is refused, since a stranger must not see it, far less answer it. A request that was given
up counts for as long again as one may take, since the server may still be working on it. The time of requests stands
still while a question waits for its answer.
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

_NOTIFY_SECONDS: Final = 1
"""How long a client that does not read may hold up the messages of the server."""

_MAX_OPEN_PAGES: Final = 256
"""Pages in a browser that may be unanswered; the answer to an earlier one is reported to nobody."""

_MAX_EXTENSION: Final = 10
"""How many times its ordinary limit a request may take that reports progress."""

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Asks a client: takes a method and its parameters, returns the result or raises `MCPError`."""


@dataclass(frozen=True)
class Caller:
    """The sender of a request."""

    client: object
    """The same object for all requests of one client."""

    ask: Ask

    finish: Callable[[str], Awaitable[None]]
    """Notifies the client that the question with this id was answered, on a page in a browser."""


class Questions:
    """The questions of one server, the requests in progress whose callers can answer them, and their time limits."""

    def __init__(self) -> None:
        self._in_progress: list[tuple[Caller, anyio.CancelScope]] = []
        self._given_up: tuple[object, float] = (None, -math.inf)
        """The client whose requests were given up, or an object for several clients, and until when that counts."""
        self._last_sent = -math.inf
        self._open_count = 0
        self._on_pages: OrderedDict[str, Caller] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether any request is in progress."""
        return bool(self._in_progress)

    @property
    def is_asking(self) -> bool:
        """Whether a question of the server waits for an answer."""
        return self._open_count > 0

    def owes_answer(self, heard: float) -> bool:
        """Return whether a server that was heard at that time for the last time owes an answer to a request."""
        return self.is_busy or self._last_sent > heard

    @contextmanager
    def request(self, caller: Caller, seconds: float) -> Generator[Callable[[], None]]:
        """Count a request of `caller` as in progress and limit its time; gives a function that is called on progress.

        Progress starts the limit over, as long as the whole stays within `_MAX_EXTENSION` times `seconds`. The time of
        questions is not counted.

        Raises:
            TimeoutError: The time was over before the block was.
        """
        began = self._last_sent = anyio.current_time()
        with anyio.CancelScope(deadline=began + seconds) as scope:

            def extend() -> None:
                # Not while a question stops the clock, which starts it again with the time that was left.
                if scope.deadline != math.inf:
                    later = min(anyio.current_time() + seconds, began + seconds * _MAX_EXTENSION)
                    scope.deadline = max(scope.deadline, later)

            self._in_progress.append((caller, scope))
            try:
                yield extend
            except anyio.get_cancelled_exc_class():
                self._note_given_up(caller.client, seconds)
                raise
            finally:
                self._in_progress.remove((caller, scope))
        if scope.cancelled_caught:
            raise TimeoutError

    def _note_given_up(self, client: object, seconds: float) -> None:
        now = anyio.current_time()
        other, until = self._given_up
        self._given_up = (client if now > until or other is client else object(), now + seconds)

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Answer `elicitation/create`."""
        answer = await self._ask("elicitation/create", params)
        return answer if isinstance(answer, ErrorData) else ElicitResult.model_validate(answer, by_name=False)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that was asked by this id that its page was answered, if it can still be notified."""
        asked = self._on_pages.pop(elicitation_id, None)
        if asked is not None:
            with anyio.move_on_after(_NOTIFY_SECONDS):
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
        clients = {id(caller.client) for caller, _ in self._in_progress}
        other, until = self._given_up
        strangers = {id(other)} - clients if anyio.current_time() < until else set[int]()
        if len(clients) != 1 or strangers:
            whose = "while requests of several clients are in progress"
            if not clients:
                whose = "for no request in progress"
            elif strangers:
                whose = "soon after a request of another client was given up"
            text = f"The gateway cannot tell whom to ask: {method} came {whose}"
            return ErrorData(code=INVALID_REQUEST, message=text)
        asked, _ = self._in_progress[-1]
        dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        if isinstance(page := dumped.get("elicitationId"), str):
            self._on_pages[page] = asked
            if len(self._on_pages) > _MAX_OPEN_PAGES:
                self._on_pages.popitem(last=False)
        # All clocks stop: the server does not say which of the requests in progress the question is for.
        began = anyio.current_time()
        stopped = [(scope, scope.deadline - began) for _, scope in self._in_progress if scope.deadline != math.inf]
        for scope, _ in stopped:
            scope.deadline = math.inf
        self._open_count += 1
        try:
            return await asked.ask(method, dumped)
        except MCPError as error:
            text = f"The gateway's client was not asked, or refused ({method}): {error.message}"
            return ErrorData(code=error.code, message=text, data=error.data)
        finally:
            self._open_count -= 1
            for scope, left in stopped:
                scope.deadline = anyio.current_time() + left
