"""Promises of the compatibility modes that no single conversation can show."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.server import ServerRequestContext
from starlette.requests import Request
from tools_search_hosts import ServerEntry, StdioTarget, qualified_name
from tools_search_server.compat.always_available import AlwaysAvailable
from tools_search_server.compat.definitions import META_TOOLS, MetaNames, is_prefix
from tools_search_server.compat.list_changed import SessionLists
from tools_search_server.gateway.gateway import Gateway, GatewayOptions
from tools_search_server.gateway.views import Views

TEXTS = st.text("abc_-/é 0", min_size=1, max_size=70)


@given(prefix=st.text("ab_-0", max_size=26), server=TEXTS, tool=TEXTS | st.sampled_from([*META_TOOLS]))
def test_no_tool_of_a_server_can_have_the_name_of_a_meta_tool(prefix: str, server: str, tool: str) -> None:
    offered = qualified_name(server, tool)
    if is_prefix(prefix):
        names = MetaNames(prefix)
        assert names.plain(offered) is None
        assert all(len(names(plain)) <= 64 and names.plain(names(plain)) == plain for plain in META_TOOLS)
    elif "__" not in prefix and prefix[:1].isalpha():
        assert len(prefix) > 24


@pytest.mark.parametrize("prefix", ["a__", "_a", "1", "a b", "é", "a" * 25, "a\n"])
def test_what_cannot_stand_before_names_is_refused(prefix: str) -> None:
    assert not is_prefix(prefix)


def request_of(session: str) -> ServerRequestContext[Any, Any]:
    """A request of one HTTP session, as far as the lists look at it."""
    headers = [(b"mcp-session-id", session.encode())]
    request = Request({"type": "http", "headers": headers})
    speaker = cast("Any", session)
    return ServerRequestContext(
        session=speaker, lifespan_context={}, protocol_version="2025-11-25", method="tools/list", request=request
    )


def test_the_session_that_was_silent_longest_is_forgotten_first() -> None:
    gateway = Gateway([ServerEntry("s", StdioTarget("true"))], GatewayOptions(), page_size=9)
    lists = SessionLists(Views(gateway), AlwaysAvailable(), most_tools=5, most_sessions=2)
    for session in ("one", "two"):
        assert lists.add(request_of(session), ["s__a"])
    assert not lists.add(request_of("one"), ["s__a"])
    lists.session(request_of("three"))
    assert not lists.add(request_of("one"), ["s__a"])
    assert lists.add(request_of("two"), ["s__a"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--compat", "meta-tools"], "Name one."),
        (["--config", "FILE", "--compat", "meta-tools", "--compat", "list-changed"], "stdio has one endpoint"),
        (["--config", "FILE", "--compat", "meta-tools", "--compat-prefix", "a__"], "cannot stand before names"),
        (["--config", "FILE", "--compat", "both"], "'meta-tools', 'list-changed', 'auto'"),
    ],
)
def test_modes_that_cannot_be_served_are_refused_with_the_reason(
    configuration: Any, raw: Any, options: list[str], says: str
) -> None:
    file: Path = configuration(one=raw("good"))
    argv = [str(file) if option == "FILE" else option for option in options]
    ended = subprocess.run(
        [sys.executable, "-m", "tools_search_server", *argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 2
    assert says in " ".join(ended.stderr.split())
