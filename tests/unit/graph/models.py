"""Small models in ONNX's own text, and what its reference makes of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.fuse import fused
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model

HEAD = '<ir_version: 8, opset_import: ["" : {opset}]>\n'


def parsed(text: str, opset: int = 17) -> ModelProto:
    model: ModelProto = parser.parse_model(HEAD.format(opset=opset) + text)
    return model


def with_weights(text: str, **weights: NDArray[np.float32]) -> ModelProto:
    model = parsed(text, 18)
    for name, entries in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(entries, name))
    return model


def written(folder: Path, model: ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def drawn(shape: tuple[int, ...], seed: int = 0) -> NDArray[np.float32]:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def assert_as_reference(
    folder: Path,
    model: ModelProto,
    feeds: Mapping[str, NDArray[Any]],
    dimensions: Mapping[str, int] | None = None,
) -> Graph:
    """The import computes what ONNX's reference computes, and so does what rules make of it."""
    graph = import_model(written(folder, model), dimensions or {})
    wanted = ReferenceEvaluator(model).run(None, dict(feeds))
    assert isinstance(wanted, list)
    for made in (evaluate(graph, feeds), evaluate(fused(graph), feeds)):
        for output, value in zip(model.graph.output, wanted, strict=True):
            largest = max(1.0, float(np.abs(value).max()))
            np.testing.assert_allclose(made[output.name], value, rtol=1e-4, atol=1e-5 * largest)
    return graph
