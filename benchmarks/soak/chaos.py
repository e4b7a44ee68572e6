"""Ending servers at random, starting them again, and finding out when they answer again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import anyio
import anyio.to_thread
from mcp import Client, MCPError
from mcp_ext_tools_search.client.raw import raw_request

from benchmarks.soak.footprint import children
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.world import Plan, World

__all__ = ["Chaos", "Hosts", "configuration"]

_ROOT: Final = Path(__file__).parents[2]
_EVERY_SECONDS: Final = (1.0, 5.0)
"""Between two ends."""

_AWAY_SECONDS: Final = (0.1, 4.0)
"""How long a process stays away that serves HTTP; what a gateway starts itself it starts again itself."""

_REST_SECONDS: Final = 40
"""A server is left alone for so long after it was ended: what fails often is, rightly, tried more and more rarely."""

_BACK_SECONDS: Final = 60
"""A server that was ended has to answer again within this time."""

_LAST_SECONDS: Final = 8
"""At the end of the time nothing is ended any more, so that all are back soon afterwards."""

_SETTLE_SECONDS: Final = 6
"""A server that answers has to do so still after this time: the gateway may learn late that it was away.

It asks for a sign of life every 5 s, and what it has asked of the process that was ended may still be under way.
"""


class Hosts:
    """The processes that serve HTTP, each at a port of its own."""

    def __init__(self, world: World, ports: Sequence[int]) -> None:
        self._world = world
        self._ports = ports
        self._running: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, host: int) -> None:
        """Start one."""
        numbers = map(str, (self._world.upstreams, self._world.tools, host, self._ports[host]))
        argv = [sys.executable, "-m", "benchmarks.soak.http_servers", *numbers]
        self._running[host] = subprocess.Popen(argv, cwd=_ROOT)  # noqa: S603 - of this package

    def kill(self, host: int) -> None:
        """End one without a warning."""
        self._running[host].kill()
        self._running[host].wait()

    def url(self, plan: Plan) -> str:
        """Return where a server is reached."""
        port = self._ports[plan.host or 0]
        return f"http://127.0.0.1:{port}/{plan.name}/mcp"

    def end(self) -> None:
        """End all."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()


def configuration(world: World, hosts: Hosts) -> str:
    """Return the mcp.json of all servers."""
    entries: dict[str, Any] = {}
    for plan in world.plans:
        if plan.host is None:
            module = ["-m", "benchmarks.soak.stdio_server", str(world.upstreams), str(world.tools), plan.name]
            entries[plan.name] = {"command": sys.executable, "args": module, "cwd": str(_ROOT)}
        else:
            entries[plan.name] = {"url": hosts.url(plan)}
    return json.dumps({"mcpServers": entries})


class Chaos:
    """Ends servers while it runs.

    Args:
        world: The servers.
        hosts: Those over HTTP.
        ledger: Where it is noted who was down.
        random: Decides who is ended, and when.
        gateway: Process id of the gateway, whose children the servers over stdio are.
        prober: A client of the gateway.
    """

    def __init__(
        self, world: World, hosts: Hosts, ledger: Ledger, random: Random, gateway: int, prober: Client
    ) -> None:
        self._world = world
        self._hosts = hosts
        self._ledger = ledger
        self._random = random
        self._gateway = gateway
        self._prober = prober
        self._victims: list[int | Plan] = [*world.hosts, *(plan for plan in world.plans if plan.host is None)]
        self._rested: dict[str, float] = {}

    async def run(self, seconds: float) -> None:
        """End servers for so many seconds; return when all answer again, or are given up."""
        end = anyio.current_time() + seconds
        until = end - min(_LAST_SECONDS, seconds / 2)
        async with anyio.create_task_group() as tasks:
            while (pause := self._random.uniform(*_EVERY_SECONDS)) < until - anyio.current_time():
                await anyio.sleep(pause)
                victim = self._random.choice(self._victims)
                if anyio.current_time() < self._rested.get(str(victim), 0):
                    continue
                self._rested[str(victim)] = anyio.current_time() + _REST_SECONDS
                tasks.start_soon(self._end, victim)
            await anyio.sleep_until(end)

    async def _end(self, victim: int | Plan) -> None:
        plans = [victim] if isinstance(victim, Plan) else self._world.hosts[victim]
        outages = [self._ledger.begin_outage(plan.name) for plan in plans]
        if isinstance(victim, Plan):
            self._end_child(victim)
        else:
            await anyio.to_thread.run_sync(self._hosts.kill, victim)
            await anyio.sleep(self._random.uniform(*_AWAY_SECONDS))
            self._hosts.start(victim)
        async with anyio.create_task_group() as tasks:
            for plan, outage in zip(plans, outages, strict=True):
                tasks.start_soon(self._wait_for, plan, outage)

    def _end_child(self, plan: Plan) -> None:
        for child in children(self._gateway):
            if Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")[-2] == plan.name.encode():
                os.kill(child, signal.SIGKILL)

    async def _wait_for(self, plan: Plan, outage: Any) -> None:
        with anyio.move_on_after(_BACK_SECONDS) as patience:
            while not (await self._answers(plan) and await self._still_answers(plan)):  # noqa: ASYNC110 - see _answers
                await anyio.sleep(self._random.uniform(0.1, 0.3))
        if patience.cancelled_caught:
            self._ledger.fail(f"{plan.name} did not answer within {_BACK_SECONDS} s of being ended")
        outage.end = anyio.current_time()

    async def _still_answers(self, plan: Plan) -> bool:
        await anyio.sleep(_SETTLE_SECONDS)
        return await self._answers(plan)

    async def _answers(self, plan: Plan) -> bool:
        call = {"name": f"{plan.name}__{next(iter(plan.tools))}", "arguments": {"text": "back?"}}
        try:
            return "structuredContent" in await raw_request(self._prober, "tools/call", call, seconds=10)
        except MCPError:
            return False
