"""Costs of kernels that were measured for benchmarks, and which kernels the rule offers by them."""

import json
from pathlib import Path

from bench.models.costs import VOTERS, Costs
from bench.models.tuning import Choices, contenders
from bench.report import cpu_model
from kernelzoo.domain.workload import Workload

WORKLOAD = Workload.parse("matmul:f32:m64k64n64:constant=b")


def test_what_costs_least_for_few_runs_is_offered_and_what_was_disturbed_is_forgotten(
    tmp_path: Path,
) -> None:
    fast, lean, late = (each.candidate_id for each in contenders(WORKLOAD)[:3])

    def write(name: str, known: object) -> Path:
        file = tmp_path / name
        file.write_text(json.dumps({cpu_model(): {WORKLOAD.key: known}}))
        return file

    def costs(pack_ns: float, run_ns: float) -> dict[str, float]:
        same = {"compile_ns": 1e6, "optimise_ns": 0.0, "first_run_ns": 3e6}
        return {**same, "pack_ns": pack_ns, "run_ns": run_ns}

    tuned = write("tuned.json", {fast: 0.5, lean: 0.6, late: 0.55})
    # Nothing is packed for the last one, whose optimised code came too late.
    told = {fast: costs(9e6, 1e6), lean: costs(0.0, 1.2e6), late: costs(0.0, 8e6)}
    file = write("costs.json", [told] * VOTERS)
    found = Costs(file=file, choices=Choices(file=tuned)).offered(WORKLOAD)
    assert [(each.candidate.candidate_id, each.runs) for each in found] == [
        (lean, 1),
        (fast, None),
    ]
    assert found[0].costs == {**costs(0.0, 1.2e6)}
    assert found[0].identities == VOTERS
