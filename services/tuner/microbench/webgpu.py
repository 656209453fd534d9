"""The suite of GPUs: primitives, each in its base and its advanced setting, the limit of the GPU,
a stream, and a dispatch of nothing. docs/adr/0013 says which primitives are not in it, and why.

A probe is a loop program that the WGSL printer writes, as it writes kernels. It reads `source`,
which the caller leaves zero, and every thread stores one vector of four to a place of its own in
`sink`, so that drivers leave nothing out.
"""

from dataclasses import dataclass, replace

from msgspec import structs

from kernelzoo.domain.artifact import Dispatch
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.ir.affine import Affine, variable
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Assign,
    Barrier,
    Binary,
    BinaryOp,
    Block,
    Broadcast,
    Buffer,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Let,
    Load,
    Loop,
    LoopKind,
    MultiplyAdd,
    Program,
    Register,
    RegisterRead,
    Scope,
    Store,
)
from services.tuner.microbench.probe import Probe
from services.tuner.passes.pipeline import run_gpu_passes
from services.tuner.schedules.base.f16_storage import SHADER_F16
from services.tuner.schedules.base.limits import SUBGROUPS
from services.tuner.schedules.reduction.webgpu import reduction_program
from services.tuner.schedules.reduction.webgpu_config import WebgpuReductionConfig

SUITE = 102
"""Version of the suite: raise it when a probe, a margin, or the order of the list changes. Those of
GPUs begin at 101."""

GROUP, THREAD = "group", "thread"
SOURCE, SINK = "source", "sink"
GROUPS = 4096
"""Workgroups of a probe that is as vec4 as its caller likes: 64 threads each fill any GPU."""

ZERO = Const(value=0.0, dtype=DType.F32, lanes=LANES)


# What all probes are written with: two buffers, workgroups of threads, sums that are kept.


def source(size: int, *, half: bool = False) -> Buffer:
    """`size` counts elements."""
    dtype = DType.F16 if half else DType.F32
    return Buffer(name=SOURCE, scope=Scope.PARAMETER, dtype=dtype, size=size)


def sink(threads: int) -> Buffer:
    size = LANES * threads
    return Buffer(name=SINK, scope=Scope.PARAMETER, dtype=DType.F32, size=size)


def vector(name: str) -> Register:
    return Register(name=name, lanes=LANES)


def read(register: Register) -> RegisterRead:
    return RegisterRead(register=register)


def affine(constant: int = 0, **coefficients: int) -> Affine:
    return Affine.of(constant, coefficients)


def load(buffer: Buffer, index: Affine, lanes: int = LANES) -> Load:
    return Load(buffer=buffer, index=index, lanes=lanes)


def assign(register: Register, value: Expression) -> Assign:
    return Assign(register=register, value=value)


def store(buffer: Buffer, index: Affine, value: Expression) -> Store:
    return Store(buffer=buffer, index=index, value=value)


def spread(value: Expression, lane: int) -> Expression:
    """One lane in all four."""
    return Broadcast(value=ExtractLane(value=value, lane=lane), lanes=LANES)


def accumulate(total: Register, left: Expression, right: Expression) -> Assign:
    return assign(total, MultiplyAdd(left=left, right=right, addend=read(total)))


def sum_of(registers: list[Register]) -> Expression:
    first, *others = map(read, registers)
    total: Expression = first
    for other in others:
        total = total + other
    return total


def serial(var: str, extent: int, body: Block) -> Loop:
    return Loop(var=var, extent=extent, kind=LoopKind.SERIAL, body=body)


def place(threads: int) -> Affine:
    """The thread's own vector among those of all workgroups."""
    return affine(group=LANES * threads, thread=LANES)


def program(
    parameters: tuple[Buffer, ...],
    groups: int,
    threads: int,
    body: Block,
    shared: tuple[Buffer, ...] = (),
) -> Program:
    """`shared` are buffers of a workgroup."""
    inner: Block = (Loop(var=THREAD, extent=threads, kind=LoopKind.THREAD_INDEX, body=body),)
    for buffer in shared:
        inner = (Allocate(buffer=buffer, body=inner),)
    outer = Loop(var=GROUP, extent=groups, kind=LoopKind.RANGE, body=inner)
    return Program(parameters=parameters, body=outer)


# Sums of products in registers alone: the limit of a GPU.

CHAINS = 16
"""Accumulators of a thread: 64 registers, and as many products that do not wait for each other."""

STEPS = 256
CHAIN_FLOPS = 2 * LANES * CHAINS * STEPS
"""Floating-point operations of one thread."""


def sums_of_products() -> Program:
    """Each chain starts at other data, or a compiler would see that they are equal."""
    data = source(LANES * THREADS * (CHAINS + 1))
    written = sink(GROUPS * THREADS)
    factor = vector("factor")
    chains = [vector(f"chain{number}") for number in range(CHAINS)]
    starts: Block = tuple(
        assign(register, load(data, affine(LANES * THREADS * number, thread=LANES)))
        for number, register in enumerate((factor, *chains))
    )
    step: Block = tuple(accumulate(chain, read(chain), read(factor)) for chain in chains)
    result = store(written, place(THREADS), sum_of(chains))
    body = (*starts, serial("step", STEPS, step), result)
    return program((data, written), GROUPS, THREADS, body)


# The inner loop of a matrix product: a thread's tile of 4x4, read from storage or from workgroup
# memory.

SIDE = 8
THREADS = SIDE * SIDE
ROWS = 4
"""Rows of a thread's tile; it has one vector of four columns."""

BLOCK = SIDE * LANES
"""Rows and columns of a workgroup."""

BLOCK_K = 8
"""The k that lie in workgroup memory: one vector of each matrix for each thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TileLoop:
    """c[32, 32] += a[32, k]·b[k, 32] by 8 by 8 threads. All workgroups read the same a and b, which
    stay in the first cache that there is.

    `vec4` loads vectors, and `staged` copies eight of k at a time into workgroup memory. a and b
    are of f16 where they are `half`.
    """

    k: int = 64
    vec4: bool = True
    staged: bool = False
    half: bool = False
    groups: int = GROUPS

    @property
    def flops(self) -> int:
        """Floating-point operations of one workgroup."""
        return 2 * THREADS * ROWS * LANES * self.k

    @property
    def elements(self) -> int:
        """Elements of a and b."""
        return 2 * BLOCK * self.k

    def program(self, into: Buffer | None = None) -> Program:
        """Stores to the sink, or to another buffer of its size."""
        data, written = source(self.elements, half=self.half), into or sink(self.groups * THREADS)
        totals = [vector(f"total{row}") for row in range(ROWS)]
        zeros: Block = tuple(assign(total, ZERO) for total in totals)
        own = _tiles() if self.staged else ()
        sums = self._staged(data, own, totals) if own else self._direct(data, totals)
        body = (*zeros, *sums, store(written, place(THREADS), sum_of(totals)))
        placed = (_thread_as("row", "column", SIDE, body),)
        return program((data, written), self.groups, THREADS, placed, own)

    def _direct(self, data: Buffer, totals: list[Register]) -> Block:
        """a[32, k] row-major, then b[k, 32] row-major."""
        a = affine(row=ROWS * self.k, step=LANES)
        b = affine(BLOCK * self.k, column=LANES, step=LANES * BLOCK)
        body = self._step((data, a, self.k), (data, b, BLOCK), totals, 0)
        return (serial("step", self.k // LANES, tuple(body)),)

    def _staged(self, data: Buffer, own: tuple[Buffer, ...], totals: list[Register]) -> Block:
        """The next eight of k of both, copied by all threads a vector each."""
        own_a, own_b = own
        copies = (*self._copy_a(data, own_a), *self._copy_b(data, own_b))
        body: list[Assign] = []
        for part in range(BLOCK_K // LANES):
            a = affine(LANES * part, row=ROWS * BLOCK_K)
            b = affine(LANES * part * BLOCK, column=LANES)
            body += self._step((own_a, a, BLOCK_K), (own_b, b, BLOCK), totals, part)
        block: Block = (Barrier(), *copies, Barrier(), *body)
        return (serial("block", self.k // BLOCK_K, block),)

    def _copy_a(self, data: Buffer, own: Buffer) -> Block:
        """Two vectors of each row of a."""
        at = affine(block=BLOCK_K, line=self.k, part=LANES)
        body = store(own, affine(thread=LANES), load(data, at))
        return (_thread_as("line", "part", BLOCK_K // LANES, (body,)),)

    def _copy_b(self, data: Buffer, own: Buffer) -> Block:
        at = affine(BLOCK * self.k, block=BLOCK_K * BLOCK, thread=LANES)
        return (store(own, affine(thread=LANES), load(data, at)),)

    def _step(
        self,
        a: tuple[Buffer, Affine, int],
        b: tuple[Buffer, Affine, int],
        totals: list[Register],
        part: int,
    ) -> list[Assign]:
        """Four of k: a vector of each row of a, and four vectors of b."""
        rows = [vector(f"a{part}_{row}") for row in range(ROWS)]
        columns = [vector(f"b{part}_{k}") for k in range(LANES)]
        loads = [assign(register, self._four(a, row)) for row, register in enumerate(rows)]
        loads += [assign(register, self._four(b, k)) for k, register in enumerate(columns)]
        return loads + [
            accumulate(total, spread(read(row), k), read(column))
            for k, column in enumerate(columns)
            for row, total in zip(rows, totals, strict=True)
        ]

    def _four(self, matrix: tuple[Buffer, Affine, int], line: int) -> Expression:
        buffer, start, pitch = matrix
        at = start + line * pitch
        if self.vec4:
            return load(buffer, at)
        return Lanes(values=tuple(load(buffer, at + i, 1) for i in range(LANES)))


def _tiles() -> tuple[Buffer, ...]:
    """Workgroup memory for blocks of a and b."""
    size = BLOCK * BLOCK_K
    return tuple(
        Buffer(name=name, scope=Scope.WORKGROUP, dtype=DType.F32, size=size)
        for name in ("tile_a", "tile_b")
    )


def _thread_as(over: str, rest: str, by: int, body: Block) -> Let:
    """`over` and `rest` are the thread's number divided by `by`, and what is left."""
    number = IndexValue(index=variable(THREAD))
    divisor = Const(value=by, dtype=DType.I32)
    high = THREADS // by - 1
    for var, op, last in ((rest, BinaryOp.FLOOR_MOD, by - 1), (over, BinaryOp.FLOOR_DIV, high)):
        quotient = Binary(op=op, left=number, right=divisor)
        body = (Let(var=var, value=quotient, low=0, high=last, body=body),)
    (made,) = body
    assert isinstance(made, Let)
    return made


# A product of few blocks: each by one workgroup, or its k split among several and added.

SPLIT_BLOCKS = 16
"""Fewer than a large GPU has cores."""

SPLIT_PARTS = 4
WHOLE = TileLoop(k=1024, groups=SPLIT_BLOCKS)
SPLIT_FLOPS = WHOLE.flops * SPLIT_BLOCKS


def split_k_whole() -> tuple[Program, ...]:
    return (WHOLE.program(),)


def split_k_parts() -> tuple[Program, ...]:
    """Sums of a quarter of k each go to scratch; a second dispatch adds four of them."""
    part = replace(WHOLE, k=WHOLE.k // SPLIT_PARTS, groups=SPLIT_BLOCKS * SPLIT_PARTS)
    size = LANES * THREADS * part.groups
    partial = Buffer(name="partial", scope=Scope.GLOBAL, dtype=DType.F32, size=size)
    first = part.program(into=partial)
    data = first.parameters[0]
    written = sink(THREADS * SPLIT_BLOCKS)
    sums = [vector(f"part{number}") for number in range(SPLIT_PARTS)]
    stride = LANES * THREADS * SPLIT_BLOCKS
    loads = [
        assign(one, load(partial, place(THREADS) + stride * number))
        for number, one in enumerate(sums)
    ]
    body: Block = (*loads, store(written, place(THREADS), sum_of(sums)))
    second = program((data, partial, written), SPLIT_BLOCKS, THREADS, body)
    return (structs.replace(first, parameters=(data, partial, written)), second)


# Sums of rows that several threads share: a tree in workgroup memory, or subgroups.

ROW_THREADS = 64
ROW_SUMS = Workload.of("row_sum", (4096, 4 * ROW_THREADS))
"""A vector of each row for each thread: most of the time goes to adding up what threads have."""

ROW_SUM_TENSORS = tuple(tensor.name for tensor in ROW_SUMS.tensors)
"""The source and the sink."""


def _row_sums(*, radix: int, subgroups: bool) -> tuple[Program, ...]:
    config = WebgpuReductionConfig(
        threads_per_row=ROW_THREADS, block_m=4, vectors=1, radix=radix, subgroups=subgroups
    )
    return (run_gpu_passes(reduction_program(ROW_SUMS, config)),)


# Reads a buffer that is in no cache, each vector once.

STREAM_BYTES = 1 << 27
"""The largest binding that every adapter has; larger than the caches of most."""

STREAM_VECTORS = STREAM_BYTES // (16 * GROUPS * THREADS)
"""Vectors of one thread, a stride of all threads apart: neighbours read neighbours."""


def stream() -> Program:
    data = source(STREAM_BYTES // 4)
    written = sink(GROUPS * THREADS)
    stride = LANES * GROUPS * THREADS
    totals = [vector(f"total{number}") for number in range(STREAM_VECTORS)]
    reads = [
        assign(total, load(data, affine(stride * number, group=LANES * THREADS, thread=LANES)))
        for number, total in enumerate(totals)
    ]
    result = store(written, place(THREADS), sum_of(totals))
    return program((data, written), GROUPS, THREADS, (*reads, result))


def _nothing() -> Program:
    """One workgroup that only writes."""
    data, written = source(LANES), sink(GROUPS * THREADS)
    return program((data, written), 1, THREADS, (store(written, place(THREADS), ZERO),))


# The suite.


@dataclass(frozen=True, slots=True, kw_only=True)
class WebgpuSetting:
    """A WGSL module of ABI 1 with two tensors, source and sink. `work` is that of all its
    dispatches: floating-point operations, or bytes of a stream.
    """

    text: str
    requires: tuple[str, ...]
    dispatches: tuple[Dispatch, ...]
    source_bytes: int
    sink_bytes: int
    scratch_bytes: int
    work: int


def settings() -> dict[str, WebgpuSetting]:
    """By name; a setting may be part of several probes."""
    return {
        "direct": _tile(TileLoop()),
        "staged": _tile(TileLoop(staged=True)),
        "scalar": _tile(TileLoop(vec4=False)),
        "whole": _setting(split_k_whole(), SPLIT_FLOPS),
        "split": _setting(split_k_parts(), SPLIT_FLOPS),
        "packed": _tile(TileLoop(half=True)),
        "native": _tile(TileLoop(half=True), F16Storage.NATIVE, (SHADER_F16,)),
        "levels": _sums(_row_sums(radix=8, subgroups=False)),
        "subgroups": _sums(_row_sums(radix=1, subgroups=True), (SUBGROUPS,)),
        "peak": _setting((sums_of_products(),), CHAIN_FLOPS * THREADS * GROUPS),
        "stream": _setting((stream(),), STREAM_BYTES),
        "nothing": _setting((_nothing(),), 1),
    }


def suite() -> tuple[Probe[str], ...]:
    """Lists probes in the order of the bits of the primitive vector. The bit of a setting that
    requires what a device lacks is 0.

    Margins lie between a tie, as software renderers on busy machines show it, and the H200.
    """
    return (
        Probe(primitive="cache_read", margin=1.3, base="direct", advanced="staged"),
        Probe(primitive="vec4", margin=1.4, base="scalar", advanced="direct"),
        Probe(primitive="split_k", margin=2.0, base="whole", advanced="split"),
        Probe(primitive="native_f16", margin=1.2, base="packed", advanced="native"),
        Probe(primitive="subgroups", margin=1.2, base="levels", advanced="subgroups"),
    )


def _tile(
    loop: TileLoop, storage: F16Storage = F16Storage.PACKED, requires: tuple[str, ...] = ()
) -> WebgpuSetting:
    work = loop.flops * loop.groups
    return _setting((loop.program(),), work, storage=storage, requires=requires)


def _sums(programs: tuple[Program, ...], requires: tuple[str, ...] = ()) -> WebgpuSetting:
    return _setting(programs, ROW_SUMS.flops, requires=requires, tensors=ROW_SUM_TENSORS)


def _setting(
    programs: tuple[Program, ...],
    work: int,
    *,
    storage: F16Storage = F16Storage.PACKED,
    requires: tuple[str, ...] = (),
    tensors: tuple[str, ...] = (SOURCE, SINK),
) -> WebgpuSetting:
    module = print_module(programs, tensors, storage)
    sizes = {b.name: b.dtype.size_bytes * b.size for p in programs for b in p.parameters}
    return WebgpuSetting(
        text=module.text,
        requires=requires,
        dispatches=module.dispatches,
        source_bytes=sizes[tensors[0]],
        sink_bytes=sizes[tensors[-1]],
        scratch_bytes=module.scratch_bytes,
        work=work,
    )
