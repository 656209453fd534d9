"""Scheduled contractions as TVM's MetaSchedule keeps them: workloads, and traces of primitives.

A trace exists only while a schedule does, so a candidate is scheduled again; the same candidate
gives the same trace. TVM's own database writes the files, as the text of a trace is its affair.
"""

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.errors import InvalidSchedule, UnsupportedProgram
from services.tuner.schedules.base.extents import Extents
from services.tuner.schedules.gemv.config import WasmGemvConfig
from services.tuner.schedules.matmul.config import WasmMatmulConfig
from services.tuner.schedules.matmul.wasm import stated_and_scheduled
from services.tuner.tir.tvm import IRModule, Node, Target, s_tir

TARGET = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown", "mattr": ["+simd128"]}


def database(timed: Iterable[tuple[Candidate, float]]) -> tuple[str, str]:
    """The texts of `database_workload.json` and `database_tuning_record.json` for candidates with
    their seconds. What MetaSchedule cannot hold is left out.
    """
    with TemporaryDirectory() as directory:
        paths = [Path(directory) / name for name in ("workload.json", "records.json")]
        made = s_tir.meta_schedule.database.JSONDatabase(*map(str, paths))
        for candidate, run_s in timed:
            try:
                function, schedule = _scheduled(candidate)
            except (UnsupportedProgram, InvalidSchedule):
                continue
            made.commit_tuning_record(
                s_tir.meta_schedule.database.TuningRecord(
                    schedule.trace,
                    made.commit_workload(IRModule({"main": function})),
                    [run_s],
                    Target(TARGET),
                    s_tir.meta_schedule.arg_info.ArgInfo.from_prim_func(function),
                )
            )
        workloads, records = (path.read_text() for path in paths)
        return workloads, records


def _scheduled(candidate: Candidate) -> tuple[Node, Node]:
    """Raises UnsupportedProgram for what MetaSchedule would not know again: other operators, and
    shapes that are no whole number of tiles, which are scheduled on rounded extents.
    """
    if candidate.target is not TargetKind.WASM:
        raise UnsupportedProgram(f"a kernel of {candidate.target} is not made by TVM's schedules")
    extents = Extents.of(candidate.workload)
    if candidate.family == WasmGemvConfig.family:
        raise UnsupportedProgram("a stream states its sum by steps, which is another workload")
    config = WasmMatmulConfig.of(candidate)
    if config.rounded(extents) != extents:
        raise UnsupportedProgram(f"{candidate.workload.key} is no whole number of tiles")
    return stated_and_scheduled(extents, config)
