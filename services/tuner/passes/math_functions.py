"""Math function expansion: exp, tanh, erf, sigmoid, 1/√x, log, sin, cos and pow become arithmetic.

    y[i] = exp(x[i])              →     f0.0 := x[i]
                                        f0.1 := ((f0.0 * 1.4427) + 1.25829e+07)
                                        … f0.2, which is n = round(x / ln 2), and f0.3 = x - n·ln 2
                                        y[i] = select(lt(f0.0, -87.3365), 0, … · 2ⁿ)

WebAssembly has no such functions, and WGSL's tanh is inexact (`pipeline.NATIVE`). The same
arithmetic serves one lane and four, as it has no branches, only selects. MLIR's pass
PolynomialApproximation does the same.

Errors are the largest seen against float64, in units in the last place (ulp) of the float32 result,
over two million points, with and without multiply-add: exp 0.99, tanh 6.4, erf 6.2, sigmoid 1.93,
rsqrt 1.48, log 0.82, sin and cos 1.54 up to |x| = 100. A power of e to the y·ln x errs by 1.3 where
|y·ln x| is below 10, and by 10.4 near 80; one of whole numbers that is a number of f32 is exact.
The tests hold each to its figure below.

NaN gives NaN. exp(x) is inf above 88.7228, and 0 below -87.3365, where it would be denormal;
so is sigmoid there. tanh and erf keep the sign of -0 and reach ±1; denormal arguments come back
unchanged.

The coefficients are minimax fits of this project (Lawson's iteration on Chebyshev points, weighted
by the relative error of the function, and linearised by the denominator for the quotients of tanh
and erf), rounded to float32. The range reduction of exp is that of Cody and Waite (Software Manual
for the Elementary Functions, 1980), its constants those of Cephes.
"""

from collections import Counter
from collections.abc import Iterator
from math import inf, nan

from msgspec.structs import replace

from kernelzoo.domain.dtype import DType
from services.tuner.ir.build import call
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
    Bitcast,
    Block,
    Call,
    Compare,
    CompareOp,
    Const,
    Expression,
    If,
    Let,
    Loop,
    MathFunction,
    Program,
    RegisterRead,
    Statement,
    Store,
    dtype_of,
    lanes_of,
    unsupported,
)
from services.tuner.ir.rewrite import operands, values, with_operands
from services.tuner.passes.expression_builder import (
    ExpressionBuilder,
    Native,
)
from services.tuner.passes.logarithm import logarithm, logarithm_past_one, scaled_logarithm
from services.tuner.passes.remainder import remainder
from services.tuner.passes.sine import cosine, sine

LARGEST_ERROR_ULP = {
    MathFunction.EXP: 1.0,
    MathFunction.TANH: 7.0,
    MathFunction.ERF: 7.0,
    MathFunction.SIGMOID: 2.0,
    MathFunction.RSQRT: 1.5,
    MathFunction.SQRT: 0.5,
    MathFunction.LOG: 1.5,
    MathFunction.EXPM1: 3.0,
    MathFunction.LOG1P: 3.0,
    MathFunction.SIN: 2.0,
    MathFunction.COS: 2.0,
}
LARGEST_ERROR_OF_POWER_ULP = 12.0

_LOG2_E = 1.4426950408889634
_LN2 = 0.6931472
_OWN_EXP_LESS_ONE = 2.0**-25
"""eˣ - 1 of it and of anything smaller is x in float32."""
_LN2_HIGH = 0.693359375
_LN2_LOW = -2.12194440e-4
_ROUNDING_SHIFT = 12582912.0
_EXP_LOWEST, _EXP_HIGHEST = -87.33654, 88.72283
"""Between them the result is a normal number."""

_SURE_POWER = 170.0
"""e to it is inf in float32, and e to the negative of it 0."""
_BITS_OF_SHIFT = 0x4B400000
_EXPONENT_OF_ONE = 127
_FRACTION_BITS = 23
_IN_FLOAT64 = MathFunction.LOG
"""JavaScript alone of the targets has it, whose functions are those of `Math`."""

_EXP = (
    0.4999999403953552,
    0.1666652113199234,
    0.04166838899254799,
    0.008368715643882751,
    0.0013814599951729178,
)
"""(eʳ - 1 - r)/r² for |r| ≤ ln 2 / 2."""

_TANH_ONE = 9.1
"""tanh of it and of anything larger is 1 within half a unit; the quotient is above 1 there, by more
than its roundings, and cut. One below 1 would leave 6e-8 of a GELU's largest arguments."""

_TANH = (
    (
        1.0,
        0.13679921627044678,
        0.0038683349266648293,
        2.800760375976097e-05,
        3.0585361798785016e-08,
        -1.2199705060387371e-11,
    ),
    (1.0, 0.4701325297355652, 0.027245866134762764, 0.0003938643785659224, 1.287376676373242e-06),
)
"""tanh x / x as a quotient of polynomials in x², for |x| up to `_TANH_ONE`."""

_ERF_ONE = 4.11
"""erf of it and of anything larger is 1 in float32; the quotient is above 1 there and cut."""

_ERF = (
    (
        1.1283791065216064,
        0.1915460079908371,
        0.05287490040063858,
        0.003807986620813608,
        0.00028468534583225846,
        2.0259583379811374e-06,
    ),
    (
        1.0,
        0.5030859112739563,
        0.11455786228179932,
        0.015054733492434025,
        0.0011706865625455976,
        3.783220745390281e-05,
    ),
)
"""erf x / x as a quotient of polynomials in x², for |x| up to `_ERF_ONE`."""


def approximation(function: MathFunction, x: Expression, build: ExpressionBuilder) -> Expression:
    """The function of `x` as arithmetic; functions that are one instruction stay calls."""
    match function:
        case MathFunction.EXP:
            return _exp(x, build)
        case MathFunction.TANH:
            return _odd(_TANH, _TANH_ONE, x, build)
        case MathFunction.ERF:
            return _odd(_ERF, _ERF_ONE, x, build)
        case MathFunction.SIGMOID:
            return _sigmoid(x, build)
        case MathFunction.RSQRT:
            return build.number(1) / call(MathFunction.SQRT, x)
        case MathFunction.LOG:
            return logarithm(x, build)
        case MathFunction.EXPM1:
            return _exp_less_one(x, build)
        case MathFunction.LOG1P:
            return logarithm_past_one(x, build)
        case MathFunction.SIN:
            return sine(x, build)
        case MathFunction.COS:
            return cosine(x, build)
        case (
            MathFunction.SQRT
            | MathFunction.NEAREST
            | MathFunction.ABS
            | MathFunction.FLOOR
            | MathFunction.CEIL
        ):
            return call(function, x)


def power(base: Expression, exponent: Expression, build: ExpressionBuilder) -> Expression:
    """xʸ = e^(y·ln|x|), whose exponent is taken in two numbers; negative where x is and y is odd.

    As in C: 1 where y is 0 or x is 1, x where y is 1, inf or 0 at x = 0, NaN where x is negative
    and y has a fraction.
    """
    x, y = build.keep(base), build.keep(exponent)
    if _IN_FLOAT64 in build.native:
        size: Expression = call(MathFunction.ABS, x)
        computed: Expression = Binary(op=BinaryOp.POW, left=size, right=y)
    else:
        computed = _exp_of_sum(*scaled_logarithm(x, y, build), build)
    one = Compare(op=CompareOp.EQ, left=call(MathFunction.ABS, x), right=build.number(1))
    size = build.keep(build.where(one, build.number(1), computed))
    half = build.keep(y * build.number(0.5))
    even = build.compared(CompareOp.EQ, half, call(MathFunction.NEAREST, half))
    integer = build.compared(CompareOp.EQ, y, call(MathFunction.NEAREST, y))
    with_parity = build.where(even, size, size * build.number(-1))
    below = Compare(op=CompareOp.LT, left=x, right=build.number(0))
    finite = Compare(op=CompareOp.LT, left=build.number(-inf), right=x)
    no_power = below & finite
    negative = build.where(integer, with_parity, build.where(no_power, build.number(nan), size))
    # Also of -0.
    bits = Bitcast(value=x, dtype=DType.I32)
    has_sign = Compare(op=CompareOp.LT, left=bits, right=build.whole(0))
    signed = build.where(has_sign, negative, size)
    number = build.where(Compare(op=CompareOp.EQ, left=x, right=x), signed, x)
    itself = Compare(op=CompareOp.EQ, left=y, right=build.number(1))
    nothing = Compare(op=CompareOp.EQ, left=y, right=build.number(0))
    return build.where(nothing, build.number(1), build.where(itself, x, number))


def _exp_of_sum(high: Expression, low: Expression, build: ExpressionBuilder) -> Expression:
    """e^(high + low), where low is far smaller, within 1 ulp of that, so that a power which is a
    number of f32 is that number: Floor and Cast of 3² have 9, not 8.

    As `_exp`, with what the sum of r's parts rounds away, and with 2ⁿ in two factors: the product
    is inf or denormal where the power is. WGSL's own exp may be off by 2·|high| ulp.
    """
    bounded = build.keep(build.larger(build.smaller(high, _SURE_POWER), -_SURE_POWER))
    n = build.keep(call(MathFunction.NEAREST, bounded * build.number(_LOG2_E)))
    top = build.keep(build.multiply_add(n, build.number(-_LN2_HIGH), bounded))
    rest = build.keep(build.multiply_add(n, build.number(-_LN2_LOW), low))
    r = build.keep(top + rest)
    lost = rest - (r - top)
    tail = build.multiply_add(r * r, build.polynomial(_EXP, r), lost)
    power = build.keep(r + tail + build.number(1))
    shifted = (n + build.number(_ROUNDING_SHIFT)).bitcast(DType.I32)
    whole = build.keep(shifted - build.whole(_BITS_OF_SHIFT), DType.I32)
    half = build.keep(whole >> 1, DType.I32)
    for exponent in (half, whole - half):
        factor = (exponent + build.whole(_EXPONENT_OF_ONE)) << _FRACTION_BITS
        power = build.keep(power * factor.bitcast(DType.F32))
    return power


def whole_power(base: Expression, exponent: Expression, build: ExpressionBuilder) -> Expression:
    """xⁿ of integers modulo 2³², by squares; without its fraction where n is negative."""

    def product(left: Expression, right: Expression) -> Expression:
        return build.keep(left * right, DType.I32)

    x = build.keep(base, DType.I32)
    one = build.whole(1)
    square: Expression = x
    match exponent:
        case Const(value=known) if known >= 0:
            result: Expression | None = None
            for bit in range(int(known).bit_length()):
                square = product(square, square) if bit else x
                if int(known) >> bit & 1:
                    result = square if result is None else product(result, square)
            return one if result is None else result
    n = build.keep(exponent, DType.I32)
    total: Expression = one
    for bit in range(31):
        square = product(square, square) if bit else x
        chosen = n & build.whole(1 << bit)
        taken = Compare(op=CompareOp.NE, left=chosen, right=build.whole(0))
        total = build.keep(build.where(taken, total * square, total), DType.I32)
    # Of 1 and -1 alone something is left: 1 or, where n is odd, the base.
    odd = Compare(op=CompareOp.EQ, left=n & one, right=one)
    size = x.max(build.whole(0) - x)
    is_unit = Compare(op=CompareOp.EQ, left=size, right=one)
    small = build.where(is_unit, build.where(odd, x, one), build.whole(0))
    return build.below(n, build.whole(0), small, total)


def _exp(x: Expression, build: ExpressionBuilder, *, may_overflow: bool = True) -> Expression:
    """eˣ = eʳ·2ⁿ with n = round(x / ln 2) and r = x - n·ln 2.

    Adding 1.5·2²³ rounds to n and leaves n in the low bits of the sum, ready to be added to the
    exponent of eʳ. This takes half the instructions of rounding, converting and scaling. ln 2 is
    subtracted in two parts, so that r keeps its low bits (Cody and Waite).
    """
    if MathFunction.EXP in build.native:
        return call(MathFunction.EXP, x)
    least, most = _clamped(x)
    x = build.keep(x)
    shifted = build.keep(
        build.multiply_add(x, build.number(_LOG2_E), build.number(_ROUNDING_SHIFT))
    )
    n = build.keep(shifted - build.number(_ROUNDING_SHIFT))
    high = build.multiply_add(n, build.number(-_LN2_HIGH), x)
    r = build.keep(build.multiply_add(n, build.number(-_LN2_LOW), high))
    tail = build.multiply_add(r * r, build.polynomial(_EXP, r), r)
    power = build.scaled(tail + build.number(1), shifted)
    if least < _EXP_LOWEST:
        power = build.below(x, build.number(_EXP_LOWEST), build.number(0), power)
    if not may_overflow or most <= _EXP_HIGHEST:
        return power
    return build.below(build.number(_EXP_HIGHEST), x, build.number(inf), power)


def _exp_less_one(x: Expression, build: ExpressionBuilder) -> Expression:
    """eˣ - 1; up to |x| = ln 2 as u² + 2u with u = e^(x/2) - 1, which subtracts nothing."""
    x = build.keep(x)
    size = build.keep(call(MathFunction.ABS, x))
    half = build.keep(x * build.number(0.5))
    u = build.multiply_add(half * half, build.polynomial(_EXP, half), half)
    u = build.keep(u)
    near = build.multiply_add(u, u, u + u)
    far = _exp(x, build) - build.number(1)
    found = build.below(size, build.number(_LN2), near, far)
    return build.below(size, build.number(_OWN_EXP_LESS_ONE), x, found)


def _clamped(x: Expression) -> tuple[float, float]:
    """Bounds that a value keeps within by its outermost operations: min(max(x, -87), 0)."""
    least, most = -inf, inf
    while isinstance(x, Binary) and isinstance(x.right, Const):
        if x.op in (BinaryOp.MIN, BinaryOp.MINIMUM):
            most = min(most, x.right.value)
        elif x.op in (BinaryOp.MAX, BinaryOp.MAXIMUM):
            least = max(least, x.right.value)
        else:
            break
        x = x.left
    return least, most


def _odd(
    quotient: tuple[tuple[float, ...], tuple[float, ...]],
    one: float,
    x: Expression,
    build: ExpressionBuilder,
) -> Expression:
    """x·P(x²)/Q(x²) for |x| up to `one`, and ±1 beyond. One form for all x takes half the
    instructions of one for small x and one with an exponential, which is right to 1.3 ulp: the
    GELU behind 128x384x1536 takes 0.2 ms instead of 0.4."""
    bounded = build.keep(build.larger(build.smaller(x, one), -one))
    square = build.keep(bounded * bounded)
    above, below = (build.polynomial(each, square) for each in quotient)
    share = bounded * above / below
    return build.larger(build.smaller(share, 1), -1)


def _sigmoid(x: Expression, build: ExpressionBuilder) -> Expression:
    """1/(1 + e⁻ˣ), for x < 0 as eˣ/(1 + eˣ), so that nothing overflows.

    The rounding error of 1 + e is exact in float32 (Dekker, 1971) and corrects the quotient.
    """
    x = build.keep(x)
    size = call(MathFunction.ABS, x)
    power = build.keep(_exp(build.number(0) - size, build, may_overflow=False))
    total = build.keep(power + build.number(1))
    lost = total - build.number(1) - power
    above = build.below(x, build.number(0), power, build.number(1))
    share = build.keep(above / total)
    return build.multiply_add(share, lost, share)


_EXPANDED = (BinaryOp.POW, BinaryOp.FMOD)


def has_calls(program: Program) -> bool:
    return any(
        isinstance(value, Call) or (isinstance(value, Binary) and value.op in _EXPANDED)
        for value in values((program.body,))
    )


def expand_calls(
    program: Program,
    *,
    fma: bool,
    native: Native = frozenset(),
    drops_nan: bool = False,
) -> Program:
    """Replaces every call, except of `native` functions. `fma` and `drops_nan` are those of
    `ExpressionBuilder`."""
    body = _Expansion(fma=fma, native=native, drops_nan=drops_nan).block(program.body.body)
    return replace(program, body=replace(program.body, body=body))


class _Expansion:
    """Owns the count of calls, for unique names of the registers of each."""

    def __init__(self, *, fma: bool, native: Native, drops_nan: bool) -> None:
        self._fma = fma
        self._drops_nan = drops_nan
        self._native = native
        self._count = 0

    def block(self, block: Block) -> Block:
        return tuple(new for statement in block for new in self._statement(statement))

    def _statement(self, statement: Statement) -> Iterator[Statement]:
        match statement:
            case Store() | Assign():
                before, value = self._value(statement.value)
                yield from before
                yield replace(statement, value=value)
            case Let(value=bound, body=body):
                before, value = self._value(bound)
                yield from before
                yield replace(statement, value=value, body=self.block(body))
            case Loop(body=body) | Allocate(body=body):
                yield replace(statement, body=self.block(body))
            case If(body=body, otherwise=otherwise):
                yield replace(statement, body=self.block(body), otherwise=self.block(otherwise))
            case Barrier():
                yield statement
            case _:
                raise unsupported(statement, "math function expansion")

    def _builder(self, lanes: int) -> ExpressionBuilder:
        prefix = f"f{self._count}"
        self._count += 1
        return ExpressionBuilder(
            prefix, lanes, fma=self._fma, native=self._native, drops_nan=self._drops_nan
        )

    def _value(self, value: Expression) -> tuple[list[Statement], Expression]:
        """Returns what has to be done before the value, and the value without calls."""
        before: list[Statement] = []
        calls = [part for part in _parts(value) if self._is_expanded(part)]
        # Not the expressions themselves: 0.0 and -0.0 are equal, and different constants.
        times = Counter(map(repr, calls)) if len(calls) > 1 else {}
        shared: dict[str, RegisterRead] = {}

        def rewritten(expression: Expression) -> Expression:
            if not self._is_expanded(expression):
                return with_operands(expression, rewritten)
            name = repr(expression) if times else ""
            if name in shared:
                return shared[name]
            inside = with_operands(expression, rewritten)
            build = self._builder(lanes_of(inside))
            result = _expanded(inside, build)
            if times and times[name] > 1:
                result = shared[name] = build.keep(result, dtype_of(inside))
            before.extend(build.statements)
            return result

        return before, rewritten(value)

    def _is_expanded(self, part: Expression) -> bool:
        match part:
            case Call(function=function):
                return function not in self._native
            case Binary(op=op):
                return op in _EXPANDED and op not in self._native
        return False


def _expanded(part: Expression, build: ExpressionBuilder) -> Expression:
    match part:
        case Call(function=function, argument=argument):
            return approximation(function, argument, build)
        case Binary(op=BinaryOp.POW, left=left, right=right):
            raised = whole_power if dtype_of(part) is DType.I32 else power
            return raised(left, right, build)
        case Binary(op=BinaryOp.FMOD, left=left, right=right):
            return remainder(left, right, build)
    raise unsupported(part, "math function expansion")


def _parts(expression: Expression) -> Iterator[Expression]:
    for operand in operands(expression):
        yield from _parts(operand)
    yield expression
