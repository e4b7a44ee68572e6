"""Every sentence that a model reads from a conversation, in one place.

Text of servers is put on one line and shortened, so that a description cannot pass for an answer of the host.

Notices and the remarks of a search may reach the model in the user's role, so they are made of words of this module, of
numbers, of the names of configured servers, and of names of tools in the characters that names may have.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, cast

from mcp_types import ToolAnnotations

from tools_search_client.conversation.messages import Definition, valid_name
from tools_search_client.errors import ServerError, ToolsSearchClientError
from tools_search_client.found import FoundTool
from tools_search_client.text import printable, shorten

Detail = Literal["minimal", "brief", "full"]
"""How a found tool is described: its name; its purpose and parameters; its whole definition."""

DETAILS: Final[tuple[Detail, ...]] = ("minimal", "brief", "full")

SYSTEM_PROMPT_LINE: Final = (
    "You can use more tools than you see. When none of those that you have fits, look for one with `search_tools` "
    "before you say that something cannot be done."
)
"""An optional line for the system prompt of a host, which makes models search more readily."""

SEARCH_DESCRIPTION: Final = (
    "Search for and load tool definitions from available MCP servers. "
    "Use this before calling a tool that isn't currently loaded. "
    "Provide at least one of query, server_name or tool_names. "
    "A tool that was loaded stays loaded: call it directly, and do not search for it again."
)

SEARCH_NAMES: Final = ("search_tools", "search_more_tools", "search_all_tools")
"""What the model calls `search_tools` by: the first that no tool of a server has."""

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
            "description": "How much to say of each tool: its name, its purpose and parameters (unless set), "
            "or its whole definition.",
        },
    },
}

NOT_ALLOWED: Final = "The user does not allow this call."

_MANIFEST_HEADING: Final = "Available tool servers (use this tool to load their definitions):"

_BRIEF_CHARS: Final = 300
_FULL_CHARS: Final = 8_000
_MOST_PARAMETERS: Final = 25
_QUERY_CHARS: Final = 100
_NAME_CHARS: Final = 80
_MOST_NAMES: Final = 20
_MOST_SERVERS: Final = 100
_DEEPEST_CHOICE: Final = 3


def search_definition(name: str, manifest: str) -> Definition:
    """Return the definition of `search_tools`, with the manifest of what it can find."""
    description = f"{SEARCH_DESCRIPTION}\n\n<manifest>\n{_MANIFEST_HEADING}\n\n{manifest}\n</manifest>"
    annotations = ToolAnnotations(read_only_hint=True, open_world_hint=False)
    return Definition(name, description, _SEARCH_SCHEMA, annotations)


def changed_servers(search_tool: str, changes: Mapping[str, Sequence[str]]) -> str:
    """Return the notice that other tools can be found than the description of `search_tools` says.

    Args:
        search_tool: Its name.
        changes: The names of servers by kind of change.
    """
    said = "; ".join(f"{what}: {listing_of(servers)}" for what, servers in changes.items() if servers)
    return f"What '{search_tool}' can find has changed: {said}."


def changed_tools(names: Iterable[str], search_tool: str) -> str:
    """Return the notice that loaded tools have other definitions by now, and where to read those."""
    return (
        f"The definitions of these tools have changed since you were given them: {names_of_tools(names)}. "
        f"Before you call one of them, read its new definition: name it in tool_names of '{search_tool}'."
    )


def gone(names: Iterable[str]) -> str:
    """Return the notice that loaded tools are no longer offered."""
    return f"These tools are no longer offered; do not call them: {names_of_tools(names)}."


def not_a_tool(name: str, closest: Sequence[str], search_tool: str | None) -> str:
    """Return the reply to a call of a name that no tool has."""
    near = f" Closest matches: {listing_of(closest)}." if closest else ""
    advice = f" Use the '{search_tool}' tool to find what there is." if search_tool else ""
    return f"Error: No tool is named '{_one(name)}'.{near}{advice}"


def described(tool: FoundTool, detail: Detail) -> str:
    """Return the description of one tool that was found."""
    heading = f"- {_one(tool.server)}:{_one(tool.tool.name)}" if tool.server else f"- {_one(tool.tool.name)}"
    if detail == "minimal":
        return heading
    text = tool.tool.description or tool.tool.title or ""
    if detail == "brief":
        purpose = shorten(text.strip().partition("\n\n")[0], _BRIEF_CHARS) or "(no description)"
        return f"{heading}\n  {purpose}\n  Parameters: {_parameters(tool.tool.input_schema)}"
    schema = _cut(printable(json.dumps(tool.tool.input_schema, ensure_ascii=False, separators=(",", ":"))))
    purpose = _cut(printable(text).strip()).replace("\n", "\n  ") or "(no description)"
    return f"{heading}\n  {purpose}\n  Parameters (JSON Schema): {schema}"


def listing_of(names: Iterable[str], most: int = _MOST_NAMES) -> str:
    """Return names on one line, the first of them where there are many."""
    shown = [_one(name) for name in names]
    more = f", ... and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more


def names_of_tools(names: Iterable[str], most: int = _MOST_NAMES) -> str:
    """Return full names of tools on one line, each in the characters that such a name may have."""
    return listing_of(map(valid_name, names), most)


def nothing_found(query: str | None, server: str | None, *, repeats_query: bool = True) -> str:
    """Return the text for a search that no tool fits, with what to do about it."""
    matching = f" matching '{shorten(query, _QUERY_CHARS)}'" if query and repeats_query else ""
    where = f" in server '{_one(server)}'" if server else ""
    advice = "Try a different query: other words for what the tool does, or fewer of them." if query else ""
    return f"No tools found{matching}{where}. {advice}".strip()


def no_such_names(count: int, closest: Sequence[str], server: str | None = None) -> str:
    """Return the text on names that no tool has, without repeating them."""
    where = f" in server '{_one(server)}'" if server else ""
    near = f" Closest matches: {names_of_tools(closest)}." if closest else ""
    return f"Not found{where}: {count} of the names that were asked for.{near}"


def too_many_tools(server: str, count: int) -> str:
    """Return the text on a server that is too large to be loaded as a whole."""
    return (
        f"Error: Server '{server}' has {count} tools, too many to load at once. "
        "Add a query to find the best of them, or name the ones to load with tool_names."
    )


def now_loaded(names: Sequence[str]) -> str:
    """Return the text on tools that were loaded; nothing where none was."""
    shown = names_of_tools(names, most=len(names))
    if len(names) == 1:
        return f"This tool is now loaded and available to call.\nIts name to call: {shown}"
    return f"These tools are now loaded and available to call.\nTheir names to call: {shown}" if names else ""


def already_loaded(names: Sequence[str]) -> str:
    """Return the text on tools that were found and had been loaded before; nothing where none was."""
    advice = "Call what fits directly, without searching for it again."
    return f"Already loaded: {names_of_tools(names)}. {advice}" if names else ""


def unreachable(failures: Mapping[str, str], *, with_reasons: bool = True) -> str:
    """Return the text on servers that could not be asked, whose reasons may hold their words; nothing for none."""
    if not failures:
        return ""
    if not with_reasons:
        return f"Not reachable at present: {listing_of(failures)}."
    reasons = (f"{_one(server)} ({shorten(reason, _BRIEF_CHARS)})" for server, reason in failures.items())
    return f"Not reachable at present: {'; '.join(reasons)}."


def unknown_server(name: str | None, valid: Sequence[str]) -> str:
    """Return the text on a server that does not exist, with its name unless that is not to be repeated."""
    named = "" if name is None else f" '{_one(name)}'"
    return f"Error: Unknown server{named}. Valid servers: {listing_of(valid, _MOST_SERVERS) or 'none'}."


def unknown_tool(names: Sequence[str], closest: Sequence[str], server: str | None = None) -> str:
    """Return the text on names that no tool has."""
    where = f" in server '{_one(server)}'" if server else ""
    near = f" Closest matches: {listing_of(closest)}." if closest else ""
    return f"Not found{where}: {listing_of(names)}.{near}"


def not_loaded_yet(name: str, search_tool: str | None) -> str:
    """Return the reply to a call of a deferred tool."""
    if search_tool is None:
        return f"Error: Tool '{_one(name)}' is not loaded in this conversation."
    return (
        f"Error: Tool '{_one(name)}' is not yet loaded. "
        f"Use the '{search_tool}' tool to discover and load it first, then call it again."
    )


def vanished(name: str, server: str, search_tool: str | None) -> str:
    """Return the reply to a call of a tool that its server no longer offers."""
    advice = f" Use the '{search_tool}' tool to find another one." if search_tool else ""
    return f"Error: {_server(server)} no longer offers the tool '{_one(name)}'.{advice}"


def failed_host_tool(name: str) -> str:
    """Return the text on a synthetic tool that raised; what it raised is for the host alone."""
    return f"Error: The tool '{_one(name)}' failed. Go on without it, or try once more with other arguments."


def failed_call(name: str, server: str, error: ToolsSearchClientError) -> str:
    """Return the text on a call that did not come to a result."""
    if isinstance(error, ServerError):
        return f"Error: {_server(server)} failed to call '{_one(name)}': {shorten(str(error), _BRIEF_CHARS)}"
    return f"Error: {shorten(str(error), _BRIEF_CHARS)}"


def _parameters(schema: Mapping[str, Any]) -> str:
    stated = schema.get("properties")
    if not isinstance(stated, dict) or not stated:
        return "none"
    required: object = schema.get("required")
    needed = cast("list[object]", required) if isinstance(required, list) else []
    properties = cast("dict[str, Any]", stated)
    shown = [
        f"{_one(name)} ({_type(member)}{', required' if name in needed else ''})" for name, member in properties.items()
    ]
    more = f", ... and {len(shown) - _MOST_PARAMETERS} more" if len(shown) > _MOST_PARAMETERS else ""
    return ", ".join(shown[:_MOST_PARAMETERS]) + more


def _type(member: object, depth: int = 0) -> str:
    """Return the type of a parameter as far as its schema states one in plain terms."""
    if not isinstance(member, dict) or depth > _DEEPEST_CHOICE:
        return "any"
    stated = cast("dict[str, Any]", member)
    kind: object = stated.get("type")
    if isinstance(kind, str):
        return _one(kind)
    if isinstance(kind, list):
        return "|".join(_one(str(one)) for one in cast("list[object]", kind))
    choices: object = stated.get("anyOf") or stated.get("oneOf")
    if isinstance(choices, list):
        return "|".join(dict.fromkeys(_type(choice, depth + 1) for choice in cast("list[object]", choices)))
    return "any"


def _cut(text: str) -> str:
    return text if len(text) <= _FULL_CHARS else text[: _FULL_CHARS - 1] + "…"


def _server(name: str) -> str:
    return f"Server '{_one(name)}'" if name else "The server"


def _one(text: str) -> str:
    return shorten(text, _NAME_CHARS)
