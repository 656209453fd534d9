"""A plan: how a page runs a whole model. It names workloads, and neither kernels nor devices.

A call runs the kernel of one workload on tensors, its output last. A tensor lies in the activations
at a byte address (`at`), or it is a weight. Tensors of one address share its bytes: a view has the
same entries under another shape, a later tensor takes the place of one that nothing reads any more,
and a call may write where it reads if both places are the same.

A plan says what a reader must know besides (`needs`), and a reader refuses what it does not know.
Needs are independent of one another.

Entries in memory are f32 or i32; in a plan that needs `f16`, which is for WebGPU alone, values
between inputs and outputs, or some of the states, are f16. In one that needs `i8` some weights are
i8. A page passes and receives the dtypes of `Port`: int64, int32, uint8 and bool are i32 in memory,
and a bool is 0 or 1.

Weights lie plain, row-major and little-endian, in one file, and are listed in the order of the
file, which pages take from its beginning on. In the model's first plan that is the order in which
calls first use them; what another plan needs beside them lies behind. The file is fetched in
chunks, each with its hash. The golden file has inputs and the outputs that belong to them, with
entries as in memory.

The weights of a plan that needs `stored` take fewer bits in the file: each says where in the file
it lies and as what (`storage`), while its `offset` and `bytes` go on to be those that plain weights
have one after the other. Chunks of such a file may be deflated, each by itself, so that a
connection that breaks goes on with the next one.

A plan that needs `ranges` has dimensions with a range of extents (`axes`): tensors lie as those of
the largest do, and what a run leaves out is behind what it computes. Integers of inputs must be
there beyond the extent as well, and be such as the input takes. Beside such a dimension there may
be a batch (`batch`), whose entries a page runs one after another.

A plan that needs `axes` has several such dimensions, or one whose entries do not lie side by side
in an input or output: what is there of `[2, n, 8]` are the first n rows of each half. Extents may
be sums of dimensions (`sums`), as the keys of a decoder are those of its cache and those of a run.

A plan that needs `buckets` has kernels of fewer rows for runs of short extents, in the place of
those of the largest (`PlanBucket`). They read and write the first entries of the same tensors, so a
run of a short extent is right with either.

A plan that needs `states` has some: tensors that are zeros at first and keep from run to run what a
call has written to them, such as the keys and values of a language model. An input may be a state,
and then stays as it is until it is given again. The plan of a language model says what is which in
its `decoder`; one that needs an `encoder` has calls besides that read a source once for a text.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import prod

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.weight_storage import Storage

ALIGNMENT_BYTES = 64
MEMORY_DTYPES = (DType.F32, DType.F16, DType.I32, DType.I8)
"""Dtypes that entries may have in memory; f16 and i8 in plans that need them."""
POSITION_WORDS = 4
"""Words of the state that has a decoder's place."""


class Need(StrEnum):
    """A part of plans that not every reader knows. A plan names its needs in this order."""

    STATES = "states"
    STORED = "stored"
    F16 = "f16"
    I8 = "i8"
    RANGES = "ranges"
    BUCKETS = "buckets"
    ENCODER = "encoder"
    AXES = "axes"


class PortDType(StrEnum):
    INT64 = "int64"
    INT32 = "int32"
    UINT32 = "uint32"
    BOOL = "bool"
    UINT8 = "uint8"
    FLOAT32 = "float32"

    @property
    def stored(self) -> DType:
        return DType.F32 if self is PortDType.FLOAT32 else DType.I32


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBucket:
    """Extents up to `most`, and above the bucket before it. Of each pair in `kernels` the second
    runs in the place of the first, which is of the largest extent. What is spare of `most` it is
    told by input number `input`, i32[1], in the place of that of the dimension."""

    most: int
    input: int
    kernels: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAxis:
    """A dimension of which a plan serves a range of extents, in the memory of the largest. Input
    number `input`, i32[1], says how many of the largest extent a run leaves out. `buckets` are of
    shorter extents, the shortest first."""

    name: str
    least: int
    most: int
    input: int
    buckets: tuple[PlanBucket, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """The inputs that say what is spare, which no page sees."""
        return (self.input, *(bucket.input for bucket in self.buckets))


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSum:
    """An extent that is so many times each of the plan's dimensions with a range, and some more.
    Input number `input`, i32[1], says how many of the largest such extent a run leaves out: the sum
    of `factors` times what it leaves out of each."""

    factors: tuple[int, ...]
    input: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBatch:
    """A dimension of entries that do not depend on one another, of which the plan computes one: a
    page runs it for each. It is the first axis of the inputs and outputs of these numbers, in whose
    shapes it is 1; the others are the same for all entries."""

    name: str
    least: int
    most: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenPlace:
    """Axis number `place` of a shape has `step` entries less for each that a run leaves out of
    dimension number `axis` of the plan. The axes before it have one entry each, but in a plan that
    needs `axes`."""

    place: int
    axis: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Port:
    """An input or output as the page knows it; `tensor` is where it lies. `rows`: the least and the
    largest integer of an input that chooses rows of a table as it is; a page refuses others. `open`
    is the axis that has a range of extents, of which `shape` has the largest; `also_open` are more
    such places of a plan that needs `axes`: other axes, or the same one for another dimension."""

    name: str
    dtype: PortDType
    shape: tuple[int, ...]
    tensor: int
    rows: tuple[int, int] | None = None
    open: OpenPlace | None = None
    also_open: tuple[OpenPlace, ...] = ()

    @property
    def open_places(self) -> tuple[OpenPlace, ...]:
        return (self.open, *self.also_open) if self.open else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanTensor:
    """`at` is a byte address in the activations, `weight` and `state` are indices. Exactly one is
    given."""

    dtype: DType
    shape: tuple[int, ...]
    at: int | None = None
    weight: int | None = None
    state: int | None = None

    @property
    def size_bytes(self) -> int:
        return self.dtype.size_bytes * prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """`bytes` of the weights file from `offset` on; of plain weights where it has a `storage`."""

    name: str
    dtype: DType
    shape: tuple[int, ...]
    offset: int
    bytes: int
    storage: Storage | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A tensor that a run leaves to the next one; zeros at first."""

    name: str
    dtype: DType
    shape: tuple[int, ...]

    @property
    def size_bytes(self) -> int:
        return self.dtype.size_bytes * prod(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanEncoder:
    """An encoder says what of a decoder's plan reads a source, once for a text: all calls before
    the decoder's `step`. What they leave of it are states that the calls of a token read.

    `source` is the state with what is read: i32[length], tokens of a `vocabulary`, or with a
    vocabulary of 0 a spectrogram f32[bands, frames] that always has as many frames. `spare` i32[1]
    is the state that says how many places at the end of `length` there are not.

    `cache` are the states that belong to one text of the decoder, its keys and values, with places
    along the last axis but one: a page that follows several texts of a source at once has them of
    each. A text begins with the tokens `start` unless told, and is never given those that are
    `suppressed`.
    """

    source: int
    spare: int
    length: int
    vocabulary: int
    cache: tuple[int, ...]
    start: tuple[int, ...]
    suppressed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDecoder:
    """A decoder says what of a plan decodes a language model: calls that take a block of the
    prompt, then those of a token, a run of either. The numbers are those of tensors, and at last of
    calls.

    `token` i32[1] is the state that has the token which a run takes, `position` i32[4] that which
    has its place and behind it the end of the prompt, and `prompt` i32[length] that with the tokens
    of the prompt by their places. A run goes on to the next place, with the prompt's token there,
    or behind its end with that in `chosen` i32[1], the likeliest by `logits` f32[1, vocabulary].

    The calls before `step` take `rows` tokens of the prompt from the place on, and go on to the
    prompt's last token at most. Of the others, which take a token, those from `head` to the last
    but one are of use only where the next token is asked for. `stop` are tokens that end a text.

    The calls before `step` of a decoder with an `encoder` are that, and prompts are taken token by
    token; for so many tokens as there are `rows` it runs once, as kernels are tuned for both.
    """

    length: int
    vocabulary: int
    token: int
    position: int
    prompt: int
    logits: int
    chosen: int
    rows: int
    step: int
    head: int
    stop: tuple[int, ...]
    encoder: PlanEncoder | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """The next `bytes` of the weights file. A deflated chunk (RFC 1950) has `inflated` bytes."""

    bytes: int
    sha256: str
    inflated: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCall:
    """`tensors` are the operands of the workload `kernel` in its order, the output last. `label`
    says which node of the model this is."""

    kernel: int
    tensors: tuple[int, ...]
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanMemory:
    """Bytes, of plain weights. Scratch memory is not among them: it depends on the kernels that a
    device is given."""

    weights: int
    activations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenPart:
    """`bytes` of the golden file from `offset` on: a port's entries as they lie in memory. Of an
    output so many entries may be `off`, as rounding alone decides them."""

    name: str
    offset: int
    bytes: int
    off: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """An output is right if no entry, or no more than are allowed to be off, differs from the
    file's by more than `tolerance` times the largest magnitude of that output. With
    weights that are stored in fewer bits, or values of f16,
    outputs differ by `storage_error` of that magnitude from those of the model as it was."""

    sha256: str
    inputs: tuple[GoldenPart, ...]
    outputs: tuple[GoldenPart, ...]
    tolerance: float
    storage_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`dimensions` are what the model leaves open, such as the length of a sequence; `kernels` are
    keys of workloads. `needs` are of `Need`, once each. Check what others wrote with
    `plan_checking.validated`."""

    needs: tuple[str, ...]
    model: str
    dimensions: Mapping[str, int]
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    tensors: tuple[PlanTensor, ...]
    weights: tuple[Weight, ...]
    chunks: tuple[Chunk, ...]
    kernels: tuple[str, ...]
    calls: tuple[PlanCall, ...]
    memory: PlanMemory
    golden: Golden
    states: tuple[PlanState, ...] = ()
    decoder: PlanDecoder | None = None
    axes: tuple[PlanAxis, ...] = ()
    batch: PlanBatch | None = None
    sums: tuple[PlanSum, ...] = ()

    @property
    def told_inputs(self) -> frozenset[int]:
        """The inputs that say what is spare, which no page sees."""
        of_axes = (number for axis in self.axes for number in axis.inputs)
        return frozenset((*of_axes, *(each.input for each in self.sums)))

    @property
    def ranges(self) -> tuple[PlanAxis | PlanBatch, ...]:
        """The dimensions that have a range."""
        return (*self.axes, *((self.batch,) if self.batch else ()))

    @property
    def bucket_kernels(self) -> tuple[tuple[int, int], ...]:
        """Pairs of a kernel and of one that runs in its place for shorter extents."""
        return tuple(pair for axis in self.axes for each in axis.buckets for pair in each.kernels)

    @property
    def file_bytes(self) -> int:
        """The bytes of the weights file."""
        return sum(chunk.bytes for chunk in self.chunks)

    @property
    def has_f16(self) -> bool:
        """True for a plan that is for WebGPU alone."""
        return Need.F16 in self.needs

    @property
    def has_i8(self) -> bool:
        """True for a plan that multiplies bytes."""
        return Need.I8 in self.needs

    @property
    def has_stored_weights(self) -> bool:
        return Need.STORED in self.needs


def call_counts(plan: Plan) -> Counter[str]:
    """Counts how often a run of the largest extents calls each workload, which is never for kernels
    of buckets. A run of a decoder is taken as that of a block of the prompt and of as many tokens,
    so that neither is tuned for the other's sake."""
    step, rows = (plan.decoder.step, plan.decoder.rows) if plan.decoder else (len(plan.calls), 1)
    counts: Counter[str] = Counter()
    for number, call in enumerate(plan.calls):
        counts[plan.kernels[call.kernel]] += 1 if number < step else rows
    return counts
