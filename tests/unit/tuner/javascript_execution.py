"""Runs JavaScript kernels in Node, many in one process, against NumPy."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shutil import which
from subprocess import run

import numpy as np
import pytest

from kernelzoo.domain.artifact import Artifact
from tests.unit.tuner.execution import ALIGNMENT_BYTES, NUMPY, Floats

RUNNER = Path(__file__).parent / "javascript_runner.mjs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A kernel and its inputs; `slices` of its range run in that order, the whole at once unless
    told."""

    artifact: Artifact
    inputs: Sequence[Floats]
    slices: tuple[tuple[int, int], ...] = ()


def executed(runs: Mapping[str, Run], folder: Path) -> dict[str, Floats]:
    """The outputs by name. Memory starts as NaN, so that reading what was never written shows.
    Skips the test where there is no Node."""
    node = which("node")
    if node is None:
        pytest.skip("no Node to run JavaScript")
    orders, places = [], {}
    for number, (name, each) in enumerate(runs.items()):
        starts, end = _placed(each.artifact)
        memory = np.full(end, 0xFF, np.uint8)
        for start, array in zip(starts, each.inputs, strict=False):
            flat = np.ascontiguousarray(array).ravel().view(np.uint8)
            memory[start : start + flat.size] = flat
        (folder / f"{number}.mjs").write_bytes(each.artifact.body)
        (folder / f"{number}.bin").write_bytes(memory.tobytes())
        words = starts if each.artifact.manifest.scratch_bytes else starts[:-1]
        slices = each.slices or ((0, each.artifact.manifest.range_extent),)
        orders.append({"words": words, "slices": slices})
        places[name] = number, starts
    (folder / "orders.json").write_text(json.dumps(orders))
    run([node, RUNNER, folder], check=True, timeout=120)
    return {name: _output(runs[name].artifact, folder, *at) for name, at in places.items()}


def _placed(artifact: Artifact) -> tuple[list[int], int]:
    """The addresses of tensors and scratch memory, with room between them, and the end."""
    manifest = artifact.manifest
    starts, end = [], ALIGNMENT_BYTES
    for size in [tensor.size_bytes for tensor in manifest.tensors] + [manifest.scratch_bytes]:
        starts.append(end)
        end += -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES + ALIGNMENT_BYTES
    return starts, end


def _output(artifact: Artifact, folder: Path, number: int, starts: list[int]) -> Floats:
    memory = np.frombuffer((folder / f"{number}.bin").read_bytes(), np.uint8)
    output = artifact.manifest.tensors[-1]
    at = starts[len(artifact.manifest.tensors) - 1]
    behind = -(-(at + output.size_bytes) // 4) * 4
    assert (memory[behind : behind + 32] == 0xFF).all(), "the kernel wrote past its output"
    bytes_ = memory[at : at + output.size_bytes]
    return bytes_.view(NUMPY[output.dtype]).reshape(output.shape)
