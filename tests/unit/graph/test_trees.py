"""Models of ai.onnx.ml that are not made well, and what a user is told of others."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from kernelzoo.domain.operators.expressions import Program
from kernelzoo.errors import InvalidInput, UnsupportedModel
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.features import remarks
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import written


def model(operator: str, outputs: int = 1, domain: str = "ai.onnx.ml", **more: Any) -> ModelProto:
    names = [f"y{n}" for n in range(outputs)]
    node = helper.make_node(operator, ["x"], names, "node", domain=domain, **more)
    made: ModelProto = helper.make_model(
        helper.make_graph(
            [node], "g", [helper.make_tensor_value_info("x", 1, [5, 2])],
            [helper.make_empty_tensor_value_info(name) for name in names],
        ),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)],
        ir_version=8,
    )  # fmt: skip
    return made


def chain(depth: int, first: tuple[int, ...] = ()) -> dict[str, Any]:
    """One tree, each node of which has a leaf and the next node as its children."""
    nodes = 2 * depth + 1
    inner = range(depth)
    return {
        "nodes_treeids": [0] * nodes,
        "nodes_nodeids": list(range(nodes)),
        "nodes_featureids": [0] * nodes,
        "nodes_values": [*map(float, inner), *[0.0] * (depth + 1)],
        "nodes_modes": [*["BRANCH_LEQ"] * depth, *["LEAF"] * (depth + 1)],
        "nodes_truenodeids": [*(first or (depth + n for n in inner)), *[0] * (depth + 1)],
        "nodes_falsenodeids": [*range(1, depth), nodes - 1, *[0] * (depth + 1)],
        "target_treeids": [0] * (depth + 1),
        "target_nodeids": list(range(depth, nodes)),
        "target_ids": [0] * (depth + 1),
        "target_weights": [float(n) for n in range(depth + 1)],
        "n_targets": 1,
    }


def test_a_deep_tree_is_one_walk(tmp_path: Path) -> None:
    path = written(tmp_path, model("TreeEnsembleRegressor", **chain(100)))
    graph = import_model(path, {})
    x = np.array([[-1, 0], [41.5, 0], [42, 0], [98.5, 0], [1000, 0]], np.float32)
    assert evaluate(graph, {"x": x})["y0"].ravel().tolist() == [0, 42, 42, 99, 100]
    walks = [node for node in graph.nodes if isinstance(node.op, Program)]
    assert len(walks) <= 3


def test_nodes_of_a_forest_lie_in_the_order_in_which_a_walk_comes_to_them(tmp_path: Path) -> None:
    """Trees of 2, 5 and 3 levels, one behind the other in the file: the deepest comes first."""
    trees = [chain(depth) for depth in (2, 5, 3)]
    forest: dict[str, Any] = {
        name: [entry for tree in trees for entry in tree[name]]
        for name in trees[0]
        if name != "n_targets"
    }
    for column, per in (("nodes_treeids", "nodes_nodeids"), ("target_treeids", "target_nodeids")):
        forest[column] = [number for number, tree in enumerate(trees) for _ in tree[per]]
    made = model("TreeEnsembleRegressor", **forest, n_targets=1)
    graph = import_model(written(tmp_path, made), {})
    tables = [each for each in graph.constants.values() if each.dtype == np.int32]
    (roots,) = (each for each in tables if each.shape == (3,))
    (children,) = (each for each in tables if each.ndim == 2)
    assert roots.tolist() == [0, 1, 2]
    places = np.arange(len(children))[:, None]
    assert (children >= places).all(), "no step goes back"
    below = children[(children > places).all(axis=1)].ravel()
    assert below.tolist() == sorted(below.tolist())
    x = np.array([[-1, 0], [0.5, 0], [2, 0], [3.5, 0], [9, 0]], np.float32)
    (wanted,) = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    np.testing.assert_array_equal(evaluate(graph, {"x": x})["y0"], wanted)


def test_trees_that_are_all_a_leaf_give_its_weights(tmp_path: Path) -> None:
    """LightGBM ends with such trees where nothing is left to learn."""
    leaves: dict[str, Any] = {
        **{f"nodes_{name}": [0, 0] for name in ("nodeids", "featureids", "truenodeids")},
        "nodes_falsenodeids": [0, 0],
        "nodes_treeids": [0, 1],
        "nodes_values": [0.0, 0.0],
        "nodes_modes": ["LEAF", "LEAF"],
        "target_treeids": [0, 1],
        "target_nodeids": [0, 0],
        "target_ids": [0, 0],
        "target_weights": [1.5, -0.25],
        "n_targets": 1,
    }
    graph = import_model(written(tmp_path, model("TreeEnsembleRegressor", **leaves)), {})
    made = evaluate(graph, {"x": np.zeros((5, 2), np.float32)})["y0"]
    assert made.ravel().tolist() == [1.25] * 5


@pytest.mark.parametrize("weights", [[-1.5, -2.0, 0.5, -0.5], [1.5, 0.0, 0.5, 2.0]])
def test_a_class_without_a_weight_is_chosen_by_no_row(weights: list[float], tmp_path: Path) -> None:
    """Its score is 0, which is the largest where all others are below 0."""
    tree = {name: value for name, value in chain(2).items() if name.startswith("nodes")}
    classes: dict[str, Any] = {
        "class_treeids": [0] * 4,
        "class_nodeids": [2, 2, 3, 4],
        "class_ids": [1, 2, 1, 2],
        "class_weights": weights,
        "classlabels_int64s": [7, -2, 5],
    }
    made = model("TreeEnsembleClassifier", 2, **tree, **classes)
    x = np.array([[-1, 0], [0.5, 0], [1, 0], [1.5, 0], [9, 0]], np.float32)
    wanted = onnxruntime.InferenceSession(made.SerializeToString()).run(None, {"x": x})
    outputs = evaluate(import_model(written(tmp_path, made), {}), {"x": x})
    assert outputs["y0"].tolist() == wanted[0].tolist()
    np.testing.assert_allclose(outputs["y1"], wanted[1])


REFUSED = {
    "two base values": model(
        "TreeEnsembleClassifier",
        2,
        **{
            name.replace("target", "class"): value
            for name, value in chain(2).items()
            if name != "n_targets"
        },
        classlabels_int64s=[0, 1],
        base_values=[0.5, 1.0],
    ),
    "deeper than 128": model("TreeEnsembleRegressor", **chain(140)),
    "not made as its operator": model("TreeEnsembleRegressor", **(chain(3) | {"n_targets": 0})),
    "it asks for feature 9 of rows of 2": model(
        "TreeEnsembleRegressor", **(chain(3) | {"nodes_featureids": [9] * 7})
    ),
    "(TreeEnsembleRegressor) is not made": model(
        "TreeEnsembleRegressor", **chain(3, first=(3, 1, 5))
    ),
    "keys are texts": model("LabelEncoder", keys_strings=["a"], values_int64s=[1]),
    "post_transform is PROBIT": model("TreeEnsembleRegressor", **chain(3), post_transform="PROBIT"),
    "no operator of ONNX": model("TfIdf"),
    "which no file may have": model("TreeWalk", domain="kernelzoo", steps=[1]),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_cannot_be_is_refused_in_a_sentence(sentence: str, tmp_path: Path) -> None:
    with pytest.raises((InvalidInput, UnsupportedModel)) as told:
        import_model(written(tmp_path, REFUSED[sentence]), {})
    assert sentence in str(told.value)
    assert "; " in str(told.value), "it says what would help"


def test_a_user_is_told_of_maps_and_of_labels_that_are_texts() -> None:
    labels = ["cat", "dog"]
    lines = [
        *remarks(model("TreeEnsembleClassifier", 2, classlabels_strings=labels).graph),
        *remarks(model("ZipMap", classlabels_int64s=[0, 1]).graph),
    ]
    assert "0 for 'cat', 1 for 'dog'" in lines[0]
    assert lines[1].startswith("node 'node' (ZipMap) is left out: 'y0' is the tensor of scores")


def test_a_threshold_of_strictly_less_holds_for_the_number_below_it(tmp_path: Path) -> None:
    """XGBoost asks so; thresholds of 0 are usual."""
    tree = chain(1) | {"nodes_modes": ["BRANCH_LT", "LEAF", "LEAF"]}
    thresholds = np.array([0, 1, -2.5, 3e38], np.float32)
    for threshold in thresholds:
        made = model(
            "TreeEnsembleRegressor",
            **{name: value for name, value in tree.items() if name != "nodes_values"},
            nodes_values_as_tensor=numpy_helper.from_array(np.array([threshold, 0, 0], np.float32)),
        )
        graph = import_model(written(tmp_path, made), {})
        below = min(np.nextafter(threshold, np.float32(-np.inf)), threshold - np.float32(1e-30))
        x = np.array([[threshold, 0], [below, 0], [np.inf, 0], [-np.inf, 0], [np.nan, 0]])
        x = x.astype(np.float32)
        made_ = evaluate(graph, {"x": x})["y0"].ravel()
        assert made_.tolist() == [float(not each) for each in x[:, 0] < threshold]


@pytest.mark.parametrize("tracked", [0, 1])
@pytest.mark.parametrize("mode", range(6))
def test_thresholds_of_doubles_decide_features_of_f32_as_onnxruntime_does(
    mode: int, tracked: int, tmp_path: Path
) -> None:
    """LightGBM writes such trees. The thresholds lie between two numbers of f32, or are one. NaN
    goes where the comparison sends it, or where values go that are missing."""
    x = np.array([0.1, 1 / 3, 2.0, -7.3, np.inf], np.float32)
    x = np.concatenate((x, np.nextafter(x, np.float32(-9)), np.nextafter(x, np.float32(9))))
    x = np.concatenate((x, np.array([np.nan, -np.inf], np.float32)))
    for threshold in (0.1, 1 / 3, 2.0, float(np.float32(-7.3)), 1e-42):
        node = helper.make_node(
            "TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, tree_roots=[0],
            nodes_modes=numpy_helper.from_array(np.array([mode], np.uint8)),
            nodes_splits=numpy_helper.from_array(np.array([threshold])),
            leaf_weights=numpy_helper.from_array(np.array([1.0, 2.0])),
            leaf_targetids=[0, 0], nodes_featureids=[0], nodes_truenodeids=[0],
            nodes_falsenodeids=[1], nodes_trueleafs=[1], nodes_falseleafs=[1],
            nodes_missing_value_tracks_true=[tracked],
        )  # fmt: skip
        infos = (
            helper.make_tensor_value_info(name, TensorProto.DOUBLE, (len(x), 1)) for name in "xy"
        )
        graph = helper.make_graph([node], "trees", [next(infos)], [next(infos)])
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
        made = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        feeds = {"x": x.astype(np.float64)[:, None]}
        session = onnxruntime.InferenceSession(made.SerializeToString())
        (wanted,) = session.run(None, feeds)
        imported = import_model(written(tmp_path, made), {})
        assert evaluate(imported, feeds)["y"].tolist() == wanted.tolist(), threshold
