"""stdio: what a server writes to its standard output, and when it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tools_search_conformance.run.registry import check
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from tools_search_conformance.target.bench import Bench

__all__: list[str] = []

_PROMPTLY: Final = 5.0


@check(
    "stdout-messages-only",
    title="stdout carries nothing but messages",
    sends="A new process: a listing, a search, searches that are refused, an unknown method, the end of stdin."
    " What came before on the connection of all checks counts too.",
    passes="Not a line on stdout that is no message: no banner, no log, no empty line. Broken JSON is for valid-json.",
    transports=("stdio",),
)
async def writes_messages_only(bench: Bench) -> None:
    good = {"query": await bench.plain()}
    last = await bench.search(good)
    bench.expect(not bench.noise, last, f"on stdout stood {''.join(bench.noise[:1])}")
    async with bench.fresh() as other:
        await other.listing()
        for params in (good, {}, {**good, "limit": 0}):
            await other.search(params)
        await other.ask("tools/no-such-method", {})
        last = await other.search(good)
        other.require(last.replied, f"a search got {last.describe()}", last)
        await other.hang_up(_PROMPTLY)
        other.expect(not other.noise, last, f"on stdout stood {''.join(other.noise[:1])}")


@check(
    "stdin-closed-exits",
    title="A server ends once its stdin is closed",
    sends="A search to a new process, and the end of its stdin.",
    passes=f"The process has ended {_PROMPTLY:g} seconds later, without a signal.",
    level="SHOULD",
    eras=(MODERN,),
    transports=("stdio",),
)
async def ends_with_its_input(bench: Bench) -> None:
    good = {"query": await bench.plain()}
    async with bench.fresh() as other:
        last = await other.search(good)
        other.require(last.replied, f"a search got {last.describe()}", last)
        ended = await other.hang_up(_PROMPTLY)
        other.expect(ended, last, f"the process still ran {_PROMPTLY:g} s after its stdin was closed")
