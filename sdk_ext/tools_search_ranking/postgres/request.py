"""From the text of a query to the parameters of `tools_search.search`; no text of a query is part of a statement."""

from __future__ import annotations

from typing import Any, Final, LiteralString

from mcp_ext_tools_search.ranking.floor import terms, trimmed
from mcp_ext_tools_search.ranking.language import (
    is_character,
    is_unspaced,
    may_be_misspelled,
    relatives,
    stem,
)
from mcp_ext_tools_search.ranking.query import AS_WRITTEN, WRITTEN, read

from tools_search_ranking.postgres.analysis import FLOOR, slips

SEARCH: Final[LiteralString] = (
    "select place, name, score, members, definition, total, revision from tools_search.search("
    "%(catalog)s::text, %(groups)s::text[], %(keys)s::text[], %(weights)s::float8[], %(covering)s::boolean[], "
    "%(lacking)s::boolean[], %(slips)s::int[], %(slip_counts)s::int[], %(joined_written)s::text[], "
    "%(joined_stem)s::text[], %(floor)s::text[], %(name)s::bytea, %(first)s::int, %(last)s::int)"
)

_NO_SLIP: Final = slips(" ")[:1]
"""Stands for a word that is too short, or a number: it counts among the unknown ones, and nothing is like it."""


def parameters(query: str) -> dict[str, Any]:
    """Return what `query` asks for, the same for any catalog and any caller."""
    request = read(query)
    rows: list[tuple[str, float, bool, bool, list[int]]] = []
    if not request.stems:
        rows += [(WRITTEN + word, 1.0, True, False, []) for word in request.written]
    for word, weight in request.stems.items():
        own = [] if is_unspaced(word) else slips(word) if may_be_misspelled(word) else _NO_SLIP
        rows.append((word, weight, True, not is_character(word), own))
        rows += [(other, weight * part, False, False, []) for other, part in relatives(word)]
    if request.stems:
        rows += [(WRITTEN + word, weight * AS_WRITTEN, False, False, []) for word, weight in request.written.items()]
    return {
        "keys": [key for key, *_ in rows],
        "weights": [weight for _, weight, *_ in rows],
        "covering": [covers for _, _, covers, *_ in rows],
        "lacking": [lacks for *_, lacks, _ in rows],
        "slips": [number for *_, own in rows for number in own],
        "slip_counts": [len(own) for *_, own in rows],
        "joined_written": [WRITTEN + pair for pair in request.pairs],
        "joined_stem": [stem(pair) for pair in request.pairs],
        "floor": [FLOOR + term for term in dict.fromkeys(terms(query))],
        "name": trimmed(query).encode("utf-8", "surrogatepass"),
    }
