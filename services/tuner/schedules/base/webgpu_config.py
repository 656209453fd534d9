"""Settings of all families for WebGPU do this alike: they are read, held to their workload, and
made into a candidate."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule
from services.tuner.schedules.base.limits import required
from services.tuner.schedules.base.settings import CandidateSettings, webgpu_candidate


class Cache(StrEnum):
    """Threads read a in one of these ways: from storage, or through workgroup memory, where blocks
    of it lie in rows or transposed, so that one k of four rows is one vector."""

    NONE = "none"
    ROWS = "rows"
    TRANSPOSED = "transposed"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuConfig(ABC):
    """Settings of one family for WebGPU; a family adds a field for each of them."""

    family: ClassVar[str]

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        settings = CandidateSettings(candidate, cls, TargetKind.WEBGPU)
        config = settings.config
        settings.refuse_fault(config.fault(candidate.workload))
        settings.refuse_features(config.requires(candidate.workload))
        return config

    @abstractmethod
    def fault(self, workload: Workload) -> str:
        """Says what makes the config unusable, or ''. Every check is cheap: nothing is compiled
        yet."""

    if TYPE_CHECKING:
        # A setting of some families, and of others a property that their settings give.
        @property
        def threads(self) -> int: ...

    def requires(self, workload: Workload) -> tuple[str, ...]:
        """Features of the target, sorted. Raises InvalidSchedule for more than any step of a
        limit."""
        return required(
            workload,
            threads=self.threads,
            workgroup_bytes=self.workgroup_bytes_for(workload),
            subgroups=getattr(self, "subgroups", False),
        )

    def fits(self, workload: Workload) -> bool:
        """Returns whether some adapter has what the kernel requires."""
        try:
            self.requires(workload)
        except InvalidSchedule:
            return False
        return True

    def workgroup_bytes_for(self, _: Workload, /) -> int:
        """Bytes of workgroup memory of the kernel; none, unless a family says how many."""
        return 0

    def statements(self, _: Workload) -> int:
        """Statements of a thread that a driver has to compile, of families that have many: others
        have 350 at most, and `passes/if_conversion.py` sees to it that none has a loop with too
        many decisions in a row."""
        return 0

    def candidate(self, workload: Workload) -> Candidate:
        """Raises InvalidSchedule for more than any step of a limit."""
        return webgpu_candidate(workload, self, self.requires(workload))
