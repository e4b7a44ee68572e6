"""Public names of the gateway's tools, whatever servers and tools are called."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.hosts import MAX_NAME_LENGTH, qualified_name

ANY_TEXT = st.text(min_size=1, max_size=90)
LOOKALIKES = st.text(alphabet="ab_- ./é", min_size=1, max_size=8)
PAIRS = st.tuples(ANY_TEXT | LOOKALIKES, ANY_TEXT | LOOKALIKES)


@given(PAIRS)
def test_a_name_is_valid_for_model_providers(pair: tuple[str, str]) -> None:
    assert re.fullmatch(rf"[A-Za-z0-9_-]{{1,{MAX_NAME_LENGTH}}}", qualified_name(*pair))


@given(st.sets(PAIRS, min_size=2, max_size=30))
def test_no_two_tools_get_the_same_name(pairs: set[tuple[str, str]]) -> None:
    assert len({qualified_name(*pair) for pair in pairs}) == len(pairs)
