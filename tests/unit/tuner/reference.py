"""What every operator computes, whole, in float64: the oracle of compiled kernels."""

from collections.abc import Callable
from math import erf

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.workload import Workload

Doubles = NDArray[np.float64]

_ERF = np.vectorize(erf, otypes=[np.float64])


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


UNARY: dict[str, Callable[[Doubles], Doubles]] = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + _ERF(x / np.sqrt(2))),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "erf": _ERF,
    "exp": np.exp,
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}


def reference(workload: Workload, inputs: list[NDArray[np.float32]]) -> Doubles:
    doubles = [array.astype(np.float64) for array in inputs]
    count = len(workload.operator.inputs)
    result = _entries(workload, doubles[:count])
    extra = doubles[count:]
    for name in workload.epilogue:
        if name in UNARY:
            result = UNARY[name](result)
        elif name == "scale":
            result = result * extra.pop(0)[0]
        else:
            result = result + extra.pop(0)
    return result


def _entries(workload: Workload, x: list[Doubles]) -> Doubles:
    name, e = workload.operator.name, workload.extent
    if name in UNARY:
        return UNARY[name](x[0])
    if name in BINARY:
        return np.asarray(BINARY[name](x[0], x[1]))
    match name:
        case "matmul" | "batch_matmul":
            return np.asarray(x[0] @ x[1])
        case "matmul_nt" | "batch_matmul_nt":
            return np.asarray(x[0] @ np.swapaxes(x[1], -1, -2))
        case "matmul_tn":
            return np.asarray(x[0].T @ x[1])
        case "conv2d" | "depthwise_conv2d" | "max_pool2d" | "avg_pool2d":
            return _windows(workload, x)
        case "transpose":
            return x[0].T
        case "concat":
            return np.concatenate(x, axis=1)
        case "slice":
            return x[0][:, e["s"] : e["s"] + e["x"]]
        case "pad":
            return np.pad(x[0], e["p"])
    return _rows(name, x)


def _windows(workload: Workload, x: list[Doubles]) -> Doubles:
    name, e = workload.operator.name, workload.extent
    p, s = e["p"], e["s"]
    outside = -np.inf if name == "max_pool2d" else 0.0
    image = np.pad(x[0], ((0, 0), (p, p), (p, p), (0, 0)), constant_values=outside)
    shape = (e["r"], e["q"])
    views = np.lib.stride_tricks.sliding_window_view(image, shape, axis=(1, 2))[:, ::s, ::s]
    match name:
        case "conv2d":
            return np.asarray(np.einsum("byxcrq,rqco->byxo", views, x[1]))
        case "depthwise_conv2d":
            return np.asarray(np.einsum("byxcrq,rqc->byxc", views, x[1]))
        case "max_pool2d":
            return np.asarray(views.max(axis=(-1, -2)))
    return np.asarray(views.mean(axis=(-1, -2)))


def _rows(name: str, x: list[Doubles]) -> Doubles:
    a = x[0]
    match name:
        case "softmax":
            power = np.exp(a - a.max(axis=1, keepdims=True))
            return np.asarray(power / power.sum(axis=1, keepdims=True))
        case "layer_norm":
            rest = a - a.mean(axis=1, keepdims=True)
            variance = (rest * rest).mean(axis=1, keepdims=True)
            return np.asarray(rest / np.sqrt(variance + 1e-5) * x[1] + x[2])
        case "rms_norm":
            return np.asarray(a / np.sqrt((a * a).mean(axis=1, keepdims=True) + 1e-5) * x[1])
        case "row_sum":
            return np.asarray(a.sum(axis=1))
        case "row_mean":
            return np.asarray(a.mean(axis=1))
        case "row_max":
            return np.asarray(a.max(axis=1))
    raise AssertionError(f"the reference has no {name}")
