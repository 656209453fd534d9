"""Small networks as plans, with right outputs by NumPy."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import numpy_helper

from fixtures.encoder import Encoder
from fixtures.model_site import Files, SiteKernels, write_model
from fixtures.quantised_networks import by_onnxruntime, dynamic, feeds_of
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.plan import PlanTensor, PortDType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.weight_storage import StorageType
from kernelzoo.domain.workload import ProgramWorkload, Workload, resolved
from services.aggregator.verification import roundings
from services.tuner.compile import compile_candidate
from services.tuner.graph.evaluate import evaluate
from services.tuner.graph.golden import seeded_feeds
from services.tuner.graph.graph import Graph
from services.tuner.graph.importing import import_model
from services.tuner.graph.models import PlannedModel, plan_f16, plan_graphs
from services.tuner.graph.storage import StorageForm, stored_entries
from services.tuner.schedules.registry import lite_space
from tests.plans import PlannedNetwork, network
from tests.unit.graph.models import drawn, parsed, written
from tests.unit.graph.test_fuse import attention_in_vectors


def small(name: str = "small") -> PlannedNetwork:
    """Rows of a table, two layers with packed weights, and a residual that is added in place."""
    random = np.random.default_rng(7)
    table, w1, w2 = (
        random.standard_normal(shape, dtype=np.float32) for shape in ((20, 13), (13, 33), (33, 20))
    )
    bias = random.standard_normal(33, dtype=np.float32)
    ids = random.integers(0, 20, 9)
    x = random.standard_normal((9, 20), dtype=np.float32)
    hidden = table[ids] @ w1 + bias
    hidden = hidden * (1 + np.vectorize(erf)(hidden / np.sqrt(2))) / 2
    y = (hidden @ w2 + x).astype(np.float32)
    ids_at, x_at, rows_at, hidden_at, out_at = (64 * i for i in (0, 1, 13, 21, 40))
    return network(
        name,
        weights={"table": table, "w1": w1, "bias": bias, "w2": w2},
        tensors=[
            PlanTensor(dtype=DType.I32, shape=(9,), at=ids_at),
            PlanTensor(dtype=DType.F32, shape=(9, 20), at=x_at),
            PlanTensor(dtype=DType.F32, shape=(180,), at=x_at),
            PlanTensor(dtype=DType.F32, shape=(9, 13), at=rows_at),
            PlanTensor(dtype=DType.F32, shape=(9, 33), at=hidden_at),
            PlanTensor(dtype=DType.F32, shape=(9, 20), at=out_at),
            PlanTensor(dtype=DType.F32, shape=(180,), at=out_at),
        ],
        activations=64 * 52,
        calls=[
            ("gather:f32:m9k20n13", ("table", 0, 3), "embed"),
            ("matmul+bias+gelu:f32:m9k13n33:constant=b", (3, "w1", "bias", 4), "up"),
            ("matmul:f32:m9k33n20:constant=b", (4, "w2", 5), "down"),
            ("add:f32:n180", (6, 2, 6), "residual"),
        ],
        inputs={"ids": (PortDType.INT64, ids, 0), "x": (PortDType.FLOAT32, x, 1)},
        outputs={
            "y": (PortDType.FLOAT32, y, 5),
            "seen": (PortDType.INT64, ids, 0),
            "table": (PortDType.FLOAT32, table, "table"),
        },
    )


def deep(name: str = "deep", layers: int = 40, rows: int = 256, width: int = 512) -> PlannedNetwork:
    """One product after another, long enough to be stopped and to be shared among threads."""
    random = np.random.default_rng(8)
    w = random.standard_normal((width, width), dtype=np.float32) / np.float32(np.sqrt(width))
    x = random.standard_normal((rows, width), dtype=np.float32)
    y = x
    for _ in range(layers):
        y = y @ w
    size = rows * width * 4
    key = f"matmul:f32:m{rows}k{width}n{width}:constant=b"
    return network(
        name,
        weights={"w": w},
        tensors=[PlanTensor(dtype=DType.F32, shape=(rows, width), at=i * size) for i in (0, 1)],
        activations=2 * size,
        calls=[(key, (i % 2, "w", 1 - i % 2), f"layer {i}") for i in range(layers)],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, y, layers % 2)},
    )


def wide(name: str = "wide", rows: int = 9000) -> PlannedNetwork:
    """Two products with a value of 309 MiB between them, which no agent measures."""
    random = np.random.default_rng(11)
    x, w, v = (
        random.standard_normal(shape, dtype=np.float32)
        for shape in ((rows, 4), (4, rows), (rows, 8))
    )
    sizes = (4 * x.size, 4 * rows * rows)
    return network(
        name,
        weights={"w": w, "v": v},
        tensors=[
            PlanTensor(dtype=DType.F32, shape=(rows, 4), at=0),
            PlanTensor(dtype=DType.F32, shape=(rows, rows), at=sizes[0]),
            PlanTensor(dtype=DType.F32, shape=(rows, 8), at=sum(sizes)),
        ],
        activations=sum(sizes) + 4 * rows * 8,
        calls=[
            (f"matmul:f32:m{rows}k4n{rows}", (0, "w", 1), "out"),
            (f"matmul:f32:m{rows}k{rows}n8", (1, "v", 2), "in"),
        ],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, (x.astype(np.float64) @ (w @ v)).astype(np.float32), 2)},
    )


def widths(name: str = "widths", rows: int = 64) -> PlannedNetwork:
    """Products with different kernels, which one module has."""
    random = np.random.default_rng(10)
    sides = (128, 192, 256, 320, 384)
    weights = {
        f"w{k}": random.standard_normal((k, n), dtype=np.float32) / np.float32(np.sqrt(k))
        for k, n in pairwise(sides)
    }
    x = random.standard_normal((rows, sides[0]), dtype=np.float32)
    y = x
    for w in weights.values():
        y = y @ w
    size = rows * max(sides) * 4
    return network(
        name,
        weights=weights,
        tensors=[
            PlanTensor(dtype=DType.F32, shape=(rows, side), at=i % 2 * size)
            for i, side in enumerate(sides)
        ],
        activations=2 * size,
        calls=[
            (f"matmul:f32:m{rows}k{k}n{n}:constant=b", (i, f"w{k}", i + 1), f"to {n}")
            for i, (k, n) in enumerate(pairwise(sides))
        ],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, y, len(sides) - 1)},
    )


def few_bits(name: str = "few") -> PlannedNetwork:
    """Products with weights of each type; int8 with a scale for each row, and for each column."""
    random = np.random.default_rng(9)

    def entries() -> NDArray[np.float32]:
        return random.standard_normal((96, 96), dtype=np.float32)

    louder = np.linspace(0.1, 10, 96, dtype=np.float32)
    made = {each.value: stored_entries(entries(), StorageForm(each)) for each in StorageType}
    int8 = StorageForm(StorageType.INT8)
    made |= {
        "rows": stored_entries(entries() * louder[:, None], int8),
        "columns": stored_entries(entries() * louder, int8),
    }
    weights = {label: each.entries.astype(np.float32) for label, each in made.items()}
    x = random.standard_normal((8, 96), dtype=np.float32)
    y = x
    for w in weights.values():
        y = y @ w
    size = x.nbytes
    key = "matmul:f32:m8k96n96:constant=b"
    return network(
        name,
        weights=weights,
        stored=made,
        tensors=[PlanTensor(dtype=DType.F32, shape=(8, 96), at=i * size) for i in (0, 1)],
        activations=2 * size,
        calls=[(key, (i % 2, label, 1 - i % 2), label) for i, label in enumerate(weights)],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, y, 0)},
    )


def attentive(name: str = "half") -> tuple[PlannedNetwork, PlannedNetwork]:
    """A layer with attention, as `in_both_precisions`."""
    return in_both_precisions(attention_in_vectors(), name)


FAINT = """faint (float[4, 32] x) => (float[4, 32] y) {
    large = MatMul (x, w)
    size = Abs (large)
    root = Sqrt (size)
    scaled = Mul (root, scale)
    low = Tanh (scaled)
    bounded = LessOrEqual (scaled, limit)
    one = Where (bounded, low, limit)
    own = MatMul (x, u)
    other = Tanh (own)
    y = Add (one, other)
}"""


def faint(folder: Path) -> Graph:
    """A network as imported from a file in `folder`. For inputs of 10,000 `large` is infinite in
    f16, or no number, and `y` has other numbers then."""
    model = parsed(FAINT)
    constants: dict[str, NDArray[np.float32]] = {
        "w": np.abs(drawn((32, 32))) + np.float32(0.5),
        "u": drawn((32, 32), 2) / np.float32(10),
        "scale": np.array(1e-3, np.float32),
        "limit": np.array(1, np.float32),
    }
    model.graph.initializer.extend(
        numpy_helper.from_array(value, label) for label, value in constants.items()
    )
    return import_model(written(folder, model), {})


def in_both_precisions(graph: Graph, name: str) -> tuple[PlannedNetwork, PlannedNetwork]:
    """A network as it is imported for pages without a GPU and, with values of f16, for those with
    one. The outputs of both are those of f32."""
    feeds = seeded_feeds(graph)
    outputs = evaluate(graph, feeds)
    models = plan_graphs([graph], [{}], name), plan_f16([graph], [{}], name, 0.01)
    one, other = (
        PlannedNetwork(
            plan=model.plans[0],
            files=Files(weights=b"".join(model.weights.blocks()), golden=model.golden[0]),
            feeds=feeds,
            outputs=outputs,
            programs=evaluated_programs(model.workloads),
        )
        for model in models
    )
    return one, other


def of_bytes(folder: Path, name: str = "bytes") -> PlannedNetwork:
    """An encoder as onnxruntime's `quantize_dynamic` writes it to a file in `folder`, with the
    output that onnxruntime computes."""
    model = Encoder().model()
    path, feeds = dynamic(model, folder), feeds_of(model)
    made = plan_graphs([import_model(path, {})], [{}], name)
    outputs: dict[str, NDArray[Any]] = {made.plans[0].outputs[0].name: by_onnxruntime(path, feeds)}
    return PlannedNetwork(
        plan=made.plans[0],
        files=Files(weights=b"".join(made.weights.blocks()), golden=made.golden[0]),
        feeds=feeds,
        outputs=outputs,
        programs=evaluated_programs(made.workloads),
    )


TYPED = """typed (int32[5] whole, bool[5] flag, uint8[5] byte) => (
    int32[5] negated, bool[5] unlike, uint8[5] most
) {
    negated = Neg (whole)
    unlike = Not (flag)
    number = Cast <to = 2> (flag)
    most = Max (byte, number)
}"""


def typed(folder: Path, name: str = "typed") -> PlannedNetwork:
    """Inputs and outputs of int32, bool and uint8, as imported from a file in `folder`."""
    graph = import_model(written(folder, parsed(TYPED)), {})
    feeds = {
        "whole": np.array([-(2**31) + 1, -1, 0, 7, 2**31 - 1], np.int32),
        "flag": np.array([True, False, True, False, True]),
        "byte": np.array([0, 1, 2, 128, 255], np.uint8),
    }
    outputs = evaluate(graph, feeds)
    made = plan_graphs([graph], [{}], name)
    files = Files(weights=b"".join(made.weights.blocks()), golden=made.golden[0])
    return PlannedNetwork(
        plan=made.plans[0],
        files=files,
        feeds=feeds,
        outputs=outputs,
        programs=evaluated_programs(made.workloads),
    )


def write_planned(
    folder: Path,
    device_class: str,
    model: PlannedModel,
    kernel_of: Callable[[Workload], SiteKernels],
) -> None:
    """Writes the one plan of a model, with the kernel that is chosen of each workload."""
    programs = {each.key: each for each in evaluated_programs(model.workloads)}
    (plan,), (golden,) = model.plans, model.golden
    files = Files(weights=b"".join(model.weights.blocks()), golden=golden)
    workloads = resolved(plan.kernels, programs).values()
    write_model(
        folder, device_class, plan, files, {each.key: kernel_of(each) for each in workloads}
    )


def evaluated_programs(workloads: Iterable[Workload]) -> tuple[ProgramWorkload, ...]:
    """Returns a model's workloads that no operator names, as a worker evaluates them."""
    return tuple(
        each.evaluated(roundings(each)) for each in workloads if isinstance(each, ProgramWorkload)
    )


def chosen_in_javascript(workload: Workload) -> SiteKernels:
    (only,) = lite_space(workload, TargetKind.JAVASCRIPT)
    return SiteKernels(candidate=only, fallback=only)


def chosen_on_gpu(workload: Workload) -> SiteKernels:
    space = lite_space(workload, TargetKind.WEBGPU, gpu_model("google", "swiftshader"))
    first, second, *_ = space
    return SiteKernels(candidate=second, fallback=first)


def chosen(workload: Workload, body: Callable[[bytes], bytes] | None = None) -> SiteKernels:
    """A kernel that every engine can run, packed where the workload allows that, and another where
    there is one that takes weights as they are."""
    space = lite_space(workload, TargetKind.WASM)
    portable = [each for each in space if "relaxed-simd" not in each.requires]

    def packs(candidate: Candidate) -> bool:
        return bool(compile_candidate(candidate).manifest.layouts)

    used = next((each for each in portable if packs(each)), portable[0])
    other = next((each for each in portable if each != used and not packs(each)), used)
    made = compile_candidate(used).body
    return SiteKernels(
        candidate=used, fallback=other, body=body(made) if body is not None else None
    )
