"""How well an order of candidates foretells a race, by what it costs to trust it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from services.tuner.cost_model.model import CostModel
from services.tuner.cost_model.observation import Race

SHORTLIST = 5

Costs = Callable[[Race], Sequence[float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Means over races. A regret is how much longer than the best measured the best of the first
    one, or of the first five, takes: 0.1 is a tenth longer. `correlation` is Spearman's.
    """

    races: int
    correlation: float
    regret_top1: float
    regret_top5: float

    @property
    def loss(self) -> float:
        """Of serving the first unmeasured, and of measuring a shortlist, in equal parts."""
        return (self.regret_top1 + self.regret_top5) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A model beside the order of the lite space on the same races."""

    model: Score
    promise: Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """On devices never seen and on shapes never seen; None where there are none to judge on."""

    devices: Judged | None
    shapes: Judged | None

    @property
    def judged(self) -> tuple[Judged, ...]:
        return tuple(each for each in (self.devices, self.shapes) if each is not None)

    @property
    def loss(self) -> float:
        """Raises StatisticsError where nothing was judged."""
        return fmean(each.model.loss for each in self.judged)

    @property
    def promise_loss(self) -> float:
        """The same of the order of the lite space."""
        return fmean(each.promise.loss for each in self.judged)


def judge(model: CostModel, devices: Sequence[Race], shapes: Sequence[Race]) -> Evaluation:
    """`devices` and `shapes` are races that the model has not seen by that name."""

    def judged(races: Sequence[Race]) -> Judged | None:
        if not races:
            return None
        return Judged(model=score(races, _costs_by(model)), promise=score(races, _promise))

    return Evaluation(devices=judged(devices), shapes=judged(shapes))


def score(races: Sequence[Race], costs: Costs) -> Score:
    """Of the order in which `costs` puts the candidates of each race, equals as they stand."""
    figures = [_of_race(race, np.asarray(costs(race))) for race in races]
    correlation, top1, top5 = (fmean(column) for column in zip(*figures, strict=True))
    return Score(races=len(races), correlation=correlation, regret_top1=top1, regret_top5=top5)


def _of_race(race: Race, costs: NDArray[np.float64]) -> tuple[float, float, float]:
    times = np.asarray([each.relative_time for each in race.observations])
    ranked = times[np.argsort(costs, kind="stable")]
    best = times.min()
    return (
        _spearman(costs, times),
        float(ranked[0] / best - 1),
        float(ranked[:SHORTLIST].min() / best - 1),
    )


def _spearman(costs: ArrayLike, times: ArrayLike) -> float:
    """0 where all are equal: then an order says nothing."""
    one, other = _ranks(costs), _ranks(times)
    if one.std() == 0 or other.std() == 0:
        return 0.0
    return float(np.corrcoef(one, other)[0, 1])


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    """From 1; equals share the mean of their places."""
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[places])


def _costs_by(model: CostModel) -> Costs:
    return lambda race: model.costs([each.candidate for each in race.observations], race.device)


def _promise(race: Race) -> Sequence[float]:
    return range(len(race.observations))
