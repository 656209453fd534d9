"""Calls of functions that the machine has no instruction for become arithmetic."""

from collections.abc import Iterator

from msgspec.structs import replace

from services.tuner.ir.kinds import MathFunction
from services.tuner.ir.lanes import lanes_of
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Block,
    Call,
    Expression,
    If,
    Let,
    Loop,
    Program,
    Statement,
    Store,
)
from services.tuner.ir.rewrite import values, with_operands
from services.tuner.ir.unsupported import unsupported
from services.tuner.passes.functions import written
from services.tuner.passes.terms import Terms


def has_calls(program: Program) -> bool:
    return any(isinstance(value, Call) for value in values((program.body,)))


def inline(
    program: Program, *, fma: bool, native: frozenset[MathFunction] = frozenset()
) -> Program:
    """`fma` lets products and sums round once; `native` functions stay calls."""
    body = _Inlining(fma=fma, native=native).block(program.body.body)
    return replace(program, body=replace(program.body, body=body))


class _Inlining:
    """Owns the count of calls, so that the registers of each have names of their own."""

    def __init__(self, *, fma: bool, native: frozenset[MathFunction]) -> None:
        self._fma = fma
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
                raise unsupported(statement, "inlining")

    def _value(self, value: Expression) -> tuple[list[Assign], Expression]:
        """The value, and what has to be assigned before it."""
        before: list[Assign] = []

        def rewritten(expression: Expression) -> Expression:
            inside = with_operands(expression, rewritten)
            if not isinstance(inside, Call):
                return inside
            if inside.function in self._native:
                return inside
            lanes = lanes_of(inside)
            terms = Terms(f"f{self._count}", lanes, fma=self._fma, native=self._native)
            self._count += 1
            result = written(inside.function, inside.argument, terms)
            before.extend(terms.assigned)
            return result

        return before, rewritten(value)
