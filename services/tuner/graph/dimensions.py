"""Decides what a model leaves open: numbers for dimensions, by their names, by the names in a
formula or by the place of an axis; and values of inputs that become constants."""

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from math import ceil, floor
from operator import add, floordiv, mod, mul, sub, truediv
from shlex import quote
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from onnx import ValueInfoProto

from kernelzoo.errors import InvalidInput
from services.tuner.graph.network import Array, TensorType
from services.tuner.graph.reading import described

ConstantValue: TypeAlias = "bool | int | float | Sequence[ConstantValue]"
NO_CONSTANTS: Mapping[str, ConstantValue] = MappingProxyType({})


def input_type(info: ValueInfoProto, dimensions: Mapping[str, int]) -> TensorType:
    dtype, dims = described(info, "input")
    shape = (_extent(info.name, axis, dim, dimensions) for axis, dim in enumerate(dims))
    return TensorType(dtype, tuple(shape))


def _extent(input_: str, axis: int, dim: int | str, dimensions: Mapping[str, int]) -> int:
    """By the axis, which goes before what the dimension is called."""
    placed = axis_name(input_, axis)
    number = dimensions.get(placed)
    if isinstance(dim, int):
        # Some exporters write 0 for what they leave open.
        if number is not None and dim not in (0, number):
            raise InvalidInput(
                f"axis {axis} of input {input_!r} has {dim} entries in the file, which "
                f"{quote(f'{placed}={number}')} cannot change; leave that out"
            )
        return dim if number is None else number
    number = _number(dim, dimensions) if number is None else number
    if number is None:
        asked = quote(f"{dim}=128")
        other = "" if dim == placed else f", or {quote(f'{placed}=128')} for this axis alone"
        raise InvalidInput(
            f"dimension {dim!r} of input {input_!r} is open; give it a number, as by "
            f"--dim {asked}{other}"
        )
    if number < 0:
        raise InvalidInput(
            f"dimension {dim!r} of input {input_!r} would be {number}; it must be at least 0"
        )
    return number


def axis_name(input_: str, axis: int) -> str:
    """By which an axis can be told whatever its dimension is called."""
    return f"{input_}.{axis}"


_ARITHMETIC: Mapping[type[ast.operator], Callable[[Fraction, Fraction], int | Fraction]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.Div: truediv,
    ast.FloorDiv: floordiv,
    ast.Mod: mod,
}
_FUNCTIONS: Mapping[str, Callable[..., int | Fraction]] = {
    "floor": floor, "ceil": ceil, "ceiling": ceil, "max": max, "min": min, "mod": mod,
}  # fmt: skip
"""SymPy writes them so, in small letters."""


def _number(name: str, dimensions: Mapping[str, int]) -> int | None:
    """The number of a dimension, given by its name or by those in it, as in `past + sequence` and
    `floor(height/8)`."""

    def value(part: ast.expr) -> Fraction:
        match part:
            case ast.Constant(value=int(number) | float(number)):
                return Fraction(number)
            case ast.Name(id=inner):
                return Fraction(dimensions[inner])
            case ast.BinOp(left=left, op=op, right=right):
                return Fraction(_ARITHMETIC[type(op)](value(left), value(right)))
            case ast.Call(func=ast.Name(id=function), args=given, keywords=[]):
                return Fraction(_FUNCTIONS[function.lower()](*map(value, given)))
        raise KeyError(name)

    if name in dimensions:
        return dimensions[name]
    try:
        number = value(ast.parse(name, mode="eval").body)
    except (KeyError, SyntaxError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    if number.denominator > 1:
        raise InvalidInput(f"dimension {name!r} would be {float(number):.4g}; give whole numbers")
    return int(number)


def refuse_unknown_dimensions(
    inputs: Iterable[ValueInfoProto], dimensions: Mapping[str, int]
) -> None:
    """Looks at inputs that have a shape."""
    open_ones: dict[str, None] = {}
    axes: set[str] = set()
    for info in inputs:
        if not info.type.tensor_type.HasField("shape"):
            continue
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            axes.add(axis_name(info.name, axis))
            if not dim.HasField("dim_value") or dim.dim_value < 0:
                open_ones[dim.dim_param or axis_name(info.name, axis)] = None
    words = set(open_ones) | {word for dim in open_ones for word in _words(dim)} | axes
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


def free_dimensions(dimension: str) -> tuple[str, ...]:
    """The dimensions of which a formula is made; the dimension itself where it is none."""
    names = tuple(sorted(each for each in _words(dimension) if each.lower() not in _FUNCTIONS))
    return names if _number(dimension, dict.fromkeys(names, 1)) is not None else (dimension,)


def input_constant(
    info: ValueInfoProto, value: ConstantValue, dimensions: Mapping[str, int]
) -> Array:
    """Entries of an input; one number is what all of them are. Raises InvalidInput for a value that
    the input cannot have."""
    type_ = input_type(info, dimensions)
    try:
        given = np.asarray(value)
        exact = given.astype(type_.dtype)
        entries = np.broadcast_to(exact, type_.shape)
    except (TypeError, ValueError, OverflowError):
        entries = exact = given = np.zeros(0)
    numbers = given.dtype.kind in "biuf" and (given.size > 0 or type_.elements == 0)
    kept = type_.dtype.kind not in "biu" or np.array_equal(exact, given)
    if not numbers or not kept or given.ndim > len(type_.shape):
        raise InvalidInput(
            f"input {info.name!r} is {type_.dtype}{list(type_.shape)} and cannot be "
            f"{str(value)[:80]}; give one number, or as many in brackets as it has entries"
        )
    return np.ascontiguousarray(entries)


def refuse_unknown_constants(
    inputs: Mapping[str, ValueInfoProto], constants: Mapping[str, ConstantValue]
) -> None:
    for name in constants:
        if name not in inputs:
            raise InvalidInput(
                f"the model has no input {name!r} that could be a constant; its inputs are "
                f"{', '.join(map(repr, inputs))}"
            )
