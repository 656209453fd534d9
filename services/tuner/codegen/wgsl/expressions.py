"""Expressions as WGSL text.

    fma(a[k] x4, b[4*k +4], c[0])   →   fma(vec4<f32>(a[k]), b[k], c_0)
    select(lt(x, 0), y, z)          →   select(z, y, (x < 0.0f))

A comparison is a bool in a condition, and the loop IR's number anywhere else: 1, or -1 in a vector.
"""

from collections.abc import Callable
from math import copysign, isfinite
from struct import pack

from kernelzoo.domain.dtype import DType
from services.tuner.codegen.text import Names, Writer
from services.tuner.codegen.wgsl.memory import Indices, Memory, type_text
from services.tuner.ir.nodes import (
    DIVISIONS,
    Binary,
    BinaryOp,
    Bitcast,
    Broadcast,
    Call,
    Cast,
    Compare,
    CompareOp,
    Const,
    DotBytes,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Load,
    MathFunction,
    MultiplyAdd,
    Register,
    RegisterRead,
    Select,
    SubgroupReduce,
    dtype_of,
    lanes_of,
    unsupported,
)

LANE = "xyzw"
BITS = "runtime_bits"
"""A private variable, 0 at run time: inf and NaN are made with it, as WGSL refuses them in constant
expressions."""

SUBGROUP = "subgroup_lanes"
"""The parameter that tells how many threads a subgroup has on this GPU."""

_INFIX = {
    BinaryOp.ADD: "+",
    BinaryOp.SUB: "-",
    BinaryOp.MUL: "*",
    BinaryOp.DIV: "/",
    BinaryOp.AND: "&",
    BinaryOp.OR: "|",
    BinaryOp.XOR: "^",
}
_SHIFTS = {BinaryOp.SHIFT_LEFT: "<<", BinaryOp.SHIFT_RIGHT: ">>"}
_COMPARE = {CompareOp.EQ: "==", CompareOp.NE: "!=", CompareOp.LT: "<", CompareOp.LE: "<="}
_CALLS = {
    MathFunction.SQRT: "sqrt",
    MathFunction.RSQRT: "inverseSqrt",
    MathFunction.EXP: "exp",
    MathFunction.NEAREST: "round",
    MathFunction.ABS: "abs",
    MathFunction.FLOOR: "floor",
    MathFunction.CEIL: "ceil",
}
DOT, DOTS = "dot_of_bytes", "dots_of_bytes"
KEEPING_NAN = {BinaryOp.MINIMUM: "min", BinaryOp.MAXIMUM: "max"}
_SMALLEST = -(1 << 31)
_LAST_BIT = 31
_SAFE = "let y = select(1i, by, u32(by) + 1u > 1u);"
_OFF = "r != 0i && (r ^ y) < 0i"
DECLARATIONS = {
    DOT: f"fn {DOT}(x: i32, y: i32) -> i32 {{ return i32(dot4U8Packed(u32(x), u32(y))); }}",
    DOTS: (
        f"fn {DOTS}(x: vec4<i32>, y: vec4<i32>) -> vec4<i32> {{ "
        "let a = vec4<u32>(x); let b = vec4<u32>(y); return vec4<i32>(vec4<u32>("
        "dot4U8Packed(a.x, b.x), dot4U8Packed(a.y, b.y), "
        "dot4U8Packed(a.z, b.z), dot4U8Packed(a.w, b.w))); }"
    ),
    BITS: f"var<private> {BITS}: u32;",
    BinaryOp.QUOTIENT: (
        f"fn quotient(x: i32, by: i32) -> i32 {{ {_SAFE} return select(x * by, x / y, y == by); }}"
    ),
    BinaryOp.FLOOR_DIV: (
        f"fn floor_div(x: i32, by: i32) -> i32 {{ {_SAFE} let r = x % y; "
        f"return select(x * by, x / y, y == by) - select(0i, 1i, {_OFF}); }}"
    ),
    BinaryOp.FLOOR_MOD: (
        f"fn floor_mod(x: i32, by: i32) -> i32 {{ {_SAFE} let r = x % y; "
        f"return select(r, r + y, {_OFF}); }}"
    ),
}
"""A module declares these where it needs them. WGSL leaves the quotient by 0, and that of the least
integer by -1, to be the dividend: 1 divides in the place of both divisors, by which the quotient is
the product."""


class Expressions:
    """The text of expressions. Texts of frequent operands are made once (`_of_register`)."""

    def __init__(self, indices: Indices, memory: Memory) -> None:
        self._indices = indices
        self._memory = memory
        self.needs: set[str] = set()
        self.extremes: dict[str, tuple[BinaryOp, int]] = {}
        self.exponentials: dict[str, int] = {}
        self.quotients_by_zero: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._alive: list[Expression] = []
        self._writers: dict[type[Expression], Callable[..., str]] = {
            RegisterRead: self._read,
            MultiplyAdd: self._multiply_add,
            DotBytes: self._dot_of_bytes,
            Broadcast: self._broadcast,
            ExtractLane: self._extract,
            Load: self._load,
            Const: self._const,
            Binary: self._binary,
            Lanes: self._lanes,
            IndexValue: self._index,
            Compare: self._mask,
            Select: self._select,
            Cast: self._cast,
            Bitcast: self._bitcast,
            Call: self._call,
            SubgroupReduce: self._reduced,
        }

    def text(self, value: Expression) -> str:
        known = self._texts.get(id(value))
        if known is None:
            known = self._writers[type(value)](value)
            if _of_register(value):
                self._texts[id(value)] = known
                self._alive.append(value)
        return known

    def register(self, register: Register) -> str:
        return self._indices.names.of("register", register.name)

    def unsigned(self, value: Expression) -> str:
        return self._indices.unsigned(value, self.text)

    def _read(self, node: RegisterRead) -> str:
        return self.register(node.register)

    def _multiply_add(self, node: MultiplyAdd) -> str:
        return f"fma({self.text(node.left)}, {self.text(node.right)}, {self.text(node.addend)})"

    def _dot_of_bytes(self, node: DotBytes) -> str:
        name = DOT if lanes_of(node) == 1 else DOTS
        self.needs.add(name)
        return f"{name}({self.text(node.left)}, {self.text(node.right)})"

    def _broadcast(self, node: Broadcast) -> str:
        return f"{type_text(dtype_of(node.value), node.lanes)}({self.text(node.value)})"

    def _extract(self, node: ExtractLane) -> str:
        return f"{self.text(node.value)}.{LANE[node.lane]}"

    def _load(self, node: Load) -> str:
        return self._memory.load(node)

    def _lanes(self, node: Lanes) -> str:
        parts = ", ".join([self.text(part) for part in node.values])
        return f"{type_text(dtype_of(node), len(node.values))}({parts})"

    def _const(self, node: Const) -> str:
        text = self._number(node)
        return text if node.lanes == 1 else f"{type_text(node.dtype, node.lanes)}({text})"

    def _number(self, node: Const) -> str:
        if node.dtype is DType.I32:
            whole = int(node.value)
            return f"i32({whole})" if whole == _SMALLEST else f"{whole}i"
        if isfinite(node.value):
            return f"{float(node.value)!r}f"
        self.needs.add(BITS)
        bits = int.from_bytes(pack("<f", node.value), "little")
        return f"bitcast<f32>({BITS} | {bits}u)"

    def _index(self, node: IndexValue) -> str:
        return f"i32({self._indices.text(node.index)})"

    def _binary(self, node: Binary) -> str:
        op = node.op
        if op in _SHIFTS:
            return self._shift(node)
        left, right = self.text(node.left), self.text(node.right)
        match node.right:
            case Const(value=0, dtype=DType.F32) as zero if op is BinaryOp.DIV:
                name = self._quotient_by_zero(lanes_of(node))
                return f"{name}({left}, {int(copysign(1, zero.value) < 0)}u)"
        if op in _INFIX:
            return f"({left} {_INFIX[op]} {right})"
        if op in (BinaryOp.MIN, BinaryOp.MAX):
            return f"{op}({left}, {right})"
        if op in KEEPING_NAN:
            return f"{self.extreme(op, lanes_of(node))}({left}, {right})"
        match node.right:
            case Const(value=divisor, dtype=DType.I32, lanes=1) if divisor > 0:
                rest = f"({left} % {right})"
                negative = f"({rest} >> 31u)"
                if op is BinaryOp.FLOOR_DIV:
                    return f"(({left} / {right}) + {negative})"
                if op is BinaryOp.FLOOR_MOD:
                    return f"({rest} + ({negative} & {right}))"
        if op not in DIVISIONS or lanes_of(node) > 1:
            raise unsupported(node, "the WGSL printer")
        self.needs.add(op)
        return f"{op}({left}, {right})"

    def extreme(self, op: BinaryOp, lanes: int) -> str:
        """The name of the function of an extreme that is NaN where an operand is."""
        name = self._indices.names.of("function", f"{op}_of_{lanes}" if lanes > 1 else str(op))
        self.extremes[name] = op, lanes
        return name

    def _exponential(self, lanes: int) -> str:
        """The name of the function of an exponential that is NaN where its argument is."""
        name = self._indices.names.of("function", f"exp_of_{lanes}" if lanes > 1 else "exp_of")
        self.exponentials[name] = lanes
        return name

    def _quotient_by_zero(self, lanes: int) -> str:
        """The name of the function of a quotient by 0, or by -0 where it is told 1."""
        name = self._indices.names.of("function", f"by_zero_of_{lanes}" if lanes > 1 else "by_zero")
        self.quotients_by_zero[name] = lanes
        return name

    def _shift(self, node: Binary) -> str:
        count = self.unsigned(node.right)
        if not self._is_short(node.right):
            count = f"({count} & {_LAST_BIT}u)"
        if lanes_of(node.left) > 1:
            count = f"vec{lanes_of(node.left)}<u32>({count})"
        elif " " in count:
            # WGSL knows no precedence between shifts and arithmetic.
            count = f"({count})"
        return f"({self.text(node.left)} {_SHIFTS[node.op]} {count})"

    def _is_short(self, count: Expression) -> bool:
        """Returns whether a shift is known to be by less than all bits; naga refuses others."""
        match count:
            case Const(value=value):
                return 0 <= value <= _LAST_BIT
            case IndexValue(index=index):
                low, high = index.bounds(self._indices.ranges)
                return low >= 0 and high <= _LAST_BIT
        return False

    def condition(self, node: Expression) -> str:
        match node:
            case Compare(op=op, left=left, right=right):
                return f"({self.text(left)} {_COMPARE[op]} {self.text(right)})"
            case Binary(op=BinaryOp.AND | BinaryOp.OR as op, left=left, right=right):
                return f"({self.condition(left)} {_INFIX[op]} {self.condition(right)})"
        zero = Const(value=0, dtype=DType.I32, lanes=lanes_of(node))
        return f"({self.text(node)} != {self.text(zero)})"

    def _mask(self, node: Compare) -> str:
        """A comparison as a number: 1 in a single lane, all bits set in a lane of a vector."""
        lanes = lanes_of(node)
        no, yes = (
            self.text(Const(value=value, dtype=DType.I32, lanes=lanes))
            for value in (0, 1 if lanes == 1 else -1)
        )
        return f"select({no}, {yes}, {self.condition(node)})"

    def _select(self, node: Select) -> str:
        then, otherwise = self.text(node.then), self.text(node.otherwise)
        return f"select({otherwise}, {then}, {self.condition(node.condition)})"

    def _cast(self, node: Cast) -> str:
        if dtype_of(node.value) is node.dtype:
            return self.text(node.value)
        if node.dtype not in (DType.F32, DType.I32):
            raise unsupported(node, f"the WGSL printer to {node.dtype}")
        return f"{type_text(node.dtype, lanes_of(node.value))}({self.text(node.value)})"

    def _bitcast(self, node: Bitcast) -> str:
        return f"bitcast<{type_text(node.dtype, lanes_of(node.value))}>({self.text(node.value)})"

    def _call(self, node: Call) -> str:
        if node.function not in _CALLS:
            raise unsupported(node, "the WGSL printer")
        if node.function is MathFunction.EXP:
            return f"{self._exponential(lanes_of(node))}({self.text(node.argument)})"
        return f"{_CALLS[node.function]}({self.text(node.argument)})"

    def _reduced(self, node: SubgroupReduce) -> str:
        thread = self.unsigned(node.thread)
        return f"{self.reducer(node)}({self.text(node.value)}, {thread}, {SUBGROUP})"

    def reducer(self, node: SubgroupReduce) -> str:
        """The name of the function of a subgroup reduction."""
        return self._indices.names.of("function", f"over_{node.shared.name}")


def _of_register(value: Expression) -> bool:
    """Returns whether a value is a register, a lane of one, or that broadcast.

    These are most operands of a matrix product, are shared by many expressions, and have the same
    text wherever they stand.
    """
    while isinstance(value, Broadcast | ExtractLane):
        value = value.value
    return isinstance(value, RegisterRead)


ENABLE = "enable subgroups;\n"
LANES_KNOWN = 32
"""Threads of a subgroup of most GPUs; few have fewer."""
_COMBINED = {
    BinaryOp.ADD: "{} + {}",
    BinaryOp.MUL: "{} * {}",
    BinaryOp.MIN: "min({}, {})",
    BinaryOp.MAX: "max({}, {})",
}


def write_extreme_function(writer: Writer, name: str, op: BinaryOp, lanes: int) -> None:
    """A number is taken for NaN by its bits: a driver may take a comparison of floats to be of
    finite ones (WGSL, section 15.7.2), and the max of most GPUs drops NaN."""
    held = type_text(DType.F32, lanes)
    with writer.block(f"fn {name}(x: {held}, y: {held}) -> {held}"):
        _write_nan_test(writer, "x", lanes)
        _write_nan_test(writer, "y", lanes)
        writer.line(f"return select(select({KEEPING_NAN[op]}(x, y), y, no_y), x, no_x);")


def write_exponential_function(writer: Writer, name: str, lanes: int) -> None:
    """SwiftShader's exp of NaN is inf."""
    held = type_text(DType.F32, lanes)
    with writer.block(f"fn {name}(x: {held}) -> {held}"):
        _write_nan_test(writer, "x", lanes)
        writer.line("return select(exp(x), x, no_x);")


def write_quotient_by_zero(writer: Writer, name: str, lanes: int) -> None:
    """A driver that knows the divisor may take the quotient for any number, so its bits are made:
    infinity with the sign of both, and NaN for 0 and NaN."""
    held, words = type_text(DType.F32, lanes), f"vec{lanes}<u32>" if lanes > 1 else "u32"
    with writer.block(f"fn {name}(x: {held}, sign: u32) -> {held}"):
        writer.line(f"let bits = bitcast<{words}>(x) ^ {words}(sign << 31u);")
        writer.line(f"let infinite = (bits & {words}(0x80000000u)) | {words}(0x7f800000u);")
        writer.line(f"let size = bits & {words}(0x7fffffffu);")
        writer.line(f"let has_sign = size - {words}(1u) < {words}(0x7f800000u);")
        writer.line(f"return bitcast<{held}>(select({words}(0x7fc00000u), infinite, has_sign));")


def _write_nan_test(writer: Writer, value: str, lanes: int) -> None:
    words = type_text(DType.I32, lanes)
    size = f"bitcast<{words}>({value}) & {words}(0x7fffffff)"
    writer.line(f"let no_{value} = ({size}) > {words}(0x7f800000);")


def write_reduction_function(
    writer: Writer, values: Expressions, names: Names, reduced: SubgroupReduce
) -> None:
    """Writes the function of a subgroup reduction, which has a barrier.

    The size of a subgroup is a power of two, known at run time only. Butterfly exchanges reduce the
    values of a subgroup, or of as many threads as are wanted, `LANES_KNOWN` at the most; workgroup
    memory combines what they leave. Loops would end at what is known at run time only: for
    subgroups of that many threads all steps are written out, and nothing waits at a barrier where
    no more threads are wanted. Threads of a subgroup are taken to be neighbours in the workgroup,
    as they are in all known implementations for workgroups of one dimension.
    """
    shared, count = names.of("buffer", reduced.shared.name), reduced.threads
    known = min(count, LANES_KNOWN)
    combined = _COMBINED.get(reduced.op)
    if combined is None:
        combined = f"{values.extreme(reduced.op, lanes_of(reduced.value))}({{}}, {{}})"
    held = type_text(DType.F32, lanes_of(reduced.value))
    head = f"fn {values.reducer(reduced)}(value: {held}, thread: u32, lanes: u32) -> {held}"

    def with_part(other: str) -> None:
        writer.line(f"part = {combined.format('part', other)};")

    with writer.block(head):
        writer.line("var part = value;")
        # 1. What a subgroup has.
        with writer.block(f"if (lanes >= {known}u)"):
            for step in range(known.bit_length() - 1):
                with_part(f"subgroupShuffleXor(part, {1 << step}u)")
            if known == count:
                writer.line("return part;")
        writer.line(f"let span = min(lanes, {known}u);")
        # Steps of larger subgroups are done.
        with writer.block(f"for (var step = 1u; step < span && lanes < {known}u; step <<= 1u)"):
            with_part("subgroupShuffleXor(part, step)")

        # 2. What several have left.
        writer.line(f"{shared}[thread] = part;")
        writer.line("workgroupBarrier();")
        writer.line(f"let start = thread - thread % {count}u;")
        if known < count:
            with writer.block(f"if (lanes >= {known}u)"):
                parts = [f"{shared}[start + {at}u]" for at in range(0, count, known)]
                while len(parts) > 1:
                    pairs = zip(parts[::2], parts[1::2], strict=True)
                    parts = [f"({combined.format(*pair)})" for pair in pairs]
                writer.line(f"return {parts[0]};")
        writer.line(f"part = {shared}[start];")
        with writer.block(f"for (var next = span; next < {count}u; next += span)"):
            with_part(f"{shared}[start + next]")
        writer.line("return part;")
