"""Checks that the files of a bundle are those that a zoo signed."""

from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from pydantic import BaseModel, Field, ValidationError

from cli.bundle.contents import (
    Files,
    Signed,
    artifacts_of,
    files_of,
    lock_head,
    lock_rows,
    path_of,
    signers_of,
)
from cli.bundle.parts import joined
from kernelzoo.domain.precision import Precision
from kernelzoo.errors import InvalidInput
from kernelzoo.formats import bundle
from kernelzoo.formats.bundle import INDEX, LOCK, LockHead
from kernelzoo.signing import Sealed
from services.gateway.wire.models import ModelManifest
from services.gateway.wire.zoo import Manifest


class IndexedManifest(BaseModel):
    device_classes: list[str]
    url: str


class IndexedModel(IndexedManifest):
    name: str
    dimensions: dict[str, int]
    precision: Precision | None = None


class Index(BaseModel):
    bundle: int
    set: str
    manifests: list[IndexedManifest]
    models: list[IndexedModel] = []
    file_bytes: int | None = Field(None, ge=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """`keys` have signed every manifest."""

    head: LockHead
    keys: tuple[str, ...]
    manifests: int
    kernels: int


def verified(files: Files, keys: tuple[str, ...]) -> Verified:
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
    if index.file_bytes is not None:
        files = joined(files, manifests, index.file_bytes)
    artifacts = {path_of(one): one for each in manifests for one in artifacts_of(each)}
    for path, one in artifacts.items():
        _refuse_changed(files, path, one.sha256)
    parts = {one.path: one.file for each in manifests for one in files_of(each)}
    for path, file in parts.items():
        _refuse_changed(files, path, file.sha256)
    listed = {each.url.removeprefix("/") for each in (*index.manifests, *index.models)}
    named = {INDEX, LOCK, *listed, *artifacts, *parts}
    if strangers := sorted(set(files) - named):
        raise InvalidInput(f"{strangers[0]} belongs to no manifest; take it away")
    signers = signers_of(_file(files, each) for each in sorted(listed))
    derived = lock_head(files[INDEX], index.set, manifests, signers, zoo=head.zoo, made=head.made)
    _refuse_other_lock(text, bundle.lock_text(derived, lock_rows(manifests)))
    return Verified(head=head, keys=pinned, manifests=len(manifests), kernels=len(artifacts))


def refuse_older(found: Verified, oldest: datetime) -> None:
    """Raises InvalidInput where a manifest was signed before `oldest`."""
    if datetime.fromisoformat(found.head.issued) < oldest:
        raise InvalidInput(
            f"the oldest manifest was signed at {found.head.issued}; kernels may have been denied "
            "since: make the bundle anew"
        )


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
    wrong = listed.precision not in (None, manifest.precision)
    if wrong or told != (listed.name, listed.dimensions, listed.device_classes):
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
