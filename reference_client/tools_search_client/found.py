"""Found tools, and the answers of one or several servers.

`ServerTools` returns `Found`. A `Federation` returns `FederatedSearch` and `FederatedListing`, which have a
`ServerReport` for each server. All of them contain tools as `FoundTool`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Implementation, Resource, ResourceTemplate, Tool

from tools_search_client.errors import Failure, RerankingError

Mode: TypeAlias = Literal["search", "list"]
"""How a server is searched: with `tools/search`, or with `tools/list` and local ranking."""

Era: TypeAlias = Literal["modern", "legacy"]
"""A connection's family of protocol revisions."""


Item = TypeVar("Item")


def key_of(item: Any) -> str:
    """Return the key with which clients request a tool, resource, template or prompt."""
    match item:
        case Resource():
            return str(item.uri)
        case ResourceTemplate():
            return item.uri_template
        case _:
            return str(item.name)


@dataclass(frozen=True, slots=True)
class NamedItem(Generic[Item]):
    """A tool, prompt, resource or resource template, and its server."""

    name: str
    """A name that is unique across servers and valid for every model provider: for users, or to call a tool by."""

    server: str
    """The server's name in the configuration; empty if there is only one server."""

    item: Item
    """The server's definition; requests use the name or URI in it."""


@dataclass(frozen=True, slots=True)
class FoundItem(NamedItem[Item]):
    """An item that a search found, and why."""

    hit: HitMetadata = field(default_factory=HitMetadata)
    """Why the server or the local ranking found it; all members are `None` if that is unknown. A resource's `matched`
    may include `contents`.
    """

    mode: Mode = "list"
    """How it was found."""

    weight: float = 0.0
    """Its weight in the fusion; comparable only within one answer."""

    own_rank: int | None = None
    """Its rank before merging, from 1: within its server's answer, or among all listed items if it was listed."""

    @property
    def key(self) -> str:
        """The key with which clients request it: its URI, its URI template, or the server's own name for it."""
        return key_of(self.item)

    def is_named(self, text: str) -> bool:
        """Return whether `text` is its name or its key."""
        return text in (self.name, self.key)


@dataclass(frozen=True, slots=True)
class FoundTool(FoundItem[Tool]):
    """A tool with its complete definition and its server, and why it was found."""

    @property
    def tool(self) -> Tool:
        """The server's definition (`item`)."""
        return self.item


@dataclass(frozen=True, slots=True)
class Found:
    """One server's answer to a search, best first.

    An empty answer does not prove that the server has no such tool.
    """

    tools: tuple[FoundTool, ...]
    mode: Mode
    fallback: str | None = None
    """Why the tools were listed although the server advertises the search."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """One server's part in an answer."""

    server: str
    mode: Mode | None
    """How it was searched; `None` if it failed before that."""
    era: Era | None
    milliseconds: float
    """Time from the request to the server's answer or failure, including connecting."""
    hits: int = 0
    """Number of tools that it contributed, before fusion."""
    left_out: int = 0
    """Number of tools left out of its listing: the protocol forbids their definitions, or their page repeats a name."""
    fallback: str | None = None
    """Why it was listed although it advertises the search."""
    failure: Failure | None = None
    contents: bool | None = None
    """Whether a search for resources covered their contents, rather than only their definitions; `None` for any other
    answer, and for a server that failed. `False` also if the server, a gateway, has yet to read some of them.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedAnswer:
    """The answer of several servers, with a report for each, in the order of the configuration."""

    servers: tuple[ServerReport, ...]

    @property
    def failed(self) -> dict[str, Failure]:
        """The servers of which all or a part is missing from the answer, each with the reason."""
        return {report.server: report.failure for report in self.servers if report.failure is not None}


@dataclass(frozen=True, slots=True)
class FederatedSearch(FederatedAnswer):
    """The fused answer, best first."""

    tools: tuple[FoundTool, ...]
    fault: RerankingError | None = None
    """Why the host's re-ranker did not determine the order."""


@dataclass(frozen=True, slots=True)
class FederatedListing(FederatedAnswer):
    """All tools of the servers that answered, in the order of the configuration and of each server's listing."""

    tools: tuple[FoundTool, ...]


@dataclass(frozen=True, slots=True)
class FederatedItems(FederatedAnswer, Generic[Item]):
    """The fused answer to a search for resources, templates or prompts, best first."""

    items: tuple[FoundItem[Item], ...]


@dataclass(frozen=True, slots=True)
class FederatedOffers(FederatedAnswer, Generic[Item]):
    """All items of one kind of the servers that answered, in the order of the configuration and of each listing."""

    items: tuple[NamedItem[Item], ...]


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """A server's identity, and what it offers."""

    report: ServerReport
    info: Implementation | None = None
    protocol_version: str | None = None
    settings: dict[str, Any] | None = None
    """As advertised, with the names used on the wire; `None` if it does not support search."""
    tools: int | None = None
    """Its number of tools: counted if it was listed, as advertised if it is searched."""
