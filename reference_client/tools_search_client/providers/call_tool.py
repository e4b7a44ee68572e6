"""The fallback for every provider: a list of tools that does not change, and one tool by which the others are called.

Where a provider can neither be told of more tools at a point of the input nor keep what it computed when the list
grows, the list is left as it is: what a search finds is described in its result, and is called through `call_tool`.
Only what the host adds between turns is listed, since there is no result that it could be described in.
The adapter takes such a call apart, so that a conversation, a host and its user only ever see the inner tool: its name,
its arguments, and its annotations, by which the host decides whether to ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from tools_search_client.conversation.messages import Definition
from tools_search_client.providers.plain_json import compact, copied, read_arguments

__all__ = ["CallTool"]

_NAMES: Final = ("call_tool", "call_other_tool", "call_found_tool")

_DESCRIPTION: Final = (
    "Call a tool that is not in your list of tools but was described in this conversation, for example by a search. "
    "Its arguments must be as its own schema says."
)

_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "description": "The tool's name, as it was described."},
        "arguments": {"type": "object", "description": "The tool's arguments, by its own schema."},
    },
    "required": ["name", "arguments"],
}


class CallTool:
    """The tool by which others are called.

    Args:
        taken: Names that it must not have.
    """

    def __init__(self, taken: Collection[str]) -> None:
        name = next((one for one in _NAMES if one not in taken), f"{_NAMES[-1]}_")
        self.definition: Final = Definition(name, _DESCRIPTION, _SCHEMA)

    def meant(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | str:
        """Return which tool is called and how, or what is wrong with the call, for the model to read."""
        if name != self.definition.name:
            return name, dict(arguments)
        inner = arguments.get("name")
        if not isinstance(inner, str) or not inner:
            return f"{name!r} needs the `name` of the tool to call, and its `arguments`."
        read = read_arguments(arguments.get("arguments"))
        return read if isinstance(read, str) else (inner, read)

    def described(self, definitions: Iterable[Definition]) -> str:
        """Return the definitions as a model reads them."""
        lines = [compact(copied(definition.to_json())) for definition in definitions]
        return "\n".join([f"Call these with '{self.definition.name}':", *lines]) if lines else ""
