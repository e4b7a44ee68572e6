"""Cancellation: a search that is no longer wanted is not answered, and takes no other request with it.

Searches of the fixture last long enough to be cancelled. That an answer does not come is shown by later ones that do.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import anyio
from tools_search_spec import METHOD

from tools_search_conformance.model import UnverifiableError
from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.target.pages import read_page
from tools_search_conformance.target.server import Opening, busy_seconds
from tools_search_conformance.target.vocabulary import Vocabulary
from tools_search_conformance.wire.eras import MODERN
from tools_search_conformance.wire.record import Exchange

DELAY_VARIABLE: Final = "TOOLS_SEARCH_DELAY_MS"
_DELAY_MS: Final = 250
_NOT_DELAYED_MS: Final = 0.9 * _DELAY_MS  # clocks differ
_IN_TIME_SECONDS: Final = _DELAY_MS / 2 / 1000
"""How soon after its search a cancellation is sent whose search may not be answered, if the machine is busy."""
_TRIES: Final = 4
"""Searches that are cancelled until one is cancelled in time, which a busy machine may miss."""


async def _delayed(bench: Bench) -> tuple[Bench, str, str]:
    """Return a bench whose fixture takes its time, and the names of two of its tools."""
    other = await bench.fixture("delay", Opening(env={DELAY_VARIABLE: str(_DELAY_MS)}))
    one, another = Vocabulary((await other.nonempty_listing()).tools).names[:2]
    return other, one, another


async def _cancel(
    bench: Bench, query: str, *, beside: Sequence[str] = (), later: Sequence[str] = ()
) -> tuple[Exchange | None, list[Exchange]]:
    """Cancel a search for `query`; return what came of it, `None` for nothing, and of the other searches.

    Those for `beside` are in flight at the same time. Those for `later` are sent one after the other; when they are
    answered, the cancelled one is waited for no longer.

    Raises:
        InapplicableError: the server takes one search at a time.
        UnverifiableError: it was answered before it could be cancelled, each time.
    """
    early: Exchange | None = None
    for _ in range(_TRIES):
        early, came, others = await _cancel_once(bench, query, beside, later)
        answers = [exchange for exchange in (early, came, *others) if exchange is not None]
        busy = next((exchange for exchange in answers if busy_seconds(exchange) is not None), None)
        bench.applies(busy is None or not beside, "the server is too busy for two searches at once")
        bench.require(busy is None, "the server says that it is too busy to search", busy)
        if early is None:
            return came, others
    answered = "a search was answered before it could be cancelled; the fixture is said to have the feature `delay`"
    raise UnverifiableError(answered, early)


async def _cancel_once(
    bench: Bench, query: str, beside: Sequence[str], later: Sequence[str]
) -> tuple[Exchange | None, Exchange | None, list[Exchange]]:
    """Return what came of the search before it was cancelled, what came of it at all, and of the others."""
    connection, seconds = await bench.server.connection(), bench.options.timeout
    number, unwanted = connection.next_id(), anyio.CancelScope()
    early: Exchange | None = None
    came, others = list["Exchange"](), list["Exchange"]()
    began, late = time.monotonic(), False

    async def doomed() -> None:
        with unwanted:
            came.append(await connection.request(METHOD, {"query": query}, seconds=seconds, with_id=number))

    async def search(wanted: str) -> None:
        others.append(await connection.request(METHOD, {"query": wanted}, seconds=seconds))

    # Nothing in this group raises for what a target does: judging comes after it.
    async with anyio.create_task_group() as tasks:
        async with anyio.create_task_group() as neighbours:
            for wanted in beside:
                neighbours.start_soon(search, wanted)
            tasks.start_soon(doomed)
            # Once this is answered, the searches before it have arrived, over HTTP too.
            await connection.request("tools/list", {}, seconds=seconds)
            early = next(iter(came), None)
            if connection.era == MODERN and bench.cell.transport == "http":
                unwanted.cancel()  # there, closing the response is how a client cancels
            else:
                await connection.cancel(number, seconds)
            late = time.monotonic() - began > _IN_TIME_SECONDS
        for wanted in later if early is None else ():
            await search(wanted)
        unwanted.cancel()
    answer = next(iter(came), None)
    if late and later and answer is not None and answer.replied:
        early = answer  # whether it was cancelled in time matters to those who wait for later ones only
    return early, answer, others


@server_check(
    title="A cancelled search is not answered",
    sends="A search, `notifications/cancelled` for it, and two more searches, one after the other.",
    passes="Those two are answered, the cancelled one is not; over HTTP, an error may end its stream.",
    level="SHOULD",
    fixture_feature="delay",
)
async def cancelled_not_answered(bench: Bench) -> None:
    modern_http = bench.cell.era == MODERN and bench.cell.transport == "http"
    bench.applies(not modern_http, "over modern HTTP a search is cancelled by closing what would carry its answer")
    other, one, another = await _delayed(bench)
    _, opening = await other.server.opening()
    session = bench.cell.transport == "stdio" or "mcp-session-id" in opening.answer.headers
    other.applies(session, "the server keeps no session, so that it cannot tell whose search is cancelled")
    cancelled, (second, third) = await _cancel(other, one, later=(another, another))
    for exchange in (second, third):
        other.require(exchange.replied, f"a search after a cancelled one got {exchange.describe()}", exchange)
    slow = second.milliseconds >= _NOT_DELAYED_MS
    other.require(slow, f"a search took {second.milliseconds:.0f} ms under {DELAY_VARIABLE}={_DELAY_MS}", second)
    answered = cancelled is not None and cancelled.replied
    if bench.cell.transport == "http":
        # The revision wants a response at the end of each stream: an error there is an end, and no answer.
        answered = cancelled is not None and cancelled.result is not None
    decisive = cancelled if cancelled is not None and answered else third
    what = f"a search was answered by {decisive.describe()} although it had been cancelled"
    other.expect(not answered, decisive, what, case=f"query {one!r}, cancelled")


@server_check(
    title="A cancelled search takes no other one with it",
    sends="Two searches at once, each for a tool by its name; one of them is cancelled.",
    passes="The other one is answered as ever: its tool is the first match.",
    fixture_feature="delay",
)
async def cancelled_leaves_others(bench: Bench) -> None:
    other, one, another = await _delayed(bench)
    _, (neighbour,) = await _cancel(other, one, beside=(another,))
    case, what = f"query {another!r}, while another search was cancelled", neighbour.describe()
    other.expect(neighbour.result is not None, neighbour, f"a search got {what} while another was cancelled")
    names = read_page(neighbour, case).names
    other.expect(names[:1] == [another], neighbour, f"{another!r} is not the first match", case=case)
