"""Manifests as they are served, built from rows; `cache` remembers them."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256

from pydantic import ValidationError

from kernelzoo.domain.artifact import ArtifactManifest
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.zoo import AdviceBasis, EntryState, HitLevel
from kernelzoo.errors import InvalidInput
from kernelzoo.metrics import MISSING
from kernelzoo.signing import Signer
from kernelzoo.store.candidates import KernelRow
from kernelzoo.store.chain import OfferRow
from kernelzoo.store.zoo import OfferedRow, ServedRow
from services.gateway.chain import ServedWorkload
from services.gateway.changes import Sources
from services.gateway.wire.artifacts import (
    ArtifactWire,
    Kernel,
    LayoutWire,
)
from services.gateway.wire.sessions import HardwareWire
from services.gateway.wire.zoo import (
    Advice,
    CostsWire,
    EngineVotesWire,
    EvidenceWire,
    GroundsWire,
    KernelForRuns,
    Manifest,
    ManifestEntry,
    ServedKernel,
    TimingWire,
)

ISSUED_EVERY_S = 3600

Key = tuple[str, ...]
"""A manifest is remembered by what is asked for, the classes, and what the page told: by one text
of each (`class_name`, `hardware_text`), as else one class that has voted had any number of them."""
LONGEST_CLASS = 256
"""Characters; what is longer is refused later."""


def class_name(told: str) -> str:
    """Returns the one name of a class, whose features anybody can tell in another order, or twice;
    what is no class is refused later."""
    try:
        return told if len(told) > LONGEST_CLASS else _class_name(told)
    except InvalidInput:
        return told


@lru_cache(maxsize=1024)
def _class_name(told: str) -> str:
    """Raises InvalidInput, which is not remembered."""
    return str(DeviceClass.parse(told))


def hardware_text(told: str) -> str:
    """Returns the one text of hardware, which JSON can say with any spaces; what is no hardware is
    refused later."""
    try:
        return HardwareWire.model_validate_json(told).model_dump_json()
    except ValidationError:
        return told


def issue_time() -> str:
    """Now to the hour: gateways that serve the same thing sign the same bytes, and a page that asks
    again within the hour is told that nothing has changed.
    """
    now_s = int(time.time())
    return datetime.fromtimestamp(now_s - now_s % ISSUED_EVERY_S, UTC).isoformat()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedManifest:
    """`levels`: how many of its kernels came from each step of the fallback chain."""

    body: bytes
    etag: str
    issued_at: str
    levels: tuple[tuple[str, int], ...]
    serial: int
    sources: Sources

    @property
    def voted(self) -> bool:
        """True if any of it is the class's own, which no class that nobody is of can have."""
        return any(level == HitLevel.EXACT for level, _ in self.levels)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptManifest:
    """One that is given again later. `built_s` counts as `time.time` does."""

    served: ServedManifest
    built_s: float

    @property
    def age_s(self) -> int:
        return max(0, int(time.time() - self.built_s))


def kernel(candidate_id: str, sha256_hex: str, size_bytes: int, made: ArtifactManifest) -> Kernel:
    return Kernel.of(
        made,
        candidate=candidate_id,
        **_addressed(sha256_hex, size_bytes, made),
        layouts=[
            LayoutWire(
                tensor=each.tensor,
                layout=each.layout,
                pack=ArtifactWire.of(
                    each.pack.manifest,
                    **_addressed(each.pack.sha256, each.pack.size_bytes, each.pack.manifest),
                ),
            )
            for each in made.layouts
        ],
    )


def _addressed(sha256_hex: str, size_bytes: int, made: ArtifactManifest) -> dict[str, object]:
    """Returns what a page is told of an artifact beside its manifest."""
    url = f"/v1/artifacts/{sha256_hex}.{made.target}"
    return {"sha256": sha256_hex, "url": url, "size_bytes": size_bytes}


def kernel_of(row: KernelRow) -> Kernel:
    return kernel(row.candidate_id, row.sha256, row.size_bytes, row.manifest)


def manifest(
    name: str,
    device_classes: tuple[DeviceClass, ...],
    answers_by_class: Sequence[list[ServedWorkload]],
    *,
    quorum: int,
    serial: int,
) -> Manifest:
    """`answers_by_class`: of each class the same workloads in the same order. `serial` was read
    before them.
    """
    targets = [device_class.target.kind for device_class in device_classes]
    pairs = [
        (answers[0].row.workload_key, _entry(dict(zip(targets, answers, strict=True)), quorum))
        for answers in zip(*answers_by_class, strict=True)
    ]
    return Manifest(
        manifest=1,
        set=name,
        device_classes=[str(device_class) for device_class in device_classes],
        entries=[entry for _, entry in pairs if entry is not None],
        missing=[workload_key for workload_key, entry in pairs if entry is None],
        issued_at=issue_time(),
        serial=serial,
        signatures=[],
    )


def sources(
    device_classes: Sequence[DeviceClass], answers_by_class: Sequence[Sequence[ServedWorkload]]
) -> Sources:
    """Groups answers by source, as `manifest` takes them."""
    places = [
        (each.row.workload_key, str(device_class), _level(each))
        for device_class, answers in zip(device_classes, answers_by_class, strict=True)
        for each in answers
    ]
    return Sources(
        entries=tuple((key, name) for key, name, level in places if level == HitLevel.EXACT),
        offers=tuple({key: None for key, _, level in places if level != HitLevel.EXACT}),
    )


def encode(document: Manifest, signer: Signer, made_from: Sources) -> ServedManifest:
    """Signed here, once. The tag is of the signatures too: who holds old ones asks again."""
    body = signer.seal(document.model_dump_json(exclude={"signatures"}).encode())
    etag = f'"{sha256(body).hexdigest()[:32]}"'
    kernels = (
        each
        for entry in document.entries
        for each in (entry.wasm, entry.webgpu, entry.javascript)
        if each
    )
    return ServedManifest(
        body=body,
        etag=etag,
        issued_at=document.issued_at,
        levels=levels(kernels, len(document.missing)),
        serial=document.serial,
        sources=made_from,
    )


def levels(kernels: Iterable[ServedKernel], missing: int) -> tuple[tuple[str, int], ...]:
    counts = Counter(str(kernel.level) for kernel in kernels)
    counts[MISSING] += missing
    return tuple(counts.items())


def _entry(answer_by_target: dict[TargetKind, ServedWorkload], quorum: int) -> ManifestEntry | None:
    found = {target: served(answer, target) for target, answer in answer_by_target.items()}
    wasm, webgpu = found.get(TargetKind.WASM), found.get(TargetKind.WEBGPU)
    javascript = found.get(TargetKind.JAVASCRIPT)
    if wasm is None and webgpu is None and javascript is None:
        return None
    row = next(iter(answer_by_target.values())).row
    return ManifestEntry(
        workload=row.workload_key,
        flops=row.flops,
        wasm=wasm,
        webgpu=webgpu,
        javascript=javascript,
        advice=Advice(target=TargetKind.JAVASCRIPT, basis=AdviceBasis.NONE)
        if javascript
        else advise(wasm, webgpu, quorum=quorum),
    )


def served(answer: ServedWorkload, target: TargetKind) -> ServedKernel | None:
    """None where nothing is compiled that the class can run."""
    row, borrowed = answer.row, answer.borrowed
    fallback = row.fallback()
    if fallback is None:
        return None
    winner = row.winner()
    timed = borrowed.kernel if borrowed else row
    offered = row.offered()
    return ServedKernel(
        tolerance=comparison_tolerance(answer.workload, target),
        level=_level(answer),
        kernel=kernel_of(borrowed.kernel if borrowed else winner or fallback),
        fallback=kernel_of(fallback),
        state=EntryState(row.state) if row.state else None,
        version=row.version,
        evidence=_evidence(row),
        timing=_timing(timed.best_ns, timed.identities),
        grounds=_borrowed_grounds(borrowed.offer) if borrowed else _own_grounds(row),
        costs=next((_costs(each) for each in offered if each.runs is None), None),
        by_runs=[
            KernelForRuns(runs=each.runs, kernel=kernel_of(each.kernel), costs=_costs(each))
            for each in offered
            if each.runs is not None
        ],
    )


def _costs(row: OfferedRow) -> CostsWire:
    return CostsWire.of(row, identities=row.voters)


def _level(answer: ServedWorkload) -> HitLevel:
    if answer.borrowed is not None:
        return HitLevel(answer.borrowed.offer.level)
    return HitLevel.EXACT if answer.row.entry_kernel else HitLevel.DEFAULT


def _timing(best_ns: float | None, identities: int) -> TimingWire | None:
    return None if best_ns is None else TimingWire(best_ns=best_ns, identities=identities)


def _borrowed_grounds(offer: OfferRow) -> GroundsWire:
    return GroundsWire.of(
        offer,
        neighbour=offer.neighbour or None,
    )


def _own_grounds(row: ServedRow) -> GroundsWire | None:
    if row.ballots is None:
        return None
    return GroundsWire(
        identities=row.ballots, classes=1, relative_time=None, rho_distance=0, neighbour=None
    )


def _evidence(row: ServedRow) -> EvidenceWire | None:
    if (
        row.ballots is None
        or row.weight is None
        or row.total_weight is None
        or row.relative_time is None
        or row.engines is None
    ):
        return None
    return EvidenceWire.of(
        row,
        engines=[EngineVotesWire.model_validate(votes) for votes in row.engines],
    )


def advise(wasm: ServedKernel | None, webgpu: ServedKernel | None, *, quorum: int) -> Advice:
    """At least one is given. `quorum`: identities whose times are believed."""
    wasm_ns, webgpu_ns = _known_ns(wasm, quorum), _known_ns(webgpu, quorum)
    if wasm_ns is not None and webgpu_ns is not None:
        faster = TargetKind.WEBGPU if webgpu_ns < wasm_ns else TargetKind.WASM
        return Advice(target=faster, basis=AdviceBasis.MEASURED)
    usual = TargetKind.WASM if wasm is not None else TargetKind.WEBGPU
    return Advice(target=usual, basis=AdviceBasis.NONE)


def _known_ns(served: ServedKernel | None, quorum: int) -> float | None:
    if served is None or served.timing is None or served.timing.identities < quorum:
        return None
    return served.timing.best_ns
