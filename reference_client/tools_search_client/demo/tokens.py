"""How many tokens definitions are in front of a model, counted with a real vocabulary (o200k) that needs no network."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Final

from mcp_types import Tool

__all__ = ["ENCODING", "definition_tokens"]

ENCODING: Final = "o200k_base"


def definition_tokens(tools: Iterable[Tool]) -> int:
    """Return the tokens of the definitions as hosts hand them to a model: name, description and parameters."""
    encode = _encoder()
    return sum(len(encode(json.dumps(_for_a_model(tool), ensure_ascii=False))) for tool in tools)


def _encoder() -> Callable[[str], Sequence[int]]:
    """Return the tokenizer; it comes with the `demo` extra, publishes no types and takes a moment to load."""
    encoding: Any = import_module("bpe_openai").get_encoding(ENCODING)
    return encoding.encode


def _for_a_model(tool: Tool) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description or "", "parameters": tool.input_schema}
