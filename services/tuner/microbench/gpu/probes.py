"""The suite of GPUs: primitives, each in its base and its advanced setting, the limit of the GPU,
a stream, and a dispatch of nothing. docs/adr/0013 says which primitives are not in it, and why.
"""

from dataclasses import dataclass

from kernelzoo.domain.artifact import Dispatch
from services.tuner.codegen.wgsl.module import print_module
from services.tuner.ir.nodes import Program
from services.tuner.microbench.gpu import registers, splits, streams, teams
from services.tuner.microbench.gpu.nests import GROUPS, SINK, SOURCE
from services.tuner.microbench.gpu.tiles import TileLoop
from services.tuner.schedules.base.f16_storage import SHADER_F16, F16Storage
from services.tuner.schedules.reduction.webgpu_config import SUBGROUPS

SUITE = 102
"""Version of the suite: raise it when a probe, a margin, or the order of the list changes. Those of
GPUs begin at 101."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSetting:
    """A WGSL module of ABI 1 with two tensors, source and sink. `work` is that of all its
    dispatches: floating-point operations, or bytes of a stream.
    """

    text: str
    requires: tuple[str, ...]
    dispatches: tuple[Dispatch, ...]
    source_bytes: int
    sink_bytes: int
    scratch_bytes: int
    work: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProbe:
    """Its bit is 1 where the advanced setting is at least `margin` times as fast as the base.

    Both are names of settings.
    """

    primitive: str
    margin: float
    base: str
    advanced: str


def settings() -> dict[str, GpuSetting]:
    """By name; a setting may be part of several probes."""
    return {
        "direct": _tile(TileLoop()),
        "staged": _tile(TileLoop(staged=True)),
        "scalar": _tile(TileLoop(wide=False)),
        "whole": _setting(splits.whole(), splits.FLOPS),
        "split": _setting(splits.split(), splits.FLOPS),
        "packed": _tile(TileLoop(half=True)),
        "native": _tile(TileLoop(half=True), F16Storage.NATIVE, (SHADER_F16,)),
        "levels": _sums(teams.levels()),
        "subgroups": _sums(teams.subgroups(), (SUBGROUPS,)),
        "peak": _setting((registers.sums_of_products(),), _peak_flops()),
        "stream": _setting((streams.stream(),), streams.BYTES),
        "nothing": _setting((streams.nothing(),), 1),
    }


def suite() -> tuple[GpuProbe, ...]:
    """In the order of the bits of the primitive vector. The bit of a setting that requires what a
    device lacks is 0.

    Margins lie between a tie, as software renderers on busy machines show it, and the H200.
    """
    return (
        GpuProbe(primitive="cache_read", margin=1.3, base="direct", advanced="staged"),
        GpuProbe(primitive="vec4", margin=1.4, base="scalar", advanced="direct"),
        GpuProbe(primitive="split_k", margin=2.0, base="whole", advanced="split"),
        GpuProbe(primitive="native_halves", margin=1.2, base="packed", advanced="native"),
        GpuProbe(primitive="subgroups", margin=1.2, base="levels", advanced="subgroups"),
    )


def _peak_flops() -> int:
    return registers.FLOPS * registers.THREADS * GROUPS


def _tile(
    loop: TileLoop, halves: F16Storage = F16Storage.PACKED, requires: tuple[str, ...] = ()
) -> GpuSetting:
    work = loop.flops * loop.groups
    return _setting((loop.program(),), work, halves=halves, requires=requires)


def _sums(programs: tuple[Program, ...], requires: tuple[str, ...] = ()) -> GpuSetting:
    return _setting(programs, teams.FLOPS, requires=requires, tensors=teams.TENSORS)


def _setting(
    programs: tuple[Program, ...],
    work: int,
    *,
    halves: F16Storage = F16Storage.PACKED,
    requires: tuple[str, ...] = (),
    tensors: tuple[str, ...] = (SOURCE, SINK),
) -> GpuSetting:
    module = print_module(programs, tensors, halves)
    sizes = {b.name: b.dtype.size_bytes * b.size for p in programs for b in p.parameters}
    return GpuSetting(
        text=module.text,
        requires=requires,
        dispatches=module.dispatches,
        source_bytes=sizes[tensors[0]],
        sink_bytes=sizes[tensors[-1]],
        scratch_bytes=module.scratch_bytes,
        work=work,
    )
