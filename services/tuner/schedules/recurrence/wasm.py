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

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Stage, number
from kernelzoo.domain.operators.recurrence import StepProduct
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.recurrence.config import WasmRecurrenceConfig
from services.tuner.schedules.recurrence.nests import SLICE, Held, Recurrence
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
        frame=ir.Frame(),
    )
    body = _RecurrenceNest(recurrence=recurrence, config=config, scratch=scratch).body()
    program = ir.program(tuple(recurrence.parameters.values()), SLICE, recurrence.slices, body)
    return ScheduledProgram(nests=(program,), options=PassOptions(fma=config.fma, vectors=1))


@dataclass(frozen=True, slots=True)
class _Scratch:
    """Scratch memory of one slice."""

    buffers: list[ir.Buffer] = field(default_factory=list)

    def hold(self, name: str, dtype: DType, size: int) -> Held:
        buffer = ir.scratch(name, size, dtype)
        self.buffers.append(buffer)
        return Held(buffer=buffer)


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecurrenceNest:
    recurrence: Recurrence
    config: WasmRecurrenceConfig
    scratch: _Scratch

    def body(self) -> ir.Block:
        recurrence = self.recurrence
        packing: list[ir.Statement] = []
        made: list[ir.Statement] = []
        for stage in recurrence.program.stages:
            product = recurrence.product(stage)
            if product is None:
                made += recurrence.nest(stage)
            else:
                before, step = self._product(stage, product)
                packing += before
                made += step
        entry = ir.variable("entry")
        for count, copied in recurrence.copies():
            made += ir.serial("entry", count, (copied(entry),))
        body = (*packing, *recurrence.over_steps(tuple(made)))
        return recurrence.frame.enclose(ir.allocated(self.scratch.buffers, body))

    # Steps 1 and 2: products, by blocks of columns; the last block may be narrower.

    def _product(self, stage: Stage, product: StepProduct) -> tuple[ir.Block, ir.Block]:
        """Returns what packs the weights, and what makes the stage in a step."""
        recurrence, vectors = self.recurrence, self.config.vectors
        entering, made = recurrence.entering(stage, product)
        k, n = number(product.k.extent), number(product.n[0].extent)
        blocks, rest = divmod(n, ir.LANES * vectors)
        weights = recurrence.parameters[product.weights]
        first = recurrence.weights_place(product)
        packs = self.config.packs or n % ir.LANES > 0
        packing: list[ir.Statement] = []
        step = list(made)
        for name, place, count, columns in (
            ("columns", 0, blocks, ir.LANES * vectors),
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
    ) -> ir.Block:
        rows, vectors = self.config.rows, whole.vectors
        sums = ir.tile("sums", rows, vectors)
        unrolled = next(n for n in UNROLLED_K if whole.k % n == 0)
        block, part = ir.variable("block"), ir.variable("part")
        products = []
        for at in range(unrolled):
            k = part * unrolled + at
            for row in range(rows):
                value = ir.splat(entering[row * whole.k + k])
                for vector in range(vectors):
                    place = whole.place(block, k, ir.LANES * vector, packed=packed_columns)
                    weight = weights.vector(place)
                    products.append(sums.add((row, vector), value * weight))
        body: ir.Block = (
            *sums.fill(0.0),
            *ir.serial("part", whole.k // unrolled, tuple(products)),
            *whole.stored(sums, self.recurrence.held[f"{stage.name}.now"], block, rows),
        )
        return ir.serial("block", whole.blocks, ir.allocated((sums,), body))


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
        return -(-self.columns // ir.LANES)

    @property
    def packed_entries(self) -> int:
        return self.blocks * self.k * self.vectors * ir.LANES

    def place(self, block: ir.Affine, k: ir.Affine, column: int, *, packed: bool) -> ir.Affine:
        """The place of a column of a block in the weights, as they are packed or as they are."""
        width = self.vectors * ir.LANES
        if packed:
            return block * (self.k * width) + k * width + column
        return k * self.n + block * self.columns + self.first + column

    def packed(self, source: Held, target: Held) -> ir.Block:
        """The copy, with zeros in columns that there are none of."""
        block, k, column = map(ir.variable, ("block", "k", "column"))

        def store(at: ir.Affine, column: int) -> ir.Store:
            index = self.place(block, k, column, packed=True) + at
            return target.store(index, source[self.place(block, k, column, packed=False) + at])

        zeros = tuple(
            target.store(self.place(block, k, more, packed=True), 0.0)
            for more in range(self.columns, self.vectors * ir.LANES)
        )
        columns = ir.serial("column", self.columns, (store(column, 0),))
        return ir.serial("block", self.blocks, ir.serial("k", self.k, (*columns, *zeros)))

    def stored(self, sums: ir.Tile, target: Held, block: ir.Affine, rows: int) -> ir.Block:
        made: list[ir.Store] = []
        for row in range(rows):
            for vector in range(self.vectors):
                column = ir.LANES * vector
                place = block * self.columns + row * self.n + self.first + column
                lanes = min(ir.LANES, self.columns - column)
                value = sums[row, vector]
                if lanes == ir.LANES:
                    made.append(target.store(place, value))
                    continue
                made += (target.store(place + lane, value.extract(lane)) for lane in range(lanes))
        return tuple(made)
