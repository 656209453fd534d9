"""One point of a lite space: a workload, a target and the settings of each primitive."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload

Setting = int | bool | str

FAMILY = "family"
"""The setting of a config that names the schedule family which reads the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """`config` is sorted by name. `requires` are the target features its code uses."""

    workload: Workload
    target: TargetKind
    config: tuple[tuple[str, Setting], ...]
    requires: tuple[str, ...]

    @property
    def family(self) -> str:
        """The schedule family that the config names; '' where it names none."""
        return str(dict(self.config).get(FAMILY, ""))

    @property
    def candidate_id(self) -> str:
        """32 hex digits, equal for equal candidates on every machine."""
        return candidate_id(self.workload.key, self.target, dict(self.config))


def candidate_id(workload_key: str, target: TargetKind, config: Mapping[str, Setting]) -> str:
    """The id that a candidate has, without knowing what its workload computes."""
    text = json.dumps([workload_key, target, dict(config)], sort_keys=True)
    return sha256(text.encode()).hexdigest()[:32]
