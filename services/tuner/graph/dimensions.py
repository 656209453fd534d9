"""Numbers for the dimensions that a model leaves open: given by name, or by the names in a sum."""

import ast
from collections.abc import Callable, Iterable, Mapping
from operator import add, floordiv, mul, sub

from onnx import ValueInfoProto

from kernelzoo.errors import InvalidInput
from services.tuner.graph.network import TensorType
from services.tuner.graph.reading import described


def input_type(info: ValueInfoProto, dimensions: Mapping[str, int]) -> TensorType:
    dtype, dims = described(info, "input")
    shape = []
    for dim in dims:
        number = dim if isinstance(dim, int) else _number(dim, dimensions)
        if number is None:
            raise InvalidInput(
                f"dimension {dim!r} of input {info.name!r} is open; give it a number, as "
                f"{dim!r}=128"
            )
        if number < 1:
            raise InvalidInput(
                f"dimension {dim!r} of input {info.name!r} is {number}; it must be at least 1"
            )
        shape.append(number)
    return TensorType(dtype, tuple(shape))


_ARITHMETIC: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
}


def _number(name: str, dimensions: Mapping[str, int]) -> int | None:
    """The number of a dimension, given by its name or by those in it, as in `past + sequence`."""

    def value(part: ast.expr) -> int:
        match part:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=inner):
                return dimensions[inner]
            case ast.BinOp(left=left, op=op, right=right):
                return _ARITHMETIC[type(op)](value(left), value(right))
        raise KeyError(name)

    if name in dimensions:
        return dimensions[name]
    try:
        return value(ast.parse(name, mode="eval").body)
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError, RecursionError):
        return None


def refuse_unknown_dimensions(
    inputs: Iterable[ValueInfoProto], dimensions: Mapping[str, int]
) -> None:
    open_ones = {
        dim: None for info in inputs for dim in described(info, "input")[1] if isinstance(dim, str)
    }
    words = set(open_ones) | {word for dim in open_ones for word in _words(dim)}
    for name in dimensions:
        if name not in words:
            raise InvalidInput(
                f"the model has no dimension {name!r}; "
                + (
                    f"it leaves {', '.join(map(repr, open_ones))} open"
                    if open_ones
                    else "all its dimensions are numbers"
                )
            )


def _words(dimension: str) -> set[str]:
    try:
        return {node.id for node in ast.walk(ast.parse(dimension)) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError):
        return set()
