"""Applications: made, listed and ended by the operator."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from kernelzoo.store import applications
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from services.gateway.lists import listed
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.state import Operator, Shared
from services.gateway.tokens import new_secret
from services.gateway.wire.applications import (
    Application,
    ApplicationList,
    ApplicationRequest,
    NewKey,
    Origins,
    OriginsChange,
    QuotaWire,
)

router = APIRouter(tags=["applications"])

Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,63}$")]


@router.post("/v1/applications", status_code=HTTPStatus.CREATED)
async def create(body: ApplicationRequest, state: Shared, operated: Operator) -> NewKey:
    """Make an application. Its key is in this answer and nowhere else."""
    refuse_stranger(operated=operated)
    secret = new_secret()
    quota = applications.Quota(**body.quota.model_dump())
    async with state.pool.connection() as db:
        row = await fetch_one(db, applications.create(body.name, secret.hash, body.origins, quota))
    if row is None:
        raise Refusal(
            HTTPStatus.CONFLICT, f"there is an application {body.name}; take another name"
        )
    state.origins.forget()
    return NewKey(name=row.name, key=secret.key(row.id))


@router.get("/v1/applications")
async def list_applications(state: Shared, operated: Operator) -> ApplicationList:
    """Every application, with what it has used of its quota."""
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        rows = await fetch_all(db, applications.usage())
    return ApplicationList(applications=listed(rows, _application))


@router.post("/v1/applications/{name}/key")
async def rotate(name: Name, state: Shared, operated: Operator) -> NewKey:
    """A new key; the old one ends at once. A disabled application comes back."""
    refuse_stranger(operated=operated)
    secret = new_secret()
    async with state.pool.connection() as db:
        row = await fetch_one(db, applications.change_key(name, secret.hash))
    if row is None:
        raise _unknown(name)
    state.origins.forget()
    return NewKey(name=row.name, key=secret.key(row.id))


@router.patch("/v1/applications/{name}/origins")
async def change_origins(
    name: Name, body: OriginsChange, state: Shared, operated: Operator
) -> Origins:
    """Let pages of origins measure for an application, or no longer. It holds within seconds."""
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        row = await fetch_one(db, applications.change_origins(name, body.added, body.removed))
    if row is None:
        raise _unknown(name)
    state.origins.forget()
    return Origins(name=row.name, origins=row.origins)


@router.post("/v1/applications/{name}/disable", status_code=HTTPStatus.NO_CONTENT)
async def disable(name: Name, state: Shared, operated: Operator) -> None:
    """Its key opens nothing any more, and nobody opens a session in its name. Its sets stay."""
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        if await execute(db, applications.disable(name)) == 0:
            raise _unknown(name)
    state.origins.forget()


def _unknown(name: str) -> Refusal:
    return Refusal(
        HTTPStatus.NOT_FOUND, f"there is no application {name}; GET /v1/applications lists all"
    )


def _application(row: applications.UsageRow) -> Application:
    return Application.of(
        row,
        quota=QuotaWire(
            jobs_per_day=row.jobs_per_day, sets=row.sets, workloads_per_set=row.workloads_per_set
        ),
        sets=row.own_sets,
        created_at=row.created_at.isoformat(),
    )
