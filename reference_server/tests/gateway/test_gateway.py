"""The tools of all servers together, and what stays of them when one changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import pytest
from tools_search_server.base.limits import Limits
from tools_search_server.gateway.gateway import GatewayOptions
from tools_search_server.programs.gateway import configured_gateway
from tools_search_server.upstreams.questions import Caller

pytestmark = pytest.mark.anyio


async def test_what_was_made_of_a_tool_that_has_not_changed_is_kept(
    configuration: Any, raw: Any, until: Any, tmp_path: Path
) -> None:
    async def never(*_: object) -> Any: ...

    file = configuration(grows=raw("growing", tmp_path), other=raw("good"))
    gateway, _ = configured_gateway(file, Limits(), GatewayOptions(20, 20))
    with anyio.fail_after(60):
        async with gateway.running():
            await until(lambda: len(gateway.tools) == 2)
            before, wire = gateway.tools, gateway.pages.wire("2025-11-25")
            grow = {"name": "plain", "arguments": {"name": "more"}}
            await gateway.upstreams[0].request("tools/call", grow, Caller(None, never, never))
            await until(lambda: len(gateway.tools) == 3)
            assert gateway.tools.keys() - before.keys() == {"grows__more"}
            for name, exposed in before.items():
                assert gateway.tools[name] is exposed
                assert gateway.pages.wire("2025-11-25")[name] is wire[name]
