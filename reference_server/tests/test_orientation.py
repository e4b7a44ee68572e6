"""What a host learns of a gateway stays short, however many servers there are and whatever they say."""

from __future__ import annotations

from mcp_ext_tools_search.hosts import ServerEntry, StdioTarget
from mcp_types import Implementation
from tools_search_server.orientation import instructions, settings
from tools_search_server.upstream import Upstream


def upstream(name: str) -> Upstream:
    entry = ServerEntry(name, StdioTarget("true"))
    return Upstream(
        entry, lambda _: None, lambda _, __: None, call_seconds=1, client_info=Implementation(name="t", version="0")
    )


def test_instructions_are_bounded_and_count_what_they_leave_out() -> None:
    many = [upstream(f"{n:03}" + "long" * 50) for n in range(200)]
    text = instructions(many, 5000)
    assert len(text) <= 3000
    assert text.splitlines()[-1].startswith("- and 1")


def test_the_size_is_left_out_until_it_is_known() -> None:
    one = upstream("one")
    assert settings([one], 3).catalog_size is None
    one.settled.set()
    assert settings([one], 3).catalog_size == 3
    assert settings([one], 3).topics == ["one"]


def test_topics_are_bounded() -> None:
    topics = settings([upstream("x" * 500) for _ in range(100)], 0).topics
    assert topics is not None
    assert (len(topics), len(topics[0])) == (64, 80)
