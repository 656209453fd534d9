"""A scheduled contraction as TVM's MetaSchedule keeps it: workload and trace of primitives.

The trace is what its `JSONDatabase` replays. It exists only while a schedule does, so a candidate
is scheduled again; the same candidate gives the same trace.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

import tvm
from tvm.s_tir import meta_schedule

from kernelzoo.domain.candidate import Candidate
from kernelzoo.errors import InvalidSchedule, UnsupportedProgram
from services.tuner.config import ContractionConfig
from services.tuner.extents import Extents
from services.tuner.frontend.contraction import stated_and_scheduled
from services.tuner.stream import StreamConfig

TARGET = {"kind": "llvm", "mtriple": "wasm32-unknown-unknown", "mattr": ["+simd128"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TunedRecord:
    """A line of each of the two files of a database, but for the number of the workload."""

    workload: str
    record: str


def tuned_record(candidate: Candidate, run_s: float) -> TunedRecord:
    """Raises UnsupportedProgram for what MetaSchedule would not know again: other operators, and
    shapes that are no whole number of tiles, which are scheduled on rounded extents.
    """
    extents = Extents.of(candidate.workload)
    if StreamConfig.describes(candidate):
        raise UnsupportedProgram("a stream states its sum by steps, which is another workload")
    config = ContractionConfig.of(candidate)
    if config.rounded(extents) != extents:
        raise UnsupportedProgram(f"{candidate.workload.key} is no whole number of tiles")
    function, schedule = stated_and_scheduled(extents, config)
    workload = meta_schedule.database.Workload(tvm.IRModule({"main": function}))
    record = meta_schedule.database.TuningRecord(
        schedule.trace,
        workload,
        [run_s],
        tvm.target.Target(TARGET),
        meta_schedule.arg_info.ArgInfo.from_prim_func(function),
    )
    return TunedRecord(workload=json.dumps(workload.as_json()), record=json.dumps(record.as_json()))


def database(timed: Iterable[tuple[Candidate, float]]) -> tuple[str, str]:
    """The texts of `database_workload.json` and `database_tuning_record.json`, line by line, of
    candidates with their seconds. What MetaSchedule cannot hold is left out.
    """
    numbers: dict[str, int] = {}
    lines = []
    for candidate, run_s in timed:
        try:
            tuned = tuned_record(candidate, run_s)
        except (UnsupportedProgram, InvalidSchedule):
            continue
        number = numbers.setdefault(tuned.workload, len(numbers))
        lines.append(f"[{number}, {tuned.record}]")
    return "".join(f"{workload}\n" for workload in numbers), "".join(f"{x}\n" for x in lines)
