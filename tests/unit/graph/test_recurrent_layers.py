"""LSTM, GRU and RNN of any length and form, held to their equations in NumPy."""

from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput, UnsupportedModel
from kernelzoo.numerics.stages import run_program
from services.tuner.compile import compile_candidate
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused, fused_f16
from services.tuner.graph.golden import seeded_feeds
from services.tuner.graph.graph import Graph, Node
from services.tuner.graph.importing import import_model
from services.tuner.schedules.registry import lite_space
from tests.examples import examples
from tests.unit.graph.models import drawn, written
from tests.unit.graph.test_plans import assert_golden, planned
from tests.unit.tuner.execution import execute
from tests.unit.tuner.gpu_execution import execute_gpu, execute_on_gpu

Array = NDArray[Any]
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
INPUTS = ("x", "w", "r", "b", "lengths", "h", "c", "p")


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def layer_model(
    operator: str, tensors: dict[str, Array], fed: set[str], outputs: list[str], **attributes: Any
) -> ModelProto:
    """`fed` are inputs of the model, all other tensors are its constants."""
    names = [name if name in tensors else "" for name in INPUTS]
    while not names[-1]:
        names.pop()
    node = helper.make_node(operator, names, outputs, "layer", **attributes)
    kind = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32}
    graph = helper.make_graph(
        [node],
        "layer",
        [
            helper.make_tensor_value_info(name, kind[tensors[name].dtype], tensors[name].shape)
            for name in INPUTS
            if name in fed
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs if name],
        [
            numpy_helper.from_array(value, name)
            for name, value in tensors.items()
            if name not in fed
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def right_layer(
    operator: str, tensors: dict[str, Array], *, direction: str, clip: float, **more: int
) -> dict[str, Array]:
    """ONNX's equations in float64, one sequence and one direction at a time."""
    x = tensors["x"].astype(np.float64)
    hs, cs = tensors.get("h"), tensors.get("c")
    if more["layout"]:
        x = x.swapaxes(0, 1)
        hs, cs = (None if each is None else each.swapaxes(0, 1) for each in (hs, cs))
    steps, batch, _ = x.shape
    ways, _, size = tensors["r"].shape
    lengths = tensors.get("lengths", np.full(batch, steps))
    y = np.zeros((steps, ways, batch, size))
    last, cell = np.zeros((ways, batch, size)), np.zeros((ways, batch, size))

    def clipped(value: Array) -> Array:
        return np.clip(value, -clip, clip)

    for way in range(ways):
        w, r = tensors["w"][way].astype(np.float64), tensors["r"][way].astype(np.float64)
        both = tensors["b"][way].astype(np.float64) if "b" in tensors else np.zeros(2 * len(w))
        wb, rb = both[: len(w)], both[len(w) :]
        p = tensors["p"][way] if "p" in tensors else np.zeros(3 * size)
        back = direction == "reverse" or way == 1
        for row in range(batch):
            h = np.zeros(size) if hs is None else hs[way, row].astype(np.float64)
            c = np.zeros(size) if cs is None else cs[way, row].astype(np.float64)
            places = range(int(lengths[row]))
            for place in reversed(places) if back else places:
                given_gates = (w @ x[place, row] + wb).reshape(-1, size)
                own = (r @ h + rb).reshape(-1, size)
                if operator == "RNN":
                    h = np.tanh(clipped(given_gates[0] + own[0]))
                elif operator == "GRU":
                    z, reset = (sigmoid(clipped(given_gates[n] + own[n])) for n in range(2))
                    if more["linear_before_reset"]:
                        inner = reset * own[2]
                    else:
                        inner = r[2 * size :] @ (reset * h) + rb[2 * size :]
                    h = (1 - z) * np.tanh(clipped(given_gates[2] + inner)) + z * h
                else:
                    i, o, f, g = given_gates + own
                    pi, po, pf = p.reshape(3, size)
                    i = sigmoid(clipped(i + pi * c))
                    f = 1 - i if more["input_forget"] else sigmoid(clipped(f + pf * c))
                    c = f * c + i * np.tanh(clipped(g))
                    h = sigmoid(clipped(o + po * c)) * np.tanh(c)
                y[place, way, row] = h
            if lengths[row] > 0:
                last[way, row], cell[way, row] = h, c
    if more["layout"]:
        y, last, cell = y.transpose(2, 0, 1, 3), last.swapaxes(0, 1), cell.swapaxes(0, 1)
    return {"y": y, "y_h": last, "y_c": cell}


@st.composite
def layers(draw: st.DrawFn) -> tuple[str, dict[str, Array], set[str], list[str], dict[str, Any]]:
    operator = draw(st.sampled_from(list(GATES)))
    gates, direction = (
        GATES[operator],
        draw(st.sampled_from(("forward", "reverse", "bidirectional"))),
    )
    ways = 2 if direction == "bidirectional" else 1
    steps, batch, width, size = (draw(st.integers(1, most)) for most in (6, 3, 4, 9))
    layout = draw(st.integers(0, 1))
    seed = draw(st.integers(0, 999))
    order = (1, 0, 2) if layout else (0, 1, 2)
    tensors: dict[str, Array] = {
        "x": drawn((steps, batch, width), seed).transpose(order),
        "w": drawn((ways, gates * size, width), seed + 1),
        "r": drawn((ways, gates * size, size), seed + 2) / size,
    }
    if draw(st.booleans()):
        tensors["b"] = drawn((ways, 2 * gates * size), seed + 3)
    if draw(st.booleans()):
        lengths = draw(st.lists(st.integers(0, steps), min_size=batch, max_size=batch))
        tensors["lengths"] = np.array(lengths, np.int32)
    for place, name in enumerate(("h", "c")):
        if draw(st.booleans()) and (name == "h" or operator == "LSTM"):
            tensors[name] = drawn((ways, batch, size), seed + 4 + place).transpose(order)
    if operator == "LSTM" and draw(st.booleans()):
        tensors["p"] = drawn((ways, 3 * size), seed + 6)
    attributes: dict[str, Any] = {"hidden_size": size, "direction": direction, "layout": layout}
    if draw(st.booleans()):
        attributes["clip"] = draw(st.sampled_from((0.25, 1.0, 3.0)))
    if operator == "GRU":
        attributes["linear_before_reset"] = draw(st.integers(0, 1))
    if operator == "LSTM":
        attributes["input_forget"] = draw(st.integers(0, 1))
    fed = {"x", *(name for name in ("w", "r", "b", "lengths", "h", "c", "p")
                  if name in tensors and draw(st.booleans()))}  # fmt: skip
    known = ["y", "y_h", "y_c"][: 3 if operator == "LSTM" else 2]
    outputs = [name if draw(st.booleans()) else "" for name in known]
    outputs = outputs if any(outputs) else known
    while not outputs[-1]:
        outputs.pop()
    return operator, tensors, fed, outputs, attributes


@given(layers())
@settings(
    max_examples=examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_a_layer_of_any_form_is_what_its_equations_say(layer: Any) -> None:
    operator, tensors, fed, outputs, attributes = layer
    model = layer_model(operator, tensors, fed, outputs, **attributes)
    with TemporaryDirectory() as folder:
        graph = import_model(written(Path(folder), model), {})
    more = {"clip": np.inf, "linear_before_reset": 0, "input_forget": 0, **attributes}
    wanted = right_layer(operator, tensors, **{k: v for k, v in more.items() if k != "hidden_size"})
    feeds = {name: tensors[name] for name in fed}
    for made in (evaluate(graph, feeds), evaluate(fused(graph), feeds)):
        for name in filter(None, outputs):
            np.testing.assert_allclose(made[name], wanted[name], rtol=1e-4, atol=2e-5, err_msg=name)


def test_a_length_beyond_all_steps_is_that_of_all_steps(tmp_path: Path) -> None:
    """onnxruntime refuses one; here nothing is read outside of a tensor."""
    tensors = {
        "x": drawn((3, 2, 2)),
        "w": drawn((2, 16, 2), 1),
        "r": drawn((2, 16, 4), 2),
        "lengths": np.array([9, 2], np.int32),
    }
    model = layer_model(
        "LSTM", tensors, {"x", "lengths"}, ["y"], hidden_size=4, direction="bidirectional"
    )
    graph = import_model(written(tmp_path, model), {})
    made, wanted = (
        evaluate(graph, {"x": tensors["x"], "lengths": np.array(lengths, np.int32)})["y"]
        for lengths in ((9, 2), (3, 2))
    )
    assert np.array_equal(made, wanted)


def lstm_graph(folder: Path, steps: int, size: int, width: int = 8, **attributes: Any) -> Graph:
    """A layer of both directions, with weights as PyTorch draws them."""
    reach = size**-0.5
    tensors = {
        "x": np.zeros((steps, 1, width), np.float32),
        "w": np.clip(drawn((2, 4 * size, width), 1), -1, 1) * np.float32(reach),
        "r": np.clip(drawn((2, 4 * size, size), 2), -1, 1) * np.float32(reach),
        "b": drawn((2, 8 * size), 3) * np.float32(reach),
    }
    model = layer_model(
        "LSTM", tensors, {"x"}, ["y", "y_h", "y_c"],
        hidden_size=size, direction="bidirectional", **attributes,
    )  # fmt: skip
    return import_model(written(folder, model), {})


def recurrences(graph: Graph) -> list[tuple[Node, Workload]]:
    return [
        (node, node.op)
        for node in graph.nodes
        if isinstance(node.op, Workload) and node.op.key.startswith("program:lstm:")
    ]


def test_a_layer_is_a_handful_of_calls_whatever_its_length(tmp_path: Path) -> None:
    """A layer of 60 steps was 966 calls, and one of more than 256 was refused."""
    lengths = (1, 60, 3000)
    began = perf_counter()
    graphs = [fused(lstm_graph(tmp_path, steps, 128, 64)) for steps in lengths]
    elapsed = perf_counter() - began
    for graph in graphs:
        assert len(recurrences(graph)) == 1
        assert sum(isinstance(node.op, Workload) for node in graph.nodes) <= 6
    assert elapsed < 3, f"{elapsed} s for three imports; one of 60 steps took 43 s unrolled"


def test_a_plan_with_a_layer_of_many_steps_gives_the_golden_outputs(tmp_path: Path) -> None:
    assert_golden(planned(lstm_graph(tmp_path, 300, 20)))


def test_outputs_that_nobody_reads_are_not_made(tmp_path: Path) -> None:
    tensors = {
        "x": drawn((3, 1, 2)),
        "w": drawn((1, 16, 2)),
        "r": drawn((1, 16, 4)),
    }
    model = layer_model("LSTM", tensors, {"x"}, ["y", "y_h", "y_c"], hidden_size=4)
    del model.graph.output[1:]
    ((node, workload),) = recurrences(import_model(written(tmp_path, model), {}))
    assert workload.output.shape == (3, 1, 1, 4)
    assert node.label == "layer"


@pytest.mark.parametrize("steps", [2, 40])
def test_the_kernels_of_a_layer_are_right_on_wasm_and_webgpu(steps: int, tmp_path: Path) -> None:
    graph = fused(lstm_graph(tmp_path, steps, 12))
    ((node, workload),) = recurrences(graph)
    random = np.random.default_rng(4)
    inputs = [
        np.asarray(
            graph.constants.get(name, random.standard_normal(graph.values[name].shape))
        ).astype(np.float32)
        for name in node.inputs
    ]
    wanted = run_program(workload.program, inputs)
    for target, run in ((TargetKind.WASM, execute), (TargetKind.WEBGPU, execute_gpu)):
        made = run(compile_candidate(lite_space(workload, target)[0]), inputs)
        assert np.abs(made.reshape(wanted.shape) - wanted).max() < 1e-5


def test_a_layer_of_f16_is_computed_in_f32_and_stored_as_f16(tmp_path: Path) -> None:
    plain = lstm_graph(tmp_path, 20, 12)
    graph, wide = fused_f16(plain, seeded_feeds(plain))
    assert wide == ()
    ((node, workload),) = recurrences(graph)
    assert {tensor.dtype for tensor in workload.tensors} == {DType.F16}
    random = np.random.default_rng(4)
    inputs = [
        np.asarray(
            graph.constants.get(name, random.standard_normal(graph.values[name].shape))
        ).astype(np.float16)
        for name in node.inputs
    ]
    wanted = run_program(workload.program, [each.astype(np.float32) for each in inputs])
    candidate = next(each for each in lite_space(workload, TargetKind.WEBGPU) if not each.requires)
    made = execute_on_gpu(compile_candidate(candidate), inputs).astype(np.float32)
    assert np.abs(made.reshape(wanted.shape) - wanted).max() <= 2.0**-11


def test_a_quantised_lstm_computes_with_the_numbers_that_its_weights_stand_for(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(1)
    size, width, ways = 5, 3, 2
    w, r = (
        random.integers(0, 256, (ways, rows, 4 * size)).astype(np.uint8) for rows in (width, size)
    )
    scales = [
        random.uniform(0.002, 0.01, shape).astype(np.float32)
        for shape in ((ways,), (ways, 4 * size))
    ]
    zeros = [np.full(scale.shape, 128, np.uint8) for scale in scales]
    x, b = drawn((4, 2, width)), drawn((ways, 8 * size), 2)
    named: dict[str, Array] = {
        "w": w,
        "r": r,
        "b": b,
        "ws": scales[0],
        "wz": zeros[0],
        "rs": scales[1],
        "rz": zeros[1],
    }
    node = helper.make_node(
        "DynamicQuantizeLSTM", ["x", "w", "r", "b", "", "", "", "", "ws", "wz", "rs", "rz"], ["y"],
        "layer", domain="com.microsoft", hidden_size=size, direction="bidirectional",
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "layer",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x.shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in named.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    made = evaluate(import_model(written(tmp_path, model), {}), {"x": x})["y"]
    plain = {
        "x": x,
        "b": b,
        "w": ((w.astype(np.float32) - 128) * scales[0][:, None, None]).transpose(0, 2, 1),
        "r": ((r.astype(np.float32) - 128) * scales[1][:, None, :]).transpose(0, 2, 1),
    }
    wanted = right_layer(
        "LSTM", plain, direction="bidirectional", clip=np.inf, layout=0, input_forget=0
    )["y"]
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("attributes", "error", "sentence"),
    [
        ({"activations": ["Sine", "Tanh", "Tanh"]}, UnsupportedModel, "its activation Sine is not"),
        ({"activations": ["Tanh"]}, InvalidInput, "has 1 activations and needs 3"),
        ({"activations": ["ScaledTanh", "Tanh", "Tanh"]}, UnsupportedModel, "lacks alpha or beta"),
        ({"direction": "bidirectional"}, InvalidInput, "weights of 1 directions"),
    ],
)
def test_a_layer_that_its_operator_cannot_be_is_refused_in_a_sentence(
    attributes: dict[str, Any], error: type[Exception], sentence: str, tmp_path: Path
) -> None:
    tensors = {"x": drawn((3, 1, 2)), "w": drawn((1, 16, 2)), "r": drawn((1, 16, 4))}
    model = layer_model("LSTM", tensors, {"x"}, ["y"], hidden_size=4, **attributes)
    with pytest.raises(error) as told:
        import_model(written(tmp_path, model), {})
    assert sentence in str(told.value)
    assert "; " in str(told.value), "it says what would help"
