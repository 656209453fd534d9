"""Manifests as they are served: built from rows, remembered until rows change."""

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from math import inf

from kernelzoo.domain.artifact import ArtifactManifest
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.workload import Workload
from kernelzoo.domain.zoo import AdviceBasis, EntryState, HitLevel
from kernelzoo.metrics import MISSING
from kernelzoo.signing import Signer
from kernelzoo.store.candidates import KernelRow
from kernelzoo.store.chain import OfferRow
from kernelzoo.store.zoo import OfferedRow, ServedRow
from services.gateway.chain import ServedWorkload
from services.gateway.wake import Wake
from services.gateway.wire.artifacts import (
    ArtifactWire,
    Kernel,
    LayoutWire,
)
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

MOST_VOTED = 10_000
MOST_OTHERS = 2_000
ISSUED_EVERY_S = 3600
OUTDATED_S = 2.0
RENEWED_EVERY_S = 0.5


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

    @property
    def voted(self) -> bool:
        """Whether any of it is the class's own, which no class that nobody is of can have."""
        return any(level == HitLevel.EXACT for level, _ in self.levels)


Key = tuple[str, ...]


@dataclass(slots=True)
class _Held:
    """`generation`: seen before its rows were read. `renewed_s`: when a newer one was begun."""

    served: ServedManifest
    generation: int
    renewed_s: float = -inf


class ManifestCache:
    """Remembers manifests while the gateway hears of every change, and for as long as they would be
    signed with the same time. A change of anything that is served makes all of them outdated.

    Those of classes that have voted are kept apart: whoever asks for classes that nobody else is of
    does not push them out, and they are known to be real when they have to be built again. Outdated
    ones of theirs are still given for `OUTDATED_S` while newer ones are built: where agents vote,
    something changes many times a second.
    """

    def __init__(
        self, wake: Wake, *, most_voted: int = MOST_VOTED, most_others: int = MOST_OTHERS
    ) -> None:
        self._wake = wake
        self._most_voted, self._most_others = most_voted, most_others
        self._voted: dict[Key, _Held] = {}
        self._others: dict[Key, _Held] = {}
        self._known: set[Key] = set()

    def get(self, name: str, *device_classes: str) -> ServedManifest | None:
        """What is right now."""
        held = self._held((name, *device_classes))
        if held is None or held.generation != self._wake.served_generation:
            return None
        return held.served

    def outdated(self, name: str, *device_classes: str) -> ServedManifest | None:
        """What was right a moment ago, of a class that has voted."""
        key = (name, *device_classes)
        held = self._held(key)
        if held is None or key not in self._known:
            return None
        return held.served if self._wake.outdated_s(held.generation) <= OUTDATED_S else None

    def renew(self, name: str, *device_classes: str) -> bool:
        """Whether an outdated one is to be built anew now: once in `RENEWED_EVERY_S`."""
        held, now_s = self._held((name, *device_classes)), time.monotonic()
        if held is None or now_s < held.renewed_s + RENEWED_EVERY_S:
            return False
        held.renewed_s = now_s
        return True

    def _held(self, key: Key) -> _Held | None:
        if not self._wake.connected:
            return None
        held = self._voted.get(key) or self._others.get(key)
        return held if held is not None and held.served.issued_at == issue_time() else None

    def knows(self, name: str, *device_classes: str) -> bool:
        """Whether the class had voted when it was last asked for, be that before a change."""
        return (name, *device_classes) in self._known

    def put(self, name: str, *device_classes: str, served: ServedManifest, generation: int) -> None:
        """`generation` is the one seen before the rows were read."""
        key = (name, *device_classes)
        before = self._voted.pop(key, None)
        self._others.pop(key, None)
        if len(self._known) >= self._most_voted:
            self._known.clear()
        (self._known.add if served.voted else self._known.discard)(key)
        kept, most = self._others, self._most_others
        if served.voted:
            kept, most = self._voted, self._most_voted
        if len(kept) >= most:
            kept.clear()
        if before is None:
            kept[key] = _Held(served, generation)
        elif before.generation <= generation:
            kept[key] = _Held(served, generation, before.renewed_s)
        else:
            kept[key] = before


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
    """What a page is told of an artifact beside its manifest."""
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


def encode(document: Manifest, signer: Signer) -> ServedManifest:
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
        tolerance=comparison_tolerance(Workload.parse(row.workload_key), target),
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
