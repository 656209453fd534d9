"""Serves what a page needs to measure whole spaces: leases as an agent is lent them, and their
kernels."""

from collections import ChainMap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from bench.kernels import page_lease
from bench.kernels.page_lease import CompiledKernel, compiled, lease
from bench.report import CannotMeasure
from bench.site import PAGE
from fixtures import recorded
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.gateway.wire.leases import Lease
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space

WORKLOADS = Path(recorded.__file__).parent / "workloads.txt"
FILES = ("race.html", "race.js")
AT_ONCE = 8
"""Candidates of a lease, as an agent asks for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSpace:
    """A compiled lite space."""

    workload: Workload
    candidates: tuple[Candidate, ...]
    compiled: tuple[CompiledKernel, ...]

    @property
    def name(self) -> str:
        return self.workload.key

    @classmethod
    def of(cls, workload: Workload) -> Self:
        space = lite_space(workload, TargetKind.WASM)
        made = tuple(compiled(each, compile_candidate(each)) for each in space)
        return cls(workload=workload, candidates=space, compiled=made)

    @property
    def files(self) -> Mapping[str, bytes]:
        """Artifacts by path."""
        pairs = zip(self.candidates, self.compiled, strict=True)
        return dict(ChainMap(*(page_lease.files(*pair) for pair in pairs)))

    @property
    def reference(self) -> CompiledKernel:
        """The first candidate that every browser can run."""
        return next(each for each in self.compiled if each.kernel.requires == ["simd128"])

    @property
    def leases(self) -> Iterator[Lease]:
        for first in range(0, len(self.compiled), AT_ONCE):
            yield lease(self, self.reference, self.compiled[first : first + AT_ONCE])


def spaces() -> tuple[RecordedSpace, ...]:
    return tuple(RecordedSpace.of(Workload.parse(key)) for key in WORKLOADS.read_text().split())


def files(every: tuple[RecordedSpace, ...]) -> dict[str, bytes]:
    """By path from the folder. Raises CannotMeasure when the page has not been built."""
    if not (PAGE / "dist" / "race.js").is_file():
        raise CannotMeasure("race.js is missing; run `make bench-page`")
    found = {name: (PAGE / "dist" / name).read_bytes() for name in FILES}
    for space in every:
        found |= {path.lstrip("/"): body for path, body in space.files.items()}
    leases = [each.model_dump(mode="json") for space in every for each in space.leases]
    return found | {"leases.json": msgspec.json.encode(leases)}
