"""Cases that Hypothesis makes up for clients: JSON of any kind, and searches whose pages are cut anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from hypothesis import strategies as st

from tools_search_conformance.clients.script import Pages, Reply, Search, found, serves, tool
from tools_search_conformance.wire.codec import JsonObject

__all__ = ["Cut", "Shifting", "cursors", "cuts", "json_values", "unknown_members"]

_MOST_PAGES: Final = 6
_MOST_ON_PAGE: Final = 3
_EXACT: Final = 2**53 - 1
"""Up to where integers are the same in every language."""
_KNOWN: Final = frozenset(
    {"tools", "nextcursor", "next_cursor", "resulttype", "result_type", "ttlms", "cachescope", "_meta"}
)
_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


def json_values() -> st.SearchStrategy[Any]:
    """Return any JSON value that every language reads alike."""
    numbers = st.integers(-_EXACT, _EXACT) | st.floats(-1e6, 1e6)
    return st.recursive(
        st.none() | st.booleans() | numbers | _TEXT,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
        max_leaves=6,
    )


def unknown_members() -> st.SearchStrategy[JsonObject]:
    """Return members that no result or settings object of the draft has, nor anything that is written much like one."""
    names = _TEXT.filter(lambda name: name.lower() not in _KNOWN | {"catalogsize", "topics", "maxlimit"})
    return st.dictionaries(names, json_values(), min_size=1, max_size=3)


def cursors() -> st.SearchStrategy[str]:
    """Return what may stand in `nextCursor`, but for the empty string."""
    return st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@dataclass(frozen=True)
class Cut:
    """How many tools each page of a search has."""

    sizes: tuple[int, ...]

    def pages(self) -> Pages:
        """Return such a search."""
        return Pages(*([tool(f"tool_{page}_{n}") for n in range(size)] for page, size in enumerate(self.sizes)))

    @property
    def names(self) -> set[str]:
        """The tools of all pages."""
        return {f"tool_{page}_{n}" for page, size in enumerate(self.sizes) for n in range(size)}

    def describe(self) -> str:
        """Return it in words, for a report."""
        return f"pages of {', '.join(map(str, self.sizes))} tools"


def cuts() -> st.SearchStrategy[Cut]:
    """Return searches of several pages, some of them empty; the last one is not."""
    before = st.lists(st.integers(0, _MOST_ON_PAGE), min_size=1, max_size=_MOST_PAGES - 1)
    return st.tuples(before, st.integers(1, _MOST_ON_PAGE)).map(lambda sizes: Cut((*sizes[0], sizes[1])))


class Shifting:
    """A search that is another one for each case, so that one connection serves them all.

    Each case has a query of its own, so that nothing that a client keeps of one answers another.
    """

    def __init__(self) -> None:
        self.now: Search = serves(found())
        self._cases = 0

    def __call__(self, params: JsonObject) -> Reply:
        """Answer as the case of the moment has it."""
        return self.now(params)

    def next_query(self) -> str:
        """Return a query that no case had before."""
        self._cases += 1
        return f"mend clock number {self._cases}"
