"""The statistics of a catalog that BM25 needs, computed over only the tools that a caller may see."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
from mcp_ext_tools_search.ranking.fields import STEPS
from mcp_ext_tools_search.ranking.simple import LENGTH_PENALTY, SATURATION
from numpy.typing import NDArray

from tools_search_ranking.index import Documents
from tools_search_ranking.vocabulary import NO_STEM

_IDF_STEPS: Final = 2.0**24


@dataclass(frozen=True, slots=True)
class Statistics:
    """Counts over one set of visible tools."""

    visible: NDArray[np.bool_] | None
    """Whether a tool may be found, by slot; `None` if all may."""

    idf: NDArray[np.float64]
    """Inverse document frequency of each term; zero if no visible tool has the term."""

    rarest: float
    """The idf of a word that no visible tool has. It exceeds that of any term."""

    distinct: float
    """Estimated number of visible tools, counting similar tools as one.

    Most words of a catalog are in one or two tools. If three quarters of them are in at least twenty, there are twenty
    instances of each server, or all definitions share a template.
    """

    rarest_of_distinct: float
    """The idf of a word that none of `distinct` tools has."""

    saturation: NDArray[np.float64]
    """The weighted frequency, in `STEPS`, at which a term is worth half of its limit, by slot:
    k1 * (1 - b + b * length / average length)."""

    name_idf: NDArray[np.float64]
    """The sum of the idf of the stems in a tool's name, or 1 if it has none, by slot."""

    @classmethod
    def of(cls, documents: Documents, names: Collection[str] | None) -> Statistics:
        """Compute the statistics over the tools with these names. Names that are not in the index are ignored."""
        visible, containing = None, documents.containing
        if names is not None:
            visible = documents.mask(names)
            containing = documents.postings.containing(len(containing), visible)
        lengths = documents.lengths if visible is None else documents.lengths[visible]
        count = len(lengths)
        idf = np.where(containing > 0, _idf(containing, count), 0.0)
        distinct = max(count / _alike(containing), 1.0)
        average = float(lengths.sum()) / len(lengths) if lengths.any() else 1.0
        relative = 1 - LENGTH_PENALTY + LENGTH_PENALTY * documents.lengths / average
        of_stems = np.where(np.frombuffer(documents.vocabulary.stems[: len(idf)], np.int32) == NO_STEM, 0.0, idf)
        name_idf = np.bincount(documents.name_slots, of_stems[documents.name_terms], len(documents.lengths))
        return cls(
            visible=visible if count < len(documents.names) else None,
            idf=idf,
            rarest=float(_idf(0, count)),
            distinct=distinct,
            rarest_of_distinct=float(_idf(0, distinct)),
            saturation=STEPS * SATURATION * relative,
            name_idf=np.where(name_idf > 0, name_idf, 1.0),
        )


def _idf(containing: NDArray[np.int64] | int, count: float) -> NDArray[np.float64]:
    """Return log(1 + (N - n + 0.5) / (n + 0.5)), which is positive even for the most common words.

    `containing` is n, as a number or an array.

    This is the form in Lucene's BM25Similarity, after Robertson and Zaragoza, "The Probabilistic Relevance Framework"
    (2009). Values are multiples of 2 to the power of -24, so that sums do not depend on their order.
    """
    exact: NDArray[np.float64] = np.log1p((count - containing + 0.5) / (containing + 0.5))
    return np.round(exact * _IDF_STEPS) / _IDF_STEPS


def _alike(containing: NDArray[np.int64]) -> int:
    """Return the lower quartile of the number of tools per term, over the terms that any tool has."""
    known = containing[containing > 0]
    return int(np.partition(known, len(known) // 4)[len(known) // 4]) if len(known) else 1
