"""A transcript and its conversation as JSON, to continue both in another process."""

from __future__ import annotations

from typing import Any, ClassVar

from mcp_types import CallToolResult

from tools_search_client.conversation.messages import Reply, ToolCall
from tools_search_client.conversation.saved import Count, SavedConversation, SavedPart, SavedText
from tools_search_client.providers.sent_tools import ProviderCall, SavedSentTools


class SavedReply(SavedPart):
    """An answer from the conversation or the host."""

    text: str
    is_error: bool
    loaded: tuple[str, ...]
    remarks: str | None

    def restored(self, call: ToolCall) -> Reply:
        """Return the answer to this call."""
        return Reply(call, self.text, self.is_error, self.loaded, self.remarks)


class SavedTurn(SavedPart):
    """A user's turn."""

    start: Count
    """Its position in the transcript."""
    notices: list[str]
    """What the model was notified of in it, and must be again if it is dropped."""


class SavedTranscript(SavedText):
    """One conversation with one model."""

    FORMAT: ClassVar = "tools-search-client/transcript"
    VERSION: ClassVar = 3

    adapter: str
    """The name of the class."""
    conversation: SavedConversation
    items: list[dict[str, Any]]
    unsent: list[str | dict[str, Any]]
    """Content for the user's next item: texts, and attachments in the provider's form."""
    calls: list[ProviderCall]
    """The calls of the last response, unless all are answered."""
    answers: dict[str, SavedReply | CallToolResult]
    """Answers by the ids of these calls; appended once all are answered."""
    used_ids: set[str]
    order: dict[str, bool]
    turns: list[SavedTurn]
    notices_to_repeat: list[str]
    tools: SavedSentTools
