"""TVM's own loader reads the database, and its replay of a trace is our schedule."""

import json
from pathlib import Path

import tvm
from tvm.s_tir import Schedule
from tvm.s_tir.meta_schedule.database import JSONDatabase

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from services.tuner.metaschedule import database
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from services.tuner.schedules.matmul.wasm import scheduled
from services.tuner.schedules.registry import lite_space

PACKED = Workload.of("matmul", (128, 256, 768))
WHOLE = Workload.of("matmul", (96, 64, 96))
FUSED = Workload.of("matmul+bias+gelu", (96, 64, 96))
NORM = Workload.of("layer_norm", (16, 64))


def space(workload: Workload) -> tuple[Candidate, ...]:
    return lite_space(workload, TargetKind.WASM)


def whole(candidate: Candidate) -> bool:
    extents = Extents.of(candidate.workload)
    return WasmMatmulConfig.of(candidate).rounded(extents) == extents


def test_every_trace_replays_to_the_schedule_that_was_measured(tmp_path: Path) -> None:
    candidates = [each for workload in (PACKED, FUSED) for each in space(workload) if whole(each)]
    timed = [(candidate, 1e-3 * (place + 1)) for place, candidate in enumerate(candidates)]
    paths = [str(tmp_path / name) for name in ("workload.json", "records.json")]
    for path, text in zip(paths, database(timed), strict=True):
        Path(path).write_text(text)
    records = JSONDatabase(*paths).get_all_tuning_records()
    assert len(records) == len(candidates) > 20
    by_time = sorted(records, key=lambda record: float(record.run_secs[0]))
    for candidate, record in zip(candidates, by_time, strict=True):
        replayed = Schedule(record.workload.mod)
        record.trace.apply_to_schedule(replayed, remove_postproc=False)
        ours = scheduled(Extents.of(candidate.workload), WasmMatmulConfig.of(candidate))
        tvm.ir.assert_structural_equal(replayed.mod["main"], ours["main"])


def test_workloads_stand_once_and_records_name_them_by_number() -> None:
    timed = [(each, 1e-3) for workload in (WHOLE, FUSED) for each in space(workload) if whole(each)]
    workloads, records = database(timed)
    assert len(workloads.splitlines()) == 2
    assert {json.loads(line)[0] for line in records.splitlines()} == {0, 1}


def test_what_metaschedule_cannot_hold_is_left_out() -> None:
    uneven = [each for each in space(WHOLE) if not whole(each)]
    assert uneven
    assert database((each, 1e-3) for each in (*uneven, *space(NORM))) == ("", "")
