"""A client of the gateway that speaks as an agent and as the operator do."""

from dataclasses import dataclass
from typing import Any

from fastapi.testclient import TestClient
from httpx2 import Response

OPERATOR_KEY = "operator-key-of-the-tests"
OPERATOR = {"X-Kernelzoo-Operator": OPERATOR_KEY}

SESSION: dict[str, Any] = {
    "hardware": {
        "cpu_architecture": "x86",
        "logical_cores": 2,
        "gpu_vendor": "",
        "gpu_architecture": "",
    },
    "engine": {"name": "Chromium", "version": "156"},
    "target": "wasm",
    "features": ["simd128", "relaxed-simd"],
    "rho": "r1-0",
    "peak_gflops": 59.0,
    "isolated": True,
    "probe": {
        "mul_add_gflops": 64,
        "fma_gflops": 64,
        "l1_kib": 32,
        "l1_gbps": 512,
        "l2_gbps": 128,
        "memory_gbps": 0,
    },
}


GPU: dict[str, Any] = {
    "hardware": {
        "cpu_architecture": "x86",
        "logical_cores": 2,
        "gpu_vendor": "google",
        "gpu_architecture": "swiftshader",
    },
    "target": "webgpu",
    "features": ["subgroups", "workgroup-memory-32k"],
    "rho": "r101-0",
    "peak_gflops": 32.0,
    "probe": {"peak_gflops": 32, "bandwidth_gbps": 8, "dispatch_us": 64},
}
"""The session of an agent on a software adapter has these of its own."""


@dataclass(frozen=True, slots=True)
class Agent:
    """An open session."""

    http: TestClient
    token: str
    identity: str
    device_class: str

    @property
    def bearer(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    def lease(self, limit: int = 8, wait_s: float = 0, **told: Any) -> Response:
        body = {"limit": limit, "wait_s": wait_s, **told}
        return self.http.post("/v1/leases", json=body, headers=self.bearer)

    def report(self, lease: dict[str, Any], measurements: list[dict[str, Any]]) -> Response:
        return self.http.post(
            f"/v1/leases/{lease['lease']}/measurements",
            json={"nonce": lease["nonce"], "measurements": measurements},
            headers=self.bearer,
        )

    def vote(self, workload: str, candidates: list[str], best: float = 0.5) -> Response:
        lines = [
            {"candidate": candidate, "relative_time": best + place / 10}
            for place, candidate in enumerate(candidates)
        ]
        body = {"workload": workload, "lines": lines}
        return self.http.put("/v1/ballots", json=body, headers=self.bearer)


def open_agent(http: TestClient, *, identity: str | None = None, **changes: Any) -> Agent:
    body = {**SESSION, "identity": identity, **changes}
    answer = http.post("/v1/sessions", json=body, headers=OPERATOR)
    assert answer.status_code == 201, answer.text
    given = answer.json()
    return Agent(http, given["token"], given["identity"], given["device_class"])
