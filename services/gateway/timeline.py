"""Computes what an inference took on a class of devices, from one leading kernel to the next."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from kernelzoo.store.timelines import FirstTimeRow, VersionTimeRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Swap:
    """From `at` on an inference takes `elapsed_ns`, as the calls of `workload_key` take `after_ns`
    instead of `before_ns` with this candidate. `served`: pages are given it; else it leads, and too
    few have voted.
    """

    at: datetime
    elapsed_ns: float
    workload_key: str
    candidate_id: str
    before_ns: float
    after_ns: float
    served: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """`first_ns`: an inference of default kernels. `measured`: the share of its operations whose
    times are known; the others are taken to run as fast as the default kernels.
    """

    first_ns: float
    measured: float
    swaps: tuple[Swap, ...]


def timeline(
    workloads: Sequence[FirstTimeRow], versions: Sequence[VersionTimeRow]
) -> Timeline | None:
    """None while nothing is measured. `versions`: the earliest first."""
    default = {
        row.workload_key: row.calls * row.default_ns
        for row in workloads
        if row.default_ns is not None
    }
    if not default:
        return None
    took = dict(default)
    flops = {row.workload_key: row.calls * row.flops for row in workloads}
    known = sum(flops[key] for key in took)
    rest_ns = (sum(flops.values()) - known) * sum(took.values()) / (known or 1)
    first_ns = sum(took.values()) + rest_ns
    swaps: list[Swap] = []
    replaced: set[str] = set()
    for row in versions:
        # Where the default kernel leads at first, votes for it change nothing.
        changes = row.relative_time != 1 or row.workload_key in replaced
        if row.workload_key not in default or not changes:
            continue
        replaced.add(row.workload_key)
        before_ns = took[row.workload_key]
        took[row.workload_key] = after_ns = default[row.workload_key] * row.relative_time
        swaps.append(
            Swap(
                at=row.published_at,
                elapsed_ns=sum(took.values()) + rest_ns,
                workload_key=row.workload_key,
                candidate_id=row.candidate_id,
                before_ns=before_ns,
                after_ns=after_ns,
                served=row.served,
            )
        )
    measured = known / (sum(flops.values()) or 1)
    return Timeline(first_ns=first_ns, measured=measured, swaps=tuple(swaps))
