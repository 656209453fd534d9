"""A small decoder whose cache and tokens are open both, as a plan."""

from pathlib import Path
from typing import Any

import onnx
from numpy.typing import NDArray

from fixtures import language_onnx
from fixtures.language_configs import LLAMA
from fixtures.language_onnx import OnnxForm, decoder_onnx
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_range
from services.tuner.graph.ranges import ExtentRange, ExtentRanges
from services.tuner.language.checkpoint import Seeded

PAST, TOKENS = 12, 12
"""The tables of places of the small decoder have 24 rows."""
EXTENTS = (
    (0, 1), (0, 2), (0, 7), (0, 8), (0, 9), (0, 12), (1, 1), (1, 3), (2, 1), (3, 9), (4, 4), (7, 1),
    (8, 1), (8, 8), (9, 1), (11, 12), (12, 1), (12, 2), (12, 12),
)  # fmt: skip
"""Places of a cache and tokens, at ends of tiles and of ranges."""


def planned_decoder(path: Path, *, plain: bool) -> PlannedModel:
    """Writes the file, too. With `plain` its inputs have the places of tokens."""
    model = decoder_onnx(LLAMA, Seeded(), OnnxForm(plain=plain))
    for node in model.graph.node:
        # By this onnxruntime would multiply bytes.
        kept = [each for each in node.attribute if each.name != "accuracy_level"]
        del node.attribute[:]
        node.attribute.extend(kept)
    onnx.save(model, path)

    def at(past: int, sequence: int) -> Any:
        dimensions = {"batch": 1, "past": past, "sequence": sequence, "total": past + sequence}
        return import_model(path, dimensions)

    ranges = ExtentRanges(
        (
            ExtentRange(name="past", least=0, most=PAST),
            ExtentRange(name="sequence", least=1, most=TOKENS),
        )
    )
    return plan_range(at, ranges, {"batch": 1, "past": PAST, "sequence": TOKENS}, "decoder")


def decoder_feeds(past: int, tokens: int, *, plain: bool) -> dict[str, NDArray[Any]]:
    return language_onnx.decoder_feeds(LLAMA, past, tokens, plain=plain)
