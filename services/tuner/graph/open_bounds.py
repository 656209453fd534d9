"""Chooses extents for the dimensions that a model leaves open, where nobody says any.

    input_ids[batch, sequence], 512 positions        batch=1..8 sequence=1..512
    input_ids[batch, sequence], past_key[batch, 8, past, 64], 512 positions,
        mask[batch, past + sequence]                 batch=1..8 sequence=1..256 past=0..256

The first axis that all inputs have is a batch. Others get one bound: 512, or the largest power of
two below with which activations take no more memory than weights, or than 64 MiB. Where the model
itself ends between two of these, as its table of positions does, the bound is where it ends.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.dimensions import NO_CONSTANTS, ConstantValue, free_dimensions
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import imported
from services.tuner.graph.memory import placed
from services.tuner.graph.ranges import ExtentRange
from services.tuner.graph.reading import OnnxModel, described

MOST_BATCH = 8
MOST = 512
LEAST = 4
"""The fewest extents that a range has."""
LEAST_BUDGET_BYTES = 64 << 20
"""A page has room for so many bytes of activations, and for as many as a model has weights."""
_WORDS = re.compile("[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenDimensions:
    """The dimensions of one plan: `ranges`, of which `batch` is one whose entries may run one after
    another, and `sums`, each with the dimensions that it is the sum of."""

    ranges: tuple[ExtentRange, ...]
    batch: str | None
    sums: Mapping[str, tuple[str, ...]]


def open_dimensions(
    model: OnnxModel, constants: Mapping[str, ConstantValue] = NO_CONSTANTS
) -> OpenDimensions | None:
    """None for a model that leaves nothing open. Raises InvalidInput and UnsupportedModel where the
    model cannot be imported for any extents that fit."""
    shapes = list(_shapes(model, constants))
    dims = dict.fromkeys(dim for shape in shapes for dim in shape if dim)
    names = list(dict.fromkeys(name for dim in dims for name in free_dimensions(dim)))
    if not names:
        return None
    batch = _batch(shapes, names)
    sums = _sums([name for name in names if name != batch])
    free = [name for name in names if name not in sums and name != batch] or names
    entries = {batch: 1} if batch else {}

    def at(extent: int, **others: int) -> Graph:
        sizes = {**entries, **dict.fromkeys(free, extent), **others}
        sizes |= {name: sum(sizes[term] for term in terms) for name, terms in sums.items()}
        return imported(model, sizes, constants=constants)

    most = _bound(at, MOST_BATCH if free == [batch] else MOST, _budget_bytes(model))
    ranges = [ExtentRange(name=name, least=_least(name, at, most), most=most) for name in free]
    if batch and batch not in free:
        ranges.insert(0, ExtentRange(name=batch, least=1, most=MOST_BATCH))
    return OpenDimensions(ranges=tuple(ranges), batch=batch, sums=sums)


def _shapes(model: OnnxModel, constants: Mapping[str, ConstantValue]) -> Iterator[list[str]]:
    """The open axes of each input that has some, as the file calls them; "" is an axis that is
    not."""
    for info in model.graph.input:
        if info.name in model.weights or info.name in constants:
            continue
        dims = [dim if isinstance(dim, str) else "" for dim in described(info, "input")[1]]
        if any(dims):
            yield dims


def _batch(shapes: Sequence[Sequence[str]], names: Sequence[str]) -> str | None:
    """The first axis of all inputs, where there are others, or where it is called so."""
    first, *others = {shape[0] for shape in shapes}
    is_one = not others and first in names
    return first if is_one and (len(names) > 1 or "batch" in _parts(first)) else None


def _sums(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Takes what is called the total as the sum of what is past and of what else there is."""
    totals = [name for name in names if "total" in _parts(name)]
    terms = tuple(name for name in names if name not in totals)
    is_cache = len(terms) == 2 and any(map(_is_past, terms))
    return dict.fromkeys(totals, terms) if is_cache else {}


def _is_past(name: str) -> bool:
    return "past" in _parts(name)


def _parts(name: str) -> list[str]:
    return _WORDS.findall(name.lower())


def _budget_bytes(model: OnnxModel) -> int:
    weights = sum(entries.nbytes for entries in model.weights.values())
    return max(LEAST_BUDGET_BYTES, weights)


def _bound(at: Callable[[int], Graph], most: int, budget_bytes: int) -> int:
    """Raises what the import raises with the least extents, where it goes no further than that."""
    extent, ended = most, 0
    while extent > LEAST:
        try:
            if placed(fused(at(extent))).size_bytes <= budget_bytes:
                break
            ended = 0
        except (InvalidInput, UnsupportedModel):
            ended = extent
        extent //= 2
    else:
        at(extent)
    # The model itself ends between an extent and the double.
    while ended - extent > 1:
        middle = (extent + ended) // 2
        if _is_imported(at, middle):
            extent = middle
        else:
            ended = middle
    return extent


def _is_imported(at: Callable[..., Graph], extent: int, **others: int) -> bool:
    try:
        at(extent, **others)
    except (InvalidInput, UnsupportedModel):
        return False
    return True


def _least(name: str, at: Callable[..., Graph], most: int) -> int:
    """Begins with nothing for what is past, where the model is imported so."""
    return 0 if _is_past(name) and _is_imported(at, most, **{name: 0}) else 1
