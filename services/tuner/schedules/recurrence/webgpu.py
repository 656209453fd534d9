"""Recurrences for WebGPU: a workgroup makes all steps of a slice, which is one row.

dispatch    slices workgroups
thread      entries thread, thread + threads, … of each stage; of a product columns, or fours

workgroup memory    entries of this step and of the one before, and what products take; in
                    scratch memory what there is no room for

for step < steps:
  entering[k] = …                                    // 1 a product
  workgroupBarrier()
  acc += entering[k] * weights[k, column]  for k; s.now[column] = acc
  workgroupBarrier()
  h.now[j] = …                                       // 2 any other stage
  workgroupBarrier()
  c[step, …] = h.now[…]; h.before[…] = h.now[…]      // 3
  workgroupBarrier()
"""

from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.operators.expressions import Stage, number
from kernelzoo.domain.operators.recurrence import StepProduct
from kernelzoo.errors import UnsupportedProgram
from services.tuner import ir
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.recurrence.nests import SLICE, Held, Recurrence
from services.tuner.schedules.recurrence.slices import held_entries
from services.tuner.schedules.recurrence.webgpu_config import WebgpuRecurrenceConfig

THREAD, TURN = "thread", "turn"
UNROLLED_K = (4, 2, 1)


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuRecurrenceConfig.of(candidate)
    program = candidate.workload.program
    near = config.shared(program)
    frame = ir.Frame()
    slices = Recurrence(workload=candidate.workload, rows=1, held={}, frame=ir.Frame()).slices
    group = frame.variable(SLICE, slices)
    held: dict[str, Held] = {}
    for name, (dtype, size) in held_entries(program, 1).items():
        # What workgroup memory has no room for lies in scratch, a part for each workgroup.
        scope, copies = (ir.Scope.WORKGROUP, 1) if name in near else (ir.Scope.GLOBAL, slices)
        buffer = ir.Buffer(name=name, scope=scope, dtype=dtype, size=copies * size)
        held[name] = Held(buffer=buffer, first=group * size if copies > 1 else ir.ZERO)
    recurrence = Recurrence(workload=candidate.workload, rows=1, held=held, frame=frame)
    buffers = [each.buffer for each in held.values()]
    scratch = tuple(each for each in buffers if each.scope is ir.Scope.GLOBAL)
    # A barrier of workgroup memory alone would not order what threads write to scratch.
    kernel = _RecurrenceKernel(
        config=config, recurrence=recurrence, waits=ir.Barrier(storage=bool(scratch))
    )
    thread = ir.threads(config.threads, kernel.body())
    body = ir.allocated([each for each in buffers if each.scope is ir.Scope.WORKGROUP], (thread,))
    nest = ir.program((*recurrence.parameters.values(), *scratch), SLICE, slices, body)
    return ScheduledProgram(nests=(nest,))


@dataclass(frozen=True, slots=True, kw_only=True)
class _RecurrenceKernel:
    """`waits` is where all threads wait for what the others have made."""

    config: WebgpuRecurrenceConfig
    recurrence: Recurrence
    waits: ir.Barrier

    def body(self) -> ir.Block:
        recurrence = self.recurrence
        made: list[ir.Statement] = []
        for stage in recurrence.program.stages:
            product = recurrence.product(stage)
            if product is None:
                made += (*self._shared_out(stage, recurrence.nest(stage)), self.waits)
            else:
                made += self._product(stage, product)
        for count, copied in recurrence.copies():
            made += self._each(count, lambda place, copied=copied: (copied(place),))
        # The next step reads copies that other threads have made.
        made.append(self.waits)
        return recurrence.frame.enclose(recurrence.over_steps(tuple(made)))

    def _product(self, stage: Stage, product: StepProduct) -> ir.Block:
        recurrence = self.recurrence
        entering, made = recurrence.entering(stage, product)
        k, n = number(product.k.extent), number(product.n[0].extent)
        lanes = ir.LANES if self.config.vec4 and n % ir.LANES == 0 else 1
        weights = recurrence.parameters[product.weights]
        first = recurrence.weights_place(product)
        target = recurrence.held[f"{stage.name}.now"]
        acc = ir.tile("acc", 1, lanes=lanes)
        unrolled = next(count for count in UNROLLED_K if k % count == 0)

        def columns(place: ir.Affine) -> ir.Block:
            column = place * lanes
            products = []
            for at in range(unrolled):
                row = ir.variable("part") * unrolled + at
                value = entering[row]
                weight = ir.Load(buffer=weights, index=first + row * n + column, lanes=lanes)
                more = (ir.splat(value) if lanes > 1 else value) * weight
                products.append(acc.add(0, more))
            body: ir.Block = (
                *acc.fill(0.0),
                *ir.serial("part", k // unrolled, tuple(products)),
                target.store(column, acc[0]),
            )
            return ir.allocated((acc,), body)

        before = (*self._shared_out(stage, made, k), self.waits) if made else ()
        return (*before, *self._each(n // lanes, columns), self.waits)

    def _shared_out(self, stage: Stage, block: ir.Block, last: int = 0) -> ir.Block:
        """The nest of a stage with its last axis shared out among the threads."""
        outer = 1 + len(self.recurrence.outer)
        inner = (last,) if last else stage.shape[outer:]
        loops = sum(extent > 1 for extent in inner)
        if not loops:
            return self._each(1, lambda _: block)
        return self._innermost(block, loops)

    def _innermost(self, block: ir.Block, loops: int) -> ir.Block:
        match block:
            case (ir.Loop(var=var, extent=extent, body=body) as each,):
                if loops > 1:
                    return (replace(each, body=self._innermost(body, loops - 1)),)
                return self._each(extent, lambda place: ir.substitute(body, var, place))
        raise UnsupportedProgram("a stage of a recurrence is not one nest of loops")

    def _each(self, count: int, body: Any) -> ir.Block:
        """The body for so many places, which the threads take in turns."""
        threads = self.config.threads
        turns = -(-count // threads)
        turn = ir.variable(TURN) if turns > 1 else ir.ZERO
        place = turn * threads + ir.variable(THREAD)
        bounds = (place.below(count),) if count % threads else ()
        return ir.serial(TURN, turns, ir.under(bounds, body(place)))
