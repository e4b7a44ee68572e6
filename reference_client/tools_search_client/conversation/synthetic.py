"""Tools that the host answers itself: a model sees and calls them like any other, and no server hears of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from tools_search_client.conversation.definitions import Definition
from tools_search_client.federation.reports import FederatedTool

__all__ = ["SyntheticTool", "SyntheticToolResult"]


@dataclass(frozen=True, slots=True)
class SyntheticToolResult:
    """What a synthetic tool answers."""

    content: str
    """For the model to read."""

    newly_loaded_tools: tuple[FederatedTool, ...] = ()
    """Tools that the model can call from the next request on; those that it can call already do no harm."""

    is_error: bool = False

    remarks: str | None = None
    """What `content` says besides describing the loaded tools, for providers whose results hold references alone.

    There it stands in the user's role, so nothing of a server may be in it. Without it the tools are listed instead of
    referred to, and `content` is the result.
    """


class SyntheticTool(Protocol):
    """A tool that the host answers itself; `search_tools` is one, and a host may register more."""

    @property
    def name(self) -> str:
        """What the model calls it by; it goes before a server's tool of the same name."""
        ...

    @property
    def definition(self) -> Definition:
        """What the model is shown. It is read once for each list of tools that is begun, and then sent unchanged."""
        ...

    async def execute(self, arguments: Mapping[str, Any], /) -> SyntheticToolResult:
        """Answer one call. Mistakes of the model are results with `is_error`, not exceptions.

        What it raises costs no turn: the model is told that the tool failed, and the host is given it in `Reply.fault`.
        """
        ...
