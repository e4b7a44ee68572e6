"""Where the bytes of a message are divided, so that a reader that takes a piece for a whole fails."""

from __future__ import annotations

import re
from typing import Final

_CUTS: Final = re.compile(rb"[\xc2-\xf4](?=[\x80-\xbf])|\r(?=\n)|\n(?=\r)|\\(?=[\"\\/bfnrtu])|(?<=[dai]:)")
"""Ends of pieces: inside a character, a line end, an escape and a field of an event stream."""
_MOST: Final = 24
"""The most pieces of one message."""


def divided(data: bytes) -> list[bytes]:
    """Return `data` in pieces."""
    ends = [match.end() for match in _CUTS.finditer(data)][: _MOST - 1]
    return [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True) if start < end]
