"""Images resized to sizes that are no multiples of theirs, by kernels of each target."""

from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from kernelzoo.domain.target import TargetKind
from services.tuner.graph.importing import import_model
from tests.unit.graph.models import parsed, written
from tests.unit.graph.targets import TARGETS, outputs_on

SIZES = {2: (7, 9), 3: (10,)}
"""By the width of an image, those that it is resized to."""
COORDINATES = ("half_pixel", "asymmetric")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("width", SIZES)
def test_the_nearest_entry_is_within_the_image(
    width: int, target: TargetKind, tmp_path: Path
) -> None:
    """The last place is no entry beyond the axis where all others of it are multiples."""
    lines, made = [], []
    for size in SIZES[width]:
        for coordinates in COORDINATES:
            name = f"{coordinates}{size}"
            lines.append(
                f"s{name} = Constant <value_ints = [1, 1, 2, {size}]> ()\n {name} = Resize"
                f' <mode = "nearest", coordinate_transformation_mode = "{coordinates}">'
                f" (x, , , s{name})"
            )
            made.append(f"float[1, 1, 2, {size}] {name}")
    body = "\n".join(lines)
    model = parsed(f"g (float[1, 1, 2, {width}] x) => ({', '.join(made)}) {{ {body} }}")
    x = np.arange(2 * width, dtype=np.float32).reshape(1, 1, 2, width)
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    wanted = session.run(None, {"x": x})
    outputs = outputs_on(target, import_model(written(tmp_path, model), {}), {"x": x}, tmp_path)
    for output, right in zip(model.graph.output, wanted, strict=True):
        np.testing.assert_array_equal(outputs[output.name], right, err_msg=output.name)
