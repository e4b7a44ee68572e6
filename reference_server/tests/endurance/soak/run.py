"""One soak: a gateway in use for minutes while the servers behind it are killed at random and started again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final, get_args

import anyio
import anyio.to_thread
import httpx2
from fleet import Era, Fleet, Upstream
from gateways import (
    Footprint,
    Gateway,
    children,
    footprint,
    free_ports,
    is_running,
    kill_child,
    running_gateway,
    write_entries,
)
from mcp import Client, MCPError
from mcp_ext_tools_search.client import raw_request
from soak.callers import Caller, client_of
from soak.observations import Observations, Outage

_HTTP_SERVERS: Final = Path(__file__).parents[1] / "fleet_http.py"
_START_SECONDS: Final = 120

_PAUSE_SECONDS: Final = (1.0, 5.0)
"""Between two kills."""
_AWAY_SECONDS: Final = (0.1, 4.0)
"""How long a process stays away that serves HTTP; a gateway restarts its own child processes itself."""
_REST_SECONDS: Final = 40
"""A server is left alone for so long after a kill: what fails often is, rightly, tried more and more rarely."""
_BACK_SECONDS: Final = 60
"""A server that was killed has to answer again within this time."""
_LAST_SECONDS: Final = 8
"""At the end of the time nothing is killed any more, so that all servers are back soon afterwards."""
_SETTLE_SECONDS: Final = 6
"""A server that answers has to do so still after this time: the gateway may learn late that it was away.

It asks for a sign of life every 5 s, and a request to the process that was killed may still be under way.
"""

_WARM_SHARE: Final = 0.25
_WARM_SECONDS: Final = 60
"""By then, and after that share of the time, every cache is full, and memory should grow no more."""
_STOP_SECONDS: Final = 90
_CALM_SECONDS: Final = 40
"""What was opened for callers who have left has to be closed within this time."""
_COMPARE_SECONDS: Final = 60
_MORE_DESCRIPTORS: Final = 20
_MORE_TASKS: Final = 20
_MORE_THREADS: Final = 40
"""Workers of the event loop, which are kept for later."""
_MORE_MEMORY: Final = 1.25
_MORE_MEMORY_MIB: Final = 48
_MEMORY_MIB: Final = 128
_MEMORY_MIB_PER_TOOL: Final = 0.06
"""The most that a gateway may hold, however short it was used."""


async def soak(
    fleet: Fleet, callers: int, *, seconds: float, seed: int, folder: Path, say: Callable[[str], None]
) -> Observations:
    """Run a gateway, its servers and its callers on loopback, and check every answer.

    Args:
        fleet: The servers.
        callers: How many use the gateway at the same time, half of them in either era.
        seconds: Time under load.
        seed: Repeats the requests, in the order of each caller.
        folder: Where the configuration and the log of the gateway are written.
        say: Called with a line of progress now and then.
    """
    seen = Observations()
    began = anyio.current_time()
    with _http_hosts(fleet) as hosts:
        file = folder / "mcp.json"
        entries = {
            upstream.name: {"url": hosts.url(upstream)} if upstream.host is not None else fleet.stdio_entry(upstream)
            for upstream in fleet.upstreams
        }
        await hosts.until_listening()
        write_entries(file, entries)
        with running_gateway(file, "--log-format", "json") as gateway:
            await gateway.until(lambda health: (health["ready"], health["tools"]) == (fleet.size, fleet.tools))
            say(f"{fleet.size} servers are ready after {anyio.current_time() - began:.1f} s")
            random = Random(seed)  # noqa: S311 - to be repeated, not to be secret
            use = _Use(gateway, fleet, hosts, seen, random, say)
            await use.run(callers, seed, seconds)
            kept = children(gateway.process.pid)
            if (code := await anyio.to_thread.run_sync(gateway.stop)) != 0:
                seen.fail(f"the gateway ended with {code}, not 0")
            if left := [child for child in kept if is_running(child)]:
                seen.fail(f"{len(left)} processes are left")
        if error := gateway.logged_error():
            seen.fail(f"the gateway has logged an error: {error}")
    return seen


class _Hosts:
    """The processes that serve HTTP, each at a port of its own."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._ports = dict(zip(fleet.hosts, free_ports(len(fleet.hosts)), strict=True))
        self.running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, host: int) -> None:
        numbers = map(str, (self._fleet.size, self._fleet.tools, host, self._ports[host]))
        self.running[host] = subprocess.Popen([sys.executable, str(_HTTP_SERVERS), *numbers])

    def kill(self, host: int) -> None:
        self.running[host].kill()
        self.running[host].wait()

    def url(self, upstream: Upstream) -> str:
        return f"http://127.0.0.1:{self._ports[upstream.host or 0]}/{upstream.name}/mcp"

    async def until_listening(self) -> None:
        with anyio.fail_after(_START_SECONDS):
            async with httpx2.AsyncClient(trust_env=False) as http:
                for upstreams in self._fleet.hosts.values():
                    while True:
                        try:
                            await http.get(self.url(upstreams[0]))
                            break
                        except httpx2.HTTPError:
                            await anyio.sleep(0.1)


@contextmanager
def _http_hosts(fleet: Fleet) -> Generator[_Hosts]:
    hosts = _Hosts(fleet)
    try:
        for host in fleet.hosts:
            hosts.start(host)
        yield hosts
    finally:
        for host in hosts.running:
            hosts.kill(host)


@dataclass(frozen=True)
class _Use:
    """Callers of a gateway, and kills of its servers at the same time."""

    gateway: Gateway
    fleet: Fleet
    hosts: _Hosts
    seen: Observations
    random: Random
    say: Callable[[str], None]

    async def run(self, callers: int, seed: int, seconds: float) -> None:
        """Let callers use the gateway while servers are killed, and compare its resources with those before."""
        before = after = await footprint(self.gateway)
        during: list[Footprint] = []
        stop = anyio.Event()
        async with anyio.create_task_group() as watching:
            watching.start_soon(self._watch, during)
            with anyio.move_on_after(seconds + _STOP_SECONDS) as stopping:
                async with anyio.create_task_group() as tasks:
                    for number in range(callers):
                        era: Era = "modern" if number % 2 else "legacy"
                        random = Random(f"{seed} {number}")  # noqa: S311 - to be repeated
                        lists = 2 <= number < 4
                        tasks.start_soon(Caller(self.gateway.url, era, self.fleet, self.seen, random, lists, stop).run)
                    async with client_of(self.gateway.url, "modern") as prober:
                        await self._kill_at_random(seconds, prober)
                    stop.set()
            if stopping.cancelled_caught:
                self.seen.fail(f"callers had no answer {_STOP_SECONDS} s after the end")
            await self._compare_at_rest()
            with anyio.move_on_after(_CALM_SECONDS):
                while not _is_calm(before, await footprint(self.gateway)):  # noqa: ASYNC110 - another process sets no events
                    await anyio.sleep(0.5)
            after = await footprint(self.gateway)
            watching.cancel_scope.cancel()
        is_long = seconds * _WARM_SHARE >= _WARM_SECONDS
        warm = during[int(len(during) * _WARM_SHARE)] if is_long else None
        self.say(f"before {before}, warm {warm}, after {after}")
        compare(before, warm, after, self.seen, tools=self.fleet.tools)

    async def _watch(self, during: list[Footprint]) -> None:
        began = anyio.current_time()
        while True:
            await anyio.sleep(5)
            now = await footprint(self.gateway)
            during.append(now)
            done = ", ".join(f"{count} {kind}" for kind, count in self.seen.done.items())
            self.say(
                f"{anyio.current_time() - began:.0f} s: {done}; {len(self.seen.outages)} outages, "
                f"{self.seen.failed} failures; {now}"
            )

    async def _compare_at_rest(self) -> None:
        """Compare searches with lists, exactly, now that every server is back and nothing changes."""
        for era in get_args(Era):
            rng = Random(0)  # noqa: S311 - to be repeated
            caller = Caller(self.gateway.url, era, self.fleet, self.seen, rng, lists=True, stop=anyio.Event())
            with anyio.move_on_after(_COMPARE_SECONDS) as patience:
                async with client_of(self.gateway.url, era) as client:
                    await caller.compare_all(client)
            if patience.cancelled_caught:
                self.seen.fail(f"lists and searches of a {era} caller took more than {_COMPARE_SECONDS} s at rest")

    async def _kill_at_random(self, seconds: float, prober: Client) -> None:
        """Kill servers for so many seconds; return when all answer again, or have failed to."""
        victims: list[int | Upstream] = [
            *self.fleet.hosts,
            *(upstream for upstream in self.fleet.upstreams if upstream.host is None),
        ]
        rested: dict[str, float] = {}
        end = anyio.current_time() + seconds
        until = end - min(_LAST_SECONDS, seconds / 2)
        async with anyio.create_task_group() as tasks:
            while (pause := self.random.uniform(*_PAUSE_SECONDS)) < until - anyio.current_time():
                await anyio.sleep(pause)
                victim = self.random.choice(victims)
                if anyio.current_time() >= rested.get(str(victim), 0):
                    rested[str(victim)] = anyio.current_time() + _REST_SECONDS
                    tasks.start_soon(self._kill, victim, prober)
            await anyio.sleep_until(end)

    async def _kill(self, victim: int | Upstream, prober: Client) -> None:
        upstreams = [victim] if isinstance(victim, Upstream) else self.fleet.hosts[victim]
        outages = [self.seen.begin_outage(upstream.name) for upstream in upstreams]
        if isinstance(victim, Upstream):
            kill_child(self.gateway.process.pid, victim.name)
        else:
            await anyio.to_thread.run_sync(self.hosts.kill, victim)
            await anyio.sleep(self.random.uniform(*_AWAY_SECONDS))
            self.hosts.start(victim)
        async with anyio.create_task_group() as tasks:
            for upstream, outage in zip(upstreams, outages, strict=True):
                tasks.start_soon(self._wait_for, upstream, outage, prober)

    async def _wait_for(self, upstream: Upstream, outage: Outage, prober: Client) -> None:
        call: dict[str, Any] = {
            "name": f"{upstream.name}__{next(iter(upstream.tools))}",
            "arguments": {"text": "back?"},
        }

        async def answers() -> bool:
            try:
                return "structuredContent" in await raw_request(prober, "tools/call", call, seconds=10)
            except MCPError:
                return False

        with anyio.move_on_after(_BACK_SECONDS) as patience:
            while True:
                if await answers():
                    await anyio.sleep(_SETTLE_SECONDS)
                    if await answers():
                        break
                await anyio.sleep(self.random.uniform(0.1, 0.3))
        if patience.cancelled_caught:
            self.seen.fail(f"{upstream.name} did not answer within {_BACK_SECONDS} s of its end")
        outage.end = anyio.current_time()


def _is_calm(before: Footprint, now: Footprint) -> bool:
    return (
        now.processes == before.processes
        and now.descriptors <= before.descriptors + _MORE_DESCRIPTORS
        and now.tasks <= before.tasks + _MORE_TASKS
        and now.threads <= before.threads + _MORE_THREADS
    )


def compare(before: Footprint, warm: Footprint | None, after: Footprint, seen: Observations, *, tools: int) -> None:
    """Note the resources that are left over.

    Args:
        before: Without callers.
        warm: When everything had been in use for a while; `None` where the time was too short for that.
        after: When all callers had left.
        seen: Where failures are noted.
        tools: How many there are.
    """
    if not _is_calm(before, after):
        seen.fail(f"something is left over: before {before}, after {after}")
    if after.memory_mib > (most := _MEMORY_MIB + _MEMORY_MIB_PER_TOOL * tools):
        seen.fail(f"{after.memory_mib} MiB are held for {tools} tools, more than {most:.0f}")
    if warm is not None and after.memory_mib > warm.memory_mib * _MORE_MEMORY + _MORE_MEMORY_MIB:
        seen.fail(f"memory grows: {warm.memory_mib} MiB when everything was in use, {after.memory_mib} at the end")
