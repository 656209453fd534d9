"""Unrolling: unrolled loops are written out, and vector loops become values of four lanes.

    for k < 2 unrolled:                 c[0 +4] = (c[0 +4] + (a[0] x4 * b[0 +4]))
      for j < 4 vector:           →     c[0 +4] = (c[0 +4] + (a[1] x4 * b[4 +4]))
        c[j] = c[j] + a[k] * b[4*k + j]

TVM's UnrollLoop and VectorizeLoop do the same. A vector loop is written out lane by lane instead
where a condition holds for some of its lanes only, and where its accesses are not consecutive.
Nearly all the time of a compilation is spent here, so equal indices and loads are made once.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Bound, Ranges
from services.tuner.ir.nodes import (
    LANES,
    SHIFTS,
    Allocate,
    Assign,
    Barrier,
    Binary,
    Block,
    Broadcast,
    Buffer,
    Const,
    Expression,
    If,
    IndexValue,
    Lanes,
    Let,
    Load,
    Loop,
    LoopKind,
    MultiplyAdd,
    Program,
    Scope,
    Statement,
    Store,
    unsupported,
)
from services.tuner.ir.rewrite import leaves, with_operands
from services.tuner.passes.dependence import in_lanes

MAX_STORES = 20_000
"""Stores that unrolling may leave: the largest kernels of the lite spaces have about a thousand."""

Constants = Mapping[str, int]
"""Values of the unrolled variables at this point."""


def unroll(program: Program, *, gathers: bool = False) -> Program:
    """`gathers`: a vector may be made of elements of a local buffer that are not consecutive, which
    costs nothing where the buffer becomes registers of one lane each (WGSL).

    Raises UnsupportedProgram where more than `MAX_STORES` stores would be left.
    """
    loop = program.body
    body = _Unrolling(gathers=gathers).block(loop.body, {}, {loop.var: (0, loop.extent - 1)})
    return replace(program, body=replace(loop, body=body))


class _Unrolling:
    """Owns what was made so far, so that equal indices and loads are one object.

    Keys hold the ids of nodes of the program; `_alive` keeps temporary ones from being collected,
    since their ids would be used again.
    """

    def __init__(self, *, gathers: bool) -> None:
        self._gathers = gathers
        self._names: dict[int, tuple[str, ...]] = {}
        self._indices: dict[tuple[int | None, ...], Affine] = {}
        self._loads: dict[tuple[str, int, bool, bool], Expression] = {}
        self._made: dict[tuple[int | str | None, ...], Expression] = {}
        self._alive: list[Affine | Load] = []
        self._stores = 0
        self._shapes: dict[int, tuple[tuple[Store, ...], bool]] = {}

    def block(self, block: Block, at: Constants, ranges: Ranges) -> Block:
        out: list[Statement] = []
        self._block(block, at, ranges, out)
        return tuple(out)

    def _block(self, block: Block, at: Constants, ranges: Ranges, out: list[Statement]) -> None:
        """Appends to `out`: joining tuples would copy every statement at each level of the nest."""
        for statement in block:
            self._statement(statement, at, ranges, out)

    def _statement(
        self, statement: Statement, at: Constants, ranges: Ranges, out: list[Statement]
    ) -> None:
        match statement:
            case Loop(kind=LoopKind.UNROLLED, var=var, extent=extent, body=body):
                for value in range(extent):
                    self._block(body, {**at, var: value}, ranges, out)
            case Loop(kind=LoopKind.VECTOR):
                self._vector(statement, at, ranges, out)
            case Loop(var=var, extent=extent, body=body):
                expanded = self.block(body, at, {**ranges, var: (0, extent - 1)})
                if expanded:
                    out.append(replace(statement, body=expanded))
            case Store():
                out.append(self._store(statement, at, None))
            case Let(var=var, value=value, low=low, high=high, body=body):
                expanded = self.block(body, at, {**ranges, var: (low, high)})
                if expanded:
                    moved = self._value(value, at, None)
                    out.append(replace(statement, value=moved, body=expanded))
            case If():
                out.extend(self._decided(statement, at, ranges))
            case Allocate(body=body):
                out.append(replace(statement, body=self.block(body, at, ranges)))
            case Barrier():
                out.append(statement)
            case _:
                raise unsupported(statement, "unrolling")

    def _decided(self, statement: If, at: Constants, ranges: Ranges) -> Block:
        bounds = tuple(
            Bound(index=self._index(bound.index, at), limit=bound.limit)
            for bound in statement.bounds
        )
        spans = [(bound, *bound.index.bounds(ranges)) for bound in bounds]
        body = self.block(statement.body, at, ranges)
        otherwise = self.block(statement.otherwise, at, ranges)
        undecided = tuple(bound for bound, _, high in spans if high >= bound.limit)
        if any(low >= bound.limit for bound, low, _ in spans):
            return otherwise
        if undecided:
            return (If(bounds=undecided, body=body, otherwise=otherwise),)
        return body

    def _vector(self, loop: Loop, at: Constants, ranges: Ranges, out: list[Statement]) -> None:
        stores, guarded = self._shape(loop)
        for first in range(0, loop.extent, LANES):
            lanes = range(first, min(first + LANES, loop.extent))
            whole = bool(stores) and len(lanes) == LANES
            chosen = self._chosen(loop, at, lanes, ranges) if whole and guarded else stores
            if whole and chosen is not None:
                place = {**at, loop.var: first}
                out.extend([self._store(store, place, loop.var) for store in chosen])
            else:
                for lane in lanes:
                    self._block(loop.body, {**at, loop.var: lane}, ranges, out)

    def _shape(self, loop: Loop) -> tuple[tuple[Store, ...], bool]:
        """The stores that four lanes can do at once, and whether some are conditional."""
        known = self._shapes.get(id(loop))
        if known is None:
            stores = _contiguous(loop, gathers=self._gathers)
            guarded = any(isinstance(statement, If) for statement in loop.body)
            known = self._shapes[id(loop)] = stores, guarded
        return known

    def _chosen(
        self, loop: Loop, at: Constants, lanes: range, ranges: Ranges
    ) -> Sequence[Store] | None:
        """The stores of all of these lanes; None where the lanes take different branches."""
        ends = {**at, loop.var: lanes[0]}, {**at, loop.var: lanes[-1]}
        chosen: list[Store] = []
        for statement in loop.body:
            match statement:
                case Store():
                    chosen.append(statement)
                case If():
                    branch = self._branch(statement, ends, ranges)
                    if branch is None:
                        return None
                    chosen += _stores(branch)
        return chosen

    def _branch(self, condition: If, ends: tuple[Constants, ...], ranges: Ranges) -> Block | None:
        """The branch that the first and the last lane take, and so all between them, as bounds are
        affine; None where they differ or an outer loop decides."""
        spans = [
            (bound.limit, [self._index(bound.index, end).bounds(ranges) for end in ends])
            for bound in condition.bounds
        ]
        if all(high < limit for limit, span in spans for _, high in span):
            return condition.body
        if any(all(low >= limit for low, _ in span) for limit, span in spans):
            return condition.otherwise
        return None

    def _store(self, store: Store, at: Constants, vector: str | None) -> Store:
        self._stores += 1
        if self._stores > MAX_STORES:
            raise UnsupportedProgram(
                f"unrolling makes more than {MAX_STORES} stores; unroll fewer loops"
            )
        return Store(
            buffer=store.buffer,
            index=self._index(store.index, at),
            value=self._value(store.value, at, vector),
        )

    def _value(self, expression: Expression, at: Constants, vector: str | None) -> Expression:
        if isinstance(expression, Load):
            return self._load(expression, at, vector)
        if isinstance(
            expression, MultiplyAdd
        ):  # The common case, without the table of `with_operands`.
            return MultiplyAdd(
                left=self._value(expression.left, at, vector),
                right=self._value(expression.right, at, vector),
                addend=self._value(expression.addend, at, vector),
            )
        if isinstance(expression, Const):
            return replace(expression, lanes=LANES) if vector else expression
        if isinstance(expression, IndexValue):
            same = IndexValue(index=self._index(expression.index, at))
            return Broadcast(value=same, lanes=LANES) if vector else same
        if isinstance(expression, Binary) and expression.op in SHIFTS:
            return Binary(
                op=expression.op,
                left=self._value(expression.left, at, vector),
                right=self._value(expression.right, at, None),
            )
        return with_operands(expression, lambda part: self._value(part, at, vector))

    def _load(self, load: Load, at: Constants, vector: str | None) -> Expression:
        key = (id(load), vector, *map(at.get, self._names_in(load.index)))
        known = self._made.get(key)
        if known is None:
            known = self._made[key] = self._new_load(load, at, vector)
            self._alive.append(load)
        return known

    def _new_load(self, load: Load, at: Constants, vector: str | None) -> Expression:
        """Consecutive elements where the index moves by 1 with the vector loop, one element in all
        lanes where it does not move, else four single loads."""
        factor = load.index.coefficient(vector) if vector is not None else 0
        if vector is not None and factor not in (0, 1):
            places = [{**at, vector: at[vector] + lane} for lane in range(LANES)]
            return Lanes(values=tuple(self._load(load, place, None) for place in places))
        here = self._index(load.index, at)
        if load.lanes > 1:
            return replace(load, index=here)
        wide = vector is not None and load.index.coefficient(vector) == 1
        key = (load.buffer.name, id(here), wide, vector is not None)
        known = self._loads.get(key)
        if known is None:
            known = Load(buffer=load.buffer, index=here, lanes=LANES if wide else 1)
            if vector is not None and not wide:
                known = Broadcast(value=known, lanes=LANES)
            self._loads[key] = known
        return known

    def _names_in(self, index: Affine) -> tuple[str, ...]:
        names = self._names.get(id(index))
        if names is None:
            names = self._names[id(index)] = tuple([var for var, _ in index.terms])
            self._alive.append(index)
        return names

    def _index(self, index: Affine, at: Constants) -> Affine:
        """The index with its unrolled variables replaced by their values."""
        key = (id(index), *map(at.get, self._names_in(index)))
        known = self._indices.get(key)
        if known is None:
            constant, free = index.constant, []
            for term in index.terms:
                here = at.get(term[0])
                if here is None:
                    free.append(term)
                else:
                    constant += term[1] * here
            known = self._indices[key] = Affine(constant=constant, terms=tuple(free))
        return known


def _contiguous(loop: Loop, *, gathers: bool) -> tuple[Store, ...]:
    """The loop's stores if four lanes can do them at once, else nothing."""
    stores = tuple(_stores(loop.body))
    if any(
        store.index.coefficient(loop.var) != 1 or store.buffer.dtype is DType.I8 for store in stores
    ):
        return ()
    for store in stores:
        if not in_lanes(store.value, loop.var):
            return ()
        for leaf in leaves(store.value):
            match leaf:
                case Load(buffer=Buffer(dtype=DType.I64)):
                    return ()
                case Load(index=index) if index.coefficient(loop.var) in (0, 1):
                    continue
                case Load(buffer=buffer) if gathers and buffer.scope is Scope.LOCAL:
                    continue
                case IndexValue(index=index) if not index.coefficient(loop.var):
                    continue
                case Const():
                    continue
            return ()
    return stores if _only_stores(loop.body) else ()


def _only_stores(block: Block) -> bool:
    """Returns whether the block is stores, each under at most one condition."""
    return all(
        isinstance(s, Store)
        or (isinstance(s, If) and all(isinstance(t, Store) for t in (*s.body, *s.otherwise)))
        for s in block
    )


def _stores(block: Block) -> Iterator[Store]:
    for statement in block:
        match statement:
            case Store():
                yield statement
            case If(body=body, otherwise=otherwise):
                yield from _stores((*body, *otherwise))
            case Assign() | Loop() | Let() | Allocate() | Barrier():
                continue


def scalarise(program: Program) -> Program:
    """Turns vector loops into unrolled ones: the ablation measures what vectors are worth."""
    return replace(program, body=replace(program.body, body=_block(program.body.body)))


def _block(block: Block) -> Block:
    return tuple(_statement(statement) for statement in block)


def _statement(statement: Statement) -> Statement:
    match statement:
        case Loop(kind=kind, body=body):
            plain = LoopKind.UNROLLED if kind is LoopKind.VECTOR else kind
            return replace(statement, kind=plain, body=_block(body))
        case Let(body=body) | Allocate(body=body):
            return replace(statement, body=_block(body))
        case If(body=body, otherwise=otherwise):
            return replace(statement, body=_block(body), otherwise=_block(otherwise))
    return statement
