"""A trained model: boosted trees whose sum orders the candidates of one workload on one device."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

import numpy as np
import xgboost
from numpy.typing import NDArray

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from services.tuner.cost_model.features import Columns, features, kind_column
from services.tuner.cost_model.heldout import Seen
from services.tuner.cost_model.observation import ProbedDevice, Race

_SEEN = "kernelzoo.seen"
OUTLIER = 2.0
"""Four times slower or faster than the middle: what lies beyond was disturbed, or is hopeless."""
THREADS = 1
"""Sums in another order round otherwise; the bytes of a model must not depend on the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """What XGBoost is told. `python -m bench.cost_model` compares some on held-out races."""

    objective: str = "reg:squarederror"
    rounds: int = 200
    depth: int = 6
    least_weight: int = 5

    def parameters(self) -> dict[str, str | int | float]:
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
    """`body` is what is stored; `version` its hash."""

    body: bytes
    columns: Columns
    seen: Seen
    _booster: xgboost.Booster

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Only bytes that `train` made: XGBoost trusts what it reads."""
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
        """64 hex digits."""
        return sha256(self.body).hexdigest()

    def knows(self, kind: TargetKind) -> bool:
        """Whether it has learned from devices of this target."""
        return kind_column(kind) in self.columns.names

    def costs(self, candidates: Sequence[Candidate], device: ProbedDevice) -> tuple[float, ...]:
        """Lower is better. Comparable for one workload on one device only."""
        matrix = self.columns.matrix([features(candidate, device) for candidate in candidates])
        merits = self._booster.inplace_predict(matrix)
        return tuple(-float(merit) for merit in merits)

    def order(self, candidates: Sequence[Candidate], device: ProbedDevice) -> tuple[Candidate, ...]:
        """The likely fastest first; among equals, and for a target unknown, the order given."""
        if not self.knows(device.kind):
            return tuple(candidates)
        costs = self.costs(candidates, device)
        ranked = sorted(range(len(candidates)), key=costs.__getitem__)
        return tuple(candidates[position] for position in ranked)


def train(races: Sequence[Race], recipe: Recipe = Recipe()) -> CostModel:
    """The same races in the same order give the same bytes."""
    rows = [features(each.candidate, race.device) for race in races for each in race.observations]
    columns = Columns(tuple(sorted({name for row in rows for name in row})))
    matrix = xgboost.DMatrix(
        columns.matrix(rows),
        label=np.concatenate([_merits(race) for race in races]),
        qid=np.repeat(np.arange(len(races)), [len(race.observations) for race in races]),
        feature_names=list(columns.names),
        nthread=THREADS,
    )
    booster = xgboost.train(recipe.parameters(), matrix, num_boost_round=recipe.rounds)
    seen = Seen.of(races)
    booster.set_attr(
        **{_SEEN: json.dumps({"devices": sorted(seen.devices), "shapes": sorted(seen.shapes)})}
    )
    return CostModel.read(bytes(booster.save_raw("ubj")))


def _merits(race: Race) -> NDArray[np.float64]:
    """Octaves by which each candidate beats the median of its race, from `-OUTLIER` to `OUTLIER`,
    above 0 as ranking objectives want them. What race it is, is thereby nothing to learn."""
    octaves = np.log2([each.relative_time for each in race.observations])
    return np.asarray(np.clip(np.median(octaves) - octaves, -OUTLIER, OUTLIER) + OUTLIER)
