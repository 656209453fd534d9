"""Products of matrices: named workloads where one fits, programs elsewhere."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Axis, Expression, Integer, Reducer
from kernelzoo.domain.workload import MAX_EXTENT
from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.graph.building import Carried, Formula, Operand, Site
from services.tuner.graph.onnx_operators.movement import joined
from services.tuner.graph.operands import UNPACKED_ROWS
from services.tuner.graph.tables import is_large, starts_of_pieces

TIED_BYTES = 1 << 20


def _matmul(site: Site) -> Carried:
    return product(site, site.needed(0), site.needed(1), site.shape)


def product(site: Site, a: Operand, b: Operand, shape: Sequence[int]) -> Operand:
    """The product of the last two axes; those before are broadcast. A vector is a row or column."""
    if a.rank == 1:
        a = site.view(a, (1, a.shape[0]))
    if b.rank == 1:
        b = site.view(b, (b.shape[0], 1))
    if a.dtype is DType.F32 and b.dtype is DType.F32:
        result = _named(site, a, b) or _by_columns(site, a, b)
        if result is not None:
            return site.view(result, shape)
    return site.view(_generic(site, a, b), shape)


def _named(site: Site, a: Operand, b: Operand) -> Operand | None:
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    if prod(b.shape[:-2]) == 1:
        rows = a.elements // k
        left, right = site.view(a, (rows, k)), site.view(b, (k, n))
        table = _tied(site, right)
        if table is not None:
            packed = rows < UNPACKED_ROWS
            return site.workload("matmul_nt", (rows, k, n), left, table, packed=packed)
        return site.workload("matmul", (rows, k, n), left, right)
    rank = max(a.rank, b.rank)
    outer = [(1,) * (rank - x.rank) + x.shape[:-2] for x in (a, b)]
    if outer[0] != outer[1]:
        return None
    batch = prod(outer[0])
    left, right = site.view(a, (batch, m, k)), site.view(b, (batch, k, n))
    return site.workload("batch_matmul", (batch, m, k, n), left, right)


def _by_columns(site: Site, a: Operand, b: Operand) -> Operand | None:
    """The product with constant weights of more columns than one workload takes, as those of a
    large vocabulary are: some columns at a time. None for other weights."""
    k, n = b.shape[-2:]
    if b.constant is None or b.elements != k * n or not (n > MAX_EXTENT or is_large(b.constant)):
        return None
    rows = site.view(a, (a.elements // k, k))
    weights = b.constant.reshape(k, n)
    parts = []
    for start, end in pairwise(starts_of_pieces(n, k * weights.itemsize)):
        some = site.constant(np.ascontiguousarray(weights[:, start:end]))
        part = _named(site, rows, some)
        if part is None:
            return None
        parts.append(part)
    return joined(site, parts, 1)


def _tied(site: Site, b: Operand) -> Operand | None:
    """A large constant of the graph that is bᵀ, as a table of embeddings is that makes logits, too:
    one of the two need not be stored."""
    if b.constant is None or b.constant.nbytes < TIED_BYTES:
        return None
    for name, entries in site.builder.constants.items():
        if entries.shape == b.shape[::-1] and name != b.name:
            same = np.array_equal(entries[::97, ::89], b.constant[::89, ::97].T)
            if same and np.array_equal(entries, b.constant.T):
                return Operand(name, b.dtype, entries.shape, entries)
    return None


def _generic(site: Site, a: Operand, b: Operand) -> Operand:
    rank = max(a.rank, b.rank)
    padded = [(1,) * (rank - x.rank) + x.shape for x in (a, b)]
    outer = tuple(max(left, right) for left, right in zip(*(p[:-2] for p in padded), strict=True))
    formula = Formula(site)
    axes = formula.axes((*outer, a.shape[-2], b.shape[-1]))
    (k,) = formula.axes((a.shape[-1],), first=rank)
    left = formula.broadcast(a, (*axes[:-1], k))
    right = formula.broadcast(b, (*axes[:-2], k, axes[-1]))
    return formula.output(axes, left * right, a.dtype, Reducer.SUM, (k,))


def _gemm(site: Site) -> Carried:
    """alpha · A · B + beta · C."""
    a, b, c = site.needed(0), site.needed(1), site.input(2)
    if site.integer("transA"):
        a = site.transposed(a, (1, 0))
    (m, k), transposed_b = a.shape, bool(site.integer("transB"))
    n = b.shape[0] if transposed_b else b.shape[1]
    if transposed_b and b.constant is not None:
        b, transposed_b = site.transposed(b, (1, 0)), False
    alpha, beta = site.real("alpha", 1.0), site.real("beta", 1.0)
    if site.dtype is not DType.F32 and not (alpha.is_integer() and beta.is_integer()):
        raise site.refusal("it scales integers by a fraction", "cast its inputs to float first")
    if not k:
        nothing = site.constant(np.zeros((m, n), NUMPY_DTYPES[a.dtype]))
        return _finished(site, nothing, alpha, beta, c)
    if a.dtype is not DType.F32:
        total = _generic(site, a, site.transposed(b, (1, 0)) if transposed_b else b)
        return _finished(site, total, alpha, beta, c)
    operator = "matmul_nt" if transposed_b else "matmul"
    found = site.workload(operator, (m, k, n), a, b)
    if found is None:
        b = site.transposed(b, (1, 0)) if transposed_b else b
        found = _by_columns(site, a, b)
    total = _generic(site, a, b) if found is None else found
    return _finished(site, total, alpha, beta, c)


def _finished(site: Site, total: Operand, alpha: float, beta: float, c: Operand | None) -> Operand:
    if alpha == 1.0 and (c is None or beta == 0.0):
        return total
    formula = Formula(site)
    axes = formula.axes(total.shape)

    def scaled(value: Expression, factor: float) -> Expression:
        if factor == 1.0:
            return value
        return value * factor if site.dtype is DType.F32 else value * int(factor)

    value = scaled(formula.read(total, axes), alpha)
    if c is not None and beta != 0.0:
        value = value + scaled(formula.broadcast(c, axes), beta)
    return formula.output(axes, value, total.dtype)


def _einsum(site: Site) -> Carried:
    """Two operands of which each letter has one role become a product of matrices; else a sum."""
    left, _, right = site.text("equation").replace(" ", "").partition("->")
    terms = _letters(left.split(","), [x.rank for x in site.given])
    wanted = (
        _letters([right], [len(site.shape)])[0]
        if "->" in site.text("equation")
        else _implied(terms)
    )
    extents: dict[str, int] = {}
    for letters, x in zip(terms, site.given, strict=True):
        for letter, extent in zip(letters, x.shape, strict=True):
            extents[letter] = max(extent, extents.get(letter, 1))
    simple = len(terms) == 2 and all(len(set(term)) == len(term) for term in terms)
    full = all(
        x.shape == tuple(extents[letter] for letter in letters)
        for letters, x in zip(terms, site.given, strict=True)
    )
    if simple and full and site.dtype is DType.F32:
        result = _einsum_product(site, terms, wanted, extents)
        if result is not None:
            return result
    formula = Formula(site)
    names = [*wanted, *(letter for letter in extents if letter not in wanted)]
    places: dict[str, Axis] = dict(
        zip(names, formula.axes(extents[letter] for letter in names), strict=True)
    )
    entries = [
        formula.read(
            x, [Integer(0) if n == 1 else places[c] for c, n in zip(letters, x.shape, strict=True)]
        )
        for letters, x in zip(terms, site.given, strict=True)
    ]
    value = entries[0]
    for entry in entries[1:]:
        value = value * entry
    over = [places[letter] for letter in names[len(wanted) :]]
    return formula.output([places[c] for c in wanted], value, site.dtype, Reducer.SUM, over)


def _letters(terms: Sequence[str], ranks: Sequence[int]) -> list[str]:
    """Terms with capital digits for the axes of an ellipsis, counted from the last."""
    written = []
    for term, rank in zip(terms, ranks, strict=True):
        hidden = rank - len(term.replace("...", ""))
        written.append(
            term.replace("...", "".join(chr(0x2460 + n) for n in reversed(range(hidden))))
        )
    return written


def _implied(terms: Sequence[str]) -> str:
    letters = "".join(terms)
    hidden = sorted({c for c in letters if ord(c) >= 0x2460}, reverse=True)
    once = sorted(c for c in set(letters) if ord(c) < 0x2460 and letters.count(c) == 1)
    return "".join((*hidden, *once))


def _einsum_product(
    site: Site, terms: Sequence[str], wanted: str, extents: Mapping[str, int]
) -> Operand | None:
    """Letters in both operands and the output are batch axes, those of the operands alone are
    summed, the others are rows and columns."""
    a, b = site.given
    batch = [c for c in wanted if c in terms[0] and c in terms[1]]
    summed = [c for c in terms[0] if c in terms[1] and c not in wanted]
    rows = [c for c in wanted if c in terms[0] and c not in terms[1]]
    columns = [c for c in wanted if c in terms[1] and c not in terms[0]]
    if not summed or {*terms[0], *terms[1]} != {*batch, *summed, *rows, *columns}:
        return None

    def size(letters: Sequence[str]) -> int:
        return prod(extents[c] for c in letters)

    def arranged(x: Operand, term: str, *groups: Sequence[str]) -> Operand:
        moved = site.transposed(x, [term.index(c) for group in groups for c in group])
        return site.view(moved, (size(batch), *(size(group) for group in groups[1:])))

    left = arranged(a, terms[0], batch, rows, summed)
    right = arranged(b, terms[1], batch, summed, columns)
    order = (*batch, *rows, *columns)
    made = product(site, left, right, [extents[c] for c in order])
    return site.transposed(made, [order.index(c) for c in wanted])


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
}
