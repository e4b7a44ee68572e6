"""The channel of a Redis server on which the replicas of a gateway tell each other of list changes.

Requests never wait for it: what is to be told waits in an outbox, which is bounded because it holds no news twice.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any, Final

import anyio
import anyio.lowlevel

from tools_search_server.base.redaction import printable
from tools_search_server.gateway.redis_address import RedisAddress, connector, secrets_of
from tools_search_server.gateway.replica_news import News, decode, encode
from tools_search_server.upstreams.connection import first_error
from tools_search_server.upstreams.state import State, pauses

__all__ = ["RedisChannel"]

logger = logging.getLogger(__name__)

_ANSWER_SECONDS: Final = 3
"""How long Redis may take for anything."""

_SILENT_SECONDS: Final = 5
"""After so much silence Redis is asked whether it is still there."""

_LONGEST_PAUSE: Final = 10
_STEADY_SECONDS: Final = 30

_QUIET_SECONDS: Final = 0.05
"""What is told again within this time is told once."""


class RedisChannel:
    """Keeps connected to Redis, and tells and hears what replicas say there.

    Args:
        address: Of the Redis server.

    Raises:
        ConfigurationError: Redis cannot be used with this installation or at this address.
    """

    def __init__(self, address: RedisAddress) -> None:
        self._name = address.channel
        self._secrets = secrets_of(address.url)
        self._connect = connector(address.url, answer_seconds=_ANSWER_SECONDS)
        self._sender = secrets.token_hex(8)
        self._outbox: dict[News, None] = {}
        self._to_send = anyio.Event()
        self._state = State("starting", datetime.now(UTC))

    @property
    def state(self) -> State:
        """How the connection is."""
        return self._state

    def send(self, news: News) -> None:
        """Tell the others as soon as they can be reached; returns at once."""
        self._outbox[news] = None
        self._to_send.set()

    async def run(self, receive: Callable[[News], None], missed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Keep connected and give what others tell to `receive`; never returns.

        `missed` is called when the connection is there after it was not: others may have told something meanwhile.
        """
        waits = pauses(_LONGEST_PAUSE)
        while True:
            began = anyio.current_time()
            try:
                await self._hold(receive, missed)
            except Exception as error:  # the boundary: whatever Redis does, the gateway serves on
                logger.debug("the connection to Redis failed", exc_info=error)
                self._fail(first_error(error))
            if anyio.current_time() - began > _STEADY_SECONDS:
                waits = pauses(_LONGEST_PAUSE)
            await anyio.sleep(next(waits))

    async def _hold(self, receive: Callable[[News], None], missed: Callable[[], Coroutine[Any, Any, None]]) -> None:
        async with self._opened() as (redis, heard):
            with anyio.fail_after(2 * _ANSWER_SECONDS):
                await heard.subscribe(self._name)
                while (message := await heard.get_message(timeout=_ANSWER_SECONDS)) is None:
                    pass
                if message["type"] != "subscribe":
                    raise ConnectionError("it does not answer as Redis does")
            was_down = self._state.kind == "down"
            self._succeed()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._send_all, redis)
                if was_down:
                    tasks.start_soon(missed)
                await self._listen(heard, receive)

    @asynccontextmanager
    async def _opened(self) -> AsyncGenerator[tuple[Any, Any]]:
        redis = self._connect()
        heard = redis.pubsub()
        try:
            yield redis, heard
        finally:
            with anyio.move_on_after(_ANSWER_SECONDS, shield=True):  # it is closed when the gateway stops, too
                await heard.aclose()
                await redis.aclose()

    async def _send_all(self, redis: Any) -> None:
        while True:
            while self._outbox:
                news = next(iter(self._outbox))
                del self._outbox[news]  # before it is told: told again meanwhile, it has to be told again
                try:
                    with anyio.fail_after(_ANSWER_SECONDS):
                        await redis.publish(self._name, encode(news, self._sender))
                except BaseException:
                    self._outbox[news] = None
                    raise
            self._to_send = anyio.Event()
            await self._to_send.wait()
            await anyio.sleep(_QUIET_SECONDS)

    async def _listen(self, heard: Any, receive: Callable[[News], None]) -> None:
        is_asked = is_noisy = False
        while True:
            message = await heard.get_message(ignore_subscribe_messages=True, timeout=_SILENT_SECONDS)
            if message is None and is_asked:
                raise TimeoutError("it is silent")
            is_asked = message is None
            if message is None:
                await heard.ping()
            elif message["type"] == "message":
                if (told := decode(message["data"])) is None:
                    if not is_noisy:
                        logger.warning("Redis: channel %r carries what no replica sends; it is ignored", self._name)
                    is_noisy = True
                elif told[1] != self._sender:
                    receive(told[0])
                await anyio.lowlevel.checkpoint()  # where very much comes, others have their turn all the same

    def _succeed(self) -> None:
        logger.info("list changes cross to other replicas on channel %r of Redis", self._name)
        self._state = State("ready", datetime.now(UTC))

    def _fail(self, error: BaseException) -> None:
        reason = printable(self._without_secrets(str(error) or type(error).__name__))[:300].rstrip(".")
        if self._state.kind != "down":  # one line for each outage
            text = "Redis cannot be used: %s. List changes do not cross to other replicas until it can."
            logger.warning(text, reason, extra={"reason": reason})
        since = self._state.since if self._state.kind == "down" else datetime.now(UTC)
        self._state = State("down", since, reason)

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text
