"""Generated models of one operator each, on every target, held to onnxruntime.

Each operator is drawn with SEEDS seeds: attributes, shapes, element types, special values. What
onnxruntime's CPU provider does not have, ONNX's reference computes. A case that is refused or
differs is a failure, but for what `REFUSED` names and docs/onnx.md states.
"""

import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_errors

from fixtures.operator_cases import DRAWN, OperatorCase, drawn_case
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.evaluate import clipped, evaluate
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import imported
from services.tuner.graph.models import plan_graphs
from services.tuner.graph.reading import read_model
from tests.examples import examples
from tests.unit.graph.running import Planned, Runner, run_together
from tests.unit.tuner import gpu_execution, javascript_execution

Array = NDArray[Any]
Outputs = Mapping[str, Array]

SEEDS = range(6)
assert len(DRAWN) * len(SEEDS) >= 500

REFUSED: Mapping[str, str] = {}
"""By operator, what a refusal of some of its cases says; docs/onnx.md has them."""

NOT_HAD = (
    onnxruntime_errors.Fail,
    onnxruntime_errors.InvalidArgument,
    onnxruntime_errors.InvalidGraph,
    onnxruntime_errors.NotImplemented,
)
"""Errors of onnxruntime where it has no kernel for an element type."""

MODULO = 1 << 32
"""Integers of 64 bits are computed modulo it, as docs/onnx.md says."""


@contextmanager
def quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def expected(case: OperatorCase) -> list[Array]:
    """What onnxruntime computes, without its rewriting of graphs, or else ONNX's reference."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    feeds = dict(case.feeds)
    try:
        session = onnxruntime.InferenceSession(
            case.model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs: list[Array] = session.run(None, feeds)
    except NOT_HAD:
        with quiet():
            outputs = ReferenceEvaluator(case.model).run(None, feeds)  # type: ignore[assignment]
    return outputs


def difference(found: Array, wanted: Array) -> str:
    """How an output differs from the one that is right; '' if it does not."""
    wanted = np.asarray(wanted)
    found = np.asarray(found).reshape(wanted.shape)
    if wanted.dtype.kind in "biu":
        right = (found.astype(np.int64) - wanted.astype(np.int64)) % MODULO == 0
    else:
        finite = np.abs(wanted[np.isfinite(wanted)])
        reach = 1e-5 * min(100.0, max(1.0, float(finite.max(initial=0.0))))
        with quiet():
            right = np.isclose(found, wanted, rtol=1e-4, atol=reach, equal_nan=True)
    if right.all():
        return ""
    at = tuple(np.argwhere(~right)[0])
    return f"{(~right).sum()} of {right.size} entries, at {at} {found[at]} for {wanted[at]}"


def graph_of(case: OperatorCase, folder: Path) -> Graph:
    path = folder / f"{case.seed}.onnx"
    path.write_bytes(case.model.SerializeToString())
    return imported(read_model(path), {})


def planned(case: OperatorCase, graph: Graph) -> Planned:
    made = plan_graphs([graph], [{}], "case")
    feeds = {
        port.name: clipped(case.feeds[port.name], graph.values[port.value].dtype)
        for port in graph.inputs
    }
    return Planned(
        plan=made.plans[0],
        workloads={each.key: each for each in made.workloads},
        weights=b"".join(made.weights.blocks()),
        feeds=feeds,
    )


def described(case: OperatorCase) -> str:
    (node,) = case.model.graph.node
    shapes = ", ".join(f"{value.dtype}{list(value.shape)}" for value in case.feeds.values())
    attributes = " ".join(re.sub(r"\s+", " ", str(each)) for each in node.attribute)
    return f"{case.name} ({shapes}; {attributes[:200]})"


def faults(
    cases: Mapping[str, OperatorCase], outputs: Mapping[str, Outputs], where: str
) -> list[str]:
    found = []
    for name, made in outputs.items():
        case = cases[name]
        for info, wanted in zip(case.model.graph.output, expected(case), strict=True):
            if told := difference(made[info.name], wanted):
                found.append(f"{where}: {described(case)}: {info.name}: {told}")
                break
    return found


def on_wasm(each: Planned) -> Outputs:
    return Runner(each.plan, each.workloads, each.weights).run(each.feeds)


def on_gpu(runs: Mapping[str, tuple[Artifact, list[Array]]]) -> dict[str, Array]:
    return {
        name: gpu_execution.execute_on_gpu(artifact, inputs)
        for name, (artifact, inputs) in runs.items()
    }


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operator", DRAWN)
def test_an_operator_computes_what_onnxruntime_does(operator: str, tmp_path: Path) -> None:
    cases, graphs, refused = {}, {}, []
    for case in (drawn_case(operator, seed) for seed in SEEDS):
        try:
            graphs[case.name] = graph_of(case, tmp_path)
            cases[case.name] = case
        except UnsupportedModel as error:
            sentence = REFUSED.get(operator)
            if sentence is None or sentence not in str(error):
                refused.append(f"{described(case)} is refused: {error}")
    with quiet():
        by_numpy = {name: evaluate(graph, cases[name].feeds) for name, graph in graphs.items()}
    plans = {name: planned(cases[name], graph) for name, graph in graphs.items()}

    def by_node(runs: Mapping[str, tuple[Artifact, list[Array]]]) -> dict[str, Array]:
        orders = {
            name: javascript_execution.Run(artifact=artifact, inputs=inputs)
            for name, (artifact, inputs) in runs.items()
        }
        return javascript_execution.executed(orders, tmp_path)

    found = refused + faults(cases, by_numpy, "NumPy")
    found += faults(cases, {name: on_wasm(each) for name, each in plans.items()}, "wasm")
    found += faults(cases, run_together(plans, TargetKind.WEBGPU, on_gpu), "webgpu")
    found += faults(cases, run_together(plans, TargetKind.JAVASCRIPT, by_node), "javascript")
    assert not found, "\n".join(found)


@settings(max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(sorted(DRAWN)), st.integers(len(SEEDS), 1 << 20))
def test_any_other_case_of_an_operator_is_right_on_wasm(operator: str, seed: int) -> None:
    """`--hypothesis-profile=long` looks for what the fixed seeds do not show."""
    case = drawn_case(operator, seed)
    with TemporaryDirectory() as folder:
        try:
            graph = graph_of(case, Path(folder))
        except UnsupportedModel as error:
            if REFUSED.get(operator, "refused in no case") in str(error):
                return
            raise
    outputs = {case.name: on_wasm(planned(case, graph))}
    assert not faults({case.name: case}, outputs, "wasm")
