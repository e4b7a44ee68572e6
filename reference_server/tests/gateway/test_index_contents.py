"""What a replica takes from the rows that it reads of a shared index, where the database cannot show the case."""

from __future__ import annotations

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed: pip install '.[postgres]'")

from tools_search_server.gateway.index_contents import Contents

KNOWN = Contents("tools", revision=5, generation=1, last=2, tools={"a": (b"1", ("all",)), "b": (b"2", ("all",))})


def test_contents_from_before_a_restored_backup_are_read_as_a_whole_even_if_they_are_as_many() -> None:
    nothing_new = (1, 2, None, None, None, None)
    assert KNOWN.after([(5, *nothing_new)]) == KNOWN
    assert KNOWN.after([(4, *nothing_new)]) is None
