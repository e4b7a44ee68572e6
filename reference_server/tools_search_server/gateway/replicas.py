"""Shares list changes among the replicas of a gateway, over a Redis channel.

Each replica has its own connections to the upstreams, and any replica can answer any caller. So replicas exchange two
kinds of messages:

* An upstream has reported a list change to one replica: the others reread that list at once.
* Some callers' list has changed at one replica: the modern subscribers of all replicas are notified, since any replica
  may answer them next. Legacy clients stay with the replica that has their session.

Messages from other replicas are never forwarded. Requests never wait for Redis: messages wait in an outbox, whose size
is bounded because it contains no duplicates. Each Redis outage is logged once, and the gateway retries the connection
while it continues to serve.
"""

from __future__ import annotations

import logging
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, cast
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
import anyio.lowlevel
from mcp.server.subscriptions import InMemorySubscriptionBus, ServerEvent, SubscriptionBus
from pydantic import BaseModel, ConfigDict, ValidationError
from tools_search_hosts import ConfigurationError
from tools_search_hosts.endings import first_error
from tools_search_ranking.extras import install_command

from tools_search_server.base.defaults import DEFAULT_CHANNEL, REDIS_VARIABLE
from tools_search_server.base.redaction import printable
from tools_search_server.upstreams.notifications import LIST_EVENTS, ListKind
from tools_search_server.upstreams.state import Retries, State

logger = logging.getLogger(__name__)

_MAX_MESSAGE_BYTES: Final = 4096
"""Far more than names need, but cheap to read."""

_ANSWER_SECONDS: Final = 3
"""Timeout for each Redis operation."""

_SILENT_SECONDS: Final = 5
"""Silence after which the gateway pings Redis."""

_MAX_PAUSE: Final = 10

_SENT_SECONDS: Final = 0.05
"""Identical messages within this time are sent once."""

_GATHER_SECONDS: Final = 0.05
"""Several replicas often notice the same change, so wait this long to notify subscribers once."""

_QUIET_SECONDS: Final = 0.25
"""Messages that arrive faster than this are handled together."""


class ReplicaMessage(BaseModel):
    """A list change at one replica. Receiving it twice has no further effect."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    version: Literal[1] = 1
    sender: str

    about: Literal["server", "audience"]
    """`server`: an upstream reported a change of its list, so the other replicas reread it.
    `audience`: some callers' list has changed here, and any replica may answer them next."""

    name: str
    """The name of the server, or of the audience."""

    kind: ListKind

    @classmethod
    def read(cls, data: object) -> ReplicaMessage | None:
        """Parse received data. Return `None` if it is not a valid message."""
        if not isinstance(data, bytes) or len(data) > _MAX_MESSAGE_BYTES:
            return None
        try:
            return cls.model_validate_json(data)
        except ValidationError:
            return None


@dataclass(frozen=True)
class RedisAddress:
    """The URL of a Redis server, and the name of a channel."""

    url: str = field(repr=False)  # it may contain a password
    channel: str = DEFAULT_CHANNEL

    @property
    def secrets(self) -> list[str]:
        """Passwords in the URL, the longest first."""
        try:
            parts = urlsplit(self.url)
            password = parts.password or ""
        except ValueError:
            return []
        stated = {password, unquote(password), *parse_qs(parts.query).get("password", [])} - {""}
        return sorted(stated, key=len, reverse=True)

    def connector(self) -> Callable[[], Any]:
        """Return a function that makes a client, which connects on first use: `Any`, as its types are incomplete.

        Raises:
            ConfigurationError: The `redis` package is not installed, or the URL is invalid.
        """
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            problem = f"needs the package `redis`, which is not installed. {install_command('redis')}"
            raise ConfigurationError("--redis", [problem]) from None
        connect = partial(
            cast("Any", Redis).from_url,
            self.url,
            socket_timeout=_ANSWER_SECONDS,
            socket_connect_timeout=_ANSWER_SECONDS,
            retry=Retry(NoBackoff(), 0),  # the client must not retry: messages may be lost in any interruption
        )
        try:
            connect()
        except ValueError:  # the error omits the URL, which may contain a password
            problem = "is not the URL of a Redis server. Write redis://HOST:PORT, or rediss:// for TLS."
            raise ConfigurationError("--redis", [problem]) from None
        return connect


def redis_address(url: str | None, channel: str) -> RedisAddress | None:
    """Return the address from the command line, or else from the environment; `None` if neither has one.

    Raises:
        ConfigurationError: The URL on the command line contains a password, which other local users can see.
    """
    if url is not None and RedisAddress(url).secrets:
        problem = "contains a password, which everyone on this machine can read"
        advice = f"Put the whole URL in the environment variable {REDIS_VARIABLE} instead."
        raise ConfigurationError("--redis", [f"{problem}. {advice}"])
    url = os.environ.get(REDIS_VARIABLE) if url is None else url
    return RedisAddress(url, channel) if url else None


class Replicas:
    """The other replicas of this gateway, reached at a Redis `address`. Without one, there are none.

    Raises:
        ConfigurationError: The `redis` package is not installed, or the URL is invalid.
    """

    # The states of the connection; without an address there is none:
    #
    #     starting -> ready    subscribed to the channel
    #     starting -> down     Redis cannot be reached, or fails
    #     ready    -> down     the connection is lost, or Redis stops answering
    #     down     -> ready    subscribed again; any list may have changed meanwhile, so all callers are notified

    def __init__(self, address: RedisAddress | None = None) -> None:
        self.state = None if address is None else State("starting", datetime.now(UTC))
        """The state of the connection to other replicas; `None` without replicas."""
        self._address = address
        self._connect = None if address is None else address.connector()
        self._sender = secrets.token_hex(8)
        self._outbox: dict[ReplicaMessage, None] = {}
        self._to_send = anyio.Event()
        self._audiences: dict[str, _SharedBus] = {}
        self._servers: Mapping[str, Callable[[ServerEvent], None]] = {}
        self._received: dict[tuple[str, str, ListKind], None] = {}
        self._has_received = anyio.Event()
        self._has_answered = False

    def bus(self, endpoint: str, toolset: str) -> SubscriptionBus:
        """Return the bus to an endpoint's subscribers with this toolset, at all replicas."""
        name = f"{endpoint}/{toolset}"

        def send(event: ServerEvent) -> None:
            # While a replica starts, every upstream changes the lists that nobody has seen.
            if self._has_answered:
                self._send("audience", name, event)

        return self._audiences.setdefault(name, _SharedBus(send))

    def note_answer(self) -> None:
        """Record that this replica has answered a caller. Before that, nobody can have seen its lists."""
        self._has_answered = True

    def send_server_change(self, server: str, event: ServerEvent) -> None:
        """Have the other replicas reread an upstream's list, after it reported a change."""
        self._send("server", server, event)

    async def run(self, servers: Mapping[str, Callable[[ServerEvent], None]], missed: Callable[[], None]) -> None:
        """Exchange changes with other replicas. Never returns, unless there are none.

        Args:
            servers: The functions to call when another replica learns of a change to a server's list, by server. The
                mapping may change at any time.
            missed: Called after a lost connection, during which any list may have changed at any replica.
        """
        if self._connect is None or self._address is None:
            return
        self._servers = servers
        retries = Retries(_MAX_PAUSE)
        async with anyio.create_task_group() as tasks:
            # It outlives connections: what was received takes effect even if the connection is lost.
            tasks.start_soon(self._apply_received)
            while True:
                try:
                    await self._stay_connected(self._connect(), self._address.channel, missed)
                except Exception as error:  # the gateway keeps serving through any Redis failure
                    logger.debug("the connection to Redis failed", exc_info=error)
                    self._fail(first_error(error), self._address.secrets)
                await retries.pause()

    def _send(self, about: Literal["server", "audience"], name: str, event: ServerEvent) -> None:
        """Send a change as soon as Redis is reachable. Updates of single resources are not sent."""
        kind: ListKind | None = next((kind for kind, known in LIST_EVENTS.items() if known == event), None)
        if self._address is not None and kind is not None:
            self._outbox[ReplicaMessage(sender=self._sender, about=about, name=name, kind=kind)] = None
            self._to_send.set()

    async def _stay_connected(self, redis: Any, channel: str, missed: Callable[[], None]) -> None:
        pubsub = redis.pubsub()
        try:
            with anyio.fail_after(2 * _ANSWER_SECONDS):
                await pubsub.subscribe(channel)
                # `subscribe` only sends the request. Until it is confirmed, messages can be missed.
                while (message := await pubsub.get_message(timeout=_ANSWER_SECONDS)) is None:
                    pass
                if message["type"] != "subscribe":
                    raise ConnectionError("it does not answer like a Redis server")
            was_down = self.state is not None and self.state.kind == "down"
            logger.info("sharing list changes with other replicas on Redis channel %r", channel)
            self.state = State("ready", datetime.now(UTC))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_all, redis, channel)
                if was_down:
                    tasks.start_soon(self._catch_up, missed)
                await self._listen(pubsub, channel)
        finally:
            with anyio.move_on_after(_ANSWER_SECONDS, shield=True):  # also when the gateway stops
                await pubsub.aclose()
                await redis.aclose()

    async def _catch_up(self, missed: Callable[[], None]) -> None:
        for audience in list(self._audiences.values()):  # a new toolset may add one meanwhile
            for event in LIST_EVENTS.values():
                await audience.deliver(event)
        missed()

    async def _send_all(self, redis: Any, channel: str) -> None:
        while True:
            while self._outbox:
                message = next(iter(self._outbox))
                # Remove it before sending: a change during the send must be sent again.
                del self._outbox[message]
                try:
                    with anyio.fail_after(_ANSWER_SECONDS):
                        await redis.publish(channel, message.model_dump_json().encode())
                except BaseException:  # it may not have been sent, and receiving it twice is harmless
                    self._outbox[message] = None
                    raise
            self._to_send = anyio.Event()
            await self._to_send.wait()
            await anyio.sleep(_SENT_SECONDS)

    async def _listen(self, pubsub: Any, channel: str) -> None:
        was_pinged = has_warned = False
        while True:
            data = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_SILENT_SECONDS)
            if data is None and was_pinged:
                raise TimeoutError("it does not respond")
            was_pinged = data is None
            if data is None:
                await pubsub.ping()
            elif data["type"] == "message":
                if (message := ReplicaMessage.read(data["data"])) is not None:
                    self._receive(message)
                elif not has_warned:
                    logger.warning("ignoring invalid messages on Redis channel %r", channel)
                    has_warned = True
                await anyio.lowlevel.checkpoint()  # let other tasks run even in a flood of messages

    def _receive(self, message: ReplicaMessage) -> None:
        # Unknown names belong to another configuration or are made up: they would only use memory.
        known = self._servers if message.about == "server" else self._audiences
        if message.sender != self._sender and message.name in known:
            self._received[message.about, message.name, message.kind] = None
            self._has_received.set()

    async def _apply_received(self) -> None:
        while True:
            await self._has_received.wait()
            self._has_received = anyio.Event()
            for name, kind in self._take_received("server"):
                if (note_change := self._servers.get(name)) is not None:  # else it was removed meanwhile
                    note_change(LIST_EVENTS[kind])
            await anyio.sleep(_GATHER_SECONDS)
            for name, kind in self._take_received("audience"):
                await self._audiences[name].deliver(LIST_EVENTS[kind])
            await anyio.sleep(_QUIET_SECONDS)

    def _take_received(self, about: str) -> list[tuple[str, ListKind]]:
        taken = [received for received in self._received if received[0] == about]
        for received in taken:
            del self._received[received]
        return [(name, kind) for _, name, kind in taken]

    def _fail(self, error: BaseException, secrets: list[str]) -> None:
        text = str(error) or type(error).__name__
        for secret in secrets:
            text = text.replace(secret, "…")
        reason = printable(text)[:300].rstrip(".")
        is_known = self.state is not None and self.state.kind == "down"
        if not is_known:  # one line per outage
            text = "Redis cannot be used: %s. List changes are not shared with other replicas until it can."
            logger.warning(text, reason, extra={"reason": reason})
        since = self.state.since if self.state is not None and is_known else datetime.now(UTC)
        self.state = State("down", since, reason)


class _SharedBus(InMemorySubscriptionBus):
    """A bus across replicas: an event published at one replica is delivered at all of them."""

    def __init__(self, send: Callable[[ServerEvent], None]) -> None:
        super().__init__()
        self._send = send

    async def publish(self, event: ServerEvent) -> None:
        """Deliver a change to the subscribers at all replicas."""
        self._send(event)
        await self.deliver(event)

    async def deliver(self, event: ServerEvent) -> None:
        """Deliver a change to the subscribers at this replica."""
        await super().publish(event)
