"""Adapter for Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel
from tools_search_hosts.json_values import as_list, as_object

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import valid_name
from tools_search_client.json_values import checked, without_nulls
from tools_search_client.providers.adapter import Adapter, AnsweredCall, ProviderMessage
from tools_search_client.providers.results import Attachment
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool

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


class AnthropicMessages(Adapter):
    """A conversation through Messages: send `request()` as `client.messages.create(**request)`.

    Prompt caching: with `deferral`, everything stays cached. A found tool is listed in `tools` with `defer_loading`,
    which hides it from the model there, and is shown by a `tool_reference` in the search result; messages are only
    appended. Tools that the host adds between turns without a search are listed, which changes the part before the
    messages, unless `tool_changes` is set. Without `deferral`, for models without tool references, every tool is
    listed, and the list grows at its end.

    The model sees pictures and PDF files. Other files and recordings are mentioned in text, and tool failures are
    flagged. The model's thinking is sent back unchanged, with signatures.

    Args:
        deferral: Whether the model supports tool references.
        tool_changes: Whether the model accepts tools at a point in the input, a beta feature: send the request with
            `client.beta.messages.create(**request)`.
        max_tokens: Maximum tokens in the model's answer, including thinking.
        options: Additional members for every request, such as `thinking`, `stream` or `cache_control`.
    """

    _prompt_counts = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    _completion_counts = ("output_tokens",)

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
            limits=ProviderLimits(),
            system=system,
            call_tool=call_tool,
            in_transcript=deferral,
            by_reference=True,
            options={"max_tokens": max_tokens} | dict(options or {}),
        )
        self._tool_changes = tool_changes and self._in_transcript

    def _user_item(self, parts: Sequence[str | dict[str, Any]]) -> dict[str, Any]:
        return {"role": "user", "content": [_text_block(part) if isinstance(part, str) else part for part in parts]}

    def _attachment(self, attachment: Attachment) -> dict[str, Any]:
        kind = attachment.mime_type
        if attachment.data is not None and kind == "text/plain":
            text = attachment.data.decode(errors="replace")
            return {"type": "document", "source": {"type": "text", "media_type": kind, "data": text}}
        if kind not in _MIME_TYPES:
            raise attachment.refused("Messages", "JPEG, PNG, GIF, WebP, PDF, or the bytes of plain text")
        source = {"type": "base64", "media_type": kind, "data": attachment.base64}
        if attachment.url is not None:
            source = {"type": "url", "url": attachment.url}
        return {"type": "image" if kind.startswith("image/") else "document", "source": source}

    def _ids(self, item: dict[str, Any]) -> tuple[list[str], list[str]]:
        blocks: list[dict[str, Any]] = as_list(item["content"])
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        return calls, [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]

    def _additions(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        if not self._tool_changes:
            return None
        added = [{"type": "tool_addition", "tool": {"type": "tool_reference", "name": tool.name}} for tool in tools]
        return [{"role": "system", "content": added}]

    def _without_tools(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        if item["role"] == "system":
            added = [block for block in item["content"] if block["tool"]["name"] not in names]
            return item | {"content": added} if added else None
        if isinstance(item["content"], str):
            return item
        return item | {"content": [_without_references(block, names) for block in item["content"]]}

    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        body: dict[str, Any] = {"model": self._model, "messages": self._transcript}
        if self._system:
            body["system"] = self._system
        if sent := self._in_order(tools):
            body["tools"] = sent
        if self._tool_changes:
            body["betas"] = list(dict.fromkeys([*self._options.get("betas", []), _TOOL_CHANGES]))
        return body

    def _in_order(self, listed: Sequence[SentTool]) -> list[dict[str, Any]]:
        """Return the tool list, including deferred tools, because references need them there.

        It only grows at its end until the conversation starts a new list.
        """
        tools = {tool.original_name: tool for tool in listed}
        shown = self._tools.shown if self._in_transcript else {}
        every = shown | tools
        order = {name: later for name, later in self._order.items() if name in every and later == (name not in tools)}
        self._order = order | {name: name not in tools for name in [*tools, *shown] if name not in order}
        sent: list[dict[str, Any]] = []
        for name, later in self._order.items():
            tool = every[name]
            sent.append({"name": tool.name, "description": tool.description, "input_schema": tool.schema})
            if later and tools:  # the API rejects a list with only deferred tools
                sent[-1]["defer_loading"] = True
        return sent

    def _parse(self, response: dict[str, Any]) -> ProviderMessage:
        message = checked(_Message, response, "Anthropic Messages")
        blocks: list[dict[str, Any]] = []
        calls: list[ProviderCall] = []
        for block, sent in zip(message.content, response["content"], strict=True):
            echo = without_nulls(sent, "parsed_output")
            if block.type == "tool_use":
                is_cut = block is message.content[-1] and message.stop_reason == "max_tokens"
                calls.append(ProviderCall(self._new_id(block.id), block.name or "", block.input, is_cut))
                echo |= {"id": calls[-1].id, "name": valid_name(block.name or ""), "input": as_object(block.input)}
            if block.type != "text" or (block.text or "").strip():  # the API rejects blank text
                blocks.append(echo)
        text = "".join(block.text or "" for block in message.content if block.type == "text")
        items = [{"role": "assistant", "content": blocks}] if blocks else []
        return ProviderMessage(items, text, calls, message.stop_reason)

    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        blocks: list[dict[str, Any]] = []
        remarks: list[dict[str, Any]] = []
        for result in answered:
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": result.call.id}
            if result.found:
                block["content"] = [{"type": "tool_reference", "tool_name": tool.name} for tool in result.found]
                remarks += [_text_block(result.remarks)] if result.remarks.strip() else []
            else:
                block["content"] = self._user_item(self._with_media(result.parts, _MIME_TYPES))["content"]
                if result.is_error:
                    block["is_error"] = True
            blocks.append(block)
        return [{"role": "user", "content": [*blocks, *remarks]}]


def _without_references(block: dict[str, Any], names: Collection[str]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = as_list(block.get("content")) if block["type"] == "tool_result" else []
    if not parts or parts[0]["type"] != "tool_reference":
        return block
    left = [part for part in parts if part["tool_name"] not in names]
    return block | {"content": left or [_text_block(_NO_LONGER_LOADED)]}


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
