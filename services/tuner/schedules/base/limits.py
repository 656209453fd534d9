"""Tells which optional limits of WebGPU a kernel needs: the steps that it requires of a target."""

from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidSchedule

THREADS = ((256, ""), (512, "invocations-512"), (1024, "invocations-1024"))
WORKGROUP_BYTES = (
    (16_384, ""),
    (32_768, "workgroup-memory-32k"),
    (49_152, "workgroup-memory-48k"),
    (65_536, "workgroup-memory-64k"),
)
BINDING_BYTES = ((1 << 27, ""), (1 << 28, "binding-256m"))
"""Most that each step allows; the first of each is what every adapter has (WebGPU, section 3.6.2).
A GPU that reaches the last step of bindings may bind more: who runs such a kernel looks at the
limits of the device itself.
"""

SUBGROUPS, DOT_OF_BYTES = "subgroups", "dot-of-bytes"

MAX_THREADS = THREADS[-1][0]
MAX_BINDING_BYTES = BINDING_BYTES[-1][0]

WORKGROUP_THREADS = (32, 64, 128, 256)
"""Sizes of workgroups, where a kernel takes any."""

FEW_LANES = 8
"""A GPU of fewer lanes to a warp is a processor: threads wait at barriers one after another."""


def required(
    workload: Workload,
    *,
    threads: int,
    workgroup_bytes: int = 0,
    scratch_bytes: int = 0,
    subgroups: bool = False,
    dots: bool = False,
) -> tuple[str, ...]:
    """Sorted. Raises InvalidSchedule for more threads or workgroup memory than the last step."""
    bound_bytes = max(scratch_bytes, *(tensor.size_bytes for tensor in workload.tensors))
    steps = (
        _step(THREADS, threads, "threads to a workgroup"),
        _step(WORKGROUP_BYTES, workgroup_bytes, "bytes of workgroup memory"),
        _step(BINDING_BYTES, min(bound_bytes, MAX_BINDING_BYTES), "bytes of one buffer"),
        SUBGROUPS if subgroups else "",
        DOT_OF_BYTES if dots else "",
    )
    return tuple(sorted(filter(None, steps)))


def _step(steps: tuple[tuple[int, str], ...], wanted: int, what: str) -> str:
    for most, step in steps:
        if wanted <= most:
            return step
    raise InvalidSchedule(f"{wanted} {what} are too many; use at most {steps[-1][0]}")
