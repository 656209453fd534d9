"""Expressions of TVM: indices as affine forms, values and conditions as those of the loop IR."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager, suppress

from kernelzoo.domain.dtype import DType
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir.affine import Affine, Bound, Range, variable
from services.tuner.ir.nodes import (
    Binary,
    BinaryOp,
    Buffer,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    Expression,
    IndexValue,
    Let,
    Load,
    MathFunction,
    Select,
    unsupported,
)
from services.tuner.tir.integers import (
    below,
    combined,
    fits,
    floor_divide,
    integer_bounds,
    is_i32,
    remainder,
)
from services.tuner.tir.symbols import ElementAccess, Symbols
from services.tuner.tir.tvm import Node, ir, tirx

Surrounding = ElementAccess | Let
"""A store needs one of these around it: that an element exists, or a value that an index names."""

_ARITHMETIC = {
    tirx.Add: BinaryOp.ADD,
    tirx.Sub: BinaryOp.SUB,
    tirx.Mul: BinaryOp.MUL,
    tirx.Div: BinaryOp.DIV,
    tirx.Min: BinaryOp.MIN,
    tirx.Max: BinaryOp.MAX,
}
_INTEGER = {
    tirx.Mul: BinaryOp.MUL,
    tirx.Min: BinaryOp.MIN,
    tirx.Max: BinaryOp.MAX,
    tirx.FloorDiv: BinaryOp.FLOOR_DIV,
    tirx.FloorMod: BinaryOp.FLOOR_MOD,
}
_COMPARISONS = {
    # class: operation, and whether the operands change places
    tirx.LT: (CompareOp.LT, False),
    tirx.LE: (CompareOp.LE, False),
    tirx.GT: (CompareOp.LT, True),
    tirx.GE: (CompareOp.LE, True),
    tirx.EQ: (CompareOp.EQ, False),
    tirx.NE: (CompareOp.NE, False),
}
_FUNCTIONS = {
    "tirx.exp": MathFunction.EXP,
    "tirx.tanh": MathFunction.TANH,
    "tirx.erf": MathFunction.ERF,
    "tirx.sqrt": MathFunction.SQRT,
    "tirx.rsqrt": MathFunction.RSQRT,
    "tirx.sigmoid": MathFunction.SIGMOID,
    "tirx.nearbyint": MathFunction.NEAREST,
    "tirx.fabs": MathFunction.ABS,
    "tirx.log": MathFunction.LOG,
    "tirx.sin": MathFunction.SIN,
    "tirx.cos": MathFunction.COS,
    "tirx.floor": MathFunction.FLOOR,
    "prim.ceil": MathFunction.CEIL,
}
_BITS = {tirx.RShift: BinaryOp.SHIFT_RIGHT, tirx.BitwiseAnd: BinaryOp.AND}
_EXTERNAL = "tirx.call_pure_extern"
_FLOAT = "float32"
_WIDE = ("int32", "int64")
_BYTE = "int8"
_CONDITIONAL = "prim.if_then_else"
_TRANSPARENT = ("tirx.likely",)
MOST_FACTORS = 8
"""The largest whole power that is written as products."""


class Pending(Exception):
    """The value depends on a condition that the visit has not decided yet."""

    def __init__(self, condition: Node) -> None:
        super().__init__()
        self.condition = condition


class Expressions:
    """Owns the steps of the store whose expressions are being visited."""

    def __init__(self, symbols: Symbols) -> None:
        self._symbols = symbols
        self._affines: dict[Node, Affine] = {}
        self._named: dict[Node, Node] = {}
        self._inside_names = 0
        self.read_by_name: set[Buffer] = set()
        self._steps: list[Surrounding] = []
        self._lets: dict[Hashable, Affine] = {}
        self._decided: Mapping[Node, bool] = {}
        self._local_reads = 0
        self._inside_choices = 0
        self._reads_outside = 0

    def start(self, decided: Mapping[Node, bool]) -> list[Surrounding]:
        """Begins another store; returns its steps, to which the visit adds."""
        self._steps, self._lets, self._decided = [], {}, decided
        return self._steps

    def name(self, var: Node, value: Node) -> None:
        self._named[var] = value

    @contextmanager
    def _meaning(self, var: Node) -> Iterator[Node]:
        """The value that a variable names. It is computed where the variable is used, so that what
        it reads, which `read_by_name` collects, must not have changed since it was named."""
        self._inside_names += 1
        try:
            yield self._named[var]
        finally:
            self._inside_names -= 1

    def access(self, node: Node, indices: Node) -> ElementAccess:
        found = self._symbols.access(node, tuple([self.affine(index) for index in indices]))
        self._steps.append(found)
        if self._inside_names:
            self.read_by_name.add(found.buffer)
        if self._inside_choices:
            low, high = found.index.bounds(self._symbols.ranges)
            self._reads_outside += low < 0 or high >= found.buffer.size
        return found

    def stored(self, node: Node, dtype: DType) -> Expression:
        if dtype.compute_dtype is DType.F32:
            return self.value(node)
        if dtype is DType.I8 and type(node) is tirx.Cast:
            node = node.value  # The store keeps the low byte.
            if _is_float(node):
                return Cast(value=self.value(node), dtype=DType.I32)
        return self.integer(node)

    def value(self, node: Node) -> Expression:
        """An f32."""
        kind = type(node)
        if kind is ir.expr.TensorLoad:
            at = self.access(node.source, node.indices)
            return Load(buffer=at.buffer, index=at.index)
        op = _ARITHMETIC.get(kind)
        if op is not None:
            return Binary(op=op, left=self.value(node.a), right=self.value(node.b))
        if kind is tirx.FloatImm:
            return Const(value=float(node.value), dtype=DType.F32)
        if kind is tirx.Cast:
            return self._cast(node)
        if kind is tirx.Select:
            return self._select(node, self.value)
        if kind is ir.Var and node in self._named:
            with self._meaning(node) as value:
                return self.value(value)
        if kind is ir.expr.Call:
            return self._call(node)
        raise unsupported(node, "the visit of TVM programs")

    def _cast(self, node: Node) -> Expression:
        """Every float is an f32: another one would have to be rounded."""
        if _dtype(node) != _FLOAT:
            raise _no_cast(node)
        if _is_float(node.value):
            return self.value(node.value)
        return Cast(value=self.integer(node.value), dtype=DType.F32)

    def _select(self, node: Node, value: Callable[[Node], Expression]) -> Expression:
        side = self._side(node.condition, node.true_value, node.false_value)
        if side is not None:
            return value(side)
        with self._both_computed(node.condition):
            then, otherwise = value(node.true_value), value(node.false_value)
        return Select(condition=self.mask(node.condition), then=then, otherwise=otherwise)

    @contextmanager
    def _both_computed(self, condition: Node) -> Iterator[None]:
        """Around the two sides of a choice that needs no branch. Raises Pending where one may read
        what lies outside of its buffer, which TVM allows of the side that is not taken."""
        before = self._reads_outside
        self._inside_choices += 1
        try:
            yield
        finally:
            self._inside_choices -= 1
        if self._reads_outside > before:
            raise Pending(condition)

    def _call(self, node: Node) -> Expression:
        name = node.op.name
        if name in _FUNCTIONS:
            return Call(function=_FUNCTIONS[name], argument=self.value(node.args[0]))
        if name == _CONDITIONAL:
            return self.value(self._taken(node))
        if name == _EXTERNAL:
            function, *operands = node.args
            if not operands:
                return Const(value=float(function.value), dtype=DType.F32)
            if len(operands) == 1:
                return Call(function=MathFunction(function.value), argument=self.value(*operands))
            left, right = map(self.value, operands)
            return Binary(op=BinaryOp(function.value), left=left, right=right)
        if name == "tirx.pow":
            return self._power(node)
        raise UnsupportedProgram(f"function {name} is not lowered; restate the program without it")

    def _taken(self, node: Node) -> Node:
        """The branch of a conditional. Raises Pending where the visit has to decide it first."""
        side = self._side(*node.args)
        if side is None:
            raise Pending(node.args[0])
        return side

    def _side(self, condition: Node, then: Node, otherwise: Node) -> Node | None:
        """Returns the side that this store takes, if it has decided the condition."""
        self._local_reads += 1
        holds = self._decided.get(condition)
        return None if holds is None else then if holds else otherwise

    def _power(self, node: Node) -> Expression:
        base = self.value(node.args[0])
        match node.args[1]:
            case tirx.FloatImm(value=0.5):
                return Call(function=MathFunction.SQRT, argument=base)
            case tirx.FloatImm(value=exponent) if exponent in range(1, MOST_FACTORS + 1):
                power = base
                for _ in range(int(exponent) - 1):
                    power = power * base
                return power
        return Binary(op=BinaryOp.POW, left=base, right=self.value(node.args[1]))

    def integer(self, node: Node) -> Expression:
        """An i32. What is computed of entries is so as a value, which wraps around and of which
        four may be computed at once; a position is an affine form."""
        kind = type(node)
        if node in self._lets:
            return IndexValue(index=self._lets[node])
        if kind is tirx.IntImm:
            return Const(value=int(node.value), dtype=DType.I32)
        if kind is ir.expr.TensorLoad:
            at = self.access(node.source, node.indices)
            return Load(buffer=at.buffer, index=at.index)
        if kind is tirx.Cast and _dtype(node) in _WIDE and _dtype(node.value) != "bool":
            if _is_float(node.value):
                return Cast(value=self.value(node.value), dtype=DType.I32)
            return self.integer(node.value)
        op = _OF_ENTRIES.get(kind)
        if op is not None and (kind in _BITS or self._has_entries(node)):
            return _of_integers(op, self.integer(node.a), self.integer(node.b))
        if kind is tirx.Select:
            return self._select(node, self.integer)
        if kind is ir.expr.Call:
            if node.op.name == _CONDITIONAL:
                return self.integer(self._taken(node))
            if node.op.name == _EXTERNAL:
                name, left, right = node.args
                return _of_integers(BinaryOp(name.value), self.integer(left), self.integer(right))
        return IndexValue(index=self.affine(node))

    def _has_entries(self, node: Node) -> bool:
        """Returns whether an integer is computed of what is loaded, not of positions alone."""
        kind = type(node)
        if kind in _OF_ENTRIES:
            return self._has_entries(node.a) or self._has_entries(node.b)
        if kind is tirx.Cast:
            return _is_float(node.value) or self._has_entries(node.value)
        if kind is ir.Var:
            return node in self._named
        return kind not in (tirx.IntImm, tirx.FloorDiv, tirx.FloorMod)

    def affine(self, node: Node) -> Affine:
        """TVM shares subexpressions, and each step into one crosses a language boundary.

        A form is remembered for the whole program where it is made of loop variables alone. One
        that names a value of this store, or is a branch of a condition that this store has decided,
        differs from store to store.
        """
        known = self._affines.get(node)
        if known is not None:
            return known
        before = self._local_reads
        found = self._new_affine(node)
        if self._local_reads == before:
            self._affines[node] = found
        return found

    def _new_affine(self, node: Node) -> Affine:
        kind = type(node)
        if kind is ir.Var:
            if node not in self._named:
                return self._symbols.variable(node)
            with self._meaning(node) as value:
                return self.affine(value)
        if kind is tirx.IntImm:
            return Affine(constant=int(node.value))
        if kind is tirx.Cast:
            return self._integer_cast(node)
        if kind is tirx.Add:
            return self.affine(node.a) + self.affine(node.b)
        if kind is tirx.Sub:
            return self.affine(node.a) - self.affine(node.b)
        if kind in _INTEGER:
            return self._integer_operation(node, _INTEGER[kind])
        if kind is ir.expr.Call and node.op.name == _CONDITIONAL:
            return self.affine(self._taken(node))
        if kind is ir.expr.Call and node.op.name == _EXTERNAL:
            return self._opaque(node)
        if kind is tirx.Select:
            return self._integer_select(node)
        if kind is ir.expr.TensorLoad:
            at = self.access(node.source, node.indices)
            loaded = Load(buffer=at.buffer, index=at.index)
            return self._let(node, loaded, at.buffer.dtype.value_range)
        if kind in _BITS:
            return self._let(node, self.integer(node), DType.I32.value_range)
        raise unsupported(node, "the visit of TVM indices")

    def _opaque(self, node: Node) -> Affine:
        """Sums, and products with a number, are forms: they wrap around as addresses do. What tells
        numbers from one another asks `_within_range` for them."""
        name, left, right = node.args
        match BinaryOp(name.value):
            case BinaryOp.ADD:
                return self.affine(left) + self.affine(right)
            case BinaryOp.SUB:
                return self.affine(left) - self.affine(right)
            case BinaryOp.MUL:
                one, other = self.affine(left), self.affine(right)
                if not one.terms:
                    return other * one.constant
                if not other.terms:
                    return one * other.constant
        return self._let(node, self.integer(node), DType.I32.value_range)

    def _within_range(self, node: Node) -> Affine:
        """An integer as a form whose bounds are true: one that may wrap around has a variable."""
        form = self.affine(node)
        if is_i32(form, self._symbols.ranges):
            return form
        return self._let((node, "wrapped"), self.integer(node), DType.I32.value_range)

    def _integer_cast(self, node: Node) -> Affine:
        """To a number of 32 bits, which an i64 is taken to be, or to the low byte of one."""
        to, of = _dtype(node), node.value
        if to not in _WIDE and to != _BYTE:
            raise _no_cast(node)
        if _dtype(of) == "bool":
            return self._flag(of)
        if not _is_float(of):
            whole = self.affine(of) if to in _WIDE else self._within_range(of)
        else:
            cast = Cast(value=self.value(of), dtype=DType.I32)
            whole = self._let(of, cast, DType.I32.value_range)
        low, high = whole.bounds(self._symbols.ranges)
        first, last = DType.I8.value_range
        if to in _WIDE or (first <= low and high <= last):
            return whole
        bits = Const(value=24, dtype=DType.I32)
        top = IndexValue(index=whole) << bits
        byte = top >> bits
        return self._let(node, byte, DType.I8.value_range)

    def _integer_select(self, node: Node) -> Affine:
        side = self._side(node.condition, node.true_value, node.false_value)
        if side is not None:
            return self.affine(side)
        with self._both_computed(node.condition):
            then, otherwise = map(self._within_range, (node.true_value, node.false_value))
        value = Select(
            condition=self.mask(node.condition),
            then=IndexValue(index=then),
            otherwise=IndexValue(index=otherwise),
        )
        ranges = then.bounds(self._symbols.ranges), otherwise.bounds(self._symbols.ranges)
        return self._let(node, value, (min(*ranges)[0], max(high for _, high in ranges)))

    def _integer_operation(self, node: Node, op: BinaryOp) -> Affine:
        left, right = self._within_range(node.a), self._within_range(node.b)
        if op is BinaryOp.MUL and not (left.terms and right.terms):
            return left * right.constant if left.terms else right * left.constant
        if op in (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD) and not right.terms:
            if right.constant < 0:
                return self._divided_by_negative(node, op, left, -right.constant)
            return self._divided(node, op, left, right.constant)
        return self._computed(node, op, left, right)

    def _divided(self, node: Node, op: BinaryOp, left: Affine, divisor: int) -> Affine:
        exact = floor_divide if op is BinaryOp.FLOOR_DIV else remainder
        if divisor > 0:
            with suppress(UnsupportedProgram):
                return exact(left, divisor, self._symbols.ranges)
        return self._computed(node, op, left, Affine(constant=divisor))

    def _divided_by_negative(self, node: Node, op: BinaryOp, left: Affine, divisor: int) -> Affine:
        """By -divisor, from quotient q and remainder r by `divisor`, as -left may be no i32:

        left // -divisor = -(q + (r > 0)),  left % -divisor = r - divisor * (r > 0)
        """
        rest = self._divided((node, "rest"), BinaryOp.FLOOR_MOD, left, divisor)
        over = self._computed((node, "over"), BinaryOp.MIN, rest, Affine(constant=1))
        if op is BinaryOp.FLOOR_MOD:
            return rest + over * -divisor
        whole = self._divided((node, "whole"), BinaryOp.FLOOR_DIV, left, divisor)
        return (whole + over) * -1

    def _computed(self, node: Hashable, op: BinaryOp, left: Affine, right: Affine) -> Affine:
        """The result as a variable of its own; a constant divisor stays a constant."""
        operand: Expression = IndexValue(index=right)
        if op in (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD) and not right.terms:
            operand = Const(value=right.constant, dtype=DType.I32)
        value = Binary(op=op, left=IndexValue(index=left), right=operand)
        ranges = (left.bounds(self._symbols.ranges), right.bounds(self._symbols.ranges))
        (low, high), (least, most) = combined(op, *ranges), DType.I32.value_range
        fits = least <= low and high <= most
        return self._let(node, value, (low, high) if fits else (least, most))

    def _let(self, node: Hashable, value: Expression, limits: Range) -> Affine:
        self._local_reads += 1
        known = self._lets.get(node)
        if known is None:
            low, high = limits
            var = self._symbols.fresh_value("v", limits)
            self._steps.append(Let(var=var, value=value, low=low, high=high, body=()))
            known = self._lets[node] = variable(var)
        return known

    def mask(self, node: Node) -> Expression:
        """A condition as a value: both of its sides are computed."""
        node = _unwrapped(node)
        kind = type(node)
        if kind is tirx.Not:
            none = Const(value=0, dtype=DType.I32)
            return Compare(op=CompareOp.EQ, left=self.mask(node.a), right=none)
        if kind in (tirx.And, tirx.Or):
            op = BinaryOp.AND if kind is tirx.And else BinaryOp.OR
            return Binary(op=op, left=self.mask(node.a), right=self.mask(node.b))
        if kind not in _COMPARISONS:
            raise unsupported(node, "the visit of TVM conditions")
        comparison, swapped = _COMPARISONS[kind]
        read = self.value if _is_float(node.a) else self.integer
        left, right = (node.b, node.a) if swapped else (node.a, node.b)
        return Compare(op=comparison, left=read(left), right=read(right))

    def bounds(self, node: Node, *, holds: bool) -> tuple[Bound, ...] | None:
        """Returns what is to be true for the condition to hold, or not to; None for one of
        several."""
        node = _unwrapped(node)
        kind = type(node)
        if kind is tirx.Not:
            return self.bounds(node.a, holds=not holds)
        if kind is tirx.EQ and _is_false(node.b):
            return self.bounds(node.a, holds=not holds)
        if kind in (tirx.And, tirx.Or):
            if (kind is tirx.And) is not holds:
                return None
            left, right = self.bounds(node.a, holds=holds), self.bounds(node.b, holds=holds)
            return None if left is None or right is None else (*left, *right)
        if kind in _COMPARISONS and not _is_float(node.a):
            op, swapped = _COMPARISONS[kind]
            one, other = self._within_range(node.a), self._within_range(node.b)
            difference = one - other
            found = integer_bounds(op, difference * -1 if swapped else difference, holds=holds)
            if found is None or all(fits(bound, self._symbols.ranges) for bound in found):
                return found
        flag = self._flag(node)
        return (below(flag * -1, 0) if holds else below(flag, 1),)

    def _flag(self, condition: Node) -> Affine:
        """1 where the condition holds, else 0."""
        return self._let(condition, self.mask(condition), (0, 1))

    def parts(self, node: Node) -> tuple[bool, Node, Node]:
        """Returns whether both parts of a condition have to hold or one is enough, and the
        parts."""
        node = _unwrapped(node)
        if type(node) in (tirx.And, tirx.Or):
            return type(node) is tirx.And, node.a, node.b
        raise unsupported(node, "the visit of TVM conditions")


_OF_ENTRIES = {
    tirx.Add: BinaryOp.ADD,
    tirx.Sub: BinaryOp.SUB,
    tirx.Mul: BinaryOp.MUL,
    tirx.Min: BinaryOp.MIN,
    tirx.Max: BinaryOp.MAX,
    **_BITS,
}


def _of_integers(op: BinaryOp, left: Expression, right: Expression) -> Expression:
    """Floor division and remainder by a power of two are a shift and a mask, which vectors have."""
    known = int(right.value) if isinstance(right, Const) else 0
    if known > 0 and not known & (known - 1):
        if op is BinaryOp.FLOOR_MOD:
            mask = Const(value=known - 1, dtype=DType.I32)
            return left & mask
        if op is BinaryOp.FLOOR_DIV:
            count = Const(value=known.bit_length() - 1, dtype=DType.I32)
            return left >> count
    return Binary(op=op, left=left, right=right)


def _dtype(node: Node) -> str:
    return str(node.ty)


def _is_float(node: Node) -> bool:
    return _dtype(node).startswith("float")


def _is_false(node: Node) -> bool:
    return isinstance(node, tirx.IntImm) and _dtype(node) == "bool" and not node.value


def _no_cast(node: Node) -> UnsupportedProgram:
    return UnsupportedProgram(
        f"a cast to {_dtype(node)} is not lowered; use {', '.join((_FLOAT, *_WIDE, _BYTE))}"
    )


def _unwrapped(node: Node) -> Node:
    while isinstance(node, ir.expr.Call) and node.op.name in _TRANSPARENT:
        node = node.args[0]
    return node
