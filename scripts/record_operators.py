"""Records what onnxruntime makes of operators that its optimiser and transformers.js write, of
recurrent layers, and of resizing: `python scripts/record_operators.py`, where onnx and onnxruntime
are installed; `python scripts/record_operators.py resizes` records those alone. Tests hold the
import to it.
"""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import helper, numpy_helper

FOLDER = Path(__file__).parents[1] / "fixtures" / "recorded"
Array = NDArray[Any]
B, S, P, HEADS, GROUPS, WIDTH = 2, 5, 6, 4, 2, 16
D = HEADS * WIDTH
RANDOM = np.random.default_rng(5)


def real(*shape: int) -> Array:
    """Numbers of few digits, which take a quarter of the space."""
    return (np.rint(RANDOM.standard_normal(shape) * 32) / 32).astype(np.float32)


def whole(*values: int, dtype: type = np.int32) -> Array:
    return np.array(values, dtype)


class OperatorCase:
    """One node. `feeds` are its inputs in order, None for one that is left out; those named in
    `constants` by their place are constants of the model."""

    def __init__(
        self,
        operator: str,
        feeds: list[Array | None],
        outputs: int = 1,
        *,
        constants: tuple[int, ...] = (),
        domain: str = "com.microsoft",
        opset: int = 17,
        asked: tuple[int, ...] | None = None,
        **attributes: Any,
    ) -> None:
        names = [f"x{n}" if feed is not None else "" for n, feed in enumerate(feeds)]
        made = [f"y{n}" if asked is None or n in asked else "" for n in range(outputs)]
        node = helper.make_node(operator, names, made, "node", domain=domain, **attributes)
        given = {name: feed for name, feed in zip(names, feeds, strict=True) if feed is not None}
        fixed = {f"x{n}" for n in constants}
        graph = helper.make_graph(
            [node],
            operator,
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(feed.dtype), feed.shape
                )
                for name, feed in given.items()
                if name not in fixed
            ],
            [helper.make_empty_tensor_value_info(name) for name in made if name],
            [numpy_helper.from_array(given[name], name) for name in fixed],
        )
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        self.model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        self.feeds = {name: feed for name, feed in given.items() if name not in fixed}

    def recorded(self) -> Mapping[str, Array]:
        runtime = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        body = self.model.SerializeToString()
        session = runtime.InferenceSession(body, options, providers=["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        outputs = dict(zip(names, session.run(names, self.feeds), strict=True))
        return {
            "model": np.frombuffer(body, np.uint8),
            **{f"input.{name}": feed for name, feed in self.feeds.items()},
            **{f"output.{name}": value for name, value in outputs.items()},
        }


def caches(length: int, heads: int = HEADS) -> list[Array | None]:
    return [real(B, heads, length, WIDTH), real(B, heads, length, WIDTH)]


def angles(length: int, half: int = WIDTH // 2) -> list[Array | None]:
    angle = np.arange(length)[:, None] * 0.3 ** np.arange(half)
    return [np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32)]


def grouped(new: int, past: int, lengths: tuple[int, ...], total: int, **more: Any) -> OperatorCase:
    """Takes `new` positions beside caches of `past`; a text has one more than its length says."""
    held = caches(past, GROUPS) if past else [None, None]
    for each in held:
        if each is not None:
            each[:, :, total:] = 0  # as onnxruntime leaves what lies behind
    feeds = [
        real(B, new, D), real(B, new, GROUPS * WIDTH), real(B, new, GROUPS * WIDTH),
        *held, whole(*lengths), whole(total), *angles(32),
    ]  # fmt: skip
    return OperatorCase(
        "GroupQueryAttention", feeds, 3, constants=(6,), num_heads=HEADS, kv_num_heads=GROUPS,
        do_rotary=1, **more,
    )  # fmt: skip


def bits(packed: int, size: int, *, zero: bool) -> OperatorCase:
    n, k, blocks = 6, 80, -(-80 // size)
    feeds: list[Array | None] = [
        real(3, k),
        RANDOM.integers(0, 256, (n, blocks, size * packed // 8)).astype(np.uint8),
        RANDOM.uniform(0.1, 1, n * blocks).astype(np.float32),
    ]
    if zero:
        columns = -(-blocks * packed // 8)
        feeds.append(RANDOM.integers(0, 256, n * columns).astype(np.uint8))
    constants = tuple(range(1, len(feeds)))
    return OperatorCase(
        "MatMulNBits", feeds, constants=constants, K=k, N=n, bits=packed, block_size=size
    )


def recurrent(
    operator: str,
    gates: int,
    direction: str,
    *,
    lengths: tuple[int, ...] = (),
    peepholes: bool = False,
    **more: Any,
) -> OperatorCase:
    ways, steps, inputs, size = 2 if direction == "bidirectional" else 1, 4, 3, 5
    feeds: list[Array | None] = [
        real(steps, B, inputs), real(ways, gates * size, inputs), real(ways, gates * size, size),
        real(ways, 2 * gates * size), None, real(ways, B, size),
    ]  # fmt: skip
    if operator == "LSTM":
        feeds.append(real(ways, B, size))
    if peepholes:
        feeds.append(real(ways, 3 * size))
    if lengths:
        feeds[4] = whole(*lengths)
    outputs = 3 if operator == "LSTM" else 2
    return OperatorCase(
        operator, feeds, outputs, domain="", constants=(1, 2, 3), hidden_size=size,
        direction=direction, **more,
    )  # fmt: skip


def cases() -> dict[str, Callable[[], OperatorCase]]:
    x, skip, row = real(B, S, D), real(B, S, D), real(D)
    mask = np.array([[1] * 4 + [0], [1] * 5], np.int32)
    ids = RANDOM.integers(0, 7, (B, S)).astype(np.int32)
    tables: list[Array | None] = [real(7, D), real(S + 2, D), real(2, D), real(D), real(D)]
    q_bias = real(3 * D)
    heads: dict[str, Any] = {"num_heads": HEADS}
    return {
        "layer_norm": lambda: OperatorCase(
            "LayerNormalization", [x, row, real(D)], domain="", opset=14, axis=-1, epsilon=1e-3
        ),
        "simplified": lambda: OperatorCase(
            "SimplifiedLayerNormalization", [x, row], domain="", axis=-1, epsilon=1e-3
        ),
        "skip": lambda: OperatorCase(
            "SkipLayerNormalization",
            [x, skip, row, real(D), real(D)],
            4,
            asked=(0, 3),
            epsilon=1e-3,
        ),
        "skip_simplified": lambda: OperatorCase(
            "SkipSimplifiedLayerNormalization", [x, skip, row], 4, asked=(0, 3), epsilon=1e-3
        ),
        "gelu": lambda: OperatorCase("Gelu", [x]),
        "fast_gelu": lambda: OperatorCase("FastGelu", [x, row]),
        "bias_gelu": lambda: OperatorCase("BiasGelu", [x, row]),
        "quick_gelu": lambda: OperatorCase("QuickGelu", [x], alpha=1.5),
        "fused_matmul": lambda: OperatorCase(
            "FusedMatMul", [real(B, 5, 3), real(B, 4, 5)], transA=1, transB=1, alpha=0.25
        ),
        "fused_conv": lambda: OperatorCase(
            "FusedConv",
            [real(1, 3, 6, 6), real(4, 3, 3, 3), real(4), real(1, 4, 6, 6)],
            pads=[1, 1, 1, 1],
            activation="Relu",
        ),
        "fused_conv_clip": lambda: OperatorCase(
            "FusedConv",
            [real(1, 3, 6, 6), real(4, 3, 3, 3)],
            activation="Clip",
            activation_params=[-0.5, 0.5],
        ),
        "fused_gemm": lambda: OperatorCase(
            "FusedGemm",
            [real(3, 4), real(5, 4), real(5)],
            transB=1,
            alpha=0.5,
            activation="LeakyRelu",
            activation_alpha=0.1,
        ),
        "embedded": lambda: OperatorCase(
            "EmbedLayerNormalization", [ids, ids % 2, *tables, mask], 3, epsilon=1e-3
        ),
        "attention": lambda: OperatorCase("Attention", [x, real(D, 3 * D), q_bias, mask], **heads),
        "attention_lengths": lambda: OperatorCase(
            "Attention", [x, real(D, 3 * D), q_bias, whole(3, 5)], **heads
        ),
        "attention_past": lambda: OperatorCase(
            "Attention",
            [x, real(D, 3 * D), q_bias, None, real(2, B, HEADS, P, WIDTH)],
            2,
            unidirectional=1,
            **heads,
        ),
        "multi_head": lambda: OperatorCase(
            "MultiHeadAttention",
            [
                x,
                real(B, 7, D),
                real(B, 7, D),
                q_bias,
                np.array([[1] * 6 + [0], [1] * 7], np.int32),
                real(1, HEADS, S, 7),
            ],
            **heads,
        ),
        "multi_head_past": lambda: OperatorCase(
            "MultiHeadAttention",
            [x, skip, real(B, S, D), None, None, None, *caches(P)],
            3,
            unidirectional=1,
            scale=0.2,
            **heads,
        ),
        "multi_head_apart": lambda: OperatorCase("MultiHeadAttention", [x, *caches(P)], **heads),
        "rotary": lambda: OperatorCase(
            "RotaryEmbedding", [x, whole(3, dtype=np.int64), *angles(16)], interleaved=1
        ),
        "rotary_part": lambda: OperatorCase(
            "RotaryEmbedding",
            [real(B, HEADS, S, WIDTH), np.arange(2 * S).reshape(B, S) % 7, *angles(16, 2)],
            rotary_embedding_dim=4,
            num_heads=HEADS,
        ),
        "grouped_prompt": lambda: grouped(S, 0, (S - 1, S - 1), S),
        "grouped_step": lambda: grouped(1, P, (P, P), P + 1, local_window_size=4),
        "grouped_buffer": lambda: grouped(1, 12, (7, 7), 8, softcap=3.0),
        "grouped_packed": lambda: OperatorCase(
            "GroupQueryAttention",
            [real(B, S, D + 2 * GROUPS * WIDTH), None, None, None, None, whole(4, 4), whole(5)],
            3,
            constants=(6,),
            num_heads=HEADS,
            kv_num_heads=GROUPS,
            scale=0.5,
        ),
        "bits_4": lambda: bits(4, 32, zero=False),
        "bits_4_zero": lambda: bits(4, 16, zero=True),
        "bits_8_zero": lambda: bits(8, 32, zero=True),
        "gather_bits": lambda: OperatorCase(
            "GatherBlockQuantized",
            [
                RANDOM.integers(0, 256, (9, 32)).astype(np.uint8),
                ids,
                RANDOM.uniform(0.1, 1, (9, 4)).astype(np.float32),
                RANDOM.integers(0, 256, (9, 2)).astype(np.uint8),
            ],
            constants=(0, 2, 3),
            bits=4,
            block_size=16,
            gather_axis=0,
            quantize_axis=1,
        ),
        "lstm": lambda: recurrent("LSTM", 4, "bidirectional"),
        "gru": lambda: recurrent("GRU", 3, "reverse"),
        "gru_before_reset": lambda: recurrent("GRU", 3, "bidirectional", linear_before_reset=1),
        "rnn": lambda: recurrent("RNN", 1, "forward"),
        "lstm_lengths": lambda: recurrent(
            "LSTM", 4, "bidirectional", lengths=(3, 1), peepholes=True, clip=0.75
        ),
        "lstm_joined": lambda: recurrent(
            "LSTM",
            4,
            "reverse",
            peepholes=True,
            input_forget=1,
            activations=["HardSigmoid", "Softsign", "Affine"],
            activation_alpha=[0.3, 0.75],
            activation_beta=[0.25, 0.125],
        ),
        "gru_lengths": lambda: recurrent(
            "GRU",
            3,
            "bidirectional",
            lengths=(2, 4),
            clip=1.5,
            activations=["Sigmoid", "ScaledTanh", "HardSigmoid", "Elu"],
            activation_alpha=[0.75, 0.25, 0.5],
            activation_beta=[0.5, 0.375],
        ),
        "rnn_directions": lambda: recurrent(
            "RNN",
            1,
            "bidirectional",
            lengths=(4, 3),
            activations=["LeakyRelu", "Softplus"],
            activation_alpha=[0.125],
        ),
    }


COORDINATES = (
    "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric", "align_corners", "asymmetric",
)  # fmt: skip
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
EXTENTS_AND_SCALES = ((5, 2.5), (10, 0.7), (3, 1.7), (1, 2.5))


def resized(shape: tuple[int, ...], **told: Any) -> OperatorCase:
    """`told`: scales, sizes and a region (roi), which are inputs, and attributes."""
    kinds = {"roi": np.float32, "scales": np.float32, "sizes": np.int64}
    inputs = [
        np.array(told.pop(name), kind) if name in told else None for name, kind in kinds.items()
    ]
    while inputs and inputs[-1] is None:
        inputs.pop()
    constants = tuple(n for n, each in enumerate(inputs, 1) if each is not None)
    return OperatorCase(
        "Resize", [real(*shape), *inputs], constants=constants, domain="",
        opset=told.pop("opset", 19), **told,
    )  # fmt: skip


def resizes() -> dict[str, Callable[[], OperatorCase]]:
    """A grid of what Resize may be told, without ties that f32 rounds in one way or the other."""
    made: dict[str, Callable[[], OperatorCase]] = {}

    def add(name: str, shape: tuple[int, ...], **told: Any) -> None:
        made[name] = lambda: resized(shape, **told)

    for extent, scale in EXTENTS_AND_SCALES:
        for mode in COORDINATES:
            shape, new = (1, 1, 4, extent), max(1, int(extent * scale))
            same: dict[str, Any] = {"coordinate_transformation_mode": mode}
            for size in ({"scales": (1, 1, 1.5, scale)}, {"sizes": (1, 1, 7, new)}):
                head = f"{mode}.{extent}.{scale}.{next(iter(size))}"
                for nearest in NEAREST if mode != "half_pixel_symmetric" else NEAREST[:2]:
                    add(f"{head}.{nearest}", shape, nearest_mode=nearest, **size, **same)
                for antialias in (0, 1):
                    more = {"antialias": antialias, **size, **same}
                    add(f"{head}.linear.{antialias}", shape, mode="linear", **more)
                    add(
                        f"{head}.cubic.{antialias}", shape, mode="cubic", cubic_coeff_a=-0.5,
                        exclude_outside=1 - antialias, **more,
                    )  # fmt: skip
            for policy in ("not_larger", "not_smaller"):
                add(
                    f"{mode}.{extent}.{scale}.{policy}", shape, mode="linear", sizes=(7, new),
                    axes=(2, 3), keep_aspect_ratio_policy=policy, **same,
                )  # fmt: skip
    for number, region in enumerate(((0, 0, 0.2, 0.1, 1, 1, 0.8, 0.9), (0, 0, -1, 0, 1, 1, 2, 1))):
        for mode in ("nearest", "linear", "cubic"):
            add(
                f"crop.{number}.{mode}", (1, 1, 4, 5), sizes=(1, 1, 3, 7), roi=region, mode=mode,
                coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.5,
            )  # fmt: skip
    return made


OlderTable = Mapping[str, tuple[tuple[int, ...], str, list[Array | None], dict[str, Any]]]
"""Opsets, the operator, its inputs and its attributes."""


def older() -> dict[str, Callable[[], OperatorCase]]:
    """Operators as opsets from 7 to 12, or 15, define them. Inputs of the second table, but for the
    first, are constants."""
    plain: OlderTable = {
        "squeeze": ((7, 11), "Squeeze", [real(1, 3, 1, 2)], {"axes": [0, 2]}),
        "squeeze_all": ((7, 12), "Squeeze", [real(1, 3, 1, 2)], {}),
        "unsqueeze": ((7, 12), "Unsqueeze", [real(3, 2)], {"axes": [0, 3]}),
        "sum": ((7, 12), "ReduceSum", [real(2, 3, 4)], {"axes": [0, 2], "keepdims": 0}),
        "sum_all": ((8,), "ReduceSum", [real(2, 3, 4)], {}),
        "mean": ((7, 12), "ReduceMean", [real(2, 3, 4)], {"axes": [-1]}),
        "slice": ((7, 9), "Slice", [real(4, 5)], {"starts": [1, -3], "ends": [9, -1]}),
        "slice_axes": ((7, 9), "Slice", [real(4, 5)], {"starts": [1], "ends": [3], "axes": [1]}),
        "split": ((7, 12), "Split", [real(2, 6)], {"axis": 1, "split": [1, 2, 3]}),
        "split_evenly": ((7, 11), "Split", [real(2, 6)], {"axis": 1}),
        "pad": ((7, 10), "Pad", [real(2, 3)], {"pads": [1, 0, 0, 2], "value": 1.5}),
        "pad_cut": ((7, 10), "Pad", [real(2, 3)], {"pads": [1, 0, -1, 0]}),
        "pad_reflect": ((7, 10), "Pad", [real(2, 3)], {"pads": [0, 2, 1, 1], "mode": "reflect"}),
        "clip": ((7, 10), "Clip", [real(2, 9)], {"min": -0.5, "max": 0.25}),
        "clip_below": ((7, 10), "Clip", [real(2, 9)], {"min": 0.0}),
        "top": ((7, 9), "TopK", [real(2, 9)], {"k": 3}),
        "dropout": ((7, 10), "Dropout", [real(2, 9)], {"ratio": 0.25}),
        "softmax": ((7, 11), "Softmax", [real(2, 3, 4)], {}),
        "softmax_last": ((7, 12), "Softmax", [real(2, 3, 4)], {"axis": 2}),
        "softmax_all": ((7, 12), "Softmax", [real(2, 3, 4)], {"axis": 0}),
        "log_softmax": ((7, 12), "LogSoftmax", [real(2, 3, 4)], {"axis": 1}),
        "hardmax": ((7, 12), "Hardmax", [real(2, 3, 4)], {"axis": 1}),
        "flatten": ((7, 9, 11), "Flatten", [real(2, 3, 4)], {"axis": 2}),
        "power": ((7, 12), "Pow", [np.abs(real(2, 3)), real(3)], {}),
        "prelu": ((7, 9), "PRelu", [real(2, 3, 4), real(3, 1)], {}),
        "product": ((7, 9), "Gemm", [real(2, 3), real(4, 3), real(4)], {"transB": 1, "alpha": 0.5}),
        "scatter": (
            (9, 10), "Scatter", [real(3, 3), np.array([[0, 2, 1]], np.int64), real(1, 3)],
            {"axis": 0},
        ),
        "convolution": (
            (7, 11), "Conv", [real(1, 2, 5, 5), real(3, 2, 3, 3)],
            {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        ),
        "transposed_upper": (
            (7, 11), "ConvTranspose", [real(1, 2, 4, 4), real(2, 3, 3, 3)],
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
        ),
        "transposed_lower": (
            (7, 11), "ConvTranspose", [real(1, 2, 4, 4), real(2, 3, 3, 3)],
            {"auto_pad": "SAME_LOWER", "strides": [2, 2]},
        ),
        "transposed_shape": (
            (7, 11), "ConvTranspose", [real(1, 2, 4, 4), real(2, 3, 3, 3)],
            {"output_shape": [8, 8], "strides": [2, 2]},
        ),
        "averaged": (
            (7, 10, 11), "AveragePool", [real(1, 2, 5, 5)],
            {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
        ),
        "largest": (
            (8, 10, 12), "MaxPool", [real(1, 2, 5, 5)],
            {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        ),
        "normalised": (
            (7, 9), "BatchNormalization",
            [real(2, 3, 4), real(3), real(3), real(3), np.abs(real(3)) + 1], {"epsilon": 1e-3},
        ),
        "normalised_places": (
            (7,), "BatchNormalization",
            [real(2, 3, 4), real(3, 4), real(3, 4), real(3, 4), np.abs(real(3, 4)) + 1],
            {"spatial": 0},
        ),
        "upsampled": ((7,), "Upsample", [real(1, 2, 3, 4)], {"scales": [1.0, 1.0, 3.0, 2.5]}),
        "upsampled_linear": (
            (7,), "Upsample", [real(1, 2, 3, 4)],
            {"scales": [1.0, 1.0, 2.0, 2.5], "mode": "linear"},
        ),
        "regions": (
            (10, 15), "RoiAlign",
            [
                real(1, 2, 6, 6), np.array([[0, 0, 4, 5], [1, 2, 5, 5]], np.float32),
                np.zeros(2, np.int64),
            ],
            {"output_height": 2, "output_width": 3, "sampling_ratio": 2},
        ),
    }  # fmt: skip
    with_constants: OlderTable = {
        "hot": (
            (9, 10), "OneHot",
            [np.array([0, -1, 2, 5]), np.array(3, np.int64), np.array([0.5, 2], np.float32)],
            {"axis": -1},
        ),
        "upsampled_input": ((9,), "Upsample", [real(1, 2, 3, 4), whole(1, 1, 3, 2)], {}),
        "resized": ((10,), "Resize", [real(1, 1, 5, 7), np.array([1, 1, 2.6, 1.7])], {}),
        "resized_down": ((10,), "Resize", [real(1, 1, 5, 7), np.array([1, 1, 0.6, 0.45])], {}),
        "resized_both": ((10,), "Resize", [real(1, 1, 5, 7), np.array([1, 1, 2.6, 0.6])], {}),
        "resized_linear": (
            (10,), "Resize", [real(1, 1, 5, 7), np.array([1, 1, 0.6, 1.7])], {"mode": "linear"},
        ),
        "top_input": ((10,), "TopK", [real(2, 9), np.array([3], np.int64)], {"axis": 1}),
        "places": (
            (10,), "Slice",
            [real(4, 5), *(np.array(n, np.int64) for n in ([-1, 0], [0, 3], [0, 1], [-2, 1]))], {},
        ),
        "padded": (
            (11,), "Pad",
            [real(2, 3), np.array([1, 0, -1, 2], np.int64), np.array(2, np.float32)], {},
        ),
    }  # fmt: skip
    made: dict[str, Callable[[], OperatorCase]] = {}

    def add(name: str, opset: int, operator: str, feeds: list[Array | None], more: Any) -> None:
        scales = operator in ("Resize", "Upsample")
        inputs = [
            feed.astype(np.float32) if n and scales and feed is not None else feed
            for n, feed in enumerate(feeds)
        ]
        constants = tuple(range(1, len(feeds))) if name in with_constants else ()
        outputs = {"Split": 3 if "split" in more else 2, "TopK": 2}.get(operator, 1)
        made[f"{name}.{opset}"] = lambda: OperatorCase(
            operator, inputs, outputs, constants=constants, domain="", opset=opset, **more
        )

    for name, (opsets, operator, feeds, more) in {**plain, **with_constants}.items():
        for opset in opsets:
            add(name, opset, operator, feeds, more)
    return made


def record(file: str, cases: Mapping[str, Callable[[], OperatorCase]]) -> None:
    body = BytesIO()
    arrays: dict[str, Any] = {}
    for name, make in cases.items():
        arrays |= {f"{name}/{key}": value for key, value in make().recorded().items()}
    np.savez_compressed(body, **arrays)
    path = FOLDER / f"onnxruntime_{file}.npz"
    path.write_bytes(body.getvalue())
    print(f"{path.name}: {len(cases)} cases, {len(body.getvalue()) / 1e3:.0f} kB")


FILES = {"operators": cases, "resizes": resizes, "older": older}


if __name__ == "__main__":
    for file in sys.argv[1:] or FILES:
        record(file, FILES[file]())
