"""Found tools, and the answers of one server and of many.

`ServerTools` answers with `Found`, a `Federation` with `FederatedSearch` and `FederatedListing`, which have a
`ServerReport` for each server. All of them hold tools as `FoundTool`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from mcp_ext_tools_search.types import HitMetadata
from mcp_types import Implementation, Resource, ResourceTemplate, Tool

from tools_search_client.errors import Failure, RerankingError

Mode: TypeAlias = Literal["search", "list"]
"""How a server is asked: `tools/search`, or `tools/list` with ranking on this side."""

Era: TypeAlias = Literal["modern", "legacy"]
"""Which of the two families of protocol revisions a connection speaks."""


@dataclass(frozen=True, slots=True)
class FoundTool:
    """A tool with its whole definition, the server that has it, and why it was found."""

    name: str
    """What to call it by. Among many servers it is unambiguous and valid for every model provider."""

    server: str
    """The server's name in the configuration; empty where there is only one server."""

    tool: Tool

    hit: HitMetadata = field(default_factory=HitMetadata)
    """Why its own server, or the ranking on this side, found it; all members are `None` where nobody says."""

    mode: Mode = "list"
    """How it was found."""

    weight: float = 0.0
    """The weight that the fusion gave it; comparable only within one answer."""

    own_rank: int | None = None
    """The rank before answers were merged, from 1: in its server's own, or, if listed, among all listed tools."""

    @property
    def key(self) -> str:
        """Its name at its server, by which one server's tools are told apart."""
        return self.tool.name

    def is_named(self, text: str) -> bool:
        """Whether it is called `text`, by its server or among servers."""
        return text in (self.name, self.tool.name)


@dataclass(frozen=True, slots=True)
class Found:
    """The answer to one search of one server, best first.

    An empty answer is no proof that the server has no such tool.
    """

    tools: tuple[FoundTool, ...]
    mode: Mode
    fallback: str | None = None
    """Why the tools were listed although the server advertises the search."""


@dataclass(frozen=True, slots=True)
class ServerReport:
    """How one server did."""

    server: str
    mode: Mode | None
    """How it was asked; `None` where it never got so far."""
    era: Era | None
    milliseconds: float
    """From the request to this server's answer or failure, connecting included."""
    hits: int = 0
    """How many tools it contributed, before fusion."""
    left_out: int = 0
    """How many tools its listing is without, because the protocol forbids their definitions."""
    fallback: str | None = None
    """Why it was listed although it advertises the search."""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FederatedAnswer:
    """The answer of many servers: each has its report, in the order of the configuration."""

    servers: tuple[ServerReport, ...]

    @property
    def failed(self) -> dict[str, Failure]:
        """The servers that are missing from the answer, each with the reason."""
        return {report.server: report.failure for report in self.servers if report.failure is not None}


@dataclass(frozen=True, slots=True)
class FederatedSearch(FederatedAnswer):
    """The fused answer, best first."""

    tools: tuple[FoundTool, ...]
    fault: RerankingError | None = None
    """Why the order is not that of the host's re-ranker."""


@dataclass(frozen=True, slots=True)
class FederatedListing(FederatedAnswer):
    """Every tool of every server that answered, in the order of the configuration and of each server."""

    tools: tuple[FoundTool, ...]


Item = TypeVar("Item")


def key_of(item: Any) -> str:
    """Return what a resource, a template or a prompt is asked for by."""
    match item:
        case Resource():
            return str(item.uri)
        case ResourceTemplate():
            return item.uri_template
        case _:
            return str(item.name)


@dataclass(frozen=True, slots=True)
class NamedItem(Generic[Item]):
    """A prompt, a resource or a template of resources, and the server that has it."""

    name: str
    """To show or to type: unambiguous among the servers, as the name of a `FoundTool` is."""

    server: str
    item: Item
    """As the server has it; it is asked for by the server's own name or URI."""


@dataclass(frozen=True, slots=True)
class FoundItem(NamedItem[Item]):
    """One that a search has found, and why."""

    hit: HitMetadata = field(default_factory=HitMetadata)
    """Why its own server, or the ranking on this side, found it; `matched` may name `contents`."""

    mode: Mode = "list"
    """How it was found."""

    weight: float = 0.0
    """The weight that the fusion gave it; comparable only within one answer."""

    own_rank: int | None = None
    """The rank before answers were merged, from 1: in its server's own, or, if listed, among all that were listed."""

    @property
    def key(self) -> str:
        """What it is asked for by: its URI, the template of its URI, or its name at its server."""
        return key_of(self.item)

    def is_named(self, text: str) -> bool:
        """Whether it is asked for by `text`, or known by it among servers."""
        return text in (self.name, self.key)


@dataclass(frozen=True, slots=True)
class FederatedItems(FederatedAnswer, Generic[Item]):
    """The fused answer of a search for resources, templates or prompts, best first."""

    items: tuple[FoundItem[Item], ...]


@dataclass(frozen=True, slots=True)
class FederatedOffers(FederatedAnswer, Generic[Item]):
    """All that the servers that answered offer of one kind, in the order of the configuration and of each server."""

    items: tuple[NamedItem[Item], ...]


@dataclass(frozen=True, slots=True)
class ServerDescription:
    """What one server is and offers."""

    report: ServerReport
    info: Implementation | None = None
    protocol_version: str | None = None
    settings: dict[str, Any] | None = None
    """As advertised, under the names of the wire; `None` where it offers no search."""
    tools: int | None = None
    """How many tools it has: counted where it was listed, as advertised where it is searched."""
