"""Errors as problem documents (RFC 9457). Every refusal says what, why and what to do."""

from http import HTTPStatus

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from psycopg import OperationalError
from psycopg.errors import QueryCanceled
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException

from kernelzoo.errors import InvalidInput, KernelZooError
from services.gateway.wire.model import Problem

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/problem+json"


class Refusal(KernelZooError):
    """A request that is understood and not granted."""

    def __init__(
        self, status: HTTPStatus, detail: str, headers: dict[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.headers = headers or {}


def refuse_stranger(*, operated: bool) -> None:
    if not operated:
        raise Refusal(
            HTTPStatus.UNAUTHORIZED,
            "this needs the operator's key in the header X-Kernelzoo-Operator",
            {"WWW-Authenticate": "X-Kernelzoo-Operator"},
        )


def refuse_keyless(*, keyed: bool) -> None:
    if not keyed:
        raise Refusal(
            HTTPStatus.UNAUTHORIZED,
            "this needs an application's key in the header X-Kernelzoo-Key, or the operator's in "
            "X-Kernelzoo-Operator",
            {"WWW-Authenticate": "X-Kernelzoo-Key"},
        )


def problem(status: int, detail: str, headers: dict[str, str] | None = None) -> JSONResponse:
    document = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail)
    return JSONResponse(
        document.model_dump(), status_code=status, headers=headers, media_type=MEDIA_TYPE
    )


def install(app: FastAPI) -> None:
    """Registers a handler for each kind of error that a request can end in."""

    @app.exception_handler(Refusal)
    async def refused(_: Request, error: Refusal) -> JSONResponse:
        return problem(error.status, str(error), error.headers)

    @app.exception_handler(InvalidInput)
    async def invalid(_: Request, error: InvalidInput) -> JSONResponse:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))

    @app.exception_handler(RequestValidationError)
    async def malformed(_: Request, error: RequestValidationError) -> JSONResponse:
        return problem(HTTPStatus.UNPROCESSABLE_ENTITY, _first_fault(error))

    @app.exception_handler(HTTPException)
    async def http(_: Request, error: HTTPException) -> JSONResponse:
        headers = dict(error.headers) if error.headers else None
        return problem(error.status_code, str(error.detail), headers)

    @app.exception_handler(QueryCanceled)
    async def too_slow(request: Request, error: QueryCanceled) -> JSONResponse:
        log.warning("statement given up", path=request.url.path, error=str(error))
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the database took too long over this and gave up; nothing was changed. "
            "Ask for less, with a filter or a smaller limit, or try again later",
            {"Retry-After": "10"},
        )

    @app.exception_handler(OperationalError)
    @app.exception_handler(PoolTimeout)
    async def away(_: Request, error: Exception) -> JSONResponse:
        log.warning("database away", error=str(error))
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "the database does not answer; nothing was changed, try again in some seconds",
            {"Retry-After": "5"},
        )


def _first_fault(error: RequestValidationError) -> str:
    faults = error.errors()
    first = faults[0]
    place = ".".join(str(part) for part in first["loc"]) or "request"
    others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{place}: {first['msg']}{others}"
