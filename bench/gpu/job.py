"""Tells the page what to do: a lease with every candidate of a space, for each case."""

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median
from time import thread_time_ns

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from bench.gpu.cases import GpuCase
from bench.kernels.page_lease import CompiledKernel, compiled, lease
from bench.report import commit
from kernelzoo.domain.candidate import FAMILY, Candidate, Setting
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.target import TargetKind
from services.gateway.wire.leases import Lease
from services.tuner.compile import compile_candidate
from services.tuner.schedules.matmul.webgpu_config import WebgpuMatmulConfig
from services.tuner.schedules.registry import lite_space

LEFT_OUT = (1, "none", False)
"""Settings with such a value say that something is not done."""


class _Camel(BaseModel):
    """Named in JSON as TypeScript names it."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class JobCase(_Camel):
    """Mirrors `GpuCase` of `page/src/webgpu/request.ts`."""

    lease: Lease
    configs: dict[str, str]
    compile_ms: float
    reads_once: int | None
    moves: bool


class JobRounds(_Camel):
    least: int
    most: int


class GpuJob(_Camel):
    """Mirrors `GpuJob` of `page/src/webgpu/request.ts`."""

    commit: str
    limit_ms: float
    tune_limit_ms: float
    rounds: JobRounds
    cases: tuple[JobCase, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """`limit_s` is for all cases together, `tune_limit_s` for tuning one."""

    limit_s: float
    tune_limit_s: float
    least_rounds: int
    most_rounds: int


ON_GPU = Effort(limit_s=420, tune_limit_s=60, least_rounds=7, most_rounds=15)
ON_CPU = Effort(limit_s=300, tune_limit_s=60, least_rounds=3, most_rounds=3)
"""An adapter that is a CPU gets this effort, as calls take up to seconds."""

BRIEFLY = Effort(limit_s=60, tune_limit_s=3, least_rounds=1, most_rounds=1)
"""To see that the benchmark works."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpace:
    """A case with its compiled lite space; the first kernel runs on every adapter.

    `compile_ms` is the processor's time for one of them, at the median.
    """

    case: GpuCase
    candidates: tuple[Candidate, ...]
    compiled: tuple[CompiledKernel, ...]
    compile_ms: float

    @classmethod
    def of(cls, case: GpuCase, gpu: GpuModel) -> "GpuSpace":
        space = lite_space(case.workload, TargetKind.WEBGPU, gpu)
        compile_candidate(space[0])
        made, times_ms = zip(*map(_timed, space), strict=True)
        return cls(case=case, candidates=space, compiled=made, compile_ms=median(times_ms))

    @property
    def configs(self) -> dict[str, str]:
        """Names each candidate for people, by its id."""
        return {each.candidate_id: short_name(each) for each in self.candidates}

    @property
    def artifacts(self) -> dict[str, bytes]:
        return {_path(each): each.artifact.body for each in self.compiled}


def _timed(candidate: Candidate) -> tuple[CompiledKernel, float]:
    start_ns = thread_time_ns()
    artifact = compile_candidate(candidate)
    return compiled(candidate, artifact), (thread_time_ns() - start_ns) / 1e6


def job(spaces: Iterable[GpuSpace], effort: Effort) -> GpuJob:
    return GpuJob(
        commit=commit() or "",
        limit_ms=1e3 * effort.limit_s,
        tune_limit_ms=1e3 * effort.tune_limit_s,
        rounds=JobRounds(least=effort.least_rounds, most=effort.most_rounds),
        cases=tuple(_case(each) for each in spaces),
    )


def _case(space: GpuSpace) -> JobCase:
    """Addresses are relative, so that the folder may be served from anywhere."""
    made = lease(space.case, space.compiled[0], space.compiled)
    paths = [_path(each) for each in space.compiled]
    kernels = [
        kernel.model_copy(update={"url": f"/{path}"})
        for kernel, path in zip(made.candidates, paths, strict=True)
    ]
    moved = made.model_copy(update={"reference": kernels[0], "candidates": kernels})
    reads_once = 1 if space.case.reads_once else None
    return JobCase(
        lease=moved,
        configs=space.configs,
        compile_ms=space.compile_ms,
        reads_once=reads_once,
        moves=space.case.moves,
    )


def short_name(candidate: Candidate) -> str:
    """'64x64x16/8x8 transposed registers split4 unroll4': a block, a thread's tile of it, and what
    else is not left out. Configs of other families are named setting by setting.
    """
    config = dict(candidate.config)
    family = config.pop(FAMILY)
    if family != WebgpuMatmulConfig.family:
        return " ".join(f"{name}={value}" for name, value in config.items())
    block = "x".join(str(config.pop(name)) for name in ("block_m", "block_n", "block_k"))
    tile = "x".join(str(config.pop(name)) for name in ("tile_m", "tile_n"))
    rest = (_setting(*each) for each in config.items() if each[1] not in LEFT_OUT)
    return " ".join((f"{block}/{tile}", *rest))


def _setting(name: str, value: Setting) -> str:
    return value if isinstance(value, str) else f"{name.partition('_')[0]}{value}"


def _path(made: CompiledKernel) -> str:
    return f"artifacts/{made.artifact.sha256}.wgsl"
