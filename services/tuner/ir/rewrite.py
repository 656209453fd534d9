"""Walking and rebuilding expressions and blocks."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    Bitcast,
    Block,
    Bound,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expression,
    ExtractLane,
    If,
    IndexValue,
    Lanes,
    Let,
    Load,
    Loop,
    MultiplyAdd,
    Read,
    Select,
    Statement,
    Store,
)
from services.tuner.ir.unsupported import unsupported

Rebuild = Callable[[Expression], Expression]


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The direct operands, in the order in which they are evaluated."""
    match expression:
        case Const() | IndexValue() | Load() | Read():
            return ()
        case Binary(left=left, right=right) | Compare(left=left, right=right):
            return (left, right)
        case MultiplyAdd(left=left, right=right, addend=addend):
            return (left, right, addend)
        case (
            Broadcast(value=value)
            | ExtractLane(value=value)
            | Cast(value=value)
            | Bitcast(value=value)
        ):
            return (value,)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return (condition, then, otherwise)
        case Call(argument=argument):
            return (argument,)
        case Lanes(values=parts):
            return parts
    raise unsupported(expression)


def with_operands(expression: Expression, rebuild: Rebuild) -> Expression:
    """The same node over rebuilt operands; operands are rebuilt in evaluation order."""
    match expression:
        case Const() | IndexValue() | Load() | Read():
            return expression
        case MultiplyAdd(left=left, right=right, addend=addend):
            return MultiplyAdd(left=rebuild(left), right=rebuild(right), addend=rebuild(addend))
        case Binary(op=op, left=left, right=right):
            return Binary(op=op, left=rebuild(left), right=rebuild(right))
        case Broadcast(value=value, lanes=lanes):
            return Broadcast(value=rebuild(value), lanes=lanes)
        case ExtractLane() | Cast() | Bitcast():
            return replace(expression, value=rebuild(expression.value))
        case Compare(op=compare, left=left, right=right):
            return Compare(op=compare, left=rebuild(left), right=rebuild(right))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return Select(
                condition=rebuild(condition), then=rebuild(then), otherwise=rebuild(otherwise)
            )
        case Call(function=function, argument=argument):
            return Call(function=function, argument=rebuild(argument))
        case Lanes(values=parts):
            return Lanes(values=tuple(rebuild(part) for part in parts))
    raise unsupported(expression)


def leaves(expression: Expression) -> Iterator[Expression]:
    below = operands(expression)
    if not below:
        yield expression
    for operand in below:
        yield from leaves(operand)


def inner_blocks(statement: Statement) -> tuple[Block, ...]:
    match statement:
        case Loop(body=body) | Allocate(body=body) | Let(body=body):
            return (body,)
        case If(body=body, otherwise=otherwise):
            return (body, otherwise)
        case Store() | Assign() | Barrier():
            return ()
    raise unsupported(statement)


def values(block: Block) -> Iterator[Expression]:
    """Every value of a block, each after those that it is made of."""

    def parts(expression: Expression) -> Iterator[Expression]:
        for operand in operands(expression):
            yield from parts(operand)
        yield expression

    for statement in statements(block):
        if isinstance(statement, Store | Assign | Let):
            yield from parts(statement.value)


def statements(block: Block) -> Iterator[Statement]:
    """Every statement in program order, each before those inside it."""
    for statement in block:
        yield statement
        for inner in inner_blocks(statement):
            yield from statements(inner)


def map_values(block: Block, rebuild: Rebuild) -> Block:
    """Every stored and assigned value rebuilt; the structure stays."""
    return tuple(_map_value(statement, rebuild) for statement in block)


def _map_value(statement: Statement, rebuild: Rebuild) -> Statement:
    match statement:
        case Store() | Assign():
            return replace(statement, value=rebuild(statement.value))
        case Let(value=value, body=body):
            return replace(statement, value=rebuild(value), body=map_values(body, rebuild))
        case Loop() | Allocate():
            return replace(statement, body=map_values(statement.body, rebuild))
        case If(body=body, otherwise=otherwise):
            return replace(
                statement,
                body=map_values(body, rebuild),
                otherwise=map_values(otherwise, rebuild),
            )
        case Barrier():
            return statement
    raise unsupported(statement)


def substitute(block: Block, var: str, value: Affine) -> Block:
    """Every use of a loop variable replaced by an affine form."""
    return tuple(_substitute(statement, var, value) for statement in block)


def _substitute(statement: Statement, var: str, value: Affine) -> Statement:
    def in_expression(expression: Expression) -> Expression:
        match expression:
            case Load() | IndexValue():
                return replace(expression, index=expression.index.substitute(var, value))
        return with_operands(expression, in_expression)

    match statement:
        case Store(buffer=buffer, index=index, value=stored):
            moved = index.substitute(var, value)
            return Store(buffer=buffer, index=moved, value=in_expression(stored))
        case If(bounds=bounds, body=body, otherwise=otherwise):
            return If(
                bounds=tuple(
                    Bound(index=b.index.substitute(var, value), limit=b.limit) for b in bounds
                ),
                body=substitute(body, var, value),
                otherwise=substitute(otherwise, var, value),
            )
        case Loop() | Allocate():
            return replace(statement, body=substitute(statement.body, var, value))
        case Let():
            return replace(
                statement,
                value=in_expression(statement.value),
                body=substitute(statement.body, var, value),
            )
        case Assign():
            return replace(statement, value=in_expression(statement.value))
        case Barrier():
            return statement
    raise unsupported(statement)
