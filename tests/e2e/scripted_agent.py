"""An agent without a browser: it speaks the protocol and makes its timings up.

It stands for a patient client in tests of the services; what a browser does is tested in one.
"""

import time
from dataclasses import dataclass, field
from typing import Any

import httpx2

from tests.database.client import SESSION
from tests.reports import ok

PATIENCE_S = 0.2


@dataclass(slots=True)
class ScriptedAgent:
    """`acknowledged` are the (lease, candidate) pairs that the gateway accepted, `rankings` what it
    votes for by workload."""

    url: str
    operator_key: str
    token: str = ""
    acknowledged: set[tuple[int, str]] = field(default_factory=set)
    rankings: dict[str, list[str]] = field(default_factory=dict)

    def open(self) -> None:
        headers = {"X-Kernelzoo-Operator": self.operator_key}
        self.token = self._insist("POST", "/v1/sessions", SESSION, headers).json()["token"]

    def measure_once(self, wait_s: float = 1) -> bool:
        """Borrows, reports and votes. False when there was nothing to borrow."""
        lease = self._insist("POST", "/v1/leases", {"limit": 4, "wait_s": wait_s})
        if lease.status_code != httpx2.codes.OK:
            return False
        self._answer(lease.json())
        return True

    def confirmed_keys(self) -> list[dict[str, Any]]:
        """Measures once; the entries that are confirmed then, as `/v1/keys` lists them.

        Where the default kernel is lent first it is confirmed first, until others are measured:
        only entries of kernels that are faster count.
        """
        self.measure_once()
        listed = httpx2.get(f"{self.url}/v1/keys").json()["keys"]
        return [
            each for each in listed if each["state"] == "confirmed" and each["relative_time"] < 1
        ]

    def _answer(self, lease: dict[str, Any]) -> None:
        ranking = self.rankings.setdefault(lease["workload"], [])
        for kernel in lease["candidates"]:
            candidate = kernel["candidate"]
            body = {"nonce": lease["nonce"], "measurements": [ok(lease, candidate)]}
            path = f"/v1/leases/{lease['lease']}/measurements"
            answer = self._insist("POST", path, body)
            # 409: the first answer was stored and its acknowledgement lost.
            if answer.status_code in (httpx2.codes.ACCEPTED, httpx2.codes.CONFLICT):
                self.acknowledged.add((int(lease["lease"]), candidate))
                ranking.append(candidate)
        lines = [{"candidate": c, "relative_time": 0.5} for c in ranking[:5]]
        self._insist("PUT", "/v1/ballots", {"workload": lease["workload"], "lines": lines})

    def _insist(
        self, method: str, path: str, body: dict[str, Any], headers: dict[str, str] | None = None
    ) -> httpx2.Response:
        """Insists as a browser's agent does: try again while the service is away."""
        headers = headers or {"Authorization": f"Bearer {self.token}"}
        for _ in range(200):
            try:
                answer = httpx2.request(
                    method, self.url + path, json=body, headers=headers, timeout=30
                )
            except httpx2.TransportError:
                time.sleep(PATIENCE_S)
                continue
            if answer.status_code < httpx2.codes.INTERNAL_SERVER_ERROR:
                return answer
            assert answer.status_code == httpx2.codes.SERVICE_UNAVAILABLE, answer.text
            time.sleep(PATIENCE_S)
        raise AssertionError(f"{path} did not come back")
