"""The stages of a recurrence as loop nests of one step.

A *slice* is made by itself from the first step to the last: some entries of the *outer* axes, which
stand behind the step in all stages, and along which no stage reads another. What all other axes
have is *inner*. Of a stage only the entries of a step and of the one before are held:

    h[t, d, b, j] = tanh(x[t, b, j] + s[t, d, b, j])          for row < rows:
    s[t, d, b, j] = sum over k of (h[t - 1, d, b, k]            for j < 64: h[64·row + j] =
        if 0 < t else 0.0) * r[d, k, j]                 →         tanh(x[…] + s[64·row + j])

The nest of a stage is what TVM makes of it, given the entries that it reads of others as inputs
without the step, and with its loops over the step and outer axes taken off.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from msgspec.structs import replace as with_fields

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Expression,
    Program,
    Read,
    Stage,
    number,
    parts,
    rebuilt,
)
from kernelzoo.domain.operators.recurrence import (
    StepProduct,
    entering_stage,
    outer_axes,
    reads_step_before,
    step_count,
    step_product,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.operators.lowering import DTYPES, computed
from services.tuner.passes.thread_binding import accumulate_locally
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.places import row_major
from services.tuner.schedules.recurrence.slices import held_entries
from services.tuner.tir.lowering import plain_program
from services.tuner.tir.tvm import te

Known = dict[ir.Bound, bool]
"""Conditions that hold, or do not, where a statement stands: gates ask the same ones again."""
STEP, SLICE, ROW = "step", "slice", "row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """Entries of a slice: those from `first` on of a buffer."""

    buffer: ir.Buffer
    first: ir.Affine = ir.ZERO

    def __getitem__(self, index: ir.Affine) -> ir.Load:
        return self.buffer[self.first + index]

    def vector(self, index: ir.Affine) -> ir.Load:
        return self.buffer.vector(self.first + index)

    def store(self, index: ir.Affine, value: ir.Operand) -> ir.Store:
        return self.buffer.store(self.first + index, value)


@dataclass(frozen=True, kw_only=True)
class Recurrence:
    """The steps of a slice of `rows` neighbours along the last outer axis. `held` is where its
    entries lie, by the names of `held_entries`."""

    workload: Workload
    rows: int
    held: Mapping[str, Held]
    frame: ir.Frame

    @cached_property
    def program(self) -> Program:
        return self.workload.program

    @cached_property
    def outer(self) -> tuple[int, ...]:
        """Extents of the outer axes."""
        return self.program.output.shape[1 : 1 + outer_axes(self.program)]

    @property
    def steps(self) -> int:
        return step_count(self.program)

    @property
    def slices(self) -> int:
        return prod(self.outer) // self.rows

    @cached_property
    def places(self) -> tuple[ir.Affine, ...]:
        """The place of the slice's first row along each outer axis."""
        if not self.outer:
            return ()
        whole = self.frame.variable(SLICE, self.slices)
        *before, last = self.outer
        sizes = (*before, last // self.rows)
        named = [(f"outer{n}", size) for n, size in enumerate(sizes)]
        *found, block = self.frame.delinearize(whole, named)
        return *found, block * self.rows

    @cached_property
    def parameters(self) -> dict[str, ir.Buffer]:
        return {buffer.name: buffer for buffer in parameters_of(self.workload)}

    @property
    def output(self) -> ir.Buffer:
        return self.parameters[self.program.output.name]

    def product(self, stage: Stage) -> StepProduct | None:
        """The product that a stage is, of rows with the weights of a slice."""
        found = step_product(self.program, stage)
        outer = stage.axes[1 : 1 + len(self.outer)]
        if found is None or (*found.batch, *found.m) != outer or len(found.n) != 1:
            return None
        last_of_batch = len(found.batch) == len(outer) > 0
        return None if last_of_batch and self.rows > 1 else found

    def weights_place(self, product: StepProduct) -> ir.Affine:
        """Places the beginning of the slice's weights."""
        k, n = number(product.k.extent), number(product.n[0].extent)
        sizes = [number(axis.extent) for axis in product.batch]
        return row_major(self.places[: len(sizes)], sizes) * (k * n)

    def entering(self, stage: Stage, product: StepProduct) -> tuple[Held, ir.Block]:
        """Returns what a product takes, [rows, k], and what makes it where it is no stage of this
        step."""
        match product.entering:
            case Read(tensor, at) if f"{tensor}.now" in self.held and at == (
                stage.axes[0],
                *product.entering_axes,
            ):
                return self.held[f"{tensor}.now"], ()
        held = self.held[f"{stage.name}.entering"]
        return held, self.nest(entering_stage(stage, product), held)

    def nest(self, stage: Stage, target: Held | None = None) -> ir.Block:
        """Makes the entries of a stage in one step."""
        names = {each.name for each in self.program.stages}
        held = {**self.held, "made": target or self.held[f"{stage.name}.now"]}

        def without_step(part: Expression) -> Expression:
            match rebuilt(part, without_step):
                case Read(tensor, at) as read if tensor in names:
                    when = "before" if reads_step_before(stage, read) else "now"
                    return Read(f"{tensor}.{when}", at[1:])
                case other:
                    return other

        value = without_step(stage.value)
        stated = replace(stage, name="made", value=value)
        block = self._peeled(stated, self._stated(stated))
        return self._placed(block, held)

    def _stated(self, stage: Stage) -> ir.Block:
        """The loops of a stage over all its axes."""
        used = {part.tensor for part in parts(stage.value) if isinstance(part, Read)}
        shapes = {
            each.name: (each.shape, DTYPES[DType(each.dtype)]) for each in self.program.inputs
        }
        for each in self.program.stages:
            for when in ("now", "before"):
                shapes[f"{each.name}.{when}"] = (each.shape[1:], DTYPES[each.dtype])
        tensors = {
            name: te.placeholder(shape, name=name, dtype=dtype)
            for name, (shape, dtype) in shapes.items()
            if name in used
        }
        function = te.create_prim_func([*tensors.values(), computed(stage, tensors)])
        return plain_program(function).body.body

    def _peeled(self, stage: Stage, block: ir.Block) -> ir.Block:
        """Without the loops over the step and the outer axes, whose variables get their names."""
        names = (STEP, *(f"at{n}" for n in range(len(self.outer))))
        for name, axis in zip(names, stage.axes, strict=False):
            if number(axis.extent) == 1:
                continue
            match block:
                case (ir.Loop(var=var, body=body),):
                    block = ir.substitute(body, var, ir.variable(name))
                case _:
                    raise UnsupportedProgram(f"stage {stage.name} is not one nest of loops")
        return accumulate_locally(block, 1, ir.ZERO)

    def _placed(self, block: ir.Block, held: Mapping[str, Held]) -> ir.Block:
        """The nest for each row of the slice, with the buffers of the kernel."""
        row = ir.variable(ROW) if self.rows > 1 else ir.ZERO
        own = {STEP: ir.ZERO} | {f"at{n}": ir.ZERO for n in range(len(self.outer))}
        if self.outer:
            own[f"at{len(self.outer) - 1}"] = row

        def local(index: ir.Affine) -> ir.Affine:
            for name, place in own.items():
                index = index.substitute(name, place)
            return index

        def value(part: ir.Expression) -> ir.Expression:
            match part:
                case ir.Load(buffer=buffer, index=index) if buffer.name in held:
                    where = held[buffer.name]
                    moved = where.first + local(index)
                    return with_fields(part, buffer=where.buffer, index=moved)
                case ir.Load(buffer=buffer) if buffer.name in self.parameters:
                    return with_fields(part, buffer=self.parameters[buffer.name])
            return ir.with_operands(part, value)

        def block_of(part: ir.Block, known: Known) -> ir.Block:
            return tuple(new for each in part for new in statement(each, known))

        def statement(each: ir.Statement, known: Known) -> ir.Block:
            match each:
                case ir.Store(buffer=buffer, index=index, value=stored) if buffer.name in held:
                    return (held[buffer.name].store(local(index), value(stored)),)
                case ir.Store():
                    return (with_fields(each, value=value(each.value)),)
                case ir.Let():
                    body = block_of(each.body, known)
                    return (with_fields(each, value=value(each.value), body=body),)
                case ir.Loop() | ir.Allocate():
                    return (with_fields(each, body=block_of(each.body, known)),)
                case ir.If(bounds=bounds):
                    if any(known.get(bound) is False for bound in bounds):
                        return block_of(each.otherwise, known)
                    asked = tuple(bound for bound in bounds if bound not in known)
                    body = block_of(each.body, known | dict.fromkeys(asked, True))
                    if not asked:
                        return body
                    fails = dict.fromkeys(asked, False) if len(asked) == 1 else {}
                    otherwise = block_of(each.otherwise, known | fails)
                    return (ir.If(bounds=asked, body=body, otherwise=otherwise),)
            raise UnsupportedProgram(f"{each} is no statement of a nest")

        placed = block_of(block, {})
        for n, place in enumerate(self.places):
            own_row = row if n == len(self.outer) - 1 else ir.ZERO
            placed = ir.substitute(placed, f"at{n}", place + own_row)
        if self.rows == 1:
            return placed
        return (ir.loop(ROW, self.rows, placed),)

    def copies(self) -> list[tuple[int, Callable[[ir.Affine], ir.Store]]]:
        """Lists the copies that end a step: how many entries are copied, and how each is, of the
        output and of stages that the next step reads."""
        name = self.program.output.name
        made = self.held[f"{name}.now"]
        _, count = held_entries(self.program, self.rows)[f"{name}.now"]
        place = (ir.variable(STEP) * (self.slices * count) if self.steps > 1 else ir.ZERO) + (
            ir.variable(SLICE) * count if self.slices > 1 else ir.ZERO
        )
        found = [(count, self._copy(made, Held(buffer=self.output, first=place)))]
        for name, (_, count) in held_entries(self.program, self.rows).items():
            stage, _, when = name.rpartition(".")
            if when == "before":
                found.append((count, self._copy(self.held[f"{stage}.now"], self.held[name])))
        return found

    @staticmethod
    def _copy(source: Held, target: Held) -> Callable[[ir.Affine], ir.Store]:
        return lambda index: target.store(index, source[index])

    def over_steps(self, body: ir.Block) -> ir.Block:
        """The body of a step for each of them."""
        if self.steps == 1:
            return ir.substitute(body, STEP, ir.ZERO)
        return (ir.loop(STEP, self.steps, body),)
