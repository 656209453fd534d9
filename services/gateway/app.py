"""The gateway: `uvicorn services.gateway.app:create --factory`."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from starlette.middleware.cors import CORSMiddleware

from kernelzoo import __version__, jobs, metrics
from kernelzoo.exporter import exporting
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer
from kernelzoo.telemetry import configure_logging
from services.gateway import problems
from services.gateway.census import Census
from services.gateway.doorbell import Doorbell
from services.gateway.manifests import ManifestCache
from services.gateway.middleware import BodyLimit, Counted, StandardHeaders
from services.gateway.page_loads import PageLoads
from services.gateway.pool import measured_pool
from services.gateway.rates import Rates
from services.gateway.routes import (
    applications,
    console,
    denials,
    keys,
    leases,
    models,
    pages,
    results,
    sessions,
    zoo,
)
from services.gateway.routes import jobs as job_routes
from services.gateway.state import State
from services.gateway.tokens import Tokens
from services.gateway.wake import Wake
from services.gateway.wire.model import Problem


def create() -> FastAPI:
    settings = Settings()
    configure_logging(as_json=settings.log_json)
    app = application(settings)
    app.mount("/client", StaticFiles(directory=settings.client_dist, check_dir=False))
    return app


def application(settings: Settings) -> FastAPI:
    """The routes and what they share, without the client's files."""
    app = FastAPI(
        title="kernelzoo",
        version=__version__,
        summary="Crowd-tuned kernels for deep learning in the browser",
        lifespan=_lifespan(settings),
        responses={"4XX": {"model": Problem, "description": "Refused: what, why, what to do"}},
        strict_content_type=True,
        # Our own page shows the document: FastAPI's load their scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        # Metrics are our own. Merely asking whether OpenTelemetry is set up took a tenth of the
        # time of a request (FastAPI 0.163).
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    problems.install(app)
    for module in (
        *(sessions, leases, job_routes, applications),
        *(zoo, denials, keys, results, models, console, pages),
    ):
        app.include_router(module.router)
    app.add_middleware(BodyLimit, limit_bytes=settings.max_request_bytes)
    app.add_middleware(
        CORSMiddleware,
        allow_origins=["*"],
        allow_methods=["GET", "POST", "PUT"],
        allow_headers=["Authorization", "Content-Type", "X-Kernelzoo-Operator"],
        expose_headers=["ETag", "Retry-After"],
        max_age=86_400,
    )
    app.add_middleware(StandardHeaders)
    app.add_middleware(Counted)
    return app


def _lifespan(settings: Settings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # First, so that a malformed key ends the process at once.
        signer = Signer.of(settings.signing_key.get_secret_value())
        rates = Rates(settings)
        wake = Wake(settings.database_url)
        pool = measured_pool(settings.database_url)
        page_loads = PageLoads(pool)
        send = jobs.celery_sender(jobs.broker(settings.redis_url))
        doorbell = Doorbell(send)
        metrics.begin_at_zero(metrics.GATEWAY)
        with exporting(settings, Census(settings.database_url)):
            async with pool, wake.listening(), page_loads.writing(), doorbell.ringing():
                app.state.kernelzoo = State(
                    settings=settings,
                    pool=pool,
                    send=send,
                    doorbell=doorbell,
                    tokens=Tokens(
                        secret=settings.token_secret.get_secret_value(),
                        session_s=settings.session_s,
                    ),
                    wake=wake,
                    manifests=ManifestCache(wake),
                    page_loads=page_loads,
                    signer=signer,
                    rates=rates,
                )
                yield
        await rates.close()

    return lifespan
