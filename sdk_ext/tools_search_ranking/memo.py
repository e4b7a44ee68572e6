"""Answers that are remembered, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

__all__ = ["Memo"]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

_MOST: Final = 16_384


class Memo(dict[_Key, _Value]):
    """Values by key, made when they are first asked for; `memo[key]` costs no call where the value is there.

    Any number of threads may ask. When there are too many values all are forgotten.

    Args:
        make: Makes a value.
        most: Values that are remembered.
    """

    def __init__(self, make: Callable[[_Key], _Value], most: int = _MOST) -> None:
        super().__init__()
        self._make = make
        self._most = most

    def __missing__(self, key: _Key) -> _Value:
        if len(self) >= self._most:
            self.clear()
        value = self[key] = self._make(key)
        return value
