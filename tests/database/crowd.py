"""Measurements of devices on paper, stored as honest agents of theirs would have them stored."""

from fixtures.analytic import CORES, PaperCore
from fixtures.rows import lend_all
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.measurement import Measurement, Outcome, Verdict
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import agents, measurements
from kernelzoo.store.blocking import execute, fetch_one
from kernelzoo.store.measurements import Judged
from services.tuner.schedules.registry import lite_space
from tests.database.conftest import Connection, open_space

SHAPES = tuple(Workload.of("matmul", (m, 768, n)) for m in (32, 128) for n in (96, 768, 1024))
FIRST = 12
"""Candidates of each space; the rest would only take time."""
REFERENCE_NS = 1e6


def open_paper_space(db: Connection, workload: Workload) -> tuple[int, tuple[Candidate, ...]]:
    space = lite_space(workload, TargetKind.WASM)[:FIRST]
    return open_space(db, list(space)), space


def measure(db: Connection, core: PaperCore, job_id: int, space: tuple[Candidate, ...]) -> None:
    """Stores measurements as an honest agent of this core has them stored."""
    ids = [candidate.candidate_id for candidate in space]
    identity_id, lease_id = lend_all(db, core.probed, "x86", job_id, ids)
    for candidate in space:
        found = Measurement(
            candidate_id=candidate.candidate_id,
            outcome=Outcome.OK,
            samples_ns=(core.time(candidate) * REFERENCE_NS,),
            reference_ns=(REFERENCE_NS,),
            calls_per_sample=1,
            sampled_entries=(),
            detail="",
        )
        fetch_one(db, measurements.accept(lease_id, identity_id, "", (found,)))
        judged = Judged(candidate_id=candidate.candidate_id, verdict=Verdict.VERIFIED)
        execute(db, measurements.judge(lease_id, [judged]))
    execute(db, agents.count_judged(core.probed.device_class, len(space)))


def paper_crowd(db: Connection) -> dict[int, tuple[Candidate, ...]]:
    """Six devices measure six shapes. Spaces by job."""
    spaces = dict(open_paper_space(db, workload) for workload in SHAPES)
    with db.transaction():
        for core in CORES[:6]:
            for job_id, space in spaces.items():
                measure(db, core, job_id, space)
    return spaces
