"""A network imported, tuned, and served as files of a static host."""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from time import perf_counter

from bench.models.costs import Costs
from bench.models.files import NetworkFiles
from bench.models.tuning import Choices, default
from bench.site import BenchSite
from fixtures.model_site import Files, SiteKernels, offer_for_runs, with_roundings, write_model
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import ANY_GPU
from kernelzoo.domain.plan import Plan
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.formats.bundle import VERSION
from kernelzoo.formats.plans import plan_bytes
from services.tuner.graph.importing import imported
from services.tuner.graph.models import PlannedModel, plan_graphs, plan_model
from services.tuner.graph.reading import read_model
from services.tuner.graph.storing import Storing
from services.tuner.schedules.registry import lite_space

ZOO = "/zoo"
CLASS = ""
GPU_CLASS = "0123456789abcdef:r101-0:webgpu"
"""A class of which nothing is known."""
WEBGPU = TargetKind.WEBGPU
WORTH_TUNING = 0.0005
"""Share of a network's operations below which a workload keeps its default kernel."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """`address` is that of the zoo's answer. `memory_bytes`: weights and activations. `int8_bytes`
    are those of the file of weights in int8, if there is one."""

    address: str
    flops: int
    import_s: float
    plan_gzip_bytes: int
    memory_bytes: int
    weights_bytes: int
    int8_bytes: int | None


def prepare(
    site: BenchSite,
    network: NetworkFiles,
    choices: Choices,
    folder: Path,
    *,
    tune: bool,
    int8: bool = False,
    variants: bool = False,
    costs: Costs | None = None,
) -> Prepared:
    """Files go to `folder`, which must last as long as the site. With `int8` the network is there
    with such weights, too, under `NAME-int8.json`; with `variants` also with default kernels alone
    and for WebGPU, under `NAME-defaults.json` and `NAME-webgpu.json`. With `costs` the answer has
    kernels for few runs."""
    name = network.case.name
    started = perf_counter()
    planned = _planned(network)
    import_s = perf_counter() - started
    (plan,), (golden,), (calls,) = planned.plans, planned.golden, planned.calls
    flops = sum(call.flops for call in calls)
    least = WORTH_TUNING * flops
    large = (call.workload for call in calls if call.flops >= least)
    worth = {each.key: with_roundings(each) for each in large}
    if tune:
        choices.tune(site, worth.values())
    if tune and costs is not None:
        costs.measure(site, worth.values())
    kernels = {
        each.key: SiteKernels(candidate=choices(each), fallback=default(each))
        for each in planned.workloads
    }
    files = Files(weights=b"".join(planned.weights.blocks()), golden=golden)
    answer = write_model(folder, CLASS, plan, files, kernels)
    if costs is not None:
        offered = {each.key: costs.offered(each) for each in worth.values()}
        offer_for_runs(answer, {key: found for key, found in offered.items() if found})
    _write_single(answer)
    int8_bytes = _write_int8(network, folder, kernels) if int8 else None
    if variants:
        usual = {key: each.fallback for key, each in kernels.items()}
        _write_variant(folder, plan, "defaults", CLASS, usual)
        on_gpu = {each.key: lite_space(each, WEBGPU, ANY_GPU)[0] for each in planned.workloads}
        _write_variant(folder, plan, "webgpu", GPU_CLASS, on_gpu)
    for file in folder.rglob("*"):
        site.lend(f"{ZOO}/{name}/{file.relative_to(folder).as_posix()}", file)
    empty = {"bundle": VERSION, "set": "none", "manifests": []}
    site.publish(f"{ZOO}/bundle.json", json.dumps(empty).encode())
    return Prepared(
        address=f"{ZOO}/{name}/{name}.json",
        flops=flops,
        import_s=import_s,
        plan_gzip_bytes=len(gzip.compress(plan_bytes(plan))),
        memory_bytes=plan.memory.weights + plan.memory.activations,
        weights_bytes=plan.memory.weights,
        int8_bytes=int8_bytes,
    )


def _planned(network: NetworkFiles) -> PlannedModel:
    case = network.case
    graph = imported(read_model(network.onnx), case.dimensions, constants=case.constants)
    return plan_graphs([graph], [case.dimensions], case.name)


def _write_int8(network: NetworkFiles, folder: Path, kernels: Mapping[str, SiteKernels]) -> int:
    """The bytes of the weights file. How far outputs are then from PyTorch's is told elsewhere."""
    storing = Storing(storage=StorageType.INT8, max_error=inf)
    dimensions = [network.case.dimensions]
    planned = plan_model(network.onnx, dimensions, f"{network.case.name}-int8", storing=storing)
    (plan,), (golden,) = planned.plans, planned.golden
    files = Files(weights=b"".join(planned.weights.blocks()), golden=golden)
    write_model(folder, CLASS, plan, files, kernels)
    return plan.file_bytes


def _write_variant(
    folder: Path,
    plan: Plan,
    variant: str,
    device_class: str,
    candidates: Mapping[str, Candidate],
) -> None:
    """Writes the network on other kernels. It has the weights and golden outputs of the usual
    one."""
    kernels = {key: SiteKernels(candidate=each, fallback=each) for key, each in candidates.items()}
    named = replace(plan, model=f"{plan.model}-{variant}")
    answer = write_model(folder, device_class, named, Files(weights=b"", golden=b""), kernels)
    usual = json.loads((folder / f"{plan.model}.json").read_text())
    shared = {name: usual[name] for name in ("weights", "golden")}
    answer.write_text(json.dumps(json.loads(answer.read_text()) | shared))
    for name in shared:
        (folder / f"{named.model}.{name}").unlink()


def _write_single(answer: Path) -> None:
    """Beside an answer the same with each kernel in a module of its own."""
    single = json.loads(answer.read_text()) | {"module": None}
    answer.with_name(f"{answer.stem}.single.json").write_text(json.dumps(single))
