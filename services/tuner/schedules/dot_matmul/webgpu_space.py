"""The lite space of dot products of bytes on WebGPU: the blocks and tiles of products of reals."""

from dataclasses import fields
from itertools import islice

from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.base.integer_product import integer_product_of
from services.tuner.schedules.dot_matmul.webgpu_config import (
    WebgpuDotMatmulConfig,
    extents_in_words,
)
from services.tuner.schedules.matmul.webgpu_config import WebgpuMatmulConfig
from services.tuner.schedules.matmul.webgpu_space import product_configs

MOST_CANDIDATES = 44
"""Beside the kernels that every GPU runs, of which there are 28."""


def dot_matmul_configs(workload: Workload, gpu: GpuModel) -> tuple[WebgpuDotMatmulConfig, ...]:
    """Lists blocks of words in the order in which those of reals would be measured."""
    extents = extents_in_words(integer_product_of(workload))
    found = product_configs(extents, gpu, lambda config: _of_words(config).fits(workload))
    return tuple(map(_of_words, islice(found, MOST_CANDIDATES)))


def _of_words(config: WebgpuMatmulConfig) -> WebgpuDotMatmulConfig:
    return WebgpuDotMatmulConfig(
        **{each.name: getattr(config, each.name) for each in fields(config)}
    )
