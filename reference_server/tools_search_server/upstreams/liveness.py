"""When a connected server counts as dead: one rule for every transport.

Whatever comes from a server is a sign of life. One that is silent is asked for a sign, `ping` or in revision 2026-07-28
`server/discover`, to which any answer will do:

1.  It is asked after 5 s of silence; a program that has nothing to do after 30 s, since many log each message.
2.  It is dead if nothing has come within 30 s of that.
3.  A server with one thread answers nothing while it works. So where it owes an answer to an earlier request, the time
    that a request may take is added. No time passes while a question of the server waits for an answer.
4.  Whatever it owes, it is dead if nothing has come within 5 s and its process is suspended, as by SIGSTOP. Only Linux
    lets that be seen.
5.  An HTTP server is dead at once if it refuses the connection or no longer knows the session.
6.  A server that has answered no such request on this connection may be one that ignores them: it is dead only by 4 and
    5, or if it owes an answer. One that has ended where the first was due is not asked again.

So a call ends with the reason within about 10 s of its server's suspension, and a server that hangs is started again
within 65 s; if it hangs in a call, within 35 s and the time that the call may take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import anyio
from mcp import Client, MCPError
from mcp_ext_tools_search.client.endings import Ending, connection_ended
from mcp_ext_tools_search.client.raw import raw_request

from tools_search_server.upstreams.session import is_modern, is_session_gone

__all__ = ["Liveness"]

_QUIET_SECONDS: Final = 5
_IDLE_SECONDS: Final = 30
_ANSWER_SECONDS: Final = 30
_SUSPENDED_SECONDS: Final = 5
_LOOK_SECONDS: Final = 1


@dataclass
class Liveness:
    """Watches over one connection."""

    client: Client
    ended: Ending
    is_http: bool
    call_seconds: float
    """How long a request may take."""

    owes: Callable[[], bool]
    """Whether the server owes an answer to a request."""

    is_asking: Callable[[], bool]
    """Whether a question of the server waits for an answer."""

    asks: bool = True
    """Whether the server is asked for signs of life; otherwise it is as one that ignores that."""

    has_answered: bool = False
    """Whether the server has answered a request for a sign of life."""

    async def death(self) -> str:
        """Return the reason once the server is dead."""
        while (reason := await self._unanswered()) is None:
            while (wait := self._wait()) > 0:  # noqa: ASYNC110 - it is the time that passes which is waited for
                await anyio.sleep(wait)
        return reason

    def _wait(self) -> float:
        """Return for how many seconds no sign of life has to be asked for; not more than can be said at the moment."""
        silent = anyio.current_time() - self.ended.heard
        if silent < _QUIET_SECONDS:
            return _QUIET_SECONDS - silent
        return 0 if self.is_http or self.owes() or silent >= _IDLE_SECONDS else _LOOK_SECONDS

    async def _unanswered(self) -> str | None:
        """Ask for a sign of life; return why the server is dead, or `None` when there is one."""
        answered = anyio.Event()
        reason: str | None = None

        method = "server/discover" if is_modern(self.client) else "ping"

        async def ask() -> None:
            nonlocal reason
            if not self.asks:
                return
            try:
                await raw_request(self.client, method, {}, seconds=None)
            except MCPError as error:
                if connection_ended(error):
                    if self.is_http:
                        reason = "nothing answers at its address any more"
                    return  # which is no answer; of a program, the end is noticed where its output ends
                if self.is_http and is_session_gone(self.client, error):
                    reason = "it no longer knows the session, as after a restart"
            self.has_answered = True
            self.ended.heard = anyio.current_time()
            answered.set()

        asked = anyio.current_time()
        owes = self.owes()
        waited = 0.0
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            while not answered.is_set() and self.ended.heard <= asked and reason is None:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await answered.wait()
                # Counted and not measured: time in which this process itself was suspended is no silence of another.
                waited += 0 if self.is_asking() else _LOOK_SECONDS
                # Of one that may ignore what it is asked, it says nothing whether it owed an answer before.
                owes = owes or (self.owes() and not self.has_answered)
                if not answered.is_set():
                    reason = self._judged(waited, owes=owes)
            tasks.cancel_scope.cancel()
        return reason

    def _judged(self, waited: float, *, owes: bool) -> str | None:
        if waited >= _SUSPENDED_SECONDS and self.ended.is_suspended():
            return "its process is suspended (SIGSTOP)"
        if waited < _ANSWER_SECONDS + (self.call_seconds if owes else 0) or not (owes or self.has_answered):
            return None
        return f"it hangs: nothing has come from it for {waited:g} s, although it was asked for a sign of life"
