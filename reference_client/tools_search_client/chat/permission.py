"""Which tools are called without asking: those that the operator or the user allows, whatever a server says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcp_types import Tool

from tools_search_client.chat.surface import Consent
from tools_search_client.conversation.messages import Forward
from tools_search_client.found import FoundTool

__all__ = ["Permissions"]


class Permissions:
    """What the user allows, for as long as the program runs.

    Args:
        allowed: Returns whether the operator allows a tool.
        everything: Whether nobody is ever asked.
    """

    def __init__(self, allowed: Callable[[FoundTool], bool] | None = None, *, everything: bool = False) -> None:
        self._allowed = allowed
        self._everything = everything
        self._always: dict[str, tuple[Any, ...]] = {}

    async def allows(self, forward: Forward, ask: Callable[[Forward], Awaitable[Consent]]) -> bool:
        """Tell whether a call may be made; `ask` is called where that is not known."""
        name, tool = forward.tool.name, forward.tool.tool
        if self._everything or (self._allowed is not None and self._allowed(forward.tool)):
            return True
        if self._always.get(name) == _agreed_to(tool):
            return True
        consent = await ask(forward)
        if consent == "always":
            self._always[name] = _agreed_to(tool)
        return consent != "no"


def _agreed_to(tool: Tool) -> tuple[Any, ...]:
    """Return what a user has seen of a tool: another description or schema is another tool."""
    return (tool.description, tool.input_schema, tool.annotations)
