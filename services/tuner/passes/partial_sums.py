"""Partial sums: a long sum is one of sums of parts, so that its rounding errors do not add up.

    for k < 38400:                        for k.part < 200:
      t[0] = (t[0] + a[k])          →       t.part[0] = 0
                                            for k < 192:
                                              t.part[0] = (t.part[0] + a[192*k.part + k])
                                            t[0] = (t[0] + t.part[0])

One accumulator of n numbers errs by up to n roundings, one of √n parts by 2·√n (Higham, Accuracy
and Stability of Numerical Algorithms, section 4.2). Of nested loops an iteration of the outer one
is a part, if its own sum is long enough.

Sums of products have one accumulator for longer: of signed products errors grow with √n, and the
registers of a tile are needed twice.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import isqrt, prod

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, variable
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Binary,
    BinaryOp,
    Block,
    Buffer,
    Const,
    Expression,
    If,
    Let,
    Load,
    Loop,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import inner_blocks, leaves, statements, substitute

MOST_TERMS = 128
"""Terms of a plain sum, or one of squares, that one accumulator takes."""
MOST_PRODUCTS = 4608
"""A convolution of 3x3 over 512 channels has so many, the longest of common networks."""
PART, PART_OF_PRODUCTS = 64, 512
"""Terms of the parts of a very long sum; shorter ones have √n parts."""
MOST_ENTRIES = 1024
"""Entries of a buffer of parts."""


def with_partial_sums(program: Program) -> Program:
    body = _block(program.body.body)
    if body is program.body.body:
        return program
    return replace(program, body=replace(program.body, body=body))


def _block(block: Block) -> Block:
    made = tuple(map(_statement, block))
    unchanged = all(new is old for new, old in zip(made, block, strict=True))
    return block if unchanged else made


def _statement(statement: Statement) -> Statement:
    match statement:
        case Loop(kind=LoopKind.SERIAL, extent=extent) if (
            extent > 1 and _trips(statement) > MOST_TERMS
        ):
            return _in_parts(statement)
        case Loop(body=body) | Let(body=body) | Allocate(body=body):
            inner = _block(body)
            return statement if inner is body else replace(statement, body=inner)
        case If(body=body, otherwise=otherwise):
            then, other = _block(body), _block(otherwise)
            if then is body and other is otherwise:
                return statement
            return replace(statement, body=then, otherwise=other)
    return statement


def _trips(statement: Statement) -> int:
    """Iterations of the longest nest that the statement begins."""
    own = statement.extent if isinstance(statement, Loop) else 1
    inside = (_trips(each) for block in inner_blocks(statement) for each in block)
    return own * max(inside, default=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sum:
    """A store that adds to an entry. `around` are the loops and conditions between it and the loop
    whose iterations it adds, the outermost first."""

    store: Store
    term: Expression
    around: tuple[Loop | If, ...]

    @property
    def along(self) -> tuple[Loop, ...]:
        """The loops over entries."""
        return tuple(loop for loop in self._loops if self.store.index.coefficient(loop.var))

    @property
    def over(self) -> tuple[Loop, ...]:
        """The loops over terms."""
        return tuple(loop for loop in self._loops if not self.store.index.coefficient(loop.var))

    @property
    def terms(self) -> int:
        """One iteration adds so many terms to an entry."""
        return prod(loop.extent for loop in self.over)

    @property
    def multiplies(self) -> bool:
        match self.term:
            case Binary(op=BinaryOp.MUL, left=left, right=right):
                return left != right
        return False

    @property
    def place(self) -> Affine:
        """The part of the index that the loop changes, and its constant."""
        along = {loop.var for loop in self.along}
        index = self.store.index
        kept = tuple(term for term in index.terms if term[0] in along)
        return Affine(constant=index.constant, terms=kept)

    @property
    def entries(self) -> frozenset[int]:
        """The places in which it adds."""
        steps = [(self.store.index.coefficient(each.var), each.extent) for each in self.along]
        if prod(extent for _, extent in steps) > MOST_ENTRIES:
            return frozenset()
        ranges = (range(0, step * extent, step) for step, extent in steps)
        return frozenset(self.place.constant + sum(each) for each in product(*ranges))

    @property
    def _loops(self) -> tuple[Loop, ...]:
        return tuple(each for each in self.around if isinstance(each, Loop))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accumulator:
    """A buffer with which the loop does nothing but to add to entries. `sums` are a store for each
    of disjoint sets of entries, the first of which is `least`; an iteration adds `terms` to one."""

    buffer: Buffer
    sums: tuple[_Sum, ...]
    terms: int
    least: int
    part: Buffer

    @property
    def multiplies(self) -> bool:
        return all(each.multiplies for each in self.sums)

    def of_part(self, one: _Sum) -> Affine:
        """Places the part of an entry."""
        return one.place - self.least


def _in_parts(loop: Loop) -> Statement:
    """The loop, with a buffer of parts around it for each accumulator of a long sum."""
    long = [each for each in _accumulators(loop) if _is_long(each, loop.extent)]
    if not long:
        inner = _block(loop.body)
        return loop if inner is loop.body else replace(loop, body=inner)
    terms = max(each.terms for each in long)
    multiplies = any(each.multiplies for each in long)
    total = terms * loop.extent
    wanted = PART_OF_PRODUCTS if multiplies else min(PART, isqrt(total))
    size = _divisor_near(loop.extent, max(1, wanted // terms))
    part, outer, rest = _split(loop, size)
    changing = _changed_inside(loop) | {outer.var}
    body = (
        *(_for_entries(each, one, changing, "zero", _zeroed) for each, one in _each(long)),
        *_block(_onto_parts(part, long)),
        *(_for_entries(each, one, changing, "sum", _added) for each, one in _each(long)),
    )
    outer = replace(outer, body=body)
    made: Block = (_in_parts(outer) if outer.extent > MOST_TERMS else outer, *rest)
    for each in long:
        made = (Allocate(buffer=each.part, body=made),)
    (whole,) = made
    return whole


def _is_long(sums: _Accumulator, extent: int) -> bool:
    return extent * sums.terms > (MOST_PRODUCTS if sums.multiplies else MOST_TERMS)


def _divisor_near(extent: int, wanted: int) -> int:
    """A divisor within a factor of two, or the number itself."""
    near = range(-(-wanted // 2), min(extent, 2 * wanted) + 1)
    divisors = (n for n in near if extent % n == 0)
    return min(divisors, key=lambda n: abs(n - wanted), default=min(wanted, extent))


def _split(loop: Loop, size: int) -> tuple[Block, Loop, Block]:
    """Iterations of a part, the loop over parts, and the iterations that are left."""
    count, left = divmod(loop.extent, size)
    part, last = f"{loop.var}.part", f"{loop.var}.rest"
    if size == 1:
        body = substitute(loop.body, loop.var, variable(part))
        return body, replace(loop, var=part), ()
    place = Affine.of(0, {part: size, loop.var: 1})
    inner = replace(loop, extent=size, body=substitute(loop.body, loop.var, place))
    outer = replace(loop, var=part, extent=count)
    if not left:
        return (inner,), outer, ()
    behind = Affine.of(count * size, {last: 1})
    rest = replace(loop, var=last, extent=left, body=substitute(loop.body, loop.var, behind))
    return (inner,), outer, (rest,)


def _accumulators(loop: Loop) -> Iterator[_Accumulator]:
    changing = _changed_inside(loop)
    found: dict[Buffer, list[_Sum]] = defaultdict(list)
    loads: Counter[Buffer] = Counter()
    others = {each.buffer for each in statements(loop.body) if isinstance(each, Allocate)}
    for statement, around in _within(loop.body, ()):
        if isinstance(statement, Store | Assign | Let):
            values = leaves(statement.value)
            loads.update(part.buffer for part in values if isinstance(part, Load))
        if isinstance(statement, Store):
            term = _added_term(statement)
            if term is None:
                others.add(statement.buffer)
            else:
                one = _Sum(store=statement, term=term, around=around)
                found[statement.buffer].append(one)
    for buffer, sums in found.items():
        if buffer in others or loads[buffer] != len(sums) or buffer.dtype is not DType.F32:
            continue
        made = _accumulator(buffer, sums, f"{buffer.name}.{loop.var}", changing)
        if made is not None:
            yield made


def _accumulator(
    buffer: Buffer, sums: list[_Sum], name: str, changing: Collection[str]
) -> _Accumulator | None:
    """None where nobody can tell which entries each iteration adds to, or where they are many."""
    outside = {tuple(set(one.store.index.terms) - set(one.place.terms)) for one in sums}
    if len(outside) > 1 or any(var in changing for terms in outside for var, _ in terms):
        return None
    groups: dict[frozenset[int], list[_Sum]] = defaultdict(list)
    for one in sums:
        groups[one.entries].append(one)
    entries = frozenset[int]().union(*groups)
    if frozenset() in groups or len(entries) < sum(map(len, groups)):
        return None
    least, size = min(entries), max(entries) - min(entries) + 1
    if size > MOST_ENTRIES:
        return None
    return _Accumulator(
        buffer=buffer,
        sums=tuple(group[0] for group in groups.values()),
        terms=max(sum(one.terms for one in group) for group in groups.values()),
        least=least,
        part=Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=size),
    )


def _changed_inside(loop: Loop) -> frozenset[str]:
    """Variables that differ from iteration to iteration, apart from those of loops inside."""
    lets = (each.var for each in statements(loop.body) if isinstance(each, Let))
    return frozenset((loop.var, *lets))


def _within(
    block: Block, around: tuple[Loop | If, ...]
) -> Iterator[tuple[Statement, tuple[Loop | If, ...]]]:
    """Every statement, with the loops and the conditions that hold around it."""
    for statement in block:
        yield statement, around
        match statement:
            case Loop(body=body):
                yield from _within(body, (*around, statement))
            case If(body=body, otherwise=otherwise):
                yield from _within(body, (*around, statement))
                yield from _within(otherwise, around)
            case Let(body=body) | Allocate(body=body):
                yield from _within(body, around)


def _added_term(store: Store) -> Expression | None:
    own = Load(buffer=store.buffer, index=store.index)
    match store.value:
        case Binary(op=BinaryOp.ADD, left=left, right=right) if left == own:
            return right
        case Binary(op=BinaryOp.ADD, left=left, right=right) if right == own:
            return left
    return None


def _each(accumulators: Iterable[_Accumulator]) -> Iterator[tuple[_Accumulator, _Sum]]:
    return ((each, one) for each in accumulators for one in each.sums)


def _zeroed(sums: _Accumulator, one: _Sum) -> Store:
    zero = Const(value=0.0, dtype=DType.F32)
    return Store(buffer=sums.part, index=sums.of_part(one), value=zero)


def _added(sums: _Accumulator, one: _Sum) -> Store:
    index = one.store.index
    whole = Load(buffer=sums.buffer, index=index)
    part = Load(buffer=sums.part, index=sums.of_part(one))
    total = whole + part
    return Store(buffer=sums.buffer, index=index, value=total)


def _for_entries(
    sums: _Accumulator,
    one: _Sum,
    changing: Collection[str],
    suffix: str,
    made: Callable[[_Accumulator, _Sum], Store],
) -> Statement:
    """A store for each of the entries, under those conditions that all terms of one share."""
    changing = {*changing, *(each.var for each in one.over)}
    block: Block = (made(sums, one),)
    for each in reversed(one.around):
        match each:
            case Loop(var=var) if each in one.along:
                own = f"{var}.{suffix}"
                block = (replace(each, var=own, body=substitute(block, var, variable(own))),)
            case If(bounds=bounds):
                shared = tuple(
                    bound
                    for bound in bounds
                    if not any(var in changing for var, _ in bound.index.terms)
                )
                block = (If(bounds=shared, body=block),) if shared else block
    (statement,) = block
    return statement


def _onto_parts(block: Block, accumulators: Iterable[_Accumulator]) -> Block:
    """The block, adding to parts."""
    parts = {each.buffer: each for each in accumulators}

    def moved(statement: Statement, around: tuple[Loop | If, ...]) -> Statement:
        match statement:
            case Store(buffer=buffer) if buffer in parts:
                sums, term = parts[buffer], _added_term(statement)
                assert term is not None
                one = _Sum(store=statement, term=term, around=around)
                place = sums.of_part(one)
                held = Load(buffer=sums.part, index=place)
                value = held + term
                return Store(buffer=sums.part, index=place, value=value)
            case Loop(body=body):
                return replace(statement, body=inside(body, (*around, statement)))
            case If(body=body, otherwise=otherwise):
                return replace(
                    statement, body=inside(body, around), otherwise=inside(otherwise, around)
                )
            case Let(body=body) | Allocate(body=body):
                return replace(statement, body=inside(body, around))
        return statement

    def inside(block: Block, around: tuple[Loop | If, ...]) -> Block:
        return tuple(moved(each, around) for each in block)

    return inside(block, ())
