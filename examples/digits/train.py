"""Trains the network of this example: `python train.py FILE.onnx`, a few seconds on one core.

The images are scikit-learn's digits: 1,797 of 8 × 8 cells, each the number of dark dots, 0 to 16,
of 4 × 4; and digits that `strokes.py` draws, in ways that are not among those, too. Two
convolutions and a linear layer learn them with NumPy alone, on images that are also moved by a
cell. Every fifth image is kept for the test.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from sklearn.datasets import load_digits
from strokes import drawn

Array = NDArray[np.float32]
Weights = dict[str, Array]

SEED = 5
EPOCHS = 12
DRAWN = 1000
BATCH = 64
RATE = 6e-3
MOMENTS = 0.9, 0.99
CHANNELS = 8, 16
DARKEST = 16.0
ENOUGH = 0.96
"""Share of test images that must be recognised."""


def main() -> None:
    file = Path(sys.argv[1])
    random = np.random.default_rng(SEED)
    held = load_digits()
    written = (held.images[:, None] / DARKEST).astype(np.float32)
    by_strokes, their_digits = drawn(DRAWN, random)
    images = np.concatenate([written, by_strokes])
    labels = np.concatenate([held.target, their_digits])
    for_test = np.arange(len(labels)) % 5 == 0
    weights = initial(random)
    moments: dict[str, tuple[Array, Array]] = {}
    for batch in batches(images[~for_test], labels[~for_test], random):
        learn(weights, moments, *batch)
    right = np.argmax(forward(weights, images)[-1], 1) == labels
    parts = {"written": slice(len(written)), "drawn": slice(len(written), None)}
    shares = {name: right[part][for_test[part]].mean() for name, part in parts.items()}
    told = " and ".join(f"{share:.1%} of those {name}" for name, share in shares.items())
    if min(shares.values()) < ENOUGH:
        sys.exit(f"of the test images only {told} are recognised, not {ENOUGH:.0%}")
    file.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(as_onnx(weights), file)
    image = images[for_test][:1]
    np.savez(
        file.with_suffix(".npz"),
        **{"input.image": image, "output.probabilities": softmax(forward(weights, image)[-1])},
    )
    print(f"{file}: of {for_test.sum()} test images it recognises {told}")


def initial(random: np.random.Generator) -> Weights:
    one, two = CHANNELS
    shapes = {"conv1": (one, 1, 3, 3), "conv2": (two, one, 3, 3), "linear": (10, two * 16)}
    weights: Weights = {}
    for name, shape in shapes.items():
        scale = np.sqrt(2 / np.prod(shape[1:]))
        weights[name] = (scale * random.standard_normal(shape)).astype(np.float32)
        weights[f"{name}.bias"] = np.zeros(shape[0], np.float32)
    return weights


def batches(
    images: Array, labels: NDArray[np.int64], random: np.random.Generator
) -> Iterator[tuple[Array, NDArray[np.int64], int, float]]:
    """Images that are moved by up to one cell, labels, the number of the batch and its rate."""
    count = 0
    wide = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    for epoch in range(EPOCHS):
        order = random.permutation(len(images))
        places = zip(order, random.integers(0, 3, size=(len(order), 2)), strict=True)
        moved = np.stack([wide[i, :, y : y + 8, x : x + 8] for i, (y, x) in places])
        for start in range(0, len(order), BATCH):
            count += 1
            part = slice(start, start + BATCH)
            yield moved[part], labels[order[part]], count, RATE * (1 - epoch / EPOCHS)


def windows(x: Array) -> Array:
    """[batch, channel, y, x] → [batch · y · x, channel · 9]: what each 3 × 3 window reads."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return seen.transpose(0, 2, 3, 1, 4, 5).reshape(-1, x.shape[1] * 9)


def forward(weights: Weights, x: Array) -> tuple[Array, ...]:
    """Windows and outputs of both convolutions, the pooled image, and the scores."""
    seen1 = windows(x)
    out1 = convolved(seen1, weights, "conv1", x)
    seen2 = windows(out1)
    out2 = convolved(seen2, weights, "conv2", x)
    pooled = out2.reshape(len(x), -1, 4, 2, 4, 2).max((3, 5))
    scores = pooled.reshape(len(x), -1) @ weights["linear"].T + weights["linear.bias"]
    return seen1, out1, seen2, out2, pooled, scores


def convolved(seen: Array, weights: Weights, name: str, x: Array) -> Array:
    kernel = weights[name]
    out = np.maximum(seen @ kernel.reshape(len(kernel), -1).T + weights[f"{name}.bias"], 0)
    return out.reshape(len(x), 8, 8, -1).transpose(0, 3, 1, 2)


def gradients(weights: Weights, x: Array, labels: NDArray[np.int64]) -> Weights:
    """The gradients of the mean cross entropy."""
    seen1, out1, seen2, out2, pooled, scores = forward(weights, x)
    error = softmax(scores)
    error[np.arange(len(x)), labels] -= 1
    error /= len(x)
    found = {"linear": error.T @ pooled.reshape(len(x), -1), "linear.bias": error.sum(0)}
    spread = np.repeat(np.repeat((error @ weights["linear"]).reshape(pooled.shape), 2, 2), 2, 3)
    largest = np.repeat(np.repeat(pooled, 2, 2), 2, 3) == out2
    back2 = rows(spread * largest * (out2 > 0))
    found |= {
        "conv2": (back2.T @ seen2).reshape(weights["conv2"].shape),
        "conv2.bias": back2.sum(0),
    }
    # A window's gradient goes back to the places that it read: the convolution turned by 180°.
    turned = weights["conv2"][:, :, ::-1, ::-1].transpose(0, 2, 3, 1)
    image = back2.reshape(len(x), 8, 8, -1).transpose(0, 3, 1, 2)
    spread = windows(image) @ turned.reshape(-1, out1.shape[1])
    back1 = spread * (rows(out1) > 0)
    found |= {
        "conv1": (back1.T @ seen1).reshape(weights["conv1"].shape),
        "conv1.bias": back1.sum(0),
    }
    return found


def rows(image: Array) -> Array:
    """[batch, channel, y, x] → [batch · y · x, channel]."""
    return image.transpose(0, 2, 3, 1).reshape(-1, image.shape[1])


def softmax(scores: Array) -> Array:
    raised = np.exp(scores - scores.max(1, keepdims=True))
    return raised / raised.sum(1, keepdims=True)


def learn(
    weights: Weights,
    moments: dict[str, tuple[Array, Array]],
    x: Array,
    labels: NDArray[np.int64],
    count: int,
    rate: float,
) -> None:
    """One step of Adam, the number `count` from 1 on."""
    for name, gradient in gradients(weights, x, labels).items():
        zero = np.zeros_like(gradient)
        first, second = moments.get(name, (zero, zero))
        first = MOMENTS[0] * first + (1 - MOMENTS[0]) * gradient
        second = MOMENTS[1] * second + (1 - MOMENTS[1]) * gradient**2
        moments[name] = first, second
        step = first / (1 - MOMENTS[0] ** count)
        weights[name] -= rate * step / (np.sqrt(second / (1 - MOMENTS[1] ** count)) + 1e-8)


def as_onnx(weights: Weights) -> onnx.ModelProto:
    """`image`, [1, 1, 8, 8] from 0 to 1, to `probabilities` of the ten digits."""
    padded = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["image", "conv1", "conv1.bias"], ["c1"], **padded),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "conv2", "conv2.bias"], ["c2"], **padded),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("MaxPool", ["r2"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "linear", "linear.bias"], ["scores"], transB=1),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 8, 8])],
        [helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    return model


if __name__ == "__main__":
    main()
