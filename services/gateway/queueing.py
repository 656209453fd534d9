"""Chooses what a page that tunes the model it runs is sent next: a value, made of what is compiled.

The workload in which most time may be won comes first, with its most promising candidates; then the
next workload; and so on in rounds, so that a page that has little time has tried something of each.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from kernelzoo.domain.workload import WorkloadKey
from kernelzoo.domain.zoo import EntryState
from kernelzoo.store.models import CallTimeRow
from kernelzoo.store.queue import QueuedRow

ROUND = 4
"""Candidates of a batch."""
GAIN = 0.09
"""Share of the default kernel's time that is expected to be won where nobody has measured any
candidate and no cost model foretells one: the mean of recorded devices (bench/results, `chain`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """A workload of a plan that its class has not confirmed. `expected_ns`: what its calls take an
    inference, null where nobody has measured it; `weight`: the same, or what it is taken for.
    `compiled` in the order in which they are to be tried.
    """

    workload_key: WorkloadKey
    calls: int
    flops: int
    expected_ns: float | None
    weight: float
    compiled: tuple[QueuedRow, ...]
    waiting: int

    @property
    def gain(self) -> float:
        """Share of its time that may be won: as it was measured, or as it is foretold."""
        told = [_told(row) for row in self.compiled]
        known = [time for time in told if time is not None]
        return max(0.0, 1.0 - min(known)) if known else GAIN


def _told(row: QueuedRow) -> float | None:
    return row.predicted if row.relative_time is None else row.relative_time


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    of: Tried
    candidates: tuple[QueuedRow, ...]


def unconfirmed(called: Sequence[CallTimeRow]) -> tuple[CallTimeRow, ...]:
    """Lists what a page may find a faster kernel for. Those of short extents are none of it: a page
    proves kernels by its golden outputs, which are of the largest."""
    return tuple(row for row in called if row.calls and row.state != EntryState.CONFIRMED)


def tried(called: Sequence[CallTimeRow], queued: Sequence[QueuedRow]) -> tuple[Tried, ...]:
    """Lists what is left of a plan, the workload in which most time may be won first."""
    timed = [row for row in called if row.expected_ns is not None]
    timed_ns = sum(row.calls * (row.expected_ns or 0.0) for row in timed)
    ns_per_flop = timed_ns / (sum(row.calls * row.flops for row in timed) or 1) or 1.0
    own: dict[str, list[QueuedRow]] = defaultdict(list)
    for row in queued:
        own[row.workload_key].append(row)
    found = [_tried(row, own[row.workload_key], ns_per_flop) for row in unconfirmed(called)]
    return tuple(sorted(found, key=lambda each: -each.weight * each.gain))


def _tried(called: CallTimeRow, own: Sequence[QueuedRow], ns_per_flop: float) -> Tried:
    expected_ns = None if called.expected_ns is None else called.calls * called.expected_ns
    return Tried(
        workload_key=called.workload_key,
        calls=called.calls,
        flops=called.flops,
        expected_ns=expected_ns,
        weight=expected_ns or called.calls * called.flops * ns_per_flop,
        compiled=tuple(row for row in own if row.compiled_s is not None),
        waiting=sum(row.compiled_s is None for row in own),
    )


def compiled_since(left: Sequence[Tried], seconds: float) -> tuple[Tried, ...]:
    """Drops what was compiled before a time, in seconds since 1970."""
    return tuple(
        replace(
            of,
            compiled=tuple(
                row
                for row in of.compiled
                if row.compiled_s is not None and row.compiled_s > seconds
            ),
        )
        for of in left
    )


def batches(
    left: Sequence[Tried], sent: Mapping[str, Collection[str]], each: int
) -> tuple[Batch, ...]:
    """Batches what is not `sent`, by workload; at most `each` candidates of one are sent in all."""
    rounds: list[tuple[int, int, Batch]] = []
    for place, of in enumerate(left):
        before = sent.get(of.workload_key, ())
        new = [row for row in of.compiled if row.candidate_id not in before][: each - len(before)]
        for start in range(0, len(new), ROUND):
            round_number = (len(before) + start) // ROUND
            batch = Batch(of=of, candidates=tuple(new[start : start + ROUND]))
            rounds.append((round_number, place, batch))
    return tuple(batch for *_, batch in sorted(rounds, key=lambda found: found[:2]))


def read_together(found: Sequence[Batch], most: int) -> Iterator[tuple[Batch, ...]]:
    """Groups batches whose kernels are read at once, in their order: the first alone, so that its
    line comes at once, then as many as have at most so many candidates, or one that has more."""
    together: list[Batch] = []
    held = 0
    for number, batch in enumerate(found):
        if together and (number == 1 or held + len(batch.candidates) > most):
            yield tuple(together)
            together, held = [], 0
        together.append(batch)
        held += len(batch.candidates)
    if together:
        yield tuple(together)


def waiting(left: Sequence[Tried], sent: Mapping[str, Collection[str]], each: int) -> int:
    """Candidates yet to be compiled, of which some would be sent."""
    return sum(of.waiting for of in left if len(sent.get(of.workload_key, ())) < each)
