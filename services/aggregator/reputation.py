"""Decides what a judged lease does to the record of its identity, and what becomes of its
measurements.

As BOINC's: a count of valid results in a row, which one failure ends. An identity that failed is
answered as ever and not counted, until it was valid for a while.
"""

from dataclasses import dataclass
from enum import StrEnum

from kernelzoo.domain.measurement import Verdict
from kernelzoo.domain.trust import Defence, Record


class LeaseFinding(StrEnum):
    """A lease says one of these of its author. VALID: every candidate was answered, and every
    control ran and was right. OPEN: nothing speaks against it, but it does not prove anything yet.
    IMPOSSIBLE: its times lie outside the envelope, which says nothing of what was measured before.
    FAILED: another check failed.
    """

    VALID = "valid"
    OPEN = "open"
    IMPOSSIBLE = "impossible"
    FAILED = "failed"

    @property
    def counted(self) -> bool:
        return self in (LeaseFinding.VALID, LeaseFinding.OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """`verdict`: of the lease's measurements whose output is right. `withdraws`: what the identity
    measured before is not counted any more. `releases`: what it measured since it failed is."""

    record: Record
    verdict: Verdict
    withdraws: bool
    releases: bool


def settled(
    record: Record, finding: LeaseFinding, defences: frozenset[Defence], *, operated: bool
) -> Settlement:
    """`operated`: of the operator, whose devices are never quarantined."""
    after = _after(record, finding)
    held = Defence.QUARANTINE in defences and not operated
    return Settlement(
        record=after,
        verdict=_verdict(after, finding, held=held, operated=operated),
        withdraws=held and finding is LeaseFinding.FAILED,
        releases=held and record.quarantined and not after.quarantined,
    )


def _after(record: Record, finding: LeaseFinding) -> Record:
    match finding:
        case LeaseFinding.FAILED | LeaseFinding.IMPOSSIBLE:
            return Record(valid_in_row=0, failed=True)
        case LeaseFinding.VALID:
            return Record(valid_in_row=record.valid_in_row + 1, failed=record.failed)
        case LeaseFinding.OPEN:
            return record


def _verdict(after: Record, finding: LeaseFinding, *, held: bool, operated: bool) -> Verdict:
    doubted = not finding.counted and not operated
    quarantined = held and after.quarantined
    return Verdict.QUARANTINED if doubted or quarantined else Verdict.VERIFIED
