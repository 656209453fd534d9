"""Answers what the console asks: the zoo as a whole, one key, one job. Read by anyone, in limited
parts.

Of a class with fewer identities than the quorum only counts are shown, unless all of them are the
operator's own or the operator asks (docs/adr/0035).
"""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import workload_key
from kernelzoo.store import curves, denials, keys, measurements, overview, tuning, zoo
from kernelzoo.store.asynchronous import fetch_all, fetch_one
from services.gateway import views
from services.gateway.lists import listed
from services.gateway.problems import Refusal
from services.gateway.routes.jobs import described
from services.gateway.state import Operator, Shared
from services.gateway.views import is_shown
from services.gateway.wire.console import (
    Coverage,
    FoundKeys,
    Key,
    Overview,
    Progress,
    Promotion,
)
from services.gateway.wire.model import KeyText

router = APIRouter(tags=["console"])

RECENT_S = 600
LATEST_PROMOTIONS = 10
MOST_VERSIONS = 50
MOST_CURVES = 12

Wanted = Annotated[str, Query(max_length=128, pattern=r"^[\x20-\x7e]*$")]


@router.get("/v1/overview")
async def get_overview(state: Shared) -> Overview:
    """Tell what the zoo holds, who is at work, and what was published last."""
    async with state.pool.connection() as db:
        totals = await fetch_one(db, overview.totals(RECENT_S))
        latest = await fetch_all(db, overview.published(LATEST_PROMOTIONS))
    assert totals is not None
    return views.overview(totals, latest, recent_s=RECENT_S, quorum=state.settings.quorum)


@router.get("/v1/promotions")
async def list_promotions(
    state: Shared, limit: Annotated[int, Query(ge=1, le=200)] = 50
) -> list[Promotion]:
    """Versions of all keys, the latest first, each with the reason why it came."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, overview.published(limit))
    return listed(rows, views.promotion)


@router.get("/v1/coverage")
async def get_coverage(
    state: Shared,
    workload: Wanted = "",
    device: Wanted = "",
    workloads: Annotated[int, Query(ge=1, le=200)] = 100,
    classes: Annotated[int, Query(ge=1, le=400)] = 200,
) -> Coverage:
    """Map which workloads have an entry on which classes. `workload` and `device` narrow the map to
    those that contain the text, `workloads` and `classes` limit its sides.
    """
    async with state.pool.connection() as db:
        columns = await fetch_all(db, overview.covered_workloads(workload, workloads))
        lines = await fetch_all(db, overview.classes(device, classes))
        cells = await fetch_all(
            db,
            overview.cells(
                [each.workload_key for each in columns], [each.device_class for each in lines]
            ),
        )
    return views.coverage(columns, lines, cells)


@router.get("/v1/keys")
async def search_keys(
    state: Shared,
    workload: Wanted = "",
    device: Wanted = "",
    entry: Literal["confirmed", "provisional"] | None = None,
    target: TargetKind | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
) -> FoundKeys:
    """Keys with a live entry, the latest first. `device` is looked for in the device class, the
    processor's architecture, and the vendor, architecture and model of the GPU. `entry` is the
    state of the entry.
    """
    wanted = keys.search(workload, device, limit, offset, state=entry, target=target)
    async with state.pool.connection() as db:
        rows = await fetch_all(db, wanted)
    return views.found_keys(rows)


@router.get("/v1/keys/{workload}/{device_class}")
async def get_key(
    workload: KeyText,
    device_class: Annotated[str, Path(max_length=256)],
    state: Shared,
    operated: Operator,
) -> Key:
    """A workload on a device class: its candidates in the order of their times, their votes, the
    history of what was served, and what is denied to the class.
    """
    key, of = workload_key(workload), DeviceClass.parse(device_class)
    quorum = state.settings.quorum
    async with state.pool.connection() as db:
        crowd = await fetch_one(db, keys.crowd(key, of))
        if crowd is None:
            raise Refusal(
                HTTPStatus.NOT_FOUND,
                f"no agent of class {of} has met {key}; GET /v1/keys lists the keys there are",
            )
        trials = await fetch_all(db, measurements.trials(key, [str(of)]))
        votes = await fetch_all(db, keys.votes(key, of))
        versions = await fetch_all(db, keys.versions(key, of, MOST_VERSIONS))
        decisions = await fetch_all(db, denials.decisions(key, of))
        reference = await fetch_one(db, zoo.default_of(key, of))
        offered = await fetch_all(db, zoo.offered(key, of))
    shown = operated or is_shown(
        identities=crowd.identities, strangers=crowd.strangers, quorum=quorum
    )
    return Key(
        workload=key,
        device_class=str(of),
        device=views.class_of(str(of), crowd),
        flops=crowd.flops,
        quorum=quorum,
        shown=shown,
        reference=reference.candidate_id if reference else None,
        measured=len(trials),
        candidates=views.standings(trials, votes, crowd.flops) if shown else [],
        by_runs=listed(offered, views.offered) if shown else [],
        history=views.history(versions),
        decisions=listed(decisions, views.decision),
    )


@router.get("/v1/jobs/{job}/progress")
async def get_progress(
    job: Annotated[int, Path(ge=1, lt=1 << 63)], state: Shared, operated: Operator
) -> Progress:
    """Tell how far a job has come, and for each class the best rate over rounds and time, with the
    failures by stage.
    """
    quorum = state.settings.quorum
    async with state.pool.connection() as db:
        row = await fetch_one(db, tuning.progress(job_id=job))
        if row is None:
            raise Refusal(HTTPStatus.NOT_FOUND, f"there is no job {job}; GET /v1/jobs lists all")
        measured = await fetch_all(db, curves.by_class(job, MOST_CURVES))
        shown = [
            each.device_class
            for each in measured
            if operated
            or is_shown(identities=each.identities, strangers=each.strangers, quorum=quorum)
        ]
        points = await fetch_all(db, curves.improvements(job, shown))
    return Progress(
        job=described(row),
        quorum=quorum,
        curves=views.curves(measured, set(shown), points, row.flops),
    )
