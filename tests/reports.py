"""Measurements as an honest agent would report them."""

from typing import Any

from kernelzoo.domain.workload import Workload
from services.aggregator.verification import expected_entries


def ok(
    lease: dict[str, Any],
    candidate: str,
    best_ns: float = 1000.0,
    workload: Workload | None = None,
) -> dict[str, Any]:
    """`workload` is the lease's, where it is of a program."""
    entries = expected_entries(workload or Workload.parse(lease["workload"]), lease["seed"])
    return {
        "candidate": candidate,
        "outcome": "ok",
        "samples_ns": [best_ns, best_ns * 1.1, best_ns * 1.2],
        "reference_ns": [2000.0, 2100.0, 2200.0],
        "calls_per_sample": 4,
        "sampled_entries": entries.tolist(),
        "detail": "",
    }


def failure(candidate: str, stage: str) -> dict[str, Any]:
    return {
        "candidate": candidate,
        "outcome": stage,
        "samples_ns": [],
        "reference_ns": [],
        "calls_per_sample": 1,
        "sampled_entries": [],
        "detail": "it went wrong",
    }


def all_ok(lease: dict[str, Any], workload: Workload | None = None) -> list[dict[str, Any]]:
    """Later candidates are faster."""
    lent = [kernel["candidate"] for kernel in lease["candidates"]]
    return [ok(lease, candidate, 1000.0 - place, workload) for place, candidate in enumerate(lent)]
