"""The referee compares kernels by pages, and does not favour what was picked by the same pages."""

from math import exp
from random import Random

import pytest

from bench.crowd.referee import Judgement, RefereePage, TimesOver, over, over_best

ROUNDS = 40


def pages(true: dict[str, float], count: int, *, noise: float = 0.02) -> list[RefereePage]:
    """Each page has an offset of its own for each kernel, and each sample a time that other work
    adds: to all kernels of a round, and to one."""
    chance = Random(1)

    def page() -> RefereePage:
        offset = {name: exp(chance.gauss(0, noise / 2)) for name in true}
        shared = [exp(abs(chance.gauss(0, 0.3))) for _ in range(ROUNDS)]
        return {
            name: tuple(
                1e6 * time * offset[name] * each * exp(abs(chance.gauss(0, noise)))
                for each in shared
            )
            for name, time in true.items()
        }

    return [page() for _ in range(count)]


def test_a_page_that_is_disturbed_in_most_rounds_tells_the_ratio_all_the_same() -> None:
    found = over(pages({"served": 1.1, "best": 1.0}, 8), "served", "best")
    assert found.low < 1.1 < found.high
    assert found.high - found.low < 0.04
    assert found.judged(1.01) is Judgement.BEYOND
    assert found.judged(1.2) is Judgement.WITHIN
    assert found.judged(found.middle) is Judgement.OPEN


def test_the_fastest_of_many_equals_is_no_faster_than_they_are() -> None:
    """Picked and compared in the same pages, the best of 14 equals would look 1 % faster."""
    equals = {f"k{n}": 1.0 for n in range(14)}
    found = pages(equals, 16, noise=0.04)
    same = max(over(found[:4], "k0", other).middle for other in equals)
    assert same > 1.01
    assert over_best(found, "k0").middle < 1.01


def test_what_is_the_fastest_by_far_is_as_fast_as_the_best() -> None:
    assert over_best(pages({"served": 1.0, "slow": 1.3}, 8), "served").middle == 1.0
    assert over_best(pages({"served": 1.3, "fast": 1.0}, 8), "served").middle == pytest.approx(
        1.3, rel=0.02
    )


@pytest.mark.parametrize(("count", "left_out"), [(2, 0), (5, 0), (8, 1), (16, 4)])
def test_the_interval_leaves_out_as_many_pages_as_chance_allows(count: int, left_out: int) -> None:
    found = TimesOver.of([1 + n / 100 for n in range(count)])
    assert found.low == 1 + left_out / 100
    assert found.high == 1 + (count - 1 - left_out) / 100


def test_the_interval_holds_the_true_median_as_often_as_it_says() -> None:
    chance = Random(2)
    drawn = [TimesOver.of([chance.gauss(1, 0.1) for _ in range(8)]) for _ in range(2000)]
    held = sum(each.low <= 1 <= each.high for each in drawn) / len(drawn)
    assert 0.91 < held < 0.95
