"""Identities are erased: by the operator, or by whoever holds the identity's token."""

from http import HTTPStatus
from typing import Any
from uuid import UUID

from fastapi import APIRouter, BackgroundTasks, Request
from psycopg import AsyncConnection

from kernelzoo import jobs
from kernelzoo.store import agents, erasure
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from kernelzoo.store.ballots import KeyRow
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.state import Network, Operator, Shared
from services.gateway.tokens import unauthorized
from services.gateway.wire.identities import ForgetRequest, Held

router = APIRouter(tags=["identities"])

NOTHING = Held(sessions=0, leases=0, measurements=0, ballots=0, entries=0)


@router.get("/v1/identities/{identity}")
async def get_identity(identity: UUID, state: Shared, operated: Operator) -> Held:
    """Count what there is of an identity."""
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        row = await fetch_one(db, erasure.held(identity))
    if row is None:
        raise _unknown(identity)
    return _held(row)


@router.delete("/v1/identities/{identity}")
async def erase_identity(
    identity: UUID, state: Shared, operated: Operator, after: BackgroundTasks
) -> Held:
    """Erase an identity with its sessions, leases, measurements and ballots. What was published
    stays, and is counted again without it. Answers what was erased.
    """
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        erased, keys = await _erase(db, identity)
    if erased is None:
        raise _unknown(identity)
    for key in keys:
        after.add_task(state.send, jobs.tally(key.workload_key, key.device_class))
    return erased


@router.post("/v1/identities/forget")
async def forget_me(
    body: ForgetRequest,
    request: Request,
    state: Shared,
    network: Network,
    after: BackgroundTasks,
) -> Held:
    """Erase one's own identity, as the operator can. Asked again, there is nothing to erase."""
    await state.rates.session(network)
    claimed = state.tokens.identity(body.identity, origin=request.headers.get("origin", ""))
    async with state.pool.connection() as db:
        known = await fetch_one(db, agents.known_identity(claimed.identity_id))
        if known is None:
            return NOTHING
        if claimed.was_replaced(known.renewed_at):
            raise unauthorized("this identity was given a later token more than a day ago")
        erased, keys = await _erase(db, claimed.identity_id)
    for key in keys:
        after.add_task(state.send, jobs.tally(key.workload_key, key.device_class))
    return erased or NOTHING


async def _erase(
    db: AsyncConnection[Any], identity: UUID
) -> tuple[Held | None, tuple[KeyRow, ...]]:
    """Erases an identity. Returns what was erased, None for an unknown identity; and the keys that
    it had voted on."""
    async with db.transaction():
        for statement in erasure.lock(identity):
            await execute(db, statement)
        row = await fetch_one(db, erasure.held(identity))
        if row is None:
            return None, ()
        keys = await fetch_all(db, erasure.ballots(identity))
        for statement in erasure.rest(identity):
            await execute(db, statement)
    return _held(row), tuple(keys)


def _held(row: erasure.HeldRow) -> Held:
    return Held.of(row)


def _unknown(identity: UUID) -> Refusal:
    return Refusal(
        HTTPStatus.NOT_FOUND,
        f"there is no identity {identity}; it was erased already, or removed as it had nothing",
    )
