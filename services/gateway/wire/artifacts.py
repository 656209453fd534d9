"""Describes a kernel to a page."""

from typing import Annotated, Literal

from pydantic import StringConstraints, WithJsonSchema

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Role
from services.gateway.wire.model import CandidateId, Feature, Sha256, WireModel

_TENSOR_DTYPES = ("f32", "f16", "i32", "i8")
TensorDType = Annotated[
    str,
    StringConstraints(pattern=f"^({'|'.join(_TENSOR_DTYPES)})$"),
    WithJsonSchema({"type": "string", "enum": _TENSOR_DTYPES}),
]
"""A `DType` that tensors of workloads have; only programs of models have buffers of i64."""


class TensorWire(WireModel):
    """Entries of an index are below `limit`; 0 is for a tensor of values."""

    name: str
    role: Role
    dtype: TensorDType
    shape: list[int]
    limit: int


class DispatchWire(WireModel):
    entry: str
    workgroups: int
    threads: int


class ArtifactWire(WireModel):
    """`url` is relative to the gateway's address. See the ABI in `kernelzoo/domain/artifact.py`."""

    sha256: Sha256
    url: str
    size_bytes: int
    abi: Literal[1]
    target: TargetKind
    requires: list[Feature]
    tensors: list[TensorWire]
    scratch_bytes: int
    range_extent: int
    dispatches: list[DispatchWire]

    @property
    def path(self) -> str:
        """A gateway and a bundle have it here: made of what is validated, whatever `url` says."""
        return f"/v1/artifacts/{self.sha256}.{self.target}"


class LayoutWire(WireModel):
    """`tensor` is wanted in the layout of this id, which `pack` makes of it as it comes."""

    tensor: str
    layout: str
    pack: ArtifactWire


class Kernel(ArtifactWire):
    """The shapes of `tensors` are those that the kernel reads."""

    candidate: CandidateId
    layouts: list[LayoutWire]
