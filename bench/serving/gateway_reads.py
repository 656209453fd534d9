"""Everything that the gateway is asked for without changing anything, as its routes list it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from urllib.parse import quote

from fastapi import FastAPI
from fastapi.testclient import TestClient
from pydantic import SecretStr

from bench.report import CannotMeasure
from bench.serving.filled_zoo import MODEL_NAMES, FilledZoo, Key, graph_of
from bench.serving.growth_parts import NotAnswered, Part
from kernelzoo.domain.trust import Trust
from kernelzoo.settings import Settings
from services.gateway.app import application

KEY = "operator-key-of-the-benchmark"
OPERATOR = {"X-Kernelzoo-Operator": KEY}
LIST_MS = 200.0
NO_BROKER = "redis://127.0.0.1:1/0"
"""Nothing listens there: reading sends no message."""

Path = Callable[[FilledZoo, Key, int], str]
"""The path of a request; the number grows, so that no answer is remembered from the one before."""


def _model(number: int) -> str:
    return MODEL_NAMES[number % len(MODEL_NAMES)]


PATHS: Mapping[str, Sequence[Path]] = {
    "/v1/jobs": (
        lambda _, __, n: f"/v1/jobs?offset={n}",
        lambda _, __, n: f"/v1/jobs?limit=50&offset={50 * n}",
        lambda _, key, __: f"/v1/jobs?workload={quote(key.workload)}",
    ),
    "/v1/jobs/{job}": (lambda _, key, __: f"/v1/jobs/{key.job}",),
    "/v1/jobs/{job}/progress": (lambda _, key, __: f"/v1/jobs/{key.job}/progress",),
    "/v1/sets": (lambda _, __, ___: "/v1/sets",),
    "/v1/applications": (lambda _, __, ___: "/v1/applications",),
    "/v1/zoo": (
        lambda _, __, ___: "/v1/zoo",
        lambda _, key, __: f"/v1/zoo?workload={quote(key.workload)}",
    ),
    "/v1/zoo/{name}/{device_class}": (
        lambda _, key, __: f"/v1/zoo/{quote(key.workload)}/{quote(key.device_class)}",
        lambda zoo, key, n: f"/v1/zoo/{zoo.sets[n % len(zoo.sets)]}/{quote(key.device_class)}",
    ),
    "/v1/zoo/{name}/{wasm_class}/{webgpu_class}": (
        lambda _, key, __: (
            f"/v1/zoo/{quote(key.workload)}/{quote(_twin(key, 'wasm'))}"
            f"/{quote(_twin(key, 'webgpu'))}"
        ),
    ),
    "/v1/artifacts/{sha256}.{target}": (
        lambda zoo, _, n: f"/v1/artifacts/{zoo.artifacts[n % len(zoo.artifacts)]}.wasm",
    ),
    "/v1/devices": (lambda _, __, n: f"/v1/devices?limit=200&offset={n}",),
    "/v1/signing-keys": (lambda _, __, ___: "/v1/signing-keys",),
    "/v1/denied": (lambda _, __, ___: "/v1/denied",),
    "/v1/denied/{device_class}": (lambda _, key, __: f"/v1/denied/{quote(key.device_class)}",),
    "/v1/identities/{identity}": (
        lambda zoo, _, n: f"/v1/identities/{zoo.identities[n % len(zoo.identities)]}",
    ),
    "/v1/results": (
        lambda _, key, __: f"/v1/results?workload={quote(key.workload)}",
        lambda _, key, __: (
            f"/v1/results?workload={quote(key.workload)}&device_class={quote(key.device_class)}"
        ),
    ),
    "/v1/graphs/{graph}": (lambda _, __, n: f"/v1/graphs/{graph_of(_model(n))}",),
    "/v1/models": (lambda _, __, ___: "/v1/models",),
    "/v1/models/{name}": (lambda _, __, n: f"/v1/models/{_model(n)}",),
    "/v1/models/{name}/readiness": (lambda _, __, n: f"/v1/models/{_model(n)}/readiness",),
    "/v1/models/{name}/coverage": (lambda _, __, n: f"/v1/models/{_model(n)}/coverage",),
    "/v1/models/{name}/{device_class}": (
        lambda _, key, n: f"/v1/models/{_model(n)}/{quote(key.device_class)}",
    ),
    "/v1/models/{name}/{device_class}/candidates": (
        lambda _, key, n: (
            f"/v1/models/{_model(n)}/{quote(key.device_class)}/candidates?wait_s=0&each=1"
        ),
    ),
    "/v1/models/{name}/{device_class}/timeline": (
        lambda _, key, n: f"/v1/models/{_model(n)}/{quote(key.device_class)}/timeline",
    ),
    "/v1/blobs/{sha256}": (lambda zoo, _, n: f"/v1/blobs/{_blobs(zoo)[n % 2]}",),
    "/v1/programs/{workload}": (lambda _, key, __: f"/v1/programs/{quote(key.workload)}",),
    "/v1/cost-models": (lambda _, __, ___: "/v1/cost-models",),
    "/v1/overview": (lambda _, __, ___: "/v1/overview",),
    "/v1/promotions": (lambda _, __, n: f"/v1/promotions?limit={200 - n}",),
    "/v1/coverage": (
        lambda _, __, ___: "/v1/coverage",
        lambda _, __, ___: "/v1/coverage?workloads=200&classes=400",
    ),
    "/v1/keys": (
        lambda _, __, n: f"/v1/keys?limit=200&offset={200 * n}",
        lambda _, key, __: f"/v1/keys?workload={quote(key.workload)}",
    ),
    "/v1/keys/{workload}/{device_class}": (
        lambda _, key, __: f"/v1/keys/{quote(key.workload)}/{quote(key.device_class)}",
    ),
}
"""By route, what is asked of it. The console shows what these answer."""

UNKNOWN = {"/v1/programs/{workload}"}
"""Routes of which the zoo has none: a refusal is their answer."""


@contextmanager
def gateway_reads(zoo: FilledZoo) -> Iterator[Sequence[Part]]:
    """Raises CannotMeasure for a route of the gateway that `PATHS` does not name."""
    settings = Settings(
        database_url=zoo.url,
        redis_url=NO_BROKER,
        operator_key=SecretStr(KEY),
        token_secret=SecretStr("a secret of the benchmark, 32 bytes long"),
        trust=Trust.CROWD,
        models_dir=zoo.folder,
    )
    app = application(settings)
    routes = _routes(app)
    if strange := routes ^ set(PATHS):
        raise CannotMeasure(f"bench/serving/gateway_reads.py is of other routes: {sorted(strange)}")
    with TestClient(app, client=("127.0.0.1", 5000), headers=OPERATOR) as http:
        yield [
            Part(
                what=route if number == 0 else f"{route} ({number + 1})",
                kind="endpoint",
                bound_ms=LIST_MS,
                ask=partial(_ask, http, zoo, route, path),
            )
            for route, paths in PATHS.items()
            for number, path in enumerate(paths)
        ]


def _routes(app: FastAPI) -> set[str]:
    """Lists the routes that are documented; the others answer from files and memory."""
    return {path for path, methods in app.openapi()["paths"].items() if "get" in methods}


def _ask(http: TestClient, zoo: FilledZoo, route: str, path: Path, number: int) -> float:
    """Returns the bytes of the answer."""
    key = zoo.keys[number % len(zoo.keys)]
    answer = http.get(path(zoo, key, number))
    wanted = HTTPStatus.NOT_FOUND if route in UNKNOWN else HTTPStatus.OK
    if answer.status_code != wanted:
        raise NotAnswered(f"{answer.url}: {answer.status_code} {answer.text[:200]}")
    return len(answer.content)


def _twin(key: Key, target: str) -> str:
    """A class of the key's device on a target."""
    device_id = key.device_class.partition(":")[0]
    rest = "r101-0:webgpu+subgroups" if target == "webgpu" else "r1-0:wasm+relaxed-simd+simd128"
    return f"{device_id}:{rest}"


def _blobs(zoo: FilledZoo) -> list[str]:
    return sorted(file.name for file in zoo.folder.rglob("*") if file.is_file())[:2]
