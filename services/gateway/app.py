"""The gateway as an application; `services.gateway.__main__` serves it."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from fastapi import FastAPI

from kernelzoo import __version__, jobs, metrics
from kernelzoo.exporter import exporting
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer
from kernelzoo.telemetry import configure_logging
from services.gateway import garbage, problems
from services.gateway.admission import Admission
from services.gateway.attestation.verifier import verifiers
from services.gateway.background import running
from services.gateway.blobs import Blobs
from services.gateway.builds import Builds
from services.gateway.cache import ManifestCache
from services.gateway.cdn import chosen_cdn
from services.gateway.census import Census
from services.gateway.client_files import ClientFiles
from services.gateway.cors import AllowedOrigins, Cors
from services.gateway.denied import Denied
from services.gateway.impatience import Impatience
from services.gateway.interface import DocumentedApp
from services.gateway.middleware import BodyLimit, Counted, HeadAsGet, StandardHeaders
from services.gateway.notifier import Notifier
from services.gateway.page_loads import PageLoads
from services.gateway.pool import AGENTS, PAGES, measured_pool
from services.gateway.programs import Programs
from services.gateway.proxies import ForwardedFor, Proxies
from services.gateway.purging import Outdated, Purging
from services.gateway.rates import Polls, RateLimits
from services.gateway.remembered import Remembered
from services.gateway.reminders import Reminders
from services.gateway.repeats import Repeats
from services.gateway.routes import (
    applications,
    attestations,
    console,
    cost_models,
    denials,
    identities,
    leases,
    model_coverage,
    model_manifests,
    models,
    pages,
    programs,
    queue,
    results,
    sessions,
    timelines,
    uploads,
    wrong_outputs,
    zoo,
)
from services.gateway.routes import jobs as job_routes
from services.gateway.shedding import Shedding
from services.gateway.standby import Standby
from services.gateway.state import State
from services.gateway.streams import Streams
from services.gateway.tokens import Tokens
from services.gateway.wake import Wake
from services.gateway.wire.model import Problem

REMEMBERED_S = 5.0
MOST_MODELS = 256
"""Models of classes that have voted that are kept in memory; a tenth of a megabyte each. Of classes
that have not, fewer are."""


def create(settings: Settings) -> FastAPI:
    configure_logging(as_json=settings.log_json)
    app = application(settings)
    app.mount("/client", ClientFiles(directory=settings.client_dist, check_dir=False))
    return app


def application(settings: Settings) -> FastAPI:
    """The routes and what they share, without the client's files."""
    app = DocumentedApp(
        title="kernelzoo",
        version=__version__,
        summary="Crowd-tuned kernels for deep learning in the browser",
        lifespan=_lifespan(settings),
        responses={"4XX": {"model": Problem, "description": "Refused: what, why, what to do"}},
        strict_content_type=True,
        # They would send whoever asks to the host that it names.
        redirect_slashes=False,
        # Our own page shows the document: FastAPI's load their scripts from a CDN.
        docs_url=None,
        redoc_url=None,
        # Metrics are our own. Merely asking whether OpenTelemetry is set up took a tenth of the
        # time of a request (FastAPI 0.163).
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    problems.install(app)
    for module in (
        *(sessions, attestations, leases, job_routes, applications),
        *(zoo, denials, identities, results, programs, uploads, models, model_coverage),
        *(wrong_outputs, model_manifests, queue, timelines),
        *(cost_models, console, pages),
    ):
        app.include_router(module.router)
    app.add_middleware(BodyLimit, limit_bytes=settings.max_request_bytes)
    app.add_middleware(Impatience)
    app.add_middleware(Cors)
    proxies = Proxies.of(settings.trusted_proxies, settings.trusted_hops)
    app.add_middleware(ForwardedFor, proxies=proxies)
    app.add_middleware(StandardHeaders)
    app.add_middleware(Counted)
    # Outermost, so that a refusal, or an answer that was given before, costs none of the others.
    app.add_middleware(Repeats, proxies=proxies, limit_bytes=settings.max_request_bytes)
    app.add_middleware(Reminders, proxies=proxies)
    app.add_middleware(Shedding, proxies=proxies)
    app.add_middleware(HeadAsGet)
    return app


def _lifespan(settings: Settings) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        # First, so that a malformed key ends the process at once.
        signer = Signer.of(settings.signing_key.get_secret_value())
        chosen = verifiers(settings)
        rates = RateLimits(settings)
        cdn = chosen_cdn(settings)
        outdated = Outdated(collects=cdn is not None)
        wake = Wake(settings.database_url, outdated)
        pool = measured_pool(settings.database_url, AGENTS)
        pages = measured_pool(settings.database_url, PAGES)
        builds = Builds()
        standby = Standby(settings.standby_dir, settings.standby_bytes)
        denied = Denied(pages, signer, wake, standby)
        purging = Purging(cdn, pages, outdated)
        page_loads = PageLoads(pool)
        send = jobs.celery_sender(jobs.broker(settings.redis_url))
        notifier = Notifier(send)
        metrics.begin_at_zero(metrics.GATEWAY)
        with exporting(settings, Census(settings.database_url)):
            async with (
                pool,
                pages,
                builds.watching(),
                wake.listening(),
                page_loads.writing(),
                standby.writing(),
                denied.watching(),
                purging.watching(),
                notifier.sending(),
                running(garbage.collect_youngest()),
            ):
                app.state.kernelzoo = State(
                    settings=settings,
                    pool=pool,
                    pages=pages,
                    builds=builds,
                    admission=Admission(lambda: builds.late_s),
                    send=send,
                    notifier=notifier,
                    tokens=Tokens(
                        secret=settings.token_secret.get_secret_value(),
                        session_s=settings.session_s,
                    ),
                    origins=AllowedOrigins(pool, settings.origins),
                    wake=wake,
                    manifests=ManifestCache(wake),
                    models=ManifestCache(
                        wake,
                        most_voted=MOST_MODELS,
                        most_wanted=MOST_MODELS // 2,
                        most_others=MOST_MODELS // 4,
                    ),
                    blobs=Blobs(folder=settings.models_dir, limit_bytes=settings.max_blob_bytes),
                    page_loads=page_loads,
                    signer=signer,
                    rates=rates,
                    polls=Polls(settings.polls_per_network),
                    verifiers=chosen,
                    programs=Programs(),
                    remembered=Remembered(REMEMBERED_S),
                    streams=Streams(),
                    denied=denied,
                    standby=standby,
                )
                yield
        await rates.close()

    return lifespan
