"""Manifests and kernels on the disk are bounded, and outlive the process."""

import asyncio
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from kernelzoo.domain.target import TargetKind
from services.gateway.changes import Sources
from services.gateway.manifests import ServedManifest
from services.gateway.standby import MOST_WAITING, Standby

WASM = TargetKind.WASM


def manifest(body: bytes) -> ServedManifest:
    return ServedManifest(
        body=body,
        etag='"tag"',
        issued_at="2026-01-01T00:00:00+00:00",
        levels=(("exact", 1),),
        serial=7,
        sources=Sources(),
    )


def kernels(count: int) -> dict[str, bytes]:
    bodies = [bytes([number]) * 1000 for number in range(count)]
    return {sha256(body).hexdigest(): body for body in bodies}


def test_what_was_needed_least_recently_goes_first(tmp_path: Path) -> None:
    async def told() -> None:
        standby = Standby(tmp_path, limit_bytes=3 * 4096)
        first, second, third, fourth = (sent := kernels(4))
        for name in (first, second, third):
            await standby.keep_artifact(name, WASM, sent[name])
        assert await standby.artifact(first, WASM) == sent[first]
        await standby.keep_artifact(fourth, WASM, sent[fourth])
        kept = [name for name in sent if await standby.artifact(name, WASM) is not None]
        assert kept == [first, third, fourth]

    asyncio.run(told())
    assert sum(path.stat().st_size for path in tmp_path.glob("*/*")) == 3000


def test_manifests_leave_half_of_the_bytes_to_kernels(tmp_path: Path) -> None:
    """Anybody whose network is two can have as many kept as there are classes to invent."""

    async def told() -> None:
        standby = Standby(tmp_path, limit_bytes=8 * 4096)
        sent = kernels(4)
        for name, body in sent.items():
            await standby.keep_artifact(name, WASM, body)
        for number in range(40):
            standby.keep_manifest(("set", str(number), ""), manifest(b"invented"))
        await standby.write()
        for name, body in sent.items():
            assert await standby.artifact(name, WASM) == body
        assert [number for number in range(40) if standby.has(("set", str(number), ""))] == [
            *range(36, 40)
        ]

    asyncio.run(told())


def test_a_manifest_outlives_the_process(tmp_path: Path) -> None:
    key = ("set", "class", "")

    async def told() -> None:
        standby = Standby(tmp_path, limit_bytes=1 << 20)
        standby.keep_manifest(key, manifest(b"first"))
        standby.keep_manifest(key, manifest(b"line\nand line"))
        await standby.write()
        later = Standby(tmp_path, limit_bytes=1 << 20)
        assert later.has(key)
        assert not later.has(("set", "another", ""))
        kept = await later.manifest(key)
        assert kept is not None
        assert kept.served == manifest(b"line\nand line")

    asyncio.run(told())


def test_manifests_that_wait_for_the_disk_are_bounded(tmp_path: Path) -> None:
    standby = Standby(tmp_path, limit_bytes=1 << 20)
    for number in range(MOST_WAITING + 1):
        standby.keep_manifest((str(number),), manifest(b""))
    assert not standby.has(("0",))
    assert standby.has(("1",))


def test_a_disk_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("no folder")

    async def told() -> None:
        standby = Standby(tmp_path, limit_bytes=1 << 20)
        (name, body), *_ = kernels(1).items()
        await standby.keep_artifact(name, WASM, body)
        assert await standby.artifact(name, WASM) is None

    asyncio.run(told())


def test_what_waits_is_written_though_the_gateway_ends_while_it_writes(tmp_path: Path) -> None:
    keys = [("set", str(number), "") for number in range(20)]

    async def told() -> None:
        standby = Standby(tmp_path, limit_bytes=1 << 20)
        for key in keys:
            standby.keep_manifest(key, manifest(b"kept"))
        writing = asyncio.create_task(standby.write())
        await asyncio.sleep(0)
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing
        await standby.write()
        assert all(map(Standby(tmp_path, limit_bytes=1 << 20).has, keys))

    asyncio.run(told())
