"""Recurrences for wasm: a slice makes all its steps, one after another.

Shapes, named by the settings of `WasmRecurrenceConfig`:

    range     slices: rows of the outer axes
    entering  [rows, k]                     what a product takes in a step
    packed    [k, 4 · vectors] for each block of columns, with `packs`

    packed[…] = weights[…]                                       1. once a slice
    for step < steps:
      entering[row, k] = what the stage multiplies               2. a product
      for block < columns / (4 · vectors):
        sums[rows · vectors] += entering[row, k] · packed[block, k, …]    for k
        s.now[row, …] = sums[…]
      h.now[row, j] = …                                          3. any other stage, in vectors
      c[step, …] = h.now[…], h.before[…] = h.now[…]              4.
"""

from dataclasses import dataclass, field
from typing import Any

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Stage, number
from kernelzoo.domain.operators.recurrence import StepProduct
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    Frame,
    constant,
    f32_buffer,
    loop,
    numbers,
    plus,
    serial,
    splat,
    store_vector,
    times,
    total,
    vector_at,
)
from services.tuner.ir.build import number as constant_value
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Block,
    Buffer,
    ExtractLane,
    Load,
    LoopKind,
    Program,
    Scope,
    Store,
)
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.recurrence.config import WasmRecurrenceConfig
from services.tuner.schedules.recurrence.nests import (
    SLICE,
    Held,
    Recurrence,
    allocated,
)
from services.tuner.schedules.recurrence.slices import held_entries

UNROLLED_K = (4, 2, 1)


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmRecurrenceConfig.of(candidate)
    scratch = _Scratch()
    recurrence = Recurrence(
        workload=candidate.workload,
        rows=config.rows,
        held={
            name: scratch.hold(name, dtype, size)
            for name, (dtype, size) in held_entries(candidate.workload.program, config.rows).items()
        },
        frame=Frame(),
    )
    body = _Nest(recurrence=recurrence, config=config, scratch=scratch).body()
    program = Program(
        parameters=tuple(recurrence.parameters.values()),
        body=loop(SLICE, recurrence.slices, LoopKind.RANGE, body),
    )
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma, vectors=1))


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Scratch memory of one slice."""

    buffers: list[Buffer] = field(default_factory=list)

    def hold(self, name: str, dtype: DType, size: int) -> Held:
        buffer = Buffer(name=name, scope=Scope.GLOBAL, dtype=dtype, size=size)
        self.buffers.append(buffer)
        return Held(buffer=buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Nest:
    recurrence: Recurrence
    config: WasmRecurrenceConfig
    scratch: _Scratch

    def body(self) -> Block:
        recurrence = self.recurrence
        packing: list[Any] = []
        made: list[Any] = []
        for stage in recurrence.program.stages:
            product = recurrence.product(stage)
            if product is None:
                made += recurrence.nest(stage)
            else:
                before, step = self._product(stage, product)
                packing += before
                made += step
        entry = Affine.variable("entry")
        for count, copied in recurrence.copies():
            made += serial("entry", count, (copied(entry),))
        body = (*packing, *recurrence.over_steps(tuple(made)))
        return recurrence.frame.enclose(allocated(self.scratch.buffers, body))

    # Steps 1 and 2: products, by blocks of columns; the last block may be narrower.

    def _product(self, stage: Stage, product: StepProduct) -> tuple[Block, Block]:
        """What packs the weights, and what makes the stage in a step."""
        recurrence, vectors = self.recurrence, self.config.vectors
        entering, made = recurrence.entering(stage, product)
        k, n = number(product.k.extent), number(product.n[0].extent)
        blocks, rest = divmod(n, LANES * vectors)
        weights = recurrence.parameters[product.weights]
        first = recurrence.weights_place(product)
        packs = self.config.packs or n % LANES > 0
        packing: list[Any] = []
        step = list(made)
        for name, place, count, columns in (
            ("columns", 0, blocks, LANES * vectors),
            ("last", n - rest, 1 if rest else 0, rest),
        ):
            if not count:
                continue
            whole = _Columns(first=place, blocks=count, columns=columns, k=k, n=n)
            source = Held(buffer=weights, first=first)
            if packs:
                packed = self.scratch.hold(f"{stage.name}.{name}", DType.F32, whole.packed_entries)
                packing += whole.packed(source, packed)
                step += self._sums(stage, whole, entering, packed, packed_columns=True)
            else:
                step += self._sums(stage, whole, entering, source, packed_columns=False)
        return tuple(packing), tuple(step)

    def _sums(
        self,
        stage: Stage,
        whole: "_Columns",
        entering: Held,
        weights: Held,
        *,
        packed_columns: bool,
    ) -> Block:
        rows, vectors = self.config.rows, whole.vectors
        sums = f32_buffer("sums", rows * vectors * LANES, Scope.LOCAL)
        unrolled = next(n for n in UNROLLED_K if whole.k % n == 0)
        block, part = Affine.variable("block"), Affine.variable("part")
        products = []
        for at in range(unrolled):
            k = part.times(unrolled).plus(constant(at))
            for row in range(rows):
                index = entering.at(constant(row * whole.k).plus(k))
                value = splat(Load(buffer=entering.buffer, index=index))
                for vector in range(vectors):
                    place = whole.place(block, k, LANES * vector, packed=packed_columns)
                    weight = Load(buffer=weights.buffer, index=weights.at(place), lanes=LANES)
                    own = row * vectors + vector
                    more = plus(vector_at(sums, own), times(value, weight))
                    products.append(store_vector(sums, own, more))
        body: Block = (
            *(store_vector(sums, own, numbers(0.0)) for own in range(rows * vectors)),
            *serial("part", whole.k // unrolled, tuple(products)),
            *whole.stored(sums, self.recurrence.held[f"{stage.name}.now"], block, rows),
        )
        return serial("block", whole.blocks, (Allocate(buffer=sums, body=body),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Columns:
    """`blocks` of so many `columns` of weights [k, n], from column `first` on."""

    first: int
    blocks: int
    columns: int
    k: int
    n: int

    @property
    def vectors(self) -> int:
        return -(-self.columns // LANES)

    @property
    def packed_entries(self) -> int:
        return self.blocks * self.k * self.vectors * LANES

    def place(self, block: Affine, k: Affine, column: int, *, packed: bool) -> Affine:
        """The place of a column of a block in the weights, as they are packed or as they are."""
        width = self.vectors * LANES
        if packed:
            return total(block.times(self.k * width), k.times(width), constant(column))
        return total(k.times(self.n), block.times(self.columns), constant(self.first + column))

    def packed(self, source: Held, target: Held) -> Block:
        """The copy, with zeros in columns that there are none of."""
        block, k, column = map(Affine.variable, ("block", "k", "column"))

        def store(at: Affine, column: int) -> Store:
            index = target.at(self.place(block, k, column, packed=True).plus(at))
            place = source.at(self.place(block, k, column, packed=False).plus(at))
            return Store(
                buffer=target.buffer, index=index, value=Load(buffer=source.buffer, index=place)
            )

        zeros = tuple(
            Store(
                buffer=target.buffer,
                index=target.at(self.place(block, k, more, packed=True)),
                value=constant_value(0.0),
            )
            for more in range(self.columns, self.vectors * LANES)
        )
        columns = serial("column", self.columns, (store(column, 0),))
        return serial("block", self.blocks, serial("k", self.k, (*columns, *zeros)))

    def stored(self, sums: Buffer, target: Held, block: Affine, rows: int) -> Block:
        made: list[Store] = []
        for row in range(rows):
            for vector in range(self.vectors):
                own = row * self.vectors + vector
                column = LANES * vector
                place = block.times(self.columns).plus(constant(row * self.n + self.first + column))
                lanes = min(LANES, self.columns - column)
                value = vector_at(sums, own)
                if lanes == LANES:
                    made.append(Store(buffer=target.buffer, index=target.at(place), value=value))
                    continue
                made += (
                    Store(
                        buffer=target.buffer,
                        index=target.at(place.plus(constant(lane))),
                        value=ExtractLane(value=value, lane=lane),
                    )
                    for lane in range(lanes)
                )
        return tuple(made)
