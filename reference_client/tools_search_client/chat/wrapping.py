"""Text that comes in pieces, broken between words where a terminal would break within them."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from rich.cells import cell_len

__all__ = ["WordWrap"]

_PARTS: Final = re.compile(r"\n|[^\S\n]+|\S+")


class WordWrap:
    """Breaks one text; a word is held back until it is known to be complete.

    Args:
        width: Returns the columns of the terminal, which may change.
    """

    def __init__(self, width: Callable[[], int]) -> None:
        self._width = width
        self._column = 0
        self._space = ""
        self._word = ""

    def add(self, piece: str) -> str:
        """Take the next piece and return what can be shown by now."""
        shown = ""
        for part in _PARTS.findall(piece):
            if not part.isspace():
                self._word += part
                continue
            shown += self.end()
            if part == "\n":
                shown, self._column = shown + part, 0
            else:
                self._space = part.expandtabs(4)
        return shown

    def end(self) -> str:
        """Return what was held back."""
        if not self._word:
            return ""
        text = self._space + self._word
        if self._column + cell_len(text) > self._width():
            text = f"\n{self._word}" if self._column else self._word
            self._column = 0
        self._column += cell_len(text.lstrip("\n"))
        self._space = self._word = ""
        return text
