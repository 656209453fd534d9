"""An import is told these beside the file: values of inputs that decide, and numbers of dimensions;
and what of a file is asked for nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from cli.models.dimensions import parse_constants, parse_dimensions
from cli.models.importing import imported
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.dimensions import ConstantValue
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.importing import import_model
from tests.unit.graph.merged_decoders import merged_decoder
from tests.unit.graph.models import assert_as_reference, drawn, parsed, written

RATES = """net (float[1, 4] x, int64 rate) => (float[1, 4] y) {
    fast = Constant <value_int = 16000> ()
    is_fast = Equal (rate, fast)
    only_slow = NonZero (x)
    y = If (is_fast) <
        then_branch = one () => (float[1, 4] t) { t = Exp (x) },
        else_branch = other () => (float[A, B] e) { e = Cast <to = 1> (only_slow) }
    >
}"""

GATED = """net (float[2, 3] x, bool[1] c, bool d) => (float[2, 3] y, float[2, 3] z) {
    shared = Exp (x)
    y, z = If (c) <
        then_branch = one () => (float[2, 3] a, float[2, 3] b) {
            a = If (d) <
                then_branch = two () => (float[2, 3] p) { p = Neg (shared) },
                else_branch = three () => (float[2, 3] q) { late = Sin (x)  q = Add (late, shared) }
            >
            b = Cos (x)
        },
        else_branch = four () => (float[2, 3] e, float[2, 3] f) { e = Abs (x)  f = Cos (x) }
    >
}"""


def with_constant(
    folder: Path, text: str, constants: dict[str, ConstantValue], **feeds: NDArray[Any]
) -> dict[str, NDArray[Any]]:
    graph = import_model(written(folder, parsed(text)), {}, constants=constants)
    assert {port.name for port in graph.inputs} == set(feeds)
    return evaluate(graph, feeds)


def test_an_input_that_is_told_takes_a_branch_and_asks_nothing_of_the_other(
    tmp_path: Path,
) -> None:
    x = drawn((1, 4))
    made = with_constant(tmp_path, RATES, {"rate": 16_000}, x=x)
    np.testing.assert_allclose(made["y"], np.exp(x), rtol=1e-6)
    with pytest.raises(UnsupportedModel, match="NonZero"):
        with_constant(tmp_path, RATES, {"rate": 8_000}, x=x)


@pytest.mark.parametrize("c", [True, False])
@pytest.mark.parametrize("d", [True, False])
def test_branches_of_equal_shapes_are_both_computed_and_one_is_chosen(
    tmp_path: Path, *, c: bool, d: bool
) -> None:
    feeds = {"x": drawn((2, 3)), "c": np.array([c]), "d": np.array(d)}
    assert_as_reference(tmp_path, parsed(GATED), feeds)


def test_branches_of_other_shapes_ask_for_the_input_that_decides(tmp_path: Path) -> None:
    text = RATES.replace("Cast <to = 1> (only_slow)", "Flatten <axis = 0> (x)")
    with pytest.raises(UnsupportedModel) as told:
        import_model(written(tmp_path, parsed(text.replace("[1, 4] x", "[2, 2] x"))), {})
    assert "makes [2, 2] or [1, 4]" in str(told.value)
    assert "--constant rate=VALUE" in str(told.value)


WRONG_CONSTANTS: dict[str, tuple[ConstantValue, str]] = {
    "a fraction": (1.5, r"int64\[\] and cannot be 1.5"),
    "too many": ([1, 2], r"int64\[\] and cannot be \[1, 2\]"),
    "nothing": ([], "cannot be"),
}


@pytest.mark.parametrize("name", WRONG_CONSTANTS)
def test_a_value_that_an_input_cannot_have_is_refused(name: str, tmp_path: Path) -> None:
    value, sentence = WRONG_CONSTANTS[name]
    with pytest.raises(InvalidInput, match=sentence):
        with_constant(tmp_path, RATES, {"rate": value}, x=drawn((1, 4)))


def test_a_constant_that_is_no_input_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no input 'sr' .* its inputs are 'x', 'rate'"):
        with_constant(tmp_path, RATES, {"sr": 1}, x=drawn((1, 4)))


def test_one_number_is_all_entries_of_a_constant(tmp_path: Path) -> None:
    text = "net (float[3] x, float[3] s) => (float[3] y) { y = Add (x, s) }"
    x = drawn((3,))
    np.testing.assert_allclose(with_constant(tmp_path, text, {"s": 2}, x=x)["y"], x + 2)
    made = with_constant(tmp_path, text, {"s": [1, 2, 3]}, x=x)
    np.testing.assert_allclose(made["y"], x + np.arange(1, 4))


def with_dead_parts() -> ModelProto:
    """Texts, unknown operators, loops without end and weights of another type, beside a Relu."""
    model = parsed("net (float[2] x) => (float[2] y) { y = Relu (x) }")
    text = numpy_helper.from_array(np.array(["abc"], np.object_), "text")
    model.graph.initializer.append(text)
    model.graph.initializer.append(helper.make_tensor("f8", TensorProto.FLOAT8E5M2, [1], [1.0]))
    model.graph.input.append(helper.make_tensor_value_info("words", TensorProto.STRING, [1]))
    model.graph.input.append(helper.make_tensor_value_info("open", TensorProto.FLOAT, ["N"]))
    model.graph.node.append(helper.make_node("Frobnicate", ["x", "text"], ["f"], "with \x1b"))
    model.graph.node.append(helper.make_node("Constant", [], ["w"], value=text))
    model.graph.node.append(helper.make_node("NonZero", ["f8"], ["n"]))
    model.graph.node.append(helper.make_node("Relu", ["nothing"], ["r"]))
    return model


def test_what_no_output_needs_is_asked_nothing(tmp_path: Path) -> None:
    graph = assert_as_reference_of_relu(tmp_path, with_dead_parts())
    assert graph == ["x"]


def assert_as_reference_of_relu(folder: Path, model: ModelProto) -> list[str]:
    graph = import_model(written(folder, model), {})
    x = np.array([-1, 2], np.float32)
    assert evaluate(graph, {"x": x})["y"].tolist() == [0, 2]
    return [port.name for port in graph.inputs]


def test_constants_of_any_operator_are_computed_at_import(tmp_path: Path) -> None:
    """Shapes that depend on values are known where the values are."""
    model = parsed("""net (float[4, 2] x) => (float[N, 2] y, float[M] z, float[K, 2] s)
    <float[1, 3, 4] boxes = {0, 0, 1, 1, 0, 0, 1, 0.9, 0, 0.5, 0.2, 1},
     float[1, 1, 3] scores = {0.9, 0.8, 0.7}> {
        flags = Constant <value = bool[4] {1, 0, 0, 1}> ()
        at = NonZero (flags)
        rows = Constant <value_ints = [-1]> ()
        flat = Reshape (at, rows)
        y = Gather (x, flat)
        numbers = Constant <value_ints = [3, 1, 3]> ()
        u = Unique (numbers)
        z = Cast <to = 1> (u)
        most = Constant <value_ints = [5]> ()
        overlap = Constant <value_floats = [0.5]> ()
        least = Constant <value_floats = [0.0]> ()
        kept = NonMaxSuppression (boxes, scores, most, overlap, least)
        third = Constant <value_int = 2> ()
        box = Gather <axis = 1> (kept, third)
        some = Compress <axis = 0> (x, flags)
        chosen = Gather (x, box)
        s = Concat <axis = 0> (chosen, some)
    }""")
    x = drawn((4, 2))
    made = evaluate(import_model(written(tmp_path, model), {}), {"x": x})
    np.testing.assert_array_equal(made["y"], x[[0, 3]])
    assert made["z"].tolist() == [1, 3]
    np.testing.assert_array_equal(made["s"], x[[0, 2, 0, 3]])


BOXES = "float[1, 2, 4] boxes = {0, 0, 1, 1, 0, 0, 2, 2}, float[1, 1, 2] scores = {0.1, 0.2}"
NO_BOX = {
    "no boxes": ("", "float[1, 0, 4] boxes = {}, float[1, 1, 0] scores = {}, int64[1] most = {2}"),
    "none that scores enough": (
        ", most, overlap, least",
        f"{BOXES}, int64[1] most = {{2}}, float[1] overlap = {{0.5}}, float[1] least = {{0.9}}",
    ),
    "no number of boxes": ("", BOXES),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_BOX)
def test_constant_boxes_of_which_none_is_chosen_leave_nothing(case: str, tmp_path: Path) -> None:
    more, constants = NO_BOX[case]
    model = parsed(f"""net (float[2] x) => (float[N] y) <{constants}> {{
        kept = NonMaxSuppression (boxes, scores{more})
        third = Constant <value_int = 2> ()
        box = Gather <axis = 1> (kept, third)
        chosen = Gather (x, box)
        y = Concat <axis = 0> (chosen, x)
    }}""")
    x = drawn((2,))
    session = onnxruntime.InferenceSession(model.SerializeToString())
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], x)
    graph = import_model(written(tmp_path, model), {})
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], x)


NO_ENTRIES = {
    "a size of 0": ("stretch", "0, 4"),
    "a small size of a long image": ("not_larger", "1, 1"),
}


@pytest.mark.parametrize("case", NO_ENTRIES)
def test_what_is_resized_to_nothing_is_said_to_have_no_entries(case: str, tmp_path: Path) -> None:
    policy, sizes = NO_ENTRIES[case]
    model = parsed(
        f"""net (float[1, 1, 2, 40] x) => (float[a, b, c, d] y) <int64[2] n = {{{sizes}}}> {{
        y = Resize <keep_aspect_ratio_policy = "{policy}", axes = [2, 3]> (x, , , n)
    }}""",
        18,
    )
    with pytest.raises(UnsupportedModel, match=r"'y' has no entries: its shape is \[1, 1, 0, "):
        import_model(written(tmp_path, model), {})


def opened(dim: str | int, name: str = "x") -> ModelProto:
    x = helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 3])
    if isinstance(dim, int):
        x.type.tensor_type.shape.dim[0].dim_value = dim
    else:
        x.type.tensor_type.shape.dim[0].dim_param = dim
    y = helper.make_empty_tensor_value_info("y")
    graph = helper.make_graph([helper.make_node("Relu", [name], ["y"])], "net", [x], [y])
    made: ModelProto = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return made


NAMED: dict[str, tuple[ModelProto, dict[str, int], int]] = {
    "a place": (opened("N"), {"x.0": 2}, 2),
    "a place before a name": (opened("N"), {"x.0": 2, "N": 5}, 2),
    "a colon": (opened("input:0.0", "input:0"), {"input:0.0": 2}, 2),
    "a mark": (opened("?"), {"?": 4}, 4),
    "a mark's place": (opened("?"), {"x.0": 4}, 4),
    "-1 as a name": (opened("-1"), {"-1": 4}, 4),
    "-1 as a number": (opened(-1), {"x.0": 4}, 4),
    "0 as a number": (opened(0), {"x.0": 4}, 4),
    "None": (opened("None"), {"None": 4}, 4),
    "a formula": (opened("floor(height/8)"), {"floor(height/8)": 128}, 128),
    "what a formula is of": (opened("floor(height/8)"), {"height": 1030}, 128),
    "SymPy's": (opened("Max(1, 2*s0 - 4) + s1%3"), {"s0": 5, "s1": 4}, 7),
    "no Latin": (opened("批次 大小"), {"批次 大小": 2}, 2),
}


@pytest.mark.parametrize("name", NAMED)
def test_a_dimension_is_told_by_its_name_or_its_place(name: str, tmp_path: Path) -> None:
    model, dimensions, wanted = NAMED[name]
    graph = import_model(written(tmp_path, model), dimensions)
    assert graph.values[graph.inputs[0].value].shape == (wanted, 3)


def test_a_sentence_says_what_to_type_for_an_open_dimension(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as told:
        import_model(written(tmp_path, opened("floor(h/8)")), {})
    assert "as by --dim 'floor(h/8)=128', or x.0=128 for this axis alone" in str(told.value)
    with pytest.raises(InvalidInput, match=r"--dim x.0=128$"):
        import_model(written(tmp_path, opened(-1)), {})


def test_an_axis_of_the_file_keeps_its_number(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="axis 0 of input 'x' has 2 entries in the file"):
        import_model(written(tmp_path, opened(2)), {"x.0": 3})
    assert import_model(written(tmp_path, opened(2)), {"x.0": 2})


def test_an_empty_past_is_no_input_and_adds_nothing(tmp_path: Path) -> None:
    model = parsed("""net (float[1, P, 2] past, float[1, 3, 2] x) => (float[1, T, 2] y) {
        y = Concat <axis = 1> (past, x)
    }""")
    graph = import_model(written(tmp_path, model), {"P": 0})
    assert [port.name for port in graph.inputs] == ["x"]
    x = drawn((1, 3, 2))
    for each in (graph, fused(graph)):
        np.testing.assert_array_equal(evaluate(each, {"x": x})["y"], x)


def test_a_file_of_other_domains_alone_has_the_newest_opset(tmp_path: Path) -> None:
    model = parsed("net (float[2] x) => (float[2] y) { y = Relu (x) }")
    del model.opset_import[:]
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    assert import_model(written(tmp_path, model), {})


def test_weights_that_are_inputs_as_well_are_constants(tmp_path: Path) -> None:
    """Files of before 2019 have them so."""
    model = parsed("net (float[2] x, float[2] w) => (float[2] y) { y = Add (x, w) }", opset=8)
    model.ir_version = 3
    model.graph.initializer.append(numpy_helper.from_array(np.ones(2, np.float32), "w"))
    graph = import_model(written(tmp_path, model), {})
    assert [port.name for port in graph.inputs] == ["x"]


MERGED = """net (float[1, S, 8] x, float[1, P, 8] past, bool[1] use_cache_branch)
    => (float[1, A, 4] logits, float[1, B, 8] present) {
    logits, present = If (use_cache_branch) <
        then_branch = step () => (float[1, C, 4] a, float[1, D, 8] b) {
            k = MatMul (x, v)
            b = Concat <axis = 1> (past, k)
            all = ReduceMean <keepdims = 1, axes = [1]> (b)
            seen = Add (x, all)
            a = MatMul (seen, w)
        },
        else_branch = prompt () => (float[1, C, 4] c, float[1, D, 8] d) {
            d = MatMul (x, v)
            c = MatMul (x, w)
        }
    >
}"""


def merged() -> ModelProto:
    """A decoder as Optimum merges it: one branch takes a cache, the other makes it."""
    model = parsed(MERGED)
    for seed, (name, shape) in enumerate({"w": (8, 4), "v": (8, 8)}.items()):
        model.graph.initializer.append(numpy_helper.from_array(drawn(shape, seed), name))
    return model


def test_both_branches_of_a_merged_decoder_are_plans_that_share_weights(tmp_path: Path) -> None:
    file, lines = written(tmp_path, merged()), list[str]()
    made = imported(
        file, "decoder", parse_dimensions(("S=2", "P=3")), tmp_path / "weights", lines.append,
        constants=parse_constants(("use_cache_branch=true,false",)),
    )  # fmt: skip
    step, prompt = made.plans
    assert step.dimensions == {"S": 2, "P": 3, "use_cache_branch": 1}
    assert prompt.dimensions == {"S": 2, "P": 3, "use_cache_branch": 0}
    assert step.weights == prompt.weights
    assert step.memory.weights == 4 * (8 * 4 + 8 * 8)
    assert [port.name for port in step.inputs] == ["x", "past"]
    assert [port.name for port in prompt.inputs] == ["x"]
    assert [port.shape for port in step.outputs] == [(1, 2, 4), (1, 5, 8)]
    assert lines[0].startswith("importing model.onnx for S=2, P=3, use_cache_branch=1; S=2, P=3")


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_of_a_merged_decoder_computes_what_onnx_says(
    tmp_path: Path, *, taken: bool
) -> None:
    feeds = {"x": drawn((1, 2, 8)), "past": drawn((1, 3, 8), 1)}
    told = {"use_cache_branch": np.array([taken])}
    wanted = ReferenceEvaluator(merged()).run(None, {**feeds, **told})
    graph = import_model(
        written(tmp_path, merged()), {"S": 2, "P": 3}, constants={"use_cache_branch": taken}
    )
    made = evaluate(fused(graph), feeds)
    for name, value in zip(("logits", "present"), wanted, strict=True):
        np.testing.assert_allclose(made[name], value, rtol=1e-5, atol=1e-5)


def test_the_import_says_that_a_file_is_of_an_older_opset(tmp_path: Path) -> None:
    model = parsed("net (float[2, 3] x) => (float[2, 3] y) { y = Softmax <axis = 0> (x) }", 11)
    made = imported(written(tmp_path, model), "old", ({},), tmp_path / "weights", print)
    assert made.remarks == (
        "model.onnx is of opset 11: its operators were carried over to those of today",
    )


def test_a_shape_that_an_input_decides_asks_for_that_input(tmp_path: Path) -> None:
    model = parsed("""net (float[1, 4] x, int64[2] size) => (float[A, B] y) {
        one = Constant <value_ints = [1, 1]> ()
        shape = Mul (size, one)
        y = Expand (x, shape)
    }""")
    with pytest.raises(UnsupportedModel, match="as by --constant size=VALUE"):
        import_model(written(tmp_path, model), {})
    x = drawn((1, 4))
    graph = import_model(written(tmp_path, model), {}, constants={"size": [3, 4]})
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y"], np.repeat(x, 3, 0))


def test_a_formula_that_gives_no_whole_number_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"dimension 'h/8' would be 12.5; give whole numbers"):
        import_model(written(tmp_path, opened("h/8")), {"h": 100})


OPTIMUM = {
    "batch_size": 1,
    "encoder_sequence_length": 5,
    "encoder_sequence_length_out": 5,
    "decoder_sequence_length": 3,
    "past_decoder_sequence_length": 4,
}
OPTIMUM_FEEDS: dict[str, NDArray[Any]] = {
    "encoder_attention_mask": np.array([[1, 1, 1, 0, 1]]),
    "input_ids": np.array([[3, 17, 5]]),
    "encoder_hidden_states": drawn((1, 5, 8)),
    **{
        f"past_key_values.0.{side}.{part}": drawn((1, 2, extent, 4), extent + len(part))
        for side, extent in (("decoder", 4), ("encoder", 5))
        for part in ("key", "value")
    },
}


@pytest.mark.parametrize("taken", [True, False])
def test_a_decoder_that_optimum_merged_is_imported_without_the_outputs_that_are_empty(
    tmp_path: Path, *, taken: bool
) -> None:
    file, lines = written(tmp_path, merged_decoder()), list[str]()
    session = onnxruntime.InferenceSession(file)
    wanted = session.run(None, {**OPTIMUM_FEEDS, "use_cache_branch": np.array([taken])})
    graph = import_model(file, OPTIMUM, constants={"use_cache_branch": taken})
    read = {port.name for port in graph.inputs}
    feeds = {name: value for name, value in OPTIMUM_FEEDS.items() if name in read}
    assert ("encoder_hidden_states" in read) is not taken
    computed = evaluate(fused(graph), feeds)
    names = [output.name for output in merged_decoder().graph.output]
    empty = [name for name in names if "encoder" in name.split(".")] if taken else []
    assert [port.name for port in graph.outputs] == [name for name in names if name not in empty]
    for name, value in zip(names, wanted, strict=True):
        assert (value.size == 0) is (name in empty)
        if name not in empty:
            np.testing.assert_allclose(computed[name], value, rtol=1e-5, atol=1e-5)
    choice = parse_constants((f"use_cache_branch={str(taken).lower()}",))
    model = imported(
        file, "decoder", (OPTIMUM,), tmp_path / "weights", lines.append, constants=choice
    )
    (plan,) = model.plans
    assert [port.name for port in plan.outputs] == [port.name for port in graph.outputs]
    left_out = [line for line in lines if line.startswith("left out")]
    assert len(left_out) == (1 if taken else 0)
    assert all("present.0.encoder.value would have no entries" in line for line in left_out)


def test_a_model_all_of_whose_outputs_are_empty_is_refused(tmp_path: Path) -> None:
    model = parsed("""net (float[2, 3] x) => (float[0, 3] y) {
        none = Constant <value_ints = [0]> ()
        y = Slice (x, none, none)
    }""")
    with pytest.raises(UnsupportedModel, match="'y' has no entries"):
        import_model(written(tmp_path, model), {})
