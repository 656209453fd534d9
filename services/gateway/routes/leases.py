"""Leases by long poll, the measurements that answer them, and ballots."""

import time
from collections import Counter
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, BackgroundTasks, Path, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import APIRoute

from kernelzoo import jobs
from kernelzoo.domain.ballot import Ballot, BallotLine
from kernelzoo.domain.measurement import Measurement, Outcome, Preparation
from kernelzoo.domain.seeded import SAMPLED_ENTRIES
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import workload_key
from kernelzoo.metrics import (
    BALLOTS,
    BALLOTS_REFUSED,
    LEASED_CANDIDATES,
    LEASES,
    MEASUREMENTS_ACCEPTED,
    MEASUREMENTS_REFUSED,
    POLLS_WAITING,
    RefusalReason,
)
from kernelzoo.store import ballots, measurements, notifications, tallies, tuning
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.loans import try_to_lend
from services.gateway.problems import Refusal
from services.gateway.state import CurrentSession, Shared, State
from services.gateway.tokens import Session
from services.gateway.wire.leases import (
    BallotAccepted,
    BallotRequest,
    Lease,
    LeaseReport,
    LeaseRequest,
    MeasurementWire,
    ReportAccepted,
)
from services.gateway.wire.preparation import PreparationWire

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class NumbersRequest(Request):
    """Its JSON is decoded by msgspec, in a fifth of the time that Python's own decoder takes."""

    async def json(self) -> Any:
        try:
            return msgspec.json.decode(await self.body())
        except (msgspec.DecodeError, UnicodeDecodeError):
            # It refuses more than Python's; what both refuse is told in the same words everywhere.
            return await super().json()


class NumbersRoute(APIRoute):
    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()

        async def handle_numbers(request: Request) -> Response:
            return await handle(NumbersRequest(request.scope, request.receive))

        return handle_numbers


router = APIRouter(tags=["agents"], route_class=NumbersRoute)

# A notification can be missed while the listening connection is renewed; then this finds the rows.
POLL_S = 2.0

STATUS = {
    RefusalReason.NO_LEASE: HTTPStatus.NOT_FOUND,
    RefusalReason.NONCE: HTTPStatus.FORBIDDEN,
    RefusalReason.EXPIRED: HTTPStatus.GONE,
    RefusalReason.ANSWERED: HTTPStatus.CONFLICT,
    RefusalReason.UNFIT: HTTPStatus.UNPROCESSABLE_ENTITY,
}
REASONS = {status: reason for reason, status in STATUS.items()}


@router.post("/v1/leases", responses={HTTPStatus.NO_CONTENT: {"description": "Nothing to do"}})
async def lend(
    body: LeaseRequest, request: Request, state: Shared, session: CurrentSession
) -> Lease:
    """Borrow candidates to measure. Waits until there is one that others are not measuring."""
    with state.polls.polling(session):
        deadline = time.monotonic() + body.wait_s
        while not await request.is_disconnected():
            generation = state.wake.generation
            await _open_jobs(state, session)
            lease = await try_to_lend(state, session, body.limit, body.workloads)
            remaining_s = deadline - time.monotonic()
            if lease is not None:
                _count_lease(session, lease)
                return lease
            if remaining_s <= 0:
                break
            with POLLS_WAITING.track_inprogress():
                await state.wake.wait(generation, min(remaining_s, POLL_S))
    return Response(status_code=HTTPStatus.NO_CONTENT)  # type: ignore[return-value]


def _count_lease(session: Session, lease: Lease) -> None:
    target = session.device_class.target.kind
    LEASES.labels(target).inc()
    LEASED_CANDIDATES.labels(target).inc(len(lease.candidates))


async def _open_jobs(state: State, session: Session) -> None:
    """The first agent with a model of GPU opens the jobs of its space."""
    if session.device_class.target.kind is not TargetKind.WEBGPU:
        return
    async with state.pool.connection() as db:
        device_id = session.device_class.device_id
        lacking = tuning.open_jobs_for(device_id, session.network, operated=session.operated)
        opened = await fetch_all(db, lacking)
    for job in opened:
        # Sending may block for seconds where the broker is away.
        await run_in_threadpool(state.send, jobs.plan_space(job.id))


@router.post("/v1/leases/{lease}/measurements", status_code=HTTPStatus.ACCEPTED)
async def report(
    lease: Annotated[str, Path(pattern=r"^[0-9]{1,18}$")],
    body: LeaseReport,
    state: Shared,
    session: CurrentSession,
) -> ReportAccepted:
    """Answer a lease, in one report or in several. Accepted is stored durably."""
    try:
        found = await _accept(int(lease), body, state, session)
    except Refusal as refusal:
        MEASUREMENTS_REFUSED.labels(REASONS[refusal.status]).inc(len(body.measurements))
        await state.rates.vain(str(session.identity_id))
        raise
    for outcome, measured in Counter(measurement.outcome for measurement in found).items():
        MEASUREMENTS_ACCEPTED.labels(outcome).inc(measured)
    state.notifier.notify(int(lease))
    return ReportAccepted(accepted=len(found))


async def _accept(
    lease_id: int, body: LeaseReport, state: State, session: Session
) -> tuple[Measurement, ...]:
    """Stores all of them, or raises Refusal."""
    found = tuple(_measurement(wire) for wire in body.measurements)
    if len({measurement.candidate_id for measurement in found}) < len(found):
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "a candidate is reported twice")
    question = measurements.accept(lease_id, session.identity_id, body.nonce, found)
    async with state.pool.connection() as db:
        told = await fetch_one(db, question)
    assert told is not None, "accept_report answers one row"
    if told.fault is not None:
        raise _refusal(told)
    return found


def _refusal(told: measurements.ReportRow) -> Refusal:
    """The refusal of a report that does not answer this agent's open lease for the first time."""
    match told.fault:
        case RefusalReason.NO_LEASE:
            detail = "this agent holds no such lease; ask for a new one"
        case RefusalReason.NONCE:
            detail = "the nonce is not the one that came with the lease"
        case RefusalReason.EXPIRED:
            detail = f"the lease expired at {told.expired_at:%H:%M:%S} UTC; ask for a new one"
        case RefusalReason.UNFIT:
            detail = f"candidate {told.named} is not on this lease"
        case RefusalReason.ANSWERED:
            detail = f"candidate {told.named} was reported before"
        case _:
            raise AssertionError(told.fault)
    return Refusal(STATUS[RefusalReason(told.fault)], detail)


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
    samples_ns = tuple(wire.samples_ns)
    return Measurement(
        candidate_id=wire.candidate,
        outcome=wire.outcome,
        samples_ns=samples_ns,
        reference_ns=tuple(wire.reference_ns),
        calls_per_sample=wire.calls_per_sample,
        sampled_entries=tuple(wire.sampled_entries),
        detail=wire.detail,
        preparation=_preparation(wire.preparation, samples_ns),
    )


def _preparation(wire: PreparationWire | None, samples_ns: tuple[float, ...]) -> Preparation | None:
    """None where nothing is told, of a failure, and where the samples contradict it."""
    if wire is None or not samples_ns:
        return None
    told = Preparation(**wire.model_dump())
    return told if told.agrees_with(samples_ns) else None


@router.put("/v1/ballots", status_code=HTTPStatus.ACCEPTED)
async def vote(
    body: BallotRequest, state: Shared, session: CurrentSession, after: BackgroundTasks
) -> BallotAccepted:
    """File this identity's ballot for a workload on its device class."""
    if not session.operated:
        await state.rates.report(session.network)
    workload = workload_key(body.workload)
    ballot = Ballot(
        identity=str(session.identity_id),
        lines=tuple(
            BallotLine(candidate_id=line.candidate, relative_time=line.relative_time)
            for line in body.lines
        ),
        in_tokens=body.in_tokens,
        paired=body.paired,
    )
    device_class = session.device_class
    named = [line.candidate_id for line in ballot.lines]
    if len(set(named)) < len(named):
        raise Refusal(HTTPStatus.UNPROCESSABLE_ENTITY, "a candidate stands twice on the ballot")
    async with state.pool.connection() as db:
        found = await fetch_all(
            db, measurements.measured(session.identity_id, workload, device_class, named)
        )
        if unknown := set(named) - {row.candidate_id for row in found}:
            BALLOTS_REFUSED.inc()
            raise Refusal(
                HTTPStatus.UNPROCESSABLE_ENTITY,
                f"this agent has no successful measurement of candidate {min(unknown)} "
                f"for {workload}",
            )
        asked = []
        if await execute(db, ballots.file(workload, device_class, ballot)):
            await execute(db, notifications.ballot_filed(ballot.identity))
            asked = await fetch_all(db, tallies.ask(workload, device_class))
    BALLOTS.inc()
    for row in asked:
        after.add_task(state.send, jobs.tally(row.workload_key, row.device_class))
    return BallotAccepted(lines=len(ballot.lines))
