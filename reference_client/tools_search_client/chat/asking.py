"""Asking the model for one answer, and again where that may help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import anyio

from tools_search_client.chat.model import Model, ModelFailed
from tools_search_client.chat.surface import Surface

__all__ = ["Asking"]

_MOST_RETRIES: Final = 2
_LONGEST_WAIT: Final = 60.0
"""Seconds; a user who has to wait longer decides that for themselves."""


class Asking:
    """One model, and what was heard of an answer that is not complete.

    Args:
        model: The model.
        surface: Who watches.
    """

    def __init__(self, model: Model, surface: Surface) -> None:
        self._model = model
        self._surface = surface
        self._heard: list[str] = []

    async def answer(self, request: dict[str, Any]) -> Mapping[str, Any]:
        """Return the answer to a request, which is sent again where the provider is busy and nothing was heard yet.

        Raises:
            ModelFailed: There is no answer.
        """
        self._heard.clear()
        for attempt in range(_MOST_RETRIES):
            try:
                return await self._streamed(request)
            except ModelFailed as error:
                wait = 2.0**attempt if error.retry_after is None else error.retry_after
                if self._heard or not error.is_passing or wait > _LONGEST_WAIT:
                    raise
                self._surface.notice(f"{error}; trying again in {wait:g} s")
            await anyio.sleep(wait)
        return await self._streamed(request)

    def done(self) -> None:
        """Take note that the answer is complete, and read."""
        self._heard.clear()

    def ended_by(self, why: str) -> Mapping[str, Any]:
        """Return what was heard as an answer of its own, with the reason why there is no more of it."""
        heard = "".join(self._heard).strip()
        self._heard.clear()
        return self._model.only_text(f"{heard}\n\n{why}" if heard else why)

    async def _streamed(self, request: dict[str, Any]) -> Mapping[str, Any]:
        def hear(piece: str) -> None:
            self._heard.append(piece)
            self._surface.text(piece)

        with self._surface.waiting("waiting for the model"):
            return await self._model.answer(request, hear)
