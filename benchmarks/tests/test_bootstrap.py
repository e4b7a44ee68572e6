from __future__ import annotations

import pytest

from benchmarks.bootstrap import Bounded, mean_of_means, percentile, ratio_of_medians


def test_a_ratio_of_what_grows_together_is_known_exactly():
    base = [0.5, 1.0, 2.0, 4.0, 8.0]
    assert ratio_of_medians([3 * one for one in base], base) == Bounded(3, 3, 3)


def test_figures_are_compared_turn_by_turn_only():
    with pytest.raises(ValueError, match="paired"):
        ratio_of_medians([1.0, 2.0], [1.0])


def test_a_percentile_lies_between_its_bounds_which_narrow_with_more_values():
    few, many = (percentile([float(place % 10) for place in range(number)], 50) for number in (20, 2_000))
    assert few.low <= few.value <= few.high
    assert many.high - many.low < few.high - few.low


def test_each_group_counts_the_same_in_a_mean_of_means():
    mean = mean_of_means([[0.0] * 99, [1.0]])
    assert (mean.mean, mean.low, mean.high) == (0.5, 0.5, 0.5)
