"""A workload: one operator with concrete extents and dtype, named by a canonical text key.

`matmul:f32:m384k768n768` reads operator, dtype, then one extent per axis in the operator's order.
Attributes such as stride and padding stand behind the axes:
`conv2d:f32:b1h56w56c64o64kh3kw3stride1pad1`; the usual `eps` of a norm and the usual `block` of
quantised weights are left out. An
epilogue follows the operator: `matmul+bias+gelu:f32:m384k768n3072`. A last part names an input that
a page never changes, such as weights: `matmul:f32:m1k768n3072:constant=b`.

Behind all that `spare=128` may stand: of 128 equal parts of the output those at the end that nobody
reads may be left out. How many, the last input of a call says, so that one kernel serves a range of
extents: `matmul:f32:m128k384n1536:constant=b:spare=128` is right for every m from 1 to 128.

What no operator names is a program: `program:add_gelu:0123456789abcdef` reads a name for people and
the first 16 digits of the SHA-256 of its normalised text, which the zoo stores.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import lru_cache
from hashlib import sha256
from math import prod
from typing import NewType, Self

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators import EPILOGUES, OPERATORS, Family, Operator
from kernelzoo.domain.operators.binding import bound, extent_of
from kernelzoo.domain.operators.checking import checked
from kernelzoo.domain.operators.epilogues import epilogue_inputs, with_epilogue
from kernelzoo.domain.operators.expressions import Input, Program, Read, Spare, parts
from kernelzoo.domain.operators.figures import (
    flops,
    limits,
    longest_reduction,
    stage_bytes,
    work,
)
from kernelzoo.domain.operators.parsing import refuse_long
from kernelzoo.domain.operators.recurrence import is_recurrent
from kernelzoo.errors import InvalidInput

MAX_EXTENT = 65_536
MAX_QUANTISED_EXTENT = 1 << 18
"""The bound of operators with quantised weights: a row for each token of a vocabulary."""
MAX_ENTRIES = 1 << 29
"""The largest extent of an operator with one axis, which is all there is of a tensor."""
MAX_EPS = 30
"""10⁻³⁰ is a number of f32, and added to a variance it is nothing."""
MAX_TENSOR_BYTES = 1 << 31
"""Kernels count the bytes of a tensor by integers of 32 bits. What a page's device has room for, it
sees when it opens a model."""
MAX_MEASURED_BYTES = 1 << 28
"""Agents hold the tensors of a workload beside what pages do on the same device."""
MAX_FLOPS = 1 << 40
MAX_REDUCTION = 1 << 22
"""Terms of one entry of an output, as a group of 16 images of 512 x 512 has. Who checks a report
computes as many entries as `services.aggregator.verification` can afford."""


KEY_DTYPES = (DType.F32, DType.F16)
"""A key may name these; the others belong to single inputs of certain operators. Of f16 are the
tensors alone: kernels compute in f32 and round what they store."""


PROGRAM_DTYPES = (DType.F32, DType.F16, DType.I32)
"""A program that no operator names may take these."""


class Role(StrEnum):
    """A state is an input that a call also writes, in place: a cache that grows."""

    INPUT = "input"
    STATE = "state"
    OUTPUT = "output"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """One parameter of a workload, row-major and dense.

    Entries of an index are below `limit`; 0 is for a tensor of values, which of i32 are any.
    Seeded entries of some other integers are below theirs, too.
    """

    name: str
    role: Role
    dtype: DType
    shape: tuple[int, ...]
    limit: int = 0

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * self.dtype.size_bytes


MAX_EPILOGUES = 4
MAX_STAGE_BYTES = 1 << 28
"""Bytes of all stages of a program before its output."""
MAX_WORK = 1 << 24
"""Terms of one entry of a program's output with those of all that it is made of. Who checks a
report computes up to 64 such entries."""
MAX_ORDERED_WORK = 1 << 25
"""A stage that takes values in order does so much work at the most, as it is computed whole."""
MAX_RECURRENT_WORK = 1 << 33
"""A recurrence does so much work at the most. Its products are computed step by step as products of
matrices: some ten seconds at the most."""
CONSTANT_WEIGHTS = ":constant=b"
"""Follows the key of a workload whose weights stay the same."""

_KEY = re.compile(
    r"(?P<operators>[a-z0-9_+]{1,64}):(?P<dtype>[a-z0-9]{1,8}):(?P<extents>[a-z0-9]{1,64})"
    r"(:constant=(?P<constant>[a-z0-9_+]{1,64}))?"
    r"(:spare=(?P<spare>[1-9][0-9]{0,8}))?"
)


SPARE = "spare"
"""The input that says how many parts of the output are left out."""


WorkloadKey = NewType("WorkloadKey", str)
"""A canonical key where it is only a name: what the workload computes was not looked up. That of an
operator says it (`Workload.parse`); the text of a program is read from where it is stored
(`kernelzoo.store.programs`)."""


class UnknownProgram(InvalidInput):
    """A key names a program whose text is not here."""

    @classmethod
    def of(cls, key: str) -> Self:
        return cls(
            f"the program {key[:80]} is not registered; import the model that has it, or register "
            "its text"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`extents` are in the order of the operator's axes. Build it with `of` or `parse`.

    `epilogue` names what is done to every entry before it is stored, in that order. `constant` are
    inputs that stay the same from call to call, so that a kernel may want them packed. Of `spare`
    equal parts of the output a call may leave out some; 0 where it computes all of it.
    """

    operator: Operator
    dtype: DType
    extents: tuple[int, ...]
    epilogue: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    spare: int = 0

    @classmethod
    def of(
        cls,
        operator: str,
        extents: tuple[int, ...],
        dtype: str = DType.F32,
        constant: tuple[str, ...] = (),
        spare: int = 0,
    ) -> Self:
        """`operator` may carry an epilogue: `matmul+bias+gelu`.

        Raises InvalidInput for an unknown operator or dtype and for extents out of range.
        """
        name, *epilogue = operator.split("+")
        known = OPERATORS.get(name)
        if known is None:
            raise InvalidInput(
                f"operator {name[:40]!r} is unknown{_meant(name, OPERATORS)}; "
                f"use one of {', '.join(OPERATORS)}"
            )
        if dtype not in KEY_DTYPES:
            raise InvalidInput(f"dtype {dtype!r} is unknown; use one of {', '.join(KEY_DTYPES)}")
        if extents and len(extents) == len(known.axes) and extents[-1] == known.usual:
            extents = extents[:-1]
        if len(extents) not in (len(known.axes), len(known.axes) - (known.usual is not None)):
            raise InvalidInput(
                f"{operator} takes {len(known.axes)} extents ({', '.join(known.axes)}), "
                f"not {len(extents)}"
            )
        _refuse_epilogue(known, tuple(epilogue))
        _refuse_constant(known, constant)
        workload = cls(
            operator=known,
            dtype=DType(dtype),
            extents=extents,
            epilogue=tuple(epilogue),
            constant=constant,
            spare=spare,
        )
        workload._refuse_extents()
        workload._refuse_oversize()
        if spare and workload.output.elements % spare:
            raise InvalidInput(f"the output of {workload.key} has no {spare} equal parts")
        return workload

    @staticmethod
    def of_program(name: str, program: Program) -> "ProgramWorkload":
        """Makes the workload that a program computes, normalised. Raises InvalidInput for a name
        that is none, and for a program that means nothing or takes too much."""
        whole = bound(checked(program), {}).normalised()
        text = str(whole)
        refuse_long(text)
        digest = sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]
        made = ProgramWorkload.stored(program_key(name, digest), whole)
        made.refuse_oversize()
        return made

    @classmethod
    def parse(cls, key: str) -> "Workload":
        """Reads the canonical key of an operator's workload. Raises InvalidInput with the grammar
        when it does not match, and UnknownProgram for the key of a program, which does not say what
        it computes: see `resolved`.
        """
        if is_program(key):
            program_name(key)
            raise UnknownProgram.of(key)
        match = _KEY.fullmatch(key)
        if match is None:
            raise InvalidInput(
                f"workload key {key[:80]!r} is malformed; "
                "write operator:dtype:extents, as in matmul:f32:m384k768n768"
            )
        extents = tuple(int(n) for n in re.findall(r"[a-z]+([0-9]{1,9})", match["extents"]))
        constant = tuple(match["constant"].split("+")) if match["constant"] else ()
        spare = int(match["spare"] or 0)
        workload = cls.of(match["operators"], extents, match["dtype"], constant, spare)
        if workload.key != key:
            raise InvalidInput(
                f"workload key {key[:80]!r} is not canonical; did you mean {workload.key!r}?"
            )
        return workload

    def _refuse_extents(self) -> None:
        operator = self.operator
        for axis, extent in zip(operator.axes, self.extents, strict=False):
            least = 0 if axis in operator.attributes else 1
            most = MAX_ENTRIES if len(operator.axes) == 1 else MAX_EXTENT
            most = MAX_QUANTISED_EXTENT if operator.words else most
            most = MAX_EPS if axis == "eps" else most
            if not least <= extent <= most:
                raise InvalidInput(
                    f"extent {axis}={extent} of {operator.name} is out of range; "
                    f"it must be from {least} to {most}"
                )
        if operator.strided:
            self._refuse_windows()
        for axis, step in operator.multiples:
            if self.given[axis] % step:
                raise InvalidInput(
                    f"extent {axis}={self.given[axis]} of {operator.name} must be a multiple of "
                    f"{step}, as its weights are read {step} at a time"
                )
        for axis, values in operator.choices:
            if self.given[axis] not in values:
                raise InvalidInput(
                    f"{axis}={self.given[axis]} of {operator.name} must be one of "
                    f"{', '.join(map(str, values))}"
                )
        for derived in operator.derived:
            if extent_of(derived.extent, self.given) < 1:
                raise InvalidInput(
                    f"{self.key} has no output along {derived.axis}; "
                    "give larger extents or a smaller window or start"
                )

    def _refuse_windows(self) -> None:
        """The largest of a window that lies in padding alone is no number; a sum is 0 there."""
        given, name = self.given, self.operator.name
        if not given["stride"]:
            raise InvalidInput(f"the stride of {name} must be at least 1")
        sides = (given["kh"], given["kw"])
        widest = max(sides) if self.operator.takes_weights else min(sides)
        if given["pad"] >= widest:
            raise InvalidInput(
                f"padding {given['pad']} of {name} must be smaller than its window, {widest}"
            )

    def _refuse_oversize(self) -> None:
        for tensor in self.tensors:
            if tensor.size_bytes > MAX_TENSOR_BYTES:
                raise InvalidInput(
                    f"tensor {tensor.name} of {self.key} has {tensor.size_bytes} bytes; "
                    f"at most {MAX_TENSOR_BYTES} are allowed"
                )
        if self.reduction_length > MAX_REDUCTION:
            raise InvalidInput(
                f"{self.key} sums {self.reduction_length} terms into each entry of its output; "
                f"at most {MAX_REDUCTION} are allowed"
            )
        if self.flops > MAX_FLOPS:
            raise InvalidInput(
                f"{self.key} takes {self.flops} FLOPs a call; at most {MAX_FLOPS} are allowed"
            )

    @property
    def key(self) -> str:
        dims = "".join(f"{a}{n}" for a, n in zip(self.operator.axes, self.extents, strict=False))
        constant = f":constant={'+'.join(self.constant)}" if self.constant else ""
        spare = f":{SPARE}={self.spare}" if self.spare else ""
        operators = "+".join((self.operator.name, *self.epilogue))
        return f"{operators}:{self.dtype}:{dims}{constant}{spare}"

    @property
    def spare_parts(self) -> int:
        """Counts the equal parts of the output of which a call may leave out some; 0 where it
        computes all of it."""
        return self.spare

    @property
    def spare_blocks(self) -> int:
        """Counts the blocks of the output each of which has such parts."""
        return 1

    @property
    def whole(self) -> "Workload":
        """Returns the workload that computes all parts of the output, which this one is where
        nothing is left out."""
        return replace(self, spare=0)

    @property
    def given(self) -> dict[str, int]:
        """Extent or attribute by its name in the key."""
        return _given(self.operator, self.extents)

    @property
    def extent(self) -> dict[str, int]:
        """Maps the names of all extents to their values: those given, and those that follow from
        them."""
        return self.given | _derived(self.operator, self.extents)

    @property
    def program(self) -> Program:
        """States what a call computes, in expressions that name no extent."""
        return _program(self)

    @property
    def has_states(self) -> bool:
        """True if a call writes some of its inputs."""
        return False

    @property
    def is_measured(self) -> bool:
        """Returns whether agents are lent its kernels; pages are given the defaults of others. Of
        an operator that makes integers of real numbers nobody can tell which two right results of
        a rounding agree."""
        rounds = self.operator is not PROGRAM and self.output.dtype is DType.I32
        return not rounds and all(each.size_bytes <= MAX_MEASURED_BYTES for each in self.tensors)

    @property
    def stores_f16(self) -> bool:
        """True if some of its tensors are of f16."""
        return self.dtype is DType.F16

    @property
    def flops(self) -> int:
        """Floating-point operations of one call, a multiply-add counted as two.

        Epilogues are not counted, which keeps the figures of an operator comparable.
        """
        extent = self.extent
        points = prod(extent[axis] for axis in (*self.operator.output[1], *self.operator.summed))
        return self.operator.flops_per_point * points

    @property
    def bytes_moved(self) -> int:
        """Bytes of all tensors, each counted once."""
        return sum(tensor.size_bytes for tensor in self.tensors)

    @property
    def reduction_length(self) -> int:
        """Terms summed into one output entry."""
        extent = self.extent
        return prod(extent[axis] for axis in self.operator.summed)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """Inputs in order, then the output: the order of a kernel's pointer parameters."""
        extent = self.extent
        name, axes = self.operator.output
        output = tuple(extent[a] for a in axes)
        shapes = [(n, tuple(extent[a] for a in axes)) for n, axes in self.operator.inputs]
        shapes += epilogue_inputs(self.epilogue, output)
        inputs = [self._input(name, shape) for name, shape in shapes]
        if self.spare:
            inputs.append(Tensor(name=SPARE, role=Role.INPUT, dtype=DType.I32, shape=(1,), limit=1))
        whole = self.operator.stages[-1].dtype is DType.I32
        dtype = DType.I32 if whole else self.dtype
        return (*inputs, Tensor(name=name, role=Role.OUTPUT, dtype=dtype, shape=output))

    def _input(self, name: str, shape: tuple[int, ...]) -> Tensor:
        dtype = DType(dict(self.operator.dtypes).get(name, self.dtype))
        limit = dict(self.operator.limits).get(name, 0)
        if dtype is DType.I32 and not limit and name not in self.operator.words:
            limit = self.given[self.operator.indexed]
        return Tensor(name=name, role=Role.INPUT, dtype=dtype, shape=shape, limit=limit)

    @property
    def output(self) -> Tensor:
        return self.tensors[-1]


PROGRAM = Operator(
    name="program",
    sentence="what its stored text says",
    stages=(),
    family=Family.PROGRAM,
    axes=(),
    inputs=(),
)
DIGEST_DIGITS = 16
_NAME = re.compile(r"[a-z0-9_]{1,40}")
_PROGRAM_KEY = re.compile(
    rf"{PROGRAM.name}:(?P<name>{_NAME.pattern}):(?P<digest>[0-9a-f]{{{DIGEST_DIGITS}}})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramWorkload(Workload):
    """A workload that a program states. Two of one key are equal.

    `roundings`: how far two right results may differ, in units of one rounding to f32; None where
    nobody has evaluated the program yet (`services.aggregator.rounding`).
    """

    name: str
    digest: str
    program: Program = field(compare=False, repr=False)
    roundings: float | None = field(default=None, compare=False, repr=False)

    @classmethod
    def stored(cls, key: str, program: Program, roundings: float | None = None) -> Self:
        """Makes the workload of a key that was made of this program before."""
        name, digest = program_name(key)
        return cls(
            operator=PROGRAM,
            dtype=DType.F32,
            extents=(),
            name=name,
            digest=digest,
            program=program,
            roundings=roundings,
        )

    def evaluated(self, roundings: float) -> Self:
        """Returns the same with what its evaluation found."""
        return replace(self, roundings=roundings)

    @property
    def key(self) -> str:
        return program_key(self.name, self.digest)

    @property
    def has_states(self) -> bool:
        return bool(self.program.updates)

    @property
    def stores_f16(self) -> bool:
        return any(each.dtype is DType.F16 for each in self.tensors)

    @property
    def flops(self) -> int:
        return _flops(self)

    @property
    def spare_parts(self) -> int:
        spare = self.program.spare
        return spare.parts if spare else 0

    @property
    def spare_blocks(self) -> int:
        spare = self.program.spare
        return spare.blocks if spare else 1

    @property
    def whole(self) -> Workload:
        return _whole(self) if self.program.spare else self

    @property
    def reduction_length(self) -> int:
        return longest_reduction(self.program)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return _tensors(self)

    def refuse_oversize(self) -> None:
        """Raises InvalidInput for a program that takes more than a named workload may."""
        self._refuse_oversize()
        program = self.program
        for given in program.inputs:
            if given.dtype not in PROGRAM_DTYPES:
                raise InvalidInput(
                    f"input {given.name} of {self.key} is of {given.dtype}; programs take "
                    f"{', '.join(PROGRAM_DTYPES)}"
                )
        most_work = MAX_ORDERED_WORK if program.is_ordered else MAX_WORK
        most_work = MAX_RECURRENT_WORK if is_recurrent(program) else most_work
        for found, most, what in (
            (stage_bytes(program), MAX_STAGE_BYTES, "the stages before the output have {} bytes"),
            (work(program), most_work, "an entry of the output takes {} terms"),
        ):
            if found > most:
                raise InvalidInput(
                    f"{self.key} is too large: {what.format(found)}; at most {most} are allowed"
                )


def refuse_unmeasured(workload: Workload) -> None:
    """Raises InvalidInput for a workload of which no agent measures kernels."""
    if workload.output.dtype is DType.I32 and not workload.is_measured:
        raise InvalidInput(
            f"{workload.key} rounds to integers, which agents do not compare. Run it in a model, "
            "which is given default kernels"
        )
    for tensor in workload.tensors:
        if tensor.size_bytes > MAX_MEASURED_BYTES:
            raise InvalidInput(
                f"tensor {tensor.name} of {workload.key} has {tensor.size_bytes} bytes; agents "
                f"hold at most {MAX_MEASURED_BYTES}. Give smaller extents, or run it in a model, "
                "which is given default kernels"
            )


def workload_key(text: str) -> WorkloadKey:
    """Reads a canonical key as a name. Raises InvalidInput for a text that is none; nobody needs to
    have read the text of a program."""
    if is_program(text):
        return program_key(*program_name(text))
    return WorkloadKey(Workload.parse(text).key)


def is_program(key: str) -> bool:
    """Returns whether a key, or the beginning of one, is that of a program."""
    return key.startswith(f"{PROGRAM.name}:")


def program_key(name: str, digest: str) -> WorkloadKey:
    """Raises InvalidInput for a name that is none."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:60]!r} is no name of a program; write 1 to 40 of a to z, 0 to 9 and _"
        )
    return WorkloadKey(f"{PROGRAM.name}:{name}:{digest}")


def program_name(key: str) -> tuple[str, str]:
    """Takes the key of a program apart, into its name and digest. Raises InvalidInput for one that
    is malformed."""
    match = _PROGRAM_KEY.fullmatch(key)
    if match is None:
        raise InvalidInput(
            f"workload key {key[:80]!r} is malformed; a program's is "
            f"{PROGRAM.name}:name: and {DIGEST_DIGITS} hexadecimal digits"
        )
    return match["name"], match["digest"]


def resolved(
    keys: Iterable[str], programs: Mapping[str, ProgramWorkload]
) -> dict[WorkloadKey, Workload]:
    """Looks up what workloads compute, by their keys. `programs`: those that may be among them.
    Raises InvalidInput for a key that is none, and UnknownProgram for a program that is not among
    `programs`."""
    return {
        WorkloadKey(key): programs.get(key) or parsed_workload(key) for key in dict.fromkeys(keys)
    }


parsed_workload = lru_cache(maxsize=1 << 12)(Workload.parse)
"""Reads keys as `Workload.parse` does, those that were read lately from memory: pages ask for the
same hundreds again and again, and to read one takes 0.1 ms."""


@lru_cache(maxsize=1024)
def _flops(workload: ProgramWorkload) -> int:
    return flops(workload.program)


@lru_cache(maxsize=1024)
def _whole(workload: ProgramWorkload) -> Workload:
    """Nothing is told then of what is left out, unless a stage reads it."""
    program = workload.program
    assert program.spare is not None
    read = {
        part.tensor for s in program.stages for part in parts(s.value) if isinstance(part, Read)
    }
    kept = (i for i in program.inputs if i.name != program.spare.tensor or i.name in read)
    bare = replace(program, inputs=tuple(kept), spare=None)
    return Workload.of_program(workload.name, bare)


@lru_cache(maxsize=1024)
def _tensors(workload: ProgramWorkload) -> tuple[Tensor, ...]:
    program = workload.program
    limit = limits(program)
    states = {update.tensor for update in program.updates}
    inputs = (
        Tensor(
            name=each.name,
            role=Role.STATE if each.name in states else Role.INPUT,
            dtype=DType(each.dtype),
            shape=each.shape,
            limit=limit.get(each.name, 0),
        )
        for each in program.inputs
    )
    made = program.output
    output = Tensor(name=made.name, role=Role.OUTPUT, dtype=program.output_dtype, shape=made.shape)
    return (*inputs, output)


def _given(operator: Operator, extents: tuple[int, ...]) -> dict[str, int]:
    usual = () if operator.usual is None else (operator.usual,)
    return dict(zip(operator.axes, (*extents, *usual), strict=False))


@lru_cache(maxsize=1024)
def _derived(operator: Operator, extents: tuple[int, ...]) -> dict[str, int]:
    given = _given(operator, extents)
    return {each.axis: extent_of(each.extent, given) for each in operator.derived}


@lru_cache(maxsize=256)
def _program(workload: Workload) -> Program:
    inputs = tuple(
        Input(name=tensor.name, dtype=tensor.dtype, shape=tensor.shape)
        for tensor in workload.tensors
        if tensor.role is Role.INPUT
    )
    stages = with_epilogue(workload.operator.stages, workload.epilogue)
    spare = Spare(SPARE, workload.spare) if workload.spare else None
    return bound(Program(inputs=inputs, stages=stages, spare=spare), workload.extent)


def _meant(name: str, known: Iterable[str]) -> str:
    """The name that was probably meant, as the middle of a sentence; '' where none is near."""
    near = get_close_matches(name[:40].lower(), list(known), n=1)
    return f", did you mean {near[0]}" if near else ""


def _refuse_epilogue(operator: Operator, epilogue: tuple[str, ...]) -> None:
    unknown = next((name for name in epilogue if name not in EPILOGUES), None)
    if unknown is not None:
        raise InvalidInput(
            f"epilogue {unknown[:40]!r} is unknown{_meant(unknown, EPILOGUES)}; "
            f"use {', '.join(EPILOGUES)}"
        )
    if epilogue and not operator.takes_epilogue:
        raise InvalidInput(f"operator {operator.name} takes no epilogue")
    if operator.family is not Family.CONTRACTION and "mask" in epilogue:
        raise InvalidInput(f"operator {operator.name} takes no mask; use residual")
    if len(epilogue) > MAX_EPILOGUES or len(set(epilogue)) < len(epilogue):
        raise InvalidInput(f"an epilogue has at most {MAX_EPILOGUES} parts, none of them twice")


def _refuse_constant(operator: Operator, constant: tuple[str, ...]) -> None:
    known = operator.may_be_constant
    if constant and constant != known:
        raise InvalidInput(
            f"operator {operator.name} gains nothing from constant {'+'.join(constant)[:40]!r}; "
            + (f"write constant={'+'.join(known)}" if known else "leave constant= out")
        )
