"""Finds what a judged lease says of its author, beside whether its outputs are right."""

from dataclasses import dataclass
from itertools import groupby

from kernelzoo import jobs
from kernelzoo.domain.measurement import Outcome, Verdict
from kernelzoo.domain.trust import Defence
from kernelzoo.domain.workload import Workload
from kernelzoo.store import measurements, trust
from kernelzoo.store.blocking import Database, execute, fetch_all
from kernelzoo.store.leases import LeaseRow
from kernelzoo.store.measurements import PendingRow
from services.aggregator.envelope import ClaimedDevice, DeviceRates, impossible
from services.aggregator.reported_times import PeerTime, Times, known_time, off, replayed, still
from services.aggregator.reputation import LeaseFinding, Settlement, settled


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseFault:
    """A lease is not believed for this: FAILED or IMPOSSIBLE, and what is wrong with it."""

    finding: LeaseFinding
    detail: str


def settle(
    db: Database, holder: trust.HolderRow, fault: LeaseFault | None, defences: frozenset[Defence]
) -> tuple[Settlement, tuple[jobs.Message, ...]]:
    """Brings the record of an identity up to date with a lease that has a `fault`, or none.

    Answers the tallies that what it measured elsewhere calls for.
    """
    settlement = settled(holder.record, _finding(holder, fault), defences, operated=holder.operated)
    execute(
        db,
        trust.keep_record(holder.identity_id, settlement.record, failed_now=fault is not None),
    )
    if settlement.withdraws:
        execute(db, trust.withdraw(holder.identity_id))
    if settlement.releases:
        execute(db, trust.release(holder.identity_id))
    if not (settlement.withdraws or settlement.releases):
        return settlement, ()
    again = fetch_all(db, trust.count_again(holder.identity_id))
    return settlement, tuple(jobs.tally(row.workload_key, row.device_class) for row in again)


def _finding(holder: trust.HolderRow, fault: LeaseFault | None) -> LeaseFinding:
    if fault is not None:
        return fault.finding
    return LeaseFinding.VALID if holder.whole and not holder.outdated else LeaseFinding.OPEN


def times_fault(
    db: Database,
    workload: Workload,
    lease: LeaseRow,
    holder: trust.HolderRow,
    pending: list[PendingRow],
    defences: frozenset[Defence],
) -> LeaseFault | None:
    """Returns why the times of these measurements are not believed; None if they are."""
    timed = [row for row in pending if row.outcome == Outcome.OK]
    if holder.operated or not timed:
        return None
    if Defence.CONTROLS in defences and (found := _controls(db, lease, timed)):
        return LeaseFault(finding=LeaseFinding.FAILED, detail=found)
    if Defence.REPLAYS in defences and (found := _replays(db, lease)):
        return LeaseFault(finding=LeaseFinding.FAILED, detail=found)
    if Defence.ENVELOPE in defences and (
        found := _envelope(db, workload, lease, holder, timed, defences)
    ):
        return LeaseFault(finding=LeaseFinding.IMPOSSIBLE, detail=found)
    return None


def _envelope(
    db: Database,
    workload: Workload,
    lease: LeaseRow,
    holder: trust.HolderRow,
    timed: list[PendingRow],
    defences: frozenset[Defence],
) -> str:
    believed = Defence.PEERS not in defences
    rates = fetch_all(db, trust.class_rates(lease.id, proven=not believed))
    device = ClaimedDevice(
        target=lease.device_class.target.kind,
        claimed=DeviceRates(peak_gflops=holder.peak_gflops, written_gbps=holder.written_gbps),
        peers=[_rates(row) for row in rates if not row.operated],
        operated=[_rates(row) for row in rates if row.operated or believed],
        reference_ns=[row.best_ns for row in fetch_all(db, trust.class_reference(lease.id))],
    )
    found = (
        impossible(workload, device, min(row.samples_ns), min(row.reference_ns)) for row in timed
    )
    return next((f"envelope: {fault}" for fault in found if fault), "")


def _rates(row: trust.RatesRow) -> DeviceRates:
    return DeviceRates(peak_gflops=row.peak_gflops, written_gbps=row.written_gbps)


def _controls(db: Database, lease: LeaseRow, timed: list[PendingRow]) -> str:
    relative = {row.candidate_id: min(row.samples_ns) / min(row.reference_ns) for row in timed}
    rows = fetch_all(db, trust.controls(lease.id))
    for candidate_id, found in groupby(rows, lambda row: row.candidate_id):
        peers = [PeerTime(network=row.network, relative_time=row.relative_time) for row in found]
        known = known_time(peers)
        told = relative.get(candidate_id)
        if known is not None and told is not None and off(told, known):
            return (
                f"control: {told:.3g} of the reference; its class found {known.relative_time:.3g}"
            )
    return ""


def _replays(db: Database, lease: LeaseRow) -> str:
    rows = fetch_all(db, measurements.timed(lease.id))
    if still([(tuple(row.samples_ns), tuple(row.reference_ns)) for row in rows]):
        return "replay: no two samples of this lease differ"
    shared = fetch_all(db, trust.shared_samples(lease.id))
    for other, same in groupby(shared, lambda row: row.lease_id):
        pairs: list[tuple[Times, Times]] = [
            (tuple(row.samples_ns), tuple(row.reference_ns)) for row in same
        ]
        if replayed(pairs):
            return f"replay: the samples of lease {other}"
    return ""


def verdict_of(found: Verdict, settlement: Settlement) -> Verdict:
    """Keeps a rejection, and lets a right output count if its author is believed."""
    return found if found is Verdict.REJECTED else settlement.verdict
