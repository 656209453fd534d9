"""A program as indented text, for golden files and for people."""

from collections.abc import Iterator

from services.tuner.ir.affine import Affine
from services.tuner.ir.nodes import (
    Allocate,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
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
    LoopKind,
    MultiplyAdd,
    Pointer,
    Program,
    RegisterRead,
    RightBytes,
    Select,
    Shuffle,
    Statement,
    Store,
    SubgroupReduce,
    lanes_of,
    unsupported,
)

_INFIX = {BinaryOp.ADD: "+", BinaryOp.SUB: "-", BinaryOp.MUL: "*", BinaryOp.DIV: "/"}


def program_text(program: Program) -> str:
    heads = [f"param {b.name}: {b.dtype}[{b.size}]" for b in program.parameters]
    return "\n".join([*heads, *_lines((program.body,), 0)]) + "\n"


def _lines(block: Block, depth: int) -> Iterator[str]:
    for statement in block:
        yield from _statement(statement, depth)


def _statement(statement: Statement, depth: int) -> Iterator[str]:
    pad = "  " * depth
    match statement:
        case Store(buffer=buffer, index=index, value=value):
            at = _element(buffer.name, index, lanes_of(value))
            yield f"{pad}{at} = {expression_text(value)}"
        case Assign(register=register, value=value):
            yield f"{pad}{register.name} := {expression_text(value)}"
        case Loop(var=var, extent=extent, kind=kind, body=body):
            note = "" if kind is LoopKind.SERIAL else f" {kind}"
            yield f"{pad}for {var} < {extent}{note}:"
            yield from _pointers(statement.pointers, depth + 1)
            yield from _lines(body, depth + 1)
        case Let(var=var, value=value, low=low, high=high, body=body):
            yield f"{pad}let {var} = {expression_text(value)} from {low} to {high}:"
            yield from _pointers(statement.pointers, depth + 1)
            yield from _lines(body, depth + 1)
        case If(bounds=bounds, body=body, otherwise=otherwise):
            tests = " and ".join(f"{_affine(b.index)} < {b.limit}" for b in bounds)
            yield f"{pad}if {tests}:"
            yield from _lines(body, depth + 1)
            if otherwise:
                yield f"{pad}else:"
                yield from _lines(otherwise, depth + 1)
        case Allocate(buffer=buffer, body=body):
            yield f"{pad}{buffer.scope} {buffer.name}: {buffer.dtype}[{buffer.size}]"
            yield from _lines(body, depth)
        case Barrier():
            yield f"{pad}barrier"
        case _:
            raise unsupported(statement, "the text printer")


def _pointers(pointers: tuple[Pointer, ...], depth: int) -> Iterator[str]:
    for pointer in pointers:
        here = _element(pointer.buffer.name, Affine(constant=0, terms=pointer.terms), 1)
        yield f"{'  ' * depth}pointer {here} += {pointer.stride}"


def expression_text(expression: Expression) -> str:
    show = expression_text
    match expression:
        case Const(value=value, lanes=lanes):
            return f"{value:g}" if lanes == 1 else f"{value:g}x{lanes}"
        case IndexValue(index=index):
            return f"index({_affine(index)})"
        case Load(buffer=buffer, index=index, lanes=lanes):
            return _element(buffer.name, index, lanes)
        case RegisterRead(register=register):
            return register.name
        case Broadcast(value=value, lanes=lanes):
            return f"{show(value)} x{lanes}"
        case Lanes(values=parts):
            return f"lanes({', '.join(map(show, parts))})"
        case ExtractLane(value=value, lane=lane):
            return f"{show(value)}.{lane}"
        case Binary(op=op, left=left, right=right) if op in _INFIX:
            return f"({show(left)} {_INFIX[op]} {show(right)})"
        case Binary(op=op, left=left, right=right):
            return f"{op}({show(left)}, {show(right)})"
        case MultiplyAdd(left=left, right=right, addend=addend):
            return f"fma({show(left)}, {show(right)}, {show(addend)})"
        case Bytes(values=parts):
            return f"bytes({', '.join(map(show, parts))})"
        case Halves(value=value, odd=odd):
            return f"{'odd' if odd else 'even'} halves({show(value)})"
        case DotBytes(left=left, right=right):
            return f"dot of bytes({show(left)}, {show(right)})"
        case DotPairs(left=left, right=right):
            return f"dot of pairs({show(left)}, {show(right)})"
        case DotQuads(left=left, right=right, addend=addend, bytes=bytes_):
            what = "quads" if bytes_ is RightBytes.SEVEN_BITS else f"quads by {bytes_}"
            return f"dot of {what}({show(left)}, {show(right)}, {show(addend)})"
        case Compare(op=compare, left=left, right=right):
            return f"{compare}({show(left)}, {show(right)})"
        case Shuffle(left=left, right=right, lanes=(i, j, k, m)):
            return f"shuffle({show(left)}, {show(right)}, {i} {j} {k} {m})"
        case Select(condition=condition, then=then, otherwise=otherwise):
            return f"select({show(condition)}, {show(then)}, {show(otherwise)})"
        case Cast(value=value, dtype=dtype):
            return f"{dtype}({show(value)})"
        case Bitcast(value=value, dtype=dtype):
            return f"{dtype} bits of {show(value)}"
        case Call(function=function, argument=argument):
            return f"{function}({show(argument)})"
        case SubgroupReduce(op=op, value=value, threads=threads):
            return f"{op} of {threads} threads({show(value)})"
    raise unsupported(expression, "the text printer")


def _element(name: str, index: Affine, lanes: int) -> str:
    return f"{name}[{_affine(index)}]" if lanes == 1 else f"{name}[{_affine(index)} +{lanes}]"


def _affine(index: Affine) -> str:
    terms = [var if c == 1 else f"{c}*{var}" for var, c in index.terms]
    if index.constant or not terms:
        terms.append(str(index.constant))
    return " + ".join(terms)
