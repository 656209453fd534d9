"""A network as detectors of file types are: bytes are compared with every value, and normed."""

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

LENGTH, VALUES, WIDTH = 64, 257, 16


def bytes_compared() -> ModelProto:
    """y = (d - m) / sqrt(v + 1e-6) of d = hot(x) @ w, with the variance as E[d²] - E[d]² of a
    column: where all bytes are equal it is the difference of two roundings."""
    w = np.random.default_rng(3).standard_normal((VALUES, WIDTH)).astype(np.float32)
    constants = {
        "two": np.array([2]),
        "all": np.arange(VALUES, dtype=np.int32),
        "w": w,
        "axes": np.array([1]),
        "small": np.array(1e-6, np.float32),
    }
    nodes = [
        helper.make_node("Unsqueeze", ["x", "two"], ["column"]),
        helper.make_node("Equal", ["column", "all"], ["is"]),
        helper.make_node("Cast", ["is"], ["hot"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["hot", "w"], ["d"]),
        helper.make_node("ReduceMean", ["d", "axes"], ["m"]),
        helper.make_node("Mul", ["d", "d"], ["dd"]),
        helper.make_node("ReduceMean", ["dd", "axes"], ["mm"]),
        helper.make_node("Mul", ["m", "m"], ["m2"]),
        helper.make_node("Sub", ["mm", "m2"], ["v"]),
        helper.make_node("Add", ["v", "small"], ["w1"]),
        helper.make_node("Sqrt", ["w1"], ["s"]),
        helper.make_node("Sub", ["d", "m"], ["c"]),
        helper.make_node("Div", ["c", "s"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "bytes",
        [helper.make_tensor_value_info("x", TensorProto.INT32, [1, LENGTH])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, LENGTH, WIDTH])],
        [numpy_helper.from_array(entries, name) for name, entries in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
