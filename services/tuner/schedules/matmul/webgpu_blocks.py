"""How the summed axis of a contraction is read: in blocks, the last of which may end inside."""

from collections.abc import Callable

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import Frame, under
from services.tuner.ir.nodes import Block, Bound
from services.tuner.schedules.matmul.webgpu_config import TilesConfig
from services.tuner.schedules.matmul.webgpu_operands import Operand
from services.tuner.schedules.matmul.webgpu_place import Place


def in_blocks(
    frame: Frame, place: Place, config: TilesConfig, a: Operand
) -> tuple[int, Callable[[Affine, Callable[..., Block]], Block]]:
    """How many blocks of k a workgroup has, and what reads one: the last may end inside. Single
    elements of windows have conditions anyway, and are not worth a second copy."""
    k, gathers = a.k, a.window is not None and not a.wide
    count = -(-k // config.block_k) // config.split_k
    frame.variable("block", count)

    def reading(number: Affine, at: Callable[..., Block], blocks: int = count) -> Block:
        """Of block `number`, a form of "block", of which there are `blocks` here."""
        which = place.part.times(count).plus(number)
        start = which.times(config.block_k)
        frame.ranges["block"] = (0, max(1, blocks) - 1)
        low, high = which.bounds(frame.ranges)
        full = k // config.block_k
        if high < full:
            return at(start, tail=False)
        if gathers and low < full:
            return at(start, tail=True)
        tail = at(Affine(constant=full * config.block_k), tail=True)
        if low >= full:
            return tail
        return under((Bound(index=which, limit=full),), at(start, tail=False), tail)

    return count, reading
