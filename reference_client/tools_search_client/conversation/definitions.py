"""A tool as a model sees it, independent of any provider."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mcp_types import ToolAnnotations
from tools_search_hosts import qualified_name

from tools_search_client.federation.reports import FederatedTool

__all__ = ["MOST_BYTES", "Definition", "estimate_tokens", "valid_name"]

MOST_BYTES: Final = 200_000
"""The largest definition that is sent to a model; the largest in public sets of tools has 125,000 bytes."""


_VALID_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


def valid_name(name: str) -> str:
    """Return a name that every provider takes, and the same wherever that is one: servers and models make up names."""
    return name if _VALID_NAME.fullmatch(name) else qualified_name("", name)


@dataclass(frozen=True, slots=True)
class Definition:
    """One entry of the list of tools that is sent with a request to a model."""

    name: str
    """What the model calls it by: at most 64 letters, digits, `_` and `-`."""

    description: str

    input_schema: Mapping[str, Any]

    annotations: ToolAnnotations | None = None
    """As its server states them: hints, not to be trusted."""

    tool: FederatedTool | None = None
    """What stands behind it; `None` for a synthetic tool."""

    @classmethod
    def of(cls, tool: FederatedTool, *, name: str | None = None) -> Definition:
        """Return the definition of a server's tool, under its own name unless another is given."""
        own = tool.tool
        return cls(name or tool.name, own.description or own.title or "", own.input_schema, own.annotations, tool)

    def is_like(self, other: Definition) -> bool:
        """Return whether a user or a model would read the same in both, under whatever name."""
        mine, others = ((one.description, one.input_schema, one.annotations) for one in (self, other))
        return mine == others

    def to_json(self) -> dict[str, Any]:
        """Return what most providers ask for; equal definitions are equal byte for byte when serialized."""
        return {"name": self.name, "description": self.description, "parameters": dict(self.input_schema)}

    def serialized(self) -> str:
        """Return the definition as compact JSON."""
        return json.dumps(self.to_json(), ensure_ascii=False, separators=(",", ":"))

    @property
    def is_oversized(self) -> bool:
        """Whether it is too large for any model: a server's mistake, or an attack."""
        return len(self.serialized().encode("utf-8", "surrogatepass")) > MOST_BYTES


def estimate_tokens(text: str) -> int:
    """Return about how many tokens `text` is: a quarter of its bytes.

    On the definitions of six public sets of tools that is 9 % too few to 9 % too many by the vocabulary o200k.
    """
    return -(-len(text.encode("utf-8", "surrogatepass")) // 4)
