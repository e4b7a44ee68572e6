"""`Adapter`: a conversation with a model in its provider's format, so that a host's loop is the same for all.

The transcript is a list of items in the provider's form. It only grows at its end, unless the host shortens it
(`drop_turn`, `compact`, `replace_transcript`), or tools in it are no longer offered and are removed. The user's role
contains only what the user wrote and this project's fixed texts, never a server's text. Results are appended together,
in the order of their calls, once every call is answered, because all providers require that.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias, cast

from mcp_types import CallToolResult
from tools_search_hosts.json_values import as_object
from tools_search_hosts.toolsets import Toolset

from tools_search_client.conversation.conversation import Conversation
from tools_search_client.conversation.messages import Compaction, Reply, ToolCall, TurnStart, valid_name
from tools_search_client.errors import (
    InvalidAnswerError,
    LocalError,
    SavedConversationError,
    require_count,
    require_kind,
    require_kinds,
)
from tools_search_client.json_values import compact_json, copied
from tools_search_client.providers.results import EMPTY_RESULT, Attachment, Part, as_text, media_of, result_parts
from tools_search_client.providers.saved import SavedReply, SavedTranscript, SavedTurn
from tools_search_client.providers.sent_tools import ProviderCall, ProviderLimits, SentTool, SentTools

Outcome: TypeAlias = Reply | CallToolResult
"""The answer to a call: a reply from the conversation or the host, or a server's result."""

_CANCELLED: Final = "The user interrupted this call; it was not carried out, or its result was not awaited."


@dataclass(frozen=True, slots=True)
class ModelMessage:
    """One of the model's responses."""

    text: str
    """The text for the user; can be empty."""
    calls: tuple[ToolCall, ...] = ()
    """Calls to pass to `Conversation.take` and answer, with the tools' original names and arguments."""
    stop_reason: str | None = None
    """Why the model stopped, as the provider states it, such as `max_tokens`."""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """As the provider counted them for this request, with what it read from its cache; 0 if it does not say."""


@dataclass(frozen=True, slots=True)
class ProviderMessage:
    """A provider's response, parsed."""

    items: Sequence[dict[str, Any]]
    """Items to append to the transcript."""
    text: str
    calls: Sequence[ProviderCall]
    stop_reason: str | None


@dataclass(frozen=True, slots=True)
class AnsweredCall:
    """A call and its result, to convert to a provider's form."""

    call: ProviderCall
    parts: list[Part]
    is_error: bool
    found: list[SentTool] = field(default_factory=list[SentTool])
    """Tools that it made callable and that must be shown with it, if the provider has a form for that."""
    remarks: str = ""
    """Additional text if a result can only contain tools; safe for the user's role."""


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![A-Za-z0-9_-]){re.escape(name)}(?![A-Za-z0-9_-])", text) is not None


def _total(usage: Mapping[str, Any], names: Sequence[str]) -> int:
    """Return the sum of these counts; compatible services omit some, or send null."""
    counts = [usage.get(name) for name in names]
    return sum(count for count in counts if type(count) is int and count > 0)


class Adapter(ABC):
    """A conversation with a model: builds its provider's requests, and reads the responses. It does no I/O.

    For each turn, call `say`. Then call `request` and `read` until there are no more calls, answering each call with
    `answer`. A subclass defines its provider's form for each item, and states which forms the provider supports.

        answered -> unanswered      `say`
        unanswered -> answered      `request`, then `read` of a message without calls
        unanswered -> calls open    `request`, then `read` of a message with calls
        calls open -> unanswered    `answer` or `cancel` of every call
        any -> answered             `drop_turn`

    Args:
        conversation: The conversation whose tools are offered.
        model: The model's name at the provider.
        limits: The provider's limits on tools.
        system: The system prompt.
        call_tool: Whether the tool list never changes, and other tools are called through `call_tool`.
        in_transcript: Whether the provider can add tools at a point in the transcript.
        by_reference: Whether that form only has names, with the definitions in the list.
        options: Additional members for every request.
    """

    # The response's members with the prompt and completion tokens; the counts of each are added up.
    _usage_members: ClassVar[Sequence[str]] = ("usage",)
    _prompt_counts: ClassVar[Sequence[str]]
    _completion_counts: ClassVar[Sequence[str]]

    def __init__(
        self,
        conversation: Conversation,
        model: str,
        *,
        limits: ProviderLimits,
        system: str | None,
        call_tool: bool,
        in_transcript: bool = False,
        by_reference: bool = False,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        require_kind("conversation", conversation, Conversation, instead="a `Conversation`")
        self.conversation: Final = conversation
        """The conversation whose tools are offered; begin turns and take calls on it."""
        self._model = model
        self._system = system
        self._in_transcript = in_transcript and not call_tool
        self._by_reference = by_reference and self._in_transcript
        self._options = dict(options or {})
        self._tools = SentTools(limits, in_transcript=self._in_transcript, by_call_tool=call_tool)
        self._transcript: list[dict[str, Any]] = []
        self._unsent: list[str | dict[str, Any]] = []
        """Texts and attachments for the user's role that have not been sent yet. They become one message, because roles
        alternate.
        """
        self._calls: dict[str, tuple[ProviderCall, ToolCall]] = {}
        self._answers: dict[str, Outcome] = {}
        self._used_ids: set[str] = set()
        self._order: dict[str, bool] = {}
        """Original names in the order in which they were first sent, and whether each was deferred; empty if the
        provider's list is in the conversation's order.
        """
        self._turns: list[SavedTurn] = []
        self._notices_to_repeat: list[str] = []
        conversation.detail = "sentence"
        conversation.limit(limits.max_tools, besides=1 if call_tool else 0)

    @property
    def open_calls(self) -> tuple[ToolCall, ...]:
        """The unanswered calls; no provider accepts a request until they are answered."""
        return tuple(call for key, (_, call) in self._calls.items() if key not in self._answers)

    @property
    def transcript(self) -> list[dict[str, Any]]:
        """A copy of the items in the provider's form."""
        return copied(self._transcript)

    def say(self, text: str, /, *attachments: Attachment) -> None:
        """Begin a turn with the user's text, and its pictures and files.

        Raises:
            LocalError: There are open calls, there is neither text nor an attachment, or the provider does not accept
                an attachment.
        """
        self._refuse_open_calls()
        require_kind("text", text, str, instead="the user's text, which attachments follow")
        require_kinds("attachments", attachments, Attachment, instead="an `Attachment`")
        if not text.strip() and not attachments:
            raise LocalError("the user's message is empty")
        blocks = [self._attachment(attachment) for attachment in attachments]
        self._append_unsent()
        self._turns.append(SavedTurn(start=len(self._transcript), notices=[]))
        self._unsent += [*([text] if text.strip() else []), *blocks]

    def request(self) -> dict[str, Any]:
        """Return the request as JSON: the keyword arguments for the provider's SDK. The caller can modify it.

        Raises:
            LocalError: There are open calls, or `say` has not been called.
        """
        self._refuse_open_calls()
        if not self._transcript and not self._unsent:
            raise LocalError("there is no message to send yet: call `say` first")
        offer = self.conversation.offer()
        notices = [*self._notices_to_repeat, *offer.notices]
        self._notices_to_repeat = []
        if self._turns:
            self._turns[-1].notices += notices
        self._unsent += notices
        outdated, new = self._tools.take_offer(offer, by_reference=self._by_reference)
        self._take_out(outdated)  # before the new forms are added, which can have the same names
        additions = self._additions(new) if self._in_transcript and new else None
        place = self._tools.listed if additions is None else self._tools.shown
        place |= {tool.original_name: tool for tool in new}
        self._append_unsent()
        self._transcript += additions or []
        return copied(self._options | self._request_body(self._tools.whole_list))

    def read(self, response: Mapping[str, Any], /) -> ModelMessage:
        """Append the provider's complete response, as JSON, and return its message.

        Its token counts are added to the conversation's `statistics`.

        Raises:
            InvalidAnswerError: It is not in the provider's format; nothing was appended.
            LocalError: There are open calls, or there was no request.
        """
        self._refuse_open_calls()
        if self._unsent or not self._transcript:
            raise LocalError("there is no request that this response could answer")
        stated: object = copied(response)
        if not isinstance(stated, dict):
            raise InvalidAnswerError(
                'the answer is not a JSON object: for an SDK\'s object, pass `model_dump(mode="json")`'
            )
        answer = cast("dict[str, Any]", stated)
        message = self._parse(answer)
        self._transcript += message.items
        usage = as_object(next((answer[name] for name in self._usage_members if name in answer), None))
        prompt, completion = (_total(usage, counts) for counts in (self._prompt_counts, self._completion_counts))
        self.conversation.statistics.add_usage(prompt_tokens=prompt, completion_tokens=completion)
        self._open(message.calls)
        return ModelMessage(message.text, self.open_calls, message.stop_reason, prompt, completion)

    def answer(self, call: ToolCall, outcome: Outcome, /) -> None:
        """Add the outcome of one of the open calls, in any order.

        Raises:
            LocalError: The call is not open, or an argument is of the wrong type.
        """
        require_kind("call", call, ToolCall, instead="one of the calls that `read` returned")
        instead = "the result of `Federation.call`, or a `Reply` of the conversation, such as of `failed`"
        require_kind("outcome", outcome, CallToolResult, Reply, instead=instead)
        if call.id not in self._calls or call.id in self._answers:
            raise LocalError(f"there is no open call {call.id!r}")
        self._answers[call.id] = outcome
        if len(self._answers) == len(self._calls):
            answered = [self._answered(sent, self._answers[key]) for key, (sent, _) in self._calls.items()]
            self._transcript += self._result_items(answered)
            self._calls, self._answers = {}, {}

    def cancel(self, reason: str = _CANCELLED, /) -> None:
        """Answer every open call with `reason`, so that the conversation can continue after an interruption."""
        for call in self.open_calls:
            self.answer(call, Reply(call, reason, is_error=True, remarks=reason))

    def drop_turn(self) -> None:
        """Remove everything since the last `say`, including its text. Called again, it removes the turn before."""
        turn = self._turns.pop() if self._turns else SavedTurn(start=0, notices=[])
        del self._transcript[turn.start :]
        self._tools.shown = self._shown_in(self._transcript)
        self._unsent = []
        self._notices_to_repeat = [*turn.notices, *self._notices_to_repeat]
        self._calls, self._answers = {}, {}

    def save(self) -> str:
        """Return the transcript and its conversation as JSON, for `restore`, even while calls are open."""
        return SavedTranscript(
            format=SavedTranscript.FORMAT,
            version=SavedTranscript.VERSION,
            adapter=type(self).__name__,
            conversation=self.conversation.saved(),
            items=self._transcript,
            unsent=self._unsent,
            calls=[sent for sent, _ in self._calls.values()],
            answers={
                key: SavedReply.model_validate(outcome) if isinstance(outcome, Reply) else outcome
                for key, outcome in self._answers.items()
            },
            used_ids=self._used_ids,
            order=self._order,
            turns=self._turns,
            notices_to_repeat=self._notices_to_repeat,
            tools=self._tools.saved(),
        ).to_text()

    async def restore(self, saved: str | bytes, *, toolset: str | Toolset | None = None) -> TurnStart:
        """Continue a saved transcript and conversation. Call this on a new adapter for a new conversation.

        The adapter must have the same options. As long as the same tools are offered, the next request is byte-for-byte
        the same as without saving. See `Conversation.restore`, which has the same arguments and result.

        Raises:
            SavedConversationError: `saved` cannot be read, or is from another adapter; nothing was restored.
            LocalError: As for `Conversation.restore`.
        """
        read = SavedTranscript.read(saved)
        if read.adapter != type(self).__name__:
            raise SavedConversationError(
                f"the saved text is from {read.adapter}, not {type(self).__name__}: restore it with {read.adapter}, "
                "or pass it to the conversation's `restore`, which keeps the tools, and start a new transcript"
            )
        # In the transcript, an open call has its id, or its name if the provider has no ids.
        self._check_items(read.items, [key for call in read.calls for key in (call.id, valid_name(call.name))])
        begun = await self.conversation.restore(read.conversation, toolset=toolset)
        self._transcript, self._unsent = read.items, read.unsent
        self._used_ids, self._order = read.used_ids, read.order
        self._turns = [turn for turn in read.turns if turn.start <= len(read.items)]
        self._notices_to_repeat = read.notices_to_repeat
        self._tools.restore(read.tools)
        self._open(read.calls)
        self._answers = {
            key: answer.restored(self._calls[key][1]) if isinstance(answer, SavedReply) else answer
            for key, answer in read.answers.items()
            if key in self._calls
        }
        return begun

    def compact(self, keep_turns: int) -> Compaction:
        """Drop all but the user's last `keep_turns` turns, and unload found tools that nothing refers to any more.

        A tool that is named by a remaining call or search result stays loaded, and is added to the list if the item
        that showed it is dropped.

        Raises:
            LocalError: There are open calls, or `keep_turns` is not positive.
        """
        require_count("keep_turns", keep_turns, instead="a number of turns")
        start = self._turns[-keep_turns].start if keep_turns <= len(self._turns) else 0
        kept = [
            SavedTurn(start=turn.start - start, notices=turn.notices) for turn in self._turns if turn.start >= start
        ]
        return self._replace(self._transcript[start:], kept)

    def replace_transcript(self, items: Sequence[Mapping[str, Any]], /) -> Compaction:
        """Continue with the host's transcript, such as a shortened one, or one from an earlier conversation.

        Tools that must be callable in it have to be loaded in the conversation (`Conversation.restore`).

        Raises:
            LocalError: There are open calls.
            SavedConversationError: An item is not in the provider's form, a call has no result, or a result has no
                call.
        """
        try:
            given: list[dict[str, Any]] = copied(items)
        except InvalidAnswerError as error:
            raise SavedConversationError(f"cannot read the transcript: {error}") from None
        self._check_items(given, ())
        starts = [place for place, item in enumerate(given) if item.get("role") == "user" and not self._ids(item)[1]]
        dropped = self._replace(given, [SavedTurn(start=start, notices=[]) for start in starts])
        self._used_ids.update(key for item in given for key in self._ids(item)[0])
        return dropped

    # The provider's form

    @abstractmethod
    def _user_item(self, parts: Sequence[str | dict[str, Any]]) -> dict[str, Any]:
        """Return an item in the user's role with these texts and attachments."""

    @abstractmethod
    def _attachment(self, attachment: Attachment) -> dict[str, Any]:
        """Return the provider's form of an attachment, or raise `Attachment.refused`."""

    @abstractmethod
    def _ids(self, item: dict[str, Any]) -> tuple[list[str], list[str]]:
        """Return the ids of an item's calls, and of the calls it answers."""

    @abstractmethod
    def _parse(self, response: dict[str, Any]) -> ProviderMessage:
        """Parse a provider's response."""

    @abstractmethod
    def _result_items(self, answered: Sequence[AnsweredCall]) -> list[dict[str, Any]]:
        """Return the items for the results of all of a response's calls."""

    @abstractmethod
    def _request_body(self, tools: Sequence[SentTool]) -> dict[str, Any]:
        """Return a request with the transcript and the tool list."""

    def _additions(self, tools: Sequence[SentTool]) -> list[dict[str, Any]] | None:
        """Return the items for tools that the host added; `None` if they must be listed."""
        return None

    def _without_tools(self, item: dict[str, Any], names: Collection[str]) -> dict[str, Any] | None:
        """Return an item without the named tools; `None` if nothing is left."""
        return item

    # Common to all providers

    def _check_items(self, items: Sequence[dict[str, Any]], still_open: Sequence[str]) -> None:
        """Reject a transcript that cannot be sent."""
        calls: Counter[str] = Counter()
        for number, item in enumerate(items):
            try:
                self._without_tools(item, ())
                made, answered = self._ids(item)
                ids: list[object] = [*made, *answered]
                if not all(isinstance(key, str) for key in ids):
                    raise TypeError("the id of a call is not text")
            except (AttributeError, IndexError, KeyError, TypeError) as error:
                reason = f"item {number} of the transcript is not in the form of {type(self).__name__}: {error!r}"
                raise SavedConversationError(reason) from None
            calls.update(made)
            calls.subtract(answered)
            if orphans := [key for key, count in calls.items() if count < 0]:
                raise SavedConversationError(f"item {number} of the transcript answers no open call: {orphans[0]!r}")
        if orphans := sorted(calls - Counter(still_open)):
            raise SavedConversationError(f"a call in the transcript has no result: {orphans[0]!r}")

    def _open(self, calls: Sequence[ProviderCall]) -> None:
        self._calls = {call.id: (call, self._tools.call_of(call)) for call in calls}

    def _append_unsent(self) -> None:
        if self._unsent:
            self._transcript.append(self._user_item(copied(self._unsent)))
            self._unsent = []

    def _replace(self, items: list[dict[str, Any]], turns: list[SavedTurn]) -> Compaction:
        self._refuse_open_calls()
        self._transcript, self._turns = items, turns
        text = compact_json(items)
        referred_to = {original for name, original in self._tools.names.items() if _is_named(name, text)}
        dropped = self.conversation.forget_unless(referred_to)
        self._tools.shown = self._shown_in(items)
        return dropped

    def _shown_in(self, items: Sequence[dict[str, Any]]) -> dict[str, SentTool]:
        """Return the tools that an item defines or refers to."""

        def is_shown(tool: SentTool) -> bool:
            # As text in an item, a definition is JSON within a JSON string.
            described = compact_json(compact_json(tool.definition.to_json()))[1:-1]
            return any(
                self._without_tools(item, {tool.name}) != item or described in compact_json(item) for item in items
            )

        return {name: tool for name, tool in self._tools.shown.items() if is_shown(tool)}

    def _take_out(self, tools: Sequence[SentTool]) -> None:
        """Remove tools from the transcript that are no longer offered or whose definitions changed."""
        if not tools:
            return
        names = {tool.name for tool in tools}
        items = [self._without_tools(item, names) for item in self._transcript]
        for turn in self._turns:
            turn.start = sum(item is not None for item in items[: turn.start])
        self._transcript = [item for item in items if item is not None]

    def _answered(self, call: ProviderCall, outcome: Outcome) -> AnsweredCall:
        if isinstance(outcome, CallToolResult):
            return AnsweredCall(call, result_parts(outcome), outcome.is_error)
        text = str(copied(outcome.text)) if outcome.text.strip() else EMPTY_RESULT
        if self._by_reference and outcome.remarks is None:  # a result with references cannot contain anything else
            return AnsweredCall(call, [text], outcome.is_error)
        definitions = [
            definition for name in outcome.loaded if (definition := self.conversation.definition(name)) is not None
        ]
        found, outdated = self._tools.take_found(definitions)
        self._take_out(outdated)
        described = self._tools.described(found)
        if described is not None:
            return AnsweredCall(call, [part for part in (text, described) if part], outcome.is_error)
        return AnsweredCall(call, [text], outcome.is_error, found, copied(outcome.remarks or ""))

    def _with_media(self, parts: Sequence[Part], mime_types: Sequence[str]) -> list[str | dict[str, Any]]:
        """Return the texts and media of a result for `_user_item`, with a note in place of media of other types."""
        shown = media_of(parts, mime_types)
        return [self._attachment(part) if part in shown else as_text([part]) for part in parts]

    def _new_id(self, stated: object) -> str:
        """Return the provider's id for a call, or a new one if it is missing or already used."""
        key, number = stated, len(self._used_ids) + 1
        while not isinstance(key, str) or not key or key in self._used_ids:
            key, number = f"call_{number}", number + 1
        self._used_ids.add(key)
        return key

    def _refuse_open_calls(self) -> None:
        if self._calls:
            names = ", ".join(call.name for call in self.open_calls)
            raise LocalError(f"these calls are not answered yet: {names}; answer them, or `cancel`")
