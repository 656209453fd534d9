"""The text of a program back as the program: the inverse of `str`.

    a: f32[5, 37]                                       input
    largest[i: 5] = max over k: 37 of a[i, k]           stage that reduces
    c[i: 5, j: 37] = exp(a[i, j] - largest[i])          stage
    above[i: 5]: i32 = (1 if 0.5 < a[i, 0] else 0)      stage of integers
    c[i: 5]: f16 = a[i, 0] * 0.5                        output that is stored as f16
    a := c                                              update: what a holds after the call
    spare x: 5                                          the last x[0] of 5 parts may be left out
    spare x: 5 in each of 3                             and so of the 5 of each of 3 blocks
    c[i: 5] = last over k: 9 of scatter(a[i], b[k], at[k])    stage that is written at places

Expressions are a small part of Python's, so that Python's own parser reads them; nothing of them is
ever executed.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.checking import checked
from kernelzoo.domain.operators.expressions import (
    CASTS,
    SCATTER,
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
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Scatter,
    Spare,
    Stage,
    Update,
)
from kernelzoo.errors import InvalidInput

MAX_TEXT_BYTES = 1 << 16
MAX_LINES = 256

_INPUT = re.compile(r"(?P<name>\w+): (?P<dtype>\w+)\[(?P<shape>[0-9, ]*)\]")
_STAGE = re.compile(
    r"(?P<name>\w+)\[(?P<axes>[^\[\]]*)\](: (?P<dtype>\w+))? = "
    r"((?P<reducer>\w+) over (?P<over>[^\[\]]*?) of )?(?P<value>.+)"
)
_UPDATE = re.compile(r"(?P<tensor>\w+) := (?P<stage>\w+)")
_SPARE = re.compile(
    r"spare (?P<tensor>\w+): (?P<parts>[1-9][0-9]{0,8})( in each of (?P<blocks>[1-9][0-9]{0,8}))?"
)
_BINARY: Mapping[type[ast.operator], BinaryOp] = {
    ast.Add: BinaryOp.ADD,
    ast.Sub: BinaryOp.SUB,
    ast.Mult: BinaryOp.MUL,
    ast.Div: BinaryOp.DIV,
    ast.FloorDiv: BinaryOp.FLOOR_DIV,
    ast.Mod: BinaryOp.FLOOR_MOD,
}
_COMPARE: Mapping[type[ast.cmpop], CompareOp] = {
    ast.Lt: CompareOp.LT,
    ast.LtE: CompareOp.LE,
    ast.Eq: CompareOp.EQ,
    ast.NotEq: CompareOp.NE,
}
_TWO_OPERANDS = {str(op): op for op in BinaryOp if op not in _BINARY.values()}
_FUNCTIONS = {str(function): function for function in Function}
_CASTS = {word: dtype for dtype, word in CASTS.items()}
_REALS = {"inf": float("inf"), "nan": float("nan")}

Axes = Mapping[str, Axis]


def parsed(text: str) -> Program:
    """The program of a text. Raises InvalidInput for a text that `str` does not give."""
    refuse_long(text)
    *lines, last = text.split("\n")
    found = _SPARE.fullmatch(last)
    spare = None
    if found:
        spare = Spare(found["tensor"], int(found["parts"]), int(found["blocks"] or 1))
    lines += [] if found else [last]
    inputs: list[Input] = []
    stages: list[Stage] = []
    updates: list[Update] = []
    for number, line in enumerate(lines, 1):
        try:
            given = _INPUT.fullmatch(line)
            update = _UPDATE.fullmatch(line)
            if given and not stages:
                inputs.append(_input(given))
            elif update:
                updates.append(Update(update["tensor"], update["stage"]))
            else:
                stages.append(_stage(line))
        except (InvalidInput, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise InvalidInput(f"line {number} of the program: {_said(error)}") from None
    makes_f16 = bool(stages) and stages[-1].dtype is DType.F16
    if makes_f16:
        stages[-1] = replace(stages[-1], dtype=DType.F32)
    program = checked(Program(tuple(inputs), tuple(stages), tuple(updates), makes_f16, spare))
    if str(program) != text:
        raise InvalidInput("the program is not written as it is printed; store what str gives")
    return program


def refuse_long(text: str) -> None:
    size, lines = len(text.encode()), text.count("\n") + 1
    if size > MAX_TEXT_BYTES or lines > MAX_LINES:
        raise InvalidInput(
            f"the program has {size} bytes in {lines} lines; at most {MAX_TEXT_BYTES} in "
            f"{MAX_LINES} are allowed: split it"
        )


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidInput) else "it is no expression; see parsing"


def _input(match: re.Match[str]) -> Input:
    shape = tuple(int(part) for part in match["shape"].split(",") if part.strip())
    return Input(match["name"], match["dtype"], shape)


def _stage(line: str) -> Stage:
    match = _STAGE.fullmatch(line)
    if match is None:
        raise InvalidInput("it is no stage; write name[axis: extent] = value")
    axes, over = _axes(match["axes"]), _axes(match["over"] or "")
    dtype, reducer = match["dtype"] or DType.F32, match["reducer"]
    if dtype not in list(DType) or (reducer and reducer not in list(Reducer)):
        raise InvalidInput(f"{dtype} or {reducer} is unknown; use f32, i32, {', '.join(Reducer)}")
    return Stage(
        name=match["name"],
        axes=axes,
        value=_expression(_read(match["value"]), {each.name: each for each in (*axes, *over)}),
        reducer=Reducer(reducer) if reducer else None,
        over=over,
        dtype=DType(dtype),
    )


def _axes(text: str) -> tuple[Axis, ...]:
    """`i: 5, k: 37` has the form of the inside of a Python dictionary."""
    node = _read(f"{{{text}}}")
    if not isinstance(node, ast.Dict):
        raise InvalidInput("axes are written name: extent, separated by commas")
    return tuple(map(_axis, node.keys, node.values))


def _axis(name: ast.expr | None, extent: ast.expr) -> Axis:
    if not isinstance(name, ast.Name):
        raise InvalidInput("axes are written name: extent, separated by commas")
    return Axis(name.id, _expression(extent, {}))


def _read(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _expression(node: ast.expr, axes: Axes) -> Expression:
    def inside(part: ast.expr) -> Expression:
        return _expression(part, axes)

    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return Real(value) if isinstance(value, float) else Integer(value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
            return Real(-value) if isinstance(value, float) else Integer(-value)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id="inf")):
            return Real(-_REALS["inf"])
        case ast.Name(id=name) if name in axes:
            return axes[name]
        case ast.Name(id=name) if name in _REALS:
            return Real(_REALS[name])
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Tuple(elts=places)):
            return Read(name, tuple(map(inside, places)))
        case ast.Subscript(value=ast.Name(id=name), slice=place):
            return Read(name, (inside(place),))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return Binary(_BINARY[type(op)], inside(left), inside(right))
        case ast.Call(func=ast.Name(id=name), args=[left, right], keywords=[]) if (
            name in _TWO_OPERANDS
        ):
            return Binary(_TWO_OPERANDS[name], inside(left), inside(right))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _FUNCTIONS:
            return Call(_FUNCTIONS[name], inside(argument))
        case ast.Call(func=ast.Name(id=name), args=[argument], keywords=[]) if name in _CASTS:
            return Cast(inside(argument), _CASTS[name])
        case ast.Call(func=ast.Name(id=name), args=[initial, update, *places], keywords=[]) if (
            name == SCATTER
        ):
            return Scatter(inside(initial), inside(update), tuple(map(inside, places)))
        case ast.IfExp(test=ast.BoolOp(op=ast.And(), values=tests), body=then, orelse=otherwise):
            return Choice(_comparisons(tests, axes), inside(then), inside(otherwise))
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return Choice(_comparisons([test], axes), inside(then), inside(otherwise))
    raise InvalidInput(f"{ast.unparse(node)[:60]!r} is no expression of the language")


def _comparisons(tests: list[ast.expr], axes: Axes) -> tuple[Comparison, ...]:
    return tuple(_comparison(test, axes) for test in tests)


def _comparison(test: ast.expr, axes: Axes) -> Comparison:
    match test:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
            sides = _expression(left, axes), _expression(right, axes)
            return Comparison(_COMPARE[type(op)], *sides)
    raise InvalidInput(f"{ast.unparse(test)[:60]!r} is no comparison; write <, <=, == or !=")
