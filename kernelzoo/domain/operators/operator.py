"""The record of an operator: what its key names, its tensors, and what it computes."""

from dataclasses import dataclass
from enum import StrEnum

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import Call, Expression, Function, Stage, parts

Axes = tuple[str, ...]


class Family(StrEnum):
    """Docs and features of the cost model call operators together by their family. Schedules look
    at the axes of a program instead."""

    CONTRACTION = "contraction"
    CONVOLUTION = "convolution"
    REDUCTION = "reduction"
    ELEMENTWISE = "elementwise"
    PROGRAM = "program"


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """An extent that others give; no workload has it below 1."""

    axis: str
    extent: Expression


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """`axes` are the names in a key in their order, `attributes` those that are no extents.

    `stages` define every entry of the output, the last stage; `sentence` says the same for people,
    in the names of tensors and axes.

    `dtypes` are those of inputs that do not have the workload's; the entries of an index lie below
    the extent that `indexed` names; those of `words` are any 32 bits, which hold weights of
    `weight_bits` each. `limits` are those that seeded entries of other integers have, as
    `seeded.input_value` says. `multiples` are extents with what each has to be a multiple of,
    `choices` attributes with the values that each may have. A key leaves out the last attribute
    where it is `usual`. Every output entry takes `flops_per_point` operations for each combination
    of `summed` axes.
    """

    name: str
    sentence: str
    stages: tuple[Stage, ...]
    family: Family
    axes: Axes
    inputs: tuple[tuple[str, Axes], ...]
    attributes: Axes = ()
    derived: tuple[Derived, ...] = ()
    dtypes: tuple[tuple[str, str], ...] = ()
    indexed: str = ""
    limits: tuple[tuple[str, int], ...] = ()
    usual: int | None = None
    words: Axes = ()
    weight_bits: int = 0
    multiples: tuple[tuple[str, int], ...] = ()
    choices: tuple[tuple[str, tuple[int, ...]], ...] = ()
    flops_per_point: int = 1

    def __hash__(self) -> int:
        """The name tells operators apart; a hash of all their expressions would take 100 µs."""
        return hash(self.name)

    @property
    def output(self) -> tuple[str, Axes]:
        last = self.stages[-1]
        return last.name, tuple(str(axis.extent) for axis in last.axes)

    @property
    def summed(self) -> Axes:
        """Extents over which something is reduced, and of which the output has no axis."""
        over = dict.fromkeys(str(axis.extent) for stage in self.stages for axis in stage.over)
        return tuple(name for name in over if name not in self.output[1])

    @property
    def functions(self) -> frozenset[Function]:
        """The functions that its definition calls."""
        used = (part for stage in self.stages for part in parts(stage.value))
        return frozenset(part.function for part in used if isinstance(part, Call))

    @property
    def may_be_constant(self) -> Axes:
        """Inputs that a kernel gains from when a page never changes them."""
        return ("b",) if self.family is Family.CONTRACTION or self.name == "conv2d" else ()

    @property
    def strided(self) -> bool:
        """True if windows move over its input."""
        return "stride" in self.attributes

    @property
    def takes_weights(self) -> bool:
        return len(self.inputs) > 1

    @property
    def takes_epilogue(self) -> bool:
        if self.stages and self.stages[-1].dtype is DType.I32:
            return False
        return self.family is Family.CONTRACTION or (self.strided and self.takes_weights)
