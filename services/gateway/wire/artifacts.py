"""How a kernel is described to a page."""

from typing import Literal

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import DType, Role
from services.gateway.wire.model import CandidateId, Feature, Sha256, WireModel


class TensorWire(WireModel):
    name: str
    role: Role
    dtype: DType
    shape: list[int]


class LayoutWire(WireModel):
    """`tensor` is wanted in the layout of this id."""

    tensor: str
    layout: str


class DispatchWire(WireModel):
    entry: str
    workgroups: int
    threads: int


class Kernel(WireModel):
    """`url` is relative to the gateway's origin. See the ABI in `kernelzoo/domain/artifact.py`."""

    candidate: CandidateId
    sha256: Sha256
    url: str
    size_bytes: int
    abi: Literal[1]
    kind: TargetKind
    requires: list[Feature]
    tensors: list[TensorWire]
    scratch_bytes: int
    range_extent: int
    layouts: list[LayoutWire]
    dispatches: list[DispatchWire]
