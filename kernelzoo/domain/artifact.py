"""The bytes of a compiled candidate and what a caller must know to run them.

ABI 1, wasm: the module imports `env.memory` (shared) and exports `main(ptr…, [scratch,] lo, hi)`.
One i32 byte address per tensor, 16-byte aligned, in the order of `tensors`; then, only if
`scratch_bytes` > 0, the address of memory that this caller alone uses; then the half-open range
[lo, hi) of the outermost loop, 0 ≤ lo ≤ hi ≤ `range_extent`. Disjoint ranges may run at once.

A kernel may want an input in another layout than row-major, such as constant weights. `layouts`
names it by an id, `tensors` has its shape there, and a pack kernel for that id, an artifact of the
same ABI from the plain input to the packed one, makes the copy.
"""

from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Tensor

ABI_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`tensor` lies as `layout` says. `panels8`: a matrix [k, n] as [⌈n/8⌉, k, 8], zeros behind n;
    of a turned matrix [n, k] too."""

    tensor: str
    layout: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactManifest:
    abi: int
    kind: TargetKind
    requires: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    scratch_bytes: int
    range_extent: int
    layouts: tuple[Layout, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    sha256: str
    body: bytes
    manifest: ArtifactManifest

    @classmethod
    def of(cls, body: bytes, manifest: ArtifactManifest) -> Self:
        return cls(sha256=sha256(body).hexdigest(), body=body, manifest=manifest)
