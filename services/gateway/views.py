"""From rows to what the console shows; pure."""

from collections import defaultdict
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from statistics import median
from typing import Protocol

from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.domain.zoo import EntryState
from kernelzoo.store.curves import ImprovementRow, ProgressOfClassRow
from kernelzoo.store.denials import DeniedRow
from kernelzoo.store.keys import FoundKeyRow, VersionOfKeyRow, VotesRow
from kernelzoo.store.measurements import TrialRow
from kernelzoo.store.overview import CellRow, ClassRow, CoveredWorkloadRow, PublishedRow, TotalsRow
from kernelzoo.store.zoo import OfferedCost
from services.gateway.lists import listed
from services.gateway.wire.console import (
    CandidateStanding,
    ClassOfDevices,
    Coverage,
    CoverageRow,
    Curve,
    FoundKey,
    FoundKeys,
    Improvement,
    OfferedKernel,
    OutcomeCount,
    Overview,
    Promotion,
    Reason,
    Version,
)
from services.gateway.wire.denials import Decision
from services.gateway.wire.sessions import HardwareWire
from services.gateway.wire.zoo import CostsWire, EngineVotesWire, EvidenceWire

NO_VOTES = [0, 0, 0, 0, 0]


class _Device(Protocol):
    """Columns that rows about a class share."""

    @property
    def cpu_architecture(self) -> str: ...
    @property
    def logical_cores(self) -> int: ...
    @property
    def gpu_vendor(self) -> str: ...
    @property
    def gpu_architecture(self) -> str: ...


class _Crowd(_Device, Protocol):
    @property
    def engines(self) -> list[str]: ...
    @property
    def identities(self) -> int: ...


class _Counted(Protocol):
    """Columns that rows about an entry share."""

    @property
    def ballots(self) -> int: ...
    @property
    def weight(self) -> int: ...
    @property
    def total_weight(self) -> int: ...
    @property
    def relative_time(self) -> float: ...
    @property
    def engines(self) -> list[dict[str, object]]: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def spread(self) -> float | None: ...


def evidence(row: _Counted) -> EvidenceWire:
    return EvidenceWire.of(
        row,
        engines=[EngineVotesWire.model_validate(votes) for votes in row.engines],
    )


def decision(row: DeniedRow) -> Decision:
    return Decision.of(
        row,
        artifact=row.sha256,
        decided_at=row.decided_at.isoformat(),
        candidates=row.candidate_ids,
        workloads=row.workload_keys,
    )


def class_of(device_class: str, row: _Crowd) -> ClassOfDevices:
    return ClassOfDevices(
        device_class=device_class,
        hardware=_hardware(row),
        engines=row.engines,
        identities=row.identities,
    )


def overview(
    totals: TotalsRow, latest: Sequence[PublishedRow], *, recent_s: int, quorum: int
) -> Overview:
    return Overview.of(
        totals,
        recent_s=recent_s,
        quorum=quorum,
        promotions=listed(latest, promotion),
    )


def promotion(row: PublishedRow) -> Promotion:
    return Promotion.of(
        row,
        workload=row.workload_key,
        reason=reason(row.reason, served=row.served, served_before=row.previous_served),
        detail=row.reason,
        candidate=row.candidate_id,
        previous=row.previous_candidate_id,
        published_at=row.published_at.isoformat(),
    )


def coverage(
    columns: Sequence[CoveredWorkloadRow], lines: Sequence[ClassRow], cells: Sequence[CellRow]
) -> Coverage:
    states = {(cell.workload_key, cell.device_class): cell.state[0] for cell in cells}

    def told(line: ClassRow) -> CoverageRow:
        return CoverageRow(
            device=class_of(line.device_class, line),
            marks="".join(_mark(column, line, states) for column in columns),
        )

    return Coverage(
        workloads=[column.workload_key for column in columns],
        classes=listed(lines, told),
        total_workloads=columns[0].total if columns else 0,
        total_classes=lines[0].total if lines else 0,
    )


def _mark(
    column: CoveredWorkloadRow, line: ClassRow, states: dict[tuple[WorkloadKey, str], str]
) -> str:
    missing = "m" if line.target in column.targets else "-"
    return states.get((column.workload_key, line.device_class), missing)


def found_keys(rows: Sequence[FoundKeyRow]) -> FoundKeys:
    return FoundKeys(
        keys=listed(rows, _found_key),
        total=rows[0].total if rows else 0,
    )


def _found_key(row: FoundKeyRow) -> FoundKey:
    return FoundKey.of(
        row,
        workload=row.workload_key,
        hardware=_hardware(row),
        published_at=row.published_at.isoformat(),
    )


def standings(
    trials: Sequence[TrialRow], votes: Sequence[VotesRow], flops: int
) -> list[CandidateStanding]:
    """The fastest first, failures last."""
    by_rank = {row.candidate_id: row.by_rank for row in votes}
    made = listed(
        trials, lambda row: _standing(row, by_rank.get(row.candidate_id, NO_VOTES), flops)
    )
    return sorted(made, key=lambda each: (each.best_ns is None, each.best_ns, each.candidate))


def _standing(row: TrialRow, votes: list[int], flops: int) -> CandidateStanding:
    best_ns = median(row.times_ns) if row.times_ns else None
    return CandidateStanding(
        candidate=row.candidate_id,
        artifact=row.sha256,
        config=dict(row.config),
        requires=row.requires,
        outcome=row.outcome,
        best_ns=best_ns,
        gflops=flops / best_ns if best_ns else None,
        identities=len(row.times_ns),
        compile_ms=round(row.compile_ns / 1e6, 3),
        votes=votes,
    )


def history(rows: Sequence[VersionOfKeyRow]) -> list[Version]:
    return listed(rows, _version)


def _version(row: VersionOfKeyRow) -> Version:
    return Version(
        version=row.version,
        state=EntryState(row.state),
        reason=reason(row.reason, served=row.served, served_before=row.served_before),
        detail=row.reason,
        served=row.served,
        candidate=row.candidate_id,
        artifact=row.sha256,
        evidence=evidence(row),
        published_at=row.published_at.isoformat(),
    )


def curves(
    measured: Sequence[ProgressOfClassRow],
    shown: AbstractSet[str],
    points: Sequence[ImprovementRow],
    flops: int,
) -> list[Curve]:
    by_class: defaultdict[str, list[ImprovementRow]] = defaultdict(list)
    for point in points:
        by_class[point.device_class].append(point)

    def improvement(row: ImprovementRow) -> Improvement:
        return Improvement(round=row.round, elapsed_s=row.elapsed_s, gflops=flops / row.best_ns)

    def curve(row: ProgressOfClassRow) -> Curve:
        return Curve(
            device=class_of(row.device_class, row),
            shown=row.device_class in shown,
            candidates=row.candidates,
            outcomes=_outcomes(row),
            points=listed(by_class[row.device_class], improvement),
            elapsed_s=row.elapsed_s,
            last_at=row.last_at.isoformat(),
        )

    return listed(measured, curve)


def _outcomes(row: ProgressOfClassRow) -> list[OutcomeCount]:
    return [
        OutcomeCount(outcome="ok", measurements=row.ok),
        OutcomeCount(outcome="validate", measurements=row.validate),
        OutcomeCount(outcome="compile", measurements=row.compile),
        OutcomeCount(outcome="run", measurements=row.run),
        OutcomeCount(outcome="compare", measurements=row.compare),
        OutcomeCount(outcome="timeout", measurements=row.timeout),
        OutcomeCount(outcome="rejected", measurements=row.rejected),
    ]


def _hardware(row: _Device) -> HardwareWire:
    return HardwareWire.of(row)


def reason(kept: str, *, served: bool, served_before: bool | None) -> Reason:
    """`kept`: the words. `served_before`: of the version before this one, none for the first."""
    if kept:
        return Reason.DECIDED
    if served:
        return Reason.CHALLENGE if served_before else Reason.QUORUM
    return Reason.FIRST if served_before is None else Reason.LEAD


def is_shown(*, identities: int, strangers: int, quorum: int) -> bool:
    """Returns whether what a class measured may be shown to anyone, or only how much it was.

    A class of few devices is nearly a person. The operator's own devices are nobody's secret: a
    class without `strangers` is shown from the first.
    """
    return strangers == 0 or identities >= quorum


def offered(row: OfferedCost) -> OfferedKernel:
    return OfferedKernel(
        runs=row.runs,
        candidate=row.candidate_id,
        costs=CostsWire.of(row, identities=row.voters),
    )
