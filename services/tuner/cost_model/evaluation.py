"""Measures how well a model ranks: what it costs to trust its order instead of measuring
everything."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from services.tuner.cost_model.dataset import Race
from services.tuner.cost_model.model import CostModel

SHORTLIST = 5

Costs = Callable[[Race], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Means over races.

    `regret_top1` is by how much the first of the order is slower than the best of the race, and
    `regret_top5` by how much the best of the first five is: 0.1 is a tenth slower. `correlation` is
    Spearman's rank correlation.
    """

    races: int
    correlation: float
    regret_top1: float
    regret_top5: float

    @property
    def loss(self) -> float:
        """The mean regret of serving the first unmeasured, and of measuring a shortlist of five."""
        return (self.regret_top1 + self.regret_top5) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreComparison:
    """A model and its baseline, the order of the lite space (`promise`), on the same races."""

    model: Score
    promise: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Scores on unseen devices and on unseen shapes; None where there are no such races."""

    devices: ScoreComparison | None
    shapes: ScoreComparison | None

    @property
    def comparisons(self) -> tuple[ScoreComparison, ...]:
        return tuple(each for each in (self.devices, self.shapes) if each is not None)

    @property
    def loss(self) -> float:
        """Raises StatisticsError where there were no races to judge on."""
        return fmean(each.model.loss for each in self.comparisons)

    @property
    def promise_loss(self) -> float:
        """The loss of the order of the lite space."""
        return fmean(each.promise.loss for each in self.comparisons)


def evaluate(model: CostModel, devices: Sequence[Race], shapes: Sequence[Race]) -> Evaluation:
    """`devices` are races on unseen devices, `shapes` races of unseen shapes."""

    def compared(races: Sequence[Race]) -> ScoreComparison | None:
        if not races:
            return None
        return ScoreComparison(model=score(races, _costs_by(model)), promise=score(races, _promise))

    return Evaluation(devices=compared(devices), shapes=compared(shapes))


def score(races: Sequence[Race], costs: Costs) -> Score:
    """Scores the order by `costs`, in which equal costs keep the order of the race."""
    figures = [_figures(race, np.asarray(costs(race))) for race in races]
    correlation, top1, top5 = (fmean(column) for column in zip(*figures, strict=True))
    return Score(races=len(races), correlation=correlation, regret_top1=top1, regret_top5=top5)


def _figures(race: Race, costs: NDArray[np.float64]) -> tuple[float, float, float]:
    times = np.asarray([each.relative_time for each in race.observations])
    ranked = times[np.argsort(costs, kind="stable")]
    best = times.min()
    return (
        _spearman(costs, times),
        float(ranked[0] / best - 1),
        float(ranked[:SHORTLIST].min() / best - 1),
    )


def _spearman(costs: ArrayLike, times: ArrayLike) -> float:
    """Rank correlation; 0 where all values of one side are equal."""
    one, other = _ranks(costs), _ranks(times)
    if one.std() == 0 or other.std() == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1; equal values share the mean of their ranks."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def _costs_by(model: CostModel) -> Costs:
    return lambda race: model.costs([each.candidate for each in race.observations], race.device)


def _promise(race: Race) -> Sequence[float]:
    return range(len(race.observations))
