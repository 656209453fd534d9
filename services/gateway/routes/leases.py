"""Leases by long poll, the measurements that answer them, and ballots."""

import secrets
import time
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from psycopg import AsyncConnection

from kernelzoo import jobs
from kernelzoo.domain.ballot import Ballot, BallotLine
from kernelzoo.domain.measurement import Measurement, Outcome
from kernelzoo.domain.seeded import SAMPLED_ENTRIES, comparison_tolerance
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import ballots, candidates, leases, measurements, tuning
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.manifests import kernel_of
from services.gateway.problems import Refusal
from services.gateway.state import CurrentSession, Shared, State
from services.gateway.tokens import Session
from services.gateway.wire.leases import (
    BallotAccepted,
    BallotRequest,
    Lease,
    LeaseRequest,
    MeasuredKernel,
    MeasurementWire,
    Report,
    ReportAccepted,
)

router = APIRouter(tags=["agents"])

# A notification can be missed while the listening connection is renewed; then this finds the rows.
POLL_S = 2.0

# As many as an agent measures again before its final ballot.
FASTEST = 8


@router.post("/v1/leases", responses={HTTPStatus.NO_CONTENT: {"description": "Nothing to do"}})
async def lend(
    body: LeaseRequest, request: Request, state: Shared, session: CurrentSession
) -> Lease:
    """Borrow candidates to measure. Waits for the first one to be compiled."""
    deadline = time.monotonic() + body.wait_s
    while not await request.is_disconnected():
        await _open_jobs(state, session)
        lease = await _try_to_lend(state, session, body.limit)
        remaining_s = deadline - time.monotonic()
        if lease is not None:
            return lease
        if remaining_s <= 0:
            break
        await state.wake.wait(min(remaining_s, POLL_S))
    return Response(status_code=HTTPStatus.NO_CONTENT)  # type: ignore[return-value]


async def _open_jobs(state: State, session: Session) -> None:
    """The first agent with a model of GPU opens the jobs of its space."""
    if session.device_class.target.kind is not TargetKind.WEBGPU:
        return
    async with state.pool.connection() as db:
        opened = await fetch_all(db, tuning.open_jobs_for(session.device_class.device_id))
    for job in opened:
        # Sending may block for seconds where the broker is away.
        await run_in_threadpool(state.send, jobs.plan_space(job.id))


async def _try_to_lend(state: State, session: Session, limit: int) -> Lease | None:
    async with state.pool.connection() as db, db.transaction():
        # Two polls of one identity must not be lent the same candidates.
        await execute(db, leases.lock_identity(session.identity_id))
        found = await fetch_all(
            db,
            leases.lendable(
                session.identity_id, session.device_class, limit, session.application_id
            ),
        )
        return await _grant(db, state, session, found) if found else None


async def _grant(
    db: AsyncConnection[Any],
    state: State,
    session: Session,
    lendable: list[leases.LendableRow],
) -> Lease:
    first = lendable[0]
    lent = [row.candidate_id for row in lendable]
    seed, nonce = secrets.randbits(32), secrets.token_urlsafe(16)
    granted = await fetch_one(
        db,
        leases.grant(
            session_id=session.session_id,
            identity_id=session.identity_id,
            device_class=session.device_class,
            job_id=first.job_id,
            reference_id=first.reference_id,
            candidate_ids=lent,
            seed=seed,
            nonce=nonce,
            duration_s=state.settings.lease_s,
        ),
    )
    assert granted is not None
    ranked = await fetch_all(
        db,
        measurements.fastest(first.job_id, session.identity_id, str(session.device_class), FASTEST),
    )
    named = [first.reference_id, *lent, *(row.candidate_id for row in ranked)]
    described = await fetch_all(db, candidates.kernels(named))
    kernels = {row.candidate_id: kernel_of(row) for row in described}
    workload = Workload.parse(first.workload_key)
    return Lease(
        lease=str(granted.id),
        nonce=nonce,
        expires_in_s=state.settings.lease_s,
        workload=workload.key,
        flops=workload.flops,
        seed=seed,
        tolerance=comparison_tolerance(workload, session.device_class.target.kind),
        reference=kernels[first.reference_id],
        candidates=[kernels[candidate_id] for candidate_id in lent],
        measured=[
            MeasuredKernel(kernel=kernels[row.candidate_id], relative_time=row.relative_time)
            for row in ranked
        ],
        unmeasured=first.unmeasured,
        complete=first.complete,
    )


@router.post("/v1/leases/{lease}/measurements", status_code=HTTPStatus.ACCEPTED)
async def report(
    lease: Annotated[str, Path(pattern=r"^[0-9]{1,18}$")],
    body: Report,
    state: Shared,
    session: CurrentSession,
    after: BackgroundTasks,
) -> ReportAccepted:
    """Answer a lease, in one report or in several. Accepted is stored durably."""
    found = tuple(_measurement(wire) for wire in body.measurements)
    async with state.pool.connection() as db, db.transaction():
        row = await fetch_one(db, leases.lease(int(lease)))
        _refuse_unfit(row, session, body.nonce, found)
        for measurement in found:
            await execute(
                db,
                measurements.accept(
                    int(lease), session.identity_id, str(session.device_class), measurement
                ),
            )
    after.add_task(state.send, jobs.verify_lease(int(lease)))
    return ReportAccepted(accepted=len(found))


def _refuse_unfit(
    row: leases.LeaseRow | None,
    session: Session,
    nonce: str,
    found: tuple[Measurement, ...],
) -> None:
    """Raises Refusal unless all of them answer this agent's open lease for the first time."""
    if row is None or row.identity_id != session.identity_id:
        raise Refusal(HTTPStatus.NOT_FOUND, "this agent holds no such lease; ask for a new one")
    if not secrets.compare_digest(row.nonce.encode(), nonce.encode()):
        raise Refusal(HTTPStatus.FORBIDDEN, "the nonce is not the one that came with the lease")
    if row.expired:
        raise Refusal(
            HTTPStatus.GONE,
            f"the lease expired at {row.expires_at:%H:%M:%S} UTC; ask for a new one",
        )
    named = [measurement.candidate_id for measurement in found]
    if len(set(named)) < len(named):
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "a candidate is reported twice")
    if strangers := set(named) - set(row.candidate_ids):
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY, f"candidate {min(strangers)} is not on this lease"
        )
    if answered := set(named) & set(row.answered_ids):
        raise Refusal(HTTPStatus.CONFLICT, f"candidate {min(answered)} was reported before")


def _measurement(wire: MeasurementWire) -> Measurement:
    """Raises Refusal (422) when samples and outcome do not go together."""
    timed = bool(wire.samples_ns and wire.reference_ns)
    sampled = len(wire.sampled_entries)
    if wire.outcome is Outcome.OK and not (timed and sampled == SAMPLED_ENTRIES):
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"candidate {wire.candidate} is ok but lacks samples_ns, reference_ns or "
            f"{SAMPLED_ENTRIES} sampled_entries",
        )
    if wire.outcome is not Outcome.OK and (wire.samples_ns or wire.reference_ns or sampled):
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"candidate {wire.candidate} failed at {wire.outcome} but reports samples",
        )
    return Measurement(
        candidate_id=wire.candidate,
        outcome=wire.outcome,
        samples_ns=tuple(wire.samples_ns),
        reference_ns=tuple(wire.reference_ns),
        calls_per_sample=wire.calls_per_sample,
        sampled_entries=tuple(wire.sampled_entries),
        detail=wire.detail,
    )


@router.put("/v1/ballots", status_code=HTTPStatus.ACCEPTED)
async def vote(
    body: BallotRequest, state: Shared, session: CurrentSession, after: BackgroundTasks
) -> BallotAccepted:
    """File this identity's ballot for a workload on its device class."""
    workload = Workload.parse(body.workload)
    ballot = Ballot(
        identity=str(session.identity_id),
        lines=tuple(
            BallotLine(candidate_id=line.candidate, relative_time=line.relative_time)
            for line in body.lines
        ),
    )
    device_class = str(session.device_class)
    named = [line.candidate_id for line in ballot.lines]
    if len(set(named)) < len(named):
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "a candidate stands twice on the ballot")
    async with state.pool.connection() as db, db.transaction():
        found = await fetch_all(
            db, measurements.measured(session.identity_id, workload.key, device_class, named)
        )
        if unknown := set(named) - {row.candidate_id for row in found}:
            raise Refusal(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"this agent has no successful measurement of candidate {min(unknown)} "
                f"for {workload.key}",
            )
        await execute(db, ballots.file(workload.key, device_class, ballot))
    after.add_task(state.send, jobs.tally(workload.key, device_class))
    return BallotAccepted(lines=len(ballot.lines))
