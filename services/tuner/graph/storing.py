"""Decides which weights of a model are stored in how many bits, chosen by the error of its golden
outputs.

That error is the largest difference to the outputs of the weights as they were, in parts of an
output's largest magnitude. Where forms may differ, all weights take the smallest form that keeps
to the error alone; then as many as can take the next smaller one, those first that lose least for
each byte that they save. How many these are is found by bisection, so that a model is evaluated
about log2 of its weights times.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.errors import InvalidInput
from services.tuner.graph.edit import Entries
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.golden import GoldenFile, written
from services.tuner.graph.graph import Graph
from services.tuner.graph.storage import (
    StorageForm,
    StoredEntries,
    relative_error,
    stored_entries,
)
from services.tuner.graph.weights import Key, key_of

SMALLEST_FIRST = (
    StorageForm(StorageType.INT4),
    StorageForm(StorageType.INT8, 31),
    StorageForm(StorageType.INT8, 63),
    StorageForm(StorageType.INT8),
    StorageForm(StorageType.F16),
    StorageForm(StorageType.PLAIN),
)
"""int8 of 63 steps deflates to a fifth of f32, with 127 to 23 %: weights that are normally
distributed, as those of trained networks are about."""

OF_ONE_TYPE = {
    StorageType.INT8: (StorageForm(StorageType.INT8, 63), StorageForm(StorageType.INT8)),
}
"""Forms of a type, the smallest first, where several may be near enough for all weights."""

Constants = Mapping[Key, Entries]
Stored = Mapping[Key, StoredEntries]
"""Maps each constant, by the entries that it had, to what is stored of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storing:
    """`storage` of all weights, in its smallest form that keeps to `max_error`, or None for the
    smallest of each weight."""

    storage: StorageType | None
    max_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    stored: Stored
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredModel:
    """Graphs with the entries that pages make of their weights, and golden files that fit them.
    `stored` is by those entries."""

    graphs: tuple[Graph, ...]
    golden: tuple[GoldenFile, ...]
    stored: Stored


def stored_model(
    graphs: Sequence[Graph], golden: Sequence[GoldenFile], storing: Storing
) -> StoredModel:
    """Raises InvalidInput where one type for all was asked for and errs by more."""
    named = [_keys(graph) for graph in graphs]
    constants = {
        keys[name]: entries
        for graph, keys in zip(graphs, named, strict=True)
        for name, entries in graph.constants.items()
    }

    def made(stored: Stored) -> tuple[Graph, ...]:
        pairs = zip(graphs, named, strict=True)
        return tuple(_with_stored(graph, keys, stored) for graph, keys in pairs)

    def error(stored: Stored) -> float:
        pairs = zip(made(stored), golden, strict=True)
        errors = [
            output_error(evaluate(graph, right.feeds), right.outputs, right.off)
            for graph, right in pairs
        ]
        return float(np.max(errors))

    best = chosen(constants, error, storing)
    small = made(best.stored)
    files = (
        written(
            graph,
            right.feeds,
            evaluate(graph, right.feeds),
            best.error,
            right.off,
            right.golden.tolerance,
        )
        for graph, right in zip(small, golden, strict=True)
    )
    by_entries = {key_of(dtype, each.entries): each for (dtype, _), each in best.stored.items()}
    return StoredModel(graphs=small, golden=tuple(files), stored=by_entries)


def chosen(constants: Constants, error: Callable[[Stored], float], storing: Storing) -> Chosen:
    """Raises InvalidInput where one type for all was asked for and errs by more."""

    def tried(stored: Stored) -> Chosen:
        return Chosen(stored=stored, error=error(stored))

    if storing.storage is None:
        return _mixed(constants, tried, storing.max_error)
    for form in OF_ONE_TYPE.get(storing.storage, (StorageForm(storing.storage),)):
        made = tried(_all(constants, form))
        if made.error <= storing.max_error:
            return made
    raise InvalidInput(
        f"with weights as {storing.storage} the golden outputs differ by {made.error:.2g} of their "
        f"largest magnitude, and --max-error is {storing.max_error:.2g}; allow more, or take "
        "--weights auto"
    )


def _mixed(constants: Constants, tried: Callable[[Stored], Chosen], max_error: float) -> Chosen:
    smaller: Stored | None = None
    for form in SMALLEST_FIRST:
        best = tried(_all(constants, form))
        if best.error <= max_error or form.type is StorageType.PLAIN:
            break
        smaller = best.stored
    if smaller is None:
        return best
    order = _cheapest_first(constants, best.stored, smaller)
    held, refused = 0, len(order)
    while refused - held > 1:
        middle = (held + refused) // 2
        some = tried({**best.stored, **{key: smaller[key] for key in order[:middle]}})
        if some.error <= max_error:
            held, best = middle, some
        else:
            refused = middle
    return best


def _cheapest_first(constants: Constants, stored: Stored, smaller: Stored) -> list[Key]:
    """Sorts the constants that a smaller type makes smaller by the error that each saved byte
    costs."""
    costs: dict[Key, float] = {}
    for key, entries in constants.items():
        saved = stored[key].deflated_bytes - smaller[key].deflated_bytes
        if saved > 0:
            before = relative_error(entries, stored[key].entries) ** 2
            costs[key] = (relative_error(entries, smaller[key].entries) ** 2 - before) / saved
    return sorted(costs, key=lambda key: costs[key])


def _all(constants: Constants, form: StorageForm) -> Stored:
    return {key: stored_entries(entries, form) for key, entries in constants.items()}


def _keys(graph: Graph) -> dict[str, Key]:
    return {
        name: key_of(graph.values[name].dtype, entries) for name, entries in graph.constants.items()
    }


def _with_stored(graph: Graph, keys: Mapping[str, Key], stored: Stored) -> Graph:
    return replace(graph, constants={name: stored[keys[name]].entries for name in graph.constants})


def output_error(
    found: Mapping[str, NDArray[np.generic]],
    wanted: Mapping[str, NDArray[np.generic]],
    off: Mapping[str, int] | None = None,
) -> float:
    """The largest of all outputs', of the largest magnitude of each; NaN where one has NaN. Of each
    output so many entries, those that are furthest, may be `off`."""
    spared = off or {}
    return float(
        np.max(
            [_difference(found[name], each, spared.get(name, 0)) for name, each in wanted.items()]
        )
    )


def _difference(found: NDArray[np.generic], right: NDArray[np.generic], off: int) -> float:
    expected = np.asarray(right, np.float64)
    largest = float(np.abs(expected).max(initial=0.0))
    apart = np.abs(np.asarray(found, np.float64) - expected).ravel()
    if off:
        apart = np.sort(apart)[: apart.size - off]
    furthest = float(apart.max(initial=0.0))
    return furthest / largest if largest else furthest
