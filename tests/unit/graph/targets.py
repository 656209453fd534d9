"""Computes a graph on each target, node by node: each kernel is the first of its space."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fixtures.wasm_space import common_space
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.operators.expressions import Program
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.numerics.operators import NUMPY_DTYPES
from services.tuner.compile import compile_candidate
from services.tuner.graph.evaluate import clipped
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph, View
from services.tuner.graph.lower import lowered
from services.tuner.schedules.registry import lite_space
from tests.unit.tuner.execution import execute
from tests.unit.tuner.gpu_execution import execute_on_gpu
from tests.unit.tuner.javascript_execution import Run
from tests.unit.tuner.javascript_execution import executed as javascript_executed

Array = NDArray[Any]
TARGETS = (TargetKind.WASM, TargetKind.WEBGPU, TargetKind.JAVASCRIPT)


def outputs_on(
    target: TargetKind, graph: Graph, feeds: Mapping[str, Array], folder: Path
) -> dict[str, Array]:
    """Outputs of an imported graph by the model's names, computed by kernels of a target."""
    graph = lowered(fused(graph))
    values: dict[str, Array] = {**graph.constants}
    for port in graph.inputs:
        values[port.value] = clipped(feeds[port.name], graph.values[port.value].dtype)
    for node in graph.nodes:
        made = graph.values[node.output]
        inputs = [values[name] for name in node.inputs]
        if isinstance(node.op, View):
            values[node.output] = inputs[0].reshape(made.shape)
            continue
        workload = Workload.of_program("any", node.op) if isinstance(node.op, Program) else node.op
        workload = _without_layouts(workload)
        space = common_space if target is TargetKind.WASM else partial(lite_space, target=target)
        artifact = compile_candidate(space(workload)[0])
        result = _EXECUTED[target](artifact, inputs, folder)
        kind = NUMPY_DTYPES[made.dtype]
        entries = np.ascontiguousarray(result).reshape(-1)[: prod(made.shape)]
        values[node.output] = entries.view(kind).reshape(made.shape)
    return {port.name: values[port.value] for port in graph.outputs}


def _without_layouts(workload: Workload) -> Workload:
    """Returns the workload with weights as they lie."""
    if not workload.constant:
        return workload
    operators = "+".join((workload.operator.name, *workload.epilogue))
    return Workload.of(operators, workload.extents, workload.dtype)


def _on_wasm(artifact: Artifact, inputs: list[Array], folder: Path) -> Array:
    del folder
    return execute(artifact, inputs)


def _on_gpu(artifact: Artifact, inputs: list[Array], folder: Path) -> Array:
    del folder
    return execute_on_gpu(artifact, inputs)


def _in_javascript(artifact: Artifact, inputs: list[Array], folder: Path) -> Array:
    return javascript_executed({"node": Run(artifact=artifact, inputs=inputs)}, folder)["node"]


_EXECUTED: Mapping[TargetKind, Callable[[Artifact, list[Array], Path], Array]] = {
    TargetKind.WASM: _on_wasm,
    TargetKind.WEBGPU: _on_gpu,
    TargetKind.JAVASCRIPT: _in_javascript,
}
