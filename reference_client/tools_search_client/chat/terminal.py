"""`Terminal`: answers on standard output; searches, calls, notices and questions on standard error.

Models and servers wrote most of the text, so control characters are removed. In a call's arguments they are escaped
instead, because a user who is asked to approve the call must see them all.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from mcp_types import CallToolResult, TextContent
from rich.cells import cell_len
from rich.console import Console
from rich.status import Status
from rich.text import Text
from tools_search_hosts.counts import number_of

from tools_search_client.chat.keyboard import Keyboard
from tools_search_client.cli.output import HOW_TO_ALLOW, Waiting
from tools_search_client.conversation.messages import Forward, Reply, ToolCall
from tools_search_client.conversation.state import Statistics
from tools_search_client.providers.results import text_length
from tools_search_client.text import one_line, printable, printable_json, shorten

Consent: TypeAlias = Literal["yes", "no", "always"]

_CONSENTS: Final[dict[str, Consent]] = {"y": "yes", "n": "no", "": "no", "a": "always"}
_QUESTION: Final = "Call it? [y]es, [N]o, [a]lways this tool: "
_LINE_CHARS: Final = 300
"""Wider than any terminal."""
_ARGUMENT_CHARS: Final = 5_000
_MAX_NAMES: Final = 8


class Terminal:
    """The program's terminal or pipes.

    Without a keyboard, every question is answered with no. With `holds_text`, the model's text is held back until it is
    known whether it is the final answer.
    """

    def __init__(self, keyboard: Keyboard | None, *, holds_text: bool = False, prints_answer: bool = True) -> None:
        self._keyboard = keyboard
        self._holds_text = holds_text
        self._prints_answer = prints_answer
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._held: list[str] = []
        """The current message's held-back text."""
        self._is_in_line = False
        self._is_begun = False

    @contextmanager
    def waiting(self, what: str, /) -> Generator[None]:
        """Show a spinner on a terminal until the block ends or something else is shown."""
        if self._console.is_terminal:
            self._status = self._console.status(Waiting(one_line(f"{what} …")))
            self._status.start()
        try:
            yield
        finally:
            self._stop_waiting()

    def text(self, piece: str, /) -> None:
        """Show a piece of the model's text as it arrives."""
        shown = printable(piece)
        if self._holds_text:
            self._held.append(shown)
            return
        if not self._is_begun:
            shown = shown.lstrip("\n")
            self._is_begun = bool(shown)
        if shown:
            self._stop_waiting()
            self._write(shown)

    def end_of_text(self, *, is_answer: bool) -> None:
        """End one of the model's messages, and show the text that was held back."""
        held = "".join(self._held).strip("\n")
        self._held.clear()
        if held and not is_answer:
            self._line(held)
        elif held and self._prints_answer:
            self._write(held)
        self._end_line()

    def replied(self, reply: Reply, /, *, is_search: bool) -> None:
        """Show a call answered without a server: a search, or a mistake by the model."""
        if is_search and not reply.is_error:
            words = [
                value if isinstance(value, str) else printable_json(value) for value in reply.call.arguments.values()
            ]
            names = ", ".join(reply.loaded[:_MAX_NAMES]) or "nothing new"
            more = f" and {len(reply.loaded) - _MAX_NAMES} more" if len(reply.loaded) > _MAX_NAMES else ""
            line = f"? {reply.call.name} {' '.join(words)} → {names}{more}"
        else:
            line = f"✗ {reply.call.name}: {reply.text}"
        self._line(shorten(line, _LINE_CHARS), style="cyan" if is_search else "yellow", is_cut=True)

    def calling(self, forward: Forward, /) -> None:
        """Show a call before it is made."""
        self._line(shorten(_call_line(forward), _LINE_CHARS), style="bold", is_cut=True)

    def called(self, forward: Forward, outcome: CallToolResult | Reply, seconds: float, /) -> None:
        """Show the result of a call, or why there is none."""
        if isinstance(outcome, Reply):
            line = f"✗ {outcome.text}"
        else:
            size = number_of(text_length(outcome), "character")
            line = f"{'✗ ' if outcome.is_error else '← '}{seconds:.1f} s, {size}"
            first = next((part.text for part in outcome.content if isinstance(part, TextContent)), "")
            line += f": {first}" if first.strip() else ""
        self._line(shorten(line, _LINE_CHARS), style="yellow" if outcome.is_error else "dim", is_cut=True)

    def notice(self, text: str, /) -> None:
        """Show a message from the program that the user might act on."""
        self._line(one_line(text), style="yellow")

    def note(self, text: str, /) -> None:
        """Show informational lines."""
        self._line(text, style="dim")

    async def consent(self, forward: Forward, /) -> Consent:
        """Ask the user whether to make a call."""
        if self._keyboard is None:
            self.notice(f"{forward.tool.name} was not called because there is no terminal to ask on: {HOW_TO_ALLOW}")
            return "no"
        described = forward.tool.tool.description
        self._line(shorten(f"Its description: {described}" if described else "It has no description.", _LINE_CHARS))
        line = _call_line(forward)
        if cell_len(line) > min(self._console.width, _LINE_CHARS) or one_line(line) != line:  # `calling` showed less
            arguments = _arguments(forward.call)
            left = len(arguments) - _ARGUMENT_CHARS
            more = f" … and {number_of(left, 'more character')}" if left > 0 else ""
            self._line(f"The call: {forward.tool.name} {arguments[:_ARGUMENT_CHARS]}{more}")
        while True:
            answer = await self._keyboard.answer(_QUESTION)
            if answer in (*_CONSENTS, *_CONSENTS.values()):
                return _CONSENTS[answer[:1]]

    def _line(self, text: str, *, style: str = "", is_cut: bool = False) -> None:
        self._stop_waiting()
        self._end_line()
        shown = Text(printable(text), style=style)
        if self._console.is_terminal:
            self._console.print(shown, no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
        else:
            self._console.print(shown, soft_wrap=True)

    def _end_line(self) -> None:
        """End the line that the model's text is in, if it is in one."""
        if self._is_in_line:
            self._write("\n")
        self._is_begun = False

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_in_line = not text.endswith("\n")

    def _stop_waiting(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


def savings_line(counts: Statistics) -> str:
    """Return one line with a conversation's cost, and its savings compared to listing every tool."""
    calls = sum(number for server, number in counts.calls_by_server.items() if server != "_synthetic")
    parts = [number_of(counts.requests, "request"), number_of(calls, "call")]
    if counts.discovery is not None:
        found = number_of(counts.discovery.tools_discovered, "tool")
        parts.insert(1, f"{number_of(counts.discovery.search_calls, 'search', 'searches')} found {found}")
    sent, listed, share = counts.definition_tokens_sent, counts.definition_tokens_listed, counts.saved_share
    parts.append(f"about {sent:,} tokens of definitions sent")
    if listed:  # 0 if no server was listed and none says how many tools it has
        saved = f" ({abs(share):.0%} {'saved' if share > 0 else 'more than that'})" if share else ""
        parts[-1] += f", {listed:,} if all were listed{saved}"
    if counts.total_tokens:
        parts.append(f"{counts.prompt_tokens:,} tokens read and {counts.completion_tokens:,} written in all")
    return "; ".join(parts)


def _call_line(forward: Forward) -> str:
    return f"→ {forward.tool.name} {_arguments(forward.call)}"


def _arguments(call: ToolCall) -> str:
    """Return the arguments of a call as JSON on one line, whole."""
    return printable_json(dict(call.arguments))
