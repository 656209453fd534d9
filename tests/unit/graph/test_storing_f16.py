"""Networks with values of f16: what their graphs become, and that kernels compute their outputs."""

from collections.abc import Callable
from math import inf
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.operators.expressions import (
    Call,
    Choice,
    CompareOp,
    Comparison,
    Function,
    Real,
)
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.plans import plan_bytes, read_plan
from services.tuner.compile import compile_candidate
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused, fused_f16
from services.tuner.graph.golden import seeded_feeds
from services.tuner.graph.graph import Graph, faults
from services.tuner.graph.models import PlannedModel, plan_f16
from services.tuner.graph.storing_f16 import LARGEST, storing_f16
from services.tuner.ir.f16_storage import F16Storage
from services.tuner.schedules.base.f16_storage import f16_storage_of
from services.tuner.schedules.registry import lite_space
from tests.unit.graph.graphs import Built
from tests.unit.graph.running import golden_arrays
from tests.unit.graph.test_fuse import attention, attention_in_vectors, image
from tests.unit.tuner.gpu_execution import device, execute_on_gpu

Array = NDArray[Any]


def run_on_gpu(made: PlannedModel, storage: F16Storage) -> tuple[dict[str, Array], ...]:
    """The outputs of the only plan with the first kernels that keep f16 so, and those that are
    right. Each value has memory of its own, as on a GPU."""
    (plan,), (golden,) = made.plans, made.golden
    weights = b"".join(made.weights.blocks())
    dtypes = {DType.F32: np.float32, DType.F16: np.float16, DType.I32: np.int32}
    values: dict[int, Array] = {}
    for number, tensor in enumerate(plan.tensors):
        if tensor.weight is not None:
            weight = plan.weights[tensor.weight]
            part = weights[weight.offset : weight.offset + weight.bytes]
            values[number] = np.frombuffer(part, dtypes[weight.dtype])
    written: dict[int, Array] = {}
    feeds = golden_arrays(plan.golden.inputs, plan.inputs, golden)
    for port in plan.inputs:
        written[plan.tensors[port.tensor].at or 0] = feeds[port.name]
    for call in plan.calls:
        workload = next(each for each in made.workloads if each.key == plan.kernels[call.kernel])
        space = lite_space(workload, TargetKind.WEBGPU)
        first = next(
            each for each in space if not workload.stores_f16 or f16_storage_of(each) is storage
        )
        inputs = [
            np.ravel(values[n] if n in values else written[plan.tensors[n].at or 0])
            for n in call.tensors[:-1]
        ]
        output = execute_on_gpu(compile_candidate(first), inputs)
        assert output.dtype == dtypes[workload.output.dtype]
        written[plan.tensors[call.tensors[-1]].at or 0] = output
    found = {
        port.name: written[plan.tensors[port.tensor].at or 0].reshape(port.shape)
        for port in plan.outputs
    }
    return found, golden_arrays(plan.golden.outputs, plan.outputs, golden)


@pytest.mark.parametrize("storage", F16Storage)
@pytest.mark.parametrize("model", [attention_in_vectors, image])
def test_kernels_compute_the_outputs_of_f32(
    model: Callable[[], Graph], storage: F16Storage
) -> None:
    if storage is F16Storage.NATIVE and "shader-f16" not in device().features:
        pytest.skip("this adapter has no shader-f16; llvmpipe has (mesa-vulkan-drivers)")
    made = plan_f16([model()], [{}], "small", 0.01)
    (plan,) = made.plans
    assert plan.needs == ("f16",)
    assert read_plan(plan_bytes(plan)) == plan
    joined = any("attention" in key for key in plan.kernels)
    assert joined is (model is attention_in_vectors)
    found, wanted = run_on_gpu(made, storage)
    for name, right in wanted.items():
        assert found[name].dtype == np.float32
        apart = np.abs(found[name] - right).max() / np.abs(right).max()
        assert 1e-6 < apart <= plan.golden.tolerance < 0.01


def test_all_operators_and_weights_are_of_f16() -> None:
    graph = fused_f16(attention(), seeded_feeds(attention()))[0]
    assert faults(graph) == ()
    operators = [node.op for node in graph.nodes if isinstance(node.op, Workload)]
    assert all(each.stores_f16 for each in operators)
    assert all(each.dtype == np.float16 for each in graph.constants.values())
    kept = sum(entries.nbytes for entries in graph.constants.values())
    assert 2 * kept == sum(each.nbytes for each in fused(attention()).constants.values())


def test_what_reads_an_input_casts_it_and_what_makes_an_output_makes_f32() -> None:
    g = Built()
    x, b = g.feed(4, 8), g.constant(8, 8)
    product = g.workload("matmul:f32:m4k8n8", x, b)
    doubled = g.entrywise(lambda a: a + a, product)
    made = storing_f16(g.graph(doubled, product))
    ops = [node.op for node in made.nodes]
    texts = [op.key if isinstance(op, Workload) else str(op) for op in ops]
    assert texts == [
        "x0: f32[4, 8]\ns0[i0: 4, i1: 8]: f16 = x0[i0, i1]",
        "matmul:f16:m4k8n8",
        "x0: f16[4, 8]\ns0[i0: 4, i1: 8] = x0[i0, i1]",
        "x0: f32[4, 8]\ns0[i0: 4, i1: 8] = x0[i0, i1] + x0[i0, i1]",
    ]


@pytest.mark.parametrize("lowest", [-inf, -3.4028234663852886e38])
def test_a_mask_keeps_to_the_numbers_of_f16(lowest: float) -> None:
    g = Built()
    x = g.feed(4)
    masked = g.program(
        (4,),
        lambda axes, a: Choice(
            (Comparison(CompareOp.LT, a(*axes), Real(0.0)),), Real(lowest), Real(0.0)
        ),
        x,
    )
    graph = storing_f16(g.graph(g.entrywise(lambda a: a + 1.0, masked)))
    feeds = {graph.inputs[0].name: np.array([-1, 1, -1, 1], np.float32)}
    (found,) = evaluate(graph, feeds).values()
    assert found.tolist() == [1 - LARGEST, 1, 1 - LARGEST, 1]


def test_a_network_that_f16_cannot_hold_is_refused() -> None:
    g = Built()
    x = g.feed(3, 8)
    # It is as large whatever the inputs are.
    large = g.entrywise(lambda a: Call(Function.TANH, a) * 1e6, x)
    graph = g.graph(g.workload("matmul:f32:m3k8n4", large, g.constant(8, 4)))
    with pytest.raises(InvalidInput, match=r"with values as f16.* take\s--dtype f32"):
        plan_f16([graph], [{}], "large", 0.01)


def normed(factor: float) -> Graph:
    """A norm of rows that were scaled twice."""
    g = Built()
    x = g.feed(4, 64)
    scaled = g.entrywise(lambda a: a * factor, x)
    again = g.workload("matmul:f32:m4k64n64", scaled, g.constant(64, 64))
    gamma, beta = g.constant(64), g.constant(64)
    return g.graph(g.workload("layer_norm:f32:m4n64", again, gamma, beta))


@pytest.mark.parametrize("times", [1, 5, 60])
def test_values_that_grow_beyond_f16_stay_f32(times: float) -> None:
    """Right for inputs of any size, which the golden ones are not."""
    graph = normed(1000.0)
    made = plan_f16([graph], [{}], "normed", 0.01)
    assert made.wide != ()
    feeds = {name: each * np.float32(times) for name, each in seeded_feeds(graph).items()}
    kept, wide = fused_f16(graph, seeded_feeds(graph))
    assert faults(kept) == ()
    assert [node.label or node.output for node in wide] == list(made.wide)
    found, right = evaluate(kept, feeds), evaluate(graph, feeds)
    for name, wanted in right.items():
        assert np.isfinite(found[name]).all()
        assert np.abs(found[name] - wanted).max() < 0.01 * np.abs(wanted).max()


def test_nothing_stays_f32_of_a_network_whose_values_are_small() -> None:
    assert plan_f16([attention()], [{}], "small", 0.01).wide == ()
    graph = normed(1e-3)
    assert plan_f16([graph], [{}], "small", 0.01).wide == ()


def test_kernels_compute_what_stays_f32() -> None:
    found, wanted = run_on_gpu(plan_f16([normed(1000.0)], [{}], "normed", 0.01), F16Storage.PACKED)
    for name, right in wanted.items():
        assert np.abs(found[name] - right).max() < 0.01 * np.abs(right).max()


def test_wasm_has_no_kernels_of_programs_of_f16() -> None:
    graph = fused_f16(attention(), seeded_feeds(attention()))[0]
    named = next(
        node.op
        for node in graph.nodes
        if isinstance(node.op, Workload) and node.op.key.startswith("program:")
    )
    with pytest.raises(InvalidInput, match=r"wasm has kernels of f32 alone.*tune it for webgpu"):
        lite_space(named, TargetKind.WASM)
