"""Text from servers, before a terminal sees it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tools_search_client.text import one_line, printable, shorten


def test_escape_sequences_and_direction_marks_are_taken_out():
    assert printable("\x1b[31mred\x1b[0m \u202egnp.exe\u202c\x07\x9b2J") == "[31mred[0m gnp.exe2J"


def test_line_breaks_stay_where_lines_are_wanted():
    assert printable("a\n\tb\r\x00") == "a\n\tb"


@given(st.text())
def test_one_line_is_one_line(text: str):
    assert len(one_line(text).splitlines()) <= 1


@given(st.text(), st.integers(1, 40))
def test_what_is_shortened_fits(text: str, width: int):
    assert len(shorten(text, width)) <= width


def test_what_fits_is_not_shortened():
    assert (shorten("abc  def", 7), shorten("abcdefgh", 4)) == ("abc def", "abc…")


def test_a_width_of_nothing_is_refused():
    with pytest.raises(ValueError, match="width"):
        shorten("a", 0)
