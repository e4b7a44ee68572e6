"""How one server is searched, listed and called: the options of `ServerTools`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, Final

from mcp_ext_tools_search.ranking import Ranker
from pydantic import Field
from tools_search_ranking import default_ranker

from tools_search_client.errors import require_functions, require_times

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


SECONDS: Final = Field(gt=0, description="a number of seconds above 0")
"""How a configuration states a time."""

PAUSE: Final = Field(ge=0, description="a number of seconds from 0 on")
"""How it states one that can be over at once."""


def stated(options: DataclassInstance) -> dict[str, Any]:
    """Return the options that are set, that is, not `None`."""
    of = {each.name: getattr(options, each.name) for each in fields(options)}
    return {name: value for name, value in of.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerTimes:
    """The times of `DiscoveryOptions`, with their defaults. The annotations apply to a configuration."""

    listing_ttl: Annotated[float, PAUSE] = 30.0
    request_timeout: Annotated[float, SECONDS] = 30.0

    call_timeout: Annotated[float, SECONDS] = 120.0
    """As long as a person waits. A gateway times out earlier, so that it can report which server did not answer."""

    retry_after: Annotated[float, PAUSE] = 1.0
    busy_patience: Annotated[float, PAUSE] = 2.0
    search_again_after: Annotated[float, PAUSE] = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscoveryOptions:
    """Search options for one server. Options left out default to the configuration, then to the built-in defaults."""

    ranker: Ranker | None = None
    """Ranks listed tools locally."""

    listing_ttl: float | None = None
    """How many seconds to cache a listing if the server does not say; 0 means until the server announces a change."""

    request_timeout: float | None = None
    """Timeout in seconds for one search or listing, including all pages; `math.inf` means no limit."""

    call_timeout: float | None = None
    """Timeout in seconds for one tool call. Each progress report restarts it, up to ten times this in total; `math.inf`
    means no limit.
    """

    retry_after: float | None = None
    """Seconds to wait after a failed search before the next one; doubled after each consecutive failure."""

    busy_patience: float | None = None
    """How many seconds a search waits for a busy server before it fails with that error."""

    search_again_after: float | None = None
    """How many seconds to list a server that refuses searches or keeps failing."""

    authorization: Callable[[], str] | None = None
    """Returns the name of the current authorization. Answers that a server marks private are only reused for it."""

    def __post_init__(self) -> None:
        require_functions(self, "ranker", "authorization")
        require_times(self, "request_timeout", "call_timeout")
        require_times(self, "listing_ttl", "retry_after", "busy_patience", "search_again_after", or_zero=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompleteDiscoveryOptions(ServerTimes):
    """`DiscoveryOptions` with every option set."""

    ranker: Ranker = field(default_factory=default_ranker)
    authorization: Callable[[], str] = str
