"""A zoo on a static host: what its files are called, and `zoo.lock`, which people review.

    bundle.json                     which manifest is for which classes of devices
    zoo.lock                        what the manifests say, a few lines for each kernel
    v1/manifests/<sha256>.json      signed by the gateway, byte for byte as it served them
    v1/artifacts/<sha256>.<target>  at the paths that manifests name
    v1/blobs/<sha256>               weights and golden outputs of a model, which its manifests name
    v1/blobs/<sha256>.<n>           chunks of weights that have more than the index's `file_bytes`

The browser's part is client/src/sdk/address.ts.
"""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from kernelzoo.domain.device import DeviceClass, PrimitiveVector
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import Target, TargetKind
from kernelzoo.errors import InvalidInput

INDEX = "bundle.json"
LOCK = "zoo.lock"
VERSION = 1

_ANY_DEVICE = "0" * 16
_NO_RHO = PrimitiveVector(suite=0, bits="0")
# What browsers offer: most have relaxed SIMD, and kernels without SIMD are not made.
_WASM_FEATURES = (("relaxed-simd", "simd128"), ("simd128",))

Classes = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundledModel:
    """A plan of a model with the kernels of a class; `body` as it was signed."""

    name: str
    dimensions: Mapping[str, int]
    precision: Precision = Precision.F32
    device_class: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LockRow:
    """A class is served this for a workload. `evidence` is '' where nobody has voted."""

    workload: str
    device_class: str
    candidate: str
    artifact: str
    fallback: str
    level: str
    version: int | None
    state: str | None
    evidence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHead:
    """The head says where a bundle is from. `keys` are public, `made` is an ISO 8601 date. `issued`
    and `serial` are the lowest that its manifests are signed with. `index` is the SHA-256 of
    bundle.json, which names manifests by hash as they name kernels: a page that pins it runs this
    bundle and no other.
    """

    set: str
    zoo: str
    made: str
    issued: str
    serial: int
    index: str
    keys: tuple[str, ...]


def any_device(target: TargetKind, features: tuple[str, ...]) -> str:
    """The class of devices of which nothing is known but what kernels may require."""
    usable = Target.of(target, features)
    return str(DeviceClass(device_id=_ANY_DEVICE, rho=_NO_RHO, target=usable))


def any_classes() -> tuple[Classes, ...]:
    """For devices that a bundle does not know, the richest first."""
    gpu = any_device(TargetKind.WEBGPU, ())
    wasm = [any_device(TargetKind.WASM, features) for features in _WASM_FEATURES]
    return tuple(classes for each in wasm for classes in ((each, gpu), (each,)))


def without_webassembly() -> Classes:
    """The one class of all pages that may not run WebAssembly."""
    return (any_device(TargetKind.JAVASCRIPT, ()),)


def paired(device_classes: Iterable[str]) -> tuple[Classes, ...]:
    """Pairs classes as pages ask for them: each wasm class with each webgpu class of its device."""
    parsed = [DeviceClass.parse(text) for text in dict.fromkeys(device_classes)]
    wasm = [each for each in parsed if each.target.kind is TargetKind.WASM]
    gpu = [each for each in parsed if each.target.kind is TargetKind.WEBGPU]
    return tuple(
        classes
        for one in wasm
        for classes in (
            (str(one),),
            *((str(one), str(two)) for two in gpu if two.device_id == one.device_id),
        )
    )


def manifest_path(body: bytes) -> str:
    return f"v1/manifests/{sha256(body).hexdigest()}.json"


def index(
    set_name: str,
    manifests: Iterable[tuple[Classes, bytes]],
    models: Iterable[BundledModel] = (),
    *,
    file_bytes: int | None = None,
) -> bytes:
    """The index document. Browsers take the first of several manifests for the same classes, and of
    models that of the precision that a page asks for. A
    bundle without models does not speak of them. Weights of more than `file_bytes` lie in several
    files.
    """
    listed = [
        {
            "name": each.name,
            "dimensions": dict(each.dimensions),
            "precision": each.precision,
            "device_classes": [each.device_class],
            "url": f"/{manifest_path(each.body)}",
        }
        for each in models
    ]
    document = {
        "bundle": VERSION,
        "set": set_name,
        "manifests": [
            {"device_classes": list(classes), "url": f"/{manifest_path(body)}"}
            for classes, body in manifests
        ],
        **({"models": listed} if listed else {}),
        **({} if file_bytes is None else {"file_bytes": file_bytes}),
    }
    return json.dumps(document, indent=2).encode() + b"\n"


def lock_text(head: LockHead, rows: Iterable[LockRow]) -> str:
    """TOML, in an order that makes differences small."""
    ordered = sorted(set(rows), key=lambda row: (row.workload, row.device_class, row.candidate))
    return "\n".join((*_head(head), *(line for row in ordered for line in _row(row)))) + "\n"


def read_lock_head(text: str) -> LockHead:
    """Raises InvalidInput for what is no lock of this version."""
    try:
        read = tomllib.loads(text)
        keys = read["keys"]
        if read["lock"] == VERSION and all(isinstance(key, str) for key in keys):
            return LockHead(
                set=str(read["set"]),
                zoo=str(read["zoo"]),
                made=str(read["made"]),
                issued=str(read["issued"]),
                serial=int(read["serial"]),
                index=str(read["index"]),
                keys=tuple(keys),
            )
    except (tomllib.TOMLDecodeError, KeyError, TypeError, ValueError):
        pass
    raise InvalidInput(f"{LOCK} is no lock of version {VERSION}; make the bundle anew")


def _head(head: LockHead) -> Iterator[str]:
    yield "# Written by `kernelzoo zoo bundle`, checked by `kernelzoo zoo verify`. Do not edit."
    yield f"lock = {VERSION}"
    yield f"set = {json.dumps(head.set)}"
    yield f"zoo = {json.dumps(head.zoo)}"
    yield f"made = {json.dumps(head.made)}"
    yield f"issued = {json.dumps(head.issued)}"
    yield f"serial = {head.serial}"
    yield f"index = {json.dumps(head.index)}"
    yield f"keys = {json.dumps(list(head.keys))}"


def _row(row: LockRow) -> Iterator[str]:
    yield "\n[[kernel]]"
    yield f"workload = {json.dumps(row.workload)}"
    yield f"device_class = {json.dumps(row.device_class)}"
    yield f"level = {json.dumps(row.level)}"
    if row.version is not None:
        yield f"version = {row.version}"
        yield f"state = {json.dumps(row.state)}"
    if row.evidence:
        yield f"evidence = {json.dumps(row.evidence)}"
    yield f"candidate = {json.dumps(row.candidate)}"
    yield f"artifact = {json.dumps(row.artifact)}"
    if row.fallback != row.artifact:
        yield f"fallback = {json.dumps(row.fallback)}"
