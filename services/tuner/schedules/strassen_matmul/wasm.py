"""A product by Strassen's algorithm for wasm: seven products of quarters instead of eight.

    a = [[a11, a12], [a21, a22]]        b and c likewise

    1: (a11 + a22) · (b11 + b22)        c11 = 1 + 4 - 5 + 7
    2: (a21 + a22) · b11                c12 = 3 + 5
    3: a11 · (b12 - b22)                c21 = 2 + 4
    4: a22 · (b21 - b11)                c22 = 1 - 2 + 3 + 6
    5: (a11 + a12) · b22
    6: (a21 - a11) · (b11 + b12)
    7: (a12 - a22) · (b21 + b22)

Shapes, named by the settings of `WasmStrassenMatmulConfig`:

    range         block_m rows of each half of a, block_n columns of each half of b
    b             [n / tile_n][k][tile_n]                  panels, packed before
    row_sums      [5][block_m, k / 2]                      of quarters of a
    panel_sums    [5][k / 2][tile_n]                       of quarters of two panels of b
    kept          [4][block_m, tile_n]                     quarters of the output in the making
    tile          of a product: tile_m x tile_n, sums in registers
    loop body     unroll_k of k / 2

What it makes of matmul+bias:f32:m24k8n32:constant=b with tiles of 6x8, block_m=12, block_n=16:

    for block < 1 range:
      for row < 12, k < 4: row_sums[…] = a[…] + a[…]       1. five sums
      for panel < 2:
        next = min(panel + 1, 1)
        for entry < 32: panel_sums[…] = b[…] + b[…]        2. five sums
        for product in 1, 2, 3, 6, 4, 5, 7:                3. written out
          for m1 < 2:                                      4. tiles of 6 rows
            sums[48] = 0 or kept[…]
            for k1 < 4:
              ahead = b[next, …]                           5. in products 5 and 7; nobody uses it
              sums[8·m0 + n0] += left[…] · right[…]        m0 < 6 unrolled, n0 < 8 vector
            kept[…] = sums[…] and kept[…]                  6. what others want of it
            c[…] = sums[…] + kept[…] + bias[…]             7. after 6, 4, 5 and 7

All tiles of a product pass by its panel before the next product, since a panel of a quarter fits
the first cache: 384x2048x512 took 2 % longer with the products of a tile side by side. Rounding
errors are bounded by the largest entries of a and b, not by those of a row and a column (Higham,
Accuracy and Stability, section 23.2.2).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.workload import Workload
from services.tuner import ir
from services.tuner.passes.pipeline import PassOptions
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.base.finish import stored_product
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.row_tiles import RowTiles, row_tiles
from services.tuner.schedules.base.scheduled import ScheduledProgram, panels_layout
from services.tuner.schedules.base.tile_sums import TileSums
from services.tuner.schedules.strassen_matmul.config import KEPT, SUMS, WasmStrassenMatmulConfig


class Quarter(IntEnum):
    """A quarter of a matrix, by its half of the rows and its half of the columns."""

    Q11 = 0
    Q12 = 1
    Q21 = 2
    Q22 = 3

    @property
    def lower(self) -> int:
        return self // 2

    @property
    def right(self) -> int:
        return self % 2


Q11, Q12, Q21, Q22 = Quarter
ADD, SUB = ir.BinaryOp.ADD, ir.BinaryOp.SUB
Sum = tuple[Quarter, ir.BinaryOp, Quarter]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Product:
    """The product of a quarter of a, or a sum of two, and such of b. Its sums start from what is
    kept of the quarter `begun`. It becomes the first that is kept of `first`, and `changes` what is
    kept of others. Then the quarter `done` is complete: kept and product together."""

    left: Quarter | Sum
    right: Quarter | Sum
    begun: Quarter | None = None
    first: tuple[Quarter, ...] = ()
    changes: tuple[tuple[ir.BinaryOp, Quarter], ...] = ()
    done: Quarter | None = None


PRODUCTS = (
    _Product(left=(Q11, ADD, Q22), right=(Q11, ADD, Q22), first=(Q11, Q22)),
    _Product(left=(Q21, ADD, Q22), right=Q11, first=(Q21,), changes=((SUB, Q22),)),
    _Product(left=Q11, right=(Q12, SUB, Q22), first=(Q12,), changes=((ADD, Q22),)),
    _Product(left=(Q21, SUB, Q11), right=(Q11, ADD, Q12), begun=Q22, done=Q22),
    _Product(left=Q22, right=(Q21, SUB, Q11), changes=((ADD, Q11),), done=Q21),
    _Product(left=(Q11, ADD, Q12), right=Q22, changes=((SUB, Q11),), done=Q12),
    _Product(left=(Q12, SUB, Q22), right=(Q21, ADD, Q22), begun=Q11, done=Q11),
)
"""Products 1, 2, 3, 6, 4, 5 and 7."""

LEFT_SUMS = tuple(each.left for each in PRODUCTS if not isinstance(each.left, Quarter))
RIGHT_SUMS = tuple(each.right for each in PRODUCTS if not isinstance(each.right, Quarter))


def lower(candidate: Candidate) -> ScheduledProgram:
    config = WasmStrassenMatmulConfig.of(candidate)
    return ScheduledProgram(
        nests=(_StrassenMatmulNest(candidate.workload, config).program(),),
        options=PassOptions(fma=config.fma),
        layout=panels_layout(config.tile_n),
    )


class _StrassenMatmulNest:
    """`parameters` are those of the workload, flat. Rows, columns and k are of quarters; a panel is
    that of the left half, with which the one of the right half goes."""

    def __init__(self, workload: Workload, config: WasmStrassenMatmulConfig) -> None:
        self.extents, self.config = Extents.of(workload), config
        self.parameters, self.k = parameters_of(workload), self.extents.k // 2
        self.row_sums = ir.scratch("row_sums", SUMS * config.block_m * self.k)
        self.panel_sums = ir.scratch("panel_sums", SUMS * self.k * config.tile_n)
        self.kept = ir.scratch("kept", KEPT * config.block_m * config.tile_n)

    def program(self) -> ir.Program:
        extents, config, frame = self.extents, self.config, ir.Frame()
        down, across = extents.m // 2 // config.block_m, extents.n // 2 // config.block_n
        block = frame.variable("block", config.range_extent(extents))
        rows, columns = frame.delinearize(block, (("rows", down), ("columns", across)))
        first, panels = rows * config.block_m, config.block_n // config.tile_n
        within = frame.nested()
        panel = columns * panels + within.variable("panel", panels)
        following = within.least("next", panel + 1, across * panels - 1)
        one_panel = (*self._summed_panel(panel), *self._products(first, panel, following))
        body: ir.Block = (
            *self._summed_rows(first),
            *ir.serial("panel", panels, within.enclose(one_panel)),
        )
        body = ir.allocated((self.row_sums, self.panel_sums, self.kept), body)
        extent = config.range_extent(extents)
        return ir.program(self.parameters, "block", extent, frame.enclose(body))

    # Where entries lie.

    def _of_rows(self, quarter: Quarter, row: ir.Affine, k: ir.Affine) -> ir.Load:
        """An entry of a quarter of a."""
        below = row + quarter.lower * self.extents.m // 2
        index = below * self.extents.k + k + quarter.right * self.k
        return self.parameters[0][index]

    def _of_panel(self, quarter: Quarter, panel: ir.Affine, entry: ir.Affine) -> ir.Load:
        """An entry of a quarter of b, by its place in the panel of that quarter."""
        width, of_half = self.config.tile_n, self.extents.n // 2 // self.config.tile_n
        there = (panel + quarter.right * of_half) * (self.extents.k * width)
        index = there + entry + quarter.lower * self.k * width
        return self.parameters[1][index]

    # Steps 1 and 2.

    def _summed_rows(self, first: ir.Affine) -> ir.Block:
        row, k = ir.variable("row"), ir.affine(k1=ir.LANES, lane=1)
        at, size = row * self.k + k, self.config.block_m * self.k

        def entry(quarter: Quarter) -> ir.Load:
            return self._of_rows(quarter, first + row, k)

        stores = _stored_sums(LEFT_SUMS, self.row_sums, at, size, entry)
        return ir.serial("row", self.config.block_m, ir.serial("k1", self.k // ir.LANES, stores))

    def _summed_panel(self, panel: ir.Affine) -> ir.Block:
        at, size = ir.affine(entry=ir.LANES, lane=1), self.k * self.config.tile_n

        def entry(quarter: Quarter) -> ir.Load:
            return self._of_panel(quarter, panel, at)

        stores = _stored_sums(RIGHT_SUMS, self.panel_sums, at, size, entry)
        return ir.serial("entry", size // ir.LANES, stores)

    # Steps 3 to 6.

    def _products(self, first: ir.Affine, panel: ir.Affine, following: ir.Affine) -> ir.Block:
        """All tiles of one product before the next, for which its panel is in the first cache. The
        last two read the following panel of each half."""
        body: ir.Block = ()
        for place, product in enumerate(PRODUCTS, start=-len(PRODUCTS)):
            half = place + 2
            for tiles in row_tiles(self.config.block_m, self.config.tile_m):
                frame = ir.Frame()
                ahead = self._ahead(frame, tiles, following, half) if half >= 0 else None
                tile = self._product(product, tiles, (first, panel), ahead)
                body = (*body, *ir.serial("m1", tiles.count, frame.enclose(tile)))
        return body

    def _ahead(self, frame: ir.Frame, tiles: RowTiles, following: ir.Affine, half: int) -> ir.Load:
        """Reads ahead for a body: each tile has its part of a panel."""
        size, bodies = self.extents.k * self.config.tile_n, self.k // self.config.unroll_k
        count = -(-self.config.block_m // self.config.tile_m)
        step = -(-size // (bodies * count))
        panel = following + half * self.extents.n // 2 // self.config.tile_n
        word = tiles.read_ahead(frame, bodies, step, size)
        return self.parameters[1][panel * size + word]

    def _product(
        self,
        product: _Product,
        tiles: RowTiles,
        at: tuple[ir.Affine, ir.Affine],
        ahead: ir.Load | None,
    ) -> ir.Block:
        """The tiles of a product `at` a first row and a panel."""
        config, width, rows = self.config, self.config.tile_n, tiles.rows
        (first, panel), lane = at, ir.variable("n0")
        sums = TileSums(rows, width, "m0", "n0")
        unused = ir.local("ahead", 1)
        row = ir.affine(tiles.first, m1=rows, m0=1)
        k = ir.affine(k1=config.unroll_k, k0=1)
        entry = k * width + lane
        terms = self._left(product, first, row, k) * self._right(product, panel, entry)

        def kept(quarter: Quarter) -> ir.Load:
            place = row + quarter * config.block_m
            return self.kept[place * width + lane]

        def keep(quarter: Quarter, value: ir.Expression) -> ir.Block:
            return sums.each(self.kept.store(kept(quarter).index, value))

        begun = ir.number(0) if product.begun is None else kept(product.begun)
        read = () if ahead is None else (unused.store(0, ahead),)
        body = (*read, *sums.add(config.unroll_k, terms))
        block: ir.Block = (
            *sums.start(begun),
            *ir.serial("k1", self.k // config.unroll_k, body),
        )
        for quarter in product.first:
            block = (*block, *keep(quarter, sums.held))
        for op, quarter in product.changes:
            changed = ir.Binary(op=op, left=kept(quarter), right=sums.held)
            block = (*block, *keep(quarter, changed))
        if product.done is not None:
            value = sums.held if product.begun is not None else kept(product.done) + sums.held
            place = (first + row, panel * width + lane)
            block = (*block, *sums.each(self._entry(product.done, place, value)))
        return ir.allocated((unused, sums.buffer), block)

    def _left(self, product: _Product, first: ir.Affine, row: ir.Affine, k: ir.Affine) -> ir.Load:
        if isinstance(product.left, Quarter):
            return self._of_rows(product.left, first + row, k)
        size = self.config.block_m * self.k
        place = ir.constant(LEFT_SUMS.index(product.left) * size)
        return self.row_sums[row * self.k + k + place]

    def _right(self, product: _Product, panel: ir.Affine, entry: ir.Affine) -> ir.Load:
        if isinstance(product.right, Quarter):
            return self._of_panel(product.right, panel, entry)
        place = ir.constant(RIGHT_SUMS.index(product.right) * self.k * self.config.tile_n)
        return self.panel_sums[entry + place]

    def _entry(
        self, quarter: Quarter, at: tuple[ir.Affine, ir.Affine], value: ir.Expression
    ) -> ir.Store:
        """Stores an entry of a quarter of the output, given its sum."""
        row = at[0] + quarter.lower * self.extents.m // 2
        column = at[1] + quarter.right * self.extents.n // 2
        return stored_product(self.extents, self.parameters, (ir.ZERO, row, column), value)


def _stored_sums(
    sums: tuple[Sum, ...],
    into: ir.Buffer,
    at: ir.Affine,
    size: int,
    entry: Callable[[Quarter], ir.Load],
) -> ir.Block:
    """Stores an entry of all sums, `size` apart, given that of each quarter."""
    stores = (
        into.store(at + place * size, ir.Binary(op=op, left=entry(left), right=entry(right)))
        for place, (left, op, right) in enumerate(sums)
    )
    return (ir.vector("lane", *stores),)
