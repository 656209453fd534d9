"""Ensembles of decision trees of ai.onnx.ml, as a walk through tables and sums of leaves.

Definitions: ONNX, docs/Operators-ml.md; where that is vague, as in scores of two classes,
onnxruntime 1.32 (core/providers/cpu/ml/tree_ensemble_aggregator.h).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper

from services.tuner.graph.functions import Body
from services.tuner.graph.network import Array
from services.tuner.graph.own_schemas import OWN_DOMAIN

MAX_DEPTH = 128
MODES = (
    "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ",
    "BRANCH_MEMBER",
)  # fmt: skip
"""Modes in the order of their numbers in TreeEnsemble."""
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
SMALLEST = np.finfo(np.float32).tiny
NEVER = np.float32(3.4e38)
LARGE_TABLE = 1 << 20
"""Weights of all targets for each node, beyond which those that are there are kept alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Nodes of all trees; `first` is the child where a condition holds. Leaves have no mode."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    mode: tuple[str, ...]
    first: NDArray[np.int32]
    second: NDArray[np.int32]
    nan_first: NDArray[np.bool_]
    roots: NDArray[np.int32]
    leaf: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: NDArray[np.float32]
    """`weight` is of the node `leaf` for `target`; a leaf may have several."""


@dataclass(frozen=True, slots=True)
class Tables:
    """A forest whose conditions are all of one form, as TreeWalk reads it."""

    feature: NDArray[np.int32]
    threshold: NDArray[np.float32]
    children: NDArray[np.int32]
    roots: NDArray[np.int32]
    """The roots of the deepest trees come first."""
    steps: tuple[int, ...]
    """For each level, how many trees are deeper."""
    nan_first: bool
    """Some node leads NaN to its first child: such a node reads the feature behind all others,
    where NaN is -∞."""


def _numbered(body: Body, what: str) -> Forest:
    """Reads the older operators, whose nodes have a tree's and their own number."""

    def column(name: str, kind: type, size: int, default: float = 0) -> NDArray[Any]:
        given = body.value(name)
        return np.full(size, default, kind) if not given else np.array(given).astype(kind)

    tree, own = (np.array(body.value(f"nodes_{name}")) for name in ("treeids", "nodeids"))
    size = len(tree)
    numbers = {pair: place for place, pair in enumerate(zip(tree, own, strict=True))}
    modes = tuple(bytes(each).decode() for each in body.value("nodes_modes"))
    children = []
    for name in ("nodes_truenodeids", "nodes_falsenodeids"):
        told = np.array(body.value(name))
        children.append(
            [
                place if mode == "LEAF" else numbers[tree[place], told[place]]
                for place, mode in enumerate(modes)
            ]
        )
    branching = np.array([mode != "LEAF" for mode in modes])
    reached = {n for side in children for n in np.array(side)[branching].tolist()}
    ends = zip(body.value(f"{what}_treeids"), body.value(f"{what}_nodeids"), strict=True)
    return Forest(
        feature=column("nodes_featureids", np.int32, size),
        threshold=_thresholds(body, size),
        mode=modes,
        first=np.array(children[0], np.int32),
        second=np.array(children[1], np.int32),
        nan_first=column("nodes_missing_value_tracks_true", np.bool_, size),
        roots=np.array([n for n in range(size) if n not in reached], np.int32),
        leaf=np.array([numbers[pair] for pair in ends], np.int32),
        target=np.array(body.value(f"{what}_ids"), np.int32),
        weight=_reals(body, f"{what}_weights", 0),
    )


def _thresholds(body: Body, size: int) -> NDArray[np.float64]:
    """Reads those of the older operators, which may be doubles in a tensor."""
    given = body.array("nodes_values_as_tensor")
    listed = body.reals("nodes_values") if given is None else given
    return np.asarray(listed if len(listed) else np.zeros(size), np.float64)


def _reals(body: Body, name: str, size: int) -> NDArray[np.float32]:
    """Reads an attribute of floats, or of doubles in a tensor."""
    given = body.array(f"{name}_as_tensor")
    listed = body.reals(name) if given is None else given
    return np.asarray(listed if len(listed) else np.zeros(size), np.float32)


def _indexed(body: Body) -> Forest:
    """Reads TreeEnsemble, whose leaves are apart from its nodes."""
    names = ("nodes_featureids", "nodes_truenodeids", "nodes_falsenodeids")
    feature, first, second = (np.array(body.value(name), np.int64) for name in names)
    leaf_first, leaf_second = (
        np.array(body.value(name), np.int64) for name in ("nodes_trueleafs", "nodes_falseleafs")
    )
    splits, weights = (body.array(name) for name in ("nodes_splits", "leaf_weights"))
    modes = body.array("nodes_modes")
    assert splits is not None
    assert weights is not None
    assert modes is not None
    nodes, leaves = len(feature), len(weights)
    ends = np.arange(nodes, nodes + leaves)
    missing = body.value("nodes_missing_value_tracks_true") or np.zeros(nodes)

    def of_all(branching: Array, of_leaves: Array) -> Array:
        return np.concatenate((branching, of_leaves))

    forest = Forest(
        feature=of_all(feature, np.zeros(leaves)).astype(np.int32),
        threshold=of_all(splits, np.zeros(leaves)).astype(np.float64),
        mode=(*(MODES[int(mode)] for mode in modes), *("LEAF",) * leaves),
        first=of_all(np.where(leaf_first, first + nodes, first), ends).astype(np.int32),
        second=of_all(np.where(leaf_second, second + nodes, second), ends).astype(np.int32),
        nan_first=of_all(np.array(missing), np.zeros(leaves)).astype(np.bool_),
        roots=np.array(body.value("tree_roots"), np.int32),
        leaf=ends.astype(np.int32),
        target=np.array(body.value("leaf_targetids"), np.int32),
        weight=weights.astype(np.float32),
    )
    members = body.array("membership_values")
    return forest if members is None else _members_apart(forest, members)


def _members_apart(forest: Forest, members: Array) -> Forest:
    """A node that asks for one of several values becomes one for each, a chain of them."""
    sets = iter(np.split(members, np.flatnonzero(np.isnan(members))))
    columns = {
        name: list(getattr(forest, name))
        for name in ("feature", "threshold", "mode", "first", "second", "nan_first")
    }
    for place, mode in enumerate(forest.mode):
        if mode != "BRANCH_MEMBER":
            continue
        values = [value for value in next(sets) if not np.isnan(value)]
        node = place
        for number, value in enumerate(values):
            last = number + 1 == len(values)
            new = len(columns["mode"])
            columns["threshold"][node], columns["mode"][node] = value, "BRANCH_EQ"
            if last:
                columns["second"][node] = forest.second[place]
                break
            columns["second"][node] = new
            for name, column in columns.items():
                column.append(getattr(forest, name)[place])
            node = new
    kinds: Mapping[str, type] = {
        "feature": np.int32, "threshold": np.float32, "first": np.int32, "second": np.int32,
        "nan_first": np.bool_,
    }  # fmt: skip
    arrays: dict[str, Any] = {name: np.array(columns[name], kind) for name, kind in kinds.items()}
    return replace(forest, mode=tuple(columns["mode"]), **arrays)


def _by_level(forest: Forest) -> Forest:
    """Numbers nodes level by level over all trees, the deepest trees first, in the order in which a
    walk comes to them, so that at each level it reads the tables of nodes from front to back. Nodes
    that no tree comes to are the last ones. Raises ValueError where there is a cycle."""
    branching = np.array(forest.mode) != "LEAF"
    children = np.stack((forest.first, forest.second), axis=1)
    depths = _depths(forest.roots, children, branching)
    roots = forest.roots[np.argsort(-depths, kind="stable")]
    level = np.array([*dict.fromkeys(roots.tolist())], np.int64)
    left = np.ones(len(branching), np.bool_)
    levels = []
    while len(level):
        levels.append(level)
        left[level] = False
        below = children[level[branching[level]]].reshape(-1)
        # A node may be the child of several.
        _, first = np.unique(below, return_index=True)
        level = below[np.sort(first)]
        level = level[left[level]]
    order = np.concatenate((*levels, np.flatnonzero(left)))
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    return Forest(
        feature=forest.feature[order],
        threshold=forest.threshold[order],
        mode=tuple(forest.mode[place] for place in order),
        first=number[forest.first[order]],
        second=number[forest.second[order]],
        nan_first=forest.nan_first[order],
        roots=number[roots],
        leaf=number[forest.leaf],
        target=forest.target,
        weight=forest.weight,
    )


def _tables(forest: Forest, features: int) -> Tables:
    """x < t becomes x <= the number before t, what asks for the opposite gets its children swapped,
    and x == t becomes two nodes: x <= t, and then x <= the number before t. NaN goes where it went.

    Features are f32, so that a threshold of f64 between two of them acts as the lower one of
    x <= t, as the upper one of x < t, and equals none.
    """
    modes = np.array(forest.mode)
    branching = modes != "LEAF"
    feature = np.where(branching, forest.feature, 0)
    lower, upper = _neighbours(forest.threshold)
    before = _number_before(upper)
    strict = np.isin(modes, ("BRANCH_LT", "BRANCH_GTE"))
    swapped = np.isin(modes, ("BRANCH_GT", "BRANCH_GTE", "BRANCH_NEQ"))
    # A comparison with NaN fails, but for "differs", which holds.
    nan_first = (forest.nan_first | (modes == "BRANCH_NEQ")) != swapped
    children = np.stack((forest.first, forest.second), axis=1)
    children = np.where(swapped[:, None], children[:, ::-1], children)
    threshold = np.where(strict, before, lower)

    equal = np.flatnonzero(np.isin(modes, ("BRANCH_EQ", "BRANCH_NEQ")))
    again = len(modes) + np.arange(len(equal))
    children = np.concatenate((children, children[equal, ::-1]))
    children[equal, 0] = again
    threshold = np.concatenate((threshold, np.where(lower == upper, before, lower)[equal]))
    nan_first = np.concatenate((nan_first & branching, np.zeros(len(equal), np.bool_)))
    branching = np.concatenate((branching, np.ones(len(equal), np.bool_)))
    feature = np.concatenate((feature, feature[equal]))
    depths = _depths(forest.roots, children, branching)
    return Tables(
        feature=(feature + features * nan_first).astype(np.int32),
        threshold=threshold.astype(np.float32),
        children=children.astype(np.int32),
        roots=forest.roots[np.argsort(-depths, kind="stable")],
        steps=tuple(int((depths > level).sum()) for level in range(depths.max(initial=0))),
        nan_first=bool(nan_first.any()),
    )


def _number_before(numbers: Array) -> Array:
    """The f32 before each number, where those of a magnitude below 2⁻¹²⁶ are 0."""
    before = np.nextafter(numbers, np.float32(-np.inf), dtype=np.float32)
    before = np.where(np.abs(before) < SMALLEST, 0, before)
    return np.where(np.abs(numbers) < SMALLEST, -SMALLEST, before)


def _neighbours(numbers: Array) -> tuple[Array, Array]:
    """The largest f32 that is not above each number, and the smallest that is not below it."""
    with np.errstate(over="ignore"):
        nearest = numbers.astype(np.float32)
    low, high = np.float32(-np.inf), np.float32(np.inf)
    return (
        np.where(nearest > numbers, np.nextafter(nearest, low), nearest),
        np.where(nearest < numbers, np.nextafter(nearest, high), nearest),
    )


def _depths(roots: Array, children: Array, branching: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Steps from each root to the furthest leaf. Raises ValueError where there is a cycle."""
    level, depth = np.unique(roots), 0
    while branching[level].any():
        if depth > len(branching):
            raise ValueError("a cycle")
        level = np.unique(children[level[branching[level]]])
        depth += 1
    below = np.zeros(len(branching), np.int64)
    for _ in range(depth):
        below = np.where(branching, 1 + below[children].max(axis=1), 0)
    deepest: NDArray[np.int64] = below[roots]
    return deepest


def _leaves(body: Body, forest: Forest) -> str:
    """int32[rows, trees], the node in which each row ends."""
    x, shape = features(body, 0), body.shape(0)
    width = prod(shape[1:] if len(shape) > 1 else shape)
    for feature, mode in zip(forest.feature.tolist(), forest.mode, strict=True):
        if mode != "LEAF" and not 0 <= feature < width:
            raise body.refusal(
                f"it asks for feature {feature} of rows of {width}", "give its input the shape of "
                "the rows that it was trained with"
            )  # fmt: skip
    tables = _tables(forest, width)
    if len(tables.steps) > MAX_DEPTH:
        raise body.refusal(
            f"its trees are deeper than {MAX_DEPTH}", "train it with a smaller maximal depth"
        )
    if tables.nan_first:
        least = body.weight(np.array(-np.inf, np.float32))
        numbers = body.node("Where", body.node("IsNaN", x), least, x)
        x = body.node("Concat", x, numbers, axis=1)
    constants = (tables.feature, tables.threshold, tables.children, tables.roots)
    # Of trees that are all a leaf none walks at the first level; ONNX has no empty attribute.
    steps = tables.steps or (0,)
    return body.node("TreeWalk", x, *map(body.weight, constants), domain=OWN_DOMAIN, steps=steps)


def features(body: Body, place: int) -> str:
    """float[rows, features] of an input; one axis is one row."""
    x, shape = f"i{place}", body.shape(place)
    if body.dtype(place) != np.float32:
        x = body.node("Cast", x, to=body.F32)
    return x if len(shape) == 2 else body.reshaped(x, 1 if len(shape) == 1 else shape[0], -1)


def _scores(body: Body, forest: Forest, targets: int, aggregate: str) -> str:
    """float[rows, targets]"""
    forest = _by_level(forest)
    node = _leaves(body, forest)
    neutral = {"MIN": NEVER, "MAX": -NEVER}.get(aggregate, np.float32(0))
    if forest.target.max(initial=0) >= targets or forest.target.min(initial=0) < 0:
        raise ValueError("a target out of range")
    table = _leaf_table(forest, targets, aggregate, neutral)
    if table is None:
        parts = _apart(body, forest, targets, node, neutral)
    else:
        parts = body.node("Gather", body.weight(table), node)
    return _combined(body, parts, aggregate, len(forest.roots))


def _leaf_table(
    forest: Forest, targets: int, aggregate: str, neutral: np.float32
) -> NDArray[np.float32] | None:
    """Weights of all targets for each node; None where each leaf has one weight of many."""
    size = len(forest.mode)
    once = len(np.unique(forest.leaf)) == len(forest.leaf)
    if once and size * targets > LARGE_TABLE:
        return None
    table = np.full((size, targets), neutral, np.float32)
    combined = {"MIN": np.minimum, "MAX": np.maximum}.get(aggregate, np.add)
    combined.at(table, (forest.leaf, forest.target), forest.weight)
    return table


def _apart(body: Body, forest: Forest, targets: int, node: str, neutral: np.float32) -> str:
    """float[rows, trees, targets] of leaves with one weight each."""
    target = np.zeros(len(forest.mode), np.int32)
    weight = np.full(len(forest.mode), neutral, np.float32)
    target[forest.leaf], weight[forest.leaf] = forest.target, forest.weight
    last = body.integers(-1)
    own, entry = (
        body.node("Unsqueeze", body.node("Gather", body.weight(each), node), last)
        for each in (target, weight)
    )
    counts = body.node("Equal", own, body.weight(np.arange(targets, dtype=np.int32)))
    return body.node("Where", counts, entry, body.weight(np.array(neutral)))


def _combined(body: Body, parts: str, aggregate: str, trees: int) -> str:
    """Combines float[rows, trees, targets] over trees; a target without any leaf is 0."""
    axis = body.integers(1)
    if aggregate in ("MIN", "MAX"):
        end = NEVER if aggregate == "MIN" else -NEVER
        made = body.node(f"Reduce{aggregate.title()}", parts, axis, keepdims=0)
        none = body.node("Equal", made, body.weight(np.array(end)))
        return body.node("Where", none, body.weight(np.zeros((), np.float32)), made)
    made = body.node("ReduceSum", parts, axis, keepdims=0)
    if aggregate != "AVERAGE":
        return made
    return body.node("Mul", made, body.weight(np.array(1 / trees, np.float32)))


def transformed(body: Body, scores: str, transform: str) -> str:
    """Scores of several targets."""
    match transform:
        case "NONE":
            return scores
        case "SOFTMAX":
            return body.node("Softmax", scores, axis=-1)
        case "LOGISTIC":
            return body.node("Sigmoid", scores)
        case "SOFTMAX_ZERO":
            # Scores of 0 stay 0, and the others share 1 among them.
            zero = body.weight(np.zeros((), np.float32))
            least = body.weight(np.array(-NEVER))
            none = body.node("Equal", scores, zero)
            rest = body.node("Softmax", body.node("Where", none, least, scores), axis=-1)
            return body.node("Where", none, zero, rest)
    raise body.refusal(f"its post_transform is {transform}", "export it with raw scores")


def _with_base(body: Body, scores: str, base: Array) -> str:
    if not base.any():
        return scores
    return body.node("Add", scores, body.weight(base))


def _regressor(body: Body) -> tuple[str, ...]:
    targets = body.integer("n_targets", 1)
    base = _reals(body, "base_values", 0)
    aggregate = body.text("aggregate_function", "SUM")
    scores = _with_base(body, _scores(body, _numbered(body, "target"), targets, aggregate), base)
    return (_finished(body, scores, targets, body.text("post_transform", "NONE")),)


def _ensemble(body: Body) -> tuple[str, ...]:
    targets = body.integer("n_targets", 1)
    aggregate = AGGREGATES[body.integer("aggregate_function", 1)]
    scores = _scores(body, _indexed(body), targets, aggregate)
    made = _finished(body, scores, targets, TRANSFORMS[body.integer("post_transform")])
    if body.dtype(0) != np.float32:
        made = body.node("Cast", made, to=helper.np_dtype_to_tensor_dtype(body.dtype(0)))
    return (made,)


def _finished(body: Body, scores: str, targets: int, transform: str) -> str:
    """onnxruntime leaves a single score as it is."""
    if transform == "PROBIT" or targets > 1:
        return transformed(body, scores, transform)
    return scores


def _classifier(body: Body) -> tuple[str, ...]:
    forest = _numbered(body, "class")
    classes, targets = len(labels(body)), np.unique(forest.target)
    base = _reals(body, "base_values", 0)
    transform = body.text("post_transform", "NONE")
    if classes == 2 and len(targets) == 1:
        return _of_one_score(body, forest, base, transform)
    scores = _scores(body, forest, classes, "SUM")
    if classes == 2:
        return _of_two_scores(body, scores, base, transform)
    if len(base) == classes:
        scores = _with_base(body, scores, base)
        return chosen(body, scores), transformed(body, scores, transform)
    return _label_of_given(body, forest, scores), transformed(body, scores, transform)


def _label_of_given(body: Body, forest: Forest, scores: str) -> str:
    """The class of the largest score, of those that some leaf has a weight for: the score of any
    other is 0, and no score of it."""
    if (forest.weight > 0).all() or _gives_all(forest, len(labels(body))):
        return chosen(body, scores)
    each = replace(forest, weight=np.ones_like(forest.weight))
    counts = _scores(body, each, len(labels(body)), "SUM")
    given = body.node("Greater", counts, body.weight(np.zeros((), np.float32)))
    return chosen(body, body.node("Where", given, scores, body.weight(np.array(-NEVER))))


def _gives_all(forest: Forest, targets: int) -> bool:
    """Returns whether each target has a weight in all leaves of some tree."""
    gives = np.zeros((len(forest.mode), targets), np.bool_)
    gives[forest.leaf, forest.target] = True
    branching = np.array([mode != "LEAF" for mode in forest.mode])[:, None]
    gives |= branching
    for _ in range(MAX_DEPTH):
        gives &= ~branching | (gives[forest.first] & gives[forest.second])
    return bool(gives[forest.roots].any(axis=0).all())


def _of_one_score(body: Body, forest: Forest, base: Array, transform: str) -> tuple[str, ...]:
    if len(base) > 1:
        # onnxruntime answers the first class's score and 0, ONNX's reference other numbers.
        raise body.refusal("it has two base values and weights of one class", "export the model "
                           "with one base value")  # fmt: skip
    single = replace(forest, target=np.zeros_like(forest.target))
    score = _with_base(body, _scores(body, single, 1, "SUM"), base)
    shares = bool((forest.weight >= 0).all())
    label, both = binary(body, score, transform, limit=0.5 if shares else 0.0, shares=shares)
    if forest.target[0] == 0:
        return label, both
    # The first class has a score of 0 where all weights are of the second.
    if len(base):
        raise body.refusal("it has base values and weights of the second class alone", "export "
                           "the model with weights of the first class")  # fmt: skip
    none = body.node("Sub", score, score)
    return label, transformed(body, body.node("Concat", none, score, axis=-1), transform)


def _of_two_scores(body: Body, scores: str, base: Array, transform: str) -> tuple[str, ...]:
    """onnxruntime answers 0 or 1, by the sign of the second score, whatever the labels are. With
    base values the first score decides alone."""
    zero = body.weight(np.zeros((), np.float32))
    last = body.integers(-1)
    if len(base) == 2:
        first = body.sliced(scores, 1, 0, 1)
        second = body.node("Add", first, body.weight(base[1:]))
        scores = body.node("Concat", body.node("Neg", second), second, axis=-1)
    else:
        second = body.sliced(scores, 1, 1, 2)
    above = body.node("Squeeze", body.node("Greater", second, zero), last)
    return body.node("Cast", above, to=body.I64), transformed(body, scores, transform)


def labels(body: Body, names: Sequence[str] = ("classlabels_int64s", "classlabels_ints")) -> Array:
    """Numbers of classes; those that are texts are counted."""
    for name in names:
        if body.value(name):
            return np.array(body.value(name), np.int64)
    return np.arange(len(body.value("classlabels_strings") or ()))


def chosen(body: Body, scores: str) -> str:
    """The label of the first largest score."""
    place = body.node("ArgMax", scores, axis=-1, keepdims=0)
    return body.node("Gather", body.weight(labels(body)), place)


def binary(
    body: Body, score: str, transform: str, *, limit: float, shares: bool
) -> tuple[str, ...]:
    """Label and scores of both classes from one score, float[rows, 1]. Above the limit it is the
    second class. With `shares` it is a share, whose rest is the first class's. onnxruntime knows
    no transform but LOGISTIC here."""
    above = body.node("Greater", score, body.weight(np.array(limit, np.float32)))
    second = body.node("Squeeze", above, body.integers(-1))
    label = body.node(
        "Where", second, *(body.weight(np.array(each)) for each in labels(body)[::-1])
    )
    opposite = body.node("Neg", score)
    if transform == "LOGISTIC":
        both = body.node("Concat", opposite, score, axis=-1)
        return label, body.node("Sigmoid", both)
    if transform == "PROBIT":
        raise body.refusal("its post_transform is PROBIT", "export it with raw scores")
    one = body.weight(np.ones((), np.float32))
    first = body.node("Sub", one, score) if shares else opposite
    return label, body.node("Concat", first, score, axis=-1)


OPERATORS: Mapping[str, Callable[[Body], tuple[str, ...]]] = {
    "TreeEnsemble": _ensemble,
    "TreeEnsembleClassifier": _classifier,
    "TreeEnsembleRegressor": _regressor,
}
