"""The Redis channel on which the replicas of a gateway exchange list changes.

Requests never wait for it: messages wait in an outbox, which is bounded because it holds no message twice. Any failure
of Redis is logged once and the connection is tried again, while the gateway serves on.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias, cast
from urllib.parse import parse_qs, unquote, urlsplit

import anyio
import anyio.lowlevel
from mcp.server.subscriptions import PromptsListChanged, ResourcesListChanged, ServerEvent, ToolsListChanged
from pydantic import BaseModel, ConfigDict, ValidationError
from tools_search_hosts import ConfigurationError
from tools_search_ranking.extras import install_command

from tools_search_server.base.redaction import printable
from tools_search_server.upstreams.connection import first_error
from tools_search_server.upstreams.state import State, backoff_delays

logger = logging.getLogger(__name__)

REDIS_VARIABLE: Final = "TOOLS_SEARCH_REDIS"
DEFAULT_CHANNEL: Final = "tools-search"

ListKind: TypeAlias = Literal["tools", "prompts", "resources"]

LIST_EVENTS: Final[Mapping[ListKind, ServerEvent]] = {
    "tools": ToolsListChanged(),
    "prompts": PromptsListChanged(),
    "resources": ResourcesListChanged(),
}

_SCHEMES: Final = frozenset({"redis", "rediss", "unix"})
_MAX_MESSAGE_BYTES: Final = 4096
"""Far more than names need, and cheap to read."""

_ANSWER_SECONDS: Final = 3
"""How long Redis may take for anything."""

_SILENT_SECONDS: Final = 5
"""Silence after which Redis is asked for a sign of life."""

_LONGEST_PAUSE: Final = 10
_STEADY_SECONDS: Final = 30

_QUIET_SECONDS: Final = 0.05
"""Messages repeated within this time are sent once."""


class ReplicaMessage(BaseModel):
    """A list change at one replica. Receiving it twice changes nothing."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    about: Literal["server", "audience"]
    """`server`: an upstream reported a change of its list, so the others read it again.
    `audience`: the list of some callers has changed here, and any replica may answer them next."""

    name: str
    """Of the server, or of the audience."""

    kind: ListKind


class _Envelope(BaseModel):
    version: Literal[1] = 1
    sender: str


def encode(message: ReplicaMessage, sender: str) -> bytes:
    """Return a message in wire form."""
    return json.dumps({"version": 1, "sender": sender} | message.model_dump()).encode()


def decode(data: object) -> tuple[ReplicaMessage, str] | None:
    """Return the message in received data and its sender, or `None` if there is no valid one."""
    if not isinstance(data, bytes) or len(data) > _MAX_MESSAGE_BYTES:
        return None
    try:
        envelope = _Envelope.model_validate_json(data, strict=True)
        return ReplicaMessage.model_validate_json(data), envelope.sender
    except ValidationError:
        return None


@dataclass(frozen=True)
class RedisAddress:
    """The URL of a Redis server, and the name of the channel there."""

    url: str = field(repr=False)  # it may hold a password
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
        """Return a function that makes a client, which connects when it is used: `Any`, as its types are incomplete.

        Raises:
            ConfigurationError: Redis cannot be used with this installation or at this address.
        """
        try:
            from redis.asyncio import Redis
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
        except ImportError:
            problem = f"needs the package `redis`, which is not installed. {install_command('redis')}"
            raise ConfigurationError("--redis", [problem]) from None

        def connect() -> Any:
            # No retries by the client: after any break, messages may have been missed.
            return cast("Any", Redis).from_url(
                self.url,
                socket_timeout=_ANSWER_SECONDS,
                socket_connect_timeout=_ANSWER_SECONDS,
                retry=Retry(NoBackoff(), 0),
            )

        try:
            scheme = urlsplit(self.url).scheme
            if scheme not in _SCHEMES:
                raise ValueError(scheme)
            connect()
        except ValueError:  # without the address, which may hold a password
            problem = "is no address of a Redis server. Write redis://HOST:PORT, or rediss:// with TLS."
            raise ConfigurationError("--redis", [problem]) from None
        return connect


def redis_address(url: str | None, channel: str) -> RedisAddress | None:
    """Return the address from the command line or else from the environment; `None` if neither has one.

    Raises:
        ConfigurationError: The command line holds a password, which other users of the machine can read there.
    """
    if url is not None and RedisAddress(url).secrets:
        problem = "holds a password, which everyone on this machine can read"
        advice = f"Put the whole address into the environment variable {REDIS_VARIABLE} instead."
        raise ConfigurationError("--redis", [f"{problem}. {advice}"])
    url = os.environ.get(REDIS_VARIABLE) if url is None else url
    return RedisAddress(url, channel) if url else None


class RedisChannel:
    """A connection to the channel that is restored after any failure.

    Args:
        address: Of the Redis server.

    Raises:
        ConfigurationError: Redis cannot be used with this installation or at this address.
    """

    def __init__(self, address: RedisAddress) -> None:
        self._address = address
        self._connect = address.connector()
        self._sender = secrets.token_hex(8)
        self._outbox: dict[ReplicaMessage, None] = {}
        self._to_send = anyio.Event()
        self._state = State("starting", datetime.now(UTC))

    @property
    def state(self) -> State:
        """The state of the connection."""
        return self._state

    def send(self, message: ReplicaMessage) -> None:
        """Send a message as soon as Redis can be reached; returns at once."""
        self._outbox[message] = None
        self._to_send.set()

    async def run(
        self, receive: Callable[[ReplicaMessage], None], missed: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Keep connected and give the messages of other replicas to `receive`; never returns.

        `missed` is called when a lost connection is restored: there may have been messages meanwhile.
        """
        waits = backoff_delays(_LONGEST_PAUSE)
        while True:
            began = anyio.current_time()
            try:
                await self._stay_connected(receive, missed)
            except Exception as error:  # the boundary: the gateway keeps serving through any fault of Redis
                logger.debug("the connection to Redis failed", exc_info=error)
                self._fail(first_error(error))
            if anyio.current_time() - began > _STEADY_SECONDS:
                waits = backoff_delays(_LONGEST_PAUSE)
            await anyio.sleep(next(waits))

    async def _stay_connected(
        self, receive: Callable[[ReplicaMessage], None], missed: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        async with self._opened() as (redis, pubsub):
            with anyio.fail_after(2 * _ANSWER_SECONDS):
                await pubsub.subscribe(self._address.channel)
                while (message := await pubsub.get_message(timeout=_ANSWER_SECONDS)) is None:
                    pass
                if message["type"] != "subscribe":
                    raise ConnectionError("it does not answer as Redis does")
            was_down = self._state.kind == "down"
            logger.info("list changes cross to other replicas on channel %r of Redis", self._address.channel)
            self._state = State("ready", datetime.now(UTC))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_all, redis)
                if was_down:
                    tasks.start_soon(missed)
                await self._listen(pubsub, receive)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Any, Any]]:
        redis = self._connect()
        pubsub = redis.pubsub()
        try:
            yield redis, pubsub
        finally:
            with anyio.move_on_after(_ANSWER_SECONDS, shield=True):  # also when the gateway stops
                await pubsub.aclose()
                await redis.aclose()

    async def _send_all(self, redis: Any) -> None:
        while True:
            while self._outbox:
                message = next(iter(self._outbox))
                # Removed before it is sent: a change during the sending has to be sent again.
                del self._outbox[message]
                try:
                    with anyio.fail_after(_ANSWER_SECONDS):
                        await redis.publish(self._address.channel, encode(message, self._sender))
                except BaseException:
                    self._outbox[message] = None
                    raise
            self._to_send = anyio.Event()
            await self._to_send.wait()
            await anyio.sleep(_QUIET_SECONDS)

    async def _listen(self, pubsub: Any, receive: Callable[[ReplicaMessage], None]) -> None:
        was_pinged = has_warned = False
        while True:
            message = await pubsub.get_message(ignore_subscribe_messages=True, timeout=_SILENT_SECONDS)
            if message is None and was_pinged:
                raise TimeoutError("it is silent")
            was_pinged = message is None
            if message is None:
                await pubsub.ping()
            elif message["type"] == "message":
                if (received := decode(message["data"])) is None:
                    if not has_warned:
                        text = "Redis: channel %r carries what no replica sends; it is ignored"
                        logger.warning(text, self._address.channel)
                    has_warned = True
                elif received[1] != self._sender:
                    receive(received[0])
                await anyio.lowlevel.checkpoint()  # a flood of messages leaves other tasks their turn

    def _fail(self, error: BaseException) -> None:
        text = str(error) or type(error).__name__
        for secret in self._address.secrets:
            text = text.replace(secret, "…")
        reason = printable(text)[:300].rstrip(".")
        if self._state.kind != "down":  # one line for each outage
            text = "Redis cannot be used: %s. List changes do not cross to other replicas until it can."
            logger.warning(text, reason, extra={"reason": reason})
        since = self._state.since if self._state.kind == "down" else datetime.now(UTC)
        self._state = State("down", since, reason)
