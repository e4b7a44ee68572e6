"""The user's keyboard: lines, answers to questions, and Ctrl-C, while the event loop keeps connections alive."""

from __future__ import annotations

import sys
import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import anyio
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import CompleteStyle

_PROMPT: Final = FormattedText([("bold", "> ")])


def can_be_asked() -> bool:
    """Return whether there is somebody who types, and reads questions."""
    return bool(sys.stdin) and sys.stdin.isatty() and bool(sys.stderr) and sys.stderr.isatty()


class Keyboard:
    """The terminal that standard input is; questions are shown on standard error.

    Ctrl-C cancels the block that `interruptible` guards, in the middle of an answer as well as at a question. The
    tabulator key completes `words` at the beginning of a line.
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._input = create_input()
        self._scope: anyio.CancelScope | None = None
        output = create_output(stdout=sys.stderr)
        shared: dict[str, Any] = {"input": self._input, "output": output, "reserve_space_for_menu": 0}
        self._lines = PromptSession[str](
            completer=WordCompleter(list(words), sentence=True),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            **shared,
        )
        self._answers = PromptSession[str](**shared)

    async def line(self) -> str | None:
        """Return the next line of the user, or `None` when there will be no more.

        Ctrl-C throws a line away that was begun, and on an empty line interrupts.
        """
        while True:
            try:
                # Signals are watched by the program as a whole.
                return await self._lines.prompt_async(_PROMPT, handle_sigint=False)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._lines.default_buffer.text:
                    await self._interrupted()

    async def answer(self, question: str) -> str:
        """Return the user's answer, in lower case; Ctrl-D is an empty answer, and Ctrl-C interrupts."""
        # Nothing that was typed before the question appeared may answer it.
        clear_typeahead(self._input)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        try:
            return (await self._answers.prompt_async(question, handle_sigint=False)).strip().lower()
        except EOFError:
            return ""
        except KeyboardInterrupt:
            await self._interrupted()
            return ""

    @contextmanager
    def interruptible(self) -> Generator[anyio.CancelScope]:
        """Let Ctrl-C cancel the block; its scope reports that afterwards."""
        with anyio.CancelScope() as self._scope:
            try:
                yield self._scope
            finally:
                self._scope = None

    def interrupt(self) -> None:
        """Cancel the block that is guarded, if there is any."""
        if self._scope is not None:
            self._scope.cancel()

    async def _interrupted(self) -> None:
        self.interrupt()
        await anyio.lowlevel.checkpoint()
