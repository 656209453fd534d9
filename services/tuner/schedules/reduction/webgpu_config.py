"""The settings of one kernel on rows for GPUs: sums, means, norms, softmax."""

from dataclasses import dataclass
from typing import ClassVar, Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.ir.nodes import LANES
from services.tuner.schedules.base.limits import MAX_THREADS, required
from services.tuner.schedules.base.settings import FamilyName, Settings, webgpu_candidate

MAX_VECTORS = 16
FANS = (1, 2, 4, 8, 16, 32)
REDUCTIONS = {"softmax": 2, "layer_norm": 2}
"""How many values of a row follow one from another; of all other operators one."""

SUBGROUPS = "subgroups"


@dataclass(frozen=True, slots=True, kw_only=True)
class TeamConfig:
    """A row is for a `team` of threads, and a workgroup has teams for so many `rows`.

    A thread takes `vectors` of a row at a time, each next to those of its neighbours: a row that
    fits is read once and stays in registers. A team adds its sums up in workgroup memory, `fan` of
    them at a time, or by `subgroups`, where `fan` is 1.
    """

    family: ClassVar = FamilyName.REDUCTION
    team: int
    rows: int
    vectors: int
    fan: int
    subgroups: bool

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        settings = Settings(candidate, cls, TargetKind.WEBGPU)
        config = cls(subgroups=settings.switch(SUBGROUPS), **settings.wholes(SUBGROUPS))
        settings.refuse_fault(config.fault(candidate.workload))
        settings.refuse_features(config.requires(candidate.workload))
        return config

    @property
    def threads(self) -> int:
        return self.team * self.rows

    @property
    def levels(self) -> tuple[int, ...]:
        """Sums of a team that lie in workgroup memory, one level after another."""
        if self.team == 1:
            return ()
        counts = [self.team]
        while not self.subgroups and counts[-1] > self.fan:
            counts.append(max(1, counts[-1] // self.fan))
        return tuple(counts)

    def workgroup_bytes(self, workload: Workload) -> int:
        reductions = REDUCTIONS.get(workload.operator.name, 1)
        return 4 * reductions * self.rows * sum(self.levels)

    def requires(self, workload: Workload) -> tuple[str, ...]:
        shared_bytes = self.workgroup_bytes(workload)
        limits = required(workload, threads=self.threads, workgroup_bytes=shared_bytes)
        return tuple(sorted((*limits, SUBGROUPS))) if self.subgroups else limits

    def candidate(self, workload: Workload) -> Candidate:
        return webgpu_candidate(workload, self, self.requires(workload))

    def fault(self, workload: Workload) -> str:
        """What makes the config unusable, or ''. Every check is cheap: nothing is compiled yet."""
        if min(self.team, self.rows) < 1 or self.threads > MAX_THREADS:
            return f"team={self.team} and rows={self.rows} must be from 1 to {MAX_THREADS} threads"
        if self.team & (self.team - 1):
            return f"team={self.team} must be a power of two"
        if not 1 <= self.vectors <= MAX_VECTORS:
            return f"vectors={self.vectors} must be from 1 to {MAX_VECTORS}"
        if self.fan not in FANS:
            return f"fan={self.fan} must be one of {', '.join(map(str, FANS))}"
        if (self.fan == 1) is not (self.subgroups or self.team == 1):
            return "fan=1 is for subgroups and for teams of one; use 2 or more without, 1 with them"
        if self.team == 1 and self.subgroups:
            return "a team of one has nothing to add up; use subgroups=false"
        if self.team > max(1, workload.extent["n"]) or self.rows > 2 * workload.extent["m"]:
            return f"team={self.team} and rows={self.rows} are more than there is to do"
        return ""


def width_of(workload: Workload) -> int:
    """Neighbours that are read at once: four where every row starts at a vector."""
    return 1 if workload.extent["n"] % LANES else LANES
