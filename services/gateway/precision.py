"""Chooses the precision by which a page runs a model, where its plans have several."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from kernelzoo.domain.precision import Precision
from kernelzoo.store.kernel_times import VoiceTimeRow

KNOWN = 0.9
"""The share of an inference's operations whose times must be known, of every precision."""
MARGIN = 1.5
"""Another precision is to be so many times as fast as `UNMEASURED` while not all of its calls are
timed: those that quantise, copy and transpose take longer than their few operations say."""
UNMEASURED = Precision.F32
"""It is taken where too little was measured: it computes what the file says, and bytes may be
slower (MobileNetV2 on a Zen 4 takes 1.5 times as long with them)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """All calls of a workload in an inference: `flops` of one of them, and the kernel that is
    served for it by its candidate; None where none is compiled yet."""

    calls: int
    flops: int
    candidate_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An inference by a plan is expected to take `elapsed_ns`, None while nothing is known; the
    times of a share of its operations are `measured`. `missing`: workloads without a kernel."""

    precision: Precision
    elapsed_ns: float | None
    measured: float
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    precision: Precision
    reason: str


def believed(voices: Iterable[VoiceTimeRow], quorum: int) -> Mapping[str, float]:
    """Returns the median time of each kernel in ns, of those that a quorum told. Where a quorum is
    of the operator's agents, these alone tell it, as they alone vote then."""
    by_kernel: defaultdict[str, list[VoiceTimeRow]] = defaultdict(list)
    for each in voices:
        by_kernel[each.candidate_id].append(each)
    times: dict[str, float] = {}
    for name, told in by_kernel.items():
        own = [each for each in told if each.operated]
        heard = own if len(own) >= quorum else told
        if len(heard) >= quorum:
            times[name] = median(each.best_ns for each in heard)
    return times


def expected(
    precision: Precision, calls: Sequence[Call], times_ns: Mapping[str, float]
) -> Expected:
    """Adds up the times of the kernels that are served, as far as they are `believed`. What nobody
    measured is taken to run as fast as the rest."""
    timed = [
        (each, times_ns[each.candidate_id])
        for each in calls
        if each.candidate_id is not None and each.candidate_id in times_ns
    ]
    known = sum(each.calls * each.flops for each, _ in timed)
    total = sum(each.calls * each.flops for each in calls)
    elapsed_ns = sum(each.calls * best_ns for each, best_ns in timed)
    return Expected(
        precision=precision,
        elapsed_ns=elapsed_ns * total / known if known else None,
        measured=known / total if total else 0.0,
        missing=sum(each.candidate_id is None for each in calls),
    )


def choose(offers: Sequence[Expected], *, asked: bool = False) -> Choice:
    """Chooses the fastest plan of several precisions, as far as it is known. At least one is given,
    and one alone where a page `asked` for its precision."""
    if len(offers) == 1:
        reason = "It was asked for." if asked else "The model has no other here."
        return Choice(precision=offers[0].precision, reason=reason)
    complete = [each for each in offers if not each.missing]
    if len(complete) == 1:
        (lacking, *_) = (each for each in offers if each.missing)
        reason = f"Kernels of {lacking.precision} are not compiled yet."
        return Choice(precision=complete[0].precision, reason=reason)
    times = {each.precision: each.elapsed_ns for each in offers if each.measured >= KNOWN}
    known = {precision: ns for precision, ns in times.items() if ns is not None}
    uncertain = {each.precision for each in offers if each.measured < 1} - {UNMEASURED}
    if len(known) < len(offers):
        reason = f"Too little is measured here; it is {UNMEASURED} until more is."
        return Choice(precision=UNMEASURED, reason=reason)
    margins = {each: MARGIN if each in uncertain else 1.0 for each in known}
    chosen = min(known, key=lambda each: known[each] * margins[each])
    reason = _compared(known)
    if chosen is not min(known, key=lambda each: known[each]):
        reason += f" Not all calls are timed; it is {chosen} within {MARGIN:g} times as long."
    return Choice(precision=chosen, reason=reason)


def _compared(times_ns: Mapping[Precision, float]) -> str:
    ordered = sorted(times_ns, key=lambda each: times_ns[each])
    told = [f"{times_ns[each] / 1e6:.3g} ms with {each}" for each in ordered]
    return f"An inference is expected to take {' and '.join(told)}."
