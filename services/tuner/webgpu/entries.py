"""The settings of a kernel whose threads each make a few entries, from the operator as stated.

Any operator may be computed so, however many passes over memory it takes: a program of several loop
nests becomes several dispatches.
"""

from dataclasses import asdict, dataclass, fields
from typing import Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.settings import Settings, config_of
from services.tuner.webgpu.limits import required

THREADS = (32, 64, 128, 256)


@dataclass(frozen=True, slots=True, kw_only=True)
class EntriesConfig:
    """`threads` to a workgroup; each makes four neighbours at once where `wide` and possible."""

    threads: int
    wide: bool

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        names = tuple(field.name for field in fields(cls))
        settings = Settings(candidate, names, TargetKind.WEBGPU)
        config = cls(threads=settings.whole("threads"), wide=settings.switch("wide"))
        settings.refuse_fault(config.fault())
        settings.refuse_features(config.requires(candidate.workload))
        return config

    @classmethod
    def describes(cls, candidate: Candidate) -> bool:
        return "wide" in dict(candidate.config)

    def fault(self) -> str:
        """What makes the config unusable, or ''."""
        if self.threads not in THREADS:
            return f"threads={self.threads} must be one of {', '.join(map(str, THREADS))}"
        return ""

    def requires(self, workload: Workload) -> tuple[str, ...]:
        largest = max(tensor.size_bytes for tensor in workload.tensors)
        return required(threads=self.threads, workgroup_bytes=0, binding_bytes=largest)

    def candidate(self, workload: Workload) -> Candidate:
        return Candidate(
            workload=workload,
            kind=TargetKind.WEBGPU,
            config=config_of(asdict(self)),
            requires=self.requires(workload),
        )
