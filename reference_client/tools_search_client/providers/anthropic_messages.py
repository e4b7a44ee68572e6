"""Anthropic's Messages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.providers.base import BaseAdapter
from tools_search_client.providers.exchange import Answered, Heard, WireCall
from tools_search_client.providers.plain_json import as_object, checked, without_nulls
from tools_search_client.providers.results import Media, media_of
from tools_search_client.providers.sent_tools import Limits, SentTool

__all__ = ["AnthropicMessages"]

_MIME_TYPES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp", "application/pdf")
_TOOL_CHANGES: Final = "mid-conversation-tool-changes-2026-07-01"
_NO_LONGER_LOADED: Final = "These tools are no longer loaded: search for them again where they are needed."
_MAX_TOKENS: Final = 8_192


class _Block(BaseModel):
    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None


class _Message(BaseModel):
    content: list[_Block]
    stop_reason: str | None = None


class AnthropicMessages(BaseAdapter):
    """One conversation by Messages: send `request()` as `client.messages.create(**request)`.

    What is kept between requests: with `deferral`, everything. A tool that a search found stands in `tools` with
    `defer_loading`, which keeps it out of what the model reads there, and is shown to it by a `tool_reference` in the
    result of the search; all messages are only appended to. Tools that the host adds between turns without a search are
    listed, which changes what comes before the messages, unless `tool_changes` is set. Without `deferral`, for models
    that have no tool references, every tool is listed, and the list only grows at its end. With `call_tool` it does not
    grow, and all of a request is kept in the next.

    Pictures and PDF files are shown, other files and recordings are told of in words, a failure of a tool is flagged.
    What the model thought is sent back as it came, with its signatures.

    Args:
        conversation: Whose tools are offered.
        model: The provider's name of the model.
        system: What the model is told before everything else.
        deferral: Whether the model takes tool references.
        tool_changes: Whether the model takes tools at a point of the input, which is in beta: the request is then for
            `client.beta.messages.create(**request)`.
        call_tool: Whether the list of tools is left as it is at first, and others are called through `call_tool`.
        max_tokens: The most that the model may answer, its thoughts included.
        options: Further members of every request, such as `thinking`, `stream` or `cache_control`.
    """

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        system: str | None = None,
        deferral: bool = True,
        tool_changes: bool = False,
        call_tool: bool = False,
        max_tokens: int = _MAX_TOKENS,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            conversation,
            model,
            limits=Limits(),
            system=system,
            call_tool=call_tool,
            tells=deferral,
            refers=True,
            options={"max_tokens": max_tokens} | dict(options or {}),
        )
        self._tool_changes = tool_changes and deferral and not call_tool
        self._order: dict[str, bool] = {}
        """Original names in the order in which they were first sent, and whether each was deferred."""

    def _user(self, texts: Sequence[str]) -> dict[str, Any]:
        return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}

    def _added(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        if not self._tool_changes:
            return None
        added = [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": one.name}} for one in tools]
        return [{"role": "system", "content": added}]

    def _without(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        if item["role"] == "system":
            added = [block for block in item["content"] if block["tool"]["name"] not in names]
            return item | {"content": added} if added else None
        return item | {"content": [_without_references(block, names) for block in item["content"]]}

    def _body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": self._transcript}
        if self._system:
            body["system"] = self._system
        sent = self._in_order(tools)
        if sent:
            body["tools"] = sent
        if self._tool_changes:
            stated = self._options.get("betas", [])
            body["betas"] = [*stated, *([_TOOL_CHANGES] if _TOOL_CHANGES not in stated else [])]
        return body

    def _in_order(self, listed: Sequence[SentTool]) -> list[dict[str, Any]]:
        """Return the list of tools: what is deferred, too, because what is referred to has to be there.

        It only grows at its end until the conversation begins its own list anew.
        """
        tools = {tool.definition.name: tool for tool in listed}
        deferred = {name: tool for name, tool in self._shown.told.items() if self._tells and name not in tools}
        order = {
            name: is_deferred
            for name, is_deferred in self._order.items()
            if name in (deferred if is_deferred else tools)
        }
        for name in [*tools, *deferred]:
            order.setdefault(name, name in deferred)
        self._order = order
        all_deferred = not tools  # which the API refuses
        every = tools | deferred
        return [_tool(every[name], is_deferred=later and not all_deferred) for name, later in order.items()]

    def _heard(self, answer: dict[str, Any]) -> Heard:
        message = checked(_Message, answer, "Anthropic Messages")
        blocks: list[dict[str, Any]] = []
        calls: list[WireCall] = []
        for number, block in enumerate(message.content):
            sent = without_nulls(answer["content"][number], "parsed_output")
            if block.type == "tool_use":
                is_cut = number == len(message.content) - 1 and message.stop_reason == "max_tokens"
                key = self._new_id(block.id, [one.id for one in calls])
                calls.append(WireCall(key, block.name or "", block.input, is_cut))
                sent |= {"id": key, "name": valid_name(block.name or ""), "input": as_object(block.input)}
            if block.type != "text" or (block.text or "").strip():  # a text without any letter is refused
                blocks.append(sent)
        text = "".join(block.text or "" for block in message.content if block.type == "text")
        items = [{"role": "assistant", "content": blocks}] if blocks else []
        return Heard(items, text, calls, message.stop_reason)

    def _results(self, answered: Sequence[Answered]) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        beside: list[dict[str, Any]] = []
        for result in answered:
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call.id}
            if result.found:
                block["content"] = [{"type": "tool_reference", "tool_name": tool.name} for tool in result.found]
                beside += [{"type": "text", "text": result.remarks}] if result.remarks.strip() else []
            else:
                shown = media_of(result.parts, _MIME_TYPES)
                block["content"] = [
                    _content(part)
                    if isinstance(part, Media) and part in shown
                    else {"type": "text", "text": part if isinstance(part, str) else part.note}
                    for part in result.parts
                ]
                if result.is_error:
                    block["is_error"] = True
            blocks.append(block)
        return [{"role": "user", "content": [*blocks, *beside]}]


def _without_references(block: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    if block["type"] != "tool_result" or block["content"][0]["type"] != "tool_reference":
        return block
    left = [part for part in block["content"] if part["tool_name"] not in names]
    return block | {"content": left or [{"type": "text", "text": _NO_LONGER_LOADED}]}


def _tool(tool: SentTool, *, is_deferred: bool) -> dict[str, Any]:
    sent: dict[str, Any] = {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
    return sent | {"defer_loading": True} if is_deferred else sent


def _content(media: Media) -> dict[str, Any]:
    kind = "image" if media.mime_type.startswith("image/") else "document"
    return {"type": kind, "source": {"type": "base64", "media_type": media.mime_type, "data": media.data}}
