"""Keyboard input: lines, answers to questions, and Ctrl-C, without blocking the event loop."""

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


class Keyboard:
    """Reads from the terminal on standard input and shows prompts on standard error.

    Ctrl-C cancels the block guarded by `interruptible`, both during an answer and at a prompt. Tab completes `words` at
    the beginning of a line.
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
        """Return the user's next line, or `None` at end of input.

        Ctrl-C discards a partly typed line; on an empty line, it interrupts.
        """
        while True:
            try:
                # The program handles signals itself.
                return await self._lines.prompt_async(_PROMPT, handle_sigint=False)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._lines.default_buffer.text:
                    await self._interrupted()

    async def answer(self, question: str) -> str:
        """Return the user's answer in lower case. Ctrl-D gives an empty answer; Ctrl-C interrupts."""
        # Discard what was typed before the question appeared, so that it cannot answer the question.
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
        """Let Ctrl-C cancel the block; the yielded scope shows whether it did."""
        with anyio.CancelScope() as self._scope:
            try:
                yield self._scope
            finally:
                self._scope = None

    def interrupt(self) -> None:
        """Cancel the guarded block, if any."""
        if self._scope is not None:
            self._scope.cancel()

    async def _interrupted(self) -> None:
        self.interrupt()
        await anyio.lowlevel.checkpoint()
