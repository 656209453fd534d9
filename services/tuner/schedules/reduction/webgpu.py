"""The loop nest of operators on rows for GPUs: a team of threads for each row."""

from collections.abc import Callable

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    loop,
    number,
    serial,
    total,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Block,
    Bound,
    Buffer,
    Expression,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.reduction.webgpu_adding import added
from services.tuner.schedules.reduction.webgpu_config import TeamConfig, width_of
from services.tuner.schedules.reduction.webgpu_rowwise import OPERATORS, Stage

FOUR = Affine.variable("four")


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = teams_programs(candidate.workload, TeamConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def teams_programs(workload: Workload, config: TeamConfig) -> tuple[Program, ...]:
    """One dispatch; its parameters are those of the workload, flat."""
    nest = _Nest(workload, config)
    body = nest.body()
    for buffer in nest.local:
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, nest.frame.around(body)),)
    for buffer in nest.shared:
        block = (Allocate(buffer=buffer, body=block),)
    groups = loop("group", nest.groups, LoopKind.RANGE, block)
    return (Program(parameters=nest.parameters, body=groups),)


class _Nest:
    """Owns the buffers that its stages make. A unit is what a thread reads of a row at once."""

    def __init__(self, workload: Workload, config: TeamConfig) -> None:
        extent = workload.extent
        self.m, self.n = extent["m"], extent["n"]
        self.width = width_of(workload)
        self.units = self.n // self.width
        self.steps = -(-self.units // (config.team * config.vectors))
        self.groups = -(-self.m // config.rows)
        self.parameters = parameters_of(workload)
        self.local: list[Buffer] = []
        self.shared: list[Buffer] = []
        self.frame = Frame()
        self._operator = OPERATORS[workload.operator.name]
        self._config = config
        self._place()
        size = config.vectors * self.width
        self._entries = self._buffer("entries", size) if self.steps == 1 else None

    def _place(self) -> None:
        """Threads beyond the last row do what its own threads do, and store nothing."""
        config, frame = self._config, self.frame
        group = frame.variable("group", self.groups)
        thread = frame.variable("thread", config.threads)
        parts = (("own", config.rows), ("lane", config.team))
        self._own, self._lane = frame.digits(thread, parts)
        row = group.times(config.rows).plus(self._own)
        self._exists = (Bound(index=row, limit=self.m),) if frame.most(row) >= self.m else ()
        self._row = frame.clamped("row", row, self.m, 1)

    def body(self) -> Block:
        found: Block = ()
        singles: list[Load] = []
        for place, stage in enumerate(self._operator.stages):
            single, made = self._stage(stage, singles, place)
            found += made
            singles.append(single)
        return (*found, *under(self._exists, self._stored(singles)))

    def _stage(self, stage: Stage, singles: list[Load], place: int) -> tuple[Load, Block]:
        """The one value that a stage makes of a row, and what makes it."""
        part = self._buffer(f"part{place}", self.width)
        start = self._lanes(Store(buffer=part, index=FOUR, value=number(stage.start)))
        each = self._each(lambda v, unit: self._reduced(stage, part, singles, v, unit))
        whole = added(self._config, stage.op, part, f"{place}", self._own, self._lane)
        self.shared += whole.shared
        self.local += whole.local
        own = self._buffer(f"single{place}", 1)
        store = Store(buffer=own, index=ZERO, value=stage.single(whole.value, self.n))
        return Load(buffer=own, index=ZERO), (start, *each, *whole.block, store)

    def _buffer(self, name: str, size: int) -> Buffer:
        made = Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=size)
        self.local.append(made)
        return made

    def _lanes(self, store: Store) -> Statement:
        return vector("four", store) if self.width == LANES else unrolled("four", 1, store)

    def _each(self, body: Callable[[Affine, Affine], Block]) -> Block:
        """The body for each unit of the thread, by its number in a step and in the row."""
        count, team = self._config.vectors, self._config.team
        v = Affine.variable("v")
        unit = total(Affine.of(0, {"step": team * count, "v": team}), self._lane)
        whole = self.steps * team * count == self.units
        inside = () if whole else (Bound(index=unit, limit=self.units),)
        return serial("step", self.steps, (unrolled("v", count, *under(inside, body(v, unit))),))

    def _reduced(
        self, stage: Stage, part: Buffer, singles: list[Load], v: Affine, unit: Affine
    ) -> Block:
        """What the stages before leave of the entries, kept where they fit, and reduced."""
        entry: Expression = self._entry(singles, v, unit)
        kept: Block = ()
        if self._entries is not None:
            here = v.times(self.width).plus(FOUR)
            kept = (self._lanes(Store(buffer=self._entries, index=here, value=entry)),)
            entry = Load(buffer=self._entries, index=here)
        value = binary(stage.op, Load(buffer=part, index=FOUR), stage.term(entry))
        return (*kept, self._lanes(Store(buffer=part, index=FOUR, value=value)))

    def _entry(self, singles: list[Load], v: Affine, unit: Affine) -> Expression:
        """As the stages of `singles` leave it; the last of them has not been applied yet where
        entries are kept."""
        stages = self._operator.stages[: len(singles)]
        if self._entries is not None and singles:
            held = Load(buffer=self._entries, index=v.times(self.width).plus(FOUR))
            return stages[-1].kept(held, singles[-1])
        place = self._row.times(self.n).plus(self._column(unit))
        entry: Expression = Load(buffer=self.parameters[0], index=place)
        for stage, single in zip(stages, singles, strict=True):
            entry = stage.kept(entry, single)
        return entry

    def _column(self, unit: Affine) -> Affine:
        return unit.times(self.width).plus(FOUR)

    def _stored(self, singles: list[Load]) -> Block:
        output = self.parameters[-1]
        result = self._operator.result
        if result is None:
            first = (Bound(index=self._lane, limit=1),) if self._lane.terms else ()
            return under(first, (Store(buffer=output, index=self._row, value=singles[-1]),))

        def body(v: Affine, unit: Affine) -> Block:
            column = self._column(unit)
            of = {b.name: Load(buffer=b, index=column) for b in self.parameters[1:-1]}
            value = result(self._entry(singles, v, unit), of)
            place = self._row.times(self.n).plus(column)
            return (self._lanes(Store(buffer=output, index=place, value=value)),)

        return self._each(body)
