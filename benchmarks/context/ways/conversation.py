"""This project's `Conversation`, over tools at hand, in three modes."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Definition, Reply, ToolCall
from tools_search_client.conversation.sources import ListedSource
from tools_search_client.federation.configuration import ToolDiscovery

from benchmarks.context.catalog import Catalog, ToolKey
from benchmarks.context.requests import Request, answered, called, user
from benchmarks.context.stand_in import StandIn
from benchmarks.context.ways.interface import Replay

__all__ = ["automatic", "delegated", "model_driven"]

_SEARCH = "search_tools"


def model_driven(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Defer every server; the model searches."""
    return _opened(catalog, _bounded(ToolDiscovery(enabled=True, defer_all=True), limit))


def delegated(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Defer every server, and search with the user's text before the model is called."""
    return _opened(catalog, _bounded(ToolDiscovery(enabled=True, defer_all=True), limit), delegate=True)


def automatic(catalog: Catalog, limit: int | None) -> AbstractAsyncContextManager[Replay]:
    """Defer only what is more than the default share of the default context window."""
    return _opened(catalog, _bounded(ToolDiscovery(enabled=True, auto=True), limit))


@asynccontextmanager
async def _opened(catalog: Catalog, discovery: ToolDiscovery, *, delegate: bool = False) -> AsyncGenerator[Replay]:
    source = ListedSource.of(catalog.servers)
    if delegate:
        source.offers = tuple(replace(offer, delegate="turn") for offer in source.offers)

    async def replay(model: StandIn) -> None:
        conversation = Conversation(source, discovery)
        messages = [user(model.task.text)]
        await conversation.begin_turn(model.task.text)
        searches = int(delegate)
        while (text := model.search_for(_request(conversation, messages, searches))) is not None:
            reply = await conversation.take(ToolCall(_SEARCH, {"query": text}))
            if not isinstance(reply, Reply):
                raise TypeError("a search is answered by the conversation itself")
            messages = [*messages, called(_SEARCH, {"query": text}), answered(reply.text)]
            searches += 1

    yield replay


def _request(conversation: Conversation, messages: list[dict[str, object]], searches: int) -> Request:
    offer = conversation.offer()
    messages += map(user, offer.notices)
    return Request([one.to_json() for one in offer.tools], messages, _available(offer.tools), searches)


def _available(definitions: Sequence[Definition]) -> frozenset[ToolKey]:
    return frozenset((one.tool.server, one.tool.tool.name) for one in definitions if one.tool is not None)


def _bounded(discovery: ToolDiscovery, limit: int | None) -> ToolDiscovery:
    return discovery if limit is None else replace(discovery, max_search_results=limit)
