"""A set of kernels as files for a static host: collected from a gateway, written, checked."""

import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from cli.gateway_client import GatewayClient
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState
from kernelzoo.errors import InvalidInput
from kernelzoo.formats import bundle
from kernelzoo.formats.bundle import INDEX, LOCK, BundledModel, Classes, LockHead, LockRow
from kernelzoo.signing import Sealed
from services.gateway.wire.artifacts import ArtifactWire
from services.gateway.wire.models import FileWire, ModelManifest
from services.gateway.wire.zoo import Manifest, ServedKernel

Files = Mapping[str, bytes]
"""By their paths in the bundle, with slashes."""
Signed = Manifest | ModelManifest

ZIP = ".zip"
COMPILED_WITHIN_S = 120
ASKED_EVERY_S = 0.5
MOST_BYTES = 1 << 32
"""The bytes of a bundle that is unpacked; weights of a model are most of it."""


class IndexedManifest(BaseModel):
    device_classes: list[str]
    url: str


class IndexedModel(IndexedManifest):
    name: str
    dimensions: dict[str, int]


class Index(BaseModel):
    bundle: int
    set: str
    manifests: list[IndexedManifest]
    models: list[IndexedModel] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`keys` have signed every manifest."""

    head: LockHead
    keys: tuple[str, ...]
    manifests: int
    kernels: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetched:
    classes: Classes
    body: bytes
    manifest: Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """A file of a model, at its path in the bundle."""

    path: str
    file: FileWire


@dataclass(frozen=True, slots=True, kw_only=True)
class _FetchedModel:
    body: bytes
    manifest: ModelManifest

    @property
    def bundled(self) -> BundledModel:
        told = self.manifest
        return BundledModel(
            name=told.name,
            dimensions=told.dimensions,
            device_class=told.device_class,
            body=self.body,
        )

    @property
    def files(self) -> tuple[_File, ...]:
        return tuple(_files(self.manifest))


def collect(
    gateway: GatewayClient, name: str, classes: tuple[Classes, ...], *, javascript: bool = False
) -> dict[str, bytes]:
    """The files of a bundle of the model or set `name`: for these classes, or for all that have
    voted, and for devices that are none of these; with `javascript` for pages without WebAssembly,
    too. Raises InvalidInput where the zoo does not sign.
    """
    if name in {model.name for model in gateway.models()}:
        return _collect_model(gateway, name, classes, javascript)
    usual = [_fetch(gateway, name, each) for each in bundle.any_classes()]
    wanted = classes or _voted(gateway, usual[-1].manifest)
    fetched = [_fetch(gateway, name, each) for each in wanted]
    kept = [*fetched, *(each for each in usual if _adds(each))]
    if not kept:
        raise InvalidInput(f"nothing of {name} is compiled yet; `kernelzoo zoo list` shows what is")
    if javascript:
        kept.append(_compiled(name, lambda: _fetch(gateway, name, bundle.without_webassembly())))
    return _bundled(gateway, name, kept, ())


def _collect_model(
    gateway: GatewayClient, name: str, classes: tuple[Classes, ...], javascript: bool
) -> dict[str, bytes]:
    """Every plan on every class; of a pair that is given, on its wasm class. A GPU is given the
    plan of f16 where there is one."""
    sizes = [each.dimensions for each in gateway.model(name).plans if each.dtype is DType.F32]
    covered = gateway.model_coverage(name).coverage
    voted = [(each.device_class,) for each in covered if each.confirmed]
    usual = [each for each in bundle.any_classes() if len(each) == 1]
    wanted = dict.fromkeys(each[0] for each in (*(classes or voted), *usual))
    fetched = [
        _fetch_model(gateway, name, dimensions, each) for dimensions in sizes for each in wanted
    ]
    kept = [each for each in fetched if not each.manifest.missing]
    if not kept:
        raise InvalidInput(f"not all of {name} is compiled yet; `kernelzoo jobs list` shows it")
    if javascript:
        (plain,) = bundle.without_webassembly()
        for dimensions in sizes:
            ask = partial(_fetch_model, gateway, name, dimensions, plain)
            kept.append(_compiled(name, ask))
    return _bundled(gateway, name, (), kept)


def _bundled(
    gateway: GatewayClient,
    name: str,
    sets: Sequence[_Fetched],
    models: Sequence[_FetchedModel],
) -> dict[str, bytes]:
    index = bundle.index(
        name, ((each.classes, each.body) for each in sets), (each.bundled for each in models)
    )
    signed = [*(each.body for each in sets), *(each.body for each in models)]
    manifests: list[Signed] = [
        *(each.manifest for each in sets),
        *(each.manifest for each in models),
    ]
    made = f"{datetime.now(UTC):%Y-%m-%d}"
    head = _head(index, name, manifests, _signers(signed), zoo=gateway.url, made=made)
    artifacts = {one.sha256: one for each in manifests for one in _artifacts(each)}
    files = {one.path: one for each in models for one in each.files}
    return {
        INDEX: index,
        LOCK: bundle.lock_text(head, _rows(manifests)).encode(),
        **{bundle.manifest_path(body): body for body in signed},
        **{_file_of(one): gateway.artifact(one) for one in artifacts.values()},
        **{path: gateway.file(one.file) for path, one in files.items()},
    }


def verify(files: Files, keys: tuple[str, ...]) -> Verified:
    """Holds every file to the signatures of `keys`, or without any to those that the lock names.
    Nobody signs what the lock says of the day and of the zoo's address.

    Raises InvalidInput with what is wrong first.
    """
    index = _index(_file(files, INDEX))
    if not (index.manifests or index.models):
        raise InvalidInput(f"{INDEX} names no manifest; make the bundle anew")
    text = _file(files, LOCK).decode(errors="replace")
    head = bundle.read_lock_head(text)
    pinned = keys or head.keys
    manifests: list[Signed] = [
        *(_checked(files, each, index.set, pinned) for each in index.manifests),
        *(_checked_model(files, each, pinned) for each in index.models),
    ]
    artifacts = {_file_of(one): one for each in manifests for one in _artifacts(each)}
    for path, one in artifacts.items():
        _refuse_changed(files, path, one.sha256)
    parts = {one.path: one.file for each in manifests for one in _files(each)}
    for path, file in parts.items():
        _refuse_changed(files, path, file.sha256)
    listed = {each.url.removeprefix("/") for each in (*index.manifests, *index.models)}
    named = {INDEX, LOCK, *listed, *artifacts, *parts}
    if strangers := sorted(set(files) - named):
        raise InvalidInput(f"{strangers[0]} belongs to no manifest; take it away")
    signers = _signers(_file(files, each) for each in sorted(listed))
    derived = _head(files[INDEX], index.set, manifests, signers, zoo=head.zoo, made=head.made)
    _refuse_other_lock(text, bundle.lock_text(derived, _rows(manifests)))
    return Verified(head=head, keys=pinned, manifests=len(manifests), kernels=len(artifacts))


def refuse_older(found: Verified, oldest: datetime) -> None:
    """Raises InvalidInput where a manifest was signed before `oldest`."""
    if datetime.fromisoformat(found.head.issued) < oldest:
        raise InvalidInput(
            f"the oldest manifest was signed at {found.head.issued}; kernels may have been denied "
            "since: make the bundle anew"
        )


def write(files: Files, output: Path) -> None:
    """A folder that is new or empty, or a zip file. The same files make the same bytes. Raises
    InvalidInput for a folder that holds anything.
    """
    if output.suffix == ZIP:
        with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as archive:
            for path in sorted(files):
                info = zipfile.ZipInfo(path)
                info.external_attr = 0o644 << 16
                archive.writestr(info, files[path], zipfile.ZIP_DEFLATED)
        return
    if output.is_dir() and any(output.iterdir()):
        raise InvalidInput(f"{output} is not empty; name a new folder, or a file that ends in .zip")
    for path, body in files.items():
        file = output / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(body)


def read(place: Path) -> dict[str, bytes]:
    """Raises InvalidInput for what is neither a folder nor a zip file, or too large to be one."""
    if place.is_dir():
        return {
            file.relative_to(place).as_posix(): file.read_bytes()
            for file in place.rglob("*")
            if file.is_file()
        }
    try:
        with zipfile.ZipFile(place) as archive:
            if sum(each.file_size for each in archive.infolist()) > MOST_BYTES:
                raise InvalidInput(f"{place} unpacks to more than {MOST_BYTES} bytes")
            return {name: archive.read(name) for name in archive.namelist()}
    except (OSError, zipfile.BadZipFile) as error:
        raise InvalidInput(f"{place} is no bundle: {error}") from error


def parse_classes(texts: Iterable[str]) -> tuple[Classes, ...]:
    """Each a wasm class, or a wasm and a webgpu class of one device with a slash between them.
    Raises InvalidInput for anything else.
    """
    given = tuple(tuple(text.split("/")) for text in texts)
    for classes in given:
        if not set(bundle.paired(classes)) >= {classes}:
            raise InvalidInput(
                f"--class {'/'.join(classes)[:200]} is neither a wasm class nor a wasm and a "
                "webgpu class of one device, as in 0123456789abcdef:r1-0:wasm+simd128"
            )
    return given


def _fetch(gateway: GatewayClient, name: str, classes: Classes) -> _Fetched:
    body = gateway.manifest_bytes(name, *classes)
    manifest = Manifest.model_validate_json(body)
    return _Fetched(classes=classes, body=body, manifest=manifest)


def _fetch_model(
    gateway: GatewayClient, name: str, dimensions: Mapping[str, int], device_class: str
) -> _FetchedModel:
    body = gateway.model_manifest_bytes(name, device_class, dimensions)
    return _FetchedModel(body=body, manifest=ModelManifest.model_validate_json(body))


Fetched = TypeVar("Fetched", _Fetched, _FetchedModel)


def _compiled(name: str, ask: Callable[[], Fetched]) -> Fetched:
    """What is asked for, once all of it is compiled: kernels in JavaScript are compiled for whoever
    asks first. Raises InvalidInput where they are not in time."""
    until_s = monotonic() + COMPILED_WITHIN_S
    while (found := ask()).manifest.missing:
        if monotonic() > until_s:
            raise InvalidInput(
                f"{found.manifest.missing[0]} of {name} is not compiled to JavaScript after "
                f"{COMPILED_WITHIN_S} s; `kernelzoo jobs list` shows whether somebody works at it"
            )
        sleep(ASKED_EVERY_S)
    return found


def _voted(gateway: GatewayClient, usual: Manifest) -> tuple[Classes, ...]:
    """The classes that have a confirmed kernel of the set."""
    workloads = {*(entry.workload for entry in usual.entries), *usual.missing}
    return bundle.paired(
        sorted(
            entry.device_class
            for entry in gateway.entries()
            if entry.workload in workloads and entry.state is EntryState.CONFIRMED
        )
    )


def _adds(usual: _Fetched) -> bool:
    """Whether it has kernels, and where it is of both targets, one for the GPU."""
    entries = usual.manifest.entries
    if len(usual.classes) == 1:
        return bool(entries)
    return any(entry.webgpu is not None for entry in entries)


def _signers(manifests: Iterable[bytes]) -> tuple[str, ...]:
    """The keys that have signed all of them."""
    sealed = [Sealed.of(body) for body in manifests]
    keys = [one.key for one in sealed[0].signatures]
    return tuple(key for key in keys if all(one.signed_by((key,)) for one in sealed))


def _head(
    index: bytes,
    name: str,
    manifests: Sequence[Signed],
    signers: tuple[str, ...],
    *,
    zoo: str,
    made: str,
) -> LockHead:
    """What the files say; `zoo` and `made` are the word of whoever makes the bundle."""
    return LockHead(
        set=name,
        zoo=zoo,
        made=made,
        issued=min(each.issued_at for each in manifests),
        serial=min(each.serial for each in manifests),
        index=sha256(index).hexdigest(),
        keys=signers,
    )


def _rows(manifests: Iterable[Signed]) -> Iterator[LockRow]:
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


def _artifacts(manifest: Signed) -> Iterator[ArtifactWire]:
    for _, _, served in _kernels(manifest):
        few = (each.kernel for each in served.by_runs)
        for kernel in (served.kernel, served.fallback, *few):
            yield kernel
            yield from (layout.pack for layout in kernel.layouts)


def _files(manifest: Signed) -> Iterator[_File]:
    """What a model is made of beside kernels; not what its author keeps."""
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


def _placed(file: FileWire, path: str) -> _File:
    """Raises InvalidInput where a page would look for it elsewhere."""
    if file.url != f"/{path}":
        raise InvalidInput(
            f"the manifest puts a file at {file.url[:200]!r}, not at /{path}; "
            "this is no gateway of this version"
        )
    return _File(path=path, file=file)


def _file_of(artifact: ArtifactWire) -> str:
    """Raises InvalidInput where a page would look for it elsewhere."""
    if artifact.url != artifact.path:
        raise InvalidInput(
            f"the manifest puts a kernel at {artifact.url[:200]!r}, not at {artifact.path}; "
            "this is no gateway of this version"
        )
    return artifact.path.removeprefix("/")


def _index(body: bytes) -> Index:
    try:
        index = Index.model_validate_json(body)
    except ValidationError as error:
        raise InvalidInput(f"{INDEX} is no list of manifests; make the bundle anew") from error
    if index.bundle != bundle.VERSION:
        raise InvalidInput(f"{INDEX} is of version {index.bundle}, not {bundle.VERSION}")
    return index


def _checked(files: Files, listed: IndexedManifest, name: str, keys: tuple[str, ...]) -> Manifest:
    manifest = Manifest.model_validate_json(_signed_part(files, listed, keys))
    if (manifest.set, manifest.device_classes) != (name, listed.device_classes):
        raise _of_others(listed)
    return manifest


def _checked_model(files: Files, listed: IndexedModel, keys: tuple[str, ...]) -> ModelManifest:
    manifest = ModelManifest.model_validate_json(_signed_part(files, listed, keys))
    told = (manifest.name, manifest.dimensions, [manifest.device_class])
    if told != (listed.name, listed.dimensions, listed.device_classes):
        raise _of_others(listed)
    return manifest


def _signed_part(files: Files, listed: IndexedManifest, keys: tuple[str, ...]) -> bytes:
    """A manifest without what nobody has signed."""
    path = listed.url.removeprefix("/")
    body = _file(files, path)
    sealed = Sealed.of(body)
    if sealed.signed_by(keys) is None:
        signers = ", ".join(one.key for one in sealed.signatures)
        raise InvalidInput(
            f"{path} bears no valid signature of {', '.join(keys) or 'any key'} "
            f"(it names {signers}); somebody changed it, or the key is another zoo's"
        )
    if bundle.manifest_path(body) != path:
        raise InvalidInput(f"{path} is not what its name says; somebody changed it")
    return sealed.document[:-1] + b',"signatures":[]}'


def _of_others(listed: IndexedManifest) -> InvalidInput:
    path = listed.url.removeprefix("/")
    return InvalidInput(f"{path} is of other devices or another set than {INDEX} says")


def _refuse_changed(files: Files, path: str, sha256_hex: str | None) -> None:
    if sha256(_file(files, path)).hexdigest() != sha256_hex:
        raise InvalidInput(f"{path} is not what the zoo signed; somebody changed it")


def _refuse_other_lock(given: str, derived: str) -> None:
    if given == derived:
        return
    lines = zip(given.splitlines(), derived.splitlines(), strict=False)
    number = next((n for n, (one, two) in enumerate(lines, 1) if one != two), 0)
    raise InvalidInput(
        f"{LOCK} does not say what the manifests do, from line {number or 'last'} on"
    )


def _file(files: Files, path: str) -> bytes:
    if path not in files:
        raise InvalidInput(f"{path} is missing; the bundle is not whole")
    return files[path]
