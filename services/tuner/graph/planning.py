"""From a graph of workloads to a plan."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import (
    Golden,
    Need,
    Plan,
    PlanAxis,
    PlanCall,
    PlanMemory,
    PlanState,
    PlanTensor,
    Port,
)
from kernelzoo.domain.plan_checking import needs_axes, validated
from kernelzoo.domain.workload import Workload
from services.tuner.graph.buckets import bucket_workloads
from services.tuner.graph.graph import Graph, GraphPort
from services.tuner.graph.memory import Placement, placed
from services.tuner.graph.weights import PlanWeights, WeightFile, printable


def planned(
    graph: Graph,
    model: str,
    dimensions: Mapping[str, int],
    weights: PlanWeights,
    file: WeightFile,
    golden: Golden,
) -> Plan:
    """The plan of a lowered graph. Raises InvalidInput for a model that no page could hold."""
    placement = placed(graph)
    tensors = _Tensors(graph, placement, weights)
    inputs = tuple(tensors.port(port) for port in graph.inputs)
    kernels: dict[str, int] = {}
    calls = []
    for node in graph.nodes:
        if isinstance(node.op, Workload):
            kernel = kernels.setdefault(node.op.key, len(kernels))
            numbers = tuple(tensors.number(name) for name in (*node.inputs, node.output))
            calls.append(PlanCall(kernel=kernel, tensors=numbers, label=printable(node.label)))
    outputs = tuple(tensors.port(port) for port in graph.outputs)
    axes = tuple(_with_kernels(graph, axis, kernels) for axis in graph.axes)
    plan = Plan(
        needs=_needs(graph, weights, (*inputs, *outputs)),
        model=model,
        dimensions=dimensions,
        inputs=inputs,
        outputs=outputs,
        tensors=tuple(tensors.made),
        weights=weights.weights,
        chunks=file.chunks,
        kernels=tuple(kernels),
        calls=tuple(calls),
        memory=PlanMemory(weights=file.plain_bytes, activations=placement.size_bytes),
        golden=golden,
        states=tuple(_state(graph, name) for name in graph.states),
        axes=axes,
        batch=graph.batch,
        sums=graph.sums,
    )
    return validated(plan)


def _with_kernels(graph: Graph, axis: PlanAxis, kernels: dict[str, int]) -> PlanAxis:
    """The axis with the kernels of its buckets, which are added to those of calls."""
    buckets = []
    for bucket in axis.buckets:
        shorter = bucket_workloads(graph, axis, bucket.most)
        pairs = [
            (kernels[key], kernels.setdefault(each.key, len(kernels)))
            for key, each in shorter.items()
        ]
        buckets.append(replace(bucket, kernels=tuple(pairs)))
    return replace(axis, buckets=tuple(buckets))


def _needs(graph: Graph, weights: PlanWeights, ports: Sequence[Port]) -> tuple[Need, ...]:
    present = {
        Need.STATES: bool(graph.states),
        Need.STORED: any(weight.storage for weight in weights.weights),
        Need.F16: any(value.dtype is DType.F16 for value in graph.values.values()),
        Need.I8: any(value.dtype is DType.I8 for value in graph.values.values()),
        Need.RANGES: bool(graph.axes),
        Need.BUCKETS: any(axis.buckets for axis in graph.axes),
        Need.AXES: needs_axes(graph.axes, ports),
    }
    return tuple(need for need in Need if present.get(need))


def _state(graph: Graph, name: str) -> PlanState:
    value = graph.values[name]
    return PlanState(name=printable(name), dtype=value.dtype, shape=value.shape)


class _Tensors:
    """Values as tensors of the plan, in order of their first use; equal ones are one."""

    def __init__(self, graph: Graph, placement: Placement, weights: PlanWeights) -> None:
        self._graph = graph
        self._placement = placement
        self._weights = weights
        self._states = {name: number for number, name in enumerate(graph.states)}
        self.made: dict[PlanTensor, int] = {}

    def number(self, name: str) -> int:
        value = self._graph.values[name]
        weight = self._weights.numbers.get(name)
        state = self._states.get(name)
        at = self._placement.addresses[name] if weight is None and state is None else None
        tensor = PlanTensor(dtype=value.dtype, shape=value.shape, at=at, weight=weight, state=state)
        return self.made.setdefault(tensor, len(self.made))

    def port(self, port: GraphPort) -> Port:
        shape = self._graph.values[port.value].shape
        number = self.number(port.value)
        return Port(
            name=port.name,
            dtype=port.dtype,
            shape=shape,
            tensor=number,
            rows=port.rows,
            open=port.open[0] if port.open else None,
            also_open=port.open[1:],
        )
