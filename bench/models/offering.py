"""Answers for a plan on WebGPU as a zoo that knows nothing, and lists the kernels to choose
from."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.models.ours import GPU_CLASS
from fixtures.model_site import Files, SiteKernels, described, write_model
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space

Spaces = Mapping[str, Sequence[Mapping[str, Any]]]
"""Kernels as a manifest has them, by workload."""


def offered(
    zoo: Path, plan: Plan, workloads: Sequence[Workload], gpu: GpuModel, tuned: Mapping[str, int]
) -> Spaces:
    """Writes the answer with the default kernels, without weights and golden outputs, and the most
    promising candidates of the workloads `tuned`, so many of each, in whose order they are
    screened."""
    spaces = {each.key: lite_space(each, TargetKind.WEBGPU, gpu) for each in workloads}
    kernels = {
        key: SiteKernels(candidate=space[0], fallback=space[0]) for key, space in spaces.items()
    }
    write_unfilled(zoo, GPU_CLASS, plan, kernels)
    artifacts: dict[str, Artifact] = {}
    found = {
        key: [described(each, None, artifacts) for each in islice(spaces[key], most)]
        for key, most in tuned.items()
        if len(spaces[key]) > 1
    }
    for name, made in artifacts.items():
        (zoo / "v1" / "artifacts" / f"{name}.{made.manifest.target}").write_bytes(made.body)
    print(f"{plan.model} is exported", flush=True)
    return found


def write_unfilled(
    zoo: Path,
    device_class: str,
    plan: Plan,
    kernels: Mapping[str, SiteKernels],
) -> None:
    """The answer for a plan, without weights and golden outputs."""
    zoo.mkdir(parents=True, exist_ok=True)
    write_model(zoo, device_class, plan, Files(weights=b"", golden=b""), kernels)
    for kind in ("weights", "golden"):
        (zoo / f"{plan.model}.{kind}").unlink()
