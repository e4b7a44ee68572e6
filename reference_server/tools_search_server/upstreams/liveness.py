"""Liveness of a connected server: one rule for every transport.

Every message of a server is a sign of life. One that is silent is asked for a sign, by `ping` or in revision 2026-07-28
`server/discover`, to which any answer will do:

1.  It is asked after 5 s of silence; a program that has nothing to do after 30 s, since many log each message.
2.  It is dead if nothing has come within 30 s of that.
3.  A server with one thread answers nothing while it works. So where it owes an answer to an earlier request, the time
    that a request may take is added. No time passes while a question of the server waits for an answer.
4.  Even if it owes an answer, it is dead if nothing has come within 5 s and its process is suspended, as by SIGSTOP.
    Only Linux shows that.
5.  An HTTP server is dead at once if it refuses the connection or no longer knows the session. If the exchange merely
    breaks off, it is asked again.
6.  A server that has answered no such request on this connection may be one that ignores them: it is dead only by 4 and
    5, or if it owes an answer. One that has ended where the first was due is not asked again.

So a call ends with the reason within about 10 s of its server's suspension, and a server that hangs is started again
within 65 s; if it hangs in a call, within 35 s and the time that the call may take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import anyio
from mcp import Client, MCPError
from mcp_ext_tools_search.client import raw_request
from tools_search_hosts.endings import Ending, answer_broke_off, connection_ended, session_lost

from tools_search_server.upstreams.questions import Questions
from tools_search_server.upstreams.state import is_modern

_QUIET_SECONDS: Final = 5
_IDLE_SECONDS: Final = 30
_ANSWER_SECONDS: Final = 30
_SUSPENDED_SECONDS: Final = 5
_POLL_SECONDS: Final = 1


@dataclass
class Liveness:
    """The watch over one connection."""

    client: Client
    ended: Ending
    is_http: bool
    call_seconds: float
    """How long a request may take."""

    questions: Questions
    """The requests in progress, and the questions of the server that wait for an answer."""

    sends_probes: bool = True
    """Whether the server is asked for signs of life; otherwise it is treated as one that ignores such requests."""

    has_answered: bool = False
    """Whether the server has answered a request for a sign of life."""

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
                await anyio.sleep(_POLL_SECONDS)  # one exchange has failed, and the next one may not

    async def _probe(self) -> str | None:
        """Ask for a sign of life; return why the server is dead, or `None` when there is a sign."""
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
                    return  # which is no answer; the end of a program is noticed where its output ends
                is_old = self.is_http and not is_modern(self.client)
                if is_old and session_lost(error, self.ended.http_status):
                    reason = "it no longer knows the session, as after a restart"
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
                # Counted and not measured: time in which this process itself was suspended is no silence of another.
                waited += 0 if self.questions.is_asking else _POLL_SECONDS
                # Whether a server owed an answer before says nothing of one that may ignore requests for a sign.
                owes = owes or (self.questions.owes_answer(self.ended.heard) and not self.has_answered)
                allowed = _ANSWER_SECONDS + (self.call_seconds if owes else 0)
                if waited >= _SUSPENDED_SECONDS and self.ended.is_suspended():
                    reason = "its process is suspended (SIGSTOP)"
                elif waited >= allowed and (owes or self.has_answered):
                    reason = (
                        f"it hangs: nothing has come from it for {waited:g} s, although it was asked for a sign of life"
                    )
            tasks.cancel_scope.cancel()
        return reason
