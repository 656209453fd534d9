"""A model of two calls, y = relu(x @ w), with its files; small enough to compile in a test."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from fastapi.testclient import TestClient
from httpx2 import Response

from cli.gateway_client import GatewayClient
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Plan, PlanTensor, PortDType
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload
from kernelzoo.formats.plans import plan_bytes
from services.gateway.wire.models import ModelRequest, PlanRequest
from services.tuner.graph.models import plan_f16, plan_graphs
from tests.database.client import OPERATOR
from tests.plans import network
from tests.unit.graph.graphs import Built

K, N = 8, 16
TINY_NAME = "tiny"
WEIGHTS = np.random.default_rng(7).random((K, N), np.float32).tobytes()


@dataclass(frozen=True, slots=True)
class TinyModel:
    """A plan with the files that it names."""

    plan: Plan
    weights: bytes
    golden: bytes

    @property
    def files(self) -> tuple[bytes, ...]:
        return plan_bytes(self.plan), self.weights, self.golden

    @property
    def request(self) -> dict[str, Any]:
        return {"plan": digest(plan_bytes(self.plan)), "weights": digest(self.weights)}


def tiny_model(rows: int = 4, name: str = TINY_NAME, weights: bytes = WEIGHTS) -> TinyModel:
    """For `rows` of x, as its dimension `sequence`."""
    w = np.frombuffer(weights, np.float32).reshape(K, N)
    x = np.random.default_rng(1).random((rows, K), np.float32) - np.float32(0.5)
    y = np.maximum(x @ w, 0)
    at = -(-x.nbytes // 64) * 64
    made = network(
        name,
        dimensions={"sequence": rows},
        weights={"w": w},
        tensors=[
            PlanTensor(dtype=DType.F32, shape=(rows, K), at=0),
            PlanTensor(dtype=DType.F32, shape=(rows * N,), at=at),
            PlanTensor(dtype=DType.F32, shape=(rows, N), at=at),
        ],
        activations=at + y.nbytes,
        calls=[
            (f"matmul:f32:m{rows}k{K}n{N}:constant=b", (0, "w", 1), "dense"),
            (f"relu:f32:n{rows * N}", (1, 2), "activation"),
        ],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, y, 2)},
    )
    return TinyModel(made.plan, made.files.weights, made.files.golden)


def identity_model(name: str = "identity") -> TinyModel:
    """A model that calls nothing: its output is its input."""
    x = np.arange(K, dtype=np.float32)
    made = network(
        name,
        dimensions={},
        weights={},
        tensors=[PlanTensor(dtype=DType.F32, shape=(K,), at=0)],
        activations=x.nbytes,
        calls=[],
        inputs={"x": (PortDType.FLOAT32, x, 0)},
        outputs={"y": (PortDType.FLOAT32, x, 0)},
    )
    return TinyModel(made.plan, made.files.weights, made.files.golden)


def tiny_with_f16(rows: int = 4) -> tuple[TinyModel, TinyModel, dict[str, str]]:
    """The model as it is imported with values of f32 and with those of f16, and the texts of the
    programs of the latter."""
    g = Built()
    product = g.workload(
        f"matmul:f32:m{rows}k{K}n{N}:constant=b", g.feed(rows, K), g.constant(K, N)
    )
    graph = g.graph(g.workload(f"relu:f32:n{rows * N}", g.view(product, rows * N)))
    sizes = [{"sequence": rows}]
    plain, halved = (
        plan_graphs([graph], sizes, TINY_NAME),
        plan_f16([graph], sizes, TINY_NAME, 0.01),
    )
    one, other = (
        TinyModel(made.plans[0], b"".join(made.weights.blocks()), made.golden[0])
        for made in (plain, halved)
    )
    programs = (each for each in halved.workloads if isinstance(each, ProgramWorkload))
    return one, other, {each.key: str(each.program) for each in programs}


def with_plan(of: TinyModel, **changes: Any) -> TinyModel:
    return replace(of, plan=replace(of.plan, **changes))


def with_wrong_golden(of: TinyModel) -> TinyModel:
    """No kernel computes its golden output."""
    (part,) = of.plan.golden.outputs
    wrong = np.full(part.bytes // 4, 7, np.float32).tobytes()
    golden = of.golden[: part.offset] + wrong + of.golden[part.offset + part.bytes :]
    told = replace(of.plan.golden, sha256=digest(golden))
    return replace(with_plan(of, golden=told), golden=golden)


def send(http: TestClient, *models: TinyModel) -> None:
    for body in {body for model in models for body in model.files}:
        sent = http.put(f"/v1/blobs/{digest(body)}", content=body, headers=OPERATOR)
        assert sent.status_code == 200, sent.text


def register(
    http: TestClient,
    *models: TinyModel,
    replace: bool = False,
    source: str = "tiny.onnx",
    targets: tuple[str, ...] = ("wasm",),
    programs: Mapping[str, str] | None = None,
) -> Response:
    """A model with a plan for each choice of its dimension."""
    send(http, *models)
    plans = [model.request for model in models]
    body = {"source": source, "plans": plans, "targets": targets, "programs": programs or {}}
    name = models[0].plan.model
    query = "?replace=true" if replace else ""
    return http.put(f"/v1/models/{name}{query}", json=body, headers=OPERATOR)


def add(gateway: GatewayClient, model: TinyModel | None = None) -> None:
    """Adds a model as `kernelzoo models add` does, for WebAssembly; the tiny model unless told."""
    model = model or tiny_model()
    for body in model.files:
        gateway.put_blob(digest(body), len(body), iter([body]))
    request = ModelRequest(
        source="tiny.onnx",
        plans=[PlanRequest(**model.request)],
        programs={},
        targets=[TargetKind.WASM],
    )
    gateway.register_model(model.plan.model, request, replace=False)


def digest(body: bytes) -> str:
    return sha256(body).hexdigest()
