"""Computes generated cases by onnxruntime, and says how outputs differ from that."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi import onnxruntime_pybind11_state as onnxruntime_errors

from fixtures.operator_cases import OperatorCase

Array = NDArray[Any]

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
    """Computes by onnxruntime, without its rewriting of graphs, or else ONNX's reference."""
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
    """Says how an output differs from the one that is right; '' if it does not."""
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


def described(case: OperatorCase) -> str:
    (node,) = case.model.graph.node
    shapes = ", ".join(f"{value.dtype}{list(value.shape)}" for value in case.feeds.values())
    attributes = " ".join(re.sub(r"\s+", " ", str(each)) for each in node.attribute)
    return f"{case.name} ({shapes}; {attributes[:200]})"


def fault(case: OperatorCase, wanted: Sequence[Array], outputs: Mapping[str, Array]) -> str:
    """Says what is wrong with the outputs of a case, by their names; '' if nothing is."""
    for info, right in zip(case.model.graph.output, wanted, strict=True):
        if told := difference(outputs[info.name], right):
            return f"{described(case)}: {info.name}: {told}"
    return ""
