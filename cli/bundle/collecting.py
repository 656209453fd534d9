"""A set or a model of a gateway, collected as the files of a bundle."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from time import monotonic, sleep
from typing import TypeVar

from cli.bundle.contents import (
    ModelFile,
    Signed,
    artifacts_of,
    files_of,
    lock_head,
    lock_rows,
    path_of,
    signers_of,
)
from cli.bundle.parts import in_parts
from cli.gateway_client import GatewayClient
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.zoo import EntryState
from kernelzoo.errors import InvalidInput
from kernelzoo.formats import bundle
from kernelzoo.formats.bundle import INDEX, LOCK, BundledModel, Classes
from services.gateway.wire.models import ModelManifest
from services.gateway.wire.zoo import Manifest

COMPILED_WITHIN_S = 120
ASKED_EVERY_S = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fetched:
    classes: Classes
    body: bytes
    manifest: Manifest


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
            precision=told.precision,
            device_class=told.device_class,
            body=self.body,
        )

    @property
    def files(self) -> tuple[ModelFile, ...]:
        return tuple(files_of(self.manifest))


def collect(
    gateway: GatewayClient,
    name: str,
    classes: tuple[Classes, ...],
    *,
    javascript: bool = False,
    file_bytes: int | None = None,
) -> dict[str, bytes]:
    """The files of a bundle of the model or set `name`: for these classes, or for all that have
    voted, and for devices that are none of these; with `javascript` for pages without WebAssembly,
    too. No file has more than `file_bytes`. Raises InvalidInput where the zoo does not sign, or a
    file that cannot be several has more.
    """
    if name in {model.name for model in gateway.models()}:
        return _collect_model(gateway, name, classes, javascript, file_bytes)
    usual = [_fetch(gateway, name, each) for each in bundle.any_classes()]
    wanted = classes or _voted(gateway, usual[-1].manifest)
    fetched = [_fetch(gateway, name, each) for each in wanted]
    kept = [*fetched, *(each for each in usual if _adds(each))]
    if not kept:
        raise InvalidInput(f"nothing of {name} is compiled yet; `kernelzoo zoo list` shows what is")
    if javascript:
        kept.append(_compiled(name, lambda: _fetch(gateway, name, bundle.without_webassembly())))
    return _bundled(gateway, name, kept, (), file_bytes)


def _collect_model(
    gateway: GatewayClient,
    name: str,
    classes: tuple[Classes, ...],
    javascript: bool,
    file_bytes: int | None,
) -> dict[str, bytes]:
    """Every plan on every class; of a pair that is given, on its wasm class. A GPU is given the
    plan of f16 where there is one. Of several precisions the one that the zoo chooses comes
    first, which a page takes unless it asks for another."""
    precisions: dict[tuple[tuple[str, int], ...], list[Precision]] = defaultdict(list)
    for plan in gateway.model(name).plans:
        if plan.dtype is DType.F32:
            precisions[tuple(plan.dimensions.items())].append(plan.precision)
    covered = gateway.model_coverage(name).coverage
    voted = [(each.device_class,) for each in covered if each.confirmed]
    usual = [each for each in bundle.any_classes() if len(each) == 1]
    wanted = dict.fromkeys(each[0] for each in (*(classes or voted), *usual))
    fetched = [
        model
        for dimensions, every in precisions.items()
        for each in wanted
        for model in _fetch_precisions(gateway, name, dict(dimensions), every, each)
    ]
    kept = [each for each in fetched if not each.manifest.missing]
    if not kept:
        raise InvalidInput(f"not all of {name} is compiled yet; `kernelzoo jobs list` shows it")
    if javascript:
        (plain,) = bundle.without_webassembly()
        for dimensions in precisions:
            ask = partial(_fetch_model, gateway, name, dict(dimensions), plain)
            kept.append(_compiled(name, ask))
    return _bundled(gateway, name, (), kept, file_bytes)


def _bundled(
    gateway: GatewayClient,
    name: str,
    sets: Sequence[_Fetched],
    models: Sequence[_FetchedModel],
    file_bytes: int | None,
) -> dict[str, bytes]:
    index = bundle.index(
        name,
        ((each.classes, each.body) for each in sets),
        (each.bundled for each in models),
        file_bytes=file_bytes,
    )
    signed = [*(each.body for each in sets), *(each.body for each in models)]
    manifests: list[Signed] = [
        *(each.manifest for each in sets),
        *(each.manifest for each in models),
    ]
    made = f"{datetime.now(UTC):%Y-%m-%d}"
    head = lock_head(index, name, manifests, signers_of(signed), zoo=gateway.url, made=made)
    artifacts = {one.sha256: one for each in manifests for one in artifacts_of(each)}
    files = {one.path: one for each in models for one in each.files}
    whole = {
        INDEX: index,
        LOCK: bundle.lock_text(head, lock_rows(manifests)).encode(),
        **{bundle.manifest_path(body): body for body in signed},
        **{path_of(one): gateway.artifact(one) for one in artifacts.values()},
        **{path: gateway.file(one.file) for path, one in files.items()},
    }
    return whole if file_bytes is None else in_parts(whole, manifests, file_bytes)


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


def _fetch_precisions(
    gateway: GatewayClient,
    name: str,
    dimensions: Mapping[str, int],
    precisions: Sequence[Precision],
    device_class: str,
) -> Iterator[_FetchedModel]:
    first = _fetch_model(gateway, name, dimensions, device_class)
    yield first
    for each in precisions:
        if each is not first.manifest.precision:
            yield _fetch_model(gateway, name, dimensions, device_class, each)


def _fetch_model(
    gateway: GatewayClient,
    name: str,
    dimensions: Mapping[str, int],
    device_class: str,
    precision: Precision | None = None,
) -> _FetchedModel:
    body = gateway.model_manifest_bytes(name, device_class, dimensions, precision)
    return _FetchedModel(body=body, manifest=ModelManifest.model_validate_json(body))


Fetched = TypeVar("Fetched", _Fetched, _FetchedModel)


def _compiled(name: str, ask: Callable[[], Fetched]) -> Fetched:
    """Returns what is asked for once all of it is compiled: kernels in JavaScript are compiled for
    whoever asks first. Raises InvalidInput where they are not in time."""
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
    """Returns whether a manifest has kernels, and where it is of both targets, one for the GPU."""
    entries = usual.manifest.entries
    if len(usual.classes) == 1:
        return bool(entries)
    return any(entry.webgpu is not None for entry in entries)
