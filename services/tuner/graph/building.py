"""Functions of operators are written with these: operands, programs in the making, and the graph
that grows of them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log10, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Axis,
    Expression,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Reducer,
    Stage,
    operand,
)
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.graph.graph import (
    Node,
    Operation,
    Value,
    View,
    integers_of_32,
)
from services.tuner.graph.network import (
    PACKED_RANGES,
    TO_CONSTANT,
    Array,
    Attribute,
    Step,
    TensorType,
)

Shape = tuple[int, ...]
MOST_OPERANDS = 7
"""An operator of any number of operands reads so many in one program. WebGPU promises eight buffers
to a kernel, and one is its output."""


@dataclass(frozen=True, slots=True)
class Operand:
    """A value of the graph. `constant` has its entries where they are known."""

    name: str
    dtype: DType
    shape: Shape
    constant: NDArray[Any] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def elements(self) -> int:
        return prod(self.shape)


@dataclass(slots=True)
class Builder:
    """The graph so far."""

    values: dict[str, Value] = field(default_factory=dict)
    constants: dict[str, NDArray[Any]] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def enter(self, name: str, dtype: DType, shape: Shape) -> Value:
        free, number = name, 1
        while free in self.values:
            number += 1
            free = f"{name}.{number}"
        self.values[free] = Value(free, dtype, shape)
        return self.values[free]

    def constant(self, name: str, entries: Array) -> Operand:
        entries = graph_entries(entries)
        dtype = DType.F32 if entries.dtype == np.float32 else DType.I32
        value = self.enter(name, dtype, entries.shape)
        self.constants[value.name] = entries
        return Operand(value.name, dtype, entries.shape, entries)

    def node(
        self, op: Operation, inputs: Sequence[Operand], dtype: DType, shape: Shape, step: Step
    ) -> Operand:
        value = self.enter(next(filter(None, step.outputs)), dtype, shape)
        self.nodes.append(Node(op, tuple(x.name for x in inputs), value.name, step.label))
        return Operand(value.name, dtype, shape)


@dataclass(frozen=True, slots=True)
class Site:
    """One node of ONNX that is carried over: what an operator's function is given.

    `inputs` has None for one that is left out; `outputs` are ONNX's types.
    """

    step: Step
    inputs: tuple[Operand | None, ...]
    outputs: tuple[TensorType | None, ...]
    types: tuple[TensorType | None, ...]
    """ONNX's types of the inputs."""
    builder: Builder

    @property
    def given(self) -> tuple[Operand, ...]:
        """The inputs that are there."""
        return tuple(each for each in self.inputs if each is not None)

    @property
    def shape(self) -> Shape:
        """The shape of the first output."""
        return self.output.shape

    @property
    def output(self) -> TensorType:
        first = self.outputs[0]
        if first is None:
            raise self.refusal("its first output is left out", "export the model again")
        return first

    @property
    def dtype(self) -> DType:
        """The dtype of the first output."""
        return graph_dtype(self.output)

    def input(self, place: int) -> Operand | None:
        """None for one that is left out."""
        return self.inputs[place] if place < len(self.inputs) else None

    def needed(self, place: int) -> Operand:
        found = self.input(place)
        if found is None:
            raise InvalidInput(f"{self.step.told} lacks input {place}; export the model again")
        return found

    def known(self, place: int, what: str) -> Array | None:
        """The entries of an input that must be constant, None for one that is left out."""
        found = self.input(place)
        if found is not None and found.constant is None:
            raise self.refusal(f"its {what} depends on the model's inputs", TO_CONSTANT)
        return None if found is None else found.constant

    def attribute(self, name: str) -> Attribute | None:
        return self.step.attributes.get(name)

    def integer(self, name: str, default: int = 0) -> int:
        value = self.attribute(name)
        return int(value) if isinstance(value, int | float) else default

    def real(self, name: str, default: float = 0.0) -> float:
        value = self.attribute(name)
        return float(value) if isinstance(value, int | float) else default

    def text(self, name: str, default: str = "") -> str:
        value = self.attribute(name)
        return value if isinstance(value, str) else default

    def integers(self, name: str) -> tuple[int, ...] | None:
        value = self.attribute(name)
        return tuple(int(n) for n in value) if isinstance(value, tuple) else None

    def axis(self, name: str = "axis", default: int = 0, rank: int | None = None) -> int:
        """The attribute, counted from the front."""
        rank = self.needed(0).rank if rank is None else rank
        axis = self.integer(name, default)
        return axis + rank if axis < 0 else axis

    def refusal(self, reason: str, help_: str) -> UnsupportedModel:
        return UnsupportedModel(f"{self.step.told} cannot be imported: {reason}; {help_}")

    def view(self, of: Operand, shape: Iterable[int]) -> Operand:
        shape = tuple(shape)
        if shape == of.shape:
            return of
        if of.constant is not None:
            return self.constant(of.constant.reshape(shape))
        return self.builder.node(View(), (of,), of.dtype, shape, self.step)

    def constant(self, entries: Array) -> Operand:
        return self.builder.constant(f"{self.step.outputs[0]}.constant", entries)

    def workload(
        self, operator: str, extents: Shape, *inputs: Operand, packed: bool = True
    ) -> Operand | None:
        """None where the workload would be too large or have attributes out of range. Without
        `packed` its kernels read constant weights as they lie."""
        try:
            workload = Workload.of(operator, extents)
            if packed and workload.operator.may_be_constant and inputs[1].constant is not None:
                workload = Workload.of(operator, extents, constant=("b",))
        except InvalidInput:
            return None
        output = workload.output
        return self.builder.node(workload, inputs, output.dtype, output.shape, self.step)

    def norm(
        self, operator: str, rows: Operand, epsilon: float, *parameters: Operand
    ) -> Operand | None:
        """A norm of rows; None where its epsilon is no power of ten, which a key could name."""
        power = round(-log10(epsilon)) if epsilon > 0 else 0
        if power < 1 or abs(epsilon * 10.0**power - 1) > 1e-6:
            return None
        return self.workload(operator, (*rows.shape, power), rows, *parameters)

    def transposed(self, of: Operand, order: Sequence[int]) -> Operand:
        order = tuple(order)
        if order == tuple(range(of.rank)):
            return of
        if of.constant is not None:
            return self.constant(np.ascontiguousarray(of.constant.transpose(order)))
        shape = tuple(of.shape[axis] for axis in order)
        if [a for a in order if of.shape[a] > 1] == [a for a in range(of.rank) if of.shape[a] > 1]:
            return self.view(of, shape)
        formula = Formula(self)
        axes = formula.axes(shape)
        at = tuple(axes[order.index(axis)] for axis in range(of.rank))
        return formula.output(axes, formula.read(of, at), of.dtype)


class Formula:
    """A program in the making: its inputs in order of their first use, and its stages."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._operands: list[Operand] = []
        self._stages: list[Stage] = []

    def axes(self, shape: Iterable[int], first: int = 0) -> tuple[Axis, ...]:
        return tuple(Axis(f"i{first + n}", Integer(extent)) for n, extent in enumerate(shape))

    def read(self, of: Operand, at: Sequence[Expression | int]) -> Expression:
        """The entry at a place; a number where there is but one entry, and it is known."""
        if of.constant is not None and of.constant.size == 1:
            value = of.constant.reshape(-1)[0]
            return Real(float(value)) if of.dtype is DType.F32 else Integer(int(value))
        if of not in self._operands:
            self._operands.append(of)
        return Read(f"x{self._operands.index(of)}", tuple(map(operand, at)))

    def broadcast(self, of: Operand, axes: Sequence[Expression]) -> Expression:
        """The entry of an operand that is broadcast, as by NumPy, at places along all axes."""
        inner = axes[len(axes) - of.rank :]
        places = (0 if n == 1 else axis for n, axis in zip(of.shape, inner, strict=True))
        return self.read(of, tuple(places))

    def stage(
        self,
        axes: Sequence[Axis],
        value: Expression,
        dtype: DType = DType.F32,
        reducer: Reducer | None = None,
        over: Sequence[Axis] = (),
    ) -> Stage:
        name = f"s{len(self._stages)}"
        stage = Stage(name, tuple(axes), value, reducer if over else None, tuple(over), dtype)
        self._stages.append(stage)
        return stage

    def output(
        self,
        axes: Sequence[Axis],
        value: Expression,
        dtype: DType = DType.F32,
        reducer: Reducer | None = None,
        over: Sequence[Axis] = (),
    ) -> Operand:
        """Ends the program with its last stage and enters it as a node."""
        last = self.stage(axes, value, dtype, reducer, over)
        program = self._program().normalised()
        return self._site.builder.node(program, self._operands, dtype, last.shape, self._site.step)

    def workload(self, name: str) -> Operand:
        """Enters the stages so far as a workload of this name, which no rule looks into."""
        workload = Workload.of_program(name, self._program())
        made = workload.output
        return self._site.builder.node(
            workload, self._operands, made.dtype, made.shape, self._site.step
        )

    def _program(self) -> Program:
        inputs = tuple(
            Input(name=f"x{n}", dtype=each.dtype, shape=each.shape)
            for n, each in enumerate(self._operands)
        )
        return Program(inputs=inputs, stages=tuple(self._stages))


def graph_dtype(type_: TensorType) -> DType:
    return DType.F32 if is_real(type_.dtype) else DType.I32


def is_real(dtype: np.dtype[Any]) -> bool:
    return dtype.kind not in "biu" and dtype not in PACKED_RANGES


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """The least and the largest number. Raises ValueError for real numbers."""
    if dtype in PACKED_RANGES:
        return PACKED_RANGES[dtype]
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def graph_entries(entries: Array) -> NDArray[Any]:
    """Entries as the graph has them: f32, or i32. Of wider integers the nearest is taken; unsigned
    ones are held as integers of the same bits. Denormal numbers are 0: with 60 % of them a layer
    takes 170 times as long."""
    if is_real(entries.dtype):
        with np.errstate(over="ignore"):
            return _without_denormals(np.asarray(entries, np.float32))
    if entries.dtype == NUMPY_DTYPES[DType.I32]:
        return entries
    return integers_of_32(entries)


def _without_denormals(entries: NDArray[np.float32]) -> NDArray[np.float32]:
    """Replaces denormal numbers by 0; returns the array itself where there are none, as a large one
    may be mapped."""
    flat = entries.reshape(-1)
    starts = range(0, flat.size, _AT_ONCE)
    if not any(_denormal(flat[start : start + _AT_ONCE]).any() for start in starts):
        return entries
    return np.where(_denormal(entries), np.copysign(np.float32(0), entries), entries)


def _denormal(entries: NDArray[np.float32]) -> NDArray[np.bool_]:
    size = np.abs(entries)
    return (size > 0) & (size < np.finfo(np.float32).smallest_normal)


_AT_ONCE = 1 << 22
"""Entries that are looked at together."""

Carried = Operand | tuple[Operand | None, ...]
"""An operator's function returns this: its output, or all of them."""
