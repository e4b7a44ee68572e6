"""Generated JSON for cases of clients: values of any kind, members that nobody knows, and cursors."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import strategies as st

from tools_search_conformance.wire.codec import JsonObject

_MAX_INTEGER: Final = 2**53 - 1
"""Up to where integers are exact in every language."""
_KNOWN_MEMBERS: Final = frozenset(
    {"tools", "nextcursor", "next_cursor", "resulttype", "result_type", "ttlms", "cachescope", "_meta"}
    | {"catalogsize", "topics", "maxlimit"}
)
_SCALARS: Final = st.characters(exclude_categories=["Cs"])
_TEXT: Final = st.text(_SCALARS, max_size=12)


def json_values() -> st.SearchStrategy[Any]:
    """Return JSON values that every language reads alike."""
    numbers = st.integers(-_MAX_INTEGER, _MAX_INTEGER) | st.floats(-1e6, 1e6)
    return st.recursive(
        st.none() | st.booleans() | numbers | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=6,
    )


def unknown_members() -> st.SearchStrategy[JsonObject]:
    """Return members that no result or settings object of the draft has, not even with another spelling."""
    names = _TEXT.filter(lambda name: name.lower() not in _KNOWN_MEMBERS)
    return st.dictionaries(names, json_values(), min_size=1, max_size=3)


def cursors() -> st.SearchStrategy[str]:
    """Return values of `nextCursor`, but for the empty string."""
    return st.text(_SCALARS, min_size=1, max_size=20)
