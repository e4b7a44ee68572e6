"""stdio: what a server writes to its standard output, and when it ends."""

from __future__ import annotations

from typing import Final

from tools_search_conformance.target.bench import Bench, server_check
from tools_search_conformance.wire.eras import MODERN

_PROMPTLY: Final = 5.0


@server_check(
    title="stdout carries nothing but messages",
    sends="A new process: a listing, a search, searches that are refused, an unknown method, the end of stdin."
    " What came before on the connection of all checks counts too.",
    passes="Not a line on stdout that is no message: no banner, no log, no empty line. Broken JSON is for valid-json.",
    transports=("stdio",),
)
async def stdout_messages_only(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    last = await bench.server.search(good)
    bench.expect(not bench.server.noise, last, f"on stdout stood {''.join(bench.server.noise[:1])}")
    async with bench.fresh() as other:
        await other.server.listing()
        for params in (good, {}, {**good, "limit": 0}):
            await other.server.search(params)
        await other.server.ask("tools/no-such-method", {})
        last = await other.server.search(good)
        other.require(last.replied, f"a search got {last.describe()}", last)
        await other.server.hang_up(_PROMPTLY)
        other.expect(not other.server.noise, last, f"on stdout stood {''.join(other.server.noise[:1])}")


@server_check(
    title="A server ends once its stdin is closed",
    sends="A search to a new process, and the end of its stdin.",
    passes=f"The process has ended {_PROMPTLY:g} seconds later, without a signal.",
    level="SHOULD",
    eras=(MODERN,),
    transports=("stdio",),
)
async def stdin_closed_exits(bench: Bench) -> None:
    good = {"query": await bench.name_query()}
    async with bench.fresh() as other:
        last = await other.server.search(good)
        other.require(last.replied, f"a search got {last.describe()}", last)
        ended = await other.server.hang_up(_PROMPTLY)
        other.expect(ended, last, f"the process still ran {_PROMPTLY:g} s after its stdin was closed")
