"""Decides how kernels read and write tensors of f16: a setting that every config of such a workload
has."""

from dataclasses import replace

from kernelzoo.domain.candidate import Candidate
from services.tuner.ir.f16_storage import F16Storage

SETTING = "f16_storage"
SHADER_F16 = "shader-f16"


def f16_storage_of(candidate: Candidate) -> F16Storage:
    """PACKED for a candidate without the setting: its kernel has no f16, so that either will do."""
    return F16Storage(str(dict(candidate.config).get(SETTING, F16Storage.PACKED)))


def with_native_f16(candidate: Candidate) -> Candidate:
    """Returns the kernel with tensors of the adapter's type f16."""
    settings = dict(candidate.config) | {SETTING: str(F16Storage.NATIVE)}
    wanted = tuple(sorted({*candidate.requires, SHADER_F16}))
    return replace(candidate, config=tuple(sorted(settings.items())), requires=wanted)
