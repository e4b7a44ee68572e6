"""What happens, as a terminal shows it: answers on standard output, everything else on standard error.

All of it was written by models and servers, so nothing reaches the terminal that it would obey.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from mcp_types import CallToolResult
from rich.console import Console
from rich.status import Status
from rich.text import Text

from tools_search_client.chat.keyboard import Keyboard
from tools_search_client.chat.lines import call_line, outcome_line, question_lines, reply_line
from tools_search_client.chat.surface import Consent
from tools_search_client.chat.wrapping import WordWrap
from tools_search_client.cli.outcome import HOW_TO_ALLOW
from tools_search_client.conversation.messages import Forward, Reply
from tools_search_client.text import one_line, printable

__all__ = ["Terminal"]

_CONSENTS: Final[dict[str, Consent]] = {
    "y": "yes",
    "yes": "yes",
    "n": "no",
    "no": "no",
    "": "no",
    "a": "always",
    "always": "always",
}
_QUESTION: Final = "Call it? [y]es, [N]o, [a]lways this tool: "


class Terminal:
    """A `Surface`.

    Args:
        keyboard: Where the user answers; `None` where nobody can be asked, and then every question is answered by no.
        holds_text: Whether text is held back until it is known whether it is the answer.
        prints_answer: Whether the answer is printed on standard output.
    """

    def __init__(self, keyboard: Keyboard | None, *, holds_text: bool = False, prints_answer: bool = True) -> None:
        self._keyboard = keyboard
        self._holds_text = holds_text
        self._prints_answer = prints_answer
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._text: list[str] = []
        """Of this message, where it is held back."""
        self._is_in_line = False
        self._is_begun = False
        self._wrap = WordWrap(lambda: self._console.width)

    @contextmanager
    def waiting(self, what: str, /) -> Generator[None]:
        """Show that something takes its time, on a terminal."""
        if self._console.is_terminal:
            self._status = self._console.status(Text(one_line(f"{what} …"), no_wrap=True, overflow="ellipsis"))
            self._status.start()
        try:
            yield
        finally:
            self._stop_waiting()

    def text(self, piece: str, /) -> None:
        """Show a piece of what the model says."""
        shown = printable(piece)
        if self._holds_text:
            self._text.append(shown)
            return
        if not self._is_begun:
            shown = shown.lstrip("\n")
            self._is_begun = bool(shown)
        shown = self._wrap.add(shown)
        if shown:
            self._stop_waiting()
            self._write(shown)

    def end_of_text(self, *, is_answer: bool) -> None:
        """End the line; text that was held back is shown where it belongs."""
        held = "".join(self._text).strip("\n")
        self._text.clear()
        if held and not is_answer:
            self._line(held)
        elif held and self._prints_answer:
            self._write(held)
        self._end_line()

    def replied(self, reply: Reply, /, *, is_search: bool) -> None:
        """Show a search, or a mistake of the model."""
        self._line(reply_line(reply, is_search=is_search), style="cyan" if is_search else "yellow", is_cut=True)

    def calling(self, forward: Forward, /) -> None:
        """Show a call before it is made."""
        self._line(call_line(forward), style="bold", is_cut=True)

    def called(self, forward: Forward, outcome: CallToolResult | Reply, seconds: float, /) -> None:
        """Show what came of a call."""
        is_error = bool(outcome.is_error)
        self._line(outcome_line(forward, outcome, seconds), style="yellow" if is_error else "dim", is_cut=True)

    def notice(self, text: str, /) -> None:
        """Show a remark of the program."""
        self._line(one_line(text), style="yellow")

    def note(self, text: str, /) -> None:
        """Show lines that nobody has to act on."""
        self._line(text, style="dim")

    async def consent(self, forward: Forward, /) -> Consent:
        """Ask whether a tool is to be called."""
        if self._keyboard is None:
            self.notice(f"{forward.tool.name} was not called, because nobody can be asked here: {HOW_TO_ALLOW}")
            return "no"
        for line in question_lines(forward, self._console.width):
            self._line(line)
        while True:
            answer = await self._keyboard.answer(_QUESTION)
            if answer in _CONSENTS:
                return _CONSENTS[answer]

    def _line(self, text: str, *, style: str = "", is_cut: bool = False) -> None:
        self._stop_waiting()
        self._end_line()
        shown = Text(printable(text), style=style)
        if self._console.is_terminal:
            self._console.print(shown, no_wrap=is_cut, overflow="ellipsis" if is_cut else "fold")
        else:
            self._console.print(shown, soft_wrap=True)

    def _end_line(self) -> None:
        """Finish the line that the model's text is in, if it is in one."""
        left = self._wrap.end()
        if left:
            self._write(left)
        if self._is_in_line:
            self._write("\n")
        self._is_begun = False
        self._wrap = WordWrap(lambda: self._console.width)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_in_line = not text.endswith("\n")

    def _stop_waiting(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None
