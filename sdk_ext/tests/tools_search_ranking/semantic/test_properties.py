"""For any history of an index and any hidden tools, an answer depends on the visible tools and the query alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from mcp_ext_tools_search.ranking.floor import floored
from mcp_ext_tools_search.types import EXTENSION_ID
from mcp_types import Tool
from tools_search_ranking import UpdatableIndex
from tools_search_ranking.semantic import Embedder, SemanticRanker
from tools_search_ranking.semantic.index import UNIT, cosines, standard_scores

from .conftest import SECONDS, Meanings

_WORD = st.sampled_from(["car", "limousine", "mail", "letter", "weather", "forecast", "file", "send", "the"])
_TEXT = st.lists(_WORD, max_size=4).map(" ".join)
_QUERY = st.lists(_WORD, max_size=12).map(lambda words: " ".join(words[:5]) + ". " + " ".join(words[5:]))
_ROW = st.lists(st.integers(-99, 99), min_size=7, max_size=7).filter(any)
_NAME = st.builds("{}_{}".format, _WORD, _WORD)


def _tool(name: str, description: str) -> Tool:
    """Return a tool; the first word of its description is its group, if it has more."""
    group, _, rest = description.partition(" ")
    meta = {EXTENSION_ID: {"group": group}} if rest else None
    return Tool(name=name, description=description, input_schema={"type": "object"}, _meta=meta)


class ChangingCatalog(RuleBasedStateMachine):
    """A catalog whose tools come, go and change in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.embedder = Embedder("meanings", Meanings(), least_cosine=0.5)
        self.ranker = SemanticRanker(self.embedder)
        self.tools: Mapping[str, Tool] = {}
        self.index = floored(self.ranker)([])

    @rule(added=st.dictionaries(_NAME, _TEXT, max_size=5), removed=st.sets(_NAME, max_size=3))
    def change(self, added: Mapping[str, str], removed: Collection[str]) -> None:
        new = {name: _tool(name, text) for name, text in added.items()}
        gone = (removed | new.keys()) & self.tools.keys()
        self.tools = {name: tool for name, tool in self.tools.items() if name not in gone} | new
        assert isinstance(self.index, UpdatableIndex)
        self.index = self.index.updated(gone, list(new.values()))

    @rule(query=_QUERY, hidden=st.sets(_NAME))
    def search(self, query: str, hidden: Collection[str]) -> None:
        visible = self.tools.keys() - hidden
        fresh = SemanticRanker(self.embedder)
        at_once = floored(fresh)([tool for name, tool in self.tools.items() if name in visible])
        assert self.ranker.settle(SECONDS)
        assert fresh.settle(SECONDS)
        assert list(self.index.search(query, visible=visible)) == list(at_once.search(query))
        scores = [hit.score for hit in at_once.search(query)]
        assert scores == sorted(scores, reverse=True)
        assert all(0 <= score <= 1 for score in scores)


TestChangingCatalog = ChangingCatalog.TestCase
TestChangingCatalog.settings = settings(max_examples=30, stateful_step_count=8, deadline=None)


@given(
    st.lists(st.lists(st.integers(-99, 99), min_size=7, max_size=7).filter(any), min_size=1, max_size=6), st.randoms()
)
@settings(deadline=None)
def test_products_are_the_same_in_any_order_of_numbers_and_batches(rows: list[list[int]], random: Random) -> None:
    embedder = Embedder("numbers", lambda texts: np.array([rows[int(text)] for text in texts]))
    vectors = embedder.vectors([str(row) for row in range(len(rows))])
    order = random.sample(range(7), 7)
    whole = cosines(vectors.astype(np.float32), vectors[:1])
    turned = cosines(vectors[:, order].astype(np.float32), vectors[:1, order])
    assert whole.tolist() == turned.tolist()
    assert [
        cosines(vectors[row : row + 1].astype(np.float32), vectors[:1])[0].tolist() for row in range(len(rows))
    ] == whole.tolist()


@given(st.lists(st.integers(-UNIT, UNIT), min_size=1, max_size=50))
def test_standard_scores_have_mean_zero_and_spread_one_unless_all_are_equal(scores: list[int]) -> None:
    own = standard_scores(np.array(scores))
    assert abs(own.mean()) < 1e-9
    assert abs(own.std() - (len(set(scores)) > 1)) < 1e-9
