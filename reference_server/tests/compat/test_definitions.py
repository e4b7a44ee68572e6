"""The names of meta-tools, which no tool of a server can have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_search_hosts import qualified_name
from tools_search_server.compat.definitions import META_TOOLS, CompatOptions, is_prefix

TEXTS = st.text("abc_-/é 0", min_size=1, max_size=70)


@given(prefix=st.text("ab_-0", max_size=26), server=TEXTS, tool=TEXTS | st.sampled_from([*META_TOOLS]))
def test_no_tool_of_a_server_can_have_the_name_of_a_meta_tool(prefix: str, server: str, tool: str) -> None:
    offered = qualified_name(server, tool)
    if is_prefix(prefix):
        options = CompatOptions((), prefix, 100)
        assert options.plain(offered) is None
        assert all(len(options.named(plain)) <= 64 for plain in META_TOOLS)
        assert all(options.plain(options.named(plain)) == plain for plain in META_TOOLS)
    elif "__" not in prefix and prefix[:1].isalpha():
        assert len(prefix) > 24


@pytest.mark.parametrize("prefix", ["a__", "_a", "1", "a b", "é", "a" * 25, "a\n"])
def test_what_cannot_stand_before_names_is_refused(prefix: str) -> None:
    assert not is_prefix(prefix)
