"""Takes the files that models are made of, and gives them to pages."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request, Response
from fastapi.responses import FileResponse

from kernelzoo.metrics import BLOB_SENT_BYTES
from services.gateway.models import blob_url
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.routes.zoo import ARTIFACT_CACHE, IfNoneMatch
from services.gateway.state import Operator, Shared
from services.gateway.wire.models import FileWire

router = APIRouter(tags=["models"])

Hash = Annotated[str, Path(pattern=r"^[0-9a-f]{64}$")]


@router.put("/v1/blobs/{sha256}")
async def put_blob(
    sha256: Hash,
    request: Request,
    state: Shared,
    operated: Operator,
    content_length: Annotated[int | None, Header(ge=0)] = None,
) -> FileWire:
    """Send a file that models are made of, before a model names it. It may be sent again."""
    refuse_stranger(operated=operated)
    size_bytes = await state.blobs.store(sha256, content_length, request.stream())
    return blob_url(sha256, size_bytes)


@router.get("/v1/blobs/{sha256}")
async def get_blob(sha256: Hash, state: Shared, if_none_match: IfNoneMatch = None) -> Response:
    """A file that a model is made of, or the `Range` of it that is asked for. It never changes."""
    path = state.blobs.path(sha256)
    if path is None:
        raise Refusal(HTTPStatus.NOT_FOUND, "no model has this file any more; load the model again")
    headers = {"Cache-Control": ARTIFACT_CACHE, "ETag": f'"{sha256}"'}
    if if_none_match is not None and sha256 in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    BLOB_SENT_BYTES.inc(path.stat().st_size)
    return FileResponse(path, media_type="application/octet-stream", headers=headers)
