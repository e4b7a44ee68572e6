"""Several servers of which one fails: it is told, and the others have answered all the same."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Final

from tools_search_conformance.clients.contract import DriverError
from tools_search_conformance.clients.registry import client_check
from tools_search_conformance.clients.script import Script, found, refuses, serves, tool
from tools_search_conformance.clients.sessions import NotConnectedError
from tools_search_conformance.wire.eras import MODERN

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from tools_search_conformance.clients.bench import ClientBench
    from tools_search_conformance.clients.contract import Told
    from tools_search_conformance.clients.sessions import FederationSession

__all__: list[str] = []

_NEED: Final = "dispatch a courier"
_BROKEN: Final[Mapping[str, Script]] = {
    "refused with an internal error": Script(search=refuses(-32603), list_fails=True),
    "ended the connection": Script(gone=True),
    "could not be reached": Script(absent=True),
}
_SENDS: Final = (
    "Three peers, of which one refuses everything that it is asked for its tools, ends the connection then, or is not "
    "to be reached from the start."
)


@asynccontextmanager
async def _among_others(
    bench: ClientBench, broken: Script, *, opens: bool = False
) -> AsyncGenerator[FederationSession]:
    """Connect the client to a server `b` that is broken, and to `a` and `c`, which are not."""
    sound = [
        Script(search=serves(found(tool(name, "Dispatches a courier.")))) for name in ("first_courier", "third_courier")
    ]
    async with bench.federated({"a": sound[0], "b": broken, "c": sound[1]}, opens=opens) as session:
        yield session


def _expect_told(bench: ClientBench, session: FederationSession, told: Told, way: str) -> None:
    message = f"the server b failed: it {way}; and the client tells of {told.failed}"
    bench.expect(told.failed == ["b"], session.evidence, message, case=way)


def _expect_rest(bench: ClientBench, session: FederationSession, told: Told, way: str) -> None:
    servers = {item.get("server") for item in told.tools}
    message = f"one server {way}, and the client has {told.describe()} of {servers}"
    bench.expect(servers == {"a", "c"}, session.evidence, message, case=way)


@client_check(
    "federation-tells-failures",
    feature="federation",
    title="Servers that failed are told",
    sends=_SENDS,
    passes="That one, and no other, among those that failed.",
    level="ADVICE",
)
async def tells_who_failed(bench: ClientBench) -> None:
    for way, broken in _BROKEN.items():
        with suppress(NotConnectedError):  # which is for the check below
            async with _among_others(bench, broken) as session:
                _expect_told(bench, session, await session.search(_NEED, limit=10), way)


@client_check(
    "federation-returns-rest",
    feature="federation",
    title="What the other servers found is returned",
    sends=_SENDS,
    passes="The tools of the other two.",
    level="ADVICE",
)
async def returns_the_rest(bench: ClientBench) -> None:
    for way, broken in _BROKEN.items():
        async with _among_others(bench, broken, opens=True) as session:
            _expect_rest(bench, session, await session.search(_NEED, limit=10), way)


@client_check(
    "federation-bears-silence",
    feature="federation",
    title="A server that does not answer is told, and what the others found is returned",
    sends="Three peers, of which one is silent when it is asked for its tools.",
    passes="That one, and no other, among those that failed, and the tools of the other two. A client that waits for "
    "longer than the driver may take is not judged.",
    level="ADVICE",
    eras=(MODERN,),
)
async def bears_a_silent_server(bench: ClientBench) -> None:
    way = "did not answer"
    async with _among_others(bench, Script(mute=True)) as session:
        try:
            told = await session.search(_NEED, limit=10)
        except DriverError as error:
            if isinstance(error.__cause__, TimeoutError):
                bench.deaths.clear()
                bench.applies(False, f"the client waits for a silent server: {error}")
            raise
        _expect_told(bench, session, told, way)
        _expect_rest(bench, session, told, way)
