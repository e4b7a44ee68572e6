"""Generated cases for clients: JSON values of any kind, and searches whose pages are cut anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from tools_search_conformance.clients.script import Pages, Reply, Search, found, serves, tool
from tools_search_conformance.wire.codec import JsonObject

_MAX_PAGES: Final = 6
_MAX_ON_PAGE: Final = 3
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


@dataclass(frozen=True)
class PageSizes:
    """How many tools each page of a search has."""

    sizes: tuple[int, ...]

    def pages(self) -> Pages:
        """Return such a search."""
        return Pages(*([tool(f"tool_{page}_{n}") for n in range(size)] for page, size in enumerate(self.sizes)))

    @property
    def names(self) -> set[str]:
        """The names of the tools on all pages."""
        return {f"tool_{page}_{n}" for page, size in enumerate(self.sizes) for n in range(size)}

    def describe(self) -> str:
        """Return the sizes in words, for a report."""
        return f"pages of {', '.join(map(str, self.sizes))} tools"


def page_sizes() -> st.SearchStrategy[PageSizes]:
    """Return searches of several pages, some of them empty; the last one is not."""
    before = st.lists(st.integers(0, _MAX_ON_PAGE), min_size=1, max_size=_MAX_PAGES - 1)
    return st.tuples(before, st.integers(1, _MAX_ON_PAGE)).map(lambda sizes: PageSizes((*sizes[0], sizes[1])))


class SwitchedSearch:
    """A search that is replaced for each case, so that one connection serves all cases.

    Each case has its own query, so that a cached page of one case answers no other.
    """

    def __init__(self) -> None:
        self.current: Search = serves(found())
        self._cases = 0

    def __call__(self, params: JsonObject) -> Reply:
        """Answer as the current case does."""
        return self.current(params)

    def next_query(self) -> str:
        """Return a query that no case had before."""
        self._cases += 1
        return f"mend clock number {self._cases}"
