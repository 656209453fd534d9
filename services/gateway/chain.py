"""Chooses what a class is served for a workload on which it has not voted: the rule of the chain.

Steps are tried in the order of `HitLevel`; the store says what each of them offers. docs/chain.md.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import dist, inf, log2

from kernelzoo.domain.workload import Workload, WorkloadKey, is_program, parsed_workload
from kernelzoo.domain.zoo import HitLevel
from kernelzoo.store.chain import OfferRow, TimedKernelRow
from kernelzoo.store.zoo import ServedRow

PLACES = {str(level): place for place, level in enumerate(HitLevel)}

NEAR = 3.0
"""Octaves. From four on, the settings of the nearest winner lost more than the default did, by the
recorded measurements (docs/chain.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Borrowed:
    """A kernel that others chose, and what speaks for it."""

    offer: OfferRow
    kernel: TimedKernelRow


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedWorkload:
    """A class is served this for one workload; `borrowed` where it has no entry of its own."""

    row: ServedRow
    workload: Workload
    borrowed: Borrowed | None = None


def choose(offers: Iterable[OfferRow]) -> dict[str, OfferRow]:
    """By workload: of the first step that offers anything the offer of the nearest shape."""
    near = ((_rank(offer), offer) for offer in offers)
    ranked = sorted((each for each in near if each[0][1] <= NEAR), key=lambda each: each[0])
    best: dict[str, OfferRow] = {}
    for _, offer in ranked:
        best.setdefault(offer.workload_key, offer)
    return best


def _rank(offer: OfferRow) -> tuple[int, float, str]:
    far = shape_distance(offer.workload_key, offer.neighbour) if offer.neighbour else 0.0
    return PLACES[offer.level], far, offer.neighbour


def answers(
    rows: Iterable[ServedRow],
    workloads: Mapping[WorkloadKey, Workload],
    chosen: dict[str, OfferRow],
    kernels: Iterable[TimedKernelRow],
) -> list[ServedWorkload]:
    """Joins rows, offers and kernels, in the order of `rows`. `kernels`: those of the chosen
    offers."""
    by_id = {kernel.candidate_id: kernel for kernel in kernels}

    def borrowed(row: ServedRow) -> Borrowed | None:
        offer = chosen.get(row.workload_key)
        kernel = by_id.get(offer.candidate_id) if offer else None
        return Borrowed(offer=offer, kernel=kernel) if offer and kernel else None

    return [
        ServedWorkload(row=row, workload=workloads[row.workload_key], borrowed=borrowed(row))
        for row in rows
    ]


def shape_distance(one_key: str, other_key: str) -> float:
    """Between two shapes of one operator, in octaves: the root of the sum of squares over the
    extents. What is no extent, as a stride, must be equal: else they are infinitely far. So are
    programs, of which a name says nothing.
    """
    if is_program(one_key) or is_program(other_key):
        return inf
    one, other = _shape(one_key), _shape(other_key)
    if one.attributes != other.attributes:
        return inf
    return dist(one.octaves, other.octaves)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """`octaves`: binary logarithms of the extents, in the order of the operator's axes."""

    attributes: tuple[int, ...]
    octaves: tuple[float, ...]


@lru_cache(maxsize=1 << 12)
def _shape(key: str) -> _Shape:
    """Reads each key once: a class has won hundreds of shapes, and each is compared with all that a
    model asks for."""
    workload = parsed_workload(key)
    given, attributes = workload.given, workload.operator.attributes
    return _Shape(
        attributes=tuple(given[name] for name in attributes),
        octaves=tuple(log2(extent) for axis, extent in given.items() if axis not in attributes),
    )
