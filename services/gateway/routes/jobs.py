"""Tuning jobs and workload sets: registered by the operator, read by anyone."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, BackgroundTasks, Path, Response

from kernelzoo import jobs
from kernelzoo.domain.gpu import first_space
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import Workload
from kernelzoo.store import tuning
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.state import Operator, Shared
from services.gateway.wire.jobs import Job, JobList, JobRequest, WorkloadSet, WorkloadSetRequest
from services.gateway.wire.model import WorkloadKey

router = APIRouter(tags=["tuning"])

SetName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]


@router.post("/v1/jobs", status_code=HTTPStatus.CREATED)
async def open_job(
    body: JobRequest,
    response: Response,
    state: Shared,
    operated: Operator,
    after: BackgroundTasks,
) -> Job:
    """Tune a workload for a target kind. Asking again answers 200 with the job that exists."""
    refuse_stranger(operated=operated)
    workload, kind = Workload.parse(body.workload), TargetKind(body.kind)
    refuse_unsupported(workload, kind)
    async with state.pool.connection() as db:
        async with db.transaction():
            await execute(db, tuning.register_workload(workload))
            opened = await fetch_one(db, tuning.open_job(workload, kind))
        progress = await fetch_one(
            db,
            tuning.progress(workload_key=workload.key, kind=kind, space=first_space(kind)),
        )
    if opened is None:
        response.status_code = HTTPStatus.OK
    else:
        after.add_task(state.send, jobs.plan_space(opened.id))
    assert progress is not None
    return described(progress)


@router.get("/v1/jobs")
async def list_jobs(state: Shared, workload: WorkloadKey | None = None) -> JobList:
    """How far each job has come, newest first."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, tuning.progress(workload_key=workload))
    return JobList(jobs=[described(row) for row in rows])


@router.get("/v1/jobs/{job}")
async def get_job(job: Annotated[int, Path(ge=1, lt=1 << 63)], state: Shared) -> Job:
    """How far one job has come."""
    async with state.pool.connection() as db:
        row = await fetch_one(db, tuning.progress(job_id=job))
    if row is None:
        raise Refusal(HTTPStatus.NOT_FOUND, f"there is no job {job}; GET /v1/jobs lists all")
    return described(row)


@router.put("/v1/sets/{name}")
async def put_set(
    name: SetName, body: WorkloadSetRequest, state: Shared, operated: Operator
) -> WorkloadSet:
    """Name the workloads of an application, so that a page asks for all of them at once."""
    refuse_stranger(operated=operated)
    workloads = [Workload.parse(key) for key in dict.fromkeys(body.workloads)]
    async with state.pool.connection() as db, db.transaction():
        await execute(db, tuning.clear_set(name))
        for position, workload in enumerate(workloads):
            await execute(db, tuning.register_workload(workload))
            await execute(db, tuning.add_to_set(name, position, workload.key))
    return WorkloadSet(name=name, workloads=[workload.key for workload in workloads])


def described(row: tuning.JobProgress) -> Job:
    return Job(
        job=row.id,
        workload=row.workload_key,
        kind=TargetKind(row.kind),
        space=row.space,
        state=row.state,
        flops=row.flops,
        candidates=row.candidates,
        compiled=row.compiled,
        failed=row.failed,
        compile_ms_median=_ms(row.compile_ns_median),
        compile_ms_last=_ms(row.compile_ns_last),
        measurements=row.measurements,
        agents=row.agents,
        ballots=row.ballots,
        best_ns=row.best_ns,
        detail=row.detail,
    )


def _ms(elapsed_ns: float | None) -> float | None:
    return None if elapsed_ns is None else round(elapsed_ns / 1e6, 3)
