"""A transposition for GPUs, square by square through workgroup memory: its settings and its nest.

Threads side by side read a row of the square and write a row of it turned. Rows in workgroup memory
are one element longer, so that what lies below one another is in different banks.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, loop, under, unrolled
from services.tuner.ir.nodes import (
    Allocate,
    Barrier,
    Block,
    Bound,
    Buffer,
    Load,
    LoopKind,
    Program,
    Scope,
    Store,
)
from services.tuner.schedules.base.limits import required
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.settings import FamilyName, Settings, webgpu_candidate
from services.tuner.schedules.elementwise.webgpu_config import THREADS

SIDES = (8, 16, 32, 64)
MOST_STEPS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SquareConfig:
    """A workgroup of `threads` turns a square of `side` x `side`."""

    family: ClassVar = FamilyName.TRANSPOSE
    side: int
    threads: int

    @classmethod
    def of(cls, candidate: Candidate) -> Self:
        """Raises InvalidSchedule for a config that is no schedule of its workload."""
        settings = Settings(candidate, cls, TargetKind.WEBGPU)
        config = cls(side=settings.whole("side"), threads=settings.whole("threads"))
        settings.refuse_fault(config.fault())
        settings.refuse_features(config.requires(candidate.workload))
        return config

    @property
    def rows(self) -> int:
        """Of the square at once."""
        return self.threads // self.side

    @property
    def elements(self) -> int:
        """Of workgroup memory."""
        return self.side * (self.side + 1)

    def requires(self, workload: Workload) -> tuple[str, ...]:
        shared_bytes = DType.F32.size_bytes * self.elements
        return required(workload, threads=self.threads, workgroup_bytes=shared_bytes)

    def candidate(self, workload: Workload) -> Candidate:
        return webgpu_candidate(workload, self, self.requires(workload))

    def fault(self) -> str:
        """What makes the config unusable, or ''."""
        if self.side not in SIDES or self.threads not in THREADS:
            return (
                f"side={self.side} must be one of {', '.join(map(str, SIDES))} and "
                f"threads={self.threads} one of {', '.join(map(str, THREADS))}"
            )
        if not 1 <= self.rows <= self.side or self.side // self.rows > MOST_STEPS:
            return f"threads={self.threads} must be 1 to {self.side} rows of a square"
        return ""


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = square_programs(candidate.workload, SquareConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def square_programs(workload: Workload, config: SquareConfig) -> tuple[Program, ...]:
    """From a[m, n] to c[n, m], in one dispatch."""
    a, c = parameters_of(workload)
    m, n, side = workload.extent["m"], workload.extent["n"], config.side
    shared = Buffer(name="square", scope=Scope.WORKGROUP, dtype=DType.F32, size=config.elements)
    down, across = -(-m // side), -(-n // side)
    frame = Frame()
    group = frame.variable("group", down * across)
    top, left = (at.times(side) for at in frame.digits(group, (("down", down), ("across", across))))
    thread = frame.variable("thread", config.threads)
    own, lane = frame.digits(thread, (("own", config.rows), ("lane", side)))
    frame.variable("step", side // config.rows)
    row = own.plus(Affine.of(0, {"step": config.rows}))
    kept, turned = (one.times(side + 1).plus(other) for one, other in ((row, lane), (lane, row)))

    def moved(outer: Affine, inner: Affine, sizes: tuple[int, int], store: Store) -> Block:
        limits = zip((outer, inner), sizes, strict=True)
        bounds = frame.open(Bound(index=index, limit=size) for index, size in limits)
        return (unrolled("step", side // config.rows, *under(bounds, (store,))),)

    source = Load(buffer=a, index=top.plus(row).times(n).plus(left).plus(lane))
    into = Store(buffer=shared, index=kept, value=source)
    place = left.plus(row).times(m).plus(top).plus(lane)
    out = Store(buffer=c, index=place, value=Load(buffer=shared, index=turned))
    body = (
        *moved(top.plus(row), left.plus(lane), (m, n), into),
        Barrier(),
        *moved(left.plus(row), top.plus(lane), (n, m), out),
    )
    threads = loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.around(body))
    held = (Allocate(buffer=shared, body=(threads,)),)
    return (Program(parameters=(a, c), body=loop("group", down * across, LoopKind.RANGE, held)),)
