"""Accesses to buffers that were stated larger than they are, flattened and guarded."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from services.tuner.ir.affine import Affine, Range
from services.tuner.ir.nodes import Block, Bound, Buffer, If


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """An element of a buffer, and what must hold for the element to exist."""

    buffer: Buffer
    index: Affine
    bounds: tuple[Bound, ...]


def flat_size(shape: tuple[int, ...]) -> int:
    return prod(shape)


def access(
    buffer: Buffer, at: tuple[Affine, ...], shape: tuple[int, ...], stated: tuple[int, ...]
) -> Access:
    """Row-major flattening by the true `shape`; a bound for each axis `stated` larger than it."""
    flat = Affine(constant=0)
    for index, extent in zip(at, shape, strict=True):
        flat = flat.times(extent).plus(index) if flat.terms or flat.constant else index
    bounds = tuple(
        Bound(index=index, limit=extent)
        for index, extent, rounded in zip(at, shape, stated, strict=True)
        if rounded > extent
    )
    return Access(buffer=buffer, index=flat, bounds=bounds)


def guarded(block: Block, accesses: Sequence[Access], ranges: Mapping[str, Range]) -> Block:
    """The block under every bound that its loops do not already keep."""
    bounds = dict.fromkeys(bound for one in accesses for bound in one.bounds)
    open_bounds = tuple(b for b in bounds if b.index.bounds(ranges)[1] >= b.limit)
    return (If(bounds=open_bounds, body=block),) if open_bounds else block
