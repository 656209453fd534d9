"""Weights of a bundle in several files, where a host takes none that is larger than so many bytes.

A file has as many chunks of the plan as always fit, so that pages read each file by itself.
The browser's part is client/src/model/bundle.ts.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from cli.bundle.contents import Files, Signed, files_of
from kernelzoo.errors import InvalidInput
from services.gateway.wire.models import ModelManifest

_SIZE = re.compile(r"([1-9]\d{0,12})\s*(B|KiB|MiB|GiB)?", re.IGNORECASE)
_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}


def parse_bytes(text: str) -> int:
    """The bytes of a size such as 24MiB or 25000000. Raises InvalidInput."""
    if found := _SIZE.fullmatch(text.strip()):
        return int(found[1]) * _UNITS[(found[2] or "").lower()]
    raise InvalidInput(f"{text[:40]!r} is no size of a file; write 24MiB, 900KiB or bytes")


def in_parts(files: Files, manifests: Iterable[Signed], file_bytes: int) -> dict[str, bytes]:
    """`files`, in which weights of more than `file_bytes` are several. Raises InvalidInput where
    anything else is larger, or a chunk of weights is."""
    split = {path: sizes for path, sizes in _sizes(manifests, file_bytes) if path in files}
    written: dict[str, bytes] = {}
    for path, body in files.items():
        if path in split:
            written |= dict(_cut(path, body, split[path]))
        elif len(body) > file_bytes:
            raise InvalidInput(
                f"{path} takes {len(body)} bytes, more than the {file_bytes} of --max-file, and "
                "weights alone can lie in several files; allow as many"
            )
        else:
            written[path] = body
    return written


def joined(files: Files, manifests: Iterable[Signed], file_bytes: int) -> dict[str, bytes]:
    """Returns the files that `in_parts` was given. Raises InvalidInput where a part is missing or
    of another size."""
    whole = dict(files)
    for path, sizes in _sizes(manifests, file_bytes):
        bodies = []
        for part, size in enumerate(sizes):
            body = whole.pop(f"{path}.{part}", None)
            if body is None:
                raise InvalidInput(f"{path}.{part} is missing; the bundle is not whole")
            if len(body) != size:
                raise InvalidInput(
                    f"{path}.{part} has {len(body)} bytes and not {size}; somebody changed it"
                )
            bodies.append(body)
        whole[path] = b"".join(bodies)
    return whole


def _sizes(manifests: Iterable[Signed], file_bytes: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The path of weights that several files have, and the bytes of each; once for each path."""
    placed: Mapping[str, ModelManifest] = {
        file.path: manifest
        for manifest in manifests
        if isinstance(manifest, ModelManifest)
        for file in files_of(manifest)
        if file.file == manifest.weights and file.file.size_bytes > file_bytes
    }
    for path, manifest in placed.items():
        chunks = _chunks(manifest)
        most = file_bytes // max(chunks)
        if most == 0:
            raise InvalidInput(
                f"the weights of {manifest.name} come in chunks of {max(chunks)} bytes, and a file "
                f"of {file_bytes} holds none; give --max-file as many"
            )
        yield path, tuple(sum(chunks[at : at + most]) for at in range(0, len(chunks), most))


def _chunks(manifest: ModelManifest) -> tuple[int, ...]:
    """The bytes of each chunk. Raises InvalidInput for a plan that has none."""
    try:
        chunks = tuple(int(chunk["bytes"]) for chunk in manifest.plan["chunks"])
    except (KeyError, TypeError, ValueError):
        chunks = ()
    if min(chunks, default=0) > 0:
        return chunks
    raise InvalidInput(f"the plan of {manifest.name} does not say what its weights' chunks are")


def _cut(path: str, body: bytes, sizes: Iterable[int]) -> Iterator[tuple[str, bytes]]:
    start = 0
    for part, size in enumerate(sizes):
        yield f"{path}.{part}", body[start : start + size]
        start += size
