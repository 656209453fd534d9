"""Tuning jobs and workload sets: registered by the operator and by applications."""

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Path, Query, Response
from psycopg import AsyncConnection

from kernelzoo import jobs
from kernelzoo.domain.gpu import first_space
from kernelzoo.domain.target import TargetKind, refuse_unsupported
from kernelzoo.domain.workload import refuse_unmeasured, workload_key
from kernelzoo.store import applications, notifications, tuning
from kernelzoo.store.applications import ApplicationRow
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.lists import listed
from services.gateway.problems import Refusal, refuse_keyless
from services.gateway.programs import registered
from services.gateway.state import Application, Operator, Shared
from services.gateway.wire.jobs import (
    Job,
    JobList,
    JobRequest,
    OwnedSet,
    SetList,
    WorkloadSet,
    WorkloadSetRequest,
)
from services.gateway.wire.model import KeyText

router = APIRouter(tags=["tuning"])

SetName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")]
JobNumber = Annotated[int, Path(ge=1, lt=1 << 63)]
NO_JOB = "there is no job {}; GET /v1/jobs lists all"


@router.post("/v1/jobs", status_code=HTTPStatus.CREATED)
async def open_job(
    body: JobRequest,
    response: Response,
    state: Shared,
    operated: Operator,
    application: Application,
    after: BackgroundTasks,
) -> Job:
    """Tune a workload for a target. Asking again answers 200 with the job that exists, which
    goes on if it was cancelled.
    """
    refuse_keyless(keyed=operated or application is not None)
    key, target = workload_key(body.workload), TargetKind(body.target)
    async with state.pool.connection() as db, db.transaction():
        await execute(db, tuning.lock_workloads(alone=False))
        workload = (await registered(db, (key,)))[key]
        refuse_unsupported(workload, target)
        refuse_unmeasured(workload)
        if application is not None:
            await execute(db, applications.lock(application.id))
        if await execute(db, tuning.register_workload(workload)):
            await execute(db, notifications.zoo_changed())
        opened = await fetch_one(db, tuning.open_job(key, target))
        await execute(db, tuning.resume_jobs(key, target))
        await execute(db, tuning.ask_for_job(key, target))
        progress = await fetch_one(
            db,
            tuning.progress(workload_key=key, target=target, space=first_space(target)),
        )
        assert progress is not None
        if application is not None:
            await _charge(db, application, progress.id)
    if opened is None:
        response.status_code = HTTPStatus.OK
    else:
        after.add_task(state.send, jobs.plan_space(opened.id))
    return described(progress)


@router.get("/v1/jobs")
async def list_jobs(
    state: Shared,
    application: Application,
    workload: KeyText | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> JobList:
    """Tell how far each job has come, newest first; with an application's key those it asked
    for."""
    asked_by = application.id if application else None
    async with state.pool.connection() as db:
        rows = await fetch_all(
            db,
            tuning.progress(workload_key=workload, asked_by=asked_by, limit=limit, offset=offset),
        )
    return JobList(jobs=listed(rows, described), total=rows[0].total if rows else 0)


@router.get("/v1/jobs/{job}")
async def get_job(job: JobNumber, state: Shared) -> Job:
    """Tell how far one job has come."""
    async with state.pool.connection() as db:
        row = await fetch_one(db, tuning.progress(job_id=job))
    if row is None:
        raise Refusal(HTTPStatus.NOT_FOUND, NO_JOB.format(job))
    return described(row)


@router.delete("/v1/jobs/{job}")
async def cancel_job(
    job: JobNumber, state: Shared, operated: Operator, application: Application
) -> Job:
    """Compile and lend nothing more of a job. Agents may report what they hold, and what is served
    stays. An application cancels what it alone has asked for.
    """
    refuse_keyless(keyed=operated or application is not None)
    async with state.pool.connection() as db, db.transaction():
        row = await fetch_one(db, tuning.progress(job_id=job))
        if row is None:
            raise Refusal(HTTPStatus.NOT_FOUND, NO_JOB.format(job))
        if application is not None:
            askers = [each.application_id for each in await fetch_all(db, applications.askers(job))]
            if askers != [application.id]:
                raise Refusal(
                    HTTPStatus.FORBIDDEN,
                    f"others have asked for job {job} as well; the operator can cancel it",
                )
        await execute(db, tuning.cancel_job(job))
        cancelled = await fetch_one(db, tuning.progress(job_id=job))
    assert cancelled is not None
    return described(cancelled)


@router.put("/v1/sets/{name}")
async def put_set(
    name: SetName,
    body: WorkloadSetRequest,
    state: Shared,
    operated: Operator,
    application: Application,
) -> WorkloadSet:
    """Name the workloads of an application, so that a page asks for all of them at once."""
    refuse_keyless(keyed=operated or application is not None)
    keys: list[str] = [workload_key(each) for each in dict.fromkeys(body.workloads)]
    async with state.pool.connection() as db, db.transaction():
        workloads = list((await registered(db, keys)).values())
        for workload in workloads:
            refuse_unmeasured(workload)
        await execute(db, tuning.lock_workloads(alone=True))
        if application is not None:
            await _own(db, application, name, len(workloads))
            await _register_new(db, application, keys)
        before = await fetch_all(db, tuning.clear_set(name))
        for position, workload in enumerate(workloads):
            await execute(db, tuning.register_workload(workload))
            await execute(db, tuning.add_to_set(name, position, workload.key))
        await execute(db, tuning.release_workloads([row.workload_key for row in before]))
        await execute(db, notifications.zoo_changed())
    return WorkloadSet(name=name, workloads=list(keys))


@router.get("/v1/sets")
async def list_sets(state: Shared, operated: Operator, application: Application) -> SetList:
    """An application's own sets; all, for the operator."""
    refuse_keyless(keyed=operated or application is not None)
    async with state.pool.connection() as db:
        rows = await fetch_all(db, applications.sets(application.id if application else None))
    return SetList(sets=listed(rows, OwnedSet.of))


async def _charge(db: AsyncConnection[Any], application: ApplicationRow, job_id: int) -> None:
    """Raises Refusal (429) for one job too many; the transaction takes it back."""
    most = application.jobs_per_day
    if await fetch_one(db, applications.ask_for_job(application.id, job_id, most)) is None:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{application.name} may open {most} tuning jobs within 24 hours and has; "
            "come back tomorrow, or ask the operator for more",
            {"Retry-After": "3600"},
        )


async def _own(
    db: AsyncConnection[Any], application: ApplicationRow, set_name: str, workloads: int
) -> None:
    """Raises Refusal unless the set is the application's, or becomes it within its quota."""
    if workloads > application.workloads_per_set:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"{application.name} may have {application.workloads_per_set} workloads in a set, "
            f"not {workloads}; ask the operator for more",
        )
    await execute(db, applications.lock(application.id))
    owned = await fetch_one(db, applications.owner(set_name))
    if owned is not None and owned.application_id != application.id:
        raise Refusal(HTTPStatus.FORBIDDEN, f"the set {set_name} is another's; take another name")
    made = applications.own_set(application.id, set_name, application.sets)
    if await fetch_one(db, made) is None:
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            f"{application.name} may have {application.sets} sets and has; "
            "ask the operator for more",
        )


async def _register_new(
    db: AsyncConnection[Any], application: ApplicationRow, workload_keys: list[str]
) -> None:
    """Raises Refusal (429) for a set with more new workloads than are left for today."""
    most = application.sets * application.workloads_per_set
    noted = await fetch_one(db, applications.register_new(application.id, workload_keys, most))
    assert noted is not None, "a comparison is one row"
    if not noted.allowed:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"{application.name} may register {most} new workloads within 24 hours, as many as its "
            "sets hold, and has; keep those that it has, come back tomorrow, or ask the operator "
            "for larger sets",
            {"Retry-After": "3600"},
        )


def described(row: tuning.JobProgress) -> Job:
    return Job.of(
        row,
        job=row.id,
        workload=row.workload_key,
        compile_ms_median=_ms(row.compile_ns_median),
        compile_ms_last=_ms(row.compile_ns_last),
    )


def _ms(elapsed_ns: float | None) -> float | None:
    return None if elapsed_ns is None else round(elapsed_ns / 1e6, 3)
