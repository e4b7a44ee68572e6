"""Passes a legacy upstream's questions (elicitation, sampling) to the caller of the request that it is processing.

Such a question does not say which request it belongs to. If all requests in progress come from one client, it must be
for that client. Otherwise it is refused, since no other client may see it, let alone answer it. An abandoned request
counts for another full timeout, because the server may still be processing it. Timeouts of requests pause while a
question waits for its answer.
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
"""How long a user has to answer a question."""

_NOTIFY_SECONDS: Final = 1
"""How long a client that does not read can delay the server's messages."""

_MAX_OPEN_PAGES: Final = 256
"""Maximum number of unanswered browser pages. Answers to earlier ones are not reported."""

_MAX_EXTENSION: Final = 10
"""Maximum factor by which progress can extend a request's timeout."""

Ask: TypeAlias = Callable[[str, Mapping[str, Any]], Awaitable[dict[str, Any]]]
"""Asks a client: takes a method and its parameters, returns the result or raises `MCPError`."""


@dataclass(frozen=True)
class Caller:
    """The sender of a request."""

    client: object
    """The same object for all requests of one client."""

    ask: Ask

    finish: Callable[[str], Awaitable[None]]
    """Notifies the client that the question with this id was answered on a browser page."""


@dataclass(eq=False)
class _Request:
    """A request in progress."""

    caller: Caller
    scope: anyio.CancelScope
    """Its timeout."""
    latest: float
    """When it ends regardless of progress."""
    stopped: tuple[float, float] | None = None
    """When its timeout was paused, and the deadline that it then had."""

    def pause(self) -> None:
        if self.stopped is None:
            self.stopped = anyio.current_time(), self.scope.deadline
            self.scope.deadline = math.inf

    def resume(self) -> None:
        if self.stopped is not None:
            took = anyio.current_time() - self.stopped[0]
            self.scope.deadline = self.stopped[1] + took
            self.latest += took
            self.stopped = None


class Questions:
    """One server's questions, the requests in progress whose callers can answer them, and their timeouts."""

    def __init__(self) -> None:
        self._in_progress: list[_Request] = []
        self._given_up: tuple[object, float] = (None, -math.inf)
        """The client whose requests were abandoned, or an object for several clients, and until when that counts."""
        self._last_sent = -math.inf
        self._open_count = 0
        self._on_pages: OrderedDict[str, Caller] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        """Whether any request is in progress."""
        return bool(self._in_progress)

    @property
    def is_asking(self) -> bool:
        """Whether a question from the server is waiting for an answer."""
        return self._open_count > 0

    def owes_answer(self, heard: float) -> bool:
        """Return whether the server owes an answer to a request, given when it was last heard."""
        return self.is_busy or self._last_sent > heard

    @contextmanager
    def request(self, caller: Caller, seconds: float) -> Generator[Callable[[], None]]:
        """Mark a request of `caller` as in progress, with a timeout. Yields a function to call on progress.

        Progress restarts the timeout, but the total stays within `_MAX_EXTENSION` times `seconds`. Time spent on
        questions does not count.

        Raises:
            TimeoutError: The request timed out.
        """
        began = self._last_sent = anyio.current_time()
        with anyio.CancelScope(deadline=began + seconds) as scope:
            own = _Request(caller, scope, began + seconds * _MAX_EXTENSION)

            def extend() -> None:
                # Not while a question pauses the timeout, which then resumes with the remaining time.
                if own.stopped is None:
                    scope.deadline = max(scope.deadline, min(anyio.current_time() + seconds, own.latest))

            self._in_progress.append(own)
            try:
                yield extend
            except anyio.get_cancelled_exc_class():
                # Abandoned by the caller or by the timeout: the server may ask about it for a while.
                self._note_given_up(caller.client, seconds)
                raise
            finally:
                self._in_progress.remove(own)
        if scope.cancelled_caught:
            raise TimeoutError

    def _note_given_up(self, client: object, seconds: float) -> None:
        now = anyio.current_time()
        other, until = self._given_up
        # For several clients, an object that is none of them: it differs from the client of any request.
        self._given_up = (client if now > until or other is client else object(), now + seconds)

    async def elicit(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult | ErrorData:
        """Answer `elicitation/create`."""
        answer = await self._ask("elicitation/create", params)
        return answer if isinstance(answer, ErrorData) else ElicitResult.model_validate(answer, by_name=False)

    async def elicitation_complete(self, elicitation_id: str) -> None:
        """Notify the client that its page with this id was answered, if it can still be notified."""
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
        except ValidationError:  # several content blocks, as in answers that use tools
            return CreateMessageResultWithTools.model_validate(answer, by_name=False)

    async def _ask(self, method: str, params: BaseModel) -> dict[str, Any] | ErrorData:
        clients = {id(request.caller.client) for request in self._in_progress}
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
        asked = self._in_progress[-1].caller  # all are of one client, whichever request the question is for
        dumped = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        if isinstance(page := dumped.get("elicitationId"), str):
            self._on_pages[page] = asked
            if len(self._on_pages) > _MAX_OPEN_PAGES:
                self._on_pages.popitem(last=False)
        # Pause all timeouts: the server does not say which request in progress the question is for.
        for request in self._in_progress:
            request.pause()
        self._open_count += 1
        try:
            return await asked.ask(method, dumped)
        except MCPError as error:
            text = f"The gateway's client was not asked, or refused ({method}): {error.message}"
            return ErrorData(code=error.code, message=text, data=error.data)
        finally:
            self._open_count -= 1
            for request in [] if self.is_asking else self._in_progress:
                request.resume()
