"""Pages, bundles and health."""

from http import HTTPStatus

from fastapi import APIRouter
from fastapi.responses import FileResponse, JSONResponse, RedirectResponse, Response

from services.gateway.problems import problem
from services.gateway.state import Shared

router = APIRouter(include_in_schema=False)


@router.get("/")
async def root() -> Response:
    return RedirectResponse("/console")


@router.get("/agent")
async def agent_page(state: Shared) -> Response:
    return FileResponse(state.settings.client_dist / "agent.html")


@router.get("/console")
async def console_page(state: Shared) -> Response:
    return FileResponse(state.settings.client_dist / "console.html")


@router.get("/docs")
async def documentation_page(state: Shared) -> Response:
    return FileResponse(state.settings.client_dist / "docs.html")


@router.get("/healthz")
async def alive() -> Response:
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
async def ready(state: Shared) -> Response:
    """200 when the database answers and notifications arrive. The broker may be away: what it
    would have carried is found by the ring.
    """
    async with state.pool.connection(timeout=2) as db:
        await db.execute("SELECT 1 FROM workload LIMIT 1")
    if not state.wake.connected:
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, "not listening to the database yet")
    return JSONResponse({"status": "ready"})
