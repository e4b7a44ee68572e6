"""Tools by name, those included that stand in no index because their server is searched where it is."""

from __future__ import annotations

from tools_search_hosts import own_name, split_candidates

from tools_search_server.gateway.gateway import Gateway, Offer
from tools_search_server.gateway.views import SeenUpstream, View
from tools_search_server.upstreams.delegated_search import DelegatedSearch, NoAnswerError
from tools_search_server.upstreams.upstream import Upstream

__all__ = ["called_tool", "found_offer", "remotes_named"]


def remotes_named(view: View, name: str) -> list[tuple[SeenUpstream, DelegatedSearch]]:
    """Return the servers of which a tool may have this public name, the likeliest first."""
    by_name = {seen.name: (seen, remote) for seen, remote in view.remotes}
    return [by_name[server] for server, _ in split_candidates(name, by_name)]


async def found_offer(gateway: Gateway, view: View, name: str) -> Offer | None:
    """Return the tool with a public name, if the caller sees one.

    Raises:
        NoAnswerError: A server that may have it did not answer.
    """
    if (offer := view.offers.get(name)) is not None:
        return offer
    for seen, remote in remotes_named(view, name):
        tool = await remote.find(name)
        if tool is not None:
            return gateway.offer(seen.upstream, tool)
    return None


async def called_tool(view: View, name: str) -> tuple[Upstream, str] | None:
    """Return where a call of a public name goes, and the server's own name for the tool.

    A name of a server that is searched where it is goes there unseen: it knows its tools best.
    """
    if (offer := view.offers.get(name)) is not None:
        return offer.upstream, offer.original_name
    for seen, remote in remotes_named(view, name):
        own = own_name(seen.name, name)
        try:
            if own is None:
                tool = await remote.find(name)
                own = None if tool is None else tool.name
            elif seen.upstream.is_modern and seen.upstream.transport != "stdio":
                await remote.make_callable(own)
        except NoAnswerError:  # the call itself will tell what is the matter
            own = own or name
        if own is not None:
            return seen.upstream, own
    upstream = view.unavailable(name)
    return None if upstream is None else (upstream, name)
