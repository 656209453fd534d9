"""Reads what the manifests of a bundle say: their artifacts, the files of their models, the
lock."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.bundle import LockHead, LockRow
from kernelzoo.signing import Sealed
from services.gateway.wire.artifacts import ArtifactWire
from services.gateway.wire.models import FileWire, ModelManifest
from services.gateway.wire.zoo import Manifest, ServedKernel

Files = Mapping[str, bytes]
"""By their paths in the bundle, with slashes."""
Signed = Manifest | ModelManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFile:
    """A file of a model, at its path in the bundle."""

    path: str
    file: FileWire


def lock_head(
    index: bytes,
    name: str,
    manifests: Sequence[Signed],
    signers: tuple[str, ...],
    *,
    zoo: str,
    made: str,
) -> LockHead:
    """Makes the head of the lock from what the files say; `zoo` and `made` are the word of the
    bundle's maker."""
    return LockHead(
        set=name,
        zoo=zoo,
        made=made,
        issued=min(each.issued_at for each in manifests),
        serial=min(each.serial for each in manifests),
        index=sha256(index).hexdigest(),
        keys=signers,
    )


def signers_of(manifests: Iterable[bytes]) -> tuple[str, ...]:
    """The keys that have signed all of them."""
    sealed = [Sealed.of(body) for body in manifests]
    keys = [one.key for one in sealed[0].signatures]
    return tuple(key for key in keys if all(one.signed_by((key,)) for one in sealed))


def lock_rows(manifests: Iterable[Signed]) -> Iterator[LockRow]:
    for manifest in manifests:
        for workload, device_class, served in _kernels(manifest):
            yield _row(workload, device_class, served)


def _kernels(manifest: Signed) -> Iterator[tuple[str, str, ServedKernel]]:
    """Each with its workload and class."""
    if isinstance(manifest, ModelManifest):
        for workload, served in manifest.kernels.items():
            yield workload, manifest.device_class, served
        return
    classes = {DeviceClass.parse(text).target.kind: text for text in manifest.device_classes}
    for entry in manifest.entries:
        for target, one in (
            (TargetKind.WASM, entry.wasm),
            (TargetKind.WEBGPU, entry.webgpu),
            (TargetKind.JAVASCRIPT, entry.javascript),
        ):
            if one is not None:
                yield entry.workload, classes[target], one


def _row(workload: str, device_class: str, served: ServedKernel) -> LockRow:
    return LockRow(
        workload=workload,
        device_class=device_class,
        candidate=served.kernel.candidate,
        artifact=served.kernel.sha256,
        fallback=served.fallback.sha256,
        level=served.level,
        version=served.version,
        state=served.state,
        evidence=_evidence(served),
    )


def _evidence(served: ServedKernel) -> str:
    told = served.evidence
    if told is None:
        return ""
    return (
        f"{told.ballots} ballots, {told.weight} of {told.total_weight}, "
        f"{told.relative_time:.3f} of the default's time"
    )


def artifacts_of(manifest: Signed) -> Iterator[ArtifactWire]:
    for _, _, served in _kernels(manifest):
        few = (each.kernel for each in served.by_runs)
        for kernel in (served.kernel, served.fallback, *few):
            yield kernel
            yield from (layout.pack for layout in kernel.layouts)


def path_of(artifact: ArtifactWire) -> str:
    """Raises InvalidInput where a page would look for it elsewhere."""
    if artifact.url != artifact.path:
        raise InvalidInput(
            f"the manifest puts a kernel at {artifact.url[:200]!r}, not at {artifact.path}; "
            "this is no gateway of this version"
        )
    return artifact.path.removeprefix("/")


def files_of(manifest: Signed) -> Iterator[ModelFile]:
    """Yields the files of a model beside kernels, except those that its author keeps."""
    if not isinstance(manifest, ModelManifest):
        return
    for file in (manifest.weights, manifest.golden):
        if file.sha256 is not None:
            yield _placed(file, f"v1/blobs/{file.sha256}")
    few = (each.module for each in manifest.modules_by_runs)
    for module in (manifest.module, *few):
        if module is None:
            continue
        told = FileWire(url=module.url, sha256=module.sha256, size_bytes=module.size_bytes)
        kind = DeviceClass.parse(manifest.device_class).target.kind
        yield _placed(told, f"v1/artifacts/{module.sha256}.{kind}")


def _placed(file: FileWire, path: str) -> ModelFile:
    """Raises InvalidInput where a page would look for it elsewhere."""
    if file.url != f"/{path}":
        raise InvalidInput(
            f"the manifest puts a file at {file.url[:200]!r}, not at /{path}; "
            "this is no gateway of this version"
        )
    return ModelFile(path=path, file=file)
