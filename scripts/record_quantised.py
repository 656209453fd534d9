"""Records what onnxruntime makes of operators of narrow integers: `python -m
scripts.record_quantised`, where onnx and onnxruntime are installed."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from onnx import helper

from scripts.record_operators import Array, OperatorCase, real, record

RANDOM = np.random.default_rng(11)
U8, I8 = np.uint8, np.int8
Kind = type[np.integer[Any]]


def narrow(kind: Kind, *shape: int) -> Array:
    info = np.iinfo(kind)
    return RANDOM.integers(info.min, info.max + 1, shape).astype(kind)


def point(kind: Kind) -> Array:
    return np.array(RANDOM.integers(100, 150) if kind is U8 else RANDOM.integers(-20, 20), kind)


def scale(value: float) -> Array:
    return np.array(value * RANDOM.uniform(0.9, 1.1), np.float32)


def scales(value: float, count: int) -> Array:
    return (value * RANDOM.uniform(0.5, 1.5, count)).astype(np.float32)


def bias(count: int) -> Array:
    return RANDOM.integers(-30_000, 30_000, count).astype(np.int32)


def case(
    operator: str, feeds: list[Array | None], *, onnx: bool = False, free: tuple[int, ...] = (0,),
    outputs: int = 1, **attributes: Any,
) -> OperatorCase:  # fmt: skip
    """All inputs but the `free` are constants, as converters write them."""
    constants = tuple(n for n, feed in enumerate(feeds) if n not in free and feed is not None)
    return OperatorCase(
        operator, feeds, outputs, constants=constants, domain="" if onnx else "com.microsoft",
        opset=17, **attributes,
    )  # fmt: skip


def convolution(
    x: Kind, w: Kind, shape: tuple[int, ...], filters: tuple[int, ...], *, channels: bool,
    free: tuple[int, ...] = (0,), biased: bool = True, **more: Any,
) -> OperatorCase:  # fmt: skip
    out = filters[0]
    reach = float(np.sqrt(np.prod(filters[1:])))
    feeds = [
        narrow(x, *shape), scale(0.02), point(x), narrow(w, *filters),
        scales(0.01, out) if channels else scale(0.01),
        np.zeros(out, w) if channels else point(w),
        scale(0.02 * reach), point(x), bias(out) if biased else None,
    ]  # fmt: skip
    return case("QLinearConv", feeds, onnx=True, free=free, **more)


def matmul(
    a: Kind, b: Kind, shapes: tuple[tuple[int, ...], tuple[int, ...]], *, columns: bool,
    free: tuple[int, ...] = (0,),
) -> OperatorCase:  # fmt: skip
    n, k = shapes[1][-1], shapes[1][-2]
    feeds: list[Array | None] = [
        narrow(a, *shapes[0]), scale(0.02), point(a), narrow(b, *shapes[1]),
        scales(0.01, n) if columns else scale(0.01),
        np.array([point(b) for _ in range(n)]) if columns else point(b),
        scale(0.02 * float(np.sqrt(k))), point(a),
    ]  # fmt: skip
    return case("QLinearMatMul", feeds, onnx=True, free=free)


def gemm(*, quantised: bool, **more: Any) -> OperatorCase:
    b = (6, 40) if more.get("transB") else (40, 6)
    feeds: list[Array | None] = [
        narrow(U8, 5, 40), scale(0.02), point(U8), narrow(I8, *b), scales(0.01, 6),
        np.array([point(I8) for _ in range(6)]), bias(6),
    ]  # fmt: skip
    return case("QGemm", [*feeds, *([scale(0.2), point(U8)] if quantised else [])], **more)


def both(operator: str, kind: Kind, other: tuple[int, ...]) -> OperatorCase:
    feeds: list[Array | None] = [
        narrow(kind, 3, 5, 40), scale(0.02), point(kind), narrow(kind, *other), scale(0.03),
        point(kind), scale(0.05 if operator == "QLinearAdd" else 0.06), point(kind),
    ]  # fmt: skip
    return case(operator, feeds, free=(0, 3))


def alone(
    operator: str, kind: Kind, shape: tuple[int, ...], to: float, **more: Any
) -> OperatorCase:
    zero = np.array(0 if kind is U8 else -128, kind) if "Soft" in operator else point(kind)
    feeds: list[Array | None] = [narrow(kind, *shape), scale(0.04), point(kind), scale(to), zero]
    version = more.pop("version", None)
    made = case(operator, feeds, **more)
    if version:
        made.model.graph.node[0].attribute.append(helper.make_attribute("opset", version))
    return made


def concat() -> OperatorCase:
    own = scale(0.05), point(U8)
    feeds: list[Array | None] = [
        *own, narrow(U8, 2, 3, 4), *own, narrow(U8, 2, 2, 4), scale(0.07), point(U8),
    ]  # fmt: skip
    return case("QLinearConcat", feeds, free=(2, 5), axis=1)


ENTRYWISE: tuple[tuple[str, float, dict[str, Any]], ...] = (
    ("QLinearSigmoid", 1 / 256, {}),
    ("QLinearLeakyRelu", 0.03, {"alpha": 0.1}),
    ("QLinearSoftmax", 1 / 256, {"axis": -1, "version": 13}),
)


def cases() -> dict[str, Callable[[], OperatorCase]]:
    image, filters = (2, 6, 9, 8), (8, 6, 3, 3)
    both_kinds: tuple[Kind, Kind] = (U8, I8)
    kinds: dict[str, tuple[Kind, Kind]] = {"u8_u8": (U8, U8), "u8_i8": (U8, I8), "i8_i8": (I8, I8)}
    shapes = ((2, 5, 64), (64, 7))
    return {
        **{
            f"convolution_{name}_{channels}": partial(
                convolution, *each, image, filters, channels=channels, pads=[1, 1, 1, 1]
            )
            for (name, each), channels in product(kinds.items(), (False, True))
        },
        "convolution_strided": partial(
            convolution, U8, I8, (1, 4, 12, 11), (6, 4, 3, 3), channels=True, strides=[2, 2],
            pads=[0, 1, 1, 0], dilations=[1, 2],
        ),
        "convolution_in_groups": partial(
            convolution, U8, I8, image, (12, 3, 3, 3), channels=True, group=2, biased=False
        ),
        "convolution_depthwise": partial(
            convolution, U8, I8, image, (6, 1, 3, 3), channels=True, group=6, pads=[1, 1, 1, 1]
        ),
        "convolution_of_many": partial(
            convolution, U8, I8, (1, 512, 3, 3), (4, 512, 3, 3), channels=True, pads=[1, 1, 1, 1]
        ),
        "convolution_of_many_in_groups": partial(
            convolution, U8, I8, (1, 512, 3, 3), (4, 256, 3, 3), channels=True, group=2
        ),
        "convolution_of_inputs": partial(
            convolution, U8, U8, image, filters, channels=False, free=(0, 3)
        ),
        "convolution_of_a_row": partial(
            convolution, U8, I8, (2, 6, 20), (5, 6, 5), channels=False, pads=[2, 2]
        ),
        **{
            f"matmul_{name}_{columns}": partial(matmul, *each, shapes, columns=columns)
            for (name, each), columns in product(kinds.items(), (False, True))
        },
        "matmul_of_many": partial(matmul, U8, I8, ((3, 3000), (3000, 5)), columns=True),
        "matmul_of_inputs": partial(
            matmul, U8, U8, ((2, 3, 700), (2, 700, 5)), columns=False, free=(0, 3)
        ),
        "matmul_of_parameters": partial(
            matmul, U8, U8, ((3, 30), (30, 5)), columns=False, free=(0, 1, 2, 3, 4, 5, 6, 7)
        ),
        "integers": lambda: case(
            "MatMulInteger", [narrow(U8, 2, 5, 64), narrow(I8, 64, 7), point(U8), point(I8)],
            onnx=True,
        ),
        "integers_of_many": lambda: case(
            "MatMulInteger", [narrow(U8, 3, 4000), narrow(U8, 4000, 7), point(U8), narrow(U8, 7)],
            onnx=True,
        ),
        "integers_of_inputs": lambda: case(
            "MatMulInteger", [narrow(U8, 3, 4000), narrow(U8, 4000, 7), point(U8), point(U8)],
            onnx=True, free=(0, 1, 2, 3),
        ),
        "integers_alone": lambda: case(
            "MatMulInteger", [narrow(I8, 5, 64), narrow(I8, 64, 7)], onnx=True, free=(0, 1)
        ),
        "convolution_integer": lambda: case(
            "ConvInteger", [narrow(U8, *image), narrow(U8, *filters), point(U8), point(U8)],
            onnx=True, pads=[1, 1, 1, 1],
        ),
        "convolution_integer_of_many": lambda: case(
            "ConvInteger", [narrow(U8, 1, 512, 4, 4), narrow(U8, 3, 512, 3, 3), point(U8)],
            onnx=True, strides=[1, 1],
        ),
        "to_float": lambda: case(
            "MatMulIntegerToFloat",
            [narrow(U8, 2, 5, 64), narrow(I8, 64, 7), scale(0.02), scales(0.01, 7), point(U8),
             narrow(I8, 7), real(7)],
        ),
        "dynamic": lambda: case(
            "DynamicQuantizeMatMul",
            [real(2, 5, 64), narrow(I8, 64, 7), scales(0.01, 7), np.zeros(7, I8), real(7)],
        ),
        "dynamic_without": lambda: case(
            "DynamicQuantizeMatMul", [real(5, 64), narrow(U8, 64, 7), scale(0.01), point(U8)]
        ),
        "gemm": partial(gemm, quantised=True),
        "gemm_transposed": partial(gemm, quantised=True, transB=1, alpha=0.5),
        "gemm_to_float": partial(gemm, quantised=False, transB=1, alpha=0.5),
        **{
            f"{operator}_{kind.__name__}_{len(other)}": partial(both, operator, kind, other)
            for operator, kind, other in product(
                ("QLinearAdd", "QLinearMul"), both_kinds, ((3, 5, 40), (40,))
            )
        },
        **{
            f"{operator}_{kind.__name__}": partial(alone, operator, kind, (4, 100), to, **more)
            for (operator, to, more), kind in product(ENTRYWISE, both_kinds)
        },
        "average_pool": partial(
            alone, "QLinearAveragePool", U8, (1, 3, 9, 8), 0.03, kernel_shape=[3, 2],
            strides=[2, 1], pads=[1, 0, 1, 1],
        ),
        "global_average_pool": partial(alone, "QLinearGlobalAveragePool", U8, (2, 8, 7, 7), 0.01),
        "global_average_pool_last": partial(
            alone, "QLinearGlobalAveragePool", I8, (2, 7, 7, 8), 0.01, channels_last=1
        ),
        "concat": concat,
        "quantised_to_16_bits": lambda: case(
            "QuantizeLinear", [real(3, 40), scales(0.001, 3), np.array([9, 70, 40_000], np.uint16)],
            axis=0,
        ),
        "dequantised_of_16_bits": lambda: case(
            "DequantizeLinear",
            [RANDOM.integers(-9_000, 9_000, (3, 40)).astype(np.int16), scale(0.01),
             np.array(77, np.int16)],
        ),
        "attention": lambda: case(
            "QAttention",
            [narrow(U8, 2, 5, 32), narrow(I8, 32, 96), real(96), scale(0.02), scale(0.01),
             np.array([[1] * 5, [1] * 3 + [0] * 2], np.int32), point(U8), np.array(0, I8)],
            free=(0, 5), num_heads=4,
        ),
    }  # fmt: skip


if __name__ == "__main__":
    record("quantised", cases())
