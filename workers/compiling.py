"""Database flows of the `compile` queue: enumerate a lite space, compile its candidates."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from kernelzoo import jobs
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.gpu import model_of_space
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import ProgramWorkload, Workload, WorkloadKey
from kernelzoo.errors import KernelZooError
from kernelzoo.metrics import CANDIDATES, COMPILE_DURATION, CompileOutcome, CompileStage
from kernelzoo.store import candidates, notifications, programs, tuning
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from services.aggregator.verification import roundings
from services.tuner.compile import compile_candidate, pack_kernels
from services.tuner.schedules.registry import lite_space

log = structlog.get_logger(__name__)


def warm_up() -> None:
    """Compiles one small candidate of each target, so that the process's first real one is as fast
    as the rest.
    """
    for target in TargetKind:
        compile_candidate(lite_space(Workload.of("matmul", (8, 8, 8)), target)[0])


def plan_space(db: Database, job_id: int, batch: int) -> tuple[jobs.Message, ...]:
    """Writes a waiting job's space. Doing it again changes nothing.

    Returns messages for the candidates that no other space had: the defaults, which stand before
    all others, then the most promising batch first; among those of other jobs they stand by the
    time that may be won.
    """
    with db.transaction():
        job = fetch_one(db, tuning.job(job_id))
        if job is None or job.state != "waiting":
            return ()
        try:
            workload = _evaluated(db, job.workload_key)
            space = _space(workload, TargetKind(job.target), job.space)
        except KernelZooError as error:
            execute(db, tuning.job_failed(job_id, str(error)))
            return ()
        added = _add(db, job_id, space)
        marked = {row.candidate_id for row in fetch_all(db, candidates.mark_defaults(job_id))}
        execute(db, tuning.job_planned(job_id))
    defaults = [each.candidate_id for each in space if each.candidate_id in marked]
    others = [each for each in added if each not in marked]
    return (
        *jobs.compile_defaults(defaults),
        *jobs.compile_batches(others, batch, share=job.priority),
    )


def _evaluated(db: Database, workload_key: WorkloadKey) -> Workload:
    """Finds how far right results of a program may differ, before anything is lent of it. Raises
    InvalidInput for one that reads outside of a tensor, or that cannot be checked."""
    workload = programs.workloads(db, (workload_key,))[workload_key]
    if isinstance(workload, ProgramWorkload) and workload.roundings is None:
        found = roundings(workload)
        execute(db, programs.evaluated(workload_key, found))
        return workload.evaluated(found)
    return workload


def _space(workload: Workload, target: TargetKind, space: str) -> tuple[Candidate, ...]:
    return lite_space(workload, target, model_of_space(space))


def _add(db: Database, job_id: int, space: tuple[Candidate, ...]) -> list[str]:
    """Stores a space, and returns the ids of its new candidates in its order."""
    by_id = sorted(enumerate(space), key=lambda place: place[1].candidate_id)
    rows = (fetch_one(db, candidates.add(job_id, place, each)) for place, each in by_id)
    new = {row.candidate_id for row in rows if row is not None}
    return [each.candidate_id for each in space if each.candidate_id in new]


def compile_batch(db: Database, candidate_ids: list[str]) -> tuple[jobs.Message, ...]:
    """Compiles each candidate that still waits; each is stored and announced by itself. Returns
    messages for those that are defaults now, as others failed."""
    defaults: list[str] = []
    # Candidates of a batch are mostly of one workload.
    known: dict[WorkloadKey, Workload] = {}
    for candidate_id in candidate_ids:
        with db.transaction():
            row = fetch_one(db, candidates.claim(candidate_id))
        if row is not None:
            if row.workload_key not in known:
                known |= programs.workloads(db, (row.workload_key,))
            defaults += _compile(db, row, known[row.workload_key])
    return jobs.compile_defaults(defaults)


def _compile(db: Database, row: candidates.CandidateRow, workload: Workload) -> list[str]:
    """Compiles a candidate. Returns the default that takes its place where it fails, if there is
    one."""
    if row.attempts > candidates.MAX_ATTEMPTS:
        detail = f"its worker died {candidates.MAX_ATTEMPTS} times while compiling it"
        return _give_up(db, row, detail, CompileOutcome.ABANDONED)
    start_ns = time.perf_counter_ns()
    candidate = row.to_candidate(workload)
    try:
        with _timed(row, CompileStage.KERNEL):
            artifact = compile_candidate(candidate)
        with _timed(row, CompileStage.PACKS):
            packs = pack_kernels(candidate, artifact.manifest)
    except KernelZooError as error:
        return _give_up(db, row, str(error), CompileOutcome.REFUSED)
    with _timed(row, CompileStage.STORE):
        stored = _store(db, row, artifact, packs, start_ns)
    if stored:
        CANDIDATES.labels(row.target, CompileOutcome.COMPILED).inc()
    return []


@contextmanager
def _timed(row: candidates.CandidateRow, stage: CompileStage) -> Iterator[None]:
    """A stage that raises is not timed: it ends early."""
    start_s = time.perf_counter()
    yield
    COMPILE_DURATION.labels(row.target, stage).observe(time.perf_counter() - start_s)


def _store(
    db: Database,
    row: candidates.CandidateRow,
    artifact: Artifact,
    packs: tuple[Artifact, ...],
    start_ns: int,
) -> bool:
    """The stored time runs from the start of the compilation to the artifact's row. False where
    another worker was first: who is held up for `stalled_s` is taken to be gone.
    """
    with db.transaction():
        for each in (artifact, *packs):
            execute(db, candidates.store_artifact(each))
        elapsed_ns = time.perf_counter_ns() - start_ns
        stored = execute(db, candidates.compiled(row.candidate_id, artifact, elapsed_ns)) > 0
        execute(db, notifications.candidates_compiled(row.workload_key))
    return stored


def _give_up(
    db: Database, row: candidates.CandidateRow, detail: str, result: CompileOutcome
) -> list[str]:
    log.warning("candidate failed to compile", candidate=row.candidate_id, detail=detail)
    with db.transaction():
        stored = execute(db, candidates.failed(row.candidate_id, detail)) > 0
        execute(db, notifications.candidates_compiled(row.workload_key))
        replacing = fetch_all(db, candidates.replace_default(row.candidate_id))
    if stored:
        CANDIDATES.labels(row.target, result).inc()
    return [each.candidate_id for each in replacing]
