"""Why a server cannot be used, in words that help and give nothing away."""

from __future__ import annotations

import httpx2
import pytest
from mcp import MCPError
from mcp_ext_tools_search.hosts import HttpTarget, StdioTarget, Target
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, Tool
from pydantic import ValidationError
from tools_search_server.connecting import explain

PROGRAM = StdioTarget("program")
PLACE = HttpTarget("https://someone:secret@example.com/mcp?key=secret")


def refused_by(url: str) -> httpx2.HTTPStatusError:
    response = httpx2.Response(401, request=httpx2.Request("GET", url))
    with pytest.raises(httpx2.HTTPStatusError) as refused:
        response.raise_for_status()
    return refused.value


def invalid() -> ValidationError:
    with pytest.raises(ValidationError) as refused:
        Tool.model_validate({})
    return refused.value


@pytest.mark.parametrize(
    ("error", "target", "reason"),
    [
        (FileNotFoundError(2, "No such file"), PROGRAM, "'program' was not found; install it, or give its full path"),
        (PermissionError(13, "Permission denied"), PROGRAM, "'program' may not be executed"),
        (httpx2.ConnectError("refused"), PLACE, "nothing answers at https://example.com/mcp"),
        (refused_by("https://example.com/mcp?key=secret"), PLACE, "it answered HTTP 401"),
        (FileNotFoundError(2, "No such file", "/gone"), StdioTarget("program", cwd="/gone"), "its folder '/gone' does"),
        (httpx2.ReadTimeout("slow"), PLACE, "ReadTimeout: slow"),
        (MCPError(CONNECTION_CLOSED, "Connection closed"), PROGRAM, "it closed the connection before it was ready"),
        (MCPError(INTERNAL_ERROR, "no\nway"), PROGRAM, "it answered with error -32603: no way"),
        (invalid(), PROGRAM, "it does not speak MCP"),
        (ExceptionGroup("outer", [ExceptionGroup("inner", [OSError("x" * 999)])]), PROGRAM, "OSError: xxx"),
    ],
)
def test_a_failure_is_explained_in_one_short_line(error: Exception, target: Target, reason: str) -> None:
    explained = explain(error, target)
    assert explained.startswith(reason)
    assert "secret" not in explained
    assert "\n" not in explained
    assert len(explained) <= 300
