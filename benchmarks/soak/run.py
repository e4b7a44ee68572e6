"""One soak from its first process to its last: servers killed at random, and what the gateway takes of its machine."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import IO, Any, Final, cast, get_args

import anyio
import anyio.to_thread
import httpx2
from mcp import Client, MCPError
from mcp_ext_tools_search.client import raw_request

from benchmarks.soak.callers import Caller, client_of
from benchmarks.soak.world import Era, Ledger, Plan, World


@dataclass(frozen=True)
class Footprint:
    """At one moment."""

    processes: int
    """Its children, without those that have ended."""
    descriptors: int
    threads: int
    tasks: int
    """Of its event loop."""
    memory_mib: float
    """Resident."""

    def figures(self) -> dict[str, float]:
        """Return it in numbers."""
        return asdict(self)


async def footprint(process: int, url: str) -> Footprint:
    """Look at a gateway.

    Args:
        process: Its id.
        url: Where it serves.
    """
    async with httpx2.AsyncClient(trust_env=False) as http:
        health = (await http.get(url.replace("/mcp", "/healthz"), timeout=30)).json()
    status = _status(process)
    return Footprint(
        processes=len(children(process)),
        descriptors=len(os.listdir(f"/proc/{process}/fd")),  # noqa: PTH208 - counted, not read
        threads=int(status["Threads"]),
        tasks=int(health["tasks"]),
        memory_mib=round(int(status["VmRSS"].split()[0]) / 1024, 1),
    )


def _status(process: int) -> Mapping[str, str]:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return dict(line.split(":", 1) for line in lines)


def children(process: int) -> Sequence[int]:
    """Return the ids of the child processes that run."""
    tasks = Path(f"/proc/{process}/task")
    ids = [int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()]
    return [child for child in ids if is_alive(child)]


def is_alive(process: int) -> bool:
    """Return whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


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


_START_SECONDS: Final = 120
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
"""What a gateway may hold at most, however short it was used."""
_EXIT_SECONDS: Final = 20


@dataclass(frozen=True)
class Settings:
    """What the command line says."""

    seconds: float
    upstreams: int
    tools: int
    callers: int
    seed: int
    log: Path | None = None
    """Where the gateway's log is kept."""


@dataclass(frozen=True)
class Report:
    """Outcome."""

    figures: dict[str, Any]
    failures: list[str]


async def soak(settings: Settings, tell: Callable[[str], None]) -> Report:
    """Run a gateway, its servers and its callers on loopback, and check everything that they say.

    Args:
        settings: How much of it.
        tell: Called with a line of progress now and then.
    """
    world, ledger = World(settings.upstreams, settings.tools), Ledger()
    with TemporaryDirectory() as folder:
        async with _hosts(world) as hosts:
            began = anyio.current_time()
            log = settings.log or Path(folder) / "gateway.log"
            async with _gateway(Path(folder), configuration(world, hosts), log) as (process, url):
                await _until_ready(url, world)
                figures: dict[str, Any] = {"startSeconds": round(anyio.current_time() - began, 1)}
                tell(f"{settings.upstreams} servers are ready after {figures['startSeconds']} s")
                figures |= await _use(settings, world, hosts, ledger, process.pid, url, tell)
                kept = children(process.pid)
                process.terminate()
                code = await anyio.to_thread.run_sync(lambda: _ended(process))
                if code != 0:
                    ledger.fail(f"the gateway ended with {code}, not 0")
                if left := [child for child in kept if is_alive(child)]:
                    ledger.fail(f"{len(left)} processes are left")
            if "Traceback" in (text := log.read_text()):
                ledger.fail(f"the gateway has logged an error: …{text[text.index('Traceback') :][:1500]}")
    return Report(
        {
            "settings": {name: value for name, value in vars(settings).items() if name != "log"},
            **figures,
            **ledger.figures(),
        },
        ledger.failures,
    )


async def _use(
    settings: Settings,
    world: World,
    hosts: Hosts,
    ledger: Ledger,
    process: int,
    url: str,
    tell: Callable[[str], None],
) -> dict[str, Any]:
    """Let callers and chaos loose for the time that is asked for, and compare what is left with what was there."""
    before = after = await footprint(process, url)
    warm: Footprint | None = None
    stop = anyio.Event()
    seen: list[Footprint] = []

    async def watch() -> None:
        began = anyio.current_time()
        while True:
            await anyio.sleep(5)
            seen.append(await footprint(process, url))
            done = ", ".join(f"{count} {kind}" for kind, count in ledger.done.items())
            passed = anyio.current_time() - began
            tell(
                f"{passed:.0f} s: {done}; {len(ledger.outages)} outages, {ledger.failed} failures; "
                f"{seen[-1].memory_mib:.0f} MiB, {seen[-1].descriptors} descriptors, {seen[-1].tasks} tasks"
            )

    async with anyio.create_task_group() as watching:
        watching.start_soon(watch)
        with anyio.move_on_after(settings.seconds + _STOP_SECONDS) as stopping:
            async with anyio.create_task_group() as tasks:
                for number in range(settings.callers):
                    era: Era = "modern" if number % 2 else "legacy"
                    random = Random(f"{settings.seed} {number}")  # noqa: S311 - to be repeated
                    caller = Caller(url, era, world, ledger, random, 2 <= number < 4, stop)
                    tasks.start_soon(caller.run)
                async with client_of(url, "modern") as prober:
                    random = Random(settings.seed)  # noqa: S311
                    await Chaos(world, hosts, ledger, random, process, prober).run(settings.seconds)
                stop.set()
        if stopping.cancelled_caught:
            ledger.fail(f"callers had no answer {_STOP_SECONDS} s after the end")
        await _compare_at_rest(url, world, ledger)
        is_long = settings.seconds * _WARM_SHARE >= _WARM_SECONDS
        warm = seen[int(len(seen) * _WARM_SHARE)] if is_long else None
        after = await _calm(process, url, before)
        watching.cancel_scope.cancel()
    compare(before, warm, after, ledger, tools=settings.tools)
    peak = max(seen, key=lambda one: one.memory_mib, default=after)
    named = {"before": before, "warm": warm, "peak": peak, "after": after}
    return {"footprint": {name: one.figures() for name, one in named.items() if one is not None}}


async def _compare_at_rest(url: str, world: World, ledger: Ledger) -> None:
    """Compare what is found with what is listed, exactly, now that every server is back and nothing changes."""
    for era in get_args(Era):
        caller = Caller(url, era, world, ledger, Random(0), lists=True, stop=anyio.Event())  # noqa: S311
        with anyio.move_on_after(_COMPARE_SECONDS) as patience:
            async with client_of(url, era) as client:
                await caller.compare_all(client)
        if patience.cancelled_caught:
            ledger.fail(f"lists and searches of a {era} caller took more than {_COMPARE_SECONDS} s at rest")


async def _calm(process: int, url: str, before: Footprint) -> Footprint:
    """Return the footprint once the gateway has let go of what was for others, or when it does not."""
    with anyio.move_on_after(_CALM_SECONDS):
        while not _is_calm(before, await footprint(process, url)):  # noqa: ASYNC110 - another process sets no events
            await anyio.sleep(0.5)
    return await footprint(process, url)


def _is_calm(before: Footprint, now: Footprint) -> bool:
    return (
        now.processes == before.processes
        and now.descriptors <= before.descriptors + _MORE_DESCRIPTORS
        and now.tasks <= before.tasks + _MORE_TASKS
        and now.threads <= before.threads + _MORE_THREADS
    )


def compare(before: Footprint, warm: Footprint | None, after: Footprint, ledger: Ledger, *, tools: int) -> None:
    """Note what is left over.

    Args:
        before: Without callers.
        warm: When everything had been in use for a while; `None` where the time was too short for that.
        after: When all callers had left.
        ledger: Where it is noted.
        tools: How many there are.
    """
    if not _is_calm(before, after):
        ledger.fail(f"something is left over: before {before}, after {after}")
    if after.memory_mib > (most := _MEMORY_MIB + _MEMORY_MIB_PER_TOOL * tools):
        ledger.fail(f"{after.memory_mib} MiB are held for {tools} tools, more than {most:.0f}")
    if warm is not None and after.memory_mib > warm.memory_mib * _MORE_MEMORY + _MORE_MEMORY_MIB:
        ledger.fail(f"memory grows: {warm.memory_mib} MiB when everything was in use, {after.memory_mib} at the end")


@asynccontextmanager
async def _hosts(world: World) -> AsyncGenerator[Hosts]:
    hosts = Hosts(world, free_ports(len(world.hosts)))
    try:
        for host in world.hosts:
            hosts.start(host)
        await _until_listening(hosts, world)
        yield hosts
    finally:
        hosts.end()


async def _until_listening(hosts: Hosts, world: World) -> None:
    with anyio.fail_after(_START_SECONDS):
        async with AsyncExitStack() as stack:
            http = await stack.enter_async_context(httpx2.AsyncClient(trust_env=False))
            for plans in world.hosts.values():
                while True:
                    try:
                        await http.get(hosts.url(plans[0]))
                        break
                    except httpx2.HTTPError:
                        await anyio.sleep(0.1)


@asynccontextmanager
async def _gateway(folder: Path, mcp_json: str, log: Path) -> AsyncGenerator[tuple[subprocess.Popen[str], str]]:
    file = folder / "mcp.json"
    file.write_text(mcp_json)
    argv = [
        sys.executable,
        "-m",
        "tools_search_server",
        "--config",
        str(file),
        "--http",
        "127.0.0.1:0",
        "--log-format",
        "json",
    ]
    with log.open("w") as stderr:
        process = await anyio.to_thread.run_sync(
            lambda: subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=stderr, text=True)  # noqa: S603 - see argv
        )
        try:
            told = cast("IO[str]", process.stdout)
            yield process, json.loads(await anyio.to_thread.run_sync(told.readline))["url"]
        finally:
            process.terminate()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(lambda: _ended(process))


def _ended(process: subprocess.Popen[str]) -> int:
    try:
        process.communicate(timeout=_EXIT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
    return process.returncode


async def _until_ready(url: str, world: World) -> None:
    with anyio.fail_after(_START_SECONDS):
        async with httpx2.AsyncClient(trust_env=False) as http:
            while True:
                health = (await http.get(url.replace("/mcp", "/healthz"), timeout=_START_SECONDS)).json()
                if health["ready"] == world.upstreams and health["tools"] == world.tools:
                    return
                await anyio.sleep(0.1)


def free_ports(count: int) -> list[int]:
    """Return ports of this machine that nothing listens at."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
