"""What a host sends to its model at one time, and what of it the provider has seen before."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Final

import numpy as np

from benchmarks.context.catalog import ToolKey

__all__ = ["ENCODING", "Request", "TokenCounter", "answered", "called", "system", "user"]

ENCODING: Final = "o200k_base"


@dataclass(frozen=True)
class Request:
    """One request to a model, in the order in which providers read it: the tools, then the messages."""

    tools: Sequence[Mapping[str, Any]]
    messages: Sequence[Mapping[str, Any]]

    available: frozenset[ToolKey]
    """The tools that the model can call from here, by whatever way."""

    searches: int
    """How many searches were made before it."""

    @cached_property
    def definitions(self) -> Sequence[str]:
        """The entries of the list of tools."""
        return [_line(tool) for tool in self.tools]

    @cached_property
    def body(self) -> bytes:
        """The whole request, entry by entry, so that one that only adds to another begins with its bytes."""
        return "".join([*self.definitions, *map(_line, self.messages)]).encode()

    def kept_of(self, before: Request) -> int:
        """Return how many bytes at the beginning of the request before are the beginning of this one."""
        length = min(len(before.body), len(self.body))
        one, other = (np.frombuffer(body, np.uint8, length) for body in (before.body, self.body))
        different = (one != other).nonzero()[0]
        return int(different[0]) if len(different) else length


class TokenCounter:
    """Counts with the vocabulary o200k, which needs no network; every entry is counted once."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # how it reads its own vocabulary
            encoding: Any = import_module("bpe_openai").get_encoding(ENCODING)
        self._encode: Callable[[str], Sequence[int]] = encoding.encode
        self._counted: dict[str, int] = {}

    def definitions(self, request: Request) -> int:
        """Return the tokens of the list of tools, and of what the host tells of tools before the user's message."""
        return self._of([*request.definitions, *(_line(one) for one in request.messages if one["role"] == "system")])

    def everything(self, request: Request) -> int:
        """Return the tokens of the whole request."""
        return self._of([*request.definitions, *map(_line, request.messages)])

    def _of(self, entries: Sequence[str]) -> int:
        for entry in entries:
            if entry not in self._counted:
                self._counted[entry] = len(self._encode(entry))
        return sum(self._counted[entry] for entry in entries)


def system(text: str) -> dict[str, Any]:
    """Return a message in which the host instructs the model."""
    return {"role": "system", "content": text}


def user(text: str) -> dict[str, Any]:
    """Return a message of the user, or of the host at the end of the input."""
    return {"role": "user", "content": text}


def called(name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message in which the model calls a tool."""
    return {"role": "assistant", "calls": [{"name": name, "arguments": arguments}]}


def answered(text: str) -> dict[str, Any]:
    """Return the result of a call."""
    return {"role": "tool", "content": text}


def _line(entry: Mapping[str, Any]) -> str:
    return json.dumps(entry, ensure_ascii=False, separators=(",", ":")) + "\n"
