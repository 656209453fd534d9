"""Builds the arithmetic of a math function: one number of lanes, registers, selects."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from kernelzoo.domain.dtype import DType
from services.tuner.ir.affine import Affine, Bound
from services.tuner.ir.nodes import (
    Assign,
    Binary,
    BinaryOp,
    Broadcast,
    Compare,
    CompareOp,
    Const,
    Expression,
    ExtractLane,
    If,
    Let,
    Loop,
    LoopKind,
    MathFunction,
    MultiplyAdd,
    Register,
    RegisterRead,
    Select,
    Statement,
)

Native = frozenset[MathFunction | BinaryOp]
"""A target computes these by itself."""


class ExpressionBuilder:
    """Builds expressions of one number of lanes; parts that are used twice go into registers.

    `statements` make the registers that the values read, in order. `fma` allows multiply-adds and
    relaxed selects. `native` functions may stay calls. `drops_nan`: MIN and MAX may drop a NaN on
    their left, which those of WebAssembly and JavaScript keep.
    """

    def __init__(
        self,
        prefix: str,
        lanes: int,
        *,
        fma: bool,
        native: Native = frozenset(),
        drops_nan: bool = False,
    ) -> None:
        self.native = native
        self.statements: list[Statement] = []
        self._names = count()
        self._is_rare = False
        self._prefix = prefix
        self._lanes = lanes
        self._fma = fma
        self._drops_nan = drops_nan

    def keep(self, value: Expression, dtype: DType = DType.F32) -> RegisterRead:
        """Puts a value that is used more than once into a register."""
        register = Register(name=self._name(), lanes=self._lanes, dtype=dtype)
        self.statements.append(Assign(register=register, value=value))
        return RegisterRead(register=register)

    def change(self, kept: RegisterRead, value: Expression) -> None:
        """Puts another value into the register."""
        self.statements.append(Assign(register=kept.register, value=value))

    def _name(self) -> str:
        return f"{self._prefix}.{next(self._names)}"

    @contextmanager
    def where_any(self, mask: Expression) -> Iterator[None]:
        """Computes what is kept and changed inside where the mask holds in any lane: a branch that
        is rarely taken. Its constants are not kept in registers around a loop."""
        flag: Expression = mask
        if self._lanes > 1:
            flag = Const(value=0, dtype=DType.I32)
            for lane in range(self._lanes):
                part = ExtractLane(value=mask, lane=lane)
                flag = part if not lane else flag | part
            flag = flag & Const(value=1, dtype=DType.I32)
        outer, self.statements, self._is_rare = self.statements, [], True
        yield
        inner, self.statements, self._is_rare = tuple(self.statements), outer, False
        name = self._name()
        holds = Bound(index=Affine.of(1, {name: -1}), limit=1)
        taken = If(bounds=(holds,), body=inner)
        outer.append(Let(var=name, value=flag, low=0, high=1, body=(taken,)))

    @contextmanager
    def repeated(self, times: int) -> Iterator[None]:
        """Computes what is kept and changed inside so many times."""
        outer, self.statements = self.statements, []
        yield
        inner, self.statements = tuple(self.statements), outer
        outer.append(Loop(var=self._name(), extent=times, kind=LoopKind.SERIAL, body=inner))

    def number(self, value: float) -> Expression:
        return self._constant(value, DType.F32)

    def whole(self, value: int) -> Expression:
        return self._constant(value, DType.I32)

    def _constant(self, value: float, dtype: DType) -> Expression:
        if self._is_rare and self._lanes > 1:
            return Broadcast(value=Const(value=value, dtype=dtype), lanes=self._lanes)
        return Const(value=value, dtype=dtype, lanes=self._lanes)

    def multiply_add(self, left: Expression, right: Expression, addend: Expression) -> Expression:
        if self._fma:
            return MultiplyAdd(left=left, right=right, addend=addend)
        return left * right + addend

    def smaller(self, x: Expression, number: float) -> Binary:
        """The smaller of a value and a number; NaN of NaN."""
        op = BinaryOp.MINIMUM if self._drops_nan else BinaryOp.MIN
        return Binary(op=op, left=x, right=self.number(number))

    def larger(self, x: Expression, number: float) -> Binary:
        op = BinaryOp.MAXIMUM if self._drops_nan else BinaryOp.MAX
        return Binary(op=op, left=x, right=self.number(number))

    def polynomial(self, coefficients: tuple[float, ...], x: Expression) -> Expression:
        """Horner's scheme; the constant coefficient comes first."""
        *lower, highest = coefficients
        value: Expression = self.number(highest)
        for coefficient in reversed(lower):
            value = self.multiply_add(value, x, self.number(coefficient))
        return value

    def below(
        self, left: Expression, right: Expression, then: Expression, otherwise: Expression
    ) -> Select:
        """`then` where left < right, else `otherwise`, also where either is NaN."""
        return self.where(Compare(op=CompareOp.LT, left=left, right=right), then, otherwise)

    def scaled(self, value: Expression, exponent: Expression) -> Expression:
        """value·2ⁿ, where the low nine bits of `exponent` are n and the result is normal."""
        return (value.bitcast(DType.I32) + (exponent.bitcast(DType.I32) << 23)).bitcast(DType.F32)

    def where(self, holds: Expression, then: Expression, otherwise: Expression) -> Select:
        return Select(condition=holds, then=then, otherwise=otherwise, relaxed=self._fma)

    def compared(self, op: CompareOp, left: Expression, right: Expression) -> RegisterRead:
        """A mask that is used more than once."""
        return self.keep(Compare(op=op, left=left, right=right), DType.I32)
