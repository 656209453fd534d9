"""Keeps on this gateway's disk what pages were given last, to give it again while the database is
away.

    <folder>/manifests/<hash of the key>   a line of JSON (`_Head`), then the body as it was sent
    <folder>/artifacts/<hash>.<target>     the bytes of a kernel, which never change
    <folder>/denied.json                   what classes must not run, as it was read last

Files are written under another name first, and those whose hash is wrong are removed: a gateway
that dies leaves nothing but something that is not read. What is kept was right when it was written.
What was denied since, as far as this gateway heard, is not given.
"""

import asyncio
import os
import re
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from pathlib import Path

import msgspec
import structlog

from kernelzoo.domain.target import TargetKind
from services.gateway.background import repeated
from services.gateway.changes import Sources
from services.gateway.manifests import KeptManifest, Key, ServedManifest

log = structlog.get_logger(__name__)

WRITE_EVERY_S = 1.0
MOST_WAITING = 1024
"""Manifests in memory that are not on the disk yet. Past it those that came first are not kept."""
MOST_READ = 256
"""Manifests that were read from the disk and stay in memory while the database is away."""
_MANIFESTS, _ARTIFACTS, _DENIED = "manifests", "artifacts", "denied.json"
_BLOCK_BYTES = 4096
"""A file takes whole blocks of the disk, by which Kubernetes measures a folder: most kernels are
smaller than one."""
_GZIP = b"\x1f\x8b"
_HASH = re.compile(rb'"sha256":"([0-9a-f]{64})"')


class _Head(msgspec.Struct, frozen=True, kw_only=True):
    key: Key
    etag: str
    issued_at: str
    levels: tuple[tuple[str, int], ...]
    serial: int
    built_s: float
    body_sha256: str


class Standby:
    """`folder` is None where nothing is kept. Use `writing` to have manifests written."""

    def __init__(self, folder: Path | None, limit_bytes: int) -> None:
        self._folder = folder
        self._limit_bytes = limit_bytes
        self._files: dict[str, OrderedDict[str, int]] = {
            _MANIFESTS: OrderedDict(),
            _ARTIFACTS: OrderedDict(),
        }
        """Bytes by the name of a file, by its kind; what was needed last is at the end."""
        self._total_bytes = {_MANIFESTS: 0, _ARTIFACTS: 0}
        self._waiting: OrderedDict[Key, KeptManifest] = OrderedDict()
        self._read: OrderedDict[Key, KeptManifest] = OrderedDict()
        if folder is not None:
            self._find_files(folder)

    @property
    def keeps(self) -> bool:
        return self._folder is not None

    @property
    def has_any(self) -> bool:
        """Says whether there is anything to give again."""
        return bool(self._waiting) or any(self._files.values())

    def has(self, key: Key) -> bool:
        """Says whether a manifest is kept under this key."""
        return key in self._waiting or _manifest_file(key) in self._files[_MANIFESTS]

    def keep_manifest(self, key: Key, served: ServedManifest) -> None:
        """Has it written within `WRITE_EVERY_S`, in place of an earlier one."""
        if self._folder is None:
            return
        self._waiting[key] = KeptManifest(served=served, built_s=time.time())
        self._waiting.move_to_end(key)
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popitem(last=False)

    async def manifest(self, key: Key) -> KeptManifest | None:
        kept = self._waiting.get(key) or self._read.get(key)
        if kept is not None or self._folder is None:
            return kept
        name = _manifest_file(key)
        if name not in self._files[_MANIFESTS]:
            return None
        content = await asyncio.to_thread(_bytes_of, self._folder / name)
        kept = None if content is None else _decoded(key, content)
        if kept is None:
            self._forget(name)
            return None
        self._read[key] = kept
        if len(self._read) > MOST_READ:
            self._read.popitem(last=False)
        return kept

    async def keep_artifact(self, sha256_hex: str, target: TargetKind, body: bytes) -> None:
        if self._folder is not None:
            name = f"{_ARTIFACTS}/{sha256_hex}.{target}"
            if await asyncio.to_thread(_write, self._folder / name, body):
                self._note(name, len(body))

    async def artifact(self, sha256_hex: str, target: TargetKind) -> bytes | None:
        name = f"{_ARTIFACTS}/{sha256_hex}.{target}"
        if self._folder is None or name not in self._files[_ARTIFACTS]:
            return None
        body = await asyncio.to_thread(_bytes_of, self._folder / name)
        if body is None or sha256(body).hexdigest() != sha256_hex:
            self._forget(name)
            return None
        if name in self._files[_ARTIFACTS]:  # It may have been removed meanwhile.
            self._files[_ARTIFACTS].move_to_end(name)
        return body

    async def keep_denied(self, body: bytes) -> bool:
        """Says whether it is kept. Where it cannot be, an earlier one is removed: nothing is given
        by a list that lacks what was denied since."""
        if self._folder is None:
            return False
        path = self._folder / _DENIED
        kept = await asyncio.to_thread(_write, path, body)
        if not kept:
            with suppress(OSError):
                path.unlink()
        return kept

    async def denied(self) -> bytes | None:
        if self._folder is None:
            return None
        return await asyncio.to_thread(_bytes_of, self._folder / _DENIED)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        if self._folder is None:
            yield
            return
        async with repeated(self.write, WRITE_EVERY_S):
            yield

    async def write(self) -> None:
        """Writes what waits, and removes what was needed least recently of what is too much."""
        assert self._folder is not None
        while self._waiting:
            key, kept = next(iter(self._waiting.items()))
            name, body = _manifest_file(key), _encoded(key, kept)
            if await asyncio.to_thread(_write, self._folder / name, body):
                self._note(name, len(body))
            self._read.pop(key, None)
            # Only now: what is written when the gateway ends, or was kept anew, still waits.
            if self._waiting.get(key) is kept:
                del self._waiting[key]

    def _note(self, name: str, size_bytes: int) -> None:
        """Removes what was needed least recently of the kind that takes more than the other, so
        that manifests, which anybody can ask for, leave half of the bytes to kernels."""
        kind, taken_bytes = _kind(name), -(-size_bytes // _BLOCK_BYTES) * _BLOCK_BYTES
        files = self._files[kind]
        self._total_bytes[kind] += taken_bytes - files.pop(name, 0)
        files[name] = taken_bytes
        while sum(self._total_bytes.values()) > self._limit_bytes:
            largest = max(self._total_bytes, key=self._total_bytes.__getitem__)
            if len(self._files[largest]) == 1:
                break
            self._forget(next(iter(self._files[largest])))

    def _forget(self, name: str) -> None:
        assert self._folder is not None
        kind = _kind(name)
        self._total_bytes[kind] -= self._files[kind].pop(name, 0)
        with suppress(OSError):
            (self._folder / name).unlink()

    def _find_files(self, folder: Path) -> None:
        found = [
            (path.stat(), f"{kind}/{path.name}")
            for kind in (_MANIFESTS, _ARTIFACTS)
            for path in (folder / kind).glob("*")
            if path.is_file()
        ]
        for status, name in sorted(found, key=lambda each: each[0].st_mtime):
            self._note(name, status.st_size)


def _write(path: Path, body: bytes) -> bool:
    """Says whether it is kept: a disk that is full costs this, and no page its answer."""
    incoming = path.with_name(f"{path.name}.{os.getpid()}.incoming")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        incoming.write_bytes(body)
        incoming.replace(path)
    except OSError as error:
        log.warning("not kept for times without a database", error=str(error))
        return False
    return True


def names_any(served: ServedManifest, artifacts: Collection[str]) -> bool:
    """Says whether a manifest, compressed or plain, has any of these kernels."""
    if not artifacts:
        return False
    body = served.body
    if body.startswith(_GZIP):
        body = zlib.decompress(body, wbits=zlib.MAX_WBITS | 16)
    return any(each.decode() in artifacts for each in _HASH.findall(body))


def _kind(name: str) -> str:
    return name.partition("/")[0]


def _manifest_file(key: Key) -> str:
    return f"{_MANIFESTS}/{sha256(msgspec.json.encode(key)).hexdigest()}"


def _encoded(key: Key, kept: KeptManifest) -> bytes:
    served = kept.served
    head = _Head(
        key=key,
        etag=served.etag,
        issued_at=served.issued_at,
        levels=served.levels,
        serial=served.serial,
        built_s=kept.built_s,
        body_sha256=sha256(served.body).hexdigest(),
    )
    return msgspec.json.encode(head) + b"\n" + served.body


def _decoded(key: Key, content: bytes) -> KeptManifest | None:
    """None for a file that is torn, or of another version."""
    line, _, body = content.partition(b"\n")
    try:
        head = msgspec.json.decode(line, type=_Head)
    except msgspec.DecodeError:
        return None
    if head.key != key or head.body_sha256 != sha256(body).hexdigest():
        return None
    served = ServedManifest(
        body=body,
        etag=head.etag,
        issued_at=head.issued_at,
        levels=head.levels,
        serial=head.serial,
        sources=Sources(),
    )
    return KeptManifest(served=served, built_s=head.built_s)


def _bytes_of(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
