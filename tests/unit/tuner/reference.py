"""Computes every operator whole, in float64: the oracle of compiled kernels."""

from collections.abc import Callable
from math import erf

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.operators import OPERATORS
from kernelzoo.domain.workload import Workload

EXAMPLES = (
    "matmul+bias+gelu:f32:m13k7n10",
    "matmul+bias+relu:f32:m3k20n130",
    "matmul_tn:f32:m1k9n33",
    "matmul_nt+scale:f32:m13k7n22",
    "matmul_tn+residual+relu:f32:m13k7n10",
    "matmul_i8+scales+bias+relu:f32:m13k20n22",
    "matmul_i8+scales:f32:m1k36n75",
    "matmul_i8+scale+gelu:f32:m21k9n4",
    "matmul_i8+relu6:f32:m5k9n12",
    "matmul_nt_i8+scales:f32:m5k9n33",
    "matmul:f32:m13k20n22:constant=b",
    "matmul+bias+gelu:f32:m1k36n75:constant=b",
    "matmul_nt+scale:f32:m3k7n50:constant=b",
    "matmul_tn:f32:m17k5n9:constant=b",
    "matmul_i8+scales:f32:m2k20n70:constant=b",
    "matmul_nt_i8+scales:f32:m17k7n10:constant=b",
    "batch_matmul:f32:b3m5k7n9:constant=b",
    "batch_matmul+bias+residual+silu:f32:b3m5k7n9",
    "batch_matmul_nt:f32:b2m5k8n7",
    "batch_matmul_nt+scale+mask:f32:b3m5k8n7",
    "matmul+bias+gelu_tanh:f32:m3k20n21",
    "conv2d+bias+relu:f32:b2h9w7c3o5kh3kw3stride1pad1",
    "conv2d:f32:b1h9w11c4o9kh3kw2stride2pad0",
    "conv2d+bias+residual+relu:f32:b2h5w6c8o12kh1kw1stride1pad0",
    "conv2d+bias+tanh:f32:b1h12w12c2o8kh5kw5stride2pad2",
    "conv2d+bias:f32:b1h8w9c4o72kh3kw3stride1pad1",
    "conv2d+bias:f32:b2h8w9c4o70kh3kw3stride1pad1:constant=b",
    "conv2d:f32:b1h9w11c3o65kh3kw2stride2pad0:constant=b",
    "conv2d+bias:f32:b1h5w6c8o12kh1kw1stride1pad0:constant=b",
    "conv2d+bias+residual+relu:f32:b2h22w17c32o40kh3kw3stride1pad1:constant=b",
    "depthwise_conv2d:f32:b1h9w7c6kh3kw3stride1pad1",
    "depthwise_conv2d+bias+relu6:f32:b2h9w7c13kh3kw3stride2pad1",
    "max_pool2d:f32:b2h9w7c5kh3kw3stride2pad1",
    "avg_pool2d:f32:b1h8w8c9kh2kw2stride2pad0",
    "softmax:f32:m5n37",
    "softmax:f32:m16n64",
    "layer_norm:f32:m9n29",
    "layer_norm:f32:m3n5eps12",
    "rms_norm:f32:m5n23eps3",
    "row_sum:f32:m7n31",
    "row_mean:f32:m3n50",
    "row_max:f32:m4n41",
    "gather:f32:m6k9n13",
    "gather:f32:m31k5n16",
    "matmul_q4+bias+residual:f32:m1k96n11",
    "matmul_q4z:f32:m3k288n6",
    "matmul_q8+silu:f32:m2k64n9:constant=b",
    "matmul_q8z:f32:m2k96n9block16",
    "matmul_u8i8:f32:m5k20n9",
    "matmul_u8i8+bias+gelu:f32:m13k36n22:constant=b",
    "matmul_u8i8+bias:f32:m1k64n75:constant=b",
    "matmul_u8i7+bias+residual+relu:f32:m9k68n40:constant=b",
    "matmul_u8i8z+bias:f32:m7k20n13:constant=b",
    "matmul_u8i7z:f32:m21k12n24:constant=b",
    "matmul_u8i8q:f32:m9k20n24:constant=b",
    "matmul_u8i8q:f32:m5k16n8",
    "depthwise_conv2d_u8i8q:f32:b1h7w9c32kh3kw3stride2pad1",
    "depthwise_conv2d_u8i8q:f32:b2h5w6c8kh3kw2stride1pad0",
    "gather_q4:f32:m5k9n64",
    "gather_q4z:f32:m3k7n288",
    "gather_q8:f32:m3k7n64block16",
    "gather_q8z:f32:m3k7n160block128",
    "transpose:f32:m11n7",
    "transpose:f32:m9n38",
    "transpose:f32:m3n5",
    "concat:f32:m5n6k7",
    "slice:f32:m5n19start3size11",
    "pad:f32:m6n9pad2",
    *(
        f"{name}:f32:n{size}"
        for name in OPERATORS
        for size in ((8, 304) if OPERATORS[name].multiples else (7, 301))
        if len(OPERATORS[name].axes) == 1
    ),
)

Doubles = NDArray[np.float64]

_ERF = np.vectorize(erf, otypes=[np.float64])


def _sigmoid(x: Doubles) -> Doubles:
    return np.asarray(1 / (1 + np.exp(-x)))


UNARY: dict[str, Callable[[Doubles], Doubles]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "gelu": lambda x: 0.5 * x * (1 + _ERF(x / np.sqrt(2))),
    "silu": lambda x: x * _sigmoid(x),
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "erf": _ERF,
    "exp": np.exp,
}
BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "max": np.maximum}


def reference(workload: Workload, inputs: list[NDArray[np.float32]]) -> Doubles:
    doubles = [array.astype(np.float64) for array in _dequantised(workload, inputs)]
    count = len(doubles) - len(workload.tensors[len(workload.operator.inputs) : -1])
    result = _entries(workload, doubles[:count])
    extra = doubles[count:]
    for name in workload.epilogue:
        if name in UNARY:
            result = UNARY[name](result)
        elif name in ("scale", "scales"):
            result = result * extra.pop(0)
        else:
            result = result + extra.pop(0)
    return result


def _dequantised(
    workload: Workload, inputs: list[NDArray[np.float32]]
) -> list[NDArray[np.generic]]:
    """The inputs with a matrix of numbers in place of its words, scales and zero points."""
    operator = workload.operator
    if not operator.weight_bits:
        return list(inputs)
    names = (name for name, _ in operator.inputs)
    given: dict[str, NDArray[np.generic]] = dict(zip(names, inputs, strict=False))
    weights = dequantised(
        given.pop(operator.words[0]),
        given.pop("block_scales"),
        given.pop("zeros", None),
        width=operator.weight_bits,
        block=workload.given["block"],
    )
    given = {operator.words[0]: weights, **given}
    names = (name for name, _ in operator.inputs if name in given)
    return [*(given[name] for name in names), *inputs[len(operator.inputs) :]]


def dequantised(
    words: NDArray[np.generic],
    scales: NDArray[np.generic],
    zeros: NDArray[np.generic] | None = None,
    *,
    width: int = 4,
    block: int = 32,
) -> Doubles:
    """Weights as numbers, float64[rows, columns]; those of a block share a scale and a zero point,
    which is the middle of their range where there are none."""
    steps = unpacked(words, width)

    def spread(entries: NDArray[np.generic]) -> Doubles:
        """Repeats the entries of each block for every column."""
        return np.repeat(entries.astype(np.float64), block, axis=1)[:, : steps.shape[1]]

    points = 1 << (width - 1) if zeros is None else spread(unpacked(zeros, width))
    return np.asarray((steps - points) * spread(scales))


def unpacked(words: NDArray[np.generic], bits: int) -> NDArray[np.int64]:
    """Numbers of so many bits each, the first in the lowest bits of the first word of its row."""
    count = 32 // bits
    wide = words.view(np.uint32).astype(np.int64)[..., np.newaxis]
    held = wide >> (np.arange(count) * bits) & ((1 << bits) - 1)
    return held.reshape(*words.shape[:-1], -1)


def _apart(workload: Workload) -> Workload:
    """The convolution of real numbers that one of bytes is."""
    return Workload.of("depthwise_conv2d", workload.extents)


def _requantised(
    total: Doubles, a_scale: Doubles, b_scale: Doubles, bias: Doubles, step: Doubles, start: Doubles
) -> Doubles:
    """Words of the bytes of exact sums; reals are rounded to f32 as stated."""
    scales = np.float32(a_scale) * np.float32(b_scale)
    real = np.float32(total) * scales + np.float32(bias)
    steps = np.rint(real / np.float32(step)) + np.float32(start)
    held = np.clip(steps, 0, 255).astype(np.uint8).view(np.int32)
    return np.asarray(held.astype(np.float64))


def _entries(workload: Workload, x: list[Doubles]) -> Doubles:
    name, e = workload.operator.name, workload.extent
    if name in UNARY:
        return UNARY[name](x[0])
    if name in BINARY:
        return np.asarray(BINARY[name](x[0], x[1]))
    match name:
        case "quantise":
            held = np.clip(np.rint(np.float32(x[0]) / np.float32(x[1])) + x[2], 0, 255)
            return np.asarray(held.astype(np.uint8).view(np.int32).astype(np.float64))
        case "quantise_range":
            return np.array([min(x[0].min(), 0.0), max(x[0].max(), 0.0)])
        case "matmul" | "matmul_i8" | "batch_matmul":
            return np.asarray(x[0] @ x[1])
        case (
            "matmul_nt"
            | "matmul_nt_i8"
            | "batch_matmul_nt"
            | "matmul_q4"
            | "matmul_q4z"
            | "matmul_q8"
            | "matmul_q8z"
        ):
            return np.asarray(x[0] @ np.swapaxes(x[1], -1, -2))
        case "matmul_tn":
            return np.asarray(x[0].T @ x[1])
        case "matmul_u8i8" | "matmul_u8i7" | "matmul_u8i8z" | "matmul_u8i7z":
            words, b, a_scale, a_zero, b_scale, b_sum, *zeros = x
            a = unpacked(words.astype(np.int32), 8).astype(np.float64)
            total = a @ b.T - a_zero * b_sum
            for b_zero in zeros:
                total = total - b_zero * (a.sum(axis=1, keepdims=True) - e["k"] * a_zero)
            return np.asarray(total * (a_scale * b_scale))
        case "matmul_u8i8q":
            words, b, a_scale, a_zero, b_scale, b_sum, *others = x
            total = unpacked(words.astype(np.int32), 8) @ b.T - a_zero * b_sum
            return _requantised(total, a_scale, b_scale, *others)
        case "depthwise_conv2d_u8i8q":
            words, b, a_scale, a_zero, *others = x
            image = unpacked(words.astype(np.int32), 8) - a_zero
            return _requantised(_windows(_apart(workload), [image, b]), a_scale, *others)
        case "conv2d" | "depthwise_conv2d" | "max_pool2d" | "avg_pool2d":
            return _windows(workload, x)
        case "gather" | "gather_q4" | "gather_q4z" | "gather_q8" | "gather_q8z":
            return x[0][x[1].astype(np.int64)]
        case "transpose":
            return x[0].T
        case "concat":
            return np.concatenate(x, axis=1)
        case "slice":
            return x[0][:, e["start"] : e["start"] + e["x"]]
        case "pad":
            return np.pad(x[0], e["pad"])
    return _rows(name, x, 10.0 ** -e.get("eps", 0))


def _windows(workload: Workload, x: list[Doubles]) -> Doubles:
    name, e = workload.operator.name, workload.extent
    p, s = e["pad"], e["stride"]
    outside = -np.inf if name == "max_pool2d" else 0.0
    image = np.pad(x[0], ((0, 0), (p, p), (p, p), (0, 0)), constant_values=outside)
    shape = (e["kh"], e["kw"])
    views = np.lib.stride_tricks.sliding_window_view(image, shape, axis=(1, 2))[:, ::s, ::s]
    match name:
        case "conv2d":
            return np.asarray(np.einsum("byxcrq,rqco->byxo", views, x[1]))
        case "depthwise_conv2d":
            return np.asarray(np.einsum("byxcrq,rqc->byxc", views, x[1]))
        case "max_pool2d":
            return np.asarray(views.max(axis=(-1, -2)))
    return np.asarray(views.mean(axis=(-1, -2)))


def _rows(name: str, x: list[Doubles], epsilon: float) -> Doubles:
    a = x[0]
    match name:
        case "softmax":
            power = np.exp(a - a.max(axis=1, keepdims=True))
            return np.asarray(power / power.sum(axis=1, keepdims=True))
        case "layer_norm":
            rest = a - a.mean(axis=1, keepdims=True)
            variance = (rest * rest).mean(axis=1, keepdims=True)
            return np.asarray(rest / np.sqrt(variance + epsilon) * x[1] + x[2])
        case "rms_norm":
            return np.asarray(a / np.sqrt((a * a).mean(axis=1, keepdims=True) + epsilon) * x[1])
        case "row_sum":
            return np.asarray(a.sum(axis=1))
        case "row_mean":
            return np.asarray(a.mean(axis=1))
        case "row_max":
            return np.asarray(a.max(axis=1))
    raise AssertionError(f"the reference has no {name}")
