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
from operator import add

from msgspec import structs

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.finish import stored_product
from services.tuner.schedules.base.implicit_gemm import (
    ImageWindow,
    operand_names,
    product_extents,
    window_of,
)
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.base.split_k import added_up
from services.tuner.schedules.base.webgpu_config import Cache
from services.tuner.schedules.matmul.webgpu_config import Prefetch, WebgpuMatmulConfig

LANE = ir.variable("lane")
BLOCK = ir.variable("block")


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """A product that is computed: `parameters` are the tensors of the workload, in their order.
    Elements of matrices are of `dtype`, and so are sums. Where `row_sums` are wanted, they are
    taken away from the entries of their row."""

    extents: Extents
    parameters: tuple[ir.Buffer, ...]
    dtype: DType = DType.F32
    row_sums: "RowSums | None" = None

    def term(self, a: ir.Expression, b: ir.Expression) -> ir.Expression:
        """Returns what an element of a and one of b add to a sum."""
        return a * b

    def stored(self, at: tuple[ir.Affine, ...], value: ir.Expression) -> ir.Store:
        """Stores the entry at batch, row and column, given the value of its sum."""
        return stored_product(self.extents, self.parameters, at, value)

    def place(self, at: tuple[ir.Affine, ...]) -> ir.Affine:
        """The place of an entry of c, counted in elements."""
        batch, row, column = at
        return (batch * self.extents.m + row) * self.extents.n + column


@dataclass(frozen=True, slots=True, kw_only=True)
class RowSums:
    """A thread sums the `term` that each element of its rows of a makes with itself alone, that is
    with `other` in the place of an element of b, and takes `factor` times the sum away."""

    other: int
    factor: int


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = matmul_programs(candidate.workload, WebgpuMatmulConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def matmul_programs(workload: Workload, config: WebgpuMatmulConfig) -> tuple[ir.Program, ...]:
    """One dispatch, and with split_k > 1 a second one that adds the partial sums."""
    extents = product_extents(workload)
    product = Product(extents=extents, parameters=parameters_of(workload))
    held = {buffer.name: buffer for buffer in product.parameters}
    a, b = (held[name] for name in operand_names(workload))
    # 2. How a and b lie in storage.
    operand_a = Operand(
        buffer=a,
        extent=extents.m,
        k=extents.k,
        k_outer=extents.a_transposed,
        window=window_of(workload, ir.LANES if config.cache is Cache.NONE else config.block_k),
    )
    operand_b = Operand(buffer=b, extent=extents.n, k=extents.k, k_outer=not extents.b_transposed)
    return product_programs(product, operand_a, operand_b, config)


def product_programs(
    product: Product, a: "Operand", b: "Operand", config: WebgpuMatmulConfig
) -> tuple[ir.Program, ...]:
    """The dispatches of a product of two matrices that lie in storage as the operands say."""
    partial = _partial_sums(product, config)
    frame = ir.Frame()
    kernel = _MatmulKernel(
        config=config,
        product=product,
        frame=frame,
        # 1. What the workgroup and the thread compute.
        tile=_tile_of(frame, product.extents, config),
        a=a,
        b=b,
        # 3. The thread's sums start at zero.
        sums=ir.local("sums", config.tile_m * config.tile_n, product.dtype),
    )
    zeros = _each_sum(kernel, kernel.sums.store(_own_sum(), 0))
    row_sums = _row_sums(kernel)
    nothing = tuple(each.store(row, 0) for each in row_sums for row in range(config.tile_m))
    # 4 to 7. The products of all blocks of k are added to them.
    make = _from_storage if config.cache is Cache.NONE else _through_workgroup_memory
    inner = make(kernel)
    # 8. Threads that share a sum add it up (sliced_k), and 9. one of them stores it.
    ending = _sliced_k(kernel, _stores(kernel, product, partial))

    body: ir.Block = (zeros, *nothing, *inner.body, *_less_row_sums(kernel), *ending)
    main = frame.dispatch(
        (*product.parameters, *partial),
        (config.workgroups(product.extents), config.threads),
        body,
        local=(kernel.sums, *row_sums, *inner.local),
        # With sliced_k, blocks of a and b lie in the memory of the sums, which is one buffer.
        shared=dict.fromkeys((*inner.workgroup, *_shared_sums(kernel))),
    )
    # 10. A second dispatch adds the sums of workgroups that share k (split_k).
    return (main, *(_split_k(product, config, buffer) for buffer in partial))


@dataclass(frozen=True, slots=True, kw_only=True)
class _MatmulKernel:
    """All steps know these. `frame` has the variables of one thread and collects what it names."""

    config: WebgpuMatmulConfig
    product: Product
    frame: ir.Frame
    tile: "_Tile"
    a: "Operand"
    b: "Operand"
    sums: ir.Buffer

    @property
    def blocks(self) -> int:
        """Blocks of k that one workgroup reads."""
        return -(-self.a.k // self.config.block_k) // self.config.split_k


@dataclass(frozen=True, slots=True, kw_only=True)
class _Inner:
    """`body` adds all products to the sums; it needs the buffers."""

    local: tuple[ir.Buffer, ...]
    workgroup: tuple[ir.Buffer, ...]
    body: ir.Block


def _own_sum(**first: int) -> ir.Affine:
    """Lane of a vector of sums; vectors are counted by "four"."""
    return ir.affine(lane=1, four=ir.LANES, **first)


def _each_sum(kernel: _MatmulKernel, store: ir.Store) -> ir.Statement:
    """The store for every vector of the thread's sums."""
    return ir.unrolled("four", kernel.sums.size // ir.LANES, ir.vector("lane", store))


# Step 1: what the workgroup and the thread compute.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tile:
    """The workgroup computes rows from `row` on and columns from `column` on of matrix `batch`,
    over part `split` of k. In it the thread has number `thread`, which is made of `z`, its share of
    each block of k, and of `y` and `x`, its place among `rows` × `columns` tiles."""

    batch: ir.Affine
    split: ir.Affine
    row: ir.Affine
    column: ir.Affine
    thread: ir.Affine
    z: ir.Affine
    y: ir.Affine
    x: ir.Affine
    z_inner: bool
    rows_in_fours: bool
    rows: int
    columns: int

    def row_of(self, i: int) -> ir.Affine:
        """Row i of the thread's tile. Four rows are neighbours where a is read in vectors of rows;
        else rows lie apart, so that threads side by side read rows side by side."""
        if not self.rows_in_fours:
            return self.row + self.y + i * self.rows
        return self.row + self._in_fours(self.y, i, self.rows)

    def column_of(self, j: int) -> ir.Affine:
        """Column j of the thread's tile: four are neighbours each time."""
        return self.column + self._in_fours(self.x, j, self.columns)

    @staticmethod
    def _in_fours(first: ir.Affine, index: int, step: int) -> ir.Affine:
        group, lane = divmod(index, ir.LANES)
        return (first + group * step) * ir.LANES + lane

    def thread_among(self, z: ir.Affine, count: int) -> ir.Affine:
        """The number of the thread with this y and x and that `z`, were there `count` of z."""
        tile = self.y * self.columns + self.x
        if self.z_inner:
            return tile * count + z
        return z * (self.rows * self.columns) + tile


def _tile_of(frame: ir.Frame, extents: Extents, config: WebgpuMatmulConfig) -> _Tile:
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
        row=(panel * config.group_m + row) * config.block_m,
        column=column * config.block_n,
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
class Operand:
    """A matrix of `extent` rows or columns and k, for each of the batch.

    It lies as [k, extent] where `k_outer`, else as [extent, k]. Where there is a `window`, it is
    the matrix of an implicit GEMM, whose rows are gathered from images. Bits of its elements that
    are set in `flipped` are turned as they are read; what is behind the end of k is 0 all the same.
    """

    buffer: ir.Buffer
    extent: int
    k: int
    k_outer: bool
    window: ImageWindow | None = None
    flipped: int = 0

    @property
    def inner(self) -> int:
        """Length of the axis along which neighbours lie."""
        if self.window is not None:
            return self.window.channels
        return self.extent if self.k_outer else self.k

    @property
    def in_vectors(self) -> bool:
        """True if four neighbours are always one aligned vector."""
        return self.inner % ir.LANES == 0

    def at(self, batch: ir.Affine, place: ir.Affine, k: ir.Affine) -> ir.Load:
        within = k * self.extent + place if self.k_outer else place * self.k + k
        return self.buffer[batch * (self.extent * self.k) + within]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quad:
    """Four neighbours of an operand: `places` are rows or columns, one for all four or one each;
    `k` counts from the start of a block. They are kept from element `slot` of a local buffer on.
    In an implicit GEMM the places are image, row and column of one pixel of the output."""

    operand: Operand
    places: tuple[ir.Affine, ...]
    k: ir.Affine
    slot: int


def _quad(
    frame: ir.Frame, name: str, operand: Operand, place: ir.Affine, k: ir.Affine, slot: int
) -> _Quad:
    """Rows and columns outside of a matrix are computed and never stored: instead of a condition,
    the last one inside is read for them. `name` is for what the frame has to name."""
    places: tuple[ir.Affine, ...]
    if operand.window is not None:
        inside = frame.clamped(name, place, operand.extent, 1)
        places = operand.window.pixel(frame, name, inside)
    elif not operand.k_outer:
        places = (frame.clamped(name, place, operand.extent, 1),)
    elif operand.in_vectors:
        places = (frame.clamped(name, place, operand.extent, ir.LANES),)
    else:
        places = tuple(
            frame.clamped(f"{name}.{lane}", place + lane, operand.extent, 1)
            for lane in range(ir.LANES)
        )
    return _Quad(operand=operand, places=places, k=k, slot=slot)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """A thread reads this of a block at once, into a local buffer, where the bounds hold."""

    quads: tuple[_Quad, ...]
    into: ir.Buffer
    bounds: tuple[ir.Bound, ...] = ()


def _read(kernel: _MatmulKernel, read: _Read, start: ir.Affine, *, tail: bool) -> ir.Block:
    """The read in the block of k at `start`; in the `tail`, zeros behind the end of k."""
    window = read.quads[0].operand.window
    if window is not None:
        return ir.under(read.bounds, _gathered(kernel.frame, window, read, start, tail=tail))
    body: list[ir.Statement] = []
    for quad in read.quads:
        for index, load, k, lanes in _loads(kernel, quad, start):
            flipped = quad.operand.flipped
            stores = [read.into.store(index, v) for v in (load ^ flipped if flipped else load, 0)]
            found, zero = (ir.vector("lane", one) if lanes > 1 else one for one in stores)
            # k is a multiple of four where a vector lies along it, so a vector ends with k or
            # before it.
            cut = tail and kernel.frame.upper_bound(k) >= quad.operand.k
            limit = (k.below(quad.operand.k),) if cut else ()
            body += ir.under(limit, (found,), (zero,))
    return ir.under(read.bounds, tuple(body))


def _loads(
    kernel: _MatmulKernel, quad: _Quad, start: ir.Affine
) -> Iterator[tuple[ir.Affine, ir.Load, ir.Affine, int]]:
    """Yields where a quad is kept, the load, its k and its lanes: one vector, or four single
    elements."""
    operand, k, batch = quad.operand, start + quad.k, kernel.tile.batch
    if operand.in_vectors:
        along = (LANE, ir.ZERO) if operand.k_outer else (ir.ZERO, LANE)
        load = operand.at(batch, quad.places[0] + along[0], k + along[1])
        yield LANE + quad.slot, load, k, ir.LANES
        return
    for lane in range(ir.LANES):
        place = quad.places[lane % len(quad.places)]
        here = k if operand.k_outer else k + lane
        yield ir.constant(quad.slot + lane), operand.at(batch, place, here), here, 1


def _gathered(
    frame: ir.Frame, window: ImageWindow, read: _Read, start: ir.Affine, *, tail: bool
) -> ir.Block:
    """Reads for an implicit GEMM: pixels outside of the image are zero. Quads at one k are at the
    same tap of their windows, which is named once."""
    inside = frame.nested()
    taps: dict[ir.Affine, tuple[ir.Affine, ...]] = {}
    found: ir.Block = ()
    for quad in read.quads:
        lanes = (0,) if quad.operand.in_vectors else range(ir.LANES)
        for lane in lanes:
            k = quad.k + lane
            if k not in taps:
                name = f"{quad.operand.buffer.name}.tap{len(taps)}"
                taps[k] = window.tap(inside, name, start, k)
            end = ((start + k).below(quad.operand.k),) if tail else ()
            bounds = inside.undecided((*end, *window.bounds(quad.places, taps[k])))
            found += ir.under(
                bounds,
                (_kept(window.element(quad.places, taps[k]), quad, lane, read.into),),
                (_kept(None, quad, lane, read.into),) if bounds else (),
            )
    return inside.enclose(found)


def _kept(element: ir.Affine | None, quad: _Quad, lane: int, into: ir.Buffer) -> ir.Statement:
    """An element of the images, or zero, with its three neighbours where they are read together."""
    whole = quad.operand.in_vectors
    along = LANE if whole else ir.ZERO
    value: ir.Expression = ir.number(0)
    if element is not None:
        value = quad.operand.buffer[element + along]
    store = into.store(along + quad.slot + lane, value)
    return ir.vector("lane", store) if whole else store


# Step 4: which blocks of k the workgroup reads.


def _read_block(
    kernel: _MatmulKernel,
    reads: tuple[_Read, ...],
    block: ir.Affine,
    blocks: int,
    within: ir.Affine = ir.ZERO,
) -> ir.Block:
    """The reads in the workgroup's block number `block`, a form of the variable "block", which
    counts `blocks` there. Reads are `within` elements behind the start of the block.

    The last block may end behind k: it is read by a copy of the code with zeros there, so that no
    load of the others has a condition.
    """
    config, frame, k = kernel.config, kernel.frame, kernel.a.k
    count = kernel.tile.split * kernel.blocks + block
    frame.ranges["block"] = (0, blocks - 1)
    low, high = count.bounds(frame.ranges)
    whole = k // config.block_k

    def at(start: ir.Affine, *, tail: bool) -> ir.Block:
        here = start + within
        return tuple(s for read in reads for s in _read(kernel, read, here, tail=tail))

    start = count * config.block_k
    if high < whole:
        return at(start, tail=False)
    gathers = kernel.a.window is not None and not kernel.a.in_vectors
    if gathers and low < whole:
        # Single elements of windows have conditions anyway, and are not worth a second copy.
        return at(start, tail=True)
    tail = at(ir.constant(whole * config.block_k), tail=True)
    if low >= whole:
        return tail
    return ir.under((count.below(whole),), at(start, tail=False), tail)


# Step 5 (cache=none): every thread reads its rows of a and columns of b from storage.


def _from_storage(kernel: _MatmulKernel) -> _Inner:
    """A thread has `unroll_k` of every block of k, which is sliced_k × unroll_k long."""
    config, tile, frame = kernel.config, kernel.tile, kernel.frame
    dtype = kernel.product.dtype
    own_a = ir.local("own_a", ir.LANES * config.tile_m, dtype)
    own_b = ir.local("own_b", ir.LANES * config.tile_n, dtype)
    rows = [tile.row_of(i) for i in range(config.tile_m)]
    columns = [tile.column_of(j) for j in range(config.tile_n)]
    reads = (
        _Read(quads=_own_quads(frame, kernel.a, rows), into=own_a),
        _Read(quads=_own_quads(frame, kernel.b, columns), into=own_b),
    )
    frame.ranges["k4"] = (0, config.unroll_k // ir.LANES - 1)
    within = tile.z * config.unroll_k + ir.affine(k4=ir.LANES)
    products = _products(
        kernel,
        a=own_a[_own_index(kernel.a, ir.affine(i=1), config.tile_m)],
        b=own_b[_own_index(kernel.b, ir.affine(j=ir.LANES, lane=1), config.tile_n)],
        before_four_k=_read_block(kernel, reads, BLOCK, kernel.blocks, within),
    )
    return _Inner(
        local=(own_a, own_b), workgroup=(), body=ir.serial("block", kernel.blocks, products)
    )


def _own_quads(frame: ir.Frame, operand: Operand, places: list[ir.Affine]) -> tuple[_Quad, ...]:
    """Four k of every row or column of the thread's tile, kept as `_own_index` says."""
    name = f"{operand.buffer.name}.own"
    if not operand.k_outer:
        return tuple(
            _quad(frame, f"{name}{n}", operand, place, ir.ZERO, ir.LANES * n)
            for n, place in enumerate(places)
        )
    firsts = [
        _quad(frame, f"{name}{n}", operand, places[n], ir.ZERO, n)
        for n in range(0, len(places), ir.LANES)
    ]
    return tuple(
        replace(first, k=ir.constant(q), slot=q * len(places) + first.slot)
        for q in range(ir.LANES)
        for first in firsts
    )


def _own_index(operand: Operand, element: ir.Affine, count: int) -> ir.Affine:
    """Places element `element` of the tile's `count` rows or columns at k = q."""
    if operand.k_outer:
        return element + ir.affine(q=count)
    return element * ir.LANES + ir.affine(q=1)


# Step 6 (cache=rows and transposed): threads copy blocks into workgroup memory together.


@dataclass(frozen=True, slots=True, kw_only=True)
class _Staged:
    """A block of an operand in workgroup memory: `length` rows or columns from `first` on × `k`.

    It lies from element `base` of `memory` on, as [k][place] where `k_outer`, else as [place][k],
    with rows `stride` elements apart. With prefetch=blocks there are two, `half` elements apart.
    Its `registers` are what a thread copies of it.
    """

    operand: Operand
    first: ir.Affine
    length: int
    k: int
    k_outer: bool
    stride: int
    half: int
    base: int
    memory: ir.Buffer
    registers: ir.Buffer

    @property
    def transposes(self) -> bool:
        """True if it lies the other way than the operand in storage."""
        return self.k_outer is not self.operand.k_outer

    def start(self, half: ir.Affine) -> ir.Affine:
        """Start in `memory` of half 0 or 1."""
        return half * self.half + self.base


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """One thread copies this at a time: a quad, or where the block is transposed on its way, four
    quads of four rows, of which the four elements of each k become neighbours.

    `stores` are from registers to workgroup memory, lane by "lane".
    """

    read: _Read
    stores: tuple[ir.Store, ...]


def _through_workgroup_memory(kernel: _MatmulKernel) -> _Inner:
    """All threads read a block of k into registers and write it to workgroup memory, each its
    share. `prefetch` tells in which order that and the products follow one another."""
    config, count = kernel.config, kernel.blocks
    staged_a, staged_b = _staged_operands(kernel)
    shares = [(staged, _copies(kernel, staged)) for staged in (staged_a, staged_b)]
    reads = tuple(copy.read for _, copies in shares for copy in copies)
    k_of_a = ir.LANES if config.cache is Cache.ROWS else 1
    own_a = ir.local("own_a", k_of_a * config.tile_m, kernel.product.dtype)

    def written(half: ir.Affine) -> ir.Block:
        return tuple(s for staged, copies in shares for s in _written(staged, copies, half))

    def products(half: ir.Affine) -> ir.Block:
        return _products_of_block(kernel, staged_a, staged_b, half, own_a)

    def unless_last(body: ir.Block) -> ir.Block:
        return ir.under((BLOCK.below(count - 1),), body)

    def read_next() -> ir.Block:
        if count == 1:
            return ()
        return unless_last(_read_block(kernel, reads, BLOCK + 1, count - 1))

    match config.prefetch:
        case Prefetch.NONE:
            # A barrier before workgroup memory is overwritten, and one before it is read.
            this = _read_block(kernel, reads, BLOCK, count)
            steps = (*this, ir.Barrier(), *written(ir.ZERO), ir.Barrier(), *products(ir.ZERO))
            body = ir.serial("block", count, steps)
        case Prefetch.REGISTERS:
            # The next block is on its way to registers while this one is multiplied.
            copied = (ir.Barrier(), *written(ir.ZERO), ir.Barrier())
            steps = (*copied, *read_next(), *products(ir.ZERO))
            first = _read_block(kernel, reads, ir.ZERO, count)
            body = (*first, *ir.serial("block", count, steps))
        case Prefetch.BLOCKS:
            # Double buffering: what is written is not what is read, so one barrier is enough.
            inside = ir.Frame(ranges={"block": (0, count - 1)})
            this_half = inside.parity("this", BLOCK)
            other_half = inside.parity("other", BLOCK + 1)
            steps = (
                *read_next(),
                *products(this_half),
                *(unless_last(written(other_half)) if count > 1 else ()),
                ir.Barrier(),
            )
            ahead = (*_read_block(kernel, reads, ir.ZERO, count), *written(ir.ZERO), ir.Barrier())
            body = (*ahead, *ir.serial("block", count, inside.enclose(steps)))
    return _Inner(
        local=(own_a, staged_a.registers, staged_b.registers),
        workgroup=(staged_a.memory, staged_b.memory),
        body=body,
    )


def _staged_operands(kernel: _MatmulKernel) -> tuple[_Staged, _Staged]:
    """Each has workgroup memory of its own; with sliced_k both lie in that of the sums, which are
    written when no block is needed any more."""
    config, tile = kernel.config, kernel.tile
    k_outer = config.cache is Cache.TRANSPOSED
    a = _staged(kernel, kernel.a, tile.row, config.block_m, k_outer, config.a_stride)
    b = _staged(kernel, kernel.b, tile.column, config.block_n, True, config.block_n)
    for memory in _shared_sums(kernel):
        b = replace(b, memory=memory, base=a.memory.size)
        a = replace(a, memory=memory)
    return a, b


def _staged(
    kernel: _MatmulKernel,
    operand: Operand,
    first: ir.Affine,
    length: int,
    k_outer: bool,
    stride: int,
) -> _Staged:
    config, dtype = kernel.config, kernel.product.dtype
    halves = 2 if config.prefetch is Prefetch.BLOCKS else 1
    rows = config.block_k if k_outer else length
    copied = ir.LANES * ir.LANES if k_outer is not operand.k_outer else ir.LANES
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
        memory=ir.shared(f"block_{name}", halves * rows * stride, dtype),
        registers=ir.local(f"next_{name}", copies * copied, dtype),
    )


def _copies(kernel: _MatmulKernel, staged: _Staged) -> tuple[_Copy, ...]:
    """The thread's share of a block: threads side by side copy what lies side by side in storage.

    A copy is number `step` of row `row` of the block as storage has it, or of four of its rows.
    """
    frame, thread, threads = kernel.frame, kernel.tile.thread, kernel.config.threads
    outer, inner = staged.length, staged.k
    if staged.operand.k_outer:
        outer, inner = inner, outer
    rows, steps = outer // ir.LANES if staged.transposes else outer, inner // ir.LANES
    found = []
    row = step = ir.ZERO
    for count in range(-(-rows * steps // threads)):
        place = thread + count * threads
        name = f"{staged.operand.buffer.name}{count}"
        if count and not threads % steps:
            row = row + threads // steps
        else:
            row, step = frame.delinearize(place, ((f"{name}.row", rows), (f"{name}.step", steps)))
        copy = _transposed_copy if staged.transposes else _plain_copy
        quads, stores = copy(frame, staged, name, row, step * ir.LANES, count)
        beyond = (count + 1) * threads > rows * steps
        bounds = (place.below(rows * steps),) if beyond else ()
        read = _Read(quads=quads, into=staged.registers, bounds=bounds)
        found.append(_Copy(read=read, stores=stores))
    return tuple(found)


def _plain_copy(
    frame: ir.Frame, staged: _Staged, name: str, row: ir.Affine, inner: ir.Affine, count: int
) -> tuple[tuple[_Quad, ...], tuple[ir.Store, ...]]:
    """registers[4·count + lane] = storage[row][inner + lane];
    memory[row][inner + lane] = registers[4·count + lane]."""
    place, k = (inner, row) if staged.operand.k_outer else (row, inner)
    at, slot = staged.first + place, ir.LANES * count
    kept = staged.registers[LANE + slot]
    here = row * staged.stride + inner + LANE
    quad = _quad(frame, f"{name}.at", staged.operand, at, k, slot)
    return (quad,), (staged.memory.store(here, kept),)


def _transposed_copy(
    frame: ir.Frame, staged: _Staged, name: str, row: ir.Affine, inner: ir.Affine, count: int
) -> tuple[tuple[_Quad, ...], tuple[ir.Store, ...]]:
    """A square of 4×4, read along its rows and written along its columns:
    registers[16·count + 4·n + lane] = storage[4·row + n][inner + lane];
    memory[inner + n][4·row + lane] = registers[16·count + 4·lane + n]."""
    first, slot = row * ir.LANES, ir.LANES * ir.LANES * count
    quads: list[_Quad] = []
    stores: list[ir.Store] = []
    for n in range(ir.LANES):
        at = staged.first + first + n
        quads.append(_quad(frame, f"{name}.at{n}", staged.operand, at, inner, slot + ir.LANES * n))
        kept = staged.registers[LANE * ir.LANES + slot + n]
        here = (inner + n) * staged.stride + first + LANE
        stores.append(staged.memory.store(here, kept))
    return tuple(quads), tuple(stores)


def _written(staged: _Staged, copies: tuple[_Copy, ...], half: ir.Affine) -> ir.Block:
    """The thread's share of a block, from registers to a half of workgroup memory."""
    start = staged.start(half)
    return tuple(
        statement
        for copy in copies
        for statement in ir.under(
            copy.read.bounds,
            tuple(
                ir.vector("lane", structs.replace(store, index=store.index + start))
                for store in copy.stores
            ),
        )
    )


def _products_of_block(
    kernel: _MatmulKernel, staged_a: _Staged, staged_b: _Staged, half: ir.Affine, own_a: ir.Buffer
) -> ir.Block:
    """Adds products of the thread's share of the block in a half of memory, from z·slice_k on.

    Four k of each row of a are one vector there (cache=rows), or one k of four rows (transposed).
    """
    config, tile = kernel.config, kernel.tile
    k = tile.z * config.slice_k + ir.affine(k2=config.unroll_k, k4=ir.LANES)
    one_k = k + ir.affine(q=1)
    column = (tile.x + ir.affine(j=tile.columns)) * ir.LANES
    b = staged_b.start(half) + one_k * staged_b.stride + column + LANE
    load_b = staged_b.memory[b]
    if config.cache is Cache.ROWS:
        row = tile.y + ir.affine(i=tile.rows)
        there = staged_a.start(half) + row * staged_a.stride + k + LANE
        kept = staged_a.memory[there]
        copy = own_a.store(ir.affine(i=ir.LANES, lane=1), kept)
        body = _products(
            kernel,
            a=own_a[ir.affine(i=ir.LANES, q=1)],
            b=load_b,
            before_four_k=(ir.unrolled("i", config.tile_m, ir.vector("lane", copy)),),
        )
    else:
        row = (tile.y + ir.affine(g=tile.rows)) * ir.LANES
        there = staged_a.start(half) + one_k * staged_a.stride + row + LANE
        kept = staged_a.memory[there]
        copy = own_a.store(ir.affine(g=ir.LANES, lane=1), kept)
        body = _products(
            kernel,
            a=own_a[ir.affine(i=1)],
            b=load_b,
            before_each_k=(ir.unrolled("g", config.tile_m // ir.LANES, ir.vector("lane", copy)),),
        )
    return ir.serial("k2", config.slice_k // config.unroll_k, body)


# Step 7: the products of a tile.


def _products(
    kernel: _MatmulKernel,
    a: ir.Load,
    b: ir.Load,
    before_four_k: ir.Block = (),
    before_each_k: ir.Block = (),
) -> ir.Block:
    """sums[i, 4j + lane] += term(a[i], b[4j + lane]) for unroll_k of k, which is 4·k4 + q.

    Rows are outside of columns, as for wasm.
    """
    config, sums = kernel.config, kernel.sums
    here = ir.affine(i=config.tile_n, j=ir.LANES, lane=1)
    value = sums[here] + kernel.product.term(a, b)
    add = ir.vector("lane", sums.store(here, value))
    row = ir.unrolled("j", config.tile_n // ir.LANES, add)
    rows = ir.unrolled("i", config.tile_m, row)
    each = ir.unrolled("q", ir.LANES, *before_each_k, rows, *_added_to_row_sums(kernel, a))
    return (ir.unrolled("k4", config.unroll_k // ir.LANES, *before_four_k, each),)


def _row_sums(kernel: _MatmulKernel) -> tuple[ir.Buffer, ...]:
    """A sum for each row of the thread's tile, where the product wants them."""
    if kernel.product.row_sums is None:
        return ()
    return (ir.local("row_sums", kernel.config.tile_m, kernel.product.dtype),)


def _added_to_row_sums(kernel: _MatmulKernel, a: ir.Load) -> ir.Block:
    """row_sums[i] += term(a[i], other) at one k."""
    product, row = kernel.product, ir.variable("i")
    if product.row_sums is None:
        return ()
    (sums,) = _row_sums(kernel)
    other = ir.Const(value=product.row_sums.other, dtype=product.dtype)
    added = sums.store(row, sums[row] + product.term(a, other))
    return (ir.unrolled("i", kernel.config.tile_m, added),)


def _less_row_sums(kernel: _MatmulKernel) -> ir.Block:
    """sums[i, 4j + lane] -= factor · row_sums[i]."""
    wanted, config = kernel.product.row_sums, kernel.config
    if wanted is None:
        return ()
    here = ir.affine(i=config.tile_n, j=ir.LANES, lane=1)
    (row_sums,) = _row_sums(kernel)
    changed = kernel.sums[here] - row_sums[ir.variable("i")] * wanted.factor
    columns = ir.vector("lane", kernel.sums.store(here, changed))
    row = ir.unrolled("j", config.tile_n // ir.LANES, columns)
    return (ir.unrolled("i", config.tile_m, row),)


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


def _shared_sums(kernel: _MatmulKernel) -> tuple[ir.Buffer, ...]:
    """Workgroup memory of the sums of other threads, and before that of blocks of a and b."""
    config, dtype = kernel.config, kernel.product.dtype
    if config.sliced_k == 1:
        return ()
    return (ir.shared("layers", config.workgroup_bytes // dtype.size_bytes, dtype),)


def _sliced_k(kernel: _MatmulKernel, stores: ir.Block) -> ir.Block:
    """The stores, by the threads that have whole sums: all of them where sums are not shared."""
    config, z = kernel.config, kernel.tile.z
    memory = _shared_sums(kernel)
    if not memory:
        return stores
    found: ir.Block = ()
    # Double buffering ends with a barrier: nobody reads blocks any more.
    still_read = config.cache is not Cache.NONE and config.prefetch is not Prefetch.BLOCKS
    for each in rounds(config.sliced_k, config.sum_slots):
        before = (ir.Barrier(),) if still_read else ()
        lower = z.at_least(each.middle)
        upper = z.below(each.last)
        above = (lower, upper) if each.last < config.sliced_k else (lower,)
        kept = ir.under(above, _keep_sums(kernel, memory[0], each))
        below = (z.below(min(each.middle, each.kept)),)
        last = stores if each.middle == 1 else ()
        added = ir.under(below, (*_add_sums(kernel, memory[0], each), *last))
        found = (*found, *before, *kept, ir.Barrier(), *added)
        still_read = True
    return found


def _keep_sums(kernel: _MatmulKernel, memory: ir.Buffer, each: Round) -> ir.Block:
    slot = kernel.tile.z - each.middle
    own = kernel.sums[_own_sum()]
    return (_each_sum(kernel, memory.store(_slot(kernel, slot), own)),)


def _add_sums(kernel: _MatmulKernel, memory: ir.Buffer, each: Round) -> ir.Block:
    slot = kernel.tile.z + ir.affine(above=each.middle)
    own = kernel.sums[_own_sum()]
    other = memory[_slot(kernel, slot)]
    store = kernel.sums.store(own.index, own + other)
    exists = each.kept <= each.middle or each.kept % each.middle == 0
    inside = () if exists else (slot.below(each.kept),)
    body = ir.under(inside, (_each_sum(kernel, store),))
    return ir.serial("above", -(-each.kept // each.middle), body)


def _slot(kernel: _MatmulKernel, slot: ir.Affine) -> ir.Affine:
    """Places vectors of the sums in a slot; those of threads side by side are neighbours."""
    slots, tile = kernel.config.sum_slots, kernel.tile
    first = ir.affine(four=slots * tile.rows * tile.columns)
    return (first + tile.thread_among(slot, slots)) * ir.LANES + LANE


# Step 9: the entries of the thread's tile that exist, with the epilogue, or the partial sums.


def _stores(kernel: _MatmulKernel, product: Product, partial: tuple[ir.Buffer, ...]) -> ir.Block:
    """Only blocks at an edge have conditions."""
    config, tile, frame, extents = kernel.config, kernel.tile, kernel.frame, product.extents
    found: list[ir.Statement] = []
    for i in range(config.tile_m):
        row = tile.row_of(i)
        columns: list[ir.Statement] = []
        for j in range(0, config.tile_n, ir.LANES):
            column = tile.column_of(j)
            at = (tile.batch, row, column + LANE)
            value = kernel.sums[LANE + i * config.tile_n + j]
            if partial:
                entries = extents.m * extents.n * max(1, extents.batch)
                here = tile.split * entries + product.place(at)
                store = partial[0].store(here, value)
            else:
                store = product.stored(at, value)
            columns += _columns_inside(frame, column, extents.n, store)
        bounds = [row.below(extents.m)] if frame.upper_bound(row) >= extents.m else []
        found += ir.under(bounds, tuple(columns))
    return tuple(found)


def _columns_inside(frame: ir.Frame, column: ir.Affine, n: int, store: ir.Store) -> ir.Block:
    """Four neighbours of a row, as far as they are columns: all or none where n % 4 is 0."""
    if frame.upper_bound(column) + ir.LANES <= n:
        return (ir.vector("lane", store),)
    if n % ir.LANES == 0:
        return ir.under((column.below(n),), (ir.vector("lane", store),))
    edge = (column + LANE).below(n)
    return (ir.vector("lane", *ir.under((edge,), (store,))),)


# Step 10 (split_k > 1): a second dispatch, a thread for each entry of c.


def _partial_sums(product: Product, config: WebgpuMatmulConfig) -> tuple[ir.Buffer, ...]:
    """partial[split_k, batch, m, n] in scratch memory."""
    if config.split_k == 1:
        return ()
    size = config.scratch_bytes(product.extents) // product.dtype.size_bytes
    return (ir.scratch("partial", size, product.dtype),)


def _split_k(product: Product, config: WebgpuMatmulConfig, partial: ir.Buffer) -> ir.Program:
    """c[entry] = epilogue(Σ_part partial[part, entry])."""
    extents = product.extents
    axes = {"batch": max(1, extents.batch), "m": extents.m, "n": extents.n}
    at = tuple(ir.variable(name) if size > 1 else ir.ZERO for name, size in axes.items())
    entry, entries = product.place(at), axes["batch"] * extents.m * extents.n
    parts = [partial[entry + part * entries] for part in range(config.split_k)]
    store = product.stored(at, reduce(add, parts[1:], parts[0]))
    return added_up((*product.parameters, partial), axes, store)
