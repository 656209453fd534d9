"""Imports of networks that onnxruntime's quantiser wrote, beside what onnxruntime computes."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto

from fixtures.quantised_networks import Feeds, by_onnxruntime, feeds_of
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model

RELATIVE = 1e-5
"""Sums are the same integers; what is real is rounded otherwise."""

Form = tuple[Callable[..., Path], Callable[[], ModelProto], dict[str, Any]]
"""The quantiser, the network, and the quantiser's options."""


class Imported(NamedTuple):
    """`wanted` is what onnxruntime makes of the inputs, f32."""

    graph: Graph
    feeds: Feeds
    wanted: NDArray[np.float32]


def imported(form: Form) -> Imported:
    quantise, network, options = form
    model = network()
    feeds = feeds_of(model)
    with TemporaryDirectory() as folder:
        path = quantise(model, Path(folder), **options)
        return Imported(import_model(path, {}), feeds, by_onnxruntime(path, feeds))


def output(graph: Graph, feeds: Feeds, wanted: NDArray[np.float32]) -> NDArray[np.float32]:
    """The graph's only output, which is asserted to be as `wanted`."""
    (found,) = evaluate(graph, feeds).values()
    assert np.abs(found - wanted).max() <= RELATIVE * np.abs(wanted).max()
    return found
