"""Compiled candidates as a page is told of them: the lease that an agent would get."""

from dataclasses import dataclass
from typing import Protocol

from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from services.gateway import manifests
from services.gateway.wire.artifacts import Kernel
from services.gateway.wire.leases import Lease
from services.tuner.compile import pack_kernels

SEED = 1


class Named(Protocol):
    """A case of any benchmark."""

    @property
    def name(self) -> str: ...

    @property
    def workload(self) -> Workload: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledKernel:
    """`name` is what the page calls it: the candidate's id, or a name of the benchmark."""

    name: str
    artifact: Artifact

    @property
    def kernel(self) -> Kernel:
        made = self.artifact
        return manifests.kernel(self.name, made.sha256, len(made.body), made.manifest)


def compiled(candidate: Candidate, artifact: Artifact) -> CompiledKernel:
    return CompiledKernel(name=candidate.candidate_id, artifact=artifact)


def files(candidate: Candidate, made: CompiledKernel) -> dict[str, bytes]:
    """By the address that its kernel names: the artifact, and those that pack its inputs."""
    kernel, packs = made.kernel, pack_kernels(candidate, made.artifact.manifest)
    packed = zip(kernel.layouts, packs, strict=True)
    return {kernel.url: made.artifact.body} | {at.pack.url: pack.body for at, pack in packed}


def lease(case: Named, reference: CompiledKernel, others: tuple[CompiledKernel, ...]) -> Lease:
    return Lease(
        lease=case.name,
        nonce="",
        expires_in_s=0,
        workload=case.workload.key,
        flops=case.workload.flops,
        seed=SEED,
        tolerance=comparison_tolerance(case.workload, reference.artifact.manifest.target),
        reference=reference.kernel,
        candidates=[each.kernel for each in others],
        measured=[],
        unmeasured=0,
        complete=True,
    )
