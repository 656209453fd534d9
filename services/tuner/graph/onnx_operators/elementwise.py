"""Operators of which each entry follows from the entries at the same place."""

from collections.abc import Callable, Mapping, Sequence
from math import factorial, pi, sqrt
from math import log as logarithm

import numpy as np

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.elementwise import gelu as exact_gelu
from kernelzoo.domain.operators.expressions import (
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    CompareOp,
    Comparison,
    Expression,
    Function,
    Integer,
    Real,
    differs,
    equal,
    largest,
    power,
    smallest,
    truth,
)
from services.tuner.graph.building import (
    MOST_OPERANDS,
    Carried,
    Formula,
    Operand,
    Site,
    integer_range,
    is_real,
)
from services.tuner.graph.network import TensorType
from services.tuner.graph.onnx_operators.integers import (
    inverted,
    is_of_unsigned,
    is_unsigned,
    quotient,
    ranked,
    real_of_unsigned,
    remainder,
    shifted,
    sign,
    truncated_remainder,
    unsigned_of_real,
    unsigned_quotient,
    unsigned_remainder,
    unsigned_sign,
    wrapped,
)
from services.tuner.graph.onnx_operators.integers import power as power_of_integers

Value = Callable[..., Expression]
_NEAR_ZERO = 2.0**-12
"""x of it and of anything smaller is asinh x and atanh x in float32."""
_BEYOND = 2.0**30
"""√(x² + 1) and √(x² - 1) of it and of anything larger is x in float32."""
_SINH = tuple(1 / factorial(n) for n in (1, 3, 5, 7, 9))
"""sinh x / x in x²: what follows is below 3e-8 up to 1."""
LARGEST_FINITE = float(np.finfo(np.float32).max)


def _entries(site: Site, value: Value, *operands: Operand) -> Operand:
    """The broadcast entries of operands, put into a function of expressions."""
    formula = Formula(site)
    axes = formula.axes(site.shape)
    return formula.output(
        axes, value(*(formula.broadcast(each, axes) for each in operands)), site.dtype
    )


def _of_reals(value: Value) -> Callable[[Site], Carried]:
    def carry(site: Site) -> Carried:
        return _entries(site, value, *site.given)

    return carry


def _call(function: Function) -> Callable[[Site], Carried]:
    return _of_reals(lambda x: Call(function, x))


def _of_both(
    reals: Value, integers: Value, unsigned: Value | None = None
) -> Callable[[Site], Carried]:
    """For operators that are stated in one way for real numbers and in another for integers, or
    for those that are `unsigned`."""

    def carry(site: Site) -> Carried:
        if site.needed(0).dtype is DType.F32:
            return _entries(site, reals, *site.given)
        value = integers if unsigned is None or not is_of_unsigned(site) else unsigned
        return _entries(site, _narrowed(value, site.output), *site.given)

    return carry


def _narrowed(value: Value, type_: TensorType) -> Value:
    return lambda *x: wrapped(value(*x), type_)


def _sides(value: Value) -> Callable[[Site], Carried]:
    return _of_both(value, value)


def _compared(op: CompareOp, *, swapped: bool = False) -> Callable[[Site], Carried]:
    def value(*x: Expression) -> Expression:
        left, right = reversed(x) if swapped else x
        return truth(Comparison(op, left, right))

    def carry(site: Site) -> Carried:
        in_order = _in_order(value) if is_of_unsigned(site) else value
        return _entries(site, in_order, site.needed(0), site.needed(1))

    return carry


def _in_order(value: Value) -> Value:
    """The value of unsigned operands as one of integers in the same order."""
    return lambda *x: value(*map(ranked, x))


def _folded(op: BinaryOp) -> Callable[[Site], Carried]:
    """Operators of any number of operands, which are in the order of unsigned numbers where they
    are such."""

    def value(first: Expression, *rest: Expression) -> Expression:
        for each in rest:
            first = Binary(op, first, each)
        return first

    def carry(site: Site) -> Carried:
        combined = value
        if is_of_unsigned(site):
            combined = lambda *x: ranked(_in_order(value)(*x))  # noqa: E731
        first, *rest = site.given
        for start in range(0, len(rest), MOST_OPERANDS - 1):
            first = _entries(site, combined, first, *rest[start : start + MOST_OPERANDS - 1])
        return first if rest else _entries(site, value, first)

    return carry


def _floor(x: Expression) -> Expression:
    return Call(Function.FLOOR, x)


def truncated(x: Expression) -> Expression:
    return Choice((x < 0.0,), Call(Function.CEIL, x), Call(Function.FLOOR, x))


def exp(x: Expression) -> Expression:
    return Call(Function.EXP, x)


def log(x: Expression) -> Expression:
    return Call(Function.LOG, x)


def tanh(x: Expression) -> Expression:
    return Call(Function.TANH, x)


def absolute(x: Expression) -> Expression:
    return Call(Function.ABS, x)


def sigmoid(x: Expression) -> Expression:
    return Call(Function.SIGMOID, x)


def root(x: Expression) -> Expression:
    return Call(Function.SQRT, x)


def exp_less_one(x: Expression) -> Expression:
    return Call(Function.EXPM1, x)


def log_past_one(x: Expression) -> Expression:
    return Call(Function.LOG1P, x)


def softplus(x: Expression) -> Expression:
    return largest(x, 0.0) + log_past_one(exp(absolute(x) * -1.0))


def _odd(x: Expression, of_size: Expression) -> Expression:
    """A function that is x near 0, and `of_size` of |x| with the sign of x."""
    signed = of_size * Choice((x < 0.0,), Real(-1.0), Real(1.0))
    return Choice((absolute(x) < _NEAR_ZERO,), x, signed)


def asinh(x: Expression) -> Expression:
    """ln(|x| + √(x² + 1)); beyond `_BEYOND` ln 2|x|, whose square could be infinite."""
    size = absolute(x)
    near = size + size * size / (1.0 + root(size * size + 1.0))
    return _odd(x, _log_of_doubled(size, near))


def acosh(x: Expression) -> Expression:
    """NaN below 1, as ln(1 - 2) is."""
    above = x - 1.0
    near = above + root(above * (above + 2.0))
    return _log_of_doubled(x, Choice((x < 1.0,), Real(-2.0), near))


def _log_of_doubled(x: Expression, near: Expression) -> Expression:
    is_near = x < _BEYOND
    doubled = Choice((is_near,), Real(0.0), Real(logarithm(2)))
    return log_past_one(Choice((is_near,), near, x)) + doubled


def atanh(x: Expression) -> Expression:
    size = absolute(x)
    return _odd(x, 0.5 * log_past_one(2.0 * size / (1.0 - size)))


def cosh(x: Expression) -> Expression:
    half = exp(absolute(x) * 0.5)
    return 0.5 * half * half + 0.5 / (half * half)


def sinh(x: Expression) -> Expression:
    """Up to |x| = 1 by its series: the difference of powers would cancel."""
    half = exp(absolute(x) * 0.5)
    far = 0.5 * half * half - 0.5 / (half * half)
    signed = far * Choice((x < 0.0,), Real(-1.0), Real(1.0))
    square = x * x
    series: Expression = Real(_SINH[-1])
    for coefficient in reversed(_SINH[:-1]):
        series = series * square + coefficient
    return Choice((absolute(x) < 1.0,), x * series, signed)


def tanh_gelu(x: Expression) -> Expression:
    inner = sqrt(2 / pi) * (x + 0.044715 * (x * x * x))
    return 0.5 * x * (1.0 + tanh(inner))


def clipped(x: Expression, least: Expression | None, most: Expression | None) -> Expression:
    if least is not None:
        x = largest(x, least)
    return x if most is None else smallest(x, most)


def _clip(site: Site) -> Carried:
    formula = Formula(site)
    axes = formula.axes(site.shape)
    x, least, most = (
        None if each is None else formula.broadcast(each, axes)
        for each in (site.needed(0), site.input(1), site.input(2))
    )
    if x is None or (least is None and most is None):
        return site.needed(0)
    if not is_of_unsigned(site):
        return formula.output(axes, clipped(x, least, most), site.dtype)
    ends = (None if end is None else ranked(end) for end in (least, most))
    return formula.output(axes, ranked(clipped(ranked(x), *ends)), site.dtype)


def _gelu(site: Site) -> Carried:
    value = tanh_gelu if site.text("approximate") == "tanh" else exact_gelu
    return _entries(site, value, site.needed(0))


def _power(site: Site) -> Carried:
    """Powers of few factors are products; others are computed of real numbers."""
    base, exponent = site.needed(0), site.needed(1)
    real = base.dtype is DType.F32
    told = exponent.constant
    if told is not None and told.size == 1:
        product = _PRODUCTS.get(float(told.reshape(-1)[0])) if real else None
        if product is not None:
            return _entries(site, product, base)

    unsigned = is_unsigned(site.types[1])

    def value(left: Expression, right: Expression) -> Expression:
        if not real:
            if exponent.dtype is DType.F32:
                return _power_of_integer(left, right)
            return power_of_integers(left, right, unsigned_exponent=unsigned)
        if exponent.dtype is DType.F32:
            return power(left, right)
        return power(left, real_of_unsigned(right) if unsigned else Cast(right))

    return _entries(site, value, base, exponent)


def _power_of_integer(base: Expression, exponent: Expression) -> Expression:
    """An integer to a real power, without its fraction: exact where the power has none, else within
    f32, where what is a millionth from an integer is that."""
    raised = power(Cast(base), exponent)
    nearest = Call(Function.ROUND, raised)
    off = absolute(raised - nearest)
    near = Comparison(CompareOp.LE, off, largest(absolute(raised), 1.0) * 1e-6)
    with_fraction = Cast(Choice((near,), nearest, raised), DType.I32)
    is_whole = equal(_floor(exponent), exponent)
    exact = power_of_integers(base, Cast(exponent, DType.I32), unsigned_exponent=False)
    return Choice((is_whole,), exact, with_fraction)


_PRODUCTS: Mapping[float, Value] = {
    1.0: lambda x: x,
    2.0: lambda x: x * x,
    3.0: lambda x: x * x * x,
    4.0: lambda x: x * x * (x * x),
    0.5: root,
    -0.5: lambda x: Call(Function.RSQRT, x),
    -1.0: lambda x: 1.0 / x,
}


def _cast(site: Site) -> Carried:
    return cast(site, site.needed(0), site.types[0], site.output)


def cast(site: Site, of: Operand, source: TensorType | None, target: TensorType) -> Operand:
    """Booleans become 0 and 1, real numbers lose their fraction, narrow integers count modulo their
    size. Values of f16 and f64 are f32 here."""
    if target.dtype.kind == "b":
        if source is not None and source.dtype.kind == "b":
            return of
        nothing: float | int = 0.0 if of.dtype is DType.F32 else 0
        return _entries(site, lambda x: truth(differs(x, nothing)), of)
    if is_real(target.dtype):
        if of.dtype is DType.F32:
            return of
        return _entries(site, real_of_unsigned if is_unsigned(source) else Cast, of)
    if of.dtype is DType.F32:
        whole: Value = unsigned_of_real if is_unsigned(target) else _whole
        return _entries(site, _narrowed(whole, target), of)
    if target.dtype.itemsize >= 4 or (source and np.can_cast(source.dtype, target.dtype)):
        return of
    return _entries(site, _narrowed(lambda x: x, target), of)


def _whole(x: Expression) -> Expression:
    return Cast(x, DType.I32)


def _where(site: Site) -> Carried:
    return _entries(
        site, lambda c, x, y: Choice((differs(c, 0),), x, y), *(site.needed(n) for n in range(3))
    )


def _mod(site: Site) -> Carried:
    if site.needed(0).dtype is DType.F32:
        return _mod_of_reals(site)
    if is_of_unsigned(site):
        return _apart(site, unsigned_remainder, "unsigned_remainder")
    return _entries(site, truncated_remainder if site.integer("fmod") else remainder, *site.given)


def _division(site: Site) -> Carried:
    if is_of_unsigned(site):
        return _apart(site, unsigned_quotient, "unsigned_quotient")
    return _of_both(lambda x, y: x / y, quotient)(site)


def _apart(site: Site, value: Value, name: str) -> Operand:
    """Computes what `_entries` does in a kernel of its own: an operand that stands many times in a
    value, among choices, must not be a long expression, of which TVM's simplifier takes minutes."""
    formula = Formula(site)
    axes = formula.axes(site.shape)
    operands = [formula.broadcast(each, axes) for each in site.given]
    formula.stage(axes, value(*operands), site.dtype)
    return formula.workload(name)


def _bit_shift(site: Site) -> Carried:
    op = BinaryOp.SHIFT_LEFT if site.text("direction") == "LEFT" else BinaryOp.SHIFT_RIGHT
    return _entries(
        site, lambda x, n: wrapped(shifted(x, n, op, site.output), site.output), *site.given
    )


def _bitwise(op: BinaryOp) -> Callable[[Site], Carried]:
    return _sides(lambda x, y: Binary(op, x, y))


def _mod_of_reals(site: Site) -> Carried:
    """The remainder has the sign of the dividend, without `fmod` that of the divisor."""
    formula = Formula(site)
    axes = formula.axes(site.shape)
    x, y = (formula.broadcast(each, axes) for each in site.given)
    rest = Binary(BinaryOp.FMOD, x, y)
    if site.integer("fmod"):
        return formula.output(axes, rest)
    kept = formula.stage(axes, rest)[axes]
    upwards = Choice((kept < 0.0, 0.0 < y), kept + y, kept)  # noqa: SIM300
    return formula.output(axes, Choice((0.0 < kept, y < 0.0), kept + y, upwards))  # noqa: SIM300


def _leaky(site: Site) -> Carried:
    alpha = site.real("alpha")
    return _entries(site, lambda x: Choice((x < 0.0,), x * alpha, x), site.needed(0))


def _parametric(site: Site) -> Carried:
    if is_of_unsigned(site):
        return site.needed(0)
    zero: float | int = 0.0 if site.dtype is DType.F32 else 0
    return _entries(site, lambda x, s: Choice((x < zero,), x * s, x), *site.given)


def _elu(site: Site) -> Carried:
    alpha = site.real("alpha")
    return _entries(site, lambda x: Choice((x < 0.0,), alpha * exp_less_one(x), x), site.needed(0))


def _celu(site: Site) -> Carried:
    alpha = site.real("alpha", 1.0)
    return _entries(
        site,
        lambda x: largest(x, 0.0) + smallest(alpha * exp_less_one(x / alpha), 0.0),
        site.needed(0),
    )


def _selu(site: Site) -> Carried:
    alpha, gamma = site.real("alpha"), site.real("gamma")
    return _entries(
        site,
        lambda x: gamma * Choice((0.0 < x,), x, alpha * exp_less_one(x)),  # noqa: SIM300
        site.needed(0),
    )


def _hard_sigmoid(site: Site) -> Carried:
    alpha, beta = site.real("alpha"), site.real("beta")
    return _entries(site, lambda x: smallest(largest(x * alpha + beta, 0.0), 1.0), site.needed(0))


def _threshold(site: Site) -> Carried:
    alpha = site.real("alpha")
    # NaN is not above it either.
    above: Value = lambda x: Choice((Comparison(CompareOp.LT, Real(alpha), x),), x, Real(0.0))  # noqa: E731
    return _entries(site, above, site.needed(0))


def _shrink(site: Site) -> Carried:
    bias, lambd = site.real("bias"), site.real("lambd")
    return _entries(
        site,
        lambda x: Choice(
            (x < -lambd,),
            x + bias,
            Choice((Comparison(CompareOp.LT, Real(lambd), x),), x - bias, Real(0.0)),
        ),
        site.needed(0),
    )


def _swish(site: Site) -> Carried:
    alpha = site.real("alpha", 1.0)
    return _entries(site, lambda x: x * sigmoid(x if alpha == 1.0 else x * alpha), site.needed(0))


def _infinite(site: Site) -> Carried:
    up, down = bool(site.integer("detect_positive", 1)), bool(site.integer("detect_negative", 1))

    def value(x: Expression) -> Expression:
        if not up and not down:
            return Integer(0)
        size = absolute(x) if up and down else x if up else x * -1.0
        return truth(Comparison(CompareOp.LT, Real(LARGEST_FINITE), size))

    return _entries(site, value, site.needed(0))


def _is_nan(x: Expression) -> Expression:
    """Compilers of WGSL may take `x != x` for false. Every number is at most 1 or at least 0."""
    return Choice((x <= 1.0,), Integer(0), Choice((x >= 0.0,), Integer(0), Integer(1)))


def _mean(site: Site) -> Carried:
    total = _folded(BinaryOp.ADD)(site)
    assert isinstance(total, Operand)
    share = 1.0 / len(site.given)
    return total if share == 1 else _entries(site, lambda x: x * share, total)


def _sign(x: Expression) -> Expression:
    """NaN is its own sign."""
    zero = Choice((equal(x, 0.0),), Real(0.0), x)
    return Choice((x < 0.0,), Real(-1.0), Choice((x > 0.0,), Real(1.0), zero))


def _quantised(site: Site) -> Carried:
    """y = saturate(round(x / scale) + zero point). Steps are counted from the least of the type on,
    which NaN becomes, as onnxruntime has it."""
    x, scale, zero = site.needed(0), site.needed(1), site.input(2)
    least, most = integer_range(site.output.dtype)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    own = _read_parameters(site, formula, axes)
    value: Expression = Call(Function.ROUND, formula.read(x, axes) / own(scale))
    if zero is not None or least:
        value = value + Cast(_above(least, own(zero) if zero is not None else Integer(0)))
    steps = Cast(smallest(largest(value, 0.0), float(most - least)), DType.I32)
    return formula.output(axes, steps + least if least else steps, site.dtype)


def _above(least: int, number: Expression) -> Expression:
    if isinstance(number, Integer):
        return Integer(number.value - least)
    return number - least if least else number


def _dequantised(site: Site) -> Carried:
    """y = (x − zero point) · scale."""
    x, scale, zero = site.needed(0), site.needed(1), site.input(2)
    formula = Formula(site)
    axes = formula.axes(site.shape)
    own = _read_parameters(site, formula, axes)
    value = formula.read(x, axes)
    if zero is not None:
        value = value - own(zero)
    return formula.output(axes, Cast(value) * own(scale))


def _read_parameters(
    site: Site, formula: Formula, axes: tuple[Axis, ...]
) -> Callable[[Operand], Expression]:
    """Reads a scale or a zero point: one for all, one for each place along an axis, or one for each
    block of places."""
    axis, block = site.axis(default=1), site.integer("block_size")

    def read(of: Operand) -> Expression:
        if block:
            return formula.read(of, (*axes[:axis], axes[axis] // block, *axes[axis + 1 :]))
        several = of.rank == 1 and of.elements > 1
        return formula.read(of, (axes[axis],) if several else _first(of))

    return read


def _first(of: Operand) -> Sequence[int]:
    return (0,) * of.rank


def _add(left: Expression, right: Expression) -> Expression:
    return left + right


def _sub(left: Expression, right: Expression) -> Expression:
    return left - right


def _mul(left: Expression, right: Expression) -> Expression:
    return left * right


def _identity(site: Site) -> Carried:
    return site.needed(0)


def _dropout(site: Site) -> Carried:
    """Nothing is dropped but in training."""
    training = site.known(2, "training mode")
    if training is not None and training.any():
        raise site.refusal("it is in training mode", "call model.eval() before the export")
    mask = None
    if len(site.outputs) > 1 and site.outputs[1] is not None:
        mask = site.constant(np.ones(site.outputs[1].shape, np.bool_))
    return site.needed(0), mask


OPERATORS: Mapping[str, Callable[[Site], Carried]] = {
    "Abs": _of_both(absolute, lambda x: largest(x, 0 - x), lambda x: x),
    "Acosh": _of_reals(acosh),
    "Add": _sides(_add),
    "And": _sides(smallest),
    "Asinh": _of_reals(asinh),
    "Atanh": _of_reals(atanh),
    "BitShift": _bit_shift,
    "BitwiseAnd": _bitwise(BinaryOp.BIT_AND),
    "BitwiseNot": _sides(inverted),
    "BitwiseOr": _bitwise(BinaryOp.BIT_OR),
    "BitwiseXor": _bitwise(BinaryOp.BIT_XOR),
    "Cast": _cast,
    "CastLike": _cast,
    "Ceil": _call(Function.CEIL),
    "Celu": _celu,
    "Clip": _clip,
    "Cos": _call(Function.COS),
    "Cosh": _of_reals(cosh),
    "DequantizeLinear": _dequantised,
    "Div": _division,
    "Dropout": _dropout,
    "Elu": _elu,
    "Equal": _compared(CompareOp.EQ),
    "Erf": _call(Function.ERF),
    "Exp": _call(Function.EXP),
    "Floor": _call(Function.FLOOR),
    "Gelu": _gelu,
    "Greater": _compared(CompareOp.LT, swapped=True),
    "GreaterOrEqual": _compared(CompareOp.LE, swapped=True),
    "HardSigmoid": _hard_sigmoid,
    "HardSwish": _of_reals(lambda x: x * smallest(largest(x * (1.0 / 6.0) + 0.5, 0.0), 1.0)),
    "Identity": _identity,
    "IsInf": _infinite,
    "IsNaN": _of_reals(_is_nan),
    "LeakyRelu": _leaky,
    "Less": _compared(CompareOp.LT),
    "LessOrEqual": _compared(CompareOp.LE),
    "Log": _call(Function.LOG),
    "Max": _folded(BinaryOp.MAX),
    "Mean": _mean,
    "Min": _folded(BinaryOp.MIN),
    "Mish": _of_reals(lambda x: x * tanh(softplus(x))),
    "Mod": _mod,
    "Mul": _sides(_mul),
    "Neg": _of_both(lambda x: x * -1.0, lambda x: 0 - x),
    "Not": _sides(lambda x: 1 - x),
    "Or": _sides(largest),
    "PRelu": _parametric,
    "Pow": _power,
    "QuantizeLinear": _quantised,
    "Reciprocal": _of_reals(lambda x: 1.0 / x),
    "Relu": _of_both(lambda x: largest(x, 0.0), lambda x: largest(x, 0)),
    "Round": _call(Function.ROUND),
    "Selu": _selu,
    "Shrink": _shrink,
    "Sigmoid": _call(Function.SIGMOID),
    "Sign": _of_both(_sign, sign, unsigned_sign),
    "Sin": _call(Function.SIN),
    "Sinh": _of_reals(sinh),
    "Softplus": _of_reals(softplus),
    "Softsign": _of_reals(lambda x: x / (1.0 + absolute(x))),
    "Sqrt": _call(Function.SQRT),
    "Sub": _sides(_sub),
    "Sum": _folded(BinaryOp.ADD),
    "Swish": _swish,
    "Tan": _of_reals(lambda x: Call(Function.SIN, x) / Call(Function.COS, x)),
    "Tanh": _call(Function.TANH),
    "ThresholdedRelu": _threshold,
    "Where": _where,
    "Xor": _sides(lambda x, y: truth(differs(x, y))),
}
