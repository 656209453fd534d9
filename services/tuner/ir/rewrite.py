"""Traversal and rebuilding of expressions and blocks."""

from collections.abc import Callable, Iterator

from msgspec.structs import replace

from services.tuner.ir.affine import Affine, Bound
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    Bitcast,
    Block,
    Broadcast,
    Bytes,
    Call,
    Cast,
    Compare,
    Const,
    DotBytes,
    DotPairs,
    DotQuads,
    Expression,
    ExtractLane,
    Halves,
    If,
    IndexValue,
    Lanes,
    Let,
    Load,
    Loop,
    MultiplyAdd,
    RegisterRead,
    Select,
    Shuffle,
    Statement,
    Store,
    SubgroupReduce,
    unsupported,
)

Rebuild = Callable[[Expression], Expression]


def operands(expression: Expression) -> tuple[Expression, ...]:
    """The direct operands, in the order in which they are evaluated."""
    parts = _OPERANDS.get(type(expression))
    if parts is None:
        raise unsupported(expression)
    return parts(expression)


def _none(_: Expression) -> tuple[Expression, ...]:
    return ()


_OPERANDS: dict[type[Expression], Callable[..., tuple[Expression, ...]]] = {
    **dict.fromkeys((Const, IndexValue, Load, RegisterRead), _none),
    **dict.fromkeys((Binary, Compare, DotBytes, DotPairs, Shuffle), lambda e: (e.left, e.right)),
    **dict.fromkeys((Broadcast, ExtractLane, Cast, Bitcast, Halves), lambda e: (e.value,)),
    **dict.fromkeys((MultiplyAdd, DotQuads), lambda e: (e.left, e.right, e.addend)),
    **dict.fromkeys((Bytes, Lanes), lambda e: e.values),
    Select: lambda e: (e.condition, e.then, e.otherwise),
    Call: lambda e: (e.argument,),
    SubgroupReduce: lambda e: (e.value, e.thread),
}
"""A table, which is faster than a match statement: every pass asks this of every node."""


def with_operands(expression: Expression, rebuild: Rebuild) -> Expression:
    """Rebuilds the operands of a node, in the order of their evaluation."""
    made = _REBUILT.get(type(expression))
    if made is None:
        raise unsupported(expression)
    return made(expression, rebuild)


def _same(expression: Expression, _: Rebuild) -> Expression:
    return expression


_WITHOUT_BLOCKS = frozenset((Store, Assign))
"""A constant, as isinstance with a union would build the union for every statement."""

_LEAVES = frozenset((Const, IndexValue, Load, RegisterRead))
_REBUILT: dict[type[Expression], Callable[..., Expression]] = {
    **dict.fromkeys((Const, IndexValue, Load, RegisterRead), _same),
    **dict.fromkeys(
        (Binary, Compare), lambda e, f: type(e)(op=e.op, left=f(e.left), right=f(e.right))
    ),
    **dict.fromkeys((Cast, Bitcast), lambda e, f: type(e)(value=f(e.value), dtype=e.dtype)),
    ExtractLane: lambda e, f: ExtractLane(value=f(e.value), lane=e.lane),
    Shuffle: lambda e, f: replace(e, left=f(e.left), right=f(e.right)),
    MultiplyAdd: lambda e, f: MultiplyAdd(left=f(e.left), right=f(e.right), addend=f(e.addend)),
    DotQuads: lambda e, f: replace(e, left=f(e.left), right=f(e.right), addend=f(e.addend)),
    **dict.fromkeys((DotBytes, DotPairs), lambda e, f: type(e)(left=f(e.left), right=f(e.right))),
    Halves: lambda e, f: Halves(value=f(e.value), odd=e.odd),
    Broadcast: lambda e, f: Broadcast(value=f(e.value), lanes=e.lanes),
    **dict.fromkeys(
        (Bytes, Lanes), lambda e, f: type(e)(values=tuple([f(part) for part in e.values]))
    ),
    Select: lambda e, f: replace(
        e, condition=f(e.condition), then=f(e.then), otherwise=f(e.otherwise)
    ),
    Call: lambda e, f: Call(function=e.function, argument=f(e.argument)),
    SubgroupReduce: lambda e, f: replace(e, value=f(e.value), thread=f(e.thread)),
}


def leaves(expression: Expression) -> Iterator[Expression]:
    """The leaves of an expression, in the order in which they are evaluated."""
    waiting = [expression]
    while waiting:
        part = waiting.pop()
        if type(part) in _LEAVES:
            yield part
        else:
            waiting.extend(reversed(operands(part)))


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
    """Every expression of a block, each after its operands."""

    for statement in statements(block):
        if isinstance(statement, Store | Assign | Let):
            yield from subexpressions(statement.value)


def subexpressions(expression: Expression) -> Iterator[Expression]:
    """The expression behind all that it is made of, each part after its operands."""
    for operand in operands(expression):
        yield from subexpressions(operand)
    yield expression


def statements(block: Block) -> Iterator[Statement]:
    """Every statement in program order, each before the statements inside it."""
    waiting = list(reversed(block))
    while waiting:
        statement = waiting.pop()
        yield statement
        if type(statement) not in _WITHOUT_BLOCKS:
            for inner in reversed(inner_blocks(statement)):
                waiting.extend(reversed(inner))


def map_values(block: Block, rebuild: Rebuild) -> Block:
    """The block with every stored, assigned and bound value rebuilt."""
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
    """The block with every use of a loop variable replaced by an affine form."""
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
