"""Files of models by the SHA-256 of their bytes: plans, weights, golden outputs.

    <folder>/ab/abcdef…      a file, complete and of this hash; it never changes
    <folder>/incoming/…      what is being received, under a name of chance

A file gets its name once all of it is written and its hash is right, so that a gateway that dies
leaves nothing but something in `incoming`. Gateways may share the folder.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Collection, Iterator
from dataclasses import dataclass
from errno import EDQUOT, ENOSPC
from hashlib import sha256
from http import HTTPStatus
from os import fsync
from pathlib import Path
from typing import BinaryIO

from starlette.requests import ClientDisconnect

from services.gateway.problems import Refusal

PART_BYTES = 1 << 20
"""Hashed and written at a time, beside the gateway's thread."""
KEPT_S = 24 * 3600
"""A file that no model names is kept so long: somebody may be about to register one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blobs:
    """`folder` is None where this gateway keeps no models."""

    folder: Path | None
    limit_bytes: int

    def path(self, name: str) -> Path | None:
        """The file of this hash, if it is there."""
        path = self._path(name)
        return path if path.is_file() else None

    def size_bytes(self, name: str) -> int | None:
        path = self.path(name)
        return None if path is None else path.stat().st_size

    def read(self, name: str) -> bytes | None:
        path = self.path(name)
        return None if path is None else path.read_bytes()

    async def store(self, name: str, told_bytes: int | None, stream: AsyncIterator[bytes]) -> int:
        """The size of the file, which is new or was there. Raises Refusal for bytes of another
        hash, for too many, and where there is no room.
        """
        if told_bytes is not None and told_bytes > self.limit_bytes:
            raise self._too_large()
        path = self._path(name)
        incoming = self._root() / "incoming" / f"{name}.{secrets.token_hex(8)}"
        try:
            if path.is_file():
                # Old enough, it might be removed before a model names it.
                path.touch()
                return path.stat().st_size
            for each in (incoming, path):
                each.parent.mkdir(parents=True, exist_ok=True)
            found, size = await self._receive(incoming, stream)
            if found != name:
                raise Refusal(
                    HTTPStatus.UNPROCESSABLE_ENTITY,
                    f"the {size} bytes that came have the SHA-256 {found}, not {name}; "
                    "send the file again",
                )
            incoming.rename(path)
        except ClientDisconnect as error:
            raise Refusal(
                HTTPStatus.BAD_REQUEST,
                "the connection ended before the file was whole; nothing was kept, send it again",
            ) from error
        except OSError as error:
            raise _no_room(error) from error
        finally:
            incoming.unlink(missing_ok=True)
        return size

    def remove(self, names: Collection[str]) -> None:
        for name in names:
            self._path(name).unlink(missing_ok=True)

    def sweep(self, named: Collection[str]) -> int:
        """Removes files that are not `named` and older than a day; gives their number."""
        if self.folder is None:
            return 0
        oldest_s = time.time() - KEPT_S
        old = [
            path
            for path in _files(self.folder)
            if path.name not in named and path.stat().st_mtime < oldest_s
        ]
        for path in old:
            path.unlink(missing_ok=True)
        return len(old)

    async def _receive(self, incoming: Path, stream: AsyncIterator[bytes]) -> tuple[str, int]:
        """Hash and size of what was written."""
        digest, size, part = sha256(), 0, bytearray()
        with incoming.open("xb") as file:

            def write(last: bool) -> None:
                digest.update(part)
                file.write(part)
                if last:
                    _settle(file)

            async for piece in stream:
                size += len(piece)
                if size > self.limit_bytes:
                    raise self._too_large()
                part += piece
                if len(part) >= PART_BYTES:
                    await asyncio.to_thread(write, False)
                    part.clear()
            await asyncio.to_thread(write, True)
        return digest.hexdigest(), size

    def _path(self, name: str) -> Path:
        return self._root() / name[:2] / name

    def _root(self) -> Path:
        if self.folder is None:
            raise Refusal(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "this gateway has no folder for models; start it with KERNELZOO_MODELS_DIR",
            )
        return self.folder

    def _too_large(self) -> Refusal:
        return Refusal(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            f"a file of a model may have {self.limit_bytes} bytes; keep larger weights on a host "
            "of your own (--weights-url), or raise KERNELZOO_MAX_BLOB_BYTES",
        )


def _settle(file: BinaryIO) -> None:
    """On the disk, before its name says that it is whole."""
    file.flush()
    fsync(file.fileno())


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.glob("*/*") if path.is_file())


def _no_room(error: OSError) -> Refusal:
    if error.errno in (ENOSPC, EDQUOT):
        return Refusal(
            HTTPStatus.INSUFFICIENT_STORAGE,
            "there is no room left in the gateway's folder of models; nothing was kept. "
            "Remove models, or make KERNELZOO_MODELS_DIR a larger disk",
        )
    return Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"the gateway's folder of models cannot be written ({error.strerror}); nothing was kept",
        {"Retry-After": "10"},
    )
