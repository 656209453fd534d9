"""Operators of ONNX whose meaning, or whose parameters, an opset changed: as functions of those of
today.

A file is read in the opset that it names. Where that defines an operator as later ones do, nothing
happens here. ONNX's own converter of versions is not used: it leaves out how Resize and Upsample
round to the nearest entry, and copies all weights.
Definitions: ONNX, docs/Changelog.md; where that leaves something open, onnxruntime 1.32 decides.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod

import numpy as np
from onnx import FunctionProto, NodeProto

from kernelzoo.errors import InvalidInput
from services.tuner.graph.functions import Body
from services.tuner.graph.network import Array, TensorType
from services.tuner.graph.reading import MAIN_DOMAINS, told_node

Writer = Callable[[Body], tuple[str, ...]]


def modernised(
    node: NodeProto,
    types: Mapping[str, TensorType],
    constants: Mapping[str, Array],
    version: int,
) -> tuple[FunctionProto, Mapping[str, Array]] | None:
    """The function that stands in the place of a node of an older opset, and constants that it
    reads by name; None for one that today's opset defines in the same way.

    Raises UnsupportedModel for a form that is not carried over, InvalidInput for a node that is not
    made as its operator demands.
    """
    change = CHANGES.get(node.op_type)
    if node.domain not in MAIN_DOMAINS or change is None or version >= change.version:
        return None
    body = Body(node, types, constants, version)
    try:
        outputs = change.write(body)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"{told_node(node)} is not made as its operator demands; export the model again"
        ) from error
    if len(outputs) < len([name for name in node.output if name]):
        raise body.refusal("an output of it is for training", "call model.eval() before the export")
    return body.function(outputs), body.weights


def _with_axes(operator: str) -> Writer:
    """Axes became an input."""

    def write(body: Body) -> tuple[str, ...]:
        axes, kept = body.value("axes"), {}
        if operator == "ReduceSum":
            kept["keepdims"] = body.integer("keepdims", 1)
        inputs = ("i0",) if not axes else ("i0", body.integers(*axes))
        return (body.node(operator, *inputs, **kept),)

    return write


def _slice(body: Body) -> tuple[str, ...]:
    starts = body.value("starts")
    axes = body.value("axes") or range(len(starts))
    places = (body.integers(*each) for each in (starts, body.value("ends"), axes))
    return (body.node("Slice", "i0", *places),)


def _split(body: Body) -> tuple[str, ...]:
    parts, axis = body.value("split"), body.integer("axis")
    if not parts:
        # Older opsets have none that is smaller than the others.
        extent = body.shape(0)[axis]
        if extent % body.outputs:
            raise ValueError(extent)
        parts = [extent // body.outputs] * body.outputs
    return body.nodes("Split", ("i0", body.integers(*parts)), body.outputs, axis=axis)


def _pad(body: Body) -> tuple[str, ...]:
    value = body.number(body.real("value"))
    width = body.integers(*body.value("pads"))
    return (body.node("Pad", "i0", width, value, mode=body.text("mode", "constant")),)


def _clip(body: Body) -> tuple[str, ...]:
    bounds = (body.value(name) for name in ("min", "max"))
    inputs = ("" if bound is None else body.number(bound) for bound in bounds)
    return (body.node("Clip", "i0", *inputs),)


def _top(body: Body) -> tuple[str, ...]:
    return body.nodes(
        "TopK", ("i0", body.integers(body.integer("k"))), 2, axis=body.integer("axis", -1)
    )


def _dropout(body: Body) -> tuple[str, ...]:
    """Keeps everything, as nothing is trained, and makes a mask that says so."""
    kept = body.node("Identity", "i0")
    if body.outputs < 2:
        return (kept,)
    return kept, body.weight(np.ones(body.shape(0), np.bool_))


def _upsample(body: Body) -> tuple[str, ...]:
    told = body.value("scales")
    scales = body.constant(1, "scale") if told is None else np.array(told)
    return (_resized(body, "i0", scales.astype(np.float32), "floor"),)


def _resize(body: Body) -> tuple[str, ...]:
    """Resizes as opset 10 does: the nearest entry is that before, and along an axis that becomes
    smaller the one behind."""
    scales = body.constant(1, "scale").astype(np.float32)
    grown = _resized(body, "i0", np.maximum(scales, 1), "floor")
    return (_resized(body, grown, np.minimum(scales, 1), "ceil"),)


def _resized(body: Body, x: str, scales: Array, nearest: str) -> str:
    if np.all(scales == 1):
        return body.node("Identity", x)
    mode = body.text("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise ValueError(mode)
    return body.node(
        "Resize", x, "", body.weight(scales), mode=mode, nearest_mode=nearest,
        coordinate_transformation_mode="asymmetric",
    )  # fmt: skip


def _flattened(operator: str) -> Writer:
    """All axes from one on were taken together. The default, 1, is the only axis of a vector, too,
    as onnxruntime has it."""

    def write(body: Body) -> tuple[str, ...]:
        shape = body.shape(0)
        axis = body.integer("axis", 1)
        axis = min(axis + len(shape) if axis < 0 else axis, len(shape) - 1)
        if axis == len(shape) - 1:
            return (body.node(operator, "i0", axis=-1),)
        rows = body.reshaped("i0", prod(shape[:axis]), prod(shape[axis:]))
        return (body.reshaped(body.node(operator, rows, axis=-1), *shape),)

    return write


def _batch_norm(body: Body) -> tuple[str, ...]:
    names = ("i0", "i1", "i2", "i3", "i4")
    epsilon = body.real("epsilon", 1e-5)
    if body.integer("spatial", 1):
        return (body.node("BatchNormalization", *names, epsilon=epsilon),)
    # Each place of an image has statistics of its own.
    x, scale, bias, mean, variance = names
    spread = body.node("Sqrt", body.node("Add", variance, body.number(epsilon)))
    standard = body.node("Div", body.node("Sub", x, mean), spread)
    return (body.node("Add", body.node("Mul", standard, scale), bias),)


def _scatter(body: Body) -> tuple[str, ...]:
    return (body.node("ScatterElements", "i0", "i1", "i2", axis=body.integer("axis")),)


def _regions(body: Body) -> tuple[str, ...]:
    kept = {each.name: body.value(each.name) for each in body.attributes}
    kept.setdefault("coordinate_transformation_mode", "output_half_pixel")
    return (body.node("RoiAlign", "i0", "i1", "i2", **kept),)


@dataclass(frozen=True, slots=True)
class Change:
    """`version` is the first opset with today's form."""

    version: int
    write: Writer


CHANGES: Mapping[str, Change] = {
    "BatchNormalization": Change(14, _batch_norm),
    "Clip": Change(11, _clip),
    "Dropout": Change(12, _dropout),
    "Hardmax": Change(13, _flattened("Hardmax")),
    "LogSoftmax": Change(13, _flattened("LogSoftmax")),
    "Pad": Change(11, _pad),
    "ReduceSum": Change(13, _with_axes("ReduceSum")),
    "Resize": Change(11, _resize),
    "RoiAlign": Change(16, _regions),
    "Scatter": Change(11, _scatter),
    "Slice": Change(10, _slice),
    "Softmax": Change(13, _flattened("Softmax")),
    "Split": Change(13, _split),
    "Squeeze": Change(13, _with_axes("Squeeze")),
    "TopK": Change(10, _top),
    "Unsqueeze": Change(13, _with_axes("Unsqueeze")),
    "Upsample": Change(10, _upsample),
}
