"""The settings of a kernel whose threads each make a few entries, from the operator as stated.

Any operator may be computed so, however many passes over memory it takes: a program of several loop
nests becomes several dispatches.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.passes.thread_binding import Stride
from services.tuner.schedules.base.limits import WORKGROUP_THREADS, required
from services.tuner.schedules.base.settings import Settings, webgpu_candidate

MAX_VECTORS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuElementwiseConfig:
    """`threads` to a workgroup; each makes four neighbours at once where `wide` and possible, and
    does so `vectors` times, a `stride` apart."""

    family: ClassVar = "elementwise"
    threads: int
    vectors: int
    wide: bool
    stride: Stride = Stride.BLOCK

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        settings = Settings(candidate, cls, TargetKind.WEBGPU)
        config = settings.config
        settings.refuse_fault(config.fault())
        settings.refuse_features(config.requires(candidate.workload))
        return config

    def fault(self) -> str:
        """What makes the config unusable, or ''."""
        if self.threads not in WORKGROUP_THREADS:
            return f"threads={self.threads} must be one of {', '.join(map(str, WORKGROUP_THREADS))}"
        if not 1 <= self.vectors <= MAX_VECTORS:
            return f"vectors={self.vectors} must be from 1 to {MAX_VECTORS}"
        return ""

    def workgroup_bytes_for(self, _: Workload) -> int:
        return 0

    def requires(self, workload: Workload) -> tuple[str, ...]:
        return required(workload, threads=self.threads)

    def candidate(self, workload: Workload) -> Candidate:
        return webgpu_candidate(workload, self, self.requires(workload))
