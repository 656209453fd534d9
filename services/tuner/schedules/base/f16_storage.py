"""How kernels of f16 read and write their tensors: a setting that every config of them has."""

from dataclasses import replace
from enum import StrEnum

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.workload import Workload

SETTING = "halves"
SHADER_F16 = "shader-f16"


class Halves(StrEnum):
    """As pairs in words, which every adapter unpacks (`unpack2x16float`), or as the type f16 of
    adapters that have it. Both compute in f32."""

    PACKED = "packed"
    NATIVE = "native"


def has_halves(workload: Workload) -> bool:
    return workload.dtype is DType.F16


def halves_of(candidate: Candidate) -> Halves:
    """Of a candidate without the setting: its kernel has no f16, so that either will do."""
    return Halves(str(dict(candidate.config).get(SETTING, Halves.PACKED)))


def natively(candidate: Candidate) -> Candidate:
    """The same kernel of f16, by the type of the adapter."""
    settings = dict(candidate.config) | {SETTING: str(Halves.NATIVE)}
    wanted = tuple(sorted({*candidate.requires, SHADER_F16}))
    return replace(candidate, config=tuple(sorted(settings.items())), requires=wanted)
