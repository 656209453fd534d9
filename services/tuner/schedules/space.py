"""The lite space: the few dozen candidates of a workload that are worth measuring."""

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU, GpuModel
from kernelzoo.domain.operators import Family
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.extents import Extents, is_pointwise
from services.tuner.schedules.base.rules import STREAM_OTHERS, STREAMS_AFTER_PANELS
from services.tuner.schedules.conv.space import window_configs
from services.tuner.schedules.elementwise.space import map_configs
from services.tuner.schedules.gemv.config import StreamConfig, suits
from services.tuner.schedules.gemv.space import stream_configs
from services.tuner.schedules.matmul.config import ContractionConfig, Pack
from services.tuner.schedules.matmul.naive import naive_space_size
from services.tuner.schedules.matmul.space import lite_configs
from services.tuner.schedules.reduction.space import rows_configs
from services.tuner.schedules.webgpu_space import gpu_space

__all__ = ["lite_space", "naive_space_size"]


def lite_space(
    workload: Workload, kind: TargetKind, gpu: GpuModel = ANY_GPU
) -> tuple[Candidate, ...]:
    """Valid candidates, none twice, at least one, ordered by promise.

    The first that requires simd128 alone, or nothing of webgpu, is the default of devices that
    nothing is known about. A space of webgpu belongs to a model of GPU. Raises InvalidInput for a
    workload that the target has no kernels for.
    """
    refuse_unsupported(workload, kind)
    if kind is TargetKind.WEBGPU:
        return gpu_space(workload, gpu)
    family = workload.operator.family
    if family is Family.CONTRACTION or is_pointwise(workload):
        return _contractions(workload)
    match family:
        case Family.CONVOLUTION:
            return tuple(window.candidate(workload) for window in window_configs(workload))
        case Family.ROWS:
            return tuple(rows.candidate(workload) for rows in rows_configs(workload))
    return tuple(entries.candidate(workload) for entries in map_configs(workload))


def _contractions(workload: Workload) -> tuple[Candidate, ...]:
    """Register tiles; for few rows, passes over b before some of them, after those that read b in
    panels."""
    extents = Extents.of(workload)
    tiles = lite_configs(extents)
    if not suits(extents):
        return tuple(config.candidate(workload) for config in tiles)
    panels = [config for config in tiles if config.pack is Pack.BEFORE]
    streams = stream_configs(extents)[: STREAMS_AFTER_PANELS if panels else None]
    others = [config for config in tiles if config.pack is not Pack.BEFORE][:STREAM_OTHERS]
    ordered: tuple[ContractionConfig | StreamConfig, ...] = (*panels, *streams, *others)
    return tuple(config.candidate(workload) for config in ordered)
