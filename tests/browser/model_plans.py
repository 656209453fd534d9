"""Small networks as plans, with right outputs by NumPy."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import erf

import numpy as np
from numpy.typing import NDArray

from fixtures.model_site import Files, Served
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.gpu import gpu_model
from kernelzoo.domain.plan import (
    ALIGNMENT_BYTES,
    Chunk,
    Golden,
    GoldenPart,
    Plan,
    PlanCall,
    PlanMemory,
    PlanTensor,
    Port,
    PortDType,
    Weight,
    validated,
)
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.compile import compile_candidate
from services.tuner.schedules.registry import lite_space

Array = NDArray[np.generic]
CHUNK_BYTES = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    plan: Plan
    files: Files
    feeds: dict[str, Array]
    outputs: dict[str, Array]


def small(name: str = "small") -> Network:
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


def deep(name: str = "deep", layers: int = 40) -> Network:
    """One product after another, long enough to be stopped and to be shared among threads."""
    random = np.random.default_rng(8)
    w = random.standard_normal((512, 512), dtype=np.float32) / np.float32(np.sqrt(512))
    x = random.standard_normal((256, 512), dtype=np.float32)
    y = x
    for _ in range(layers):
        y = y @ w
    size = 256 * 512 * 4
    key = "matmul:f32:m256k512n512:constant=b"
    return network(
        name,
        weights={"w": w},
        tensors=[PlanTensor(dtype=DType.F32, shape=(256, 512), at=i * size) for i in (0, 1)],
        activations=2 * size,
        calls=[(key, (i % 2, "w", 1 - i % 2), f"layer {i}") for i in range(layers)],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, y, layers % 2)},
    )


Operand = int | str
PortOf = tuple[PortDType, Array, Operand]


def network(
    name: str,
    *,
    weights: Mapping[str, NDArray[np.float32]],
    tensors: list[PlanTensor],
    activations: int,
    calls: list[tuple[str, tuple[Operand, ...], str]],
    inputs: Mapping[str, PortOf],
    outputs: Mapping[str, PortOf],
) -> Network:
    """Operands are numbers of `tensors` and names of `weights`."""
    stored, body = [], b""
    for label, array in weights.items():
        weight = Weight(
            name=label,
            dtype=DType.F32,
            shape=array.shape,
            offset=len(body),
            bytes=array.nbytes,
        )
        stored.append(weight)
        body += array.tobytes() + bytes(-array.nbytes % ALIGNMENT_BYTES)
    names = {label: len(tensors) + i for i, label in enumerate(weights)}
    every = (
        *tensors,
        *(PlanTensor(dtype=DType.F32, shape=each.shape, weight=i) for i, each in enumerate(stored)),
    )
    kernels = list(dict.fromkeys(key for key, _, _ in calls))

    def number(operand: Operand) -> int:
        return operand if isinstance(operand, int) else names[operand]

    def ports(given: Mapping[str, PortOf]) -> tuple[Port, ...]:
        return tuple(
            Port(name=label, dtype=dtype, shape=array.shape, tensor=number(tensor))
            for label, (dtype, array, tensor) in given.items()
        )

    golden, inputs_at = _golden(b"", inputs)
    golden, outputs_at = _golden(golden, outputs)
    chunks = [body[at : at + CHUNK_BYTES] for at in range(0, len(body), CHUNK_BYTES)]
    plan = Plan(
        format=1,
        model=name,
        dimensions={},
        inputs=ports(inputs),
        outputs=ports(outputs),
        tensors=every,
        weights=tuple(stored),
        chunks=tuple(Chunk(bytes=len(c), sha256=sha256(c).hexdigest()) for c in chunks),
        kernels=tuple(kernels),
        calls=tuple(
            PlanCall(kernel=kernels.index(key), tensors=tuple(map(number, operands)), label=label)
            for key, operands, label in calls
        ),
        memory=PlanMemory(weights=len(body), activations=activations),
        golden=Golden(
            sha256=sha256(golden).hexdigest(),
            inputs=inputs_at,
            outputs=outputs_at,
            tolerance=1e-4,
        ),
    )
    return Network(
        plan=validated(plan),
        files=Files(weights=body, golden=golden),
        feeds={label: array for label, (_, array, _) in inputs.items()},
        outputs={label: array for label, (_, array, _) in outputs.items()},
    )


def _golden(body: bytes, ports: Mapping[str, PortOf]) -> tuple[bytes, tuple[GoldenPart, ...]]:
    parts = []
    for label, (dtype, array, _) in ports.items():
        entries = array.astype(np.float32 if dtype is PortDType.FLOAT32 else np.int32).tobytes()
        parts.append(GoldenPart(name=label, offset=len(body), bytes=len(entries)))
        body += entries
    return body, tuple(parts)


def chosen_on_gpu(key: str) -> Served:
    space = lite_space(Workload.parse(key), TargetKind.WEBGPU, gpu_model("google", "swiftshader"))
    first, second, *_ = space
    return Served(candidate=second, fallback=first)


def chosen(key: str, body: Callable[[bytes], bytes] | None = None) -> Served:
    """A kernel that every engine can run, packed where the workload allows that, and another."""
    space = lite_space(Workload.parse(key), TargetKind.WASM)
    portable = [each for each in space if "relaxed-simd" not in each.requires]

    def packs(candidate: Candidate) -> bool:
        return bool(compile_candidate(candidate).manifest.layouts)

    used = next((each for each in portable if packs(each)), portable[0])
    other = next(each for each in portable if each != used and not packs(each))
    made = compile_candidate(used).body
    return Served(candidate=used, fallback=other, body=body(made) if body is not None else None)
