"""Text in the terminal: words are kept whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tools_search_client.chat.terminal import WordWrap


@given(st.lists(st.text(alphabet="ab \n", max_size=12), max_size=12), st.integers(min_value=1, max_value=20))
def test_wrapping_loses_no_word_and_breaks_none_that_fits(pieces: list[str], width: int):
    wrap = WordWrap(lambda: width)
    shown = "".join(map(wrap.add, pieces)) + wrap.end()
    assert shown.split() == "".join(pieces).split()
    long_words = {word for word in shown.split() if len(word) > width}
    assert all(len(line) <= width or long_words.intersection(line.split()) for line in shown.split("\n"))
