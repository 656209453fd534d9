"""Computes what a served kernel loses, told apart from the noise of what it is compared with.

The fastest of thirty kernels that were each timed with some noise was lucky, and no other looks as
good beside it. So where a device measured its space several times, the fastest is taken from one
half of the passes and compared in the other: *fresh* regrets, in which luck has no part, and which
are too small by what the half's fastest itself loses. Regrets *as measured*, over the fastest of
all passes, are too great by its luck. The truth is between them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median, quantiles

from services.tuner.cost_model.dataset import Race

Times = Mapping[str, float]
"""By candidate id, in a unit that one race shares."""

RESAMPLED = 2_000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """A served kernel takes so much longer than the fastest: 0.1 is a tenth."""

    fresh: float
    measured: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """The times of a race: `all` its passes, and two halves of them; none where nothing is
    noise."""

    all: Times
    halves: tuple[Times, ...] = ()

    @property
    def known(self) -> frozenset[str]:
        """The candidates that every half has."""
        return frozenset(self.all).intersection(*self.halves)

    def regret(self, candidate_id: str) -> Regret:
        """The regret of a known candidate."""
        measured = _regret(self.all, self.all, candidate_id)
        if len(self.halves) < 2:
            return Regret(fresh=measured, measured=measured)
        one, other = self.halves
        fresh = fmean((_regret(one, other, candidate_id), _regret(other, one, candidate_id)))
        return Regret(fresh=fresh, measured=measured)


def _regret(choosing: Times, comparing: Times, candidate_id: str) -> float:
    fastest = min((each for each in choosing if each in comparing), key=choosing.__getitem__)
    return comparing[candidate_id] / comparing[fastest] - 1


def times(race: Race) -> Times:
    """Relative times of what one device measured of a workload."""
    return {each.candidate.candidate_id: each.relative_time for each in race.observations}


def interval(clusters: Sequence[Sequence[float]]) -> tuple[float, float]:
    """A 95 % interval of the mean, by bootstrap over `clusters`: what one device class, or one
    shape, was served is alike, and counting its answers one by one would promise too much."""
    chance = Random(1)
    means = [_mean_of(chance.choices(clusters, k=len(clusters))) for _ in range(RESAMPLED)]
    cuts = quantiles(means, n=round(2 / (1 - CONFIDENCE)), method="inclusive")
    return cuts[0], cuts[-1]


def _mean_of(clusters: Sequence[Sequence[float]]) -> float:
    return fmean(value for cluster in clusters for value in cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Describes how regrets are distributed."""

    mean: float
    median: float
    p95: float

    @classmethod
    def of(cls, regrets: Sequence[float]) -> "Spread":
        if len(regrets) == 1:
            return cls(mean=regrets[0], median=regrets[0], p95=regrets[0])
        p95 = quantiles(regrets, n=20, method="inclusive")[-1]
        return cls(mean=fmean(regrets), median=median(regrets), p95=p95)
