"""How threads that share the sums of a tile add them up: in workgroup memory, as many as fit there.

In each round the upper layers of threads keep their sums there, and those below add them to their
own, until one layer has all. One round is the fastest: rounds wait for barriers.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from services.tuner.ir.affine import Affine
from services.tuner.ir.build import binary, serial, under, unrolled, vector
from services.tuner.ir.kinds import LANES, BinaryOp, Element, Scope
from services.tuner.ir.nodes import Barrier, Block, Bound, Buffer, Load, Store
from services.tuner.schedules.matmul.webgpu_config import Cache, Prefetch, TilesConfig
from services.tuner.schedules.matmul.webgpu_place import Place

ABOVE = "above"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """Layers from `middle` up to `last` keep their sums, in slots from 0 on. Each of those below
    adds the sums of every `middle`-th slot, from that of its own number on."""

    middle: int
    last: int

    @property
    def kept(self) -> int:
        return self.last - self.middle


def rounds(depth: int, slots: int) -> Iterator[Round]:
    left = depth
    while left > 1:
        middle = max(1, left - slots)
        yield Round(middle=middle, last=left)
        left = middle


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
    found: Block = ()
    # After blocks that alternate a barrier stands anyway.
    still_read = config.cache is not Cache.NONE and config.prefetch is not Prefetch.BLOCKS
    for each in rounds(config.depth, config.layer_slots):
        before = (Barrier(),) if still_read else ()
        above = _above(config, place, each)
        below = (Bound(index=place.layer, limit=min(each.middle, each.kept)),)
        more = _added(config, place, sums, shared[0], each)
        last = stores if each.middle == 1 else ()
        kept = under(above, _kept(config, place, sums, shared[0], each))
        found = (*found, *before, *kept, Barrier(), *under(below, (*more, *last)))
        still_read = True
    return found


def _above(config: TilesConfig, place: Place, each: Round) -> tuple[Bound, ...]:
    """What holds in layers that keep their sums."""
    lower = Bound(index=place.layer.times(-1), limit=1 - each.middle)
    upper = Bound(index=place.layer, limit=each.last)
    return (lower, upper) if each.last < config.depth else (lower,)


def _kept(config: TilesConfig, place: Place, sums: Buffer, shared: Buffer, each: Round) -> Block:
    slot = place.layer.plus(Affine(constant=-each.middle))
    own = _own(sums)
    store = Store(buffer=shared, index=_at(config, place, slot), value=own)
    return (unrolled("four", sums.size // LANES, vector("lane", store)),)


def _added(config: TilesConfig, place: Place, sums: Buffer, shared: Buffer, each: Round) -> Block:
    slot = place.layer.plus(Affine.of(0, {ABOVE: each.middle}))
    own = _own(sums)
    both = binary(BinaryOp.ADD, own, Load(buffer=shared, index=_at(config, place, slot)))
    store = Store(buffer=sums, index=own.index, value=both)
    whole = each.kept <= each.middle or each.kept % each.middle == 0
    inside = () if whole else (Bound(index=slot, limit=each.kept),)
    body = (unrolled("four", sums.size // LANES, vector("lane", store)),)
    return serial(ABOVE, -(-each.kept // each.middle), under(inside, body))


def _own(sums: Buffer) -> Load:
    return Load(buffer=sums, index=Affine.of(0, {"lane": 1, "four": LANES}))


def _at(config: TilesConfig, place: Place, slot: Affine) -> Affine:
    """Of every vector of the sums; those of threads side by side lie side by side."""
    slots = config.layer_slots
    vectors = Affine.of(0, {"four": slots * config.rows * config.columns})
    return vectors.plus(place.among(slot, slots)).times(LANES).plus(Affine.variable("lane"))
