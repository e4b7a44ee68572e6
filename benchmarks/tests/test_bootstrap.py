from __future__ import annotations

import pytest

from benchmarks.bootstrap import Estimate, mean, percentile, ratio_of_medians


def test_a_ratio_of_what_grows_together_is_known_exactly():
    base = [0.5, 1.0, 2.0, 4.0, 8.0]
    assert ratio_of_medians([3 * number for number in base], base) == Estimate(3, 3, 3)


def test_figures_are_compared_turn_by_turn_only():
    with pytest.raises(ValueError, match="shorter"):
        ratio_of_medians([1.0, 2.0], [1.0])


def test_a_percentile_lies_between_its_bounds_which_narrow_with_more_values():
    few, many = (percentile([float(place % 10) for place in range(number)], 50) for number in (20, 2_000))
    assert few.low <= few.value <= few.high
    assert many.high - many.low < few.high - few.low


def test_each_group_counts_the_same_in_a_mean_of_several():
    assert mean([0.0] * 99, [1.0]) == Estimate(0.5, 0.5, 0.5)


def test_a_mean_of_few_and_different_values_is_less_sure():
    few, many = mean([0.0, 1.0] * 5), mean([0.0, 1.0] * 500)
    assert few.value == many.value == 0.5
    assert few.low < many.low < 0.5 < many.high < few.high
    assert mean([1.0, 1.0]) == Estimate(1.0, 1.0, 1.0)
