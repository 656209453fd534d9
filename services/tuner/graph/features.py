"""Operators of ai.onnx.ml on tables of features, and models that are linear in them.

Definitions: ONNX, docs/Operators-ml.md; onnxruntime 1.32 where that is vague.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

import numpy as np
from onnx import GraphProto, helper

from services.tuner.graph.functions import Body
from services.tuner.graph.network import Array
from services.tuner.graph.reading import told_node
from services.tuner.graph.trees import binary, chosen, features, labels, transformed

SHOWN = 20
"""Labels that are told."""


def remarks(graph: GraphProto) -> Iterator[str]:
    """Says what becomes of labels that are texts and of maps, a line for each node."""
    for node in graph.node:
        texts = [
            each.decode(errors="replace")
            for attribute in node.attribute if attribute.name == "classlabels_strings"
            for each in attribute.strings
        ]  # fmt: skip
        if node.op_type == "ZipMap":
            yield (
                f"{told_node(node)} is left out: {node.output[0]!r} is the tensor of scores, in "
                "the order of the classes"
            )
        elif texts:
            told = ", ".join(f"{n} for {text!r}" for n, text in enumerate(texts[:SHOWN]))
            more = ", …" if len(texts) > SHOWN else ""
            yield f"labels of {told_node(node)} are texts: the output is {told}{more}"


def _reals(body: Body, name: str) -> Array:
    return np.array(body.reals(name), np.float32)


def _as_reals(body: Body, place: int = 0) -> str:
    kept = body.dtype(place) == np.float32
    return f"i{place}" if kept else body.node("Cast", f"i{place}", to=body.F32)


def _scaler(body: Body) -> tuple[str, ...]:
    x = _as_reals(body)
    offset, scale = _reals(body, "offset"), _reals(body, "scale")
    moved = body.node("Sub", x, body.weight(offset)) if offset.any() else x
    return (body.node("Mul", moved, body.weight(scale)) if scale.size else moved,)


def _normalizer(body: Body) -> tuple[str, ...]:
    """A row of zeros stays one."""
    x = _as_reals(body)
    last = body.integers(len(body.shape(0)) - 1)
    match body.text("norm", "MAX"):
        case "MAX":
            size = body.node("ReduceMax", x, last)
        case "L1":
            size = body.node("ReduceL1", x, last)
        case "L2":
            size = body.node("ReduceL2", x, last)
        case other:
            raise body.refusal(f"its norm is {other}", "export it with L1, L2 or MAX")
    none = body.node("Equal", size, body.weight(np.zeros((), np.float32)))
    size = body.node("Where", none, body.weight(np.ones((), np.float32)), size)
    return (body.node("Div", x, size),)


def _imputer(body: Body) -> tuple[str, ...]:
    real = body.value("imputed_value_floats") is not None
    kind = "float" if real else "int64"
    values = np.array(body.value(f"imputed_value_{kind}s")).astype(body.dtype(0))
    replaced = np.array(body.value(f"replaced_value_{kind}") or 0)
    if np.isnan(replaced):
        missing = body.node("IsNaN", "i0")
    else:
        missing = body.node("Equal", "i0", body.weight(replaced.astype(body.dtype(0))))
    return (body.node("Where", missing, body.weight(values), "i0"),)


def _binarizer(body: Body) -> tuple[str, ...]:
    limit = body.weight(np.array(body.real("threshold"), body.dtype(0)))
    above = body.node("Greater", "i0", limit)
    return (body.node("Cast", above, to=helper.np_dtype_to_tensor_dtype(body.dtype(0))),)


def _extractor(body: Body) -> tuple[str, ...]:
    """Columns by their numbers; a single row of them where there is one axis."""
    rank = len(body.shape(0))
    places = body.reshaped("i1", -1)
    found = body.node("Gather", "i0", places, axis=rank - 1)
    return (body.reshaped(found, 1, -1) if rank == 1 else found,)


def _vectorizer(body: Body) -> tuple[str, ...]:
    rows = [features(body, place) for place in range(body.inputs)]
    return (body.node("Concat", *rows, axis=1),)


def _one_hot(body: Body) -> tuple[str, ...]:
    """A value that is no category is a row of zeros."""
    categories = body.value("cats_int64s")
    if not categories:
        raise body.refusal("its categories are texts", "encode them in the page")
    if not body.integer("zeros", 1):
        raise body.refusal("it refuses unknown categories", "export it with zeros=1")
    x = body.node("Cast", "i0", to=body.I64)
    wide = body.node("Unsqueeze", x, body.integers(-1))
    found = body.node("Equal", wide, body.integers(*categories))
    return (body.node("Cast", found, to=body.F32),)


def _label_encoder(body: Body) -> tuple[str, ...]:
    """The value of the key that is equal, NaN to NaN, else the default."""
    keys = _listed(body, "keys", ("int64s", "floats"))
    values = _listed(body, "values", ("int64s", "floats"))
    default = body.array("default_tensor")
    if default is None:
        real = values.dtype.kind == "f"
        default = np.array(body.value("default_float" if real else "default_int64") or 0)
        if not real and body.value("default_int64") is None:
            default = np.array(-1)
    wide = body.node("Unsqueeze", "i0", body.integers(-1))
    same = body.node("Equal", wide, body.weight(keys.astype(body.dtype(0))))
    if keys.dtype.kind == "f" and np.isnan(keys).any():
        both = body.node("And", body.node("IsNaN", wide), body.weight(np.isnan(keys)))
        same = body.node("Or", same, both)
    places = np.arange(1, len(keys) + 1, dtype=np.int32)
    none = body.weight(np.zeros((), np.int32))
    place = body.node("Where", same, body.weight(places), none)
    place = body.node("ReduceMax", place, body.integers(len(body.shape(0))), keepdims=0)
    table = np.concatenate((default.reshape(1), values)).astype(values.dtype)
    return (body.node("Gather", body.weight(table), place),)


def _listed(body: Body, name: str, kinds: tuple[str, ...]) -> Array:
    found = body.value(f"{name}_tensor")
    if found is not None and found.data_type != body.TEXT:
        made = body.array(f"{name}_tensor")
        assert made is not None
        return made
    for kind in kinds:
        if body.value(f"{name}_{kind}"):
            return np.array(
                body.value(f"{name}_{kind}"), np.int64 if kind == "int64s" else np.float32
            )
    raise body.refusal(f"its {name} are texts", "encode them in the page")


def _linear_scores(body: Body, rows: int) -> str:
    """float[batch, rows] of coefficients [rows, features]."""
    x = features(body, 0)
    coefficients = _reals(body, "coefficients").reshape(rows, -1)
    intercepts = _reals(body, "intercepts")
    weights = body.weight(np.ascontiguousarray(coefficients.T))
    made = body.node("MatMul", x, weights)
    return body.node("Add", made, body.weight(intercepts)) if intercepts.size else made


def _linear_regressor(body: Body) -> tuple[str, ...]:
    scores = _linear_scores(body, body.integer("targets", 1))
    transform = body.text("post_transform", "NONE")
    return (transformed(body, scores, transform),)


def _linear_classifier(body: Body) -> tuple[str, ...]:
    transform = body.text("post_transform", "NONE")
    width = body.shape(0)[-1]
    rows = len(body.reals("coefficients")) // width
    scores = _linear_scores(body, rows)
    if rows == 1 and len(labels(body)) == 2:
        return binary(body, scores, transform, limit=0.0, shares=True)
    return chosen(body, scores), transformed(body, scores, transform)


def _vector_regressor(body: Body) -> tuple[str, ...]:
    """Σ coefficient · kernel(x, support vector) + ρ."""
    x, count = features(body, 0), body.integer("n_supports")
    coefficients, rho = _reals(body, "coefficients"), _reals(body, "rho")
    if count == 0:
        made = body.node("MatMul", x, body.weight(coefficients.reshape(-1, 1)))
    else:
        vectors = _reals(body, "support_vectors").reshape(count, -1)
        made = _kernel(body, x, vectors)
        made = body.node("MatMul", made, body.weight(coefficients.reshape(-1, 1)))
    made = body.node("Add", made, body.weight(rho[:1]))
    if body.integer("one_class"):
        above = body.node("Greater", made, body.weight(np.zeros((), np.float32)))
        ends = (body.weight(np.array(each, np.float32)) for each in (1, -1))
        made = body.node("Where", above, *ends)
    return (_transformed_alone(body, made),)


def _vector_classifier(body: Body) -> tuple[str, ...]:
    """Each two classes have a score, by their support vectors; the sign is a vote for one of them.
    Of two classes the scores are told as those of both, of more as those of pairs."""
    counts = body.value("vectors_per_class")
    if not counts:
        raise body.refusal("it has no support vectors", "export it as a LinearClassifier")
    if body.value("prob_a"):
        raise body.refusal("it iterates for probabilities", "train it with probability=False")
    classes, total = len(counts), sum(counts)
    vectors = _reals(body, "support_vectors").reshape(total, -1)
    coefficients = _reals(body, "coefficients").reshape(classes - 1, total)
    ends = np.cumsum((0, *counts))
    pairs = list(combinations(range(classes), 2))
    weights = np.zeros((total, len(pairs)), np.float32)
    for pair, (one, other) in enumerate(pairs):
        for own, row in ((one, other - 1), (other, one)):
            part = slice(ends[own], ends[own + 1])
            weights[part, pair] = coefficients[row, part]
    made = body.node("MatMul", _kernel(body, features(body, 0), vectors), body.weight(weights))
    scores = body.node("Add", made, body.weight(_reals(body, "rho")))
    above = body.node("Greater", scores, body.weight(np.zeros((), np.float32)))
    # A vote of a pair is for the first, or else for the second.
    first, second = np.zeros((2, len(pairs), classes), np.float32)
    for pair, (one, other) in enumerate(pairs):
        first[pair, one] = second[pair, other] = 1
    won = body.node("Cast", above, to=body.F32)
    votes = body.node("MatMul", won, body.weight(first - second))
    label = chosen(body, body.node("Add", votes, body.weight(second.sum(axis=0))))
    transform = body.text("post_transform", "NONE")
    if classes > 2:
        return label, transformed(body, scores, transform)
    shares = transform != "NONE"
    return label, binary(body, scores, transform, limit=0.0, shares=shares)[1]


def _transformed_alone(body: Body, made: str) -> str:
    transform = body.text("post_transform", "NONE")
    if transform not in ("NONE", "LOGISTIC"):
        raise body.refusal(f"its post_transform is {transform}", "export it with raw scores")
    return transformed(body, made, transform)


def _kernel(body: Body, x: str, vectors: Array) -> str:
    """float[rows, vectors]"""
    gamma, start, degree = (*body.reals("kernel_params"), 0.0, 0.0, 0.0)[:3]
    product = body.node("MatMul", x, body.weight(np.ascontiguousarray(vectors.T)))

    def number(value: float) -> str:
        return body.weight(np.array(value, np.float32))

    kind = body.text("kernel_type", "LINEAR")
    if kind == "LINEAR":
        return product
    if kind == "RBF":
        wide = body.node("Unsqueeze", x, body.integers(1))
        rest = body.node("Sub", wide, body.weight(vectors))
        square = body.node("ReduceSumSquare", rest, body.integers(2), keepdims=0)
        return body.node("Exp", body.node("Mul", square, number(-gamma)))
    inner = body.node("Add", body.node("Mul", product, number(gamma)), number(start))
    if kind == "POLY":
        return body.node("Pow", inner, number(degree))
    if kind == "SIGMOID":
        return body.node("Tanh", inner)
    raise body.refusal(f"its kernel is {kind}", "export it with another kernel")


def _zip_map(body: Body) -> tuple[str, ...]:
    """The tensor itself, in the order of the classes."""
    del body
    return ("i0",)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "ArrayFeatureExtractor": _extractor,
    "Binarizer": _binarizer,
    "FeatureVectorizer": _vectorizer,
    "Imputer": _imputer,
    "LabelEncoder": _label_encoder,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "OneHotEncoder": _one_hot,
    "SVMClassifier": _vector_classifier,
    "SVMRegressor": _vector_regressor,
    "Scaler": _scaler,
    "ZipMap": _zip_map,
}
