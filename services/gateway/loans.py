"""Carries out what `lending` plans, and says how much a stranger is lent.

Whoever is lent a kernel keeps it from others for a while. To take everything and answer nothing
costs nothing but identities, of which a network has as many as it likes within days: so the next
lease depends on how the network and the identity answered what they were lent before.
"""

import secrets
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

from psycopg import AsyncConnection

from kernelzoo.domain.lease import LEADERS, cover
from kernelzoo.domain.tolerance import comparison_tolerance
from kernelzoo.domain.trust import Defence, recheck_probability
from kernelzoo.store import agents, candidates, leases, lending_quotas, measurements, prospects
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from kernelzoo.store.leases import ConductRow
from services.gateway.lending import LeasePlan, LendingTerms, plan
from services.gateway.manifests import kernel_of
from services.gateway.problems import Refusal
from services.gateway.state import State
from services.gateway.tokens import Session, unauthorized
from services.gateway.wire.leases import Lease, MeasuredKernel

BELIEVED = 1 / 3
"""Part of a lease's time for which its agent is thought to be measuring, from when it was last
heard of: a browser reports each measurement, and takes a second or two for one."""

CHANCE = secrets.SystemRandom()

Connection = AsyncConnection[Any]


async def try_to_lend(
    state: State, session: Session, limit: int, only: list[str] | None
) -> Lease | None:
    """Lends of the first job that has anything for this agent; None where no job has. Where
    workloads are given, `only` of theirs.

    Raises Refusal (401) for an identity that was erased, and (429) for a network that had its
    share.
    """
    identity, device_class = session.identity_id, session.device_class
    async with state.pool.connection() as db:
        borrower = await fetch_one(
            db, prospects.borrower(identity, device_class, state.settings.session_s)
        )
        if borrower is None:
            raise unauthorized("this identity was erased")
        after = prospects.FIRST
        while job := await fetch_one(
            db, prospects.next_job(identity, device_class, after, session.application_id, only)
        ):
            terms = LendingTerms(
                reference_id=job.reference_id,
                limit=limit,
                cover=cover(state.settings.max_malicious_share),
                quorum=state.settings.quorum,
                sharers=max(borrower.sharers, 1),
                recheck=recheck_probability(borrower.valid_in_row)
                if state.settings.max_malicious_share
                else 0.0,
                closed=job.closed,
            )
            if (loan := await _borrowed(db, state, session, job, terms)) is not None:
                return await _described(db, state, session, job, loan)
            after = job.priority, job.job_id
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loan:
    """A plan that is stored."""

    lease_id: int
    seed: int
    nonce: str
    plan: LeasePlan


async def _borrowed(
    db: Connection,
    state: State,
    session: Session,
    job: prospects.LendableJobRow,
    terms: LendingTerms,
) -> _Loan | None:
    """While it runs nobody else of the class is lent anything, so it does no more than it must."""
    seed, nonce = secrets.randbits(32), secrets.token_urlsafe(16)
    identity, device_class = session.identity_id, session.device_class
    async with db.transaction():
        await execute(db, prospects.lock_class(device_class))
        credited = Defence.CREDIT in state.settings.defences
        if not session.operated and credited:
            terms = replace(terms, limit=await _credit(db, state, session, terms.limit))
        if terms.limit == 0:
            return None
        believed_s = state.settings.lease_s * (BELIEVED if credited else 1)
        found = await fetch_all(
            db,
            prospects.prospects(
                job.job_id, identity, device_class, cover=terms.cover, believed_s=believed_s
            ),
        )
        if (planned := plan(found, terms, CHANCE)) is None:
            return None
        if not session.operated and not await _rationed(db, state, session, job, planned):
            return None
        granted = await fetch_one(
            db,
            leases.grant(
                session_id=session.session_id,
                identity_id=identity,
                device_class=device_class,
                job_id=job.job_id,
                reference_id=job.reference_id,
                items=dict(planned.items),
                complete=planned.complete,
                seed=seed,
                nonce=nonce,
                duration_s=state.settings.lease_s,
            ),
        )
    if granted is None:
        raise unauthorized("this session was erased")
    return _Loan(lease_id=granted.id, seed=seed, nonce=nonce, plan=planned)


async def _credit(db: Connection, state: State, session: Session, limit: int) -> int:
    """Candidates that a stranger may be lent. Its network is locked until the transaction ends."""
    await execute(db, agents.lock_network(session.network))
    found = await fetch_one(db, leases.conduct(session.identity_id, session.network))
    assert found is not None, "an aggregate is one row"
    return credit(found, limit, state.settings.leases_per_network)


async def _rationed(
    db: Connection,
    state: State,
    session: Session,
    job: prospects.LendableJobRow,
    planned: LeasePlan,
) -> bool:
    """Returns whether a stranger may be lent this today. What a class or key was lent in plenty
    teaches the zoo nothing more, and its agents wait; a network that had its share is told.
    """
    if not planned.items:
        return True
    settings, place = state.settings, (session.network, session.device_class, job.workload_key)
    taken = await fetch_one(db, lending_quotas.taken(*place))
    assert taken is not None, "sums are one row"
    if taken.network >= settings.lent_per_network_per_day:
        raise Refusal(
            HTTPStatus.TOO_MANY_REQUESTS,
            f"this network was lent {taken.network} candidates today, as many as a network may "
            "measure; come back tomorrow, after midnight UTC",
            {"Retry-After": "3600"},
        )
    full = is_used_up(
        settings.lent_per_class_per_day, taken.device_class, taken.own_of_class, settings.lent_share
    ) or is_used_up(settings.lent_per_key_per_day, taken.key, taken.own_of_key, settings.lent_share)
    if not full:
        await execute(db, lending_quotas.take(*place, len(planned.items)))
    return not full


def is_used_up(quota: int, taken: int, own: int, share: float) -> bool:
    """Returns whether a network had its part of a quota, `share` of what the others left of it:
    each that comes has less, and it takes dozens to leave nothing to whoever comes next.
    """
    return taken >= quota or own >= max(1.0, share * (quota - (taken - own)))


async def _described(
    db: Connection, state: State, session: Session, job: prospects.LendableJobRow, loan: _Loan
) -> Lease:
    """Describes a lease as the agent is told of it: without roles."""
    finalists = list(loan.plan.finalists)
    ranked = await fetch_all(
        db,
        measurements.fastest(
            job.job_id, session.identity_id, session.device_class, LEADERS, finalists
        ),
    )
    lent = [candidate_id for candidate_id, _ in loan.plan.items]
    named = [job.reference_id, *lent, *(row.candidate_id for row in ranked)]
    described = await fetch_all(db, candidates.kernels(named))
    kernels = {row.candidate_id: kernel_of(row) for row in described}
    workload = (await state.programs.workloads(db, (job.workload_key,)))[job.workload_key]
    return Lease(
        lease=str(loan.lease_id),
        nonce=loan.nonce,
        expires_in_s=state.settings.lease_s,
        workload=workload.key,
        flops=workload.flops,
        seed=loan.seed,
        tolerance=comparison_tolerance(workload, session.device_class.target.kind),
        reference=kernels[job.reference_id],
        candidates=[kernels[candidate_id] for candidate_id in lent],
        measured=[
            MeasuredKernel(kernel=kernels[row.candidate_id], relative_time=row.relative_time)
            for row in ranked
        ],
        unmeasured=loan.plan.unmeasured,
        complete=loan.plan.complete,
        finalists=finalists,
    )


def credit(found: ConductRow, limit: int, per_network: int) -> int:
    """Candidates of its next lease, at most `limit`; 0 while its network has enough of them.

    A page that is closed leaves one lease unanswered, so that the next one is small and, once it is
    answered, the one after it whole. A network of which more leases are left than are answered has
    fewer at a time, down to one.
    """
    at_once = max(1, per_network - max(0, found.neglected - found.answered))
    if found.open >= at_once:
        return 0
    return max(1, limit - found.unreported)
