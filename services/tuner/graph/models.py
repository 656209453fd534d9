"""A file of ONNX as plans: what a registration of a model needs.

import (importing.py) ─▶ golden outputs (golden.py)
                      └▶ rules (fuse.py) ─▶ bits of weights (storing.py) ─▶ weights (weights.py)
                                            ─▶ memory, plan (planning.py)

`plan_f16` is the same with values of f16 in memory (storing_f16.py), for WebGPU alone.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from kernelzoo.domain.plan import Golden, Plan
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.batches import BatchRange, with_batch
from services.tuner.graph.buckets import bucket_workloads, with_buckets
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import ALL_RULES, Rules, fused, fused_f16
from services.tuner.graph.golden import GoldenFile, golden_file, written
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import imported
from services.tuner.graph.magnitudes import refuse_overflow
from services.tuner.graph.odd_extents import odd_extents
from services.tuner.graph.planning import planned
from services.tuner.graph.ranges import ExtentRanges, Extents, ranged, refuse_wrong_extent, widened
from services.tuner.graph.reading import read_model
from services.tuner.graph.storing import Stored, Storing, output_error, stored_model
from services.tuner.graph.weights import WeightFile, weight_file

F16_SPREAD = 4.0
"""Right outputs of f16 may be so many times as far from those of f32 as NumPy's are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """A workload of a model and how often one run calls it."""

    workload: Workload
    calls: int

    @property
    def flops(self) -> int:
        """The operations of all its calls in one run."""
        return self.calls * self.workload.flops


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """A plan for each choice of dimensions, its golden bytes and its calls, the most FLOPs first.
    All plans read one file of weights. `wide`: nodes of a plan of f16 whose values stay f32."""

    plans: tuple[Plan, ...]
    golden: tuple[bytes, ...]
    calls: tuple[tuple[ModelCall, ...], ...]
    weights: WeightFile
    wide: tuple[str, ...] = ()

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Workloads of all plans, each once."""
        found = {call.workload.key: call.workload for calls in self.calls for call in calls}
        return tuple(found.values())


def plan_model(
    path: Path,
    dimensions: Sequence[Mapping[str, int]],
    name: str,
    rules: Rules = ALL_RULES,
    storing: Storing | None = None,
) -> PlannedModel:
    """Weights are f32 unless `storing` says what else. Raises InvalidInput for a file that is no
    sound model or does not fit a page, or whose outputs differ by too much with such weights, and
    UnsupportedModel for a model with something that cannot be imported."""
    graphs = graphs_of(path, dimensions)
    return plan_graphs(graphs, dimensions or [{}], name, rules, storing)


def graphs_of(path: Path, dimensions: Sequence[Mapping[str, int]]) -> list[Graph]:
    """A file as a graph for each choice of dimensions. Raises as `plan_model`."""
    model = read_model(path)
    return [imported(model, each) for each in dimensions or [{}]]


def plan_graphs(
    graphs: Sequence[Graph],
    dimensions: Sequence[Mapping[str, int]],
    name: str,
    rules: Rules = ALL_RULES,
    storing: Storing | None = None,
    right: Sequence[GoldenFile] | None = None,
) -> PlannedModel:
    """Plans as `plan_model` does, of graphs as they are imported; `right` are their golden files,
    where these are there already."""
    golden = tuple(map(golden_file, graphs)) if right is None else tuple(right)
    lowered = tuple(fused(graph, rules) for graph in graphs)
    return _stored_model(lowered, golden, dimensions, name, storing)


def plan_range(
    imported_at: Callable[..., Graph],
    ranges: ExtentRanges,
    dimensions: Mapping[str, int],
    name: str,
    storing: Storing | None = None,
    batch: BatchRange | None = None,
) -> PlannedModel:
    """One plan for ranges of extents, or for some more (`widened`), and for each entry of a
    `batch`. `imported_at` imports the model for an extent of each, `dimensions` have the others.
    Raises InvalidInput and UnsupportedModel as `plan_model` does, and where no one plan is right
    for the whole ranges."""
    ranges = widened(ranges, imported_at)

    def at(extents: Extents) -> Graph:
        try:
            return imported_at(*extents)
        except (InvalidInput, UnsupportedModel) as error:
            raise ranges.refusal(f"with {ranges.shown(extents)}, {error}") from error

    largest, *smaller = ranges.samples
    graphs = [imported_at(*largest), *map(at, smaller)]
    graph = ranged([fused(each) for each in graphs], ranges)
    for extents in (*ranges.tried, *odd_extents(imported_at, ranges, graphs)):
        refuse_wrong_extent(graph, at(extents), extents, ranges)
    if batch is not None:
        graph = with_batch(graph, batch, ranges.tried[-1])
    right = golden_file(graphs[0])
    graph = with_buckets(graph)
    own = {port.name for port in graphs[0].inputs}
    told = (port.name for port in graph.inputs if port.name not in own)
    feeds = {**right.feeds, **{name: np.zeros(1, np.int32) for name in told}}
    golden = written(graph, feeds, right.outputs, off=right.off)
    sizes = {**dimensions, **{each.name: each.most for each in ranges.ranges}}
    return _stored_model([graph], [golden], [sizes], name, storing)


def plan_f16(
    graphs: Sequence[Graph],
    dimensions: Sequence[Mapping[str, int]],
    name: str,
    max_error: float,
    right: Sequence[GoldenFile] | None = None,
) -> PlannedModel:
    """Plans as `plan_graphs` does, with values and weights of f16. Raises InvalidInput where golden
    outputs then differ by more than `max_error` of their largest magnitude, or are no numbers where
    inputs are some times as large."""
    right = right or [golden_file(graph) for graph in graphs]
    made = [fused_f16(graph, each.feeds) for graph, each in zip(graphs, right, strict=True)]
    lowered = tuple(graph for graph, _ in made)
    golden = tuple(
        _golden_f16(each, graph, max_error) for each, graph in zip(right, lowered, strict=True)
    )
    wide = dict.fromkeys(node.label or node.output for _, nodes in made for node in nodes)
    return replace(_planned_model(lowered, golden, dimensions, name), wide=tuple(wide))


def _golden_f16(right: GoldenFile, graph: Graph, max_error: float) -> GoldenFile:
    """Outputs as of f32."""
    refuse_overflow(graph, right.feeds)
    error = output_error(evaluate(graph, right.feeds), right.outputs, right.off)
    refuse_f16_error(error, max_error, "values")
    return replace(right, golden=allowing_f16(right.golden, error))


def refuse_f16_error(error: float, max_error: float, what: str) -> None:
    """Raises InvalidInput where golden outputs differ by too much with `what` as f16."""
    if not error <= max_error:
        raise InvalidInput(
            f"with {what} as f16 the golden outputs differ by {error:.2g} of their largest "
            f"magnitude, and --max-error is {max_error:.2g}; allow more, or take --dtype f32"
        )


def allowing_f16(golden: Golden, error: float) -> Golden:
    """`error`: how far outputs of NumPy are off, which tells how the network magnifies roundings to
    f16; a GPU may round in either direction, to the next but one."""
    tolerance = max(golden.tolerance, F16_SPREAD * error)
    return replace(golden, tolerance=tolerance, storage_error=error)


def _stored_model(
    lowered: Sequence[Graph],
    golden: Sequence[GoldenFile],
    dimensions: Sequence[Mapping[str, int]],
    name: str,
    storing: Storing | None,
) -> PlannedModel:
    if storing is None:
        return _planned_model(lowered, golden, dimensions, name)
    small = stored_model(tuple(lowered), tuple(golden), storing)
    return _planned_model(small.graphs, small.golden, dimensions, name, small.stored)


def _planned_model(
    lowered: Sequence[Graph],
    golden: Sequence[GoldenFile],
    dimensions: Sequence[Mapping[str, int]],
    name: str,
    stored: Stored | None = None,
) -> PlannedModel:
    file, parts = weight_file(lowered, stored)
    plans = (
        planned(graph, name, sizes, weights, file, each.golden)
        for graph, sizes, weights, each in zip(lowered, dimensions, parts, golden, strict=True)
    )
    return PlannedModel(
        plans=tuple(plans),
        golden=tuple(each.body for each in golden),
        calls=tuple(map(model_calls, lowered)),
        weights=file,
    )


def model_calls(graph: Graph) -> tuple[ModelCall, ...]:
    """The workloads of a lowered graph, those that take the most FLOPs first, and behind them those
    of buckets, which a run of the largest extents does not call."""
    found = {node.op.key: node.op for node in graph.nodes if isinstance(node.op, Workload)}
    times = Counter(node.op.key for node in graph.nodes if isinstance(node.op, Workload))
    for axis in graph.axes:
        for bucket in axis.buckets:
            shorter = bucket_workloads(graph, axis, bucket.most).values()
            found |= {each.key: each for each in shorter}
            times.update({each.key: 0 for each in shorter})
    calls = [ModelCall(workload=found[key], calls=count) for key, count in times.items()]
    return tuple(sorted(calls, key=lambda call: (-call.flops, call.workload.key)))
