"""The iteration space of a program: which axes its loop nests have, and what each of them indexes.

Schedule families match on it and not on the name of an operator, as TVM's DLight does. So a program
that has no name, such as one that a whole model was fused to, finds its schedule in the same way.
What a family looks at, with spatial axes before the bar and reduced ones behind it:

    contraction   c[i, j | k]           = Σ a[i, k] · b[k, j]
    convolution   c[i, y, x, o | r, q, c] = Σ a[i, y·2 + r, x·2 + q, c] · b[r, q, c, o]
    reduction     c[i | k]              = Σ a[i, k], in every nest that reduces
    elementwise   c[i, j |]             = exp(a[i, j]), and no nest that reduces
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Expression,
    Integer,
    Program,
    Read,
    Reducer,
    Stage,
    number,
    parts,
)
from kernelzoo.domain.workload import KEY_DTYPES, Workload
from services.tuner import ir
from services.tuner.schedules.base.epilogue import Epilogue, epilogue_of
from services.tuner.schedules.base.fused import Fused, fused, without_unit_axes

Axes = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A tensor that a nest reads. `indices` has the terms of the index into each of its axes; None
    where that is no sum of axes, as the row that `gather` reads."""

    tensor: str
    dtype: DType
    indices: tuple[ir.Terms | None, ...]

    @property
    def axes(self) -> Axes:
        return tuple(name for terms in self.indices for name, _ in terms or ())

    @property
    def plain(self) -> bool:
        """True if each index is one axis, or a constant, and no sum or multiple."""
        return all(
            terms is not None and len(terms) <= 1 and all(factor == 1 for _, factor in terms)
            for terms in self.indices
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Nest:
    """One loop nest: an entry for each point of the `spatial` axes, from all points of `reduced`.
    `extents` are those of all its axes. What is read twice in the same way is one access."""

    spatial: Axes
    reduced: Axes
    extents: tuple[tuple[str, int], ...]
    accesses: tuple[Access, ...]

    def size(self, axes: Axes) -> int:
        extents = dict(self.extents)
        return prod(extents[name] for name in axes)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationSpace:
    """The nests of a program, in order; the last one makes the output. It is `named` where it is
    that of an operator."""

    program: Program
    named: bool
    nests: tuple[Nest, ...]

    @property
    def reductions(self) -> tuple[Nest, ...]:
        return tuple(nest for nest in self.nests if nest.reduced)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contraction:
    """A nest that reduces over two operands: its axes by the operands that they index.

    `batch` and `k` are spatial and reduced axes of both, `m` spatial ones of a, `n` those of b.
    `epilogue` finishes an entry, over the groups "batch", "m" and "n"; None where there is nothing
    to do.
    """

    nest: Nest
    a: Access
    b: Access
    batch: Axes
    m: Axes
    k: Axes
    n: Axes
    epilogue: Epilogue | None

    @property
    def operands(self) -> tuple[str, ...]:
        """Tensors that it reads, in the order in which templates have them."""
        extra = self.epilogue.inputs if self.epilogue else ()
        return (self.a.tensor, self.b.tensor, *(name for name, _ in extra))

    @property
    def a_transposed(self) -> bool | None:
        """True if a lies as [batch, k, m] in memory; None where neither so nor as [batch, m, k]."""
        return _order(self.a.axes, (*self.batch, *self.m, *self.k), (*self.batch, *self.k, *self.m))

    @property
    def b_transposed(self) -> bool | None:
        """True if b lies as [batch, n, k] in memory; None where neither so nor as [batch, k, n]."""
        return _order(self.b.axes, (*self.batch, *self.k, *self.n), (*self.batch, *self.n, *self.k))


@lru_cache(maxsize=1024)
def iteration_space(workload: Workload) -> IterationSpace:
    if workload.operator.name in OPERATORS:
        return _iteration_space(workload.program, named=True)
    return iteration_space_of(workload.program)


def iteration_space_of(program: Program) -> IterationSpace:
    """The nests of a program that is no operator's."""
    return _iteration_space(program, named=False)


def _iteration_space(program: Program, *, named: bool) -> IterationSpace:
    """Without the axes of one entry where the program is not named."""
    shorter = program if named else without_unit_axes(program)
    dtypes = _dtypes(shorter)
    nests = tuple(_nest(stage, dtypes) for stage in shorter.stages)
    return IterationSpace(program=program, named=named, nests=nests)


def _dtypes(program: Program) -> dict[str, DType]:
    dtypes = {each.name: DType(each.dtype) for each in program.inputs}
    return dtypes | {stage.name: stage.dtype for stage in program.stages}


def contraction(space: IterationSpace) -> Contraction | None:
    """The product of two matrices, or of a batch of them, which a program is besides nests that
    reduce nothing; None for any other program."""
    found = _contraction(space.program)
    if found is None and not space.named:
        return _contraction(without_unit_axes(space.program))
    return found


def _contraction(program: Program) -> Contraction | None:
    whole = fused(program)
    if whole is None or whole.before:
        return None
    return next((each for each in _products(whole) if _is_contraction(each, whole)), None)


def _is_contraction(product: Contraction, whole: Fused) -> bool:
    """Returns whether matrices lie as they do in memory, all of them are read, and each once."""
    a, b, size = product.a, product.b, product.nest.size
    return (
        a.plain
        and b.plain
        and bool(product.m and product.k and product.n)
        and product.nest.spatial == (*product.batch, *product.m, *product.n)
        and product.a_transposed is not None
        and product.b_transposed is not None
        and all(prod(whole.tensors[each.tensor]) == size(each.axes) for each in (a, b))
        and a.dtype in KEY_DTYPES
        and b.dtype in (*KEY_DTYPES, DType.I8)
        and sorted(product.operands) == sorted(each.name for each in whole.inputs)
    )


def implicit_gemm(space: IterationSpace) -> Contraction | None:
    """The product of windows of an image and a matrix of weights, [windows, k] · [k, channels],
    which a convolution over all its input channels is; None for any other program."""
    whole = fused(space.program)
    found = next(_products(whole), None) if whole else None
    if found is None or found.batch or not (found.m and found.k and found.n and found.b.plain):
        return None
    reduced = tuple(n for n in found.nest.reduced if n in found.k or found.nest.size((n,)) > 1)
    in_order = found.nest.spatial == (*found.m, *found.n) and reduced == found.k
    moves = has_windows(found.nest) and not contraction(space)
    return found if in_order and moves and found.b_transposed is False else None


def has_windows(nest: Nest) -> bool:
    """Returns whether a nest reduces over windows: an index is the sum of a spatial and a reduced
    axis."""
    return any(
        any(name in nest.spatial for name, _ in terms or ())
        and any(name in nest.reduced for name, _ in terms or ())
        for access in nest.accesses
        for terms in access.indices
    )


def is_transposition(space: IterationSpace) -> bool:
    """Returns whether one nest reads one matrix, and its axes the other way round."""
    match space.nests:
        case (Nest(reduced=(), accesses=(access,)) as nest,):
            return access.plain and len(access.axes) == 2 and access.axes == nest.spatial[::-1]
    return False


def _products(whole: Fused) -> Iterator[Contraction]:
    """A sum of products of two entries, with either of them as the first operand."""
    nest = _nest(whole.reduction, _dtypes(whole.program))
    if whole.reduction.reducer is not Reducer.SUM or not _multiplies_two(whole.reduction.value):
        return
    if len(nest.accesses) != 2:
        return
    first, second = _without_single_taps(nest, *nest.accesses)
    if None in (*first.indices, *second.indices):
        return
    for a, b in ((first, second), (second, first)):
        both = set(a.axes) & set(b.axes)
        batch = tuple(name for name in nest.spatial if name in both)
        m = tuple(name for name in nest.spatial if name in a.axes and name not in both)
        n = tuple(name for name in nest.spatial if name in b.axes and name not in both)
        epilogue = None
        if whole.after is not None:
            epilogue = epilogue_of(whole, (("batch", batch), ("m", m), ("n", n)))
            if epilogue is None:
                continue
        yield Contraction(
            nest=nest,
            a=a,
            b=b,
            batch=batch,
            m=m,
            k=tuple(name for name in nest.reduced if name in both),
            n=n,
            epilogue=epilogue,
        )


def _multiplies_two(value: Expression) -> bool:
    match value:
        case Binary(BinaryOp.MUL, Read() | Cast(Read()), Read() | Cast(Read())):
            return True
    return False


def _without_single_taps(nest: Nest, *accesses: Access) -> Iterator[Access]:
    """Without reduced axes of extent 1 that are added to another axis: windows of one pixel."""
    sums = [terms for access in accesses for terms in access.indices if terms and len(terms) > 1]
    single = {
        name
        for terms in sums
        for name, _ in terms
        if name in nest.reduced and nest.size((name,)) == 1
    }
    for access in accesses:
        indices = (
            terms and tuple(term for term in terms if term[0] not in single)
            for terms in access.indices
        )
        yield replace(access, indices=tuple(indices))


def _order(axes: Axes, plain: Axes, transposed: Axes) -> bool | None:
    if axes == plain:
        return False
    return True if axes == transposed else None


def reads_of(value: Expression) -> Iterator[Read]:
    return (part for part in parts(value) if isinstance(part, Read))


def axes_of(read: Read) -> set[str]:
    """All that its place depends on."""
    return {part.name for place in read.at for part in parts(place) if isinstance(part, Axis)}


def reads_neighbours(read: Read, axis: str) -> bool:
    """Returns whether neighbours along an axis are neighbours in memory, or all the same entry."""
    if axis not in axes_of(read):
        return True
    *before, last = read.at
    if axis in axes_of(Read(read.tensor, tuple(before))):
        return False
    return (axis, 1) in (terms_of(last) or ())


def _nest(stage: Stage, dtypes: dict[str, DType]) -> Nest:
    axes = (*stage.axes, *stage.over)
    accesses = (
        Access(
            tensor=each.tensor,
            dtype=dtypes.get(each.tensor, DType.F32),
            indices=tuple(map(terms_of, each.at)),
        )
        for each in _reads(stage.value)
    )
    return Nest(
        spatial=tuple(axis.name for axis in stage.axes),
        reduced=tuple(axis.name for axis in stage.over),
        extents=tuple((axis.name, number(axis.extent)) for axis in axes),
        accesses=tuple(dict.fromkeys(accesses)),
    )


def _reads(expression: Expression) -> Iterator[Read]:
    match expression:
        case Read(at=places):
            yield expression
            for place in places:
                yield from _reads(place)
        case Binary(left=left, right=right):
            yield from _reads(left)
            yield from _reads(right)
        case Call(argument=argument) | Cast(argument=argument):
            yield from _reads(argument)
        case Choice(then=then, otherwise=otherwise):
            yield from _reads(then)
            yield from _reads(otherwise)


def terms_of(index: Expression) -> ir.Terms | None:
    """Axes of a sum of axes and what each is multiplied by; None for any other index."""
    match index:
        case Integer():
            return ()
        case Axis(name):
            return ((name, 1),)
        case Binary(BinaryOp.MUL, Axis(name), Integer(factor)):
            return ((name, factor),)
        case Binary(BinaryOp.ADD | BinaryOp.SUB, left, Integer()):
            return terms_of(left)
        case Binary(BinaryOp.ADD, left, right):
            terms = (terms_of(left), terms_of(right))
            return None if terms[0] is None or terms[1] is None else terms[0] + terms[1]
    return None
