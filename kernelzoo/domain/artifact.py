"""The bytes of a compiled candidate and what a caller must know to run them.

ABI 1, wasm: the module imports `env.memory` (shared) and exports `main(ptr…, [scratch,] lo, hi)`.
One i32 byte address per tensor, 16-byte aligned, in the order of `tensors`; then, only if
`scratch_bytes` > 0, the address of memory that this caller alone uses; then the half-open range
[lo, hi) of the outermost loop, 0 ≤ lo ≤ hi ≤ `range_extent`. Disjoint ranges may run at once.

ABI 1, javascript: an ES module whose export `main` is given an ArrayBuffer and answers such a
function for it, of numbers. All that it names is inside of `main`, which begins the text.

ABI 1, webgpu: WGSL text. Binding i of group 0 is tensor i in the order of `tensors`, inputs as
`read`, states and the output as `read_write`; then, only if `scratch_bytes` > 0, one `read_write`
buffer that this call alone uses. Buffers are padded to 16 bytes, so that a binding may be of
`vec4`. A call is the `dispatches` in order, each an entry point over workgroups in one dimension
that takes its workgroup's number from `workgroup_id.x` plus the first word of the uniform at group
1, binding 0: as lo does for wasm, this lets a caller run a dispatch in slices. Threads of a
workgroup number themselves by `local_invocation_index`. `range_extent` counts the workgroups of all
dispatches.

A kernel may want an input in another layout than row-major, such as constant weights. `layouts`
names it by an id, `tensors` has its shape there, and the layout's pack kernel, an artifact of the
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
    of a transposed matrix [n, k] too. `weight_layouts` of the tuner lists them all."""

    tensor: str
    layout: str
    pack: "PackKernel"


@dataclass(frozen=True, slots=True, kw_only=True)
class PackKernel:
    """The artifact that makes a layout; `manifest.tensors` are the plain input and the packed."""

    sha256: str
    size_bytes: int
    manifest: "ArtifactManifest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """One entry point of a WGSL module over `workgroups` of `threads` each."""

    entry: str
    workgroups: int
    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactManifest:
    """`dispatches` are those of webgpu; a wasm module has one function and none."""

    abi: int
    target: TargetKind
    requires: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    scratch_bytes: int
    range_extent: int
    layouts: tuple[Layout, ...] = ()
    dispatches: tuple[Dispatch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    sha256: str
    body: bytes
    manifest: ArtifactManifest

    @classmethod
    def of(cls, body: bytes, manifest: ArtifactManifest) -> Self:
        return cls(sha256=sha256(body).hexdigest(), body=body, manifest=manifest)
