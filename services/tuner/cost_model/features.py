"""A candidate and a device as named numbers.

Features are generic: each setting, axis and device feature that exists becomes a column, and what a
candidate lacks is a missing value, which trees handle. Sizes are logarithms to base 2.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import GpuProbeLevels, ProbeLevels
from kernelzoo.domain.operators import Family
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.cost_model.dataset import ProbedDevice
from services.tuner.cost_model.usage import Usage, usage

Feature = tuple[str, float]
Matrix = NDArray[np.float32]

PAGE_BYTES = 4096
"""Rows a multiple of it apart share a set of a first-level cache of 64 sets of 64 bytes."""


def features(candidate: Candidate, device: ProbedDevice) -> dict[str, float]:
    """By name, with a prefix: `workload.`, `config.`, `use.`, `device.`, or `fit.`, of several."""
    own, used = _of_candidate(candidate)
    return dict((*own, *_of_device(device), *_fit(candidate.workload, used, device)))


def target_column(target: TargetKind) -> str:
    """The column of a target. A model has it if it was trained on the target."""
    return f"device.{target}"


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a model, in order."""

    names: tuple[str, ...]

    def matrix(self, rows: list[dict[str, float]]) -> Matrix:
        """float32[row, column]; NaN is a missing value."""
        gap = math.nan
        table = [[row.get(name, gap) for name in self.names] for row in rows]
        return np.asarray(table, dtype=np.float32).reshape(len(rows), len(self.names))


@lru_cache(maxsize=16_384)
def _of_candidate(candidate: Candidate) -> tuple[tuple[Feature, ...], Usage | None]:
    used = usage(candidate)
    figures = asdict(used).items() if used else ()
    return (
        *_of_workload(candidate.workload),
        *_of_config(candidate),
        *((f"use.{name}", _size(value)) for name, value in figures),
    ), used


def _of_workload(workload: Workload) -> Iterator[Feature]:
    operator = workload.operator
    for family in Family:
        yield f"workload.{family}", float(operator.family is family)
    yield f"workload.is_{operator.name}", 1.0
    for axis, extent in workload.extent.items():
        yield f"workload.{axis}", _size(extent)
    for name in workload.epilogue:
        yield f"workload.with_{name}", 1.0
    yield "workload.flops", _size(workload.flops)
    yield "workload.bytes", _size(workload.bytes_moved)
    yield "workload.terms", _size(workload.reduction_length)
    for tensor in workload.tensors:
        row_bytes = tensor.dtype.size_bytes * (tensor.shape[-1] if tensor.shape else 1)
        yield f"workload.{tensor.name}_bytes", _size(tensor.size_bytes)
        yield f"workload.{tensor.name}_aliases", float(row_bytes % PAGE_BYTES == 0)


def _of_config(candidate: Candidate) -> Iterator[Feature]:
    """Integers as sizes, booleans as 0 and 1, each choice as a column of its own (one-hot)."""
    for name, value in candidate.config:
        match value:
            case bool():
                yield f"config.{name}", float(value)
            case int():
                yield f"config.{name}", _size(value)
            case str():
                yield f"config.{name}={value}", 1.0
    for feature in candidate.requires:
        yield f"config.requires_{feature}", 1.0


def _of_device(device: ProbedDevice) -> Iterator[Feature]:
    target, rho = device.device_class.target, device.device_class.rho
    yield target_column(target.kind), 1.0
    for feature in target.features:
        yield f"device.{feature}", 1.0
    for number, bit in enumerate(rho.bits):
        yield f"device.rho{rho.suite}_{number}", float(bit)
    yield f"device.engine_{device.engine.name}", 1.0
    for name, level in _levels(device.probe):
        yield f"device.{name}", _size(level)
    if device.peak_gflops > 0:
        yield "device.peak_gflops", _size(device.peak_gflops)


def _fit(workload: Workload, used: Usage | None, device: ProbedDevice) -> Iterator[Feature]:
    """The block relative to the first-level cache; arithmetic intensity to the device's."""
    levels = dict(_levels(device.probe))
    if used is not None and "l1_kib" in levels:
        yield "fit.block_in_l1", _size(used.block_bytes) - _size(1024 * levels["l1_kib"])
    memory_gbps = levels.get("memory_gbps") or levels.get("bandwidth_gbps")
    if device.peak_gflops > 0 and memory_gbps:
        balance = device.peak_gflops / memory_gbps
        yield "fit.intensity", math.log2(workload.flops / workload.bytes_moved / balance)


def _levels(probe: ProbeLevels | GpuProbeLevels | None) -> Iterator[tuple[str, int]]:
    """Levels of the probe that are known; 0 is unknown."""
    if probe is not None:
        yield from ((name, level) for name, level in asdict(probe).items() if level)


def _size(value: float) -> float:
    """Monotonic, near log2 for large values and defined at 0."""
    return math.log2(1 + value)
