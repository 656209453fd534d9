"""The loop nest of depthwise convolutions and pooling for GPUs: a thread makes a few neighbouring
pixels, and reads each pixel of the image under them once for each row of the window."""

from math import prod

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.convolution import LOWEST
from kernelzoo.domain.workload import Workload
from services.tuner.ir.affine import Affine
from services.tuner.ir.build import (
    Frame,
    binary,
    loop,
    number,
    serial,
    under,
    unrolled,
    vector,
)
from services.tuner.ir.nodes import (
    LANES,
    Allocate,
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
from services.tuner.schedules.base.parameters import parameters_of
from services.tuner.schedules.base.scheduled import ScheduledProgram
from services.tuner.schedules.conv.webgpu_config import WebgpuConvConfig

MAX_UNROLLED = 16
"""Pixels of the image in one row under the tile of a thread; beyond it windows are a loop."""

MAX_ROWS_UNROLLED = 5
CHANNEL = Affine.variable("channel")


def lower(candidate: Candidate) -> ScheduledProgram:
    nests = conv_programs(candidate.workload, WebgpuConvConfig.of(candidate))
    return ScheduledProgram(nests=nests)


def conv_programs(workload: Workload, config: WebgpuConvConfig) -> tuple[Program, ...]:
    """One dispatch; its parameters are those of the workload, flat."""
    nest = _Nest(workload, config)
    body = nest.body()
    for buffer in (nest.sums, nest.pixel):
        body = (Allocate(buffer=buffer, body=body),)
    threads = loop("thread", config.threads, LoopKind.THREAD_INDEX, nest.frame.enclose(body))
    groups = loop("group", nest.groups, LoopKind.RANGE, (threads,))
    return (Program(parameters=nest.parameters, body=groups),)


class _Nest:
    def __init__(self, workload: Workload, config: WebgpuConvConfig) -> None:
        self.parameters = parameters_of(workload)
        self._e = e = workload.extent
        self._tile = config.tile_x
        self._largest = workload.operator.name == "max_pool2d"
        self._share = 1 / (e["kh"] * e["kw"]) if workload.operator.name == "avg_pool2d" else 1
        self._width = LANES if config.whole_vectors else 1
        size = config.tile_x * self._width
        self.sums = Buffer(name="sums", scope=Scope.LOCAL, dtype=DType.F32, size=size)
        self.pixel = Buffer(name="pixel", scope=Scope.LOCAL, dtype=DType.F32, size=self._width)
        self._places(config)

    def _places(self, config: WebgpuConvConfig) -> None:
        e, self.frame = self._e, Frame()
        parts = (
            ("image", e["b"]),
            ("y", e["y"]),
            ("x", -(-e["x"] // self._tile)),
            ("unit", e["c"] // self._width),
        )
        count = prod(size for _, size in parts)
        self.groups = -(-count // config.threads)
        group = self.frame.variable("group", self.groups)
        place = group.times(config.threads).plus(self.frame.variable("thread", config.threads))
        self._exists = self.frame.undecided((Bound(index=place, limit=count),))
        inside = self.frame.clamped("place", place, count, 1)
        self._image, self._y, x, unit = self.frame.delinearize(inside, parts)
        self._x = x.times(self._tile)
        self._channel = unit.times(self._width).plus(CHANNEL)

    def body(self) -> Block:
        here = Affine.of(0, {"i": self._width, "channel": 1})
        start = Store(buffer=self.sums, index=here, value=self._outside())
        first = unrolled("i", self._tile, self._lanes(start))
        return (first, *self._rows(), *under(self._exists, self._stored()))

    def _outside(self) -> Expression:
        return number(LOWEST if self._largest else 0)

    def _lanes(self, store: Store) -> Statement:
        return vector("channel", store) if self._width == LANES else unrolled("channel", 1, store)

    def _rows(self) -> Block:
        """Rows of the window that lie in the image."""
        e = self._e
        self.frame.variable("r", e["kh"])
        row = self._y.times(e["stride"]).plus(Affine.of(-e["pad"], {"r": 1}))
        bounds = self._inside(row, e["h"])
        body = under(bounds, self._row(row))
        if e["kh"] <= MAX_ROWS_UNROLLED and not self._long:
            return (unrolled("r", e["kh"], *body),)
        return serial("r", e["kh"], body)

    @property
    def _span(self) -> int:
        """Pixels in a row of the image under all windows of the thread."""
        return (self._tile - 1) * self._e["stride"] + self._e["kw"]

    @property
    def _long(self) -> bool:
        return self._span > MAX_UNROLLED

    def _inside(self, place: Affine, size: int) -> tuple[Bound, ...]:
        """Of the image."""
        return self.frame.undecided(
            (Bound(index=place, limit=size), Bound(index=place.times(-1), limit=1))
        )

    def _row(self, row: Affine) -> Block:
        if self._long:
            q = self.frame.variable("q", self._e["kw"])
            body = [
                statement
                for i in range(self._tile)
                for statement in self._column(
                    row, q.plus(Affine(constant=i * self._e["stride"])), [i]
                )
            ]
            return serial("q", self._e["kw"], tuple(body))
        found: list[Statement] = []
        for j in range(self._span):
            column = Affine(constant=j)
            under_it = [
                i for i in range(self._tile) if 0 <= j - i * self._e["stride"] < self._e["kw"]
            ]
            found += self._column(row, column, under_it) if under_it else ()
        return tuple(found)

    def _column(self, row: Affine, column: Affine, tiles: list[int]) -> Block:
        """Pixel `column` under the windows of the thread, added to those of `tiles`."""
        e = self._e
        x = self._x.times(e["stride"]).plus(column).plus(Affine(constant=-e["pad"]))
        line = self._image.times(e["h"]).plus(row)
        place = line.times(e["w"]).plus(x).times(e["c"]).plus(self._channel)
        load = Load(buffer=self.parameters[0], index=place)
        bounds = self._inside(x, e["w"])
        read, missing = (
            self._lanes(Store(buffer=self.pixel, index=CHANNEL, value=value))
            for value in (load, self._outside())
        )
        found: list[Statement] = [*under(bounds, (read,), (missing,) if bounds else ())]
        return (*found, *(self._added(column, i) for i in tiles))

    def _added(self, column: Affine, i: int) -> Statement:
        here = Affine(constant=i * self._width).plus(CHANNEL)
        value: Expression = Load(buffer=self.pixel, index=CHANNEL)
        if len(self.parameters) > 2:
            tap = Affine.of(0, {"r": self._e["kw"]}).plus(column)
            tap = tap.plus(Affine(constant=-i * self._e["stride"])).times(self._e["c"])
            weight = Load(buffer=self.parameters[1], index=tap.plus(self._channel))
            value = binary(BinaryOp.MUL, value, weight)
        op = BinaryOp.MAX if self._largest else BinaryOp.ADD
        whole = binary(op, Load(buffer=self.sums, index=here), value)
        return self._lanes(Store(buffer=self.sums, index=here, value=whole))

    def _stored(self) -> Block:
        e = self._e
        found: list[Statement] = []
        for i in range(self._tile):
            x = self._x.plus(Affine(constant=i))
            line = self._image.times(e["y"]).plus(self._y)
            place = line.times(e["x"]).plus(x).times(e["c"]).plus(self._channel)
            held = Affine(constant=i * self._width).plus(CHANNEL)
            value: Expression = Load(buffer=self.sums, index=held)
            if self._share != 1:
                value = binary(BinaryOp.MUL, value, number(self._share))
            store = self._lanes(Store(buffer=self.parameters[-1], index=place, value=value))
            found += under(self.frame.undecided((Bound(index=x, limit=e["x"]),)), (store,))
        return tuple(found)
