"""Holds what all steps of a kernel of attention for WebGPU know: its operands, the workgroup's and
the thread's part of them, workgroup memory and registers."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention
from kernelzoo.domain.operators.decoding import AttentionShape
from services.tuner import ir
from services.tuner.schedules.attention.scores import LOWEST, scored
from services.tuner.schedules.attention.webgpu_config import WebgpuAttentionConfig
from services.tuner.schedules.base.cache import key_at, score_of, value_at
from services.tuner.schedules.base.parts import OutputParts
from services.tuner.schedules.base.webgpu_config import Cache

BLOCK = ir.variable("block")
"""The number of a block of keys, in the workgroup's part of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedTokens:
    """Keys and values of a cache, of which each query sees those up to its own place. The first
    query is at `here`, and the head shares the keys and values of number `kv_head`."""

    shape: AttentionShape
    here: ir.Affine
    kv_head: ir.Affine


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedVector:
    """A vector that a thread copies: its row and number in a block of rows, and the bounds where it
    exists. It is kept in the thread's register of number `turn`."""

    turn: int
    row: ir.Affine
    quad: ir.Affine
    exists: tuple[ir.Bound, ...]


class OperandRows:
    """Rows of an operand that a workgroup copies together: `count` of all `extent`, of `entries`
    each. They lie from element `base` of workgroup memory on, `stride` apart. A thread copies
    vectors at `places`, if any is copied."""

    def __init__(
        self,
        frame: ir.Frame,
        thread: ir.Affine,
        config: WebgpuAttentionConfig,
        name: str,
        operand: HeadsOperand,
        extent: int,
        count: int,
        entries: int,
        base: int,
        stride: int,
    ) -> None:
        self.name, self.operand, self.extent, self.count = name, operand, extent, count
        self.entries, self.base, self.stride = entries, base, stride
        quads, threads = entries // ir.LANES, config.threads
        items = count * quads if config.cache is Cache.ROWS else 0
        self.places: list[CopiedVector] = []
        row = quad = ir.ZERO
        for turn in range(-(-items // threads)):
            # Threads side by side copy what lies side by side: a warp reads whole lines of storage.
            item = thread + turn * threads
            bound = item.below(items)
            if turn and not threads % quads:
                # All turns are at the same vector of a row: no division for each, and one bound.
                row = row + threads // quads
                bound = row.below(count)
            else:
                parts = ((f"{name}{turn}.row", count), (f"{name}{turn}.quad", quads))
                row, quad = frame.delinearize(item, parts)
            exists = frame.undecided((bound,))
            self.places.append(CopiedVector(turn=turn, row=row, quad=quad, exists=exists))
        self.registers = ir.tile(f"next_{name}", len(self.places))

    def index(self, row: ir.Affine, quad: ir.Affine) -> ir.Affine:
        """Places a vector in workgroup memory."""
        return row * self.stride + quad * ir.LANES + self.base


class AttentionKernel:
    """All steps know these. `frame` has the variables of one thread and collects what it names.

    The workgroup's queries begin at `first`. The thread is in a `slice`, in a `group` of those that
    share queries, and has every threads_per_row-th key and vector of the output from `lane` on.
    `rows` are its queries and `quads` its vectors of the output: the last ones where these end.
    """

    def __init__(
        self,
        given: ManyRowsAttention,
        config: WebgpuAttentionConfig,
        parameters: tuple[ir.Buffer, ...],
        cached: Callable[[ir.Frame, ir.Affine], CachedTokens] | None = None,
    ) -> None:
        """`cached` answers for the frame and the head of a thread."""
        frame, memory = ir.Frame(), config.memory(given)
        self.given, self.config, self.parameters, self.frame = given, config, parameters, frame
        tiles = -(-given.m // config.block_m)
        self.workgroups = given.heads * tiles * config.parts
        workgroup = frame.variable("group", self.workgroups)
        self.thread = frame.variable("thread", config.threads)
        # Workgroups that follow one another are of one head: they read its keys at about the same
        # time, of which the cache that all cores share has most.
        self.head, tile, self.part = frame.delinearize(
            workgroup, (("head", given.heads), ("tile", tiles), ("part", config.parts))
        )
        self.kv_head = self.head
        if given.shared > 1:
            kv_heads = given.heads // given.shared
            parts = (("kv_head", kv_heads), ("own", given.shared))
            self.kv_head, _ = frame.delinearize(self.head, parts)
        # Threads that share queries are neighbours, so that subgroups find their largest score. A
        # slice is whole rows of threads: its sums meet those of others once, behind the last block.
        self.slice, self.group, self.lane = frame.delinearize(
            self.thread,
            (
                ("slice", config.sliced_n),
                ("rows", config.thread_rows),
                ("lane", config.threads_per_row),
            ),
        )
        self.first = tile * config.block_m
        # The vectors of a row of the output that the thread has, counted from 0.
        self.outputs = range(config.outputs(given))

        copied = partial(OperandRows, frame, self.thread, config)
        # Rows of queries and keys are padded: threads read one entry of many rows at once, which
        # would be in one bank. Values are read along their rows, and are not.
        (m, n), stride, width = (
            (config.block_m, config.block_n),
            config.row_stride(given),
            given.width,
        )
        self.keys = copied("keys", given.keys, given.n, n, given.head_dim, memory.keys, stride)
        self.values = copied("values", given.values, given.n, n, width, memory.values, width)
        self.cache = cached(frame, self.head) if cached else None
        # Instead of a condition, the last query and the last vector are computed again, which a
        # condition on the store leaves out.
        self.rows = [
            frame.clamped(f"row{i}", self.first + self.row(i), given.m, 1)
            for i in range(config.tile_m)
        ]
        self.quads = [
            frame.clamped(f"quad{c}", self.own_quad(c), given.width // ir.LANES, 1)
            for c in self.outputs
        ]
        self.queries = copied("queries", given.queries, given.m, m, given.head_dim, 0, stride)
        self.parts = None
        if config.parts > 1:
            self.parts = OutputParts.of(given.m * given.heads, config.parts, given.width)
        self.staged = ir.shared("staged", memory.size)
        self.powers = ir.shared("powers", memory.powers)
        self.slices = ir.shared("slices", memory.slices)
        self.own_query, self.own_key = ir.tile("own_query", config.tile_m), ir.tile("own_key", 1)
        self.own_value = ir.tile("own_value", len(self.outputs))
        # Powers of four queries are one vector: threads that share queries write theirs to
        # workgroup memory and read all of a key from there, four queries at a time.
        self.own_power = ir.tile("own_power", -(-config.tile_m // ir.LANES))
        self.dot = ir.tile("dot", config.tile_m, config.tile_n, lanes=1)
        self.acc = ir.tile("acc", config.tile_m, len(self.outputs))
        # The largest score and the sum of a row are kept beside its outputs, so that keys are
        # passed over once (online softmax); `share` is what a larger score leaves of both.
        self.most, self.larger, self.share, self.sum = (
            ir.tile(name, config.tile_m, lanes=1) for name in ("most", "larger", "share", "sum")
        )

    @property
    def local(self) -> tuple[ir.Tile, ...]:
        # The next block is on its way into these while threads multiply this one.
        copied = (self.keys.registers, self.values.registers) if self.copies else ()
        exchanged = (self.own_power,) if self.config.shares_rows else ()
        own = (self.own_query, self.own_key, self.own_value, self.dot, self.acc)
        kept = (self.most, self.larger, self.share, self.sum)
        return (*copied, *exchanged, *own, *kept)

    @property
    def shared(self) -> tuple[ir.Buffer, ...]:
        return tuple(each for each in (self.staged, self.powers, self.slices) if each.size)

    @property
    def copies(self) -> bool:
        return self.config.cache is Cache.ROWS

    @property
    def blocks(self) -> int:
        """Counts the blocks of the workgroup's part of the keys."""
        return self.config.blocks(self.given)

    @property
    def block(self) -> ir.Affine:
        return self.block_at(BLOCK)

    def block_at(self, place: ir.Affine) -> ir.Affine:
        """The number of a block, among all, by its place in the workgroup's part."""
        return self.part * self.blocks + place

    @property
    def tile(self) -> Iterator[tuple[int, int]]:
        """The thread's rows and keys of a block."""
        return ((i, j) for i in range(self.config.tile_m) for j in range(self.config.tile_n))

    def row(self, i: int) -> ir.Affine:
        """The thread's query number i among the workgroup's."""
        return self.group * self.config.tile_m + i

    def own_quad(self, c: int) -> ir.Affine:
        """The thread's vector number c of a row of the output."""
        return self.lane + c * self.config.threads_per_row

    def exists(self, c: int) -> tuple[ir.Bound, ...]:
        return self.frame.undecided((self.own_quad(c).below(self.given.width // ir.LANES),))

    def key(self, place: ir.Affine) -> ir.Affine:
        """The key at a place of the thread's slice, in the block."""
        return self.slice * self.config.slice_n + place

    def own_column(self, j: int) -> ir.Affine:
        """The thread's key number j, in the block."""
        return self.key(self.lane + j * self.config.threads_per_row)

    def read(
        self, rows: OperandRows, own: ir.Affine, stored: ir.Affine, quad: ir.Affine
    ) -> ir.Load:
        """A vector of an operand, by its number: in workgroup memory by the row of the block, in
        storage by the row that is `stored`."""
        return self.copied(rows, own, quad) if self.copies else self.stored(rows, stored, quad)

    def stored(self, rows: OperandRows, row: ir.Affine, quad: ir.Affine) -> ir.Load:
        """A vector of an operand in storage, by row and number."""
        if self.cache and rows.name != "queries":
            at = key_at if rows.name == "keys" else value_at
            index = at(self.cache.shape, self.cache.kv_head, quad, row)
            return self.parameters[rows.operand.place].vector(index)
        of_head, of_row = rows.operand.steps(rows.extent, rows.entries)
        head = self.head if rows.name == "queries" else self.kv_head
        index = head * of_head + row * of_row + quad * ir.LANES + rows.operand.first
        return self.parameters[rows.operand.place].vector(index)

    def copied(self, rows: OperandRows, row: ir.Affine, quad: ir.Affine) -> ir.Load:
        """Reads a vector of an operand in workgroup memory, by row of the block."""
        return self.staged.vector(rows.index(row, quad))

    def score(self, product: ir.Expression, i: int, j: int, column: ir.Affine) -> ir.Expression:
        """The score of query number i and the thread's key number j, at a `column` that exists."""
        if not self.cache:
            return scored(self.given, self.parameters, product, (self.head, self.rows[i], column))
        seen = self.seen(i, self.column(j))
        assert seen is not None
        value = score_of(product, self.cache.shape)
        # A finite number in the place of -∞: drivers may take every value to be finite (WGSL,
        # 15.7.2), and the difference of two infinities would be NaN.
        return ir.select(seen, value, ir.number(LOWEST))

    def seen(self, i: int, column: ir.Affine) -> ir.Compare | None:
        """Returns whether query number i takes a key into account; None where it takes all."""
        limit: ir.Affine | None = None
        if self.cache:
            # A query of a text sees itself and what is before it.
            limit = self.cache.here + self.first + self.row(i) + 1
        elif self.blocks * self.config.parts * self.config.block_n > self.given.n:
            # The last block is not whole. Where all are, no comparison is made for any key.
            limit = ir.constant(self.given.n)
        if limit is None:
            return None
        return ir.value(column).less(limit)

    @property
    def last_block(self) -> tuple[ir.Bound, ...]:
        """Returns the bounds that hold of blocks that any query takes into account."""
        if not self.cache:
            return ()
        # Blocks behind the last query of the workgroup hold keys that none of its queries sees.
        first = self.cache.here + self.first
        place = self.block * self.config.block_n - first
        inside = self.frame.nested()
        inside.variable("block", self.blocks)
        return inside.undecided((place.below(self.config.block_m),))

    def column(self, j: int) -> ir.Affine:
        """The thread's key number j in all."""
        return self.block * self.config.block_n + self.own_column(j)

    def output(self, row: ir.Affine, quad: ir.Affine, value: ir.Expression) -> ir.Block:
        """Stores a vector of the output, or of the part of it; a row behind the last has none."""
        place = self.first + row
        entry = place * self.given.heads + self.head
        at = quad * ir.LANES
        if self.parts:
            store = self.parts.mixed(entry, self.part, at, value)
        else:
            index = entry * self.given.width + at
            store = self.parameters[-1].store(index, value)
        return self.frame.where((place.below(self.given.m),), (store,))

    def told(self, i: int, most: ir.Expression, sum_: ir.Expression) -> ir.Block:
        """Stores the largest score of query number i in this part of the keys, and the sum of its
        powers: one of the threads that share it does."""
        if self.parts is None:
            return ()
        place = self.first + self.row(i)
        entry = place * self.given.heads + self.head
        # Threads that share a query have all its sum: the first of them stores it.
        bounds = (self.lane.below(1), self.slice.below(1), place.below(self.given.m))
        store = self.parts.told(entry, self.part, most, sum_)
        return self.frame.where(bounds, (store,))
