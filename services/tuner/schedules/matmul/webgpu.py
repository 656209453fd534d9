"""Matrix products for WebGPU: c[batch, m, n] = epilogue(Σ_k a[batch, m, k]·b[batch, k, n]).

One template for matmul, batch_matmul and, as an implicit GEMM, conv2d. Shapes of the blocks, named
by the settings of `WebgpuMatmulConfig`:

    dispatch    batch × split_k × ⌈m/block_m⌉ × ⌈n/block_n⌉ workgroups
    workgroup   c[block_m, block_n], from blocks a[block_m, block_k] and b[block_k, block_n];
                sliced_k × (block_m/tile_m) × (block_n/tile_n) threads, numbered z, y, x
    thread      c[tile_m, tile_n] in registers, from block_k/sliced_k of every block of k
    loop body   unroll_k of k, four of them at a time

    workgroup memory, by the setting `cache`
      rows        block_a[block_m][block_k (+ 4)], block_b[block_k][block_n]
      transposed  block_a[block_k][block_m + 4],   block_b[block_k][block_n]
      none        nothing: threads read a and b from storage

The steps are numbered as they follow one another below. What they make of matmul:f32:m16k16n32 with
16 threads, tiles of 4×8, block_k=16, cache=rows and prefetch=registers:

    sums_0 = vec4<f32>(0.0f);                             // 3  … sums_28: 4 rows of 2 vectors
    next_a_0 = a[a0_row * 8u + a0_step];                  // 6  the first block, into registers
    for (var block = 0u; block < 2u; block++) {
      workgroupBarrier();
      block_a[a0_row * 5u + a0_step] = next_a_0;          // 6  from registers to workgroup memory
      workgroupBarrier();
      if (block < 1u) {
        next_a_0 = a[a0_row * 8u + a0_step + block * 4u + 4u];   // the next block meanwhile
      }
      own_a_0 = block_a[y * 5u];                          // 7  four k of a row of a
      let r1 = block_b[x];                                //    four columns of one k of b
      sums_0 = fma(vec4<f32>(own_a_0.x), r1, sums_0);
    }
    c[x + y * 8u] = sums_0;                               // 9  with the epilogue
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import reduce

from msgspec import structs

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    loop,
    number,
    serial,
    total,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Buffer,
    Expression,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.passes.thread_binding import ThreadBinding, bind_threads
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.finish import stored_product
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.conv.implicit_gemm import (
    ImageWindow,
    operand_names,
    product_extents,
    window_of,
)
from services.tuner.schedules.matmul.webgpu_config import Cache, Prefetch, WebgpuMatmulConfig

SPLIT_K_THREADS = 64
"""Threads to a workgroup of the second dispatch, which adds partial sums."""

LANE = Affine.variable("lane")
BLOCK = Affine.variable("block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """What is computed: `parameters` are the tensors of the workload, in their order."""

    extents: Extents
    parameters: tuple[Buffer, ...]

    def stored(self, at: tuple[Affine, ...], value: Expression) -> Store:
        """What stores the entry at batch, row and column, given the value of its sum."""
        return stored_product(self.extents, self.parameters, at, value)

    def place(self, at: tuple[Affine, ...]) -> Affine:
        """The place of an entry of c, counted in elements."""
        batch, row, column = at
        return batch.times(self.extents.m).plus(row).times(self.extents.n).plus(column)


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = matmul_programs(candidate.workload, WebgpuMatmulConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def matmul_programs(workload: Workload, config: WebgpuMatmulConfig) -> tuple[Program, ...]:
    """One dispatch, and with split_k > 1 a second one that adds the partial sums."""
    extents = product_extents(workload)
    product = Product(extents=extents, parameters=parameters_of(workload))
    held = {buffer.name: buffer for buffer in product.parameters}
    a, b = (held[name] for name in operand_names(workload))
    partial = _partial_sums(extents, config)
    frame = Frame()
    kernel = _Kernel(
        config=config,
        frame=frame,
        # 1. What the workgroup and the thread compute.
        tile=_tile_of(frame, extents, config),
        # 2. How a and b lie in storage.
        a=_Operand(
            buffer=a,
            extent=extents.m,
            k=extents.k,
            k_outer=extents.a_transposed,
            window=window_of(workload, LANES if config.cache is Cache.NONE else config.block_k),
        ),
        b=_Operand(
            buffer=b,
            extent=extents.n,
            k=extents.k,
            k_outer=not extents.b_transposed,
        ),
        # 3. The thread's sums start at zero.
        sums=_local("sums", config.tile_m * config.tile_n),
    )
    zeros = _each_sum(kernel, Store(buffer=kernel.sums, index=_own_sum(), value=number(0)))
    # 4 to 7. The products of all blocks of k are added to them.
    make = _from_storage if config.cache is Cache.NONE else _through_workgroup_memory
    inner = make(kernel)
    # 8. Threads that share a sum add it up (sliced_k), and 9. one of them stores it.
    ending = _sliced_k(kernel, _stores(kernel, product, partial))

    body: Block = (zeros, *inner.body, *ending)
    for buffer in (kernel.sums, *inner.local):
        body = (Allocate(buffer=buffer, body=body),)
    block: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in dict.fromkeys((*inner.workgroup, *_shared_sums(config))):
        block = (Allocate(buffer=buffer, body=block),)
    main = Program(
        parameters=(*product.parameters, *partial),
        body=loop("group", config.workgroups(extents), LoopKind.RANGE, block),
    )
    # 10. A second dispatch adds the sums of workgroups that share k (split_k).
    return (main, *(_split_k(product, config, buffer) for buffer in partial))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know. `frame` has the variables of one thread and collects what it names."""

    config: WebgpuMatmulConfig
    frame: Frame
    tile: "_Tile"
    a: "_Operand"
    b: "_Operand"
    sums: Buffer

    @property
    def blocks(self) -> int:
        """Blocks of k that one workgroup reads."""
        return -(-self.a.k // self.config.block_k) // self.config.split_k


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inner:
    """`body` adds all products to the sums; it needs the buffers."""

    local: tuple[Buffer, ...]
    workgroup: tuple[Buffer, ...]
    body: Block


def _local(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.LOCAL, dtype=DType.F32, size=size)


def _shared(name: str, size: int) -> Buffer:
    return Buffer(name=name, scope=Scope.WORKGROUP, dtype=DType.F32, size=size)


def _affine(constant: int = 0, **coefficients: int) -> Affine:
    return Affine.of(constant, coefficients)


def _own_sum(**first: int) -> Affine:
    """Lane of a vector of sums; vectors are counted by "four"."""
    return _affine(lane=1, four=LANES, **first)


def _each_sum(kernel: _Kernel, store: Store) -> Statement:
    """The store for every vector of the thread's sums."""
    return unrolled("four", kernel.sums.size // LANES, vector("lane", store))


# Step 1: what the workgroup and the thread compute.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tile:
    """The workgroup computes rows from `row` on and columns from `column` on of matrix `batch`,
    over part `split` of k. In it the thread has number `thread`, which is made of `z`, its share of
    each block of k, and of `y` and `x`, its place among `rows` × `columns` tiles."""

    batch: Affine
    split: Affine
    row: Affine
    column: Affine
    thread: Affine
    z: Affine
    y: Affine
    x: Affine
    z_inner: bool
    rows_in_fours: bool
    rows: int
    columns: int

    def row_of(self, i: int) -> Affine:
        """Row i of the thread's tile. Four rows are neighbours where a is read in vectors of rows;
        else rows lie apart, so that threads side by side read rows side by side."""
        if not self.rows_in_fours:
            return total(self.row, self.y, _affine(i * self.rows))
        return self.row.plus(self._in_fours(self.y, i, self.rows))

    def column_of(self, j: int) -> Affine:
        """Column j of the thread's tile: four are neighbours each time."""
        return self.column.plus(self._in_fours(self.x, j, self.columns))

    @staticmethod
    def _in_fours(first: Affine, index: int, step: int) -> Affine:
        group, lane = divmod(index, LANES)
        return first.plus(_affine(group * step)).times(LANES).plus(_affine(lane))

    def thread_among(self, z: Affine, count: int) -> Affine:
        """The number of the thread with this y and x and that `z`, were there `count` of z."""
        tile = self.y.times(self.columns).plus(self.x)
        if self.z_inner:
            return tile.times(count).plus(z)
        return z.times(self.rows * self.columns).plus(tile)


def _tile_of(frame: Frame, extents: Extents, config: WebgpuMatmulConfig) -> _Tile:
    batches, rows, columns = config.blocks(extents)
    group = frame.variable("group", config.workgroups(extents))
    # Workgroups that run at the same time take `group_m` rows of blocks and read the same columns
    # of b, which the second-level cache holds.
    batch, split, panel, column, row = frame.delinearize(
        group,
        (
            ("batch", batches),
            ("part", config.split_k),
            ("panel", rows // config.group_m),
            ("column", columns),
            ("row", config.group_m),
        ),
    )
    thread = frame.variable("thread", config.threads)
    # Threads side by side read neighbours of b in memory: columns, or k where b is transposed and
    # read from storage.
    z_inner = extents.b_transposed and config.cache is Cache.NONE
    slices, tiles = (
        ("z", config.sliced_k),
        (("y", config.thread_rows), ("x", config.thread_columns)),
    )
    if z_inner:
        y, x, z = frame.delinearize(thread, (*tiles, slices))
    else:
        z, y, x = frame.delinearize(thread, (slices, *tiles))
    in_fours = (
        extents.a_transposed if config.cache is Cache.NONE else config.cache is Cache.TRANSPOSED
    )
    return _Tile(
        batch=batch,
        split=split,
        row=panel.times(config.group_m).plus(row).times(config.block_m),
        column=column.times(config.block_n),
        thread=thread,
        z=z,
        y=y,
        x=x,
        z_inner=z_inner,
        rows_in_fours=in_fours,
        rows=config.thread_rows,
        columns=config.thread_columns,
    )


# Step 2: how a and b lie in storage, and how four neighbours of them are read.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operand:
    """A matrix of `extent` rows or columns and k, for each of the batch.

    It lies as [k, extent] where `k_outer`, else as [extent, k]. Where there is a `window`, it is
    the matrix of an implicit GEMM, whose rows are gathered from images.
    """

    buffer: Buffer
    extent: int
    k: int
    k_outer: bool
    window: ImageWindow | None = None

    @property
    def inner(self) -> int:
        """Length of the axis along which neighbours lie."""
        if self.window is not None:
            return self.window.channels
        return self.extent if self.k_outer else self.k

    @property
    def in_vectors(self) -> bool:
        """Whether four neighbours are always one aligned vector."""
        return self.inner % LANES == 0

    def at(self, batch: Affine, place: Affine, k: Affine) -> Load:
        within = k.times(self.extent).plus(place) if self.k_outer else place.times(self.k).plus(k)
        return Load(buffer=self.buffer, index=batch.times(self.extent * self.k).plus(within))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quad:
    """Four neighbours of an operand: `places` are rows or columns, one for all four or one each;
    `k` counts from the start of a block. They are kept from element `slot` of a local buffer on.
    In an implicit GEMM the places are image, row and column of one pixel of the output."""

    operand: _Operand
    places: tuple[Affine, ...]
    k: Affine
    slot: int


def _quad(frame: Frame, name: str, operand: _Operand, place: Affine, k: Affine, slot: int) -> _Quad:
    """Rows and columns outside of a matrix are computed and never stored: instead of a condition,
    the last one inside is read for them. `name` is for what the frame has to name."""
    places: tuple[Affine, ...]
    if operand.window is not None:
        inside = frame.clamped(name, place, operand.extent, 1)
        places = operand.window.pixel(frame, name, inside)
    elif not operand.k_outer:
        places = (frame.clamped(name, place, operand.extent, 1),)
    elif operand.in_vectors:
        places = (frame.clamped(name, place, operand.extent, LANES),)
    else:
        places = tuple(
            frame.clamped(f"{name}.{lane}", place.plus(_affine(lane)), operand.extent, 1)
            for lane in range(LANES)
        )
    return _Quad(operand=operand, places=places, k=k, slot=slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What a thread reads of a block at once, into a local buffer, where the bounds hold."""

    quads: tuple[_Quad, ...]
    into: Buffer
    bounds: tuple[Bound, ...] = ()


def _read(kernel: _Kernel, read: _Read, start: Affine, *, tail: bool) -> Block:
    """The read in the block of k at `start`; in the `tail`, zeros behind the end of k."""
    window = read.quads[0].operand.window
    if window is not None:
        return under(read.bounds, _gathered(kernel.frame, window, read, start, tail=tail))
    body: list[Statement] = []
    for quad in read.quads:
        for index, load, k, lanes in _loads(kernel, quad, start):
            stores = [Store(buffer=read.into, index=index, value=v) for v in (load, number(0))]
            found, zero = (vector("lane", one) if lanes > 1 else one for one in stores)
            # k is a multiple of four where a vector lies along it, so a vector ends with k or
            # before it.
            cut = tail and kernel.frame.upper_bound(k) >= quad.operand.k
            limit = (Bound(index=k, limit=quad.operand.k),) if cut else ()
            body += under(limit, (found,), (zero,))
    return under(read.bounds, tuple(body))


def _loads(
    kernel: _Kernel, quad: _Quad, start: Affine
) -> Iterator[tuple[Affine, Load, Affine, int]]:
    """Where it is kept, the load, its k and its lanes: one vector, or four single elements."""
    operand, k, batch = quad.operand, start.plus(quad.k), kernel.tile.batch
    if operand.in_vectors:
        along = (LANE, ZERO) if operand.k_outer else (ZERO, LANE)
        load = operand.at(batch, quad.places[0].plus(along[0]), k.plus(along[1]))
        yield LANE.plus(_affine(quad.slot)), load, k, LANES
        return
    for lane in range(LANES):
        place = quad.places[lane % len(quad.places)]
        here = k if operand.k_outer else k.plus(_affine(lane))
        yield _affine(quad.slot + lane), operand.at(batch, place, here), here, 1


def _gathered(
    frame: Frame, window: ImageWindow, read: _Read, start: Affine, *, tail: bool
) -> Block:
    """The same of an implicit GEMM: pixels outside of the image are zero. Quads at one k are at the
    same tap of their windows, which is named once."""
    inside = frame.nested()
    taps: dict[Affine, tuple[Affine, ...]] = {}
    found: Block = ()
    for quad in read.quads:
        lanes = (0,) if quad.operand.in_vectors else range(LANES)
        for lane in lanes:
            k = quad.k.plus(_affine(lane))
            if k not in taps:
                name = f"{quad.operand.buffer.name}.tap{len(taps)}"
                taps[k] = window.tap(inside, name, start, k)
            end = (Bound(index=start.plus(k), limit=quad.operand.k),) if tail else ()
            bounds = inside.undecided((*end, *window.bounds(quad.places, taps[k])))
            found += under(
                bounds,
                (_kept(window.element(quad.places, taps[k]), quad, lane, read.into),),
                (_kept(None, quad, lane, read.into),) if bounds else (),
            )
    return inside.enclose(found)


def _kept(element: Affine | None, quad: _Quad, lane: int, into: Buffer) -> Statement:
    """An element of the images, or zero, with its three neighbours where they are read together."""
    whole = quad.operand.in_vectors
    along = LANE if whole else ZERO
    value: Expression = number(0)
    if element is not None:
        value = Load(buffer=quad.operand.buffer, index=element.plus(along))
    store = Store(buffer=into, index=along.plus(_affine(quad.slot + lane)), value=value)
    return vector("lane", store) if whole else store


# Step 4: which blocks of k the workgroup reads.


def _read_block(
    kernel: _Kernel, reads: tuple[_Read, ...], block: Affine, blocks: int, within: Affine = ZERO
) -> Block:
    """The reads in the workgroup's block number `block`, a form of the variable "block", which
    counts `blocks` there. Reads are `within` elements behind the start of the block.

    The last block may end behind k: it is read by a copy of the code with zeros there, so that no
    load of the others has a condition.
    """
    config, frame, k = kernel.config, kernel.frame, kernel.a.k
    count = kernel.tile.split.times(kernel.blocks).plus(block)
    frame.ranges["block"] = (0, blocks - 1)
    low, high = count.bounds(frame.ranges)
    whole = k // config.block_k

    def at(start: Affine, *, tail: bool) -> Block:
        here = start.plus(within)
        return tuple(s for read in reads for s in _read(kernel, read, here, tail=tail))

    start = count.times(config.block_k)
    if high < whole:
        return at(start, tail=False)
    gathers = kernel.a.window is not None and not kernel.a.in_vectors
    if gathers and low < whole:
        # Single elements of windows have conditions anyway, and are not worth a second copy.
        return at(start, tail=True)
    tail = at(_affine(whole * config.block_k), tail=True)
    if low >= whole:
        return tail
    return under((Bound(index=count, limit=whole),), at(start, tail=False), tail)


# Step 5 (cache=none): every thread reads its rows of a and columns of b from storage.


def _from_storage(kernel: _Kernel) -> _Inner:
    """A thread has `unroll_k` of every block of k, which is sliced_k × unroll_k long."""
    config, tile, frame = kernel.config, kernel.tile, kernel.frame
    own_a = _local("own_a", LANES * config.tile_m)
    own_b = _local("own_b", LANES * config.tile_n)
    rows = [tile.row_of(i) for i in range(config.tile_m)]
    columns = [tile.column_of(j) for j in range(config.tile_n)]
    reads = (
        _Read(quads=_own_quads(frame, kernel.a, rows), into=own_a),
        _Read(quads=_own_quads(frame, kernel.b, columns), into=own_b),
    )
    frame.ranges["k4"] = (0, config.unroll_k // LANES - 1)
    within = tile.z.times(config.unroll_k).plus(_affine(k4=LANES))
    products = _products(
        kernel,
        a=Load(buffer=own_a, index=_own_index(kernel.a, _affine(i=1), config.tile_m)),
        b=Load(buffer=own_b, index=_own_index(kernel.b, _affine(j=LANES, lane=1), config.tile_n)),
        before_four_k=_read_block(kernel, reads, BLOCK, kernel.blocks, within),
    )
    return _Inner(local=(own_a, own_b), workgroup=(), body=serial("block", kernel.blocks, products))


def _own_quads(frame: Frame, operand: _Operand, places: list[Affine]) -> tuple[_Quad, ...]:
    """Four k of every row or column of the thread's tile, kept as `_own_index` says."""
    name = f"{operand.buffer.name}.own"
    if not operand.k_outer:
        return tuple(
            _quad(frame, f"{name}{n}", operand, place, ZERO, LANES * n)
            for n, place in enumerate(places)
        )
    firsts = [
        _quad(frame, f"{name}{n}", operand, places[n], ZERO, n)
        for n in range(0, len(places), LANES)
    ]
    return tuple(
        replace(first, k=_affine(q), slot=q * len(places) + first.slot)
        for q in range(LANES)
        for first in firsts
    )


def _own_index(operand: _Operand, element: Affine, count: int) -> Affine:
    """Where element `element` of the tile's `count` rows or columns is at k = q."""
    if operand.k_outer:
        return element.plus(_affine(q=count))
    return element.times(LANES).plus(_affine(q=1))


# Step 6 (cache=rows and transposed): threads copy blocks into workgroup memory together.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """A block of an operand in workgroup memory: `length` rows or columns from `first` on × `k`.

    It lies from element `base` of `memory` on, as [k][place] where `k_outer`, else as [place][k],
    with rows `stride` elements apart. With prefetch=blocks there are two, `half` elements apart.
    Its `registers` are what a thread copies of it.
    """

    operand: _Operand
    first: Affine
    length: int
    k: int
    k_outer: bool
    stride: int
    half: int
    base: int
    memory: Buffer
    registers: Buffer

    @property
    def transposes(self) -> bool:
        """Whether it lies the other way than the operand in storage."""
        return self.k_outer is not self.operand.k_outer

    def start(self, half: Affine) -> Affine:
        """In `memory`, of half 0 or 1."""
        return half.times(self.half).plus(_affine(self.base))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """What one thread copies at a time: a quad, or where the block is transposed on its way, four
    quads of four rows, of which the four elements of each k become neighbours.

    `stores` are from registers to workgroup memory, lane by "lane".
    """

    read: _Read
    stores: tuple[Store, ...]


def _through_workgroup_memory(kernel: _Kernel) -> _Inner:
    """All threads read a block of k into registers and write it to workgroup memory, each its
    share. `prefetch` tells in which order that and the products follow one another."""
    config, count = kernel.config, kernel.blocks
    staged_a, staged_b = _staged_operands(kernel)
    shares = [(staged, _copies(kernel, staged)) for staged in (staged_a, staged_b)]
    reads = tuple(copy.read for _, copies in shares for copy in copies)
    own_a = _local("own_a", (LANES if config.cache is Cache.ROWS else 1) * config.tile_m)

    def written(half: Affine) -> Block:
        return tuple(s for staged, copies in shares for s in _written(staged, copies, half))

    def products(half: Affine) -> Block:
        return _products_of_block(kernel, staged_a, staged_b, half, own_a)

    def unless_last(body: Block) -> Block:
        return under((Bound(index=BLOCK, limit=count - 1),), body)

    def read_next() -> Block:
        if count == 1:
            return ()
        return unless_last(_read_block(kernel, reads, BLOCK.plus(_affine(1)), count - 1))

    match config.prefetch:
        case Prefetch.NONE:
            # A barrier before workgroup memory is overwritten, and one before it is read.
            this = _read_block(kernel, reads, BLOCK, count)
            steps = (*this, Barrier(), *written(ZERO), Barrier(), *products(ZERO))
            body = serial("block", count, steps)
        case Prefetch.REGISTERS:
            # The next block is on its way to registers while this one is multiplied.
            copied = (Barrier(), *written(ZERO), Barrier())
            steps = (*copied, *read_next(), *products(ZERO))
            first = _read_block(kernel, reads, ZERO, count)
            body = (*first, *serial("block", count, steps))
        case Prefetch.BLOCKS:
            # Double buffering: what is written is not what is read, so one barrier is enough.
            inside = Frame(ranges={"block": (0, count - 1)})
            this_half = inside.parity("this", BLOCK)
            other_half = inside.parity("other", BLOCK.plus(_affine(1)))
            steps = (
                *read_next(),
                *products(this_half),
                *(unless_last(written(other_half)) if count > 1 else ()),
                Barrier(),
            )
            ahead = (*_read_block(kernel, reads, ZERO, count), *written(ZERO), Barrier())
            body = (*ahead, *serial("block", count, inside.enclose(steps)))
    return _Inner(
        local=(own_a, staged_a.registers, staged_b.registers),
        workgroup=(staged_a.memory, staged_b.memory),
        body=body,
    )


def _staged_operands(kernel: _Kernel) -> tuple[_Staged, _Staged]:
    """Each has workgroup memory of its own; with sliced_k both lie in that of the sums, which are
    written when no block is needed any more."""
    config, tile = kernel.config, kernel.tile
    k_outer = config.cache is Cache.TRANSPOSED
    a = _staged(config, kernel.a, tile.row, config.block_m, k_outer, config.a_stride)
    b = _staged(config, kernel.b, tile.column, config.block_n, True, config.block_n)
    for memory in _shared_sums(config):
        b = replace(b, memory=memory, base=a.memory.size)
        a = replace(a, memory=memory)
    return a, b


def _staged(
    config: WebgpuMatmulConfig,
    operand: _Operand,
    first: Affine,
    length: int,
    k_outer: bool,
    stride: int,
) -> _Staged:
    halves = 2 if config.prefetch is Prefetch.BLOCKS else 1
    rows = config.block_k if k_outer else length
    copied = LANES * LANES if k_outer is not operand.k_outer else LANES
    copies = -(-length * config.block_k // (copied * config.threads))
    name = operand.buffer.name
    return _Staged(
        operand=operand,
        first=first,
        length=length,
        k=config.block_k,
        k_outer=k_outer,
        stride=stride,
        half=rows * stride,
        base=0,
        memory=_shared(f"block_{name}", halves * rows * stride),
        registers=_local(f"next_{name}", copies * copied),
    )


def _copies(kernel: _Kernel, staged: _Staged) -> tuple[_Copy, ...]:
    """The thread's share of a block: threads side by side copy what lies side by side in storage.

    A copy is number `step` of row `row` of the block as storage has it, or of four of its rows.
    """
    frame, thread, threads = kernel.frame, kernel.tile.thread, kernel.config.threads
    outer, inner = staged.length, staged.k
    if staged.operand.k_outer:
        outer, inner = inner, outer
    rows, steps = outer // LANES if staged.transposes else outer, inner // LANES
    found = []
    row = step = ZERO
    for count in range(-(-rows * steps // threads)):
        place = thread.plus(_affine(count * threads))
        name = f"{staged.operand.buffer.name}{count}"
        if count and not threads % steps:
            row = row.plus(_affine(threads // steps))
        else:
            row, step = frame.delinearize(place, ((f"{name}.row", rows), (f"{name}.step", steps)))
        copy = _transposed_copy if staged.transposes else _plain_copy
        quads, stores = copy(frame, staged, name, row, step.times(LANES), count)
        beyond = (count + 1) * threads > rows * steps
        bounds = (Bound(index=place, limit=rows * steps),) if beyond else ()
        read = _Read(quads=quads, into=staged.registers, bounds=bounds)
        found.append(_Copy(read=read, stores=stores))
    return tuple(found)


def _plain_copy(
    frame: Frame, staged: _Staged, name: str, row: Affine, inner: Affine, count: int
) -> tuple[tuple[_Quad, ...], tuple[Store, ...]]:
    """registers[4·count + lane] = storage[row][inner + lane];
    memory[row][inner + lane] = registers[4·count + lane]."""
    place, k = (inner, row) if staged.operand.k_outer else (row, inner)
    at, slot = staged.first.plus(place), LANES * count
    kept = Load(buffer=staged.registers, index=LANE.plus(_affine(slot)))
    here = total(row.times(staged.stride), inner, LANE)
    quad = _quad(frame, f"{name}.at", staged.operand, at, k, slot)
    return (quad,), (Store(buffer=staged.memory, index=here, value=kept),)


def _transposed_copy(
    frame: Frame, staged: _Staged, name: str, row: Affine, inner: Affine, count: int
) -> tuple[tuple[_Quad, ...], tuple[Store, ...]]:
    """A square of 4×4, read along its rows and written along its columns:
    registers[16·count + 4·n + lane] = storage[4·row + n][inner + lane];
    memory[inner + n][4·row + lane] = registers[16·count + 4·lane + n]."""
    first, slot = row.times(LANES), LANES * LANES * count
    quads: list[_Quad] = []
    stores: list[Store] = []
    for n in range(LANES):
        at = total(staged.first, first, _affine(n))
        quads.append(_quad(frame, f"{name}.at{n}", staged.operand, at, inner, slot + LANES * n))
        kept = Load(buffer=staged.registers, index=LANE.times(LANES).plus(_affine(slot + n)))
        here = total(inner.plus(_affine(n)).times(staged.stride), first, LANE)
        stores.append(Store(buffer=staged.memory, index=here, value=kept))
    return tuple(quads), tuple(stores)


def _written(staged: _Staged, copies: tuple[_Copy, ...], half: Affine) -> Block:
    """The thread's share of a block, from registers to a half of workgroup memory."""
    start = staged.start(half)
    return tuple(
        statement
        for copy in copies
        for statement in under(
            copy.read.bounds,
            tuple(
                vector("lane", structs.replace(store, index=store.index.plus(start)))
                for store in copy.stores
            ),
        )
    )


def _products_of_block(
    kernel: _Kernel, staged_a: _Staged, staged_b: _Staged, half: Affine, own_a: Buffer
) -> Block:
    """Adds products of the thread's share of the block in a half of memory, from z·slice_k on.

    Four k of each row of a are one vector there (cache=rows), or one k of four rows (transposed).
    """
    config, tile = kernel.config, kernel.tile
    k = total(tile.z.times(config.slice_k), _affine(k2=config.unroll_k, k4=LANES))
    one_k = k.plus(_affine(q=1))
    column = tile.x.plus(_affine(j=tile.columns)).times(LANES)
    b = total(staged_b.start(half), one_k.times(staged_b.stride), column, LANE)
    load_b = Load(buffer=staged_b.memory, index=b)
    if config.cache is Cache.ROWS:
        row = tile.y.plus(_affine(i=tile.rows))
        there = total(staged_a.start(half), row.times(staged_a.stride), k, LANE)
        kept = Load(buffer=staged_a.memory, index=there)
        copy = Store(buffer=own_a, index=_affine(i=LANES, lane=1), value=kept)
        body = _products(
            kernel,
            a=Load(buffer=own_a, index=_affine(i=LANES, q=1)),
            b=load_b,
            before_four_k=(unrolled("i", config.tile_m, vector("lane", copy)),),
        )
    else:
        row = tile.y.plus(_affine(g=tile.rows)).times(LANES)
        there = total(staged_a.start(half), one_k.times(staged_a.stride), row, LANE)
        kept = Load(buffer=staged_a.memory, index=there)
        copy = Store(buffer=own_a, index=_affine(g=LANES, lane=1), value=kept)
        body = _products(
            kernel,
            a=Load(buffer=own_a, index=_affine(i=1)),
            b=load_b,
            before_each_k=(unrolled("g", config.tile_m // LANES, vector("lane", copy)),),
        )
    return serial("k2", config.slice_k // config.unroll_k, body)


# Step 7: the products of a tile.


def _products(
    kernel: _Kernel, a: Load, b: Load, before_four_k: Block = (), before_each_k: Block = ()
) -> Block:
    """sums[i, 4j + lane] += a[i]·b[4j + lane] for unroll_k of k, which is 4·k4 + q.

    Rows are outside of columns, as for wasm.
    """
    config, sums = kernel.config, kernel.sums
    here = _affine(i=config.tile_n, j=LANES, lane=1)
    product = binary(BinaryOp.MUL, a, b)
    value = binary(BinaryOp.ADD, Load(buffer=sums, index=here), product)
    add = vector("lane", Store(buffer=sums, index=here, value=value))
    row = unrolled("j", config.tile_n // LANES, add)
    each = unrolled("q", LANES, *before_each_k, unrolled("i", config.tile_m, row))
    return (unrolled("k4", config.unroll_k // LANES, *before_four_k, each),)


# Step 8 (sliced_k > 1): threads that share the sums of a tile add them up in workgroup memory.


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Threads with z from `middle` up to `last` keep their sums, in slots from 0 on. Each of those
    below adds the sums of every `middle`-th slot, from that of its own z on."""

    middle: int
    last: int

    @property
    def kept(self) -> int:
        return self.last - self.middle


def rounds(sliced_k: int, slots: int) -> Iterator[Round]:
    """Until z = 0 has all sums. One round is the fastest, since rounds wait for barriers, but
    workgroup memory may have too few slots for it."""
    left = sliced_k
    while left > 1:
        middle = max(1, left - slots)
        yield Round(middle=middle, last=left)
        left = middle


def _shared_sums(config: WebgpuMatmulConfig) -> tuple[Buffer, ...]:
    """Workgroup memory of the sums of other threads, and before that of blocks of a and b."""
    if config.sliced_k == 1:
        return ()
    return (_shared("layers", config.workgroup_bytes // DType.F32.size_bytes),)


def _sliced_k(kernel: _Kernel, stores: Block) -> Block:
    """The stores, by the threads that have whole sums: all of them where sums are not shared."""
    config, z = kernel.config, kernel.tile.z
    memory = _shared_sums(config)
    if not memory:
        return stores
    found: Block = ()
    # Double buffering ends with a barrier: nobody reads blocks any more.
    still_read = config.cache is not Cache.NONE and config.prefetch is not Prefetch.BLOCKS
    for each in rounds(config.sliced_k, config.sum_slots):
        before = (Barrier(),) if still_read else ()
        lower = Bound(index=z.times(-1), limit=1 - each.middle)
        upper = Bound(index=z, limit=each.last)
        above = (lower, upper) if each.last < config.sliced_k else (lower,)
        kept = under(above, _keep_sums(kernel, memory[0], each))
        below = (Bound(index=z, limit=min(each.middle, each.kept)),)
        last = stores if each.middle == 1 else ()
        added = under(below, (*_add_sums(kernel, memory[0], each), *last))
        found = (*found, *before, *kept, Barrier(), *added)
        still_read = True
    return found


def _keep_sums(kernel: _Kernel, memory: Buffer, each: Round) -> Block:
    slot = kernel.tile.z.plus(_affine(-each.middle))
    own = Load(buffer=kernel.sums, index=_own_sum())
    return (_each_sum(kernel, Store(buffer=memory, index=_slot(kernel, slot), value=own)),)


def _add_sums(kernel: _Kernel, memory: Buffer, each: Round) -> Block:
    slot = kernel.tile.z.plus(_affine(above=each.middle))
    own = Load(buffer=kernel.sums, index=_own_sum())
    other = Load(buffer=memory, index=_slot(kernel, slot))
    store = Store(buffer=kernel.sums, index=own.index, value=binary(BinaryOp.ADD, own, other))
    exists = each.kept <= each.middle or each.kept % each.middle == 0
    inside = () if exists else (Bound(index=slot, limit=each.kept),)
    body = under(inside, (_each_sum(kernel, store),))
    return serial("above", -(-each.kept // each.middle), body)


def _slot(kernel: _Kernel, slot: Affine) -> Affine:
    """Where vectors of the sums lie in a slot; those of threads side by side are neighbours."""
    slots, tile = kernel.config.sum_slots, kernel.tile
    first = _affine(four=slots * tile.rows * tile.columns)
    return first.plus(tile.thread_among(slot, slots)).times(LANES).plus(LANE)


# Step 9: the entries of the thread's tile that exist, with the epilogue, or the partial sums.


def _stores(kernel: _Kernel, product: Product, partial: tuple[Buffer, ...]) -> Block:
    """Only blocks at an edge have conditions."""
    config, tile, frame, extents = kernel.config, kernel.tile, kernel.frame, product.extents
    found: list[Statement] = []
    for i in range(config.tile_m):
        row = tile.row_of(i)
        columns: list[Statement] = []
        for j in range(0, config.tile_n, LANES):
            column = tile.column_of(j)
            at = (tile.batch, row, column.plus(LANE))
            value = Load(buffer=kernel.sums, index=LANE.plus(_affine(i * config.tile_n + j)))
            if partial:
                entries = extents.m * extents.n * max(1, extents.batch)
                here = tile.split.times(entries).plus(product.place(at))
                store = Store(buffer=partial[0], index=here, value=value)
            else:
                store = product.stored(at, value)
            columns += _columns_inside(frame, column, extents.n, store)
        bounds = [Bound(index=row, limit=extents.m)] if frame.upper_bound(row) >= extents.m else []
        found += under(bounds, tuple(columns))
    return tuple(found)


def _columns_inside(frame: Frame, column: Affine, n: int, store: Store) -> Block:
    """Four neighbours of a row, as far as they are columns: all or none where n % 4 is 0."""
    if frame.upper_bound(column) + LANES <= n:
        return (vector("lane", store),)
    if n % LANES == 0:
        return under((Bound(index=column, limit=n),), (vector("lane", store),))
    edge = Bound(index=column.plus(LANE), limit=n)
    return (vector("lane", *under((edge,), (store,))),)


# Step 10 (split_k > 1): a second dispatch, a thread for each entry of c.


def _partial_sums(extents: Extents, config: WebgpuMatmulConfig) -> tuple[Buffer, ...]:
    """partial[split_k, batch, m, n] in scratch memory."""
    if config.split_k == 1:
        return ()
    size = config.scratch_bytes(extents) // DType.F32.size_bytes
    return (Buffer(name="partial", scope=Scope.GLOBAL, dtype=DType.F32, size=size),)


def _split_k(product: Product, config: WebgpuMatmulConfig, partial: Buffer) -> Program:
    """c[entry] = epilogue(Σ_part partial[part, entry])."""
    extents = product.extents
    axes = {"batch": max(1, extents.batch), "m": extents.m, "n": extents.n}
    at = tuple(Affine.variable(name) if size > 1 else ZERO for name, size in axes.items())
    entry, entries = product.place(at), axes["batch"] * extents.m * extents.n
    parts: list[Expression] = [
        Load(buffer=partial, index=entry.plus(_affine(part * entries)))
        for part in range(config.split_k)
    ]
    value = reduce(lambda left, right: binary(BinaryOp.ADD, left, right), parts)
    block: Block = (product.stored(at, value),)
    for name, size in reversed(axes.items()):
        if size > 1:
            block = (loop(name, size, LoopKind.SERIAL, block),)
    whole = Program(
        parameters=(*product.parameters, partial), body=loop("whole", 1, LoopKind.RANGE, block)
    )
    return bind_threads(whole, ThreadBinding(count=SPLIT_K_THREADS, vectors=1, vec4=True))
