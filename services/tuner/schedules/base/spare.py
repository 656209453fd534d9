"""Loops of a kernel end where the parts of its output begin that nobody reads.

c[128, 64] in 128 parts, tiles of 8 rows:

    for m < 16:                           let spare.read = spare[0]
      c[512·m …] = …               →      for m < 16:
                                            if 512·m + 64·spare.read < 8192: c[512·m …] = …

A tile that has rows of both is computed whole, as there is memory for the largest output. Loops of
less than a part are left as they are: what is around them ends. So are those of more than a block
of parts, as of each head, in which others end:

    for h < 8:                                        for h < 8:
      for i < 256:                                      for i < 256:
        for e < 64: c[16384·h + 64·i + e] = …    →         if 64·i + 64·spare.read < 16384: for e …
"""

from collections.abc import Mapping

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import SPARE, Workload
from services.tuner import ir

READ = f"{SPARE}.read"


def with_spare(program: ir.Program, workload: Workload, *, ends: bool = True) -> ir.Program:
    """The kernel of a workload that computes its whole output, as one that leaves out what is
    spare, which an i32 before the output tells; without `ends` it is told and computes all. Threads
    of a workgroup may not part before a barrier, and compilers of WGSL do not know that none of
    them does where memory decides."""
    told, parts = workload.tensors[-2], workload.spare_parts
    blocks = workload.spare_blocks
    place = len(workload.whole.tensors) - 1
    inputs, (output, *scratch) = program.parameters[:place], program.parameters[place:]
    spare = ir.Buffer(name=told.name, scope=ir.Scope.PARAMETER, dtype=DType.I32, size=1)
    inputs = inputs if spare in inputs else (*inputs, spare)
    body = program.body
    if ends:
        read = ir.let(READ, spare[0], parts, _Ends(output, parts, blocks).loop(body).body)
        body = replace(body, body=(read,))
    return replace(program, parameters=(*inputs, output, *scratch), body=body)


class _Ends:
    """Puts bounds around what loops do."""

    def __init__(self, output: ir.Buffer, parts: int, blocks: int) -> None:
        self._output, self._blocks = output, blocks
        self._block = output.size // blocks
        self._step = self._block // parts
        self._extents: dict[str, int] = {}

    def loop(self, loop: ir.Loop) -> ir.Loop:
        self._extents[loop.var] = loop.extent
        body = tuple(map(self._inside, loop.body))
        start = self._start(loop)
        if start is None:
            return replace(loop, body=body)
        bound = (start + ir.variable(READ) * self._step).below(self._block)
        return replace(loop, body=ir.under((bound,), body))

    def _inside(self, statement: ir.Statement) -> ir.Statement:
        def block(inner: ir.Block) -> ir.Block:
            return tuple(map(self._inside, inner))

        match statement:
            case ir.Loop(kind=ir.LoopKind.SERIAL):
                return self.loop(statement)
            case ir.If(body=body, otherwise=otherwise):
                return replace(statement, body=block(body), otherwise=block(otherwise))
            case ir.Let(body=body) | ir.Allocate(body=body):
                return replace(statement, body=block(body))
        return statement

    def _start(self, loop: ir.Loop) -> ir.Affine | None:
        """The first entry that an iteration stores; None where that is not known, where it stores
        something else that outlives it, and where it is not worth a bound: an innermost loop is
        for vectors, and one of less than a part ends with the loop around it."""
        lows: dict[str, int] = {}
        own: set[str] = set()
        stores: list[ir.Store] = []
        for statement in ir.statements(loop.body):
            match statement:
                case ir.Loop(var=var):
                    lows[var] = 0
                case ir.Let(var=var, low=low):
                    lows[var] = low
                case ir.Allocate(buffer=buffer):
                    own.add(buffer.name)
                case ir.Store():
                    stores.append(statement)
        outermost = loop.kind is ir.LoopKind.RANGE
        if not outermost and not any(isinstance(s, ir.Loop) for s in ir.statements(loop.body)):
            return None
        if any(s.buffer != self._output and s.buffer.name not in own for s in stores):
            return None
        starts = [self._first(s.index, lows) for s in stores if s.buffer == self._output]
        if not starts or len({start and start.terms for start in starts}) > 1:
            return None
        places = [self._in_block(start) for start in filter(None, starts)]
        if None in places:
            return None
        start = min(filter(None, places), key=lambda each: each.constant, default=None)
        least = 1 if outermost else self._step
        return start if start and start.coefficient(loop.var) >= least else None

    def _in_block(self, start: ir.Affine) -> ir.Affine | None:
        """A place counted from the beginning of its block; None where its variables do not tell
        which block that is."""
        if self._blocks == 1:
            return start
        inside = {var: factor for var, factor in start.terms if factor % self._block}
        if not all(var in self._extents for var in inside):
            return None
        place = ir.Affine.of(start.constant % self._block, inside)
        last = place.constant + sum(n * (self._extents[var] - 1) for var, n in inside.items())
        return place if last < self._block else None

    def _first(self, index: ir.Affine, lows: Mapping[str, int]) -> ir.Affine | None:
        """The smallest of the places that variables inside of a loop give."""
        if any(factor < 0 for _, factor in index.terms):
            return None
        for var, low in lows.items():
            index = index.substitute(var, ir.constant(low))
        return index
