"""Records what onnxruntime makes of operators on images, regions and matrices:
`python -m scripts.record_images`, where onnx and onnxruntime are installed."""

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from scripts.record_operators import Array, OperatorCase, real, record, whole


def onnx(
    operator: str,
    feeds: list[Array | None],
    outputs: int = 1,
    *,
    opset: int = 20,
    constants: tuple[int, ...] = (),
    **attributes: Any,
) -> OperatorCase:
    return OperatorCase(
        operator, feeds, outputs, domain="", opset=opset, constants=constants, **attributes
    )


def regions(*, known: bool, **attributes: Any) -> OperatorCase:
    """Regions within, across and outside of two images, one without any size."""
    rois = np.array(
        [[1, 2, 9, 7], [-3, -2, 4, 5], [0, 0, 15, 11], [4, 4, 4, 4], [9, 6, 18, 15]], np.float32
    )
    batches = whole(0, 1, 1, 0, 0, dtype=np.int64)
    feeds: list[Array | None] = [real(2, 3, 12, 16), rois, batches]
    constants = (1,) if known else ()
    return onnx(
        "RoiAlign", feeds, constants=constants, output_height=3, output_width=4, **attributes
    )


def sampled(mode: str, padding: str, aligned: int, rank: int) -> OperatorCase:
    image = (1, 2, 3, 4, 5)[: 2 + rank]
    grid = (real(1, *(3, 4, 3)[:rank], rank) * 1.3).astype(np.float32)
    return onnx(
        "GridSample", [real(*image), grid], mode=mode, padding_mode=padding, align_corners=aligned
    )


def pool(shape: tuple[int, ...], **attributes: Any) -> OperatorCase:
    """Many entries are equal, of which the first counts."""
    return onnx("MaxPool", [np.rint(real(*shape))], 2, opset=13, **attributes)


def cases() -> dict[str, Callable[[], OperatorCase]]:
    both = ("zeros", "border", "reflection")
    return {
        **{
            f"regions_{mode}_{ratio}_{coordinates}": partial(
                regions,
                known=not ratio,
                mode=mode,
                sampling_ratio=ratio,
                spatial_scale=0.75,
                coordinate_transformation_mode=coordinates,
            )
            for mode, ratio, coordinates in product(
                ("avg", "max"), (0, 2), ("half_pixel", "output_half_pixel")
            )
        },
        "regions_before_opset_16": lambda: regions(known=False, sampling_ratio=3, opset=13),
        **{
            "_".join(("sampled", *map(str, form))): partial(sampled, *form)
            for form in product(("cubic", "linear", "nearest"), both, (0, 1), (2, 3))
            if (form[0], form[3]) != ("cubic", 3)
        },
        "grid_2d": lambda: onnx(
            "AffineGrid",
            [real(2, 2, 3), whole(2, 3, 4, 5, dtype=np.int64)],
            constants=(1,),
        ),
        "grid_3d": lambda: onnx(
            "AffineGrid",
            [real(1, 3, 4), whole(1, 3, 4, 5, 2, dtype=np.int64)],
            constants=(1,),
            align_corners=1,
        ),
        "largest": lambda: pool((2, 3, 9, 8), kernel_shape=[3, 2], pads=[1, 0, 1, 1]),
        "largest_dilated": lambda: pool(
            (1, 2, 9, 8), kernel_shape=[2, 3], dilations=[3, 2], strides=[2, 1], ceil_mode=1
        ),
        "largest_columns_first": lambda: pool(
            (2, 2, 6, 7), kernel_shape=[2, 2], strides=[2, 2], storage_order=1
        ),
        "largest_of_a_row": lambda: pool((2, 3, 11), kernel_shape=[4], strides=[3]),
        "largest_of_a_volume": lambda: pool(
            (1, 2, 4, 5, 6), kernel_shape=[2, 2, 2], pads=[0, 1, 0, 1, 0, 1]
        ),
        "power_pool": lambda: onnx(
            "LpPool",
            [real(2, 3, 8, 9)],
            opset=18,
            p=3,
            kernel_shape=[3, 2],
            strides=[2, 2],
            pads=[1, 0, 1, 1],
        ),
        "power_pool_1": lambda: onnx(
            "LpPool", [real(1, 2, 11)], opset=18, p=1, kernel_shape=[3], auto_pad="SAME_UPPER"
        ),
        "global_power_pool": lambda: onnx("GlobalLpPool", [real(2, 3, 5, 4)], p=3),
        "global_power_pool_2": lambda: onnx("GlobalLpPool", [real(2, 3, 5, 4)]),
        "unpool": lambda: onnx(
            "MaxUnpool",
            [real(1, 2, 2, 2), np.array([5, 3, 8, 14, 17, 22, 25, 31]).reshape(1, 2, 2, 2)],
            opset=13,
            kernel_shape=[2, 2],
            strides=[2, 2],
        ),
        "determinant": lambda: onnx("Det", [real(2, 3, 5, 5)]),
        "determinant_of_one": lambda: onnx("Det", [real(4, 1, 1)]),
        "eye": lambda: onnx("EyeLike", [whole(1, 2, 3, 4, 5, 6).reshape(2, 3)], k=-1, dtype=1),
        "columns": lambda: onnx(
            "Col2Im",
            [real(2, 3 * 6, 12), whole(5, 8, dtype=np.int64), whole(2, 3, dtype=np.int64)],
            opset=18,
            constants=(1, 2),
            strides=[1, 2],
            pads=[0, 1, 0, 0],
            dilations=[2, 1],
        ),
        "groups_of_opset_18": lambda: onnx(
            "GroupNormalization",
            [real(2, 6, 3, 4), real(3), real(3)],
            opset=18,
            num_groups=3,
            epsilon=1e-3,
        ),
        "groups": lambda: onnx(
            "GroupNormalization",
            [real(2, 6, 3, 4), real(6), real(6)],
            opset=21,
            num_groups=3,
            epsilon=1e-3,
        ),
    }


if __name__ == "__main__":
    record("images", cases())
