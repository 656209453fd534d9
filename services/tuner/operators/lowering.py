"""Programs of the domain's tensor expressions as TVM's: what each computes and nothing else.

A family of schedules that needs a program in another shape (rounded extents, packed operands,
sums by steps) states it anew, and takes single stages of `computed`.
"""

from collections.abc import Callable, Iterable, Mapping
from math import copysign, inf

from kernelzoo.domain.dtype import DType
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
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    number,
    parts,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import UnsupportedProgram
from services.tuner.ir import nodes
from services.tuner.tir.tvm import Node, te, tirx

DTYPES = {DType.F32: "float32", DType.F16: "float32", DType.I32: "int32", DType.I8: "int8"}
"""TVM calls dtypes so. It is not told that tensors are kept as f16: what is computed is f32."""


def _larger(left: Node, right: Node) -> Node:
    """TVM has no maximum that is NaN where either is."""
    return _extreme_of(te.max, nodes.BinaryOp.MAXIMUM, left, right)


def _smaller(left: Node, right: Node) -> Node:
    return _extreme_of(te.min, nodes.BinaryOp.MINIMUM, left, right)


def _extreme_of(
    of_integers: Callable[[Node, Node], Node], of_reals: nodes.BinaryOp, left: Node, right: Node
) -> Node:
    if _is_real(left):
        return _external(of_reals, left, right)
    return of_integers(left, right)


def _difference(left: Node, right: Node) -> Node:
    """TVM takes x - x for 0 and (x + y) - y for x, which they are not of infinite numbers, nor
    where the sum is rounded: x + 3 · 2²² - 3 · 2²² is x rounded to a whole number."""
    if _is_real(left):
        return _external(nodes.BinaryOp.SUB, left, right)
    return left - right


def _product(left: Node, right: Node) -> Node:
    """TVM takes x * 0 for 0, which it is not where x is infinite or NaN."""
    if _is_real(left) and (_is_zero(left) or _is_zero(right)):
        return _external(nodes.BinaryOp.MUL, left, right)
    return left * right


def _quotient(left: Node, right: Node) -> Node:
    """TVM takes 0 / x for 0, which it is not where x is 0 or NaN, and refuses x / 0."""
    if _is_real(left) and (_is_zero(left) or _is_zero(right)):
        return _external(nodes.BinaryOp.DIV, left, right)
    return left / right


def _real(value: float) -> Node:
    """TVM takes -0 for 0, and so a choice between both for either: it is told but the name."""
    if value == 0 and copysign(1, value) < 0:
        return tirx.call_pure_extern("float32", str(value))
    return tirx.const(value, "float32")


def _is_real(node: Node) -> bool:
    return str(node.expr_ty()) == DTYPES[DType.F32]


def _is_zero(node: Node) -> bool:
    return isinstance(node, tirx.FloatImm) and node.value == 0


def _external(function: nodes.BinaryOp | nodes.MathFunction, *operands: Node) -> Node:
    """A function of real numbers that TVM has not, by its name in the loop IR."""
    return tirx.call_pure_extern("float32", function.value, *operands)


_BINARY: dict[BinaryOp, Callable[[Node, Node], Node]] = {
    BinaryOp.ADD: lambda left, right: left + right,
    BinaryOp.SUB: _difference,
    BinaryOp.MUL: _product,
    BinaryOp.DIV: _quotient,
    BinaryOp.FLOOR_DIV: lambda left, right: left // right,
    BinaryOp.FLOOR_MOD: lambda left, right: left % right,
    BinaryOp.MIN: _smaller,
    BinaryOp.MAX: _larger,
    BinaryOp.POW: te.power,
    BinaryOp.FMOD: lambda left, right: _external(nodes.BinaryOp.FMOD, left, right),
    BinaryOp.SHIFT_RIGHT: lambda left, right: left >> right,
    BinaryOp.BIT_AND: lambda left, right: left & right,
}
_FUNCTIONS: dict[Function, Callable[[Node], Node]] = {
    Function.EXP: te.exp,
    Function.ERF: te.erf,
    Function.TANH: te.tanh,
    Function.SQRT: te.sqrt,
    Function.RSQRT: te.rsqrt,
    Function.SIGMOID: te.sigmoid,
    Function.LOG: te.log,
    Function.EXPM1: lambda x: _external(nodes.MathFunction.EXPM1, x),
    Function.LOG1P: lambda x: _external(nodes.MathFunction.LOG1P, x),
    Function.SIN: te.sin,
    Function.COS: te.cos,
    Function.FLOOR: te.floor,
    Function.CEIL: te.ceil,
    Function.ROUND: te.nearbyint,
    Function.ABS: te.abs,
}
_COMPARE: dict[CompareOp, Callable[[Node, Node], Node]] = {
    CompareOp.LT: lambda left, right: left < right,
    CompareOp.LE: lambda left, right: left <= right,
    CompareOp.EQ: tirx.EQ,
    CompareOp.NE: tirx.NE,
}


def _reducer(join: Callable[[Node, Node], Node], *, largest: bool) -> Node:
    """TVM's own begin with the largest finite number, which is no bound of infinite ones."""

    def neutral(dtype: str) -> Node:
        if dtype.startswith("float"):
            return tirx.const(-inf if largest else inf, dtype)
        return tirx.min_value(dtype) if largest else tirx.max_value(dtype)

    return te.comm_reducer(join, neutral, name="largest" if largest else "smallest")


REDUCERS: dict[Reducer, Callable[..., Node]] = {
    Reducer.SUM: te.sum,
    Reducer.MAX: _reducer(_larger, largest=True),
    Reducer.MIN: _reducer(_smaller, largest=False),
    Reducer.PROD: te.comm_reducer(
        lambda left, right: left * right, lambda dtype: tirx.const(1, dtype), name="prod"
    ),
}


def _either(left: Node, right: Node) -> Node:
    return te.max(left, right)


LARGEST_NUMBER = _reducer(_either, largest=True)
"""It may keep either of NaN and a number, which takes WebAssembly a third of the time."""

Tensors = Mapping[str, Node]
Places = Mapping[str, Node]
"""TVM's variable for each axis, by name."""


def stated(workload: Workload) -> Node:
    """The PrimFunc of a workload."""
    return prim_func(workload.program)


def prim_func(program: Program) -> Node:
    """Parameters are the inputs, the output and the stages that inputs are updated by; every other
    stage is a buffer."""
    inputs = {
        each.name: te.placeholder(each.shape, name=each.name, dtype=DTYPES[DType(each.dtype)])
        for each in program.inputs
    }
    tensors = dict(inputs)
    for stage in program.stages:
        tensors[stage.name] = computed(stage, tensors)
    updated = [update.stage for update in program.updates if update.stage != program.output.name]
    made = (tensors[name] for name in dict.fromkeys(updated))
    return te.create_prim_func([*inputs.values(), tensors[program.output.name], *made])


def computed(stage: Stage, tensors: Tensors) -> Node:
    over = {
        axis.name: te.reduce_axis((0, number(axis.extent)), name=axis.name) for axis in stage.over
    }
    names = [axis.name for axis in stage.axes]

    def entry(*at: Node) -> Node:
        value = value_of(stage.value, dict(zip(names, at, strict=True)) | over, tensors)
        if stage.reducer is None:
            return value
        return REDUCERS[stage.reducer](value, axis=list(over.values()))

    shape = tuple(number(axis.extent) for axis in stage.axes)
    return te.compute(shape, entry, name=stage.name, varargs_names=names)


def value_of(expression: Expression, at: Places, tensors: Tensors) -> Node:
    def inside(part: Expression) -> Node:
        return value_of(part, at, tensors)

    match expression:
        case Integer(value):
            return tirx.const(value, "int32")
        case Real(value):
            return _real(value)
        case Axis(name):
            return at[name]
        case Read(tensor, places):
            return tensors[tensor](*map(inside, places))
        case Binary(op, left, right):
            one, other = inside(left), inside(right)
            if not _is_real(one) and _is_opaque(op, left, right):
                return tirx.call_pure_extern("int32", _OPAQUE[op].value, one, other)
            return _BINARY[op](one, other)
        case Call(function, argument):
            return _FUNCTIONS[function](inside(argument))
        case Cast(argument, dtype):
            return inside(argument).astype(DTYPES[dtype])
        case Choice(conditions, then, otherwise):
            # Places are decided once for many entries, so that a branch is best; of two values that
            # entries decide between both are computed, without a branch that would keep the loop
            # from being vectorised. A side that may be read outside of a tensor is a branch all the
            # same (`tir.expressions`).
            holds = tirx.all(*(_compared(each, at, tensors) for each in conditions))
            if _reads(side for each in conditions for side in (each.left, each.right)):
                return tirx.Select(holds, inside(then), inside(otherwise))
            return tirx.if_then_else(holds, inside(then), inside(otherwise))
    raise UnsupportedProgram(f"{expression} is not lowered; bind the extents that it names")


_OPAQUE: Mapping[BinaryOp, nodes.BinaryOp] = {
    BinaryOp.ADD: nodes.BinaryOp.ADD,
    BinaryOp.SUB: nodes.BinaryOp.SUB,
    BinaryOp.MUL: nodes.BinaryOp.MUL,
    BinaryOp.POW: nodes.BinaryOp.POW,
    BinaryOp.FLOOR_DIV: nodes.BinaryOp.FLOOR_DIV,
    BinaryOp.FLOOR_MOD: nodes.BinaryOp.FLOOR_MOD,
    BinaryOp.QUOTIENT: nodes.BinaryOp.QUOTIENT,
    BinaryOp.SHIFT_LEFT: nodes.BinaryOp.SHIFT_LEFT,
    BinaryOp.BIT_OR: nodes.BinaryOp.OR,
    BinaryOp.BIT_XOR: nodes.BinaryOp.XOR,
}
"""The visit of TVM's programs makes these of operations of which TVM is told but the names."""
_WITHIN_RANGE = (BinaryOp.MIN, BinaryOp.MAX, BinaryOp.SHIFT_RIGHT, BinaryOp.BIT_AND)
_OF_POSITIONS = (BinaryOp.ADD, BinaryOp.SUB, BinaryOp.MUL, BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)


def _is_opaque(op: BinaryOp, left: Expression, right: Expression) -> bool:
    """Returns whether TVM is told but the name of an operation on integers. It takes each to be in
    range, as those of positions are, and so x * 60 // 60 to be x, which it is of few entries."""
    if op in _WITHIN_RANGE:
        return False
    divides = op in (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD)
    if divides and not (isinstance(right, Integer) and right.value > 0):
        return True
    return op not in _OF_POSITIONS or _reads((left, right))


def _reads(sides: Iterable[Expression]) -> bool:
    """Returns whether entries decide the value of any, and not places alone."""
    return any(isinstance(part, Read) for side in sides for part in parts(side))


def _compared(comparison: Comparison, at: Places, tensors: Tensors) -> Node:
    """TVM takes `x == x` for true and `x != x` for false, which they are not where a real x is NaN:
    a number is at most itself, and NaN is not."""
    left, right = (value_of(side, at, tensors) for side in (comparison.left, comparison.right))
    if comparison.left == comparison.right:
        match comparison.op:
            case CompareOp.EQ:
                return left <= right
            case CompareOp.NE:
                return tirx.Select(left <= right, 0, 1) == 1
    return _COMPARE[comparison.op](left, right)
