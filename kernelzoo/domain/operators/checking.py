"""Checks that a program means something: names, ranks, and which values are integers.

A program that passes is compiled and evaluated; what it computes is its author's business. Reading
outside of a tensor is found by the evaluation of its entries (`kernelzoo.numerics.entries`).
"""

from collections.abc import Mapping
from keyword import iskeyword
from math import prod
from re import fullmatch

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    CASTS,
    SCATTER,
    SELECTIONS,
    Axis,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Choice,
    Comparison,
    Expression,
    Extent,
    Function,
    Input,
    Integer,
    Program,
    Read,
    Real,
    Scatter,
    Stage,
)
from kernelzoo.domain.operators.ordered import refuse_ordered
from kernelzoo.domain.operators.recurrence import is_recurrent, refuse_faulty_recurrence
from kernelzoo.errors import InvalidInput

STAGE_DTYPES = (DType.F32, DType.I32)
INPUT_DTYPES = (DType.F32, DType.F16, DType.I32, DType.I8)
MAX_DEPTH = 100
"""Depth of expressions within expressions: each is a call of each pass over a program."""
RESERVED = {"inf", "nan", SCATTER, *filter(str.isidentifier, BinaryOp), *CASTS.values(), *Function}
"""Names that mean something else in the text of a program."""

_DIVISIONS = (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD, BinaryOp.QUOTIENT)
_BITS = (
    *(BinaryOp.SHIFT_LEFT, BinaryOp.SHIFT_RIGHT),
    *(BinaryOp.BIT_AND, BinaryOp.BIT_OR, BinaryOp.BIT_XOR),
)
_Tensors = Mapping[str, tuple[DType, int]]
"""The dtype that values are computed in and the rank, by name."""


def checked(program: Program) -> Program:
    """The program itself. Raises InvalidInput for one that means nothing, saying where."""
    if not program.stages:
        raise InvalidInput("the program has no stage; state the output as its last line")
    tensors: dict[str, tuple[DType, int]] = {}
    for given in program.inputs:
        _refuse_name(given.name, tensors)
        _refuse_input(given)
        tensors[given.name] = (DType(given.dtype).compute_dtype, len(given.shape))
    recurrent = is_recurrent(program)
    later = {stage.name: (stage.dtype, len(stage.axes)) for stage in program.stages}
    for stage in program.stages:
        _refuse_name(stage.name, tensors)
        try:
            _refuse_stage(stage, {**later, **tensors} if recurrent else tensors)
        except InvalidInput as error:
            raise InvalidInput(f"stage {stage.name}: {error}") from None
        tensors[stage.name] = later[stage.name]
    if recurrent:
        refuse_faulty_recurrence(program)
    _refuse_updates(program)
    _refuse_spare(program)
    refuse_ordered(program)
    return program


def _refuse_updates(program: Program) -> None:
    inputs = {each.name: (each.dtype, each.shape) for each in program.in_f32.inputs}
    stages = {each.name: (each.dtype, each.shape) for each in program.stages}
    names = [update.tensor for update in program.updates]
    if len(set(names)) < len(names):
        raise InvalidInput("an input is updated twice; give it one update")
    for update in program.updates:
        if update.stage not in stages or inputs.get(update.tensor) != stages[update.stage]:
            raise InvalidInput(
                f"{update} updates no input by a stage of its dtype and shape; state one such"
            )


def _refuse_spare(program: Program) -> None:
    spare = program.spare
    if spare is None:
        return
    if program.inputs[-1:] != (Input(spare.tensor, DType.I32, (1,)),):
        raise InvalidInput(f"{spare}: the last input must be {spare.tensor}: i32[1]")
    if prod(program.output.shape) % (spare.parts * spare.blocks):
        raise InvalidInput(f"{spare}: the output has no {spare.parts * spare.blocks} equal parts")
    if program.updates or program.output.is_ordered or is_recurrent(program):
        raise InvalidInput(f"{spare}: parts of an output that updates or orders are computed whole")


def _refuse_name(name: str, taken: Mapping[str, object]) -> None:
    if not fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,39}", name) or iskeyword(name) or name in RESERVED:
        raise InvalidInput(
            f"{name[:40]!r} is no name; write letters, digits and _, and no word of the language"
        )
    if name in taken:
        raise InvalidInput(f"{name!r} names two things; give each its own name")


def _refuse_input(given: Input) -> None:
    if given.dtype not in INPUT_DTYPES:
        raise InvalidInput(
            f"input {given.name} is of dtype {given.dtype!r}; use {', '.join(INPUT_DTYPES)}"
        )
    if min(given.shape, default=1) < 1:
        raise InvalidInput(f"input {given.name} is empty; give extents of at least 1")


def _refuse_stage(stage: Stage, tensors: _Tensors) -> None:
    if stage.dtype not in STAGE_DTYPES:
        raise InvalidInput(
            f"dtype {stage.dtype} is unknown; use {' or '.join(STAGE_DTYPES)}, or f16 of the output"
        )
    if (stage.reducer is None) is not (not stage.over):
        raise InvalidInput("a reducer and axes to reduce over belong together; give both or none")
    axes: dict[str, Axis] = {}
    for axis in (*stage.axes, *stage.over):
        _refuse_name(axis.name, axes)
        if not isinstance(axis.extent, Integer) or axis.extent.value < 1:
            raise InvalidInput(f"the extent of axis {axis.name} is not a number of at least 1")
        axes[axis.name] = axis
    checker = _Checker(tensors, axes)
    found = checker.scattered(stage) if isinstance(stage.value, Scatter) else None
    found = found or checker.dtype(stage.value)
    if stage.reducer in SELECTIONS:
        found = DType.I32
    if found is not stage.dtype:
        raise InvalidInput(
            f"its value is of {found} and its dtype {stage.dtype}; cast one to the other"
        )


class _Checker:
    """Checks the expressions of one stage."""

    def __init__(self, tensors: _Tensors, axes: Mapping[str, Axis]) -> None:
        self._tensors = tensors
        self._axes = axes

    def dtype(self, expression: Expression, depth: int = 0) -> DType:
        """F32 of a real number, I32 of an integer."""
        if depth > MAX_DEPTH:
            raise InvalidInput(
                f"expressions lie more than {MAX_DEPTH} deep in others; use more stages"
            )
        inner = depth + 1
        match expression:
            case Integer(value):
                smallest, largest = DType.I32.value_range
                if not smallest <= value <= largest:
                    raise InvalidInput(f"{value} is no number of 32 bits; clip it")
                return DType.I32
            case Real():
                return DType.F32
            case Axis(name):
                if self._axes.get(name) != expression:
                    raise InvalidInput(f"{name} is no axis of it; list it with its extent")
                return DType.I32
            case Read():
                return self._read(expression, inner)
            case Binary():
                return self._binary(expression, inner)
            case Call(function, argument):
                self._wanted(argument, DType.F32, f"the argument of {function}", inner)
                return DType.F32
            case Cast(argument, DType.F32):
                self._wanted(argument, DType.I32, "what real() is of", inner)
                return DType.F32
            case Cast(argument, DType.I32):
                self._wanted(argument, DType.F32, "what whole() is of", inner)
                return DType.I32
            case Choice():
                return self._choice(expression, inner)
            case Extent(name):
                raise InvalidInput(f"{name} is neither an axis of it nor a number")
        raise InvalidInput(f"{type(expression).__name__} is no expression of the language")

    def scattered(self, stage: Stage) -> DType:
        """The dtype of a stage that is written at places."""
        value = stage.value
        assert isinstance(value, Scatter)
        if len(value.at) != len(stage.axes):
            raise InvalidInput(f"it has {len(stage.axes)} axes and is written at {len(value.at)}")
        for place in value.at:
            self._wanted(place, DType.I32, "a place that it is written at", 1)
        initial, update = self.dtype(value.initial, 1), self.dtype(value.update, 1)
        if initial is not update:
            raise InvalidInput(f"it starts as {initial} and is updated by {update}; cast one")
        return initial

    def _wanted(self, part: Expression, dtype: DType, role: str, depth: int) -> None:
        found = self.dtype(part, depth)
        if found is not dtype:
            raise InvalidInput(f"{role} is of {found}; make it {dtype} by {CASTS[dtype]}()")

    def _read(self, read: Read, depth: int) -> DType:
        if read.tensor not in self._tensors:
            raise InvalidInput(f"{read.tensor[:40]!r} is no input and no earlier stage")
        dtype, rank = self._tensors[read.tensor]
        if len(read.at) != rank:
            raise InvalidInput(f"{read.tensor} has {rank} axes and is read at {len(read.at)}")
        for place in read.at:
            self._wanted(place, DType.I32, f"an index of {read.tensor}", depth)
        return dtype

    def _binary(self, binary: Binary, depth: int) -> DType:
        left, right = self.dtype(binary.left, depth), self.dtype(binary.right, depth)
        if left is not right:
            raise InvalidInput(f"{binary.op} is of {left} and {right}; cast one to the other")
        if binary.op in _DIVISIONS and left is not DType.I32:
            raise InvalidInput(f"{binary.op} is of real numbers; use / with floor()")
        if binary.op in _BITS and left is not DType.I32:
            raise InvalidInput(f"{binary.op} is of real numbers; only integers have bits")
        if binary.op is BinaryOp.FMOD and left is not DType.F32:
            raise InvalidInput(f"{binary.op} is of integers; use % or cast them to real numbers")
        if binary.op is BinaryOp.DIV and left is not DType.F32:
            raise InvalidInput(
                f"{binary.op} is of integers; use // or quotient(), or cast them to real numbers"
            )
        return left

    def _choice(self, choice: Choice, depth: int) -> DType:
        if not choice.conditions:
            raise InvalidInput("a choice has no condition; write the value alone")
        for condition in choice.conditions:
            self._comparison(condition, depth)
        then, otherwise = self.dtype(choice.then, depth), self.dtype(choice.otherwise, depth)
        if then is not otherwise:
            raise InvalidInput(f"the sides of a choice are of {then} and {otherwise}; cast one")
        return then

    def _comparison(self, comparison: Comparison, depth: int) -> None:
        left, right = self.dtype(comparison.left, depth), self.dtype(comparison.right, depth)
        if left is not right:
            raise InvalidInput(f"{comparison.op} compares {left} and {right}; cast one")
