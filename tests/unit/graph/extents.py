"""Runs a plan of ranges at extents one after another, beside onnxruntime."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from kernelzoo.domain.plan import Plan
from services.tuner.graph.models import PlannedModel
from tests.unit.graph.running import Runner


def ranged_feeds(plan: Plan, feeds: dict[str, Any], extents: Sequence[int]) -> dict[str, Any]:
    """Pads as a page does: what lies beyond an extent is the least that chooses a row."""
    made: dict[str, NDArray[Any]] = {}
    spare = [axis.most - extent for axis, extent in zip(plan.axes, extents, strict=True)]
    told = {axis.input: number for axis, number in zip(plan.axes, spare, strict=True)}
    for axis, extent in zip(plan.axes, extents, strict=True):
        told |= {each.input: max(0, each.most - extent) for each in axis.buckets}
    for each in plan.sums:
        told[each.input] = sum(n * m for n, m in zip(each.factors, spare, strict=True))
    for place, port in enumerate(plan.inputs):
        if place in told:
            made[port.name] = np.array([told[place]], np.int32)
            continue
        given = feeds[port.name]
        least = np.nan if given.dtype == np.float32 else (port.rows or (0, 0))[0]
        filled = np.full(port.shape, least, np.float32 if given.dtype == np.float32 else np.int32)
        filled[tuple(slice(0, extent) for extent in given.shape)] = given
        made[port.name] = filled
    return made


def check(
    path: Path,
    model: PlannedModel,
    folder: Path,
    runs: Sequence[tuple[int | tuple[int, ...], dict[str, Any]]],
) -> None:
    """The plan's outputs, for what is given at each extent in turn, are onnxruntime's."""
    (plan,) = model.plans
    file = folder / "weights"
    model.weights.write(file)
    runner = Runner(plan, {each.key: each for each in model.workloads}, file.read_bytes())
    session = onnxruntime.InferenceSession(str(path))
    for extent, feeds in runs:
        extents = (extent,) if isinstance(extent, int) else extent
        found = runner.run(ranged_feeds(plan, feeds, extents))
        for port, right in zip(plan.outputs, session.run(None, feeds), strict=True):
            own = found[port.name][tuple(slice(0, each) for each in right.shape)]
            error = np.abs(own - right).max()
            assert error <= 1e-4 * np.abs(right).max(), (extent, port.name, error)
