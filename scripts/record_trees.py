"""Records what onnxruntime makes of ai.onnx.ml: nodes of every form, and models that converters of
scikit-learn, LightGBM and XGBoost write. `python -m scripts.record_trees`, where onnxruntime,
skl2onnx, onnxmltools, lightgbm and xgboost are installed."""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from itertools import product
from typing import Any

import numpy as np
from onnx import helper, numpy_helper

from scripts.record_operators import Array, OperatorCase, real, record, whole

RANDOM = np.random.default_rng(7)
ML = "ai.onnx.ml"
FEATURES, OPSET = 4, 17


def ml(operator: str, feeds: list[Array | None], outputs: int = 1, **attributes: Any) -> "MlCase":
    return MlCase(operator, feeds, outputs, domain=ML, opset=17, **attributes)


class MlCase(OperatorCase):
    """A case of the domain; `version` is that of its operators."""

    def __init__(self, *given: Any, version: int = 3, **attributes: Any) -> None:
        super().__init__(*given, **attributes)
        self.model.opset_import.append(helper.make_opsetid(ML, version))
        self.model.ir_version = 10


class ConvertedCase(OperatorCase):
    """A model of a converter, and rows for its input."""

    def __init__(self, model: Any, rows: Array) -> None:
        self.model = model
        (given,) = model.graph.input
        given.type.tensor_type.shape.dim[0].dim_value = len(rows)
        self.feeds = {given.name: rows}
        # Some name no version of ONNX or an old one, of which they use what has not changed since.
        versions = {each.domain: each.version for each in model.opset_import} | {"": OPSET}
        del model.opset_import[:]
        model.opset_import.extend(helper.make_opsetid(*each) for each in versions.items())

    def recorded(self) -> Mapping[str, Array]:
        return {name: _as_numbers(value) for name, value in super().recorded().items()}


TEXTS = ("cat", "dog", "owl")


def _as_numbers(value: Any) -> Array:
    """Scores that ZipMap has put beside labels, and numbers of labels that are texts."""
    if isinstance(value, list):
        return np.array([list(each.values()) for each in value], np.float32)
    if value.dtype == object:
        return np.array([TEXTS.index(each) for each in value], np.int64)
    found: Array = value
    return found


def rows(count: int = 12) -> Array:
    """Some of them lie on thresholds."""
    return (np.rint(RANDOM.standard_normal((count, FEATURES)) * 4) / 4).astype(np.float32)


def grown(
    trees: int, targets: int, modes: tuple[str, ...], what: str, *, positive: bool = False
) -> dict[str, Any]:
    """Attributes of random trees; leaves of several targets, or with one target of one."""
    columns: dict[str, list[Any]] = {
        name: []
        for name in (
            "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
            "missing_value_tracks_true",
        )
    }  # fmt: skip
    leaves: dict[str, list[Any]] = {name: [] for name in ("treeids", "nodeids", "ids", "weights")}

    def add(tree: int, depth: int, count: list[int]) -> int:
        own = count[0]
        count[0] += 1
        place = len(columns["treeids"])
        leaf = depth == 0 or (depth < 3 and RANDOM.random() < 0.2)
        mode = "LEAF" if leaf else modes[RANDOM.integers(len(modes))]
        values = (
            tree, own, int(RANDOM.integers(FEATURES)), float(RANDOM.integers(-6, 7)) / 4, mode, 0,
            0, int(RANDOM.integers(2)),
        )  # fmt: skip
        for name, value in zip(columns, values, strict=True):
            columns[name].append(value)
        if leaf:
            for target in range(targets):
                weight = float(RANDOM.integers(-20, 20)) / 16
                entry = (tree, own, target, abs(weight) if positive else weight)
                for name, value in zip(leaves, entry, strict=True):
                    leaves[name].append(value)
        else:
            columns["truenodeids"][place] = add(tree, depth - 1, count)
            columns["falsenodeids"][place] = add(tree, depth - 1, count)
        return own

    for tree in range(trees):
        add(tree, 3, [0])
    return {
        **{f"nodes_{name}": values for name, values in columns.items()},
        **{f"{what}_{name}": values for name, values in leaves.items()},
    }


ORDERS = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT")
EQUALS = ("BRANCH_EQ", "BRANCH_NEQ", "BRANCH_LEQ")


def regressor(modes: tuple[str, ...], targets: int, **more: Any) -> OperatorCase:
    x = rows()
    x[::3, 1] = np.nan
    attributes = grown(5, targets, modes, "target")
    return ml("TreeEnsembleRegressor", [x], n_targets=targets, **attributes, **more)


def classifier(
    classes: int, targets: int, *, positive: bool, start: int = 0, **more: Any
) -> OperatorCase:
    attributes = grown(4, targets, ORDERS[:1], "class", positive=positive)
    attributes["class_ids"] = [start + each for each in attributes["class_ids"]]
    named = {"classlabels_int64s": [7, -2, 5][:classes]}
    return ml("TreeEnsembleClassifier", [rows()], 2, **named, **attributes, **more)


def _base(classes: int) -> dict[str, Any]:
    return {"base_values": [0.25] * classes} if classes else {}


def ensemble(**more: Any) -> OperatorCase:
    """Two trees, one of which is a leaf alone; sets of values."""
    attributes: dict[str, Any] = {
        "tree_roots": [0, 3],
        "nodes_featureids": [0, 2, 1, 0],
        "nodes_modes": numpy_helper.from_array(np.array([0, 6, 5, 0], np.uint8)),
        "nodes_splits": numpy_helper.from_array(np.array([0.25, 0, 0.5, 0], np.float32)),
        "nodes_truenodeids": [1, 0, 2, 4],
        "nodes_trueleafs": [0, 1, 1, 1],
        "nodes_falsenodeids": [2, 1, 3, 4],
        "nodes_falseleafs": [0, 1, 1, 1],
        "membership_values": numpy_helper.from_array(np.array([1, 2, 3, np.nan], np.float32)),
        "leaf_targetids": [0, 1, 0, 1, 0],
        "leaf_weights": numpy_helper.from_array(np.array([1.5, -2, 0.25, 3, 0.5], np.float32)),
        "n_targets": 2,
    }
    return ml("TreeEnsemble", [rows(40)], version=5, **attributes, **more)


def vector_classes(classes: int, transform: str) -> OperatorCase:
    counts = [3, 2, 4, 1][:classes]
    total, pairs = sum(counts), classes * (classes - 1) // 2
    return ml(
        "SVMClassifier", [rows()], 2, classlabels_ints=[7, -2, 5, 0][:classes],
        vectors_per_class=counts, support_vectors=real(total * FEATURES).tolist(),
        coefficients=real((classes - 1) * total).tolist(), rho=real(pairs).tolist(),
        kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], post_transform=transform,
    )  # fmt: skip


def nodes() -> dict[str, Callable[[], OperatorCase]]:
    missing = rows()
    missing[::2, 2] = np.nan
    keys = np.array([3, 1, 4, 9, 5], np.int64)
    numbers = RANDOM.integers(0, 10, (3, 5))
    coefficients = real(3 * FEATURES).tolist()
    vectors = {
        "coefficients": real(5).tolist(), "support_vectors": real(5 * FEATURES).tolist(),
        "n_supports": 5, "rho": [0.25],
    }  # fmt: skip
    return {
        **{
            f"regressor_{name}_{targets}": partial(regressor, modes, targets)
            for (name, modes), targets in product(
                {"orders": ORDERS, "equals": EQUALS}.items(), (1, 3)
            )
        },
        **{
            f"regressor_{aggregate}": partial(
                regressor, ORDERS, 2, aggregate_function=aggregate, base_values=[0.5, -1.0]
            )
            for aggregate in ("AVERAGE", "MIN", "MAX")
        },
        **{
            f"regressor_{transform}_{targets}": partial(
                regressor, ORDERS, targets, post_transform=transform
            )
            for transform, targets in product(("SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"), (1, 3))
        },
        **{
            "_".join(("classifier", *map(str, form))): partial(
                classifier,
                form[0],
                form[1],
                positive=form[2],
                post_transform=form[3],
                **_base(form[4]),
            )
            for form in (
                *product((3,), (3,), (True, False), ("NONE", "SOFTMAX", "LOGISTIC"), (0, 3)),
                *product((2,), (1,), (True, False), ("NONE", "LOGISTIC", "SOFTMAX"), (0, 1)),
                *product((2,), (2,), (True, False), ("NONE", "SOFTMAX", "LOGISTIC"), (0, 2)),
            )
        },
        **{
            "_".join(("classifier_second", *map(str, form))): partial(
                classifier, 2, 1, positive=form[0], start=1, post_transform=form[1]
            )
            for form in product((True, False), ("NONE", "LOGISTIC"))
        },
        "ensemble": ensemble,
        "ensemble_average": partial(ensemble, post_transform=3, aggregate_function=0),
        "ensemble_max": partial(ensemble, aggregate_function=3),
        "scaler": lambda: ml("Scaler", [rows()], offset=[1.0, 2, 3, 4], scale=[0.5, 2, 1, -1]),
        "scaler_of_integers": lambda: ml("Scaler", [numbers], offset=[1.0], scale=[0.5]),
        **{
            f"normalizer_{norm}": partial(ml, "Normalizer", [rows()], norm=norm)
            for norm in ("L1", "L2", "MAX")
        },
        "imputer": lambda: ml(
            "Imputer", [missing], imputed_value_floats=[1.0, 2, 3, 4], replaced_value_float=np.nan
        ),
        "imputer_of_integers": lambda: ml(
            "Imputer", [numbers], imputed_value_int64s=[-3], replaced_value_int64=4
        ),
        "binarizer": lambda: ml("Binarizer", [rows()], threshold=0.25),
        "extractor": lambda: ml("ArrayFeatureExtractor", [rows(), whole(2, 0, dtype=np.int64)]),
        "extractor_of_a_row": lambda: ml(
            "ArrayFeatureExtractor", [real(6), whole(5, 0, 2, dtype=np.int64)]
        ),
        "vectorizer": lambda: ml(
            "FeatureVectorizer", [rows(3), real(3, 2)], inputdimensions=[4, 2]
        ),
        "labels": lambda: ml(
            "LabelEncoder", [numbers], keys_int64s=keys.tolist(), values_floats=[0.5, 1, 2, 3, 4],
            default_float=-7.0,
        ),
        "labels_of_reals": lambda: ml(
            "LabelEncoder", [missing], version=4, keys_floats=[0.25, np.nan, 1.0],
            values_int64s=[5, 6, 7],
        ),
        "labels_of_opset_4": lambda: ml(
            "LabelEncoder", [numbers], version=4, keys_tensor=numpy_helper.from_array(keys),
            values_tensor=numpy_helper.from_array(keys * 10),
            default_tensor=numpy_helper.from_array(np.array([-5])),
        ),
        "one_hot": lambda: ml("OneHotEncoder", [numbers], cats_int64s=[1, 5, 3, 0]),
        "one_hot_of_reals": lambda: ml("OneHotEncoder", [rows()], cats_int64s=[1, 0, -1]),
        "linear": lambda: ml(
            "LinearRegressor", [rows()], coefficients=coefficients, targets=3,
            intercepts=[0.5, 1, -1],
        ),
        **{
            f"classes_{transform}_{count}": partial(
                ml, "LinearClassifier", [rows()], 2, coefficients=coefficients[: count * FEATURES],
                intercepts=[0.5, 1, -1][:count], post_transform=transform,
                classlabels_ints=[4, 9, 2][: max(2, count)],
            )
            for transform, count in product(("NONE", "SOFTMAX", "LOGISTIC"), (1, 3))
        },
        **{
            f"vectors_{kernel}": partial(
                ml, "SVMRegressor", [rows()], kernel_type=kernel, kernel_params=[0.5, 0.25, 3.0],
                **vectors,
            )
            for kernel in ("LINEAR", "RBF", "POLY", "SIGMOID")
        },
        **{
            f"vectors_of_{classes}_{transform}": partial(vector_classes, classes, transform)
            for classes, transform in product((2, 3, 4), ("NONE", "LOGISTIC", "SOFTMAX"))
        },
    }  # fmt: skip


def trained() -> dict[str, Callable[[], OperatorCase]]:
    """Small models of each library, with rows that were not trained on."""
    x = RANDOM.standard_normal((200, FEATURES)).astype(np.float32)
    target = (x[:, 0] * 2 + x[:, 1] ** 2 - x[:, 2]).astype(np.float32)
    two, three = (target > 1).astype(np.int64), np.digitize(target, [0, 2])
    forest, boosting, linear, tree, pipeline, preprocessing, vectors, neighbours = (
        import_module(f"sklearn.{name}")
        for name in (
            "ensemble", "ensemble", "linear_model", "tree", "pipeline",
            "preprocessing", "svm", "neighbors",
        )
    )  # fmt: skip

    def scikit(estimator: Any, labels: Array, **options: Any) -> OperatorCase:
        to_onnx = import_module("skl2onnx").to_onnx
        estimator.fit(x, labels)
        kept = {id(estimator): options} if options else None
        model = to_onnx(estimator, x[:1], target_opset={"": 17, ML: 3}, options=kept)
        return ConvertedCase(model, rows(8))

    def other(library: str, name: str, labels: Array, **more: Any) -> OperatorCase:
        tools = import_module("onnxmltools")
        types = import_module("onnxmltools.convert.common.data_types")
        estimator = getattr(import_module(library), name)(n_estimators=3, max_depth=3, **more)
        estimator.fit(x, labels)
        convert = getattr(tools, f"convert_{library}")
        given = [("x", types.FloatTensorType([8, FEATURES]))]
        model = convert(estimator, initial_types=given, target_opset=15)
        return ConvertedCase(model, rows(8))

    estimators: Mapping[str, tuple[Any, Array]] = {
        "tree": (tree.DecisionTreeClassifier(max_depth=3), three),
        "forest": (forest.RandomForestClassifier(3, max_depth=3), three),
        "forest_of_two": (forest.RandomForestClassifier(3, max_depth=3), two),
        "forest_of_numbers": (forest.RandomForestRegressor(3, max_depth=3), target),
        "boosting": (boosting.GradientBoostingClassifier(n_estimators=3), three),
        "boosting_of_two": (boosting.GradientBoostingClassifier(n_estimators=3), two),
        "boosting_of_numbers": (boosting.GradientBoostingRegressor(n_estimators=3), target),
        "logistic": (linear.LogisticRegression(), three),
        "logistic_of_two": (linear.LogisticRegression(), two),
        "ridge": (linear.Ridge(), target),
        "vectors": (vectors.SVC(), three),
        "vectors_of_two": (vectors.SVC(kernel="linear"), two),
        "pipeline": (
            pipeline.make_pipeline(preprocessing.StandardScaler(), linear.LogisticRegression()),
            three,
        ),
        "texts": (
            tree.DecisionTreeClassifier(max_depth=3), np.array(TEXTS)[three]
        ),
    }  # fmt: skip
    return {
        **{name: partial(scikit, *given) for name, given in estimators.items()},
        "neighbours": partial(scikit, neighbours.KNeighborsClassifier(3), three, optim="cdist"),
        "lightgbm": partial(other, "lightgbm", "LGBMClassifier", three, verbose=-1),
        "lightgbm_of_two": partial(other, "lightgbm", "LGBMClassifier", two, verbose=-1),
        "lightgbm_of_numbers": partial(other, "lightgbm", "LGBMRegressor", target, verbose=-1),
        "xgboost": partial(other, "xgboost", "XGBClassifier", three),
        "xgboost_of_two": partial(other, "xgboost", "XGBClassifier", two),
        "xgboost_of_numbers": partial(other, "xgboost", "XGBRegressor", target),
    }


if __name__ == "__main__":
    record("trees", {**nodes(), **trained()})
