from __future__ import annotations

import pytest
from mcp_ext_tools_search.ranking.interface import Hit
from tools_search_ranking.hits import LazyHits, names_of


def _counted() -> tuple[LazyHits, list[int]]:
    made: list[int] = []

    def hits_at(places: range) -> list[Hit]:
        made.extend(places)
        return [Hit("abc"[place], 1 - place / 10) for place in places]

    return LazyHits(3, lambda: ["a", "b", "c"], hits_at), made


def test_only_hits_that_are_read_are_made():
    hits, made = _counted()
    assert len(hits) == 3
    assert names_of(hits) == ["a", "b", "c"]
    assert made == []
    assert [hit.name for hit in hits[1:]] == ["b", "c"]
    assert made == [1, 2]


@pytest.mark.parametrize(("count", "read"), [(0, 0), (2, 2), (3, 3), (90, 0), (200, 0)])
def test_the_names_of_a_few_first_hits_cost_these_hits_and_of_more_none(count: int, read: int):
    names = [f"tool_{place}" for place in range(100)]
    made: list[int] = []

    def hits_at(places: range) -> list[Hit]:
        made.extend(places)
        return [Hit(names[place], 1.0) for place in places]

    assert LazyHits(100, lambda: names, hits_at).first_names(count) == names[:count]
    assert made == [*range(read)]


def test_it_reads_like_a_list():
    hits, _ = _counted()
    assert hits == list(hits)
    assert hits == tuple(hits)
    assert hits[-1] == Hit("c", 0.8)
    assert [hit.name for hit in hits[::-2]] == ["c", "a"]
    assert [hit.name for hit in hits[5:]] == []
    assert hits != [hits[0]]
    assert hits != "abc"
    assert hits != 3
    assert Hit("b", 0.9) in hits
    with pytest.raises(IndexError):
        _ = hits[3]


def test_the_names_of_a_list_are_read_from_its_hits():
    assert names_of([Hit("x", 1.0), Hit("y", 0.5)]) == ["x", "y"]
