"""Generated models of one operator each, on every target, held to onnxruntime.

Each operator is drawn with SEEDS seeds: attributes, shapes, element types, special values. What
onnxruntime's CPU provider does not have, ONNX's reference computes. A case that is refused or
differs is a failure, but for what `REFUSED` names and docs/onnx.md states.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import ModelProto, numpy_helper

from fixtures.operator_cases import DRAWN, EdgeDraw, OperatorCase, drawn_case
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import UnsupportedModel
from services.tuner.graph.evaluate import clipped, evaluate
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import imported
from services.tuner.graph.models import plan_graphs
from services.tuner.graph.reading import read_model
from tests.examples import examples
from tests.unit.graph.oracle import Array, described, expected, fault, quiet
from tests.unit.graph.running import Planned, Runner, run_together
from tests.unit.tuner import gpu_execution, javascript_execution

Outputs = Mapping[str, Array]

SEEDS = range(6)
assert len(DRAWN) * len(SEEDS) >= 500

REFUSED: Mapping[str, str] = {}
"""By operator, what a refusal of some of its cases says; docs/onnx.md has them."""


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


def faults(cases: Iterable[OperatorCase], made: Mapping[str, Mapping[str, Outputs]]) -> list[str]:
    """Lists what is wrong with outputs, which are by where they were computed and by case."""
    found = []
    for case in cases:
        wanted = expected(case)
        told = ((where, fault(case, wanted, each[case.name])) for where, each in made.items())
        found += [f"{where}: {wrong}" for where, wrong in told if wrong]
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

    made: dict[str, Mapping[str, Outputs]] = {
        "NumPy": by_numpy,
        "wasm": {name: on_wasm(each) for name, each in plans.items()},
        "webgpu": run_together(plans, TargetKind.WEBGPU, on_gpu),
        "javascript": run_together(plans, TargetKind.JAVASCRIPT, by_node),
    }
    found = refused + faults(cases.values(), made)
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
    assert not faults([case], {"wasm": outputs})


WIDE = ("Mul:integers", "Sub:integers")
"""Constants beyond 32 bits are the nearest number that a page has."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("operator", [name for name in DRAWN if name not in WIDE])
def test_an_operator_of_constants_is_computed_at_import(operator: str, tmp_path: Path) -> None:
    for case in (drawn_case(operator, seed) for seed in range(2)):
        model = ModelProto()
        model.CopyFrom(case.model)
        del model.graph.input[:]
        for name, value in case.feeds.items():
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        path = tmp_path / "constants.onnx"
        path.write_bytes(model.SerializeToString())
        graph = imported(read_model(path), {})
        with quiet():
            outputs = evaluate(graph, {})
        assert not graph.inputs
        assert not faults([case], {"import": {case.name: outputs}})


NAN_IS_KEPT = (
    "ArgMax", "ArgMin", "GlobalMaxPool", "Hardmax", "MaxPool", "ReduceMax", "ReduceMin",
    "ScatterElements", "ScatterND",
)  # fmt: skip
"""onnxruntime leaves NaN out of these, where docs/onnx.md states that it is kept."""
OTHERWISE = (
    *NAN_IS_KEPT, "Cast", "Clip", "DynamicQuantizeLinear", "LRN", "LogSoftmax", "LogSoftmax:11",
    "LpNormalization",
)  # fmt: skip
"""onnxruntime leaves to the processor what becomes of reals beyond an integer's range, sums what
LRN divides by as it goes, so that large numbers leave traces in later sums, clips to the largest
finite numbers where a bound is left out, and has -inf for LogSoftmax of -3e38. The scale and the
norm of denormals may be 0."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(
    max_examples=examples(200),
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.sampled_from(sorted(DRAWN.keys() - OTHERWISE)), st.integers(0, 1 << 20))
def test_numbers_at_the_edges_of_their_types_are_right_on_wasm(operator: str, seed: int) -> None:
    case = drawn_case(operator, seed, EdgeDraw)
    with TemporaryDirectory() as folder, quiet():
        graph = graph_of(case, Path(folder))
        outputs = on_wasm(planned(case, graph))
        assert not faults([case], {"wasm": {case.name: outputs}})
