"""What a zoo that knows nothing answers for a plan on WebGPU, and the kernels to choose from."""

from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from bench.models.ours import learn_roundings
from fixtures.model_site import Files, SiteKernels, described, write_model
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.gpu import GpuModel
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.schedules.registry import lite_space

DEVICE_CLASS = "0123456789abcdef:r101-0:webgpu"
"""A class of which nothing is known."""

MOST_CANDIDATES = 32
"""How many are screened of a workload, the most promising first."""

Spaces = Mapping[str, Sequence[Mapping[str, Any]]]
"""Kernels as a manifest has them, by workload."""


def offered(
    zoo: Path, plan: Plan, workloads: Sequence[Workload], gpu: GpuModel, tuned: Collection[str]
) -> Spaces:
    """Writes the answer with the default kernels, without weights and golden outputs, and the
    candidates of the workloads `tuned`, in whose order they are screened."""
    for workload in workloads:
        learn_roundings(workload)
    spaces = {each.key: lite_space(each, TargetKind.WEBGPU, gpu) for each in workloads}
    kernels = {
        key: SiteKernels(candidate=space[0], fallback=space[0]) for key, space in spaces.items()
    }
    zoo.mkdir(parents=True, exist_ok=True)
    write_model(zoo, DEVICE_CLASS, plan, Files(weights=b"", golden=b""), kernels)
    for kind in ("weights", "golden"):
        (zoo / f"{plan.model}.{kind}").unlink()
    artifacts: dict[str, Artifact] = {}
    found = {
        key: [described(each, None, artifacts) for each in islice(spaces[key], MOST_CANDIDATES)]
        for key in tuned
        if len(spaces[key]) > 1
    }
    for name, made in artifacts.items():
        (zoo / "v1" / "artifacts" / f"{name}.{made.manifest.target}").write_bytes(made.body)
    print(f"{plan.model} is exported", flush=True)
    return found
