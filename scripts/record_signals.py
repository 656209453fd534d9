"""Records what onnxruntime makes of spectra: `python -m scripts.record_signals`, where onnx and
onnxruntime are installed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from scripts.record_operators import Array, OperatorCase, real, record, whole


def fourier(
    shape: tuple[int, ...], length: int | None = None, axis: int | None = None, opset: int = 20,
    **more: Any,
) -> OperatorCase:  # fmt: skip
    feeds: list[Array | None] = [
        real(*shape),
        None if length is None else np.array(length),
        None if axis is None else np.array(axis),
    ]
    while feeds[-1] is None:
        feeds.pop()
    constants = tuple(n for n in (1, 2) if n < len(feeds) and feeds[n] is not None)
    return OperatorCase("DFT", feeds, constants=constants, domain="", opset=opset, **more)


def short_time(
    shape: tuple[int, ...], step: int, window: Array | None, length: int | None, *,
    constants: tuple[int, ...] = (1, 2, 3), **more: Any,
) -> OperatorCase:  # fmt: skip
    feeds: list[Array | None] = [real(*shape), np.array(step), window]
    feeds += [] if length is None else [np.array(length)]
    kept = tuple(n for n in constants if n < len(feeds) and feeds[n] is not None)
    return OperatorCase("STFT", feeds, constants=kept, domain="", opset=17, **more)


def cases() -> dict[str, Callable[[], OperatorCase]]:
    hann = np.hanning(24).astype(np.float32)
    numbers: list[Array | None] = [whole(8), whole(64), whole(8000)]
    edges = np.array(100, np.float32), np.array(3500, np.float32)
    scalars = [None if each is None else each.reshape(()) for each in numbers]
    return {
        "fourier": partial(fourier, (2, 30, 1)),
        "fourier_onesided": partial(fourier, (2, 3, 21, 1), onesided=1),
        "fourier_padded": partial(fourier, (2, 10, 3, 2), 16, 1),
        "fourier_cut": partial(fourier, (2, 20, 3, 1), 13, 1, onesided=1),
        "fourier_back": partial(fourier, (2, 15, 2), inverse=1),
        "fourier_of_opset_17": partial(fourier, (2, 12, 5, 2), opset=17),
        "short_time": partial(short_time, (2, 100, 1), 7, hann, None),
        "short_time_of_inputs": partial(
            short_time, (1, 100, 1), 8, hann, 24, constants=(1, 3), onesided=1
        ),
        "short_time_two_sided": partial(short_time, (1, 64, 1), 16, None, 32, onesided=0),
        "mel": lambda: OperatorCase(
            "MelWeightMatrix", [*scalars, *edges], constants=(0, 1, 2, 3, 4), domain="", opset=17
        ),
    }


if __name__ == "__main__":
    record("signals", cases())
