"""Finds the times that no device of a class can reach, whatever its owner says.

A kernel does its arithmetic and writes its output at the rates of the device at most. The rates are
claims of agents too. A claim of strangers can only loosen the bound on another agent: could it
tighten that bound, a few networks that come first to a class would call all honest agents of it
attackers. Only what the operator's own agents found of a class tightens it. One kernel is timed on
one core for wasm, whatever threads a page would use, and on the whole GPU for webgpu;
`agent_session.peak_gflops` is of the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload

SLACK = 1.25
"""A probe may read so much too little. On an idle machine the limit of one core spread by 4 %
between 40 runs, and the best kernel reached 99.8 % of it (bench/results/kernels_wasm.json); a probe
shares its core with the rest of a page load, and a clock may rise by a fifth once others are
idle."""

SPREAD = 4.0
"""Between devices of one class, and between cores of one: a probe that ran on a little core or on
a throttled phone reads a quarter of what a kernel gets later."""

CEILING_GFLOPS = {TargetKind.WASM: 256.0, TargetKind.WEBGPU: 262_144.0}
"""More than any device has, where no class is known: four units of four lanes at 5 GHz make 160 of
a core; the largest GPUs of 2026 have 126,000 of f32."""

PEERS = 3
"""Other networks, or agents of the operator, that make a class known."""

FULL_BYTES = 4
"""The peak is of f32. Entries of a half or a quarter of the size are computed two or four at once
(packed f16, dot products of i8)."""

LEVEL_STEP = 2**0.5
"""A level is the nearest power of two, so that the rate itself is at most this much more."""

CACHED_BYTES = 1 << 28
"""Output that no cache of a GPU takes up, so that the rate of its memory bounds it."""

REFERENCE_FASTER = 4.0
REFERENCE_SLOWER = 16.0
"""A device's time of the reference kernel may be so far from what the operator's agents of its
class found. A class is hardware as a browser tells it: with turbo, power saving and other pages,
devices of one differ by a factor of four both ways (SPREAD); a disturbed one is slower by as much
again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRates:
    """GFLOP/s of registers and GB/s of writing, as levels of a probe; 0 where not known."""

    peak_gflops: float
    written_gbps: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedDevice:
    """A device that measured: its own claim, and what others claim of this class: `peers` each of
    the other networks whose agents are proven, `operated` each agent of the operator.

    `reference_ns`: the best of each agent of the operator for the lease's reference kernel.
    """

    target: TargetKind
    claimed: DeviceRates
    peers: Sequence[DeviceRates]
    operated: Sequence[DeviceRates]
    reference_ns: Sequence[float]


def believed_rate(
    claimed: float, peers: Sequence[float], operated: Sequence[float], ceiling: float
) -> float:
    """The claim, or the median of the class where that is more; at most the `ceiling`, and
    `SPREAD` times what the operator's agents found. A rate of 0 is not known.
    """
    own, others = _usual(operated), _usual(peers)
    most = min(ceiling, own * SPREAD) if own else ceiling
    return min(max(claimed or most, own, others), most)


def _usual(rates: Sequence[float]) -> float:
    """The median of those that are known; 0 where too few are."""
    known = [rate for rate in rates if rate]
    return median(known) if len(known) >= PEERS else 0.0


def fastest_ns(workload: Workload, device: ClaimedDevice) -> float:
    """No honest time of one call is below this."""
    ceiling = CEILING_GFLOPS[device.target]
    peers = [each.peak_gflops for each in device.peers]
    operated = [each.peak_gflops for each in device.operated]
    gain = FULL_BYTES / min(tensor.dtype.size_bytes for tensor in workload.tensors)
    gflops = believed_rate(device.claimed.peak_gflops, peers, operated, ceiling) * gain
    return max(workload.flops / gflops, _writing_ns(workload, device)) / SLACK


def _writing_ns(workload: Workload, device: ClaimedDevice) -> float:
    """Judges the output alone: an operator need not read all of its inputs."""
    written = workload.output.size_bytes
    peers = [each.written_gbps for each in device.peers]
    operated = [each.written_gbps for each in device.operated]
    cached = device.target is TargetKind.WEBGPU and written < CACHED_BYTES
    if cached or not device.claimed.written_gbps:
        return 0.0
    rate = believed_rate(device.claimed.written_gbps, peers, operated, float("inf"))
    return written / (rate * LEVEL_STEP)


def impossible(
    workload: Workload, device: ClaimedDevice, best_ns: float, reference_ns: float
) -> str:
    """Says why these best times of a candidate and the reference beside it cannot be; '' if they
    can."""
    limit_ns = fastest_ns(workload, device)
    if min(best_ns, reference_ns) < limit_ns:
        return (
            f"{min(best_ns, reference_ns):.4g} ns for {workload.flops} operations; "
            f"this device takes {limit_ns:.4g} ns at least"
        )
    if len(device.reference_ns) < PEERS:
        return ""
    usual_ns = median(device.reference_ns)
    if usual_ns / REFERENCE_FASTER <= reference_ns <= usual_ns * REFERENCE_SLOWER:
        return ""
    return (
        f"the reference took {reference_ns:.4g} ns; the operator's agents found {usual_ns:.4g} ns"
    )
