"""What all steps of a kernel of attention for WebGPU know: its operands, the workgroup's and the
thread's part of them, workgroup memory and registers."""

from collections.abc import Iterator
from dataclasses import dataclass

from kernelzoo.domain.operators.attention import HeadsOperand, ManyRowsAttention
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import ZERO, Frame, f32_buffer, total, under
from services.tuner.ir.nodes import LANES, Block, Bound, Buffer, Expression, Load, Scope, Store
from services.tuner.schedules.attention.webgpu_config import AttentionMemory, WebgpuAttentionConfig
from services.tuner.schedules.base.cache import constant
from services.tuner.schedules.matmul.webgpu_config import Cache


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedVector:
    """A vector that a thread copies: its row and number in a block of rows, and the bounds where it
    exists. It is kept from element `slot` of the thread's registers on."""

    slot: int
    row: Affine
    quad: Affine
    exists: tuple[Bound, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperandRows:
    """Rows of an operand that a workgroup copies together: `count` of all `extent`, of `entries`
    each. They lie from element `base` of workgroup memory on, `stride` apart."""

    name: str
    operand: HeadsOperand
    extent: int
    count: int
    entries: int
    base: int
    stride: int
    places: tuple[CopiedVector, ...]

    @classmethod
    def of(
        cls,
        frame: Frame,
        thread: Affine,
        config: WebgpuAttentionConfig,
        *,
        name: str,
        operand: HeadsOperand,
        extent: int,
        count: int,
        entries: int,
        base: int,
        stride: int,
    ) -> "OperandRows":
        """With the places of a thread, if any is copied: threads side by side copy what lies side
        by side."""
        quads, threads = entries // LANES, config.threads
        items = count * quads if config.cache is Cache.ROWS else 0
        places: list[CopiedVector] = []
        row = quad = ZERO
        for turn in range(-(-items // threads)):
            item = thread.plus(constant(turn * threads))
            if turn and not threads % quads:
                row = row.plus(constant(threads // quads))
            else:
                parts = ((f"{name}{turn}.row", count), (f"{name}{turn}.quad", quads))
                row, quad = frame.delinearize(item, parts)
            exists = frame.undecided((Bound(index=item, limit=items),))
            places.append(CopiedVector(slot=LANES * turn, row=row, quad=quad, exists=exists))
        return cls(
            name=name,
            operand=operand,
            extent=extent,
            count=count,
            entries=entries,
            base=base,
            stride=stride,
            places=tuple(places),
        )

    def index(self, row: Affine, quad: Affine) -> Affine:
        """Where a vector lies in workgroup memory."""
        return row.times(self.stride).plus(quad.times(LANES)).plus(constant(self.base))


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionKernel:
    """What all steps know. `frame` has the variables of one thread and collects what it names.

    The workgroup's queries begin at `first`. The thread is in a `slice`, in a `group` of those that
    share queries, and has every threads_per_row-th key and vector of the output from `lane` on.
    `rows` are its queries and `quads` its vectors of the output: the last ones where these end.
    """

    given: ManyRowsAttention
    config: WebgpuAttentionConfig
    parameters: tuple[Buffer, ...]
    memory: AttentionMemory
    frame: Frame
    thread: Affine
    head: Affine
    first: Affine
    slice: Affine
    group: Affine
    lane: Affine
    rows: tuple[Affine, ...]
    quads: tuple[Affine, ...]
    queries: OperandRows
    keys: OperandRows
    values: OperandRows
    staged: Buffer
    powers: Buffer
    slices: Buffer
    own_query: Buffer
    own_key: Buffer
    own_value: Buffer
    own_power: Buffer
    dot: Buffer
    acc: Buffer
    most: Buffer
    larger: Buffer
    share: Buffer
    sum: Buffer
    next_keys: Buffer
    next_values: Buffer

    @classmethod
    def of(
        cls,
        given: ManyRowsAttention,
        config: WebgpuAttentionConfig,
        parameters: tuple[Buffer, ...],
    ) -> "AttentionKernel":
        frame, memory = Frame(), config.memory(given)
        tiles = -(-given.m // config.block_m)
        workgroup = frame.variable("group", given.heads * tiles)
        thread = frame.variable("thread", config.threads)
        head, tile = frame.delinearize(workgroup, (("head", given.heads), ("tile", tiles)))
        slice_, group, lane = frame.delinearize(
            thread,
            (
                ("slice", config.sliced_n),
                ("rows", config.thread_rows),
                ("lane", config.threads_per_row),
            ),
        )
        outputs = range(config.outputs(given))
        first = tile.times(config.block_m)
        rows = (group.times(config.tile_m).plus(constant(i)) for i in range(config.tile_m))
        quads = (lane.plus(constant(c * config.threads_per_row)) for c in outputs)

        def copied(
            name: str, operand: HeadsOperand, extent: int, entries: int, base: int, stride: int
        ) -> OperandRows:
            count = config.block_m if name == "queries" else config.block_n
            return OperandRows.of(
                frame,
                thread,
                config,
                name=name,
                operand=operand,
                extent=extent,
                count=count,
                entries=entries,
                base=base,
                stride=stride,
            )

        stride = config.row_stride(given)
        keys = copied("keys", given.keys, given.n, given.head_dim, memory.keys, stride)
        values = copied("values", given.values, given.n, given.width, memory.values, given.width)

        def local(name: str, size: int) -> Buffer:
            return f32_buffer(name, size, Scope.LOCAL)

        return cls(
            given=given,
            config=config,
            parameters=parameters,
            memory=memory,
            frame=frame,
            thread=thread,
            head=head,
            first=first,
            slice=slice_,
            group=group,
            lane=lane,
            rows=tuple(
                frame.clamped(f"row{i}", first.plus(row), given.m, 1) for i, row in enumerate(rows)
            ),
            quads=tuple(
                frame.clamped(f"quad{c}", quad, given.width // LANES, 1)
                for c, quad in enumerate(quads)
            ),
            queries=copied("queries", given.queries, given.m, given.head_dim, 0, stride),
            keys=keys,
            values=values,
            staged=f32_buffer("staged", memory.size, Scope.WORKGROUP),
            powers=f32_buffer("powers", memory.powers, Scope.WORKGROUP),
            slices=f32_buffer("slices", memory.slices, Scope.WORKGROUP),
            own_query=local("own_query", LANES * config.tile_m),
            own_key=local("own_key", LANES),
            own_value=local("own_value", LANES * len(outputs)),
            own_power=local("own_power", LANES * -(-config.tile_m // LANES)),
            dot=local("dot", config.tile_m * config.tile_n),
            acc=local("acc", LANES * config.tile_m * len(outputs)),
            most=local("most", config.tile_m),
            larger=local("larger", config.tile_m),
            share=local("share", config.tile_m),
            sum=local("sum", config.tile_m),
            next_keys=local("next_keys", LANES * len(keys.places)),
            next_values=local("next_values", LANES * len(values.places)),
        )

    @property
    def local(self) -> tuple[Buffer, ...]:
        copied = (self.next_keys, self.next_values) if self.copies else ()
        exchanged = (self.own_power,) if self.config.shares_rows else ()
        return (
            *copied,
            *exchanged,
            *(self.own_query, self.own_key, self.own_value, self.dot, self.acc),
            *(self.most, self.larger, self.share, self.sum),
        )

    @property
    def shared(self) -> tuple[Buffer, ...]:
        return tuple(each for each in (self.staged, self.powers, self.slices) if each.size)

    @property
    def copies(self) -> bool:
        return self.config.cache is Cache.ROWS

    @property
    def blocks(self) -> int:
        return -(-self.given.n // self.config.block_n)

    @property
    def outputs(self) -> range:
        """The vectors of a row of the output that the thread has, counted from 0."""
        return range(self.config.outputs(self.given))

    @property
    def tile(self) -> Iterator[tuple[int, int]]:
        """The thread's rows and keys of a block."""
        return ((i, j) for i in range(self.config.tile_m) for j in range(self.config.tile_n))

    def row(self, i: int) -> Affine:
        """The thread's query number i among the workgroup's."""
        return self.group.times(self.config.tile_m).plus(constant(i))

    def exists(self, c: int) -> tuple[Bound, ...]:
        place = self.lane.plus(constant(c * self.config.threads_per_row))
        return self.frame.undecided((Bound(index=place, limit=self.given.width // LANES),))

    def key(self, place: Affine) -> Affine:
        """The key at a place of the thread's slice, in the block."""
        return self.slice.times(self.config.slice_n).plus(place)

    def own_column(self, j: int) -> Affine:
        """The thread's key number j, in the block."""
        return self.key(self.lane.plus(constant(j * self.config.threads_per_row)))

    def stored(self, rows: OperandRows, row: Affine, quad: Affine) -> Load:
        """A vector of an operand in storage, by row and number."""
        of_head, of_row = rows.operand.steps(rows.extent, rows.entries)
        parts = (self.head.times(of_head), row.times(of_row), quad.times(LANES))
        return Load(
            buffer=self.parameters[rows.operand.place],
            index=total(*parts, constant(rows.operand.first)),
            lanes=LANES,
        )

    def copied(self, rows: OperandRows, row: Affine, quad: Affine) -> Load:
        """The same in workgroup memory, by row of the block."""
        return Load(buffer=self.staged, index=rows.index(row, quad), lanes=LANES)

    def output(self, row: Affine, quad: Affine, value: Expression) -> Block:
        """Stores a vector of the output; a row behind the last has none."""
        place = self.first.plus(row)
        index = place.times(self.given.heads).plus(self.head).times(self.given.width)
        store = Store(buffer=self.parameters[-1], index=index.plus(quad.times(LANES)), value=value)
        inside = self.frame.undecided((Bound(index=place, limit=self.given.m),))
        return under(inside, (store,))
