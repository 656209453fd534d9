"""TVM programs to the loop IR: TVM's lowering passes, then one walk over the statements they leave.

The passes take blocks apart into loops, buffers, loads and stores. The walk turns each statement
into one of the loop IR:

    for i in range(8):                              loop i < 8
        c[i] = if_then_else(i < 5, a[i], 0.0)           if i < 5: c[i] = a[i]
                                                        else: c[i] = 0.0

A condition inside a value becomes a condition around the store, since only the branch that it takes
may read memory. An index that is no affine form of loop variables becomes a variable of its own
(`Let`) around the store.
"""

from collections.abc import Callable, Mapping
from itertools import repeat

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.nodes import (
    Allocate,
    Block,
    Buffer,
    If,
    Let,
    Loop,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
    unsupported,
)
from services.tuner.ir.rewrite import statements
from services.tuner.tir.expressions import Expressions, Pending, Surrounding
from services.tuner.tir.symbols import DTYPES, ElementAccess, Shape, Symbols, dtype_named, guarded
from services.tuner.tir.tvm import IRModule, Node, s_tir, tirx

_LOWERING = (
    s_tir.transform.LowerInitBlock(),
    s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
    s_tir.transform.ConvertBlocksToOpaque(),
    s_tir.transform.CompactBufferAllocation(),
    s_tir.transform.LowerOpaqueBlock(),
)
_LOOPS = {
    int(tirx.ForKind.SERIAL): LoopKind.SERIAL,
    int(tirx.ForKind.UNROLLED): LoopKind.UNROLLED,
    int(tirx.ForKind.VECTORIZED): LoopKind.VECTOR,
}
_SCOPES = {"global": Scope.GLOBAL, "local": Scope.LOCAL, "shared": Scope.WORKGROUP}

Decided = Mapping[Node, bool]
"""Conditions inside a value that hold, or do not, where its store is being visited."""


def scheduled_program(
    schedule: Node, shapes: tuple[Shape, ...] | None, range_extent: int
) -> Program:
    """The schedule's function; its parameters are flat, with their true `shapes` where those are
    not what it states."""
    return visited(lowered(schedule.mod), shapes, range_extent)


def visited(function: Node, shapes: tuple[Shape, ...] | None, range_extent: int) -> Program:
    """Our loop IR of a lowered function."""
    return Visit(function, shapes).program(range_extent)


def plain_program(function: Node, held: tuple[DType, ...] = ()) -> Program:
    """Any PrimFunc, its loops as they stand, in a range of one iteration. `held` are the elements
    of its parameters where they are not what it states; parameters behind those are scratch."""
    module = IRModule({"main": function.with_attr("global_symbol", "main")})
    return Visit(lowered(module), held=held).whole()


def lowered(module: Node) -> Node:
    """The function `main` without blocks: loops, buffers, loads and stores."""
    for lower in _LOWERING:
        module = lower(module)
    return module["main"]


class Visit:
    """`shapes` are the true ones of the parameters, which may be stated larger, and `held` their
    elements where they are not what is stated."""

    def __init__(
        self,
        function: Node,
        shapes: tuple[Shape, ...] | None = None,
        held: tuple[DType, ...] = (),
    ) -> None:
        self._body = function.body
        self._symbols = Symbols()
        self._expressions = Expressions(self._symbols)
        stated = [tuple(int(n) for n in parameter.ty.shape) for parameter in function.params]
        self._parameters = tuple(
            self._symbols.declare(
                parameter,
                parameter.name,
                Scope.GLOBAL if held and dtype is None else Scope.PARAMETER,
                dtype=dtype or dtype_named(parameter.name, str(parameter.ty.dtype)),
                shape=shape,
                stated=rounded,
            )
            for parameter, shape, rounded, dtype in zip(
                function.params,
                shapes or stated,
                stated,
                (*held, *repeat(None, len(stated))),
                strict=False,
            )
        )

    def program(self, range_extent: int) -> Program:
        """The outermost loop becomes the caller's range; without one, a range of 1 is added."""
        whole = self.whole()
        if range_extent == 1:
            return whole
        match whole.body.body:
            case (Loop(extent=extent) as loop,) if extent == range_extent:
                return replace(whole, body=replace(loop, kind=LoopKind.RANGE))
        raise UnsupportedProgram(
            f"the program is not one loop of {range_extent} iterations; "
            "schedule one outermost loop around everything"
        )

    def whole(self) -> Program:
        """The function in a range of one iteration."""
        body = self._block(self._body)
        self._refuse_changed_names(body)
        outermost = Loop(var="whole", extent=1, kind=LoopKind.RANGE, body=body)
        return Program(parameters=self._parameters, body=outermost)

    def _refuse_changed_names(self, body: Block) -> None:
        read = self._expressions.read_by_name
        if not read:
            return
        for statement in statements(body):
            if isinstance(statement, Store) and statement.buffer in read:
                raise UnsupportedProgram(
                    f"a variable names a value of buffer {statement.buffer.name}, to which the "
                    "program stores; load it where it is used, or store elsewhere"
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
        scope, dtype = node.scope(), str(node.dtype)
        if scope not in _SCOPES or dtype not in DTYPES:
            raise UnsupportedProgram(
                f"a {dtype} buffer in {scope} memory is not lowered; use "
                f"{', '.join(DTYPES)} in {', '.join(_SCOPES)}"
            )
        shape = tuple(int(extent) for extent in node.shape)
        return self._symbols.declare(
            node, node.name, _SCOPES[scope], dtype=DTYPES[dtype], shape=shape, stated=shape
        )

    def _statement(self, node: Node) -> Block:
        if isinstance(node, tirx.For):
            return (self._loop(node),)
        if isinstance(node, tirx.BufferStore):
            return self._store(node, {})
        if isinstance(node, tirx.SeqStmt):
            return self._block(node)
        if isinstance(node, tirx.AttrStmt):
            return self._block(node.body)
        if isinstance(node, tirx.IfThenElse):
            otherwise = () if node.else_case is None else self._block(node.else_case)
            return self._branch(node.condition, self._block(node.then_case), otherwise, {})
        if isinstance(node, tirx.Bind):
            self._expressions.name(node.var, node.value)
            return ()
        if isinstance(node, tirx.Evaluate) and isinstance(node.value, tirx.IntImm):
            return ()
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

    def _store(self, node: Node, decided: Decided) -> Block:
        """The store under what it needs; once for each way of the conditions inside its value."""
        draft = self._expressions.start(decided)
        try:
            target = self._expressions.access(node.buffer, node.indices)
            value = self._expressions.stored(node.value, target.buffer.dtype)
        except Pending as pending:
            return self._decide(pending.condition, decided, lambda known: self._store(node, known))
        return self._wrapped(draft, (Store(buffer=target.buffer, index=target.index, value=value),))

    def _decide(
        self, condition: Node, decided: Decided, visit: Callable[[Decided], Block]
    ) -> Block:
        """Makes an If of what `visit` makes where the condition holds, and where it does not."""
        then, otherwise = (visit({**decided, condition: holds}) for holds in (True, False))
        return self._branch(condition, then, otherwise, decided)

    def _branch(self, condition: Node, then: Block, otherwise: Block, decided: Decided) -> Block:
        """A condition may itself depend on one that is not decided yet, which goes around it."""
        try:
            return self._tested(condition, then, otherwise, decided)
        except Pending as pending:
            return self._decide(
                pending.condition,
                decided,
                lambda known: self._branch(condition, then, otherwise, known),
            )

    def _tested(self, condition: Node, then: Block, otherwise: Block, decided: Decided) -> Block:
        for holds, body, rest in ((True, then, otherwise), (False, otherwise, then)):
            draft = self._expressions.start(decided)
            bounds = self._expressions.bounds(condition, holds=holds)
            if bounds is not None:
                return self._wrapped(draft, (If(bounds=bounds, body=body, otherwise=rest),))
        both, left, right = self._expressions.parts(condition)
        inner = self._branch(right, then, otherwise, decided)
        if both:
            return self._branch(left, inner, otherwise, decided)
        return self._branch(left, then, inner, decided)

    def _wrapped(self, draft: list[Surrounding], block: Block) -> Block:
        """`block` under the steps: bounds of what exists, and values that indices name."""
        reads: list[ElementAccess] = []
        for step in reversed(draft):
            if isinstance(step, Let):
                block = (replace(step, body=guarded(block, reads[::-1], self._symbols.ranges)),)
                reads = []
            else:
                reads.append(step)
        return guarded(block, reads[::-1], self._symbols.ranges)
