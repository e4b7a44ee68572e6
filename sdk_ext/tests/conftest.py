from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool


@pytest.fixture(scope="session")
def make_tool() -> Callable[..., Tool]:
    def make(
        name: str,
        description: str | None = None,
        *,
        title: str | None = None,
        schema: Mapping[str, Any] | None = None,
        published: Mapping[str, Any] | None = None,
    ) -> Tool:
        return Tool(
            name=name,
            title=title,
            description=description,
            input_schema=dict(schema or {"type": "object"}),
            _meta=None if published is None else {EXTENSION_ID: dict(published)},
        )

    return make
