"""What a model asks of `search_tools`, read with patience for how models write."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from tools_search_client.conversation import prompts

__all__ = ["SearchRequest", "SearchRequestError", "read_request"]

_MOST_NAMES: Final = 100


class SearchRequestError(ValueError):
    """A search that cannot be answered; the message is for the model.

    Args:
        message: What is wrong.
        remarks: The same without words of the model; the message unless given.
    """

    def __init__(self, message: str, remarks: str | None = None) -> None:
        super().__init__(message)
        self.remarks = message if remarks is None else remarks


@dataclass(frozen=True, slots=True)
class SearchRequest:
    """The arguments of one call; at least one of the first three says something."""

    query: str | None
    server: str | None
    names: tuple[str, ...]
    detail: prompts.Detail


def read_request(arguments: Mapping[str, Any], servers: Sequence[str]) -> SearchRequest:
    """Return what is asked for; what is empty or null counts as left out.

    Args:
        arguments: As the model wrote them.
        servers: The names of those that there are.

    Raises:
        SearchRequestError: It cannot be answered.
    """
    query, server = _text(arguments, "query"), _text(arguments, "server_name")
    names = _names(arguments.get("tool_names"))
    detail = _text(arguments, "detail") or "brief"
    if detail not in prompts.DETAILS:
        raise SearchRequestError(f"Error: detail must be one of {', '.join(prompts.DETAILS)}.")
    if query is None and server is None and not names:
        raise SearchRequestError("Error: Provide at least one of: query, server_name, or tool_names.")
    if len(names) > _MOST_NAMES:
        raise SearchRequestError(f"Error: tool_names has {len(names)} names; give at most {_MOST_NAMES} at once.")
    return SearchRequest(query, server and _server(server, servers), names, detail)


def _text(arguments: Mapping[str, Any], member: str) -> str | None:
    value = arguments.get(member)
    if value is not None and not isinstance(value, str):
        raise SearchRequestError(f"Error: {member} must be a text.")
    return (value or "").strip() or None


def _names(value: Any) -> tuple[str, ...]:
    """Return the names, also where a model wrote the list as a text."""
    if isinstance(value, str):
        value = _list_in(value)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(name, str) for name in cast("list[object]", value)):
        raise SearchRequestError("Error: tool_names must be a list of names.")
    names = (name.strip() for name in cast("list[str]", value))
    return tuple(dict.fromkeys(filter(None, names)))


def _list_in(text: str) -> object:
    if text.lstrip().startswith("["):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text.strip().strip("[]").split(",")
    return text.split(",")


def _server(name: str, servers: Sequence[str]) -> str:
    """Return the server that is meant, whatever the case of its name."""
    meant = [name] if name in servers else [server for server in servers if server.casefold() == name.casefold()]
    if len(meant) != 1:
        raise SearchRequestError(prompts.unknown_server(name, servers), prompts.unknown_server(None, servers))
    return meant[0]
