"""Converts a query to the parameters of `tools_search.search`. Statements never contain text from a query."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, LiteralString, NamedTuple

from mcp_ext_tools_search.ranking.floor import terms, trimmed
from mcp_ext_tools_search.ranking.language import is_character, is_unspaced, may_be_misspelled, relatives, stem
from mcp_ext_tools_search.ranking.query import AS_WRITTEN, WRITTEN, read

from tools_search_ranking.postgres.analysis import floor_key, slips
from tools_search_ranking.translation import in_english

SEARCH: Final[LiteralString] = (
    "select place, name, score, members, definition, total, revision from tools_search.search("
    "%(catalog)s::text, %(groups)s::text[], %(keys)s::text[], %(weights)s::float8[], %(covering)s::boolean[], "
    "%(naming)s::float8[], %(lacking)s::boolean[], %(standing)b::text[], %(slips)s::int[], %(slip_counts)s::int[], "
    "%(joined_written)s::text[], %(joined_stem)s::text[], %(floor)s::text[], %(names)b::bytea[], %(embedder)s::text, "
    "%(vectors)s::text[], %(meaning_weight)s::float8, %(least_cosine)s::bigint, %(first)s::int, %(last)s::int)"
)
"""Bytes and nulls are sent in binary: the text forms of both depend on settings of the database."""

BY_WORDS: Final[dict[str, Any]] = dict.fromkeys(("embedder", "vectors", "meaning_weight", "least_cosine"))
"""The parameters of `SEARCH` for ranking by words alone."""

_NO_SLIP: Final = slips(" ")[:1]
"""For a word that is too short, or a number: it counts as unknown if no tool has it, but matches no correction."""


class _Row(NamedTuple):
    """A term of a query, in the form of the parameters of `search`."""

    key: str
    weight: float

    covers: bool = False
    """Whether it is a word of the query itself, and so covers part of it."""

    names: float = 0.0
    """The share of a name that it covers."""

    lacks: bool = False
    """Whether it counts as an uncovered part of the query if no tool has it."""

    slips: Sequence[int] = ()
    """Hashes that find the words of which it may be a misspelling; empty for terms that are not corrected."""

    stands_for: str | None = None
    """The word of the query that it is a relative of. It counts more if no tool has that word."""


def parameters(query: str) -> dict[str, Any]:
    """Return the parameters for `query`, which are the same for every catalog and caller."""
    request = read(query, in_english)
    rows: list[_Row] = []
    if not request.stems:
        rows += [_Row(WRITTEN + word, 1.0, covers=True, names=1.0) for word in request.written]
    for word, weight in request.stems.items():
        is_foreign = word in request.foreign
        if is_foreign or is_unspaced(word):
            own = ()
        elif may_be_misspelled(word):
            own = slips(word)
        else:
            own = _NO_SLIP
        lacks = not (is_foreign or is_character(word))
        rows.append(_Row(word, weight, covers=True, names=1.0, lacks=lacks, slips=own))
    if request.stems:
        for word, weight in request.related.items():
            rows += [_Row(other, weight * part, names=1.0, stands_for=word) for other, part in relatives(word)]
        rows += [_Row(WRITTEN + word, weight * AS_WRITTEN) for word, weight in request.written.items()]
    columns = zip(*rows, strict=True) if rows else ((),) * len(_Row._fields)
    keys, weights, covering, naming, lacking, own_slips, standing = map(list[Any], columns)
    return {
        "keys": keys,
        "weights": weights,
        "covering": covering,
        "naming": naming,
        "lacking": lacking,
        "standing": standing,
        "slips": [number for own in own_slips for number in own],
        "slip_counts": list(map(len, own_slips)),
        "joined_written": [WRITTEN + pair for pair in request.pairs],
        "joined_stem": [stem(pair) for pair in request.pairs],
        "floor": [floor_key(term) for term in dict.fromkeys(terms(query))],
        "names": [name.encode("utf-8", "surrogatepass") for name in (query, trimmed(query))],
    }
