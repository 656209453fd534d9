"""The order in which a workgroup reads blocks of k, keeps them and uses them."""

from collections.abc import Callable
from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, serial, under
from services.tuner.ir.nodes import Barrier, Block, Bound
from services.tuner.schedules.matmul.webgpu_config import Prefetch


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """The steps that a cached contraction orders in one way or another, for `count` blocks.

    Steps that touch workgroup memory take the half of it that they use, 0 or 1.
    """

    count: int
    reading: Callable[..., Block]
    at: Callable[..., Block]
    copied: Callable[[Affine], Block]
    products: Callable[[Affine], Block]

    def ahead(self, body: Callable[[], Block]) -> Block:
        """What is done where another block follows this one."""
        if self.count == 1:
            return ()
        return under((Bound(index=Affine.variable("block"), limit=self.count - 1),), body())

    def block(self, prefetch: Prefetch) -> Block:
        """All steps for all blocks."""
        return _FLOWS[prefetch](self)

    def next(self) -> Block:
        return self.ahead(lambda: self.reading(Affine.of(1, {"block": 1}), self.at, self.count - 1))


def _plain_flow(flow: Flow) -> Block:
    body = (
        *flow.reading(Affine.variable("block"), flow.at),
        Barrier(),
        *flow.copied(Affine(constant=0)),
        Barrier(),
        *flow.products(Affine(constant=0)),
    )
    return serial("block", flow.count, body)


def _prefetching_flow(flow: Flow) -> Block:
    body = (
        Barrier(),
        *flow.copied(Affine(constant=0)),
        Barrier(),
        *flow.next(),
        *flow.products(Affine(constant=0)),
    )
    return (*flow.reading(Affine(constant=0), flow.at), *serial("block", flow.count, body))


def _alternating_flow(flow: Flow) -> Block:
    """Blocks use the halves of workgroup memory in turn: what is written is not what is read."""
    inside = Frame(ranges={"block": (0, flow.count - 1)})
    this = inside.parity("this", Affine.variable("block"))
    other = inside.parity("other", Affine.of(1, {"block": 1}))
    body = (
        *flow.next(),
        *flow.products(this),
        *flow.ahead(lambda: flow.copied(other)),
        Barrier(),
    )
    before = (
        *flow.reading(Affine(constant=0), flow.at),
        *flow.copied(Affine(constant=0)),
        Barrier(),
    )
    return (*before, *serial("block", flow.count, inside.around(body)))


_FLOWS = {
    Prefetch.NONE: _plain_flow,
    Prefetch.REGISTERS: _prefetching_flow,
    Prefetch.BLOCKS: _alternating_flow,
}
