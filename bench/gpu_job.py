"""What the page is told to do: cases with their seeds, tolerances and compiled candidates."""

from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from bench.gpu_cases import GpuCase
from kernelzoo.domain.seeded import comparison_tolerance

SEED = 1


class Camel(BaseModel):
    """Named in Python as Python names, in JSON as TypeScript does."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class JobTensor(Camel):
    name: str
    shape: tuple[int, ...]


class JobCase(Camel):
    """As `GpuCase` of `page/src/webgpu/request.ts`."""

    name: str
    workload: str
    flops: int
    seed: int
    tolerance: float
    tensors: tuple[JobTensor, ...]
    reads_once: int | None


class Job(Camel):
    """As `GpuJob` of `page/src/webgpu/request.ts`."""

    limit_ms: float
    rounds: int
    rounds_limit_ms: float
    cases: tuple[JobCase, ...]

    def as_json(self) -> bytes:
        return self.model_dump_json(by_alias=True).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """`limit_s` is for all cases together, `rounds_limit_s` for the rounds of one."""

    limit_s: float = 480.0
    rounds: int = 9
    rounds_limit_s: float = 20.0


def job(cases: Iterable[GpuCase], effort: Effort) -> Job:
    return Job(
        limit_ms=1e3 * effort.limit_s,
        rounds=effort.rounds,
        rounds_limit_ms=1e3 * effort.rounds_limit_s,
        cases=tuple(_case(each) for each in cases),
    )


def _case(case: GpuCase) -> JobCase:
    workload = case.workload
    tensors = tuple(JobTensor(name=each.name, shape=each.shape) for each in workload.tensors)
    return JobCase(
        name=case.name,
        workload=workload.key,
        flops=workload.flops,
        seed=SEED,
        tolerance=comparison_tolerance(workload),
        tensors=tensors,
        reads_once=1 if case.reads_once else None,
    )
