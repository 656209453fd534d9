"""Products of many rows with quantised weights for WebGPU, as for the tokens of a prompt.

    dispatch    ⌈m / block_m⌉ × ⌈n / block_n⌉ workgroups
    workgroup   c[block_m, block_n], from blocks of 32 of k
    thread      c[tile_m, tile_n] in registers, y · tile_m rows down and x · tile_n columns along

    workgroup memory
      rows      [32][block_m] of a
      columns   [32][block_n] of each product's weights, as numbers

Each block of k: threads read a, four rows to a vector, and take the weights of four rows out of
their words, times their scales; then each adds the products of its rows and columns.

    rows[k * block_m / 4 + place] = vec4<f32>(a[…], a[… + K], a[… + 2K], a[… + 3K]);      // 2
    columns[…] = (vec4<f32>((words >> 4 * bit) & 15) - 8) * scales;                       // 3
    for (var k …) { sums_0 = fma(vec4<f32>(rows[…].x), columns[…], sums_0); … }           // 4
"""

from dataclasses import dataclass

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.quantised import BLOCK, WORD_BITS
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    ZERO,
    Frame,
    binary,
    f32_buffer,
    loop,
    number,
    serial,
    under,
    whole,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
    Barrier,
    BinaryOp,
    Block,
    Bound,
    Broadcast,
    Buffer,
    Cast,
    Const,
    Expression,
    ExtractLane,
    IndexValue,
    Lanes,
    Load,
    LoopKind,
    Program,
    Scope,
    Statement,
    Store,
)
from services.tuner.schedules.base.entry import entry_value
from services.tuner.schedules.base.parameters import Held, held_by, parameters_of
from services.tuner.schedules.base.quantised import (
    QuantisedProduct,
    Weights,
    quantised_product_of,
)
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.quantised_matmul.webgpu_config import WebgpuQuantisedMatmulConfig


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WebgpuQuantisedMatmulConfig.of(candidate)
    return ScheduledProgram(nests=(quantised_matmul_program(candidate.workload, config),))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kernel:
    """What all steps know: where the tile of the workgroup begins, and which is the thread's."""

    config: WebgpuQuantisedMatmulConfig
    product: QuantisedProduct
    held: Held
    frame: Frame
    thread: Affine
    first_m: Affine
    first_n: Affine
    x: Affine
    y: Affine
    rows: Buffer
    columns: tuple[Buffer, ...]
    sums: Buffer

    def load(self, name: str, index: Affine) -> Load:
        return Load(buffer=self.held[name][0], index=index)

    def sum_at(self, product: int, row: int, quad: int) -> Affine:
        quads = self.config.tile_n // LANES
        return _at(((product * self.config.tile_m + row) * quads + quad) * LANES)


def _at(constant: int) -> Affine:
    return Affine(constant=constant)


def quantised_matmul_program(workload: Workload, config: WebgpuQuantisedMatmulConfig) -> Program:
    """One dispatch; its parameters are those of the workload, flat."""
    product, frame = quantised_product_of(workload), Frame()
    parameters = parameters_of(workload)
    # 1. Which tile is the workgroup's, and which the thread's.
    down, along = -(-product.m // config.block_m), -(-product.n // config.block_n)
    group = frame.variable("group", down * along)
    thread = frame.variable("thread", config.threads)
    own_m, own_n = frame.delinearize(group, (("own_m", down), ("own_n", along)))
    y, x = frame.delinearize(
        thread,
        (("y", config.block_m // config.tile_m), ("x", config.block_n // config.tile_n)),
    )
    products = range(len(product.weights))
    kernel = _Kernel(
        config=config,
        product=product,
        held=held_by(workload),
        frame=frame,
        thread=thread,
        first_m=own_m.times(config.block_m),
        first_n=own_n.times(config.block_n),
        x=x,
        y=y,
        rows=f32_buffer("rows", BLOCK * config.block_m, Scope.WORKGROUP),
        columns=tuple(
            f32_buffer(f"columns{n}", BLOCK * config.block_n, Scope.WORKGROUP) for n in products
        ),
        sums=f32_buffer("sums", len(products) * config.tile_m * config.tile_n, Scope.LOCAL),
    )
    zero = Const(value=0, dtype=DType.F32, lanes=LANES)
    zeros = tuple(
        Store(buffer=kernel.sums, index=_at(n), value=zero)
        for n in range(0, kernel.sums.size, LANES)
    )
    # 2 to 4. Block by block of k.
    block = frame.variable("block", product.k // BLOCK)
    weights = tuple(s for n in products for s in _weights(kernel, n, block))
    inner = (*_activations(kernel, block), *weights, Barrier(), *_products(kernel), Barrier())
    body: Block = (*zeros, *serial("block", product.k // BLOCK, inner))
    # 5. Each thread stores its entries.
    body = (*body, *_stores(kernel))
    body = (Allocate(buffer=kernel.sums, body=body),)
    nest: Block = (loop("thread", config.threads, LoopKind.THREAD_INDEX, frame.enclose(body)),)
    for buffer in (kernel.rows, *kernel.columns):
        nest = (Allocate(buffer=buffer, body=nest),)
    return Program(parameters=parameters, body=loop("group", down * along, LoopKind.RANGE, nest))


# Step 2: four rows of a to a vector; threads side by side read neighbours of one row.


def _activations(kernel: _Kernel, block: Affine) -> Block:
    product, quads = kernel.product, kernel.config.block_m // LANES
    inside = kernel.frame.nested()
    items = quads * BLOCK
    place, exists, turns = _turn(kernel, inside, "read_a", items)
    quad, k = inside.delinearize(place, (("a_quad", quads), ("a_k", BLOCK)))
    entries = []
    for lane in range(LANES):
        row = kernel.first_m.plus(quad.times(LANES)).plus(_at(lane))
        row = inside.clamped(f"a_row{lane}", row, product.m, 1)
        index = row.times(product.k).plus(block.times(BLOCK)).plus(k)
        entries.append(kernel.load(product.a, index))
    index = k.times(kernel.config.block_m).plus(quad.times(LANES))
    store = Store(buffer=kernel.rows, index=index, value=Lanes(values=tuple(entries)))
    return serial("read_a", turns, inside.enclose(under(exists, (store,))))


def _turn(
    kernel: _Kernel, inside: Frame, var: str, items: int
) -> tuple[Affine, tuple[Bound, ...], int]:
    """The thread's item in each turn, whether there is one, and the number of turns."""
    turns = -(-items // kernel.config.threads)
    place = inside.variable(var, turns).times(kernel.config.threads).plus(kernel.thread)
    exists = inside.undecided((Bound(index=place, limit=items),))
    return inside.clamped(f"{var}.place", place, items, 1), exists, turns


# Step 3: the weights of four rows to a vector, word by word.


def _weights(kernel: _Kernel, number_: int, block: Affine) -> Block:
    operand, product = kernel.product.weights[number_], kernel.product
    per_word = WORD_BITS // operand.width
    words, quads = BLOCK // per_word, kernel.config.block_n // LANES
    inside = kernel.frame.nested()
    place, exists, turns = _turn(kernel, inside, f"read_b{number_}", quads * words)
    quad, word = inside.delinearize(
        place, ((f"b_quad{number_}", quads), (f"b_word{number_}", words))
    )
    blocks = product.k // BLOCK
    held, scales, zeros = [], [], []
    for lane in range(LANES):
        row = kernel.first_n.plus(quad.times(LANES)).plus(_at(lane))
        row = inside.clamped(f"b_row{number_}.{lane}", row, product.n, 1)
        row = row.plus(_at(operand.first_row))
        at = row.times(blocks).plus(block)
        held.append(kernel.load(operand.words, at.times(words).plus(word)))
        scales.append(kernel.load(operand.scales, at))
        zeros.append(_zero(kernel, operand, row, block, inside, number_))
    packed = Buffer(name=f"packed{number_}", scope=Scope.LOCAL, dtype=DType.I32, size=LANES)
    scale = f32_buffer(f"scale{number_}", LANES, Scope.LOCAL)
    zero = f32_buffer(f"zero{number_}", LANES, Scope.LOCAL)
    body: list[Statement] = [
        Store(buffer=into, index=ZERO, value=Lanes(values=tuple(values)))
        for into, values in ((packed, held), (scale, scales), (zero, zeros))
    ]
    mask = Const(value=(1 << operand.width) - 1, dtype=DType.I32, lanes=LANES)
    for bit in range(per_word):
        value: Expression = Load(buffer=packed, index=ZERO, lanes=LANES)
        if bit:
            value = binary(BinaryOp.SHIFT_RIGHT, value, whole(bit * operand.width))
        value = Cast(value=binary(BinaryOp.AND, value, mask), dtype=DType.F32)
        value = binary(BinaryOp.SUB, value, Load(buffer=zero, index=ZERO, lanes=LANES))
        value = binary(BinaryOp.MUL, value, Load(buffer=scale, index=ZERO, lanes=LANES))
        k = word.times(per_word).plus(_at(bit))
        index = k.times(kernel.config.block_n).plus(quad.times(LANES))
        body.append(Store(buffer=kernel.columns[number_], index=index, value=value))
    block_: Block = tuple(body)
    for buffer in (packed, scale, zero):
        block_ = (Allocate(buffer=buffer, body=block_),)
    return serial(f"read_b{number_}", turns, inside.enclose(under(exists, block_)))


def _zero(
    kernel: _Kernel, operand: Weights, row: Affine, block: Affine, inside: Frame, number_: int
) -> Expression:
    if not operand.zeros:
        return number(float(1 << (operand.width - 1)))
    per_word = WORD_BITS // 4
    words = -(-(kernel.product.k // BLOCK) // per_word)
    names = f"zero_word{number_}", f"zero_digit{number_}"
    if names[0] not in inside.ranges:
        for name, op, most in zip(
            names,
            (BinaryOp.FLOOR_DIV, BinaryOp.FLOOR_MOD),
            (words - 1, per_word - 1),
            strict=True,
        ):
            inside.let(name, binary(op, IndexValue(index=block), whole(per_word)), most)
    held = kernel.load(operand.zeros, row.times(words).plus(Affine.variable(names[0])))
    shift = IndexValue(index=Affine.variable(names[1]).times(4))
    bits = binary(BinaryOp.AND, binary(BinaryOp.SHIFT_RIGHT, held, shift), whole(15))
    return Cast(value=bits, dtype=DType.F32)


# Step 4: products of the thread's rows and columns.


def _products(kernel: _Kernel) -> Block:
    config, k = kernel.config, Affine.variable("k")
    body: list[Statement] = []
    for number_, columns in enumerate(kernel.columns):
        for quad in range(config.tile_n // LANES):
            column = kernel.x.times(config.tile_n).plus(_at(quad * LANES))
            index = k.times(config.block_n).plus(column)
            right = Load(buffer=columns, index=index, lanes=LANES)
            for row in range(config.tile_m):
                quad_m, lane = divmod(row, LANES)
                place = kernel.y.times(config.tile_m).plus(_at(quad_m * LANES))
                index = k.times(config.block_m).plus(place)
                left = Load(buffer=kernel.rows, index=index, lanes=LANES)
                one = Broadcast(value=ExtractLane(value=left, lane=lane), lanes=LANES)
                at = kernel.sum_at(number_, row, quad)
                so_far = Load(buffer=kernel.sums, index=at, lanes=LANES)
                value = binary(BinaryOp.ADD, so_far, binary(BinaryOp.MUL, one, right))
                body.append(Store(buffer=kernel.sums, index=at, value=value))
    return serial("k", BLOCK, tuple(body))


# Step 5: the entries of the output.


def _stores(kernel: _Kernel) -> Block:
    config, product = kernel.config, kernel.product
    output, shape = kernel.held[list(kernel.held)[-1]]
    i, j = product.axes
    body: Block = ()
    for row in range(config.tile_m):
        at_m = kernel.first_m.plus(kernel.y.times(config.tile_m)).plus(_at(row))
        for column in range(config.tile_n):
            at_n = kernel.first_n.plus(kernel.x.times(config.tile_n)).plus(_at(column))
            quad, lane = divmod(column, LANES)
            made = {
                name: ExtractLane(
                    value=Load(buffer=kernel.sums, index=kernel.sum_at(n, row, quad), lanes=LANES),
                    lane=lane,
                )
                for n, name in enumerate(product.products)
            }
            value = entry_value(product.value, {i.name: at_m, j.name: at_n}, kernel.held, made)
            store = Store(buffer=output, index=at_m.times(shape[-1]).plus(at_n), value=value)
            bounds = (Bound(index=at_m, limit=product.m), Bound(index=at_n, limit=product.n))
            body = (*body, *under(kernel.frame.undecided(bounds), (store,)))
    return body
