"""The lite space of attention while decoding: threads to a head, parts of the cache."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.ranking import by_rank, ranked
from services.tuner.schedules.decode_attention.webgpu_config import (
    WebgpuDecodeAttentionConfig,
    shape_of,
)

THREADS = (256, 128, 512, 64, 1024)
TOKENS = (1024, 512, 2048, 256, 4096)
"""Tokens of the cache to a workgroup."""
SMALL_BYTES = 6_144


def decode_attention_configs(
    workload: Workload, _: GpuModel
) -> tuple[WebgpuDecodeAttentionConfig, ...]:
    """Ordered by the sum of the ranks of their settings; any driver compiles the first."""
    span = shape_of(workload).span
    parts = tuple(dict.fromkeys(-(-span // tokens) for tokens in TOKENS))
    points = (
        (WebgpuDecodeAttentionConfig(threads=threads, parts=count, subgroups=subgroups), rank)
        for rank, threads, count, subgroups in ranked(THREADS, parts, (True, False))
    )
    found = [one for one in by_rank(points, workload) if one.fits(workload)]
    plain = min(
        (one for one in found if not one.requires(workload)),
        key=lambda one: one.workgroup_bytes_for(workload) > SMALL_BYTES,
    )
    return (plain, *(one for one in found if one != plain))
