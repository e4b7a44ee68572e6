"""A transcript and its conversation as JSON, to continue both in another process."""

from __future__ import annotations

from typing import Any, ClassVar

from mcp_types import CallToolResult

from tools_search_client.conversation.messages import Reply, ToolCall
from tools_search_client.conversation.saved import Count, SavedConversation, SavedPart, SavedText
from tools_search_client.providers.sent_tools import ProviderCall, SavedSentTools


class SavedCall(SavedPart):
    """An open call: as the provider wrote it, and under the conversation's names."""

    id: str
    name: str
    arguments: Any
    is_cut: bool
    original_name: str
    original_arguments: dict[str, Any]
    problem: str | None

    @classmethod
    def of(cls, sent: ProviderCall, call: ToolCall) -> SavedCall:
        """Return the saved form of both forms of a call."""
        return cls(
            id=sent.id,
            name=sent.name,
            arguments=sent.arguments,
            is_cut=sent.is_cut,
            original_name=call.name,
            original_arguments=dict(call.arguments),
            problem=call.problem,
        )

    def restored(self) -> tuple[ProviderCall, ToolCall]:
        """Return both forms of the call."""
        sent = ProviderCall(self.id, self.name, self.arguments, self.is_cut)
        return sent, ToolCall(self.original_name, self.original_arguments, self.id, self.problem)


class SavedReply(SavedPart):
    """An answer from the conversation or the host."""

    text: str
    is_error: bool
    loaded: tuple[str, ...]
    remarks: str | None

    def restored(self, call: ToolCall) -> Reply:
        """Return the answer to this call."""
        return Reply(call, self.text, self.is_error, self.loaded, self.remarks)


class SavedResult(SavedPart):
    """A server's answer."""

    result: CallToolResult

    def restored(self, _call: ToolCall) -> CallToolResult:
        """Return the answer."""
        return self.result


class SavedTurn(SavedPart):
    """A user's turn."""

    start: Count
    """Its position in the transcript."""
    notices: list[str]
    """What the model was notified of in it, and must be again if it is dropped."""


class SavedTranscript(SavedText):
    """One conversation with one model."""

    FORMAT: ClassVar = "tools-search-client/transcript"
    VERSION: ClassVar = 2

    adapter: str
    """The name of the class."""
    conversation: SavedConversation
    items: list[dict[str, Any]]
    unsent: list[str | dict[str, Any]]
    """Content for the user's next item: texts, and attachments in the provider's form."""
    calls: list[SavedCall]
    answers: dict[str, SavedReply | SavedResult]
    """Answers by the ids of open calls; appended once all calls are answered."""
    used_ids: set[str]
    special_ids: set[str]
    order: dict[str, bool]
    turns: list[SavedTurn]
    notices_to_repeat: list[str]
    tools: SavedSentTools


def saved_outcome(outcome: Reply | CallToolResult) -> SavedReply | SavedResult:
    """Return the saved form of a call's outcome."""
    if isinstance(outcome, CallToolResult):
        return SavedResult(result=outcome)
    return SavedReply.model_validate(outcome)
