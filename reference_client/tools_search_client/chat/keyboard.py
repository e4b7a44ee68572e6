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


class AnswerInterruptedError(Exception):
    """The user pressed Ctrl-C while a line or an answer was read."""


def can_be_asked() -> bool:
    """Return whether there is somebody who types, and reads questions."""
    return bool(sys.stdin) and sys.stdin.isatty() and bool(sys.stderr) and sys.stderr.isatty()


class Keyboard:
    """The terminal that standard input is; questions are shown on standard error.

    Args:
        words: Words that a line may begin with, completed by the tabulator key.
    """

    def __init__(self, words: Sequence[str] = ()) -> None:
        self._input = create_input()
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

        Raises:
            AnswerInterruptedError: Ctrl-C on an empty line; a line that was begun is silently thrown away instead.
        """
        while True:
            try:
                # Signals are watched by the program as a whole.
                return await self._lines.prompt_async(_PROMPT, handle_sigint=False)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._lines.default_buffer.text:
                    raise AnswerInterruptedError from None

    async def answer(self, question: str) -> str:
        """Return the user's answer, in lower case; Ctrl-D is an empty answer.

        Raises:
            AnswerInterruptedError: Ctrl-C.
        """
        # Nothing that was typed before the question appeared may answer it.
        clear_typeahead(self._input)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        try:
            return (await self._answers.prompt_async(question, handle_sigint=False)).strip().lower()
        except EOFError:
            return ""
        except KeyboardInterrupt:
            raise AnswerInterruptedError from None


class Interrupts:
    """The work that Ctrl-C cancels, while there is a conversation."""

    def __init__(self) -> None:
        self._scope: anyio.CancelScope | None = None

    def stop(self) -> None:
        """Cancel the work under way, if there is any."""
        if self._scope is not None:
            self._scope.cancel()

    @contextmanager
    def cancellable(self) -> Generator[anyio.CancelScope]:
        """Let `stop` cancel the block; its scope reports that afterwards."""
        with anyio.CancelScope() as scope:
            self._scope = scope
            try:
                yield scope
            finally:
                self._scope = None
