"""The only module that imports TVM: states a contraction, schedules it, visits it once.

The contraction is stated on extents rounded up to whole register tiles, so that every split is
perfect: with TVM 0.27 a packed 384x768x768 matmul takes 3 ms to schedule and lower that way, and 8
to 16 ms when the schedule carries predicates. The visit gives each parameter its true shape back
and guards every statement by the bounds of the parameters it touches (`clip`). What lies outside
does not exist, which is right for sums of products.

Unrolled and vectorised loops stay: `passes.expand` takes them apart in a tenth of TVM's time.
Indices keep their axes (no FlattenBuffer), since flattening needs the true strides.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from inspect import unwrap
from typing import Any

from tvm import ir, s_tir, te, tirx

from kernelzoo.errors import UnsupportedProgram
from services.tuner.config import ContractionConfig, Outer, Pack
from services.tuner.extents import Extents
from services.tuner.frontend.clip import Access, guarded
from services.tuner.frontend.floor import floor_divide, remainder
from services.tuner.frontend.symbols import Shape, Symbols
from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    Allocate,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Const,
    Element,
    Expression,
    Load,
    Loop,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.ir.unsupported import unsupported

Node = Any  # TVM ships no types; its objects never leave this module.


_PRIMITIVES = (
    *("__init__", "get_sblock", "get_loops", "split", "reorder", "vectorize", "unroll"),
    *("cache_read", "cache_write", "compute_at", "reverse_compute_at", "transform_layout"),
    "decompose_reduction",
)
_Schedule = type(
    "_Schedule",
    (s_tir.Schedule,),
    {name: unwrap(getattr(s_tir.Schedule, name)) for name in _PRIMITIVES},
)
"""TVM's schedule without its checks of argument types, a quarter of the time of a schedule."""

_LOWERING = (
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerOpaqueBlock(),
)
_ARITHMETIC = {
    tirx.Add: BinaryOp.ADD,
    tirx.Sub: BinaryOp.SUB,
    tirx.Mul: BinaryOp.MUL,
    tirx.Div: BinaryOp.DIV,
    tirx.Min: BinaryOp.MIN,
    tirx.Max: BinaryOp.MAX,
}
_INDICES = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod)
_LOOPS = {
    int(tirx.ForKind.SERIAL): LoopKind.SERIAL,
    int(tirx.ForKind.UNROLLED): LoopKind.UNROLLED,
    int(tirx.ForKind.VECTORIZED): LoopKind.VECTOR,
}
_SCOPES = {"global": Scope.GLOBAL, "local": Scope.LOCAL, "shared": Scope.WORKGROUP}


def contraction_program(extents: Extents, config: ContractionConfig) -> Program:
    """The scheduled loop nest; its parameters are a, b and c, flat, with their true sizes."""
    return visited(lowered(scheduled(extents, config)), extents, config)


def scheduled(extents: Extents, config: ContractionConfig) -> Node:
    """TVM's module of one scheduled function, `main`, on the extents rounded up."""
    return _schedule(config.rounded(extents), config).mod


def lowered(module: Node) -> Node:
    """The same without blocks: loops, buffers, loads and stores."""
    for lower in _LOWERING:
        module = lower(module)
    return module


def visited(module: Node, extents: Extents, config: ContractionConfig) -> Program:
    """Our loop IR of a lowered module."""
    return _Visit(module["main"], extents.shapes).program(config.range_extent(extents))


@lru_cache(maxsize=256)
def _contraction(extents: Extents) -> Node:
    """The computation alone: one function for each shape, shared by all its schedules."""
    shape_a, shape_b, shape_c = extents.shapes
    a = te.placeholder(shape_a, name="a")
    b = te.placeholder(shape_b, name="b")
    k = te.reduce_axis((0, extents.k), name="k")

    def entry(*at: Node) -> Node:
        *outer, m, n = at
        return te.sum(a[(*outer, m, k)] * b[(*outer, k, n)], axis=k)

    c = te.compute(shape_c, entry, name="c")
    return te.create_prim_func([a, b, c])


def _schedule(whole: Extents, config: ContractionConfig) -> Node:
    """Tiles, order, packing, vectors, unrolling and accumulators as schedule primitives.

    In the unrolled body rows stand outside columns: the reverse keeps one value of `a` alive for
    every row and halves the speed of a 5x8 tile (measured in V8 15.6 on Zen 4).
    """
    schedule = _Schedule(_contraction(whole), debug_mask="none", enable_check=False)
    block = schedule.get_sblock("c")
    *batch, m, n, k = schedule.get_loops(block)
    rows, panels = config.block_m // config.tile_m, config.block_n // config.tile_n
    m2, m1, m0 = schedule.split(m, [None, rows, config.tile_m], preserve_unit_iters=True)
    n2, n1, n0 = schedule.split(n, [None, panels, config.tile_n], preserve_unit_iters=True)
    k1, k0 = schedule.split(k, [None, config.unroll_k], preserve_unit_iters=True)
    outer = {
        Outer.BATCH: (*batch, n2, m2),
        Outer.ROWS: (m2, *batch, n2),
        Outer.COLUMNS: (n2, *batch, m2),
    }[config.outer]
    inner = (n1, m1) if config.pack is Pack.KERNEL else (m1, n1)
    schedule.reorder(*outer, *inner, k1, k0, m0, n0)
    schedule.vectorize(n0)
    schedule.unroll(m0)
    schedule.unroll(k0)
    if config.pack is Pack.KERNEL:
        _pack(schedule, block, outer[-2], config, rank=2 + len(batch))
    accumulators = schedule.cache_write(block, 0, "local")
    schedule.reverse_compute_at(accumulators, inner[-1], preserve_unit_loops=True)
    _vectorise_tile(schedule, accumulators)
    _vectorise_tile(schedule, schedule.decompose_reduction(block, k1))
    return schedule


def _pack(schedule: Node, block: Node, at: Node, config: ContractionConfig, *, rank: int) -> None:
    """Copies block_n columns of b into panels [k, tile_n], row by row of b, inside loop `at`."""
    width = config.tile_n
    copy = schedule.cache_read(block, 1, "global")
    schedule.compute_at(copy, at, preserve_unit_loops=True)
    if config.block_n > width:
        schedule.transform_layout(block, "b_global", _panels(width, rank))
    panel, column = schedule.split(
        schedule.get_loops(copy)[-1], [None, width], preserve_unit_iters=True
    )
    schedule.vectorize(column)
    schedule.unroll(panel)


@lru_cache(maxsize=64)
def _panels(width: int, rank: int) -> Node:
    """The map of indices [..., k, n] to [..., n // width, k, n % width]."""
    return tirx.IndexMap.from_func(
        lambda *at: (*at[:-2], at[-1] // width, at[-2], at[-1] % width),
        ndim=rank,
        index_dtype="int32",
    )


def _vectorise_tile(schedule: Node, block: Node) -> None:
    *_, rows, columns = schedule.get_loops(block)
    schedule.vectorize(columns)
    schedule.unroll(rows)


class _Visit:
    """One walk over a lowered function."""

    def __init__(self, function: Node, shapes: tuple[Shape, ...]) -> None:
        self._body = function.body
        self._symbols = Symbols()
        self._affines: dict[Node, Affine] = {}
        self._parameters = tuple(
            self._symbols.declare(
                parameter,
                parameter.name,
                Scope.PARAMETER,
                shape=shape,
                stated=tuple(int(extent) for extent in parameter.ty.shape),
            )
            for parameter, shape in zip(function.params, shapes, strict=True)
        )

    def program(self, range_extent: int) -> Program:
        """The outermost loop becomes the caller's range; without one, a range of 1 is added."""
        body = self._block(self._body)
        if range_extent == 1:
            outermost = Loop(var="whole", extent=1, kind=LoopKind.RANGE, body=body)
            return Program(parameters=self._parameters, body=outermost)
        match body:
            case (Loop(extent=extent) as loop,) if extent == range_extent:
                return Program(parameters=self._parameters, body=replace(loop, kind=LoopKind.RANGE))
        raise UnsupportedProgram(
            f"the program is not one loop of {range_extent} iterations; "
            "schedule one outermost loop around everything"
        )

    def _block(self, node: Node) -> Block:
        return self._sequence(list(node.seq) if isinstance(node, tirx.SeqStmt) else [node])

    def _sequence(self, nodes: list[Node]) -> Block:
        """An allocation holds for the rest of its sequence."""
        before: list[Statement] = []
        for position, node in enumerate(nodes):
            if isinstance(node, tirx.AllocBuffer):
                buffer = self._allocated(node.buffer)
                rest = self._sequence(nodes[position + 1 :])
                return (*before, Allocate(buffer=buffer, body=rest))
            before.extend(self._statement(node))
        return tuple(before)

    def _allocated(self, node: Node) -> Buffer:
        scope = node.scope()
        if scope not in _SCOPES or node.dtype != "float32":
            raise UnsupportedProgram(
                f"a {node.dtype} buffer in {scope} memory is not lowered; use float32 in "
                f"{', '.join(_SCOPES)}"
            )
        shape = tuple(int(extent) for extent in node.shape)
        return self._symbols.declare(node, node.name, _SCOPES[scope], shape=shape, stated=shape)

    def _statement(self, node: Node) -> Block:
        if isinstance(node, tirx.For):
            return (self._loop(node),)
        if isinstance(node, tirx.BufferStore):
            return self._store(node)
        if isinstance(node, tirx.SeqStmt):
            return self._block(node)
        if isinstance(node, tirx.AttrStmt):
            return self._block(node.body)
        raise unsupported(node, "the visit of TVM programs")

    def _loop(self, node: Node) -> Loop:
        kind = _LOOPS.get(int(node.kind))
        if kind is None or not isinstance(node.extent, tirx.IntImm) or int(node.min):
            raise UnsupportedProgram(
                f"loop {node.loop_var.name} has a kind or extent that is not lowered; "
                "use serial, unrolled or vectorised loops of constant extent from 0"
            )
        extent = int(node.extent.value)
        var = self._symbols.bind(node.loop_var, node.loop_var.name, extent)
        return Loop(var=var, extent=extent, kind=kind, body=self._block(node.body))

    def _store(self, node: Node) -> Block:
        reads: list[Access] = []
        value = self._value(node.value, reads.append)
        target = self._access(node.buffer, node.indices)
        stored = Store(buffer=target.buffer, index=target.index, value=value)
        return guarded(stored, (target, *reads), self._symbols.ranges)

    def _value(self, node: Node, note: Callable[[Access], None]) -> Expression:
        if isinstance(node, ir.expr.TensorLoad):
            at = self._access(node.source, node.indices)
            note(at)
            return Load(buffer=at.buffer, index=at.index)
        op = _ARITHMETIC.get(type(node))
        if op is not None:
            return Binary(op=op, left=self._value(node.a, note), right=self._value(node.b, note))
        if isinstance(node, tirx.FloatImm):
            return Const(value=float(node.value), element=Element.F32)
        raise unsupported(node, "the visit of TVM programs")

    def _access(self, node: Node, indices: Node) -> Access:
        return self._symbols.access(node, tuple(self._affine(index) for index in indices))

    def _affine(self, node: Node) -> Affine:
        """TVM shares subexpressions, and each step into one crosses a language boundary."""
        known = self._affines.get(node)
        if known is None:
            known = self._affines[node] = self._new_affine(node)
        return known

    def _new_affine(self, node: Node) -> Affine:
        kind = type(node)
        if kind is ir.Var:
            return self._symbols.variable(node)
        if kind is tirx.IntImm:
            return Affine(constant=int(node.value))
        if kind not in _INDICES:
            raise unsupported(node, "affine indices")
        left, right = self._affine(node.a), self._affine(node.b)
        if kind is tirx.Add:
            return left.plus(right)
        if kind is tirx.Sub:
            return left.plus(right.times(-1))
        if kind is tirx.Mul and not left.terms:
            left, right = right, left
        if right.terms:
            raise unsupported(node, "affine indices")
        if kind is tirx.Mul:
            return left.times(right.constant)
        divide = floor_divide if kind is tirx.FloorDiv else remainder
        return divide(left, right.constant, self._symbols.ranges)
