"""How threads that share the sums of a tile add them up: in workgroup memory, by halves.

In each round the upper half of the layers that are left keep their sums there, and those below add
them to their own, until one layer has all. So half of all sums are the most that lie there. A layer
keeps its sums where it has just read those of another: no barrier stands between two rounds.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import binary, under, unrolled, vector
from services.tuner.ir.kinds import LANES, BinaryOp, Element, Scope
from services.tuner.ir.nodes import Barrier, Block, Bound, Buffer, Load, Statement, Store
from services.tuner.webgpu.contraction import Cache, Prefetch, TilesConfig
from services.tuner.webgpu.place import Place


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Layers from `first` up to `middle` add the sums of those from there up to `last`, that lie in
    slots `shift` above the number of who adds."""

    first: int
    middle: int
    last: int
    shift: int


def layers_of(config: TilesConfig) -> tuple[Buffer, ...]:
    """What holds the sums of layers, and before that the blocks of a and b, where it does."""
    if config.depth == 1:
        return ()
    size = config.workgroup_bytes // Element.F32.size_bytes
    return (Buffer(name="layers", scope=Scope.WORKGROUP, element=Element.F32, size=size),)


def added(config: TilesConfig, place: Place, sums: Buffer, stores: Block) -> Block:
    """What stores the sums, once those of all layers are one."""
    shared = layers_of(config)
    if not shared:
        return stores
    found: Block = (Barrier(),) if _still_read(config) else ()
    for each in rounds(config.depth):
        kept, more = _round(config, place, sums, shared[0], each)
        above = _between(place.layer, each.middle, each.last, config.depth)
        below = _between(place.layer, each.first, each.middle, config.depth)
        last = stores if each.middle == 1 else ()
        found = (*found, *under(above, (kept,)), Barrier(), *under(below, (more, *last)))
    return found


def _still_read(config: TilesConfig) -> bool:
    """Whether threads may still read blocks where others would keep their sums."""
    return config.cache is not Cache.NONE and config.prefetch is not Prefetch.BLOCKS


def rounds(depth: int) -> Iterator[Round]:
    """Of an odd number, the first layer waits. Slots are numbered from the first that reads."""
    odd = depth % 2
    left = depth
    while left > 1:
        half = left // 2
        shift = -odd if left == depth else half - odd
        yield Round(first=left % 2, middle=left - half, last=left, shift=shift)
        left -= half


def _between(layer: Affine, first: int, last: int, depth: int) -> tuple[Bound, ...]:
    lower = (Bound(index=layer.times(-1), limit=1 - first),) if first else ()
    upper = (Bound(index=layer, limit=last),) if last < depth else ()
    return (*lower, *upper)


def _round(
    config: TilesConfig, place: Place, sums: Buffer, shared: Buffer, each: Round
) -> tuple[Statement, Statement]:
    """What keeps the sums of a thread, and what adds kept ones to them."""
    slots, count = config.depth // 2, sums.size // LANES
    reader = place.layer.plus(Affine(constant=each.shift))
    writer = reader.plus(Affine(constant=each.middle - each.last))
    own = Load(buffer=sums, index=Affine.of(0, {"lane": 1, "four": LANES}))

    def at(slot: Affine) -> Affine:
        """Of every vector of the sums; those of threads side by side lie side by side."""
        vectors = Affine.of(0, {"four": slots * config.rows * config.columns})
        return vectors.plus(place.among(slot, slots)).times(LANES).plus(Affine.variable("lane"))

    kept = Store(buffer=shared, index=at(writer), value=own)
    both = binary(BinaryOp.ADD, own, Load(buffer=shared, index=at(reader)))
    more = Store(buffer=sums, index=own.index, value=both)
    each_kept, each_more = (unrolled("four", count, vector("lane", one)) for one in (kept, more))
    return each_kept, each_more
