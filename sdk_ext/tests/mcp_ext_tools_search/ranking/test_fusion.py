"""Rank fusion, by its properties."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st
from mcp_ext_tools_search.ranking.fusion import RANK_CONSTANT, fuse_and_rerank, reciprocal_rank_fusion

rankings = st.lists(st.lists(st.integers(0, 20), max_size=12), max_size=6)


def order(given_rankings: list[list[int]]) -> list[int]:
    return [item for item, _ in reciprocal_rank_fusion(given_rankings)]


@given(rankings)
def test_every_item_comes_once_and_none_is_added(given_rankings: list[list[int]]):
    fused = order(given_rankings)
    assert len(fused) == len(set(fused))
    assert set(fused) == {item for ranking in given_rankings for item in ranking}


@given(rankings)
def test_weights_never_rise_and_are_bounded_by_the_number_of_rankings(given_rankings: list[list[int]]):
    weights = [weight for _, weight in reciprocal_rank_fusion(given_rankings)]
    assert weights == sorted(weights, reverse=True)
    assert all(0 < weight <= len(given_rankings) / (RANK_CONSTANT + 1) + 1e-9 for weight in weights)


@given(st.lists(st.integers(), unique=True))
def test_a_single_ranking_stays_as_it_is(ranking: list[int]):
    assert order([ranking]) == ranking


@given(st.lists(st.integers(), unique=True), st.integers(1, 5))
def test_agreement_stays_as_it_is(ranking: list[int], times: int):
    assert order([ranking] * times) == ranking


@given(rankings)
def test_what_every_ranking_has_first_is_first(given_rankings: list[list[int]]):
    led = [[99, *ranking] for ranking in given_rankings] or [[99]]
    assert order(led)[0] == 99


@given(rankings)
def test_a_repeated_item_counts_for_nothing(given_rankings: list[list[int]]):
    stuffed = [ranking + ranking for ranking in given_rankings]
    assert reciprocal_rank_fusion(stuffed) == reciprocal_rank_fusion(given_rankings)


@given(rankings, st.permutations(range(6)))
def test_the_weights_do_not_depend_on_the_order_of_the_rankings(given_rankings: list[list[int]], places: list[int]):
    shuffled = [given_rankings[place] for place in places if place < len(given_rankings)]
    rounded = {item: round(weight, 12) for item, weight in reciprocal_rank_fusion(shuffled)}
    assert rounded == {item: round(weight, 12) for item, weight in reciprocal_rank_fusion(given_rankings)}


@given(rankings, st.integers(0, 20))
def test_one_more_vote_for_the_first_place_never_moves_an_item_back(given_rankings: list[list[int]], item: int):
    before = order([*given_rankings, [item]]).index(item)
    assert order([*given_rankings, [item], [item]]).index(item) <= before


def test_two_middling_ranks_outweigh_one_first():
    assert order([[1, 2], [3, 2]])[0] == 2


def test_ties_keep_the_order_of_first_appearance_rank_by_rank():
    # 9 and 8 are first in one ranking and third in another; rank by rank, 9 comes earlier.
    assert order([[1, 2, 9], [9], [8], [3, 4, 8]])[:2] == [9, 8]


def test_the_first_items_of_each_ranking_are_ranked_together_once_each():
    together: list[list[int]] = []

    def rank(items: Sequence[int]) -> Sequence[int]:
        together.append(list(items))
        return items[::-1]

    fused = fuse_and_rerank([[1, 2, 3], [2, 1, 4]], rank, depth=2)
    assert together == [[1, 2]]
    assert [item for item, _ in fused] == [2, 1, 3, 4]
