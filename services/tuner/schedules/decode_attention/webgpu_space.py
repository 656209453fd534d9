"""The lite space of attention while decoding: threads to a head, parts of the cache."""

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
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
    parts = dict.fromkeys(-(-span // tokens) for tokens in TOKENS)
    ranked: dict[WebgpuDecodeAttentionConfig, int] = {}
    for thread_rank, threads in enumerate(THREADS):
        for part_rank, count in enumerate(parts):
            for group_rank, subgroups in enumerate((True, False)):
                config = WebgpuDecodeAttentionConfig(
                    threads=threads, parts=count, subgroups=subgroups
                )
                if not config.fault(workload) and config.fits(workload):
                    ranked[config] = thread_rank + part_rank + group_rank
    found = sorted(ranked, key=ranked.__getitem__)
    plain = min(
        (one for one in found if not one.requires(workload)),
        key=lambda one: one.workgroup_bytes_for(workload) > SMALL_BYTES,
    )
    return (plain, *(one for one in found if one != plain))
