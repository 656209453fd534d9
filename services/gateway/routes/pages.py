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


@router.get("/runbook")
async def runbook_page(state: Shared) -> Response:
    """Serve the page that alerts link to."""
    return FileResponse(state.settings.client_dist / "guide" / "runbook.html")


@router.get("/healthz")
async def alive() -> Response:
    return JSONResponse({"status": "ok"})


@router.get("/readyz")
async def ready(state: Shared) -> Response:
    """200 when the database has the schema and its notifications arrive, over a connection that no
    request uses: however much there is to do, a gateway that works is ready. The broker may be
    away: what it would have carried is requeued. Without a database a gateway that kept anything
    is ready, too, to give it again; one that is new is not, as others may have what it lacks.
    """
    if not state.wake.connected:
        if state.standby.has_any and state.wake.away:
            return JSONResponse({"status": "read-only"})
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the database does not answer, or has no schema yet; try again",
            {"Retry-After": "1"},
        )
    return JSONResponse({"status": "ready"})
