"""What the user types, while the event loop goes on: servers may ask, and connections have to be kept."""

from __future__ import annotations

import sys
import termios
from collections.abc import Sequence
from typing import Any, Final

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import WordCompleter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.input import create_input
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.output import create_output
from prompt_toolkit.shortcuts import CompleteStyle

from tools_search_client.chat.surface import AnswerStopped

__all__ = ["Keyboard", "can_be_asked"]

_PROMPT: Final = FormattedText([("bold", "> ")])


def can_be_asked() -> bool:
    """Tell whether there is somebody who types, and reads what they are asked."""
    return bool(sys.stdin) and sys.stdin.isatty() and bool(sys.stderr) and sys.stderr.isatty()


class Keyboard:
    """The terminal that standard input is; questions are shown on standard error.

    Args:
        words: What a line may begin with, completed by the tabulator key.
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
        """Return the next line of the user, or `None` when there will be none any more.

        Raises:
            AnswerStopped: Ctrl-C; a line that was begun is thrown away, which is not told.
        """
        while True:
            try:
                # Signals are watched by the program as a whole.
                return await self._lines.prompt_async(_PROMPT, handle_sigint=False)
            except EOFError:
                return None
            except KeyboardInterrupt:
                if not self._lines.default_buffer.text:
                    raise AnswerStopped from None

    async def answer(self, question: str) -> str:
        """Return what the user answers, in lower case; Ctrl-D is an empty answer.

        What was typed before the question was there answers nothing.

        Raises:
            AnswerStopped: Ctrl-C.
        """
        clear_typeahead(self._input)
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        try:
            return (await self._answers.prompt_async(question, handle_sigint=False)).strip().lower()
        except EOFError:
            return ""
        except KeyboardInterrupt:
            raise AnswerStopped from None
