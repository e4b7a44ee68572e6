"""The chunks of a streamed chat completion, put together.

OpenAI's SDK can do that too, but only for OpenAI's own chunks: other services repeat a name in each chunk, leave out an
index, give all calls the same one, or send arguments as an object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from tools_search_client.chat.endpoint import BROKEN_OFF, ModelError
from tools_search_client.json_values import as_list, as_object


class CompletionChunks:
    """One chat completion that is still coming."""

    def __init__(self) -> None:
        self._message: dict[str, Any] = {"role": "assistant", "content": None}
        self._calls: list[dict[str, Any]] = []
        self._places: dict[object, int] = {}
        self._stop_reason: object = None
        self._usage: object = None

    def add(self, chunk: Mapping[str, Any]) -> str:
        """Take the next chunk and return the text in it."""
        self._usage = chunk.get("usage") or self._usage
        choices = as_list(chunk.get("choices"))
        if not choices:
            return ""
        choice = as_object(choices[0])
        self._stop_reason = choice.get("finish_reason") or self._stop_reason
        delta = as_object(choice.get("delta"))
        for call in as_list(delta.get("tool_calls")):
            self._add_call(as_object(call))
        _merge(self._message, delta, left_out=("role", "tool_calls"))
        text = delta.get("content") or delta.get("refusal")
        return text if isinstance(text, str) else ""

    def whole(self) -> dict[str, Any]:
        """Return the completion as it would have come in one piece.

        Raises:
            ModelError: It did not come to an end.
        """
        if self._stop_reason is None:
            raise ModelError(BROKEN_OFF, is_passing=True)
        message = self._message | ({"tool_calls": self._calls} if self._calls else {})
        return {"choices": [{"index": 0, "message": message, "finish_reason": self._stop_reason}], "usage": self._usage}

    def _add_call(self, piece: Mapping[str, Any]) -> None:
        call = self._calls[self._place(piece)]
        call["id"] = call["id"] or piece.get("id")
        function, added = call["function"], as_object(piece.get("function"))
        function["name"] = function["name"] or added.get("name") or ""
        arguments = added.get("arguments")
        if isinstance(arguments, str) and isinstance(function["arguments"], str):
            function["arguments"] += arguments
        elif arguments:
            function["arguments"] = arguments
        _merge(function, added, left_out=("name", "arguments"))
        _merge(call, piece, left_out=("id", "index", "type", "function"))

    def _place(self, piece: Mapping[str, Any]) -> int:
        """Return which call a piece belongs to: a new one where it has an id that was not there before."""
        index, key = piece.get("index"), piece.get("id")
        place = self._places.get(index, len(self._calls) - 1 if index is None else -1)
        if place < 0 or (key and self._calls[place]["id"] not in (None, key)):
            place = len(self._calls)
            self._calls.append({"id": None, "type": "function", "function": {"name": "", "arguments": ""}})
        if index is not None:
            self._places[index] = place
        return place


def _merge(into: dict[str, Any], added: Mapping[str, Any], *, left_out: tuple[str, ...]) -> None:
    """Add a service's own members, such as reasoning: texts and lists grow, anything else is replaced."""
    for name, value in added.items():
        known = into.get(name)
        if name in left_out or value is None:
            continue
        if isinstance(known, str) and isinstance(value, str):
            into[name] = known + value
        elif isinstance(known, list) and isinstance(value, list):
            into[name] = [*cast("list[Any]", known), *cast("list[Any]", value)]
        else:
            into[name] = value
