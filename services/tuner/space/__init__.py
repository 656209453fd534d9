"""The lite space: the few dozen candidates of a workload that are worth measuring."""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.errors import InvalidInput
from services.tuner.extents import Extents
from services.tuner.space.lite import lite_configs
from services.tuner.space.naive import naive_space_size

__all__ = ["lite_space", "naive_space_size"]


def lite_space(workload: Workload, kind: TargetKind) -> tuple[Candidate, ...]:
    """Valid candidates, none twice, at least one, ordered by promise.

    The first that requires simd128 alone is the default of devices that nothing is known about.
    Raises InvalidInput for a kind that has no space yet.
    """
    if kind is not TargetKind.WASM:
        raise InvalidInput(f"there is no space for target {kind} yet; use {TargetKind.WASM}")
    return tuple(config.candidate(workload) for config in lite_configs(Extents.of(workload)))
