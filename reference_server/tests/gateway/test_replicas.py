"""List changes cross from replica to replica through a real Redis, which may be away, slow or full of rubbish."""

from __future__ import annotations

import logging
import shutil
import signal
import subprocess
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import trustme
from click.testing import CliRunner
from mcp import Client
from mcp_types import ToolListChangedNotification
from redis import Redis
from redis.exceptions import RedisError
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.gateway.replicas import RedisAddress, ReplicaMessage
from tools_search_server.gateway.search import GatewaySearch
from tools_search_server.gateway.server import Endpoint
from tools_search_server.programs.cli import command
from tools_search_server.programs.gateway import configured_gateway
from tools_search_server.programs.health import gateway_health

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(shutil.which("redis-server") is None, reason="redis-server (of Debian) is not installed"),
]

SECONDS = 60
CHANNEL = "replicas-under-test"


@dataclass
class RedisServer:
    """A real Redis, which can be started, stopped, killed and started again at the same port."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    url: str = ""
    tls: dict[str, str] = field(default_factory=dict[str, str])
    """Its files, if it speaks TLS, by option."""

    @property
    def address(self) -> RedisAddress:
        return RedisAddress(self.url or f"redis://127.0.0.1:{self.port}", CHANNEL)

    @property
    def client(self) -> Any:
        return Redis(port=self.port, ssl=bool(self.tls), ssl_ca_certs=self.tls.get("ca-cert-file"))

    def start(self) -> None:
        ports = ("0", str(self.port)) if self.tls else (str(self.port), "0")
        options = ["--port", ports[0], "--tls-port", ports[1], "--tls-auth-clients", "no"]
        options += ["--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
        options += [part for option, file in self.tls.items() for part in (f"--tls-{option}", file)]
        self.process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        while not self.answers():
            assert self.process.poll() is None

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait(20)

    def answers(self) -> bool:
        try:
            with self.client as client:
                return bool(client.ping())
        except RedisError:
            return False


@pytest.fixture
def redis(unused_tcp_port: int, tmp_path: Path) -> Generator[RedisServer]:
    server = RedisServer(unused_tcp_port, tmp_path)
    yield server
    if server.process is not None:
        server.signal(signal.SIGKILL)


@dataclass
class Replica:
    """One gateway in this process, with a modern and a legacy client that want to hear of changes."""

    gateway: Any
    modern: Client
    legacy: Client
    told: dict[str, int] = field(default_factory=lambda: {"modern": 0, "legacy": 0})

    @property
    def connection(self) -> str:
        return gateway_health(self.gateway)["replication"]["state"]

    async def names(self) -> set[str]:
        listed = {tool.name for tool in (await self.modern.session.list_tools()).tools}
        assert listed == {tool.name for tool in (await self.legacy.session.list_tools()).tools}
        return listed

    async def grow(self, name: str) -> None:
        await self.modern.session.call_tool("growing__plain", {"name": name})


@pytest.fixture
def replica(configuration: Any, raw: Any, redis: RedisServer, tmp_path: Path) -> Any:
    """Run a gateway whose upstream is one of several programs with one list, and notifies only this gateway."""
    file = configuration(growing=raw("growing", tmp_path))

    @asynccontextmanager
    async def running() -> AsyncGenerator[Replica]:
        options = GatewayOptions(20, 20, redis=redis.address)
        gateway, _ = configured_gateway(file, Limits(), options)
        server = Endpoint(GatewaySearch(gateway, Limits())).server()

        async def on_message(message: object) -> None:
            if isinstance(message, ToolListChangedNotification):
                here.told["legacy"] += 1

        async def listen(*, task_status: Any) -> None:
            async with here.modern.listen(tools_list_changed=True) as events:
                task_status.started()
                async for _ in events:
                    here.told["modern"] += 1

        async with (
            gateway.running(),
            Client(server, cache=None) as modern,
            Client(server, mode="legacy", message_handler=on_message) as legacy,
            anyio.create_task_group() as tasks,
        ):
            here = Replica(gateway, modern, legacy)
            await tasks.start(listen)
            yield here
            gateway.close_subscriptions()
            tasks.cancel_scope.cancel()

    return running


async def test_a_change_that_one_replica_hears_of_reaches_the_list_and_the_subscribers_of_every_replica(
    replica: Any, redis: RedisServer, until: Callable[[Callable[[], bool]], Any]
) -> None:
    redis.start()
    with anyio.fail_after(SECONDS):
        async with replica() as hearing, replica() as deaf:
            await until(lambda: hearing.connection == deaf.connection == "ready")
            before = await deaf.names()
            assert before == await hearing.names()
            with redis.client as observer, observer.pubsub() as channel:
                channel.subscribe(CHANNEL)
                await hearing.grow("marmalade")
                await until(lambda: deaf.told["modern"] > 0 and deaf.told["legacy"] > 0)
                await until(lambda: "growing__marmalade" in deaf.gateway.tools)
                assert await deaf.names() == await hearing.names() == before | {"growing__marmalade"}
                assert hearing.told["modern"] > 0
                # One says that its server has notified it, each that its list has changed, and maybe its start.
                with anyio.move_on_after(1):
                    await anyio.sleep_forever()
                said = [message["data"] for _ in range(10) if (message := channel.get_message()) is not None]
    news = [message for data in said if (message := ReplicaMessage.read(data)) is not None]
    assert [message.about for message in news].count("server") == 1
    assert {message.sender for message in news if message.about == "audience"} == {message.sender for message in news}
    assert len(news) <= 5


async def test_a_replica_that_starts_announces_its_lists_to_no_caller_of_others(
    replica: Any, redis: RedisServer, until: Any
) -> None:
    redis.start()
    with anyio.fail_after(SECONDS), redis.client as observer, observer.pubsub() as channel:
        channel.subscribe(CHANNEL)
        async with replica() as starting:
            await until(lambda: starting.connection == "ready" and starting.gateway.tools)
            await until(lambda: starting.told["modern"] and starting.told["legacy"])
            with anyio.move_on_after(0.5):
                await anyio.sleep_forever()
        said = [message["type"] for _ in range(10) if (message := channel.get_message()) is not None]
    assert said == ["subscribe"]


async def test_a_redis_with_a_certificate_of_a_private_authority_is_used_by_those_whose_address_names_the_authority(
    replica: Any, redis: RedisServer, until: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "redis.pem")
    own = str(tmp_path / "redis.pem")
    redis.tls = {"ca-cert-file": str(tmp_path / "ca.pem"), "cert-file": own, "key-file": own}
    redis.start()
    with anyio.fail_after(SECONDS):
        redis.url = f"rediss://localhost:{redis.port}"
        async with replica() as distrusting:
            await until(lambda: distrusting.connection == "down")
        assert "certificate verify failed" in caplog.text
        redis.url += f"?ssl_ca_certs={redis.tls['ca-cert-file']}"
        async with replica() as hearing, replica() as deaf:
            await until(lambda: hearing.connection == deaf.connection == "ready")
            await deaf.names()
            await hearing.grow("marmalade")
            await until(lambda: deaf.told["modern"] > 0 and "growing__marmalade" in deaf.gateway.tools)


async def test_what_happens_while_redis_is_missing_or_stuck_is_made_up_for_and_delays_nothing(
    replica: Any, redis: RedisServer, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with anyio.fail_after(SECONDS):
        async with replica() as hearing, replica() as deaf:
            await until(lambda: hearing.connection == deaf.connection == "down")
            await hearing.grow("before")
            assert "growing__before" not in await deaf.names()
            redis.start()
            await until(lambda: deaf.told["modern"] and "growing__before" in deaf.gateway.tools)
            await until(lambda: hearing.connection == deaf.connection == "ready")
            assert gateway_health(deaf.gateway)["status"] == "ok"
            redis.signal(signal.SIGSTOP)
            with anyio.fail_after(2):
                await hearing.grow("stuck")
                assert "growing__stuck" not in await deaf.names()
            redis.signal(signal.SIGKILL)
            await until(lambda: hearing.connection == deaf.connection == "down")
            assert gateway_health(deaf.gateway)["status"] == "degraded"
            told = deaf.told["modern"], hearing.told["modern"]
            redis.start()
            await until(lambda: deaf.told["modern"] > told[0] and hearing.told["modern"] > told[1])
            await until(lambda: "growing__stuck" in deaf.gateway.tools)
    outages = [record for record in caplog.records if "Redis cannot be used" in record.getMessage()]
    assert len(outages) == 4  # two for each replica, however often they have tried


def message(**members: Any) -> bytes:
    return ReplicaMessage(sender="x", **members).model_dump_json().encode()


async def test_rubbish_on_the_channel_changes_nothing(
    replica: Any, redis: RedisServer, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    rubbish = [b"", b"\xff", b"[]", b"{", b"[" * 4000, b'{"sender":1}', b"x" * 100_000]
    rubbish += [
        message(about="server", name="no such", kind="tools"),
        message(about="audience", name="no such", kind="tools"),
    ]
    rubbish += [message(about="server", name="growing", kind="prompts")]
    redis.start()
    with anyio.fail_after(SECONDS):
        async with replica() as one, replica() as other:
            await until(lambda: one.connection == other.connection == "ready")
            await one.names()
            with redis.client as attacker:
                for data in rubbish * 20:
                    attacker.publish(CHANNEL, data)
                attacker.publish(CHANNEL, message(about="audience", name="plain/", kind="tools"))
            await until(lambda: one.told["modern"] and other.told["modern"])
            assert await one.names() == await other.names() == {"growing__plain"}
            await one.grow("after")
            await until(lambda: "growing__after" in other.gateway.tools)
    ignored = [record for record in caplog.records if "ignoring invalid messages" in record.getMessage()]
    assert len(ignored) == 2  # one for each replica


async def test_a_message_about_a_server_that_is_removed_before_it_takes_effect_is_ignored(
    replica: Any, redis: RedisServer, until: Any
) -> None:
    redis.start()
    is_done = threading.Event()

    def flood() -> None:
        with redis.client as other:
            while not is_done.wait(0.001):
                other.publish(CHANNEL, message(about="server", name="growing", kind="prompts"))
                other.publish(CHANNEL, message(about="audience", name="plain/", kind="tools"))

    with anyio.fail_after(SECONDS):
        async with replica() as one, anyio.create_task_group() as tasks:
            await until(lambda: one.connection == "ready" and one.gateway.tools)
            tasks.start_soon(anyio.to_thread.run_sync, flood)
            try:
                await until(lambda: one.told["modern"] > 2)
                one.gateway.reconfigure([], one.gateway.metadata)
                before = one.told["modern"]
                await until(lambda: one.told["modern"] > before + 3)
                assert await one.names() == set()
                assert one.connection == "ready"
            finally:
                is_done.set()


@pytest.mark.parametrize(
    "data", [None, 1, "text", b"{}", b'{"version":2,"sender":"x","about":"server","name":"a","kind":"tools"}']
)
def test_only_messages_of_replicas_are_read(data: object) -> None:
    assert ReplicaMessage.read(data) is None


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("redis://:secret-word@127.0.0.1", "TOOLS_SEARCH_REDIS"),
        ("redis://127.0.0.1?password=secret-word", "TOOLS_SEARCH_REDIS"),
        ("http://127.0.0.1", "is not the URL of a Redis server"),
        ("redis://127.0.0.1:port", "is not the URL of a Redis server"),
    ],
)
def test_an_address_that_cannot_be_used_says_what_to_write_and_repeats_no_password(
    configuration: Any, raw: Any, url: str, text: str
) -> None:
    refused = CliRunner().invoke(command, ["--config", str(configuration(good=raw("good"))), "--redis", url])
    assert refused.exit_code == 2
    assert text in refused.stderr
    assert "secret-word" not in refused.stderr
