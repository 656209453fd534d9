"""A file of ONNX as plans: what a registration of a model needs.

import (importing.py) ─▶ golden outputs (golden.py)
                      └▶ rules (fuse.py) ─▶ bits of weights (storing.py) ─▶ weights (weights.py)
                                            ─▶ memory, plan (planning.py)
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernelzoo.domain.plan import Plan
from kernelzoo.domain.workload import Workload
from services.tuner.graph.fuse import ALL_RULES, Rules, fused
from services.tuner.graph.golden import golden_file
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import imported
from services.tuner.graph.planning import planned
from services.tuner.graph.reading import read_model
from services.tuner.graph.storing import Storing, stored_model
from services.tuner.graph.weights import WeightFile, weight_file


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
    All plans read one file of weights."""

    plans: tuple[Plan, ...]
    golden: tuple[bytes, ...]
    calls: tuple[tuple[ModelCall, ...], ...]
    weights: WeightFile

    @property
    def workloads(self) -> tuple[Workload, ...]:
        """Those of all plans, each once."""
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
    model = read_model(path)
    graphs = [imported(model, each) for each in dimensions or [{}]]
    return plan_graphs(graphs, dimensions or [{}], name, rules, storing)


def plan_graphs(
    graphs: Sequence[Graph],
    dimensions: Sequence[Mapping[str, int]],
    name: str,
    rules: Rules = ALL_RULES,
    storing: Storing | None = None,
) -> PlannedModel:
    """As `plan_model`, of graphs as they are imported."""
    golden = tuple(golden_file(graph) for graph in graphs)
    lowered = tuple(fused(graph, rules) for graph in graphs)
    stored = None
    if storing is not None:
        small = stored_model(lowered, golden, storing)
        lowered, golden, stored = small.graphs, small.golden, small.stored
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
    """The workloads of a lowered graph, those that take the most FLOPs first."""
    found = {node.op.key: node.op for node in graph.nodes if isinstance(node.op, Workload)}
    times = Counter(node.op.key for node in graph.nodes if isinstance(node.op, Workload))
    calls = [ModelCall(workload=found[key], calls=count) for key, count in times.items()]
    return tuple(sorted(calls, key=lambda call: (-call.flops, call.workload.key)))
