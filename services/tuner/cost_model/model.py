"""The cost model: gradient-boosted trees (XGBoost) that rank candidates on one device."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate
from typing import Self

import numpy as np
import xgboost
from numpy.typing import NDArray

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from services.tuner.cost_model.dataset import ProbedDevice, Race, Seen
from services.tuner.cost_model.features import Columns, features, target_column

_SEEN = "kernelzoo.seen"
OUTLIER = 2.0
"""Labels are limited by so many powers of two: they are clipped at four times slower or faster than
the median of a race. What lies beyond was disturbed, or is out of the question."""
THREADS = 1
"""More threads would sum in another order, and the bytes of a model would depend on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hyperparameters:
    """Settings of XGBoost. `python -m bench.crowd.cost_model` compares some on held-out races."""

    objective: str = "reg:squarederror"
    rounds: int = 200
    depth: int = 6
    least_weight: int = 5

    def xgboost(self) -> dict[str, str | int | float]:
        ranking: dict[str, str | int | float] = {
            "lambdarank_pair_method": "mean",
            "lambdarank_num_pair_per_sample": 8,
        }
        return {
            "objective": self.objective,
            "max_depth": self.depth,
            "min_child_weight": self.least_weight,
            "eta": 0.06,
            "subsample": 0.8,
            "colsample_bytree": 0.6,
            "tree_method": "hist",
            "nthread": THREADS,
            "seed": 1,
            **(ranking if self.objective.startswith("rank:") else {}),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CostModel:
    """`body` is the model as XGBoost serialises it (UBJSON), with what it was trained on."""

    body: bytes
    columns: Columns
    seen: Seen
    _booster: xgboost.Booster

    @classmethod
    def read(cls, body: bytes) -> Self:
        """`body` must be made by `train`: XGBoost does not validate what it reads."""
        booster = xgboost.Booster({"nthread": THREADS}, model_file=bytearray(body))
        seen = json.loads(booster.attr(_SEEN) or "{}")
        return cls(
            body=body,
            columns=Columns(tuple(booster.feature_names or ())),
            seen=Seen(devices=frozenset(seen["devices"]), shapes=frozenset(seen["shapes"])),
            _booster=booster,
        )

    @property
    def version(self) -> str:
        """SHA-256 of the body, 64 hex digits."""
        return sha256(self.body).hexdigest()

    def knows(self, target: TargetKind) -> bool:
        """Returns whether it was trained on devices of this target."""
        return target_column(target) in self.columns.names

    def costs(self, candidates: Sequence[Candidate], device: ProbedDevice) -> tuple[float, ...]:
        """Predicted costs: log2 of times, which compare for one workload on one device only."""
        matrix = self.columns.matrix([features(candidate, device) for candidate in candidates])
        merits = self._booster.inplace_predict(matrix)
        return tuple(-float(merit) for merit in merits)

    def order(self, candidates: Sequence[Candidate], device: ProbedDevice) -> tuple[Candidate, ...]:
        """The probably fastest first; equal costs, and an unknown target, keep the given order."""
        ranked = self.ranked(candidates, device)
        return tuple(candidates) if ranked is None else tuple(each for each, _ in ranked)

    def ranked(
        self, candidates: Sequence[Candidate], device: ProbedDevice
    ) -> tuple[tuple[Candidate, float], ...] | None:
        """Ranks candidates with their costs, the probably fastest first; None for an unknown
        target."""
        if not self.knows(device.target):
            return None
        costs = self.costs(candidates, device)
        return tuple(sorted(zip(candidates, costs, strict=True), key=lambda each: each[1]))


def train(races: Sequence[Race], parameters: Hyperparameters = Hyperparameters()) -> CostModel:
    """Trains a model, whose bytes are equal for equal races in equal order."""
    rows = [features(each.candidate, race.device) for race in races for each in race.observations]
    columns = Columns(tuple(sorted({name for row in rows for name in row})))
    matrix = xgboost.DMatrix(
        columns.matrix(rows),
        label=np.concatenate([_labels(race) for race in races]),
        qid=np.repeat(np.arange(len(races)), [len(race.observations) for race in races]),
        feature_names=list(columns.names),
        nthread=THREADS,
    )
    booster = xgboost.train(parameters.xgboost(), matrix, num_boost_round=parameters.rounds)
    seen = Seen.of(races)
    booster.set_attr(
        **{_SEEN: json.dumps({"devices": sorted(seen.devices), "shapes": sorted(seen.shapes)})}
    )
    return CostModel.read(bytes(booster.save_raw("ubj")))


def _labels(race: Race) -> NDArray[np.float64]:
    """log2 of how much faster than the median of its race each candidate is, clipped.

    Relative to the race, so that the model learns nothing about how fast races are as such. The
    labels are shifted to start at 0, as ranking objectives of XGBoost want them.
    """
    octaves = np.log2([each.relative_time for each in race.observations])
    return np.asarray(np.clip(np.median(octaves) - octaves, -OUTLIER, OUTLIER) + OUTLIER)


OUTSIDERS = 3
"""Places among the first eight, which are one lease, that claims of other tuners may take."""


def evaluation_order(
    ranked: Sequence[str], outside: Mapping[str, float], *, most: int = OUTSIDERS
) -> tuple[str, ...]:
    """Candidate ids in the order in which a device measures them.

    `ranked` is the order of the model. `outside` are relative times that other tuners claim: the
    `most` fastest of those candidates move to the second place and the places after it. Forged
    claims can waste three measurements of a lease. They cannot keep a kernel from being measured,
    nor have one served.
    """
    first, *rest = ranked
    claimed = sorted((each for each in rest if each in outside), key=outside.__getitem__)[:most]
    return (first, *claimed, *(each for each in rest if each not in claimed))


def costs_in_order(order: Sequence[str], costs: Mapping[str, float]) -> list[float]:
    """Foretells the cost of each candidate, in the order in which they are measured. Of one that
    others claim to be fast no more than of the next, so that who sorts by costs keeps the order.
    """
    return list(accumulate((costs[each] for each in reversed(order)), min))[::-1]
