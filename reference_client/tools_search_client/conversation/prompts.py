"""The texts that a conversation shows the model, except for search answers, which are in `search_tool`.

Servers' text is shortened and put on one line, so that a description cannot pass for the host's answer.

Notices and search remarks can reach the model in the user's role. They contain only fixed text, numbers, names of
configured servers, and tool names made of valid characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, get_args

from mcp_types import ToolAnnotations

from tools_search_client.conversation.messages import Definition, valid_name
from tools_search_client.errors import ServerError, ToolsSearchClientError
from tools_search_client.text import shorten

Detail = Literal["sentence", "minimal", "brief", "full"]
"""How to describe a found tool: one sentence; its name; its purpose and parameters; its full definition."""

DETAILS: Final[tuple[Detail, ...]] = ("minimal", "brief", "full")
"""What the model can choose. `sentence` is used if the model does not choose and is sent the definition too."""

SYSTEM_PROMPT_LINE: Final = (
    "You can use more tools than you see. When none of those that you have fits, look for one with `search_tools` "
    "before you say that something cannot be done."
)
"""An optional line for a host's system prompt, which makes models search more readily."""

SEARCH_DESCRIPTION: Final = (
    "Search for and load tool definitions from available MCP servers. "
    "Use this before calling a tool that isn't currently loaded. "
    "Provide at least one of query, server_name or tool_names. "
    "A tool that was loaded stays loaded: call it directly, and do not search for it again."
)

SearchName = Literal["search_tools", "search_more_tools", "search_all_tools"]

SEARCH_NAMES: Final[tuple[SearchName, ...]] = get_args(SearchName)
"""Names for `search_tools`, in order of preference; the first that no server's tool has is used."""

_SEARCH_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Natural language capability search across all deferred tools "
            "(e.g. 'create a calendar event'). Uses keyword matching.",
        },
        "server_name": {
            "type": "string",
            "description": "Filter results to a specific server by name; alone, it loads all tools of that server.",
        },
        "tool_names": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Load specific tools by exact name. "
            "Most token-efficient when you know the tool name from the manifest.",
        },
        "detail": {
            "type": "string",
            "enum": list(DETAILS),
            "description": "How much to say of each tool: its name, its purpose and parameters, "
            "or its whole definition.",
        },
    },
}

NOT_ALLOWED: Final = "The user does not allow this call."

INTERRUPTED: Final = (
    "Error: This call was interrupted, and whether it had its effect is unknown. Find out before you repeat it."
)

_MANIFEST_HEADING: Final = "Available tool servers (use this tool to load their definitions):"

BRIEF_CHARS: Final = 300
_NAME_CHARS: Final = 80
_MAX_NAMES: Final = 20


def search_definition(name: str, manifest: str) -> Definition:
    """Return the definition of `search_tools`, including the manifest."""
    description = f"{SEARCH_DESCRIPTION}\n\n<manifest>\n{_MANIFEST_HEADING}\n\n{manifest}\n</manifest>"
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return Definition(name, description, _SEARCH_SCHEMA, annotations)


def changed_servers(search_tool: str, changes: Mapping[str, Sequence[str]]) -> str:
    """Return the notice that the searchable tools differ from the `search_tools` description."""
    said = "; ".join(f"{what}: {listing_of(servers)}" for what, servers in changes.items() if servers)
    return f"What '{search_tool}' can find has changed: {said}."


def changed_tools(names: Iterable[str], search_tool: str) -> str:
    """Return the notice that loaded tools have new definitions, and how to read them."""
    return (
        f"The definitions of these tools have changed since you were given them: {names_of_tools(names)}. "
        f"Before you call one of them, read its new definition: name it in tool_names of '{search_tool}'."
    )


def gone(names: Iterable[str]) -> str:
    """Return the notice that loaded tools are no longer offered."""
    return f"These tools are no longer offered; do not call them: {names_of_tools(names)}."


def offered_again(names: Iterable[str]) -> str:
    """Return the notice that loaded tools are offered again."""
    return f"These tools are offered again: {names_of_tools(names)}."


def not_a_tool(name: str, closest: Sequence[str], search_tool: str | None) -> str:
    """Return the reply to a call of an unknown name."""
    near = f" Closest matches: {listing_of(closest)}." if closest else ""
    advice = f" Use the '{search_tool}' tool to find what there is." if search_tool else ""
    return f"Error: No tool is named '{one_name(name)}'.{near}{advice}"


def listing_of(names: Iterable[str], most: int = _MAX_NAMES) -> str:
    """Return names on one line, at most `most` of them."""
    shown = [one_name(name) for name in names]
    more = f", ... and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def names_of_tools(names: Iterable[str], most: int = _MAX_NAMES) -> str:
    """Return full tool names on one line, each with valid characters only."""
    return listing_of(map(valid_name, names), most)


def not_loaded_yet(name: str, search_tool: str | None) -> str:
    """Return the reply to a call of a deferred tool."""
    if search_tool is None:
        return f"Error: Tool '{one_name(name)}' is not loaded in this conversation."
    return (
        f"Error: Tool '{one_name(name)}' is not yet loaded. "
        f"Use the '{search_tool}' tool to discover and load it first, then call it again."
    )


def vanished(name: str, server: str, search_tool: str | None) -> str:
    """Return the reply to a call of a tool that its server no longer offers."""
    advice = f" Use the '{search_tool}' tool to find another one." if search_tool else ""
    return f"Error: {_server(server)} no longer offers the tool '{one_name(name)}'.{advice}"


def failed_host_tool(name: str) -> str:
    """Return the text for a synthetic tool that raised; only the host sees the exception."""
    return f"Error: The tool '{one_name(name)}' failed. Go on without it, or try once more with other arguments."


def failed_call(name: str, server: str, error: ToolsSearchClientError) -> str:
    """Return the text for a call that failed without a result."""
    if isinstance(error, ServerError):
        return f"Error: {_server(server)} failed to call '{one_name(name)}': {shorten(str(error), BRIEF_CHARS)}"
    return f"Error: {shorten(str(error), BRIEF_CHARS)}"


def unconfirmed(name: str, server: str) -> str:
    """Return the reply to a call of a tool whose server cannot confirm that it still offers the tool."""
    return f"Error: {_server(server)} is not reachable at present, so '{one_name(name)}' cannot be called."


def _server(name: str) -> str:
    return f"Server '{one_name(name)}'" if name else "The server"


def one_name(text: str) -> str:
    """Return a name from a server or a model, shortened and on one line."""
    return shorten(text, _NAME_CHARS)
