"""Detects dead servers, with the same rules for every transport.

Every message from a server is a sign of life. The gateway probes a silent server with `ping`, or in revision 2026-07-28
with `server/discover`. Any answer counts:

1.  It probes after 5 s of silence. It probes an idle program only after 30 s, because many log each message.
2.  The server is dead if nothing arrives within 30 s of the probe.
3.  A single-threaded server answers nothing while it works. So if it owes an answer to an earlier request, it gets a
    request's time limit in addition. The clock stops while a question from the server waits for an answer.
4.  Even if it owes an answer, it is dead if nothing arrives within 5 s and its process is suspended, for example by
    SIGSTOP. Only Linux shows that.
5.  An HTTP server is dead at once if it refuses the connection or no longer knows the session. If the exchange merely
    breaks off, the gateway probes again.
6.  A server that has never answered a probe on this connection might ignore probes. It is dead only by rules 4 and 5,
    or if it owes an answer. A server that ended at its first probe is not probed again.

So a call ends with the reason within about 10 s of its server's suspension, and a hanging server is restarted within
65 s. If it hangs in a call, that takes up to 35 s plus the call's time limit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
from mcp import Client, MCPError
from mcp_ext_tools_search.client import raw_request
from tools_search_hosts.endings import SESSION_LOST, Ending, answer_broke_off, connection_ended, session_lost

from tools_search_server.upstreams.questions import Questions
from tools_search_server.upstreams.state import is_modern

_QUIET_SECONDS: Final = 5
_IDLE_SECONDS: Final = 30
_ANSWER_SECONDS: Final = 30
_SUSPENDED_SECONDS: Final = 5
_POLL_SECONDS: Final = 1


@dataclass
class Liveness:
    """Monitors one connection."""

    client: Client
    ended: Ending
    is_http: bool
    call_seconds: float
    """A request's time limit."""

    questions: Questions
    """The requests in progress, and the server's unanswered questions."""

    sends_probes: bool = True
    """Whether to probe the server. If not, it counts as a server that ignores probes."""

    has_answered: bool = False
    """Whether the server has answered a probe."""

    async def until_dead(self) -> str:
        """Return the reason once the server is dead."""
        while (reason := await self._probe()) is None:
            while (silent := anyio.current_time() - self.ended.heard) < _IDLE_SECONDS:  # rule 1
                if silent >= _QUIET_SECONDS and (self.is_http or self.questions.owes_answer(self.ended.heard)):
                    break
                await anyio.sleep(_QUIET_SECONDS - silent if silent < _QUIET_SECONDS else _POLL_SECONDS)
        return reason

    async def _ask(self, method: str) -> None:
        while True:
            try:
                await raw_request(self.client, method, {}, seconds=None)
                return
            except MCPError as error:
                if not self.is_http or not answer_broke_off(error):
                    raise
                await anyio.sleep(_POLL_SECONDS)  # one exchange failed, but the next might not

    async def _probe(self) -> str | None:
        """Probe the server. Return why it is dead, or `None` once it shows a sign of life."""
        # Rules 2 to 6. Whichever comes first: an answer, any other message, or a reason.
        answered = anyio.Event()
        reason: str | None = None

        async def ask() -> None:
            nonlocal reason
            try:
                method = "server/discover" if is_modern(self.client) else "ping"
                await self._ask(method)
            except MCPError as error:
                if connection_ended(error):
                    if self.is_http:
                        reason = "nothing answers at its address any more"
                    return  # not an answer; the end of a program shows where its output ends
                if session_lost(error):
                    reason = SESSION_LOST
            self.has_answered = True
            self.ended.heard = anyio.current_time()
            answered.set()

        asked = anyio.current_time()
        owes = self.questions.owes_answer(self.ended.heard)
        waited = 0.0
        async with anyio.create_task_group() as tasks:
            if self.sends_probes:
                tasks.start_soon(ask)
            while not answered.is_set() and self.ended.heard <= asked and reason is None:
                with anyio.move_on_after(_POLL_SECONDS):
                    await answered.wait()
                    break
                # Count instead of measuring: time in which this process was suspended says nothing about the server.
                waited += 0 if self.questions.is_asking else _POLL_SECONDS
                # A server that might ignore probes can come to owe an answer while this waits.
                owes = owes or (self.questions.owes_answer(self.ended.heard) and not self.has_answered)
                allowed = _ANSWER_SECONDS + (self.call_seconds if owes else 0)  # rules 2 and 3
                if waited >= _SUSPENDED_SECONDS and self.ended.is_suspended():
                    reason = "its process is suspended (SIGSTOP)"
                elif waited >= allowed and (owes or self.has_answered):
                    reason = (
                        f"it hangs: nothing has come from it for {waited:g} s, although it was asked for a sign of life"
                    )
            tasks.cancel_scope.cancel()
        return reason
