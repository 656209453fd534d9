"""A network without its weights, to be sent about, and the same network with weights by a seed.

The structure of RoBERTa is a megabyte of ONNX, its weights are 500. Weights that are made anew have
the mean and the deviation of those that were left out, so that outputs say something, and weights
that were equal, such as a table that is the last product's, too, stay equal, transposed or not.
"""

from hashlib import sha256
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, numpy_helper

MOST_ENTRIES = 4096
"""Smaller tensors are kept: biases, norms, scalars, shapes."""
MASK_VALUES = 4
"""A tensor of so few different values is kept, too."""

_AS_IT_IS, _TRANSPOSED = "as-it-is", "transposed"
"""A weight lies so beside the first one with the same entries."""


def emptied(path: Path) -> bytes:
    """The ONNX file without the entries of its large weights, but told how to make them anew."""
    model = onnx.load(path)
    told: dict[str, str] = {}
    for tensor in _weights(model):
        entries = numpy_helper.to_array(tensor)
        if _is_mask(entries):
            continue
        if (digest := _digest(entries)) in told:
            tensor.doc_string = f"{told[digest]} {_AS_IT_IS}"
        elif (transposed := _digest(entries.T)) in told:
            tensor.doc_string = f"{told[transposed]} {_TRANSPOSED}"
        else:
            told[digest] = f"{entries.mean()} {entries.std()} {int(digest[:8], 16)}"
            tensor.doc_string = f"{told[digest]} {_AS_IT_IS}"
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    return bytes(model.SerializeToString())


def filled(emptied_file: bytes) -> ModelProto:
    model = onnx.load_from_string(emptied_file)
    for tensor in _weights(model):
        if not tensor.doc_string:
            continue
        mean, deviation, seed, order = tensor.doc_string.split()
        random = np.random.default_rng(int(seed))
        shape = tuple(tensor.dims)
        drawn = random.standard_normal(shape[::-1] if order == _TRANSPOSED else shape, np.float32)
        entries = drawn.T if order == _TRANSPOSED else drawn
        tensor.raw_data = (entries * np.float32(deviation) + np.float32(mean)).tobytes()
        tensor.ClearField("doc_string")
    return model


def _weights(model: ModelProto) -> list[TensorProto]:
    return [
        tensor
        for tensor in model.graph.initializer
        if tensor.data_type == TensorProto.FLOAT and np.prod(tensor.dims) > MOST_ENTRIES
    ]


def _digest(entries: NDArray[np.float32]) -> str:
    return sha256(entries.tobytes()).hexdigest()


def _is_mask(entries: NDArray[np.float32]) -> bool:
    """Such as that of attention to what comes before."""
    return len(np.unique(entries)) <= MASK_VALUES
