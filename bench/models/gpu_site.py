"""Whole networks and the WebGPU kernels of their workloads as a folder of static files.

It is made in two steps. `export` needs the compiler and leaves the weights out, so that the folder
can be sent to a machine with a GPU. `python -m bench.models.gpu_site FOLDER` fills in weights by a
seed there: it needs neither TVM nor a browser.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import repeat
from math import inf
from multiprocessing import get_context
from pathlib import Path
from shutil import copyfile
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray

from bench.models.onnx_f16 import in_f16
from bench.models.seeded import emptied, filled
from bench.report import CannotMeasure, commit
from bench.site import MODULES, PAGE
from fixtures.static_file import placed
from kernelzoo.domain.plan import GoldenPart, Plan, Port
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.formats.plans import plan_document
from services.tuner.graph.models import PlannedModel, graphs_of, plan_f16, plan_graphs
from services.tuner.graph.storing import Storing

SCRIPT = "kernelzooGpuModels.run()"
SCRIPTS = ("models-webgpu.js", "onnxruntime-webgpu-session.js")

F32, F16 = "f32", "f16"
WEIGHTS = (F32, str(StorageType.F16))
"""Weights of ours may be stored so."""
DTYPES = (F32, F16)
"""Values may have these dtypes in memory, ours and the peer's."""

MOST_ERROR = {F32: 0.02, F16: 0.1}
"""By how much outputs may differ from those of f32, by the dtype of values, in parts of their
largest magnitude: random weights amplify what deep layers are given."""

ZOO = "zoo"
"""The folder of what a zoo serves, in the site."""

ONNX_RUNTIME = ("ort-wasm-simd-threaded.jspi.mjs", "ort-wasm-simd-threaded.jspi.wasm")
CLIENT = PAGE.parents[1] / "client" / "dist"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContestEffort:
    """`tune_ms` is for the kernels of one network."""

    rounds: int
    tune_ms: float


ON_GPU = ContestEffort(rounds=9, tune_ms=40_000)
BRIEFLY = ContestEffort(rounds=2, tune_ms=1_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryForm:
    """`weights`: how ours are stored in their file; the peer's are as its file has them. `dtype`:
    as what values of both lie in memory."""

    dtype: str
    weights: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNetwork:
    """`spaces`: the kernels to choose from, as a manifest has them, by workload."""

    name: str
    dimensions: Mapping[str, int]
    onnx: Path
    flops: int
    spaces: Mapping[str, Sequence[Mapping[str, Any]]]
    form: MemoryForm


def planned_network(
    file: Path, dimensions: Mapping[str, int], name: str, form: MemoryForm, most_error: float = inf
) -> PlannedModel:
    """Weights of the file may be zeros, by which nothing is judged: then outputs may differ."""
    graphs = graphs_of(file, [dimensions])
    if form.dtype == F16:
        return plan_f16(graphs, [dimensions], name, most_error)
    storing = None
    if form.weights != F32 and most_error < inf:
        storing = Storing(storage=StorageType(form.weights), max_error=most_error)
    return plan_graphs(graphs, [dimensions], name, storing=storing)


def export(folder: Path, networks: Sequence[GpuNetwork], effort: ContestEffort) -> None:
    """Besides what `fixtures.model_site.write_model` wrote to the folder of the zoo. Raises
    CannotMeasure where the page is not built."""
    write_page(folder, "models-webgpu.html", SCRIPTS, SCRIPT)
    for network in networks:
        (folder / f"{network.name}.onnx").write_bytes(emptied(network.onnx))
    job = {
        "commit": commit() or "",
        "rounds": effort.rounds,
        "tuneMs": effort.tune_ms,
        "networks": [
            {
                "name": each.name,
                "dimensions": dict(each.dimensions),
                "flops": each.flops,
                "weights": each.form.weights,
                "dtype": each.form.dtype,
                "spaces": each.spaces,
                "onnx": f"{each.name}.onnx",
                "zoo": f"{ZOO}/{each.name}.json",
            }
            for each in networks
        ],
    }
    (folder / "job.json").write_text(json.dumps(job))


def fill(folder: Path, asked: Mapping[str, Any]) -> dict[str, Any]:
    """Makes the weights of a network, plans it anew and puts inputs and outputs beside it; the
    outputs are those that the import computes in NumPy, in f32, with weights as they are stored.
    Gives what the job says of them. With values of f16 the peer's file is such a network then."""
    name, form = asked["name"], MemoryForm(dtype=asked["dtype"], weights=asked["weights"])
    file = folder / f"{name}.onnx"
    model = filled(file.read_bytes())
    onnx.save(model, file)
    dimensions = json.loads((folder / ZOO / f"{name}.json").read_text())["dimensions"]
    planned = planned_network(file, dimensions, name, form, MOST_ERROR[form.dtype])
    if form.dtype == F16:
        onnx.save(in_f16(model), file)
    plan, golden = fill_answer(folder / ZOO, name, planned)
    return {
        "inputs": list(_tensors(folder, plan, plan.inputs, plan.golden.inputs, golden)),
        "outputs": list(_tensors(folder, plan, plan.outputs, plan.golden.outputs, golden)),
    }


def fill_answer(zoo: Path, name: str, made: PlannedModel) -> tuple[Plan, bytes]:
    """Puts a plan with its weights and golden outputs into the answer that was written without.
    Raises CannotMeasure where the answer has kernels of another plan."""
    answered = zoo / f"{name}.json"
    answer = json.loads(answered.read_text())
    (plan,), (golden,) = made.plans, made.golden
    if list(plan.kernels) != answer["plan"]["kernels"]:
        raise CannotMeasure(f"{name} is planned otherwise with these weights")
    answer |= {
        "plan": plan_document(plan),
        "weights": placed(zoo, f"{name}.weights", b"".join(made.weights.blocks())),
        "golden": placed(zoo, f"{name}.golden", golden),
    }
    answered.write_text(json.dumps(answer))
    return plan, golden


def _tensors(
    folder: Path, plan: Plan, ports: Sequence[Port], parts: Sequence[GoldenPart], golden: bytes
) -> Iterator[dict[str, Any]]:
    by_name = {part.name: part for part in parts}
    for port in ports:
        part = by_name[port.name]
        stored = np.dtype(np.float32 if port.dtype == "float32" else np.int32)
        entries: NDArray[Any] = np.frombuffer(golden, stored, part.bytes // 4, part.offset)
        name = f"{plan.model}.{port.name}.bin"
        (folder / name).write_bytes(entries.astype(port.dtype.value).tobytes())
        yield {"name": port.name, "dtype": port.dtype, "shape": list(port.shape), "url": name}


def fill_all(folder: Path) -> None:
    fill_models(folder, "networks", fill)


def fill_models(
    folder: Path, part: str, fill: Callable[[Path, Mapping[str, Any]], dict[str, Any]]
) -> None:
    """Fills the models of a part of the job side by side, each in a process of its own, and adds to
    the job what `fill` gives of each."""
    job = json.loads((folder / "job.json").read_text())
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        for model, told in zip(job[part], pool.map(fill, repeat(folder), job[part]), strict=True):
            model.update(told)
            print(f"{model['name']} has weights", flush=True)
    (folder / "job.json").write_text(json.dumps(job))


def write_page(folder: Path, page: str, scripts: Sequence[str], script: str) -> None:
    """The page as index.html with its scripts, our SDK with a bundle of nothing, onnxruntime-web,
    and `script`, a promise of what it answers, as the body of a function. Raises CannotMeasure
    where the page is not built."""
    built, runtime = PAGE / "dist", MODULES / "onnxruntime-web" / "dist"
    sources = {
        "index.html": built / page,
        **{name: built / name for name in scripts},
        **{f"client/{file.name}": file for file in CLIENT.glob("*.js")},
        **{f"client/chunks/{file.name}": file for file in CLIENT.glob("chunks/*.js")},
        **{f"onnxruntime-web/{name}": runtime / name for name in ONNX_RUNTIME},
    }
    for name, source in sources.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if not source.is_file():
            raise CannotMeasure(f"{source.name} is missing; run `make bench-page`")
        copyfile(source, target)
    (folder / "run.js").write_text(f"return await {script};\n")
    bundle = {"bundle": 1, "set": "none", "manifests": []}
    (folder / ZOO / "bundle.json").write_text(json.dumps(bundle))


if __name__ == "__main__":
    fill_all(Path(sys.argv[1]))
