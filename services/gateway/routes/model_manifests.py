"""Gives pages the plan of a model with the kernels of their class, in one signed answer."""

import asyncio
import gzip
import time
from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header, Request, Response

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import MEASURED
from kernelzoo.metrics import MANIFEST_DURATION, MANIFEST_KERNELS
from services.gateway.client_files import accepted
from services.gateway.models import build, cache_key
from services.gateway.purging import class_tags
from services.gateway.recall import asked, recalled
from services.gateway.routes.zoo import MANIFEST_CACHE, After, ClassText, IfNoneMatch, Told
from services.gateway.state import Shared, network_of
from services.gateway.wire.models import ModelManifest, ModelName

router = APIRouter(tags=["models"])


@router.get("/v1/models/{name}/{device_class}", response_model=ModelManifest)
async def get_model_manifest(
    name: ModelName,
    device_class: ClassText,
    request: Request,
    state: Shared,
    if_none_match: IfNoneMatch = None,
    accept_encoding: Annotated[str, Header()] = "",
    hardware: Told = None,  # noqa: ARG001 - read with the rest of the query
    after: After = 0,
) -> Response:
    """A plan of a model with the kernels of a class of devices, in one request. Other
    parameters are dimensions, as in `?batch=1&sequence=128`; a model with one plan needs none. A
    plan that serves a range is given for each extent of it, with `dimensions` of the largest. Of
    plans that differ by their precision alone the fastest is given, or that of
    `precision=f32` or `precision=int8`.
    """
    start_s = time.perf_counter()
    key = cache_key(name, device_class, request.query_params.items())
    by = asked(request.scope, network_of(request, state.tokens), after, device_class)
    found = await recalled(state, state.models, key, by, partial(build, state, key))
    served = found.served
    MANIFEST_DURATION.labels(found.cache).observe(time.perf_counter() - start_s)
    for level, kernels in served.levels:
        MANIFEST_KERNELS.labels(level).inc(kernels)
    if DeviceClass.parse(device_class).target.kind in MEASURED:
        state.page_loads.count(f"model:{name}", device_class)
    headers = {
        **found.headers(MANIFEST_CACHE),
        **class_tags(device_class),
        "Vary": "Accept-Encoding",
    }
    if if_none_match is not None and served.etag in if_none_match:
        return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
    if "gzip" in accepted(accept_encoding):
        headers["Content-Encoding"] = "gzip"
        return Response(served.body, media_type="application/json", headers=headers)
    plain = await asyncio.to_thread(gzip.decompress, served.body)
    return Response(plain, media_type="application/json", headers=headers)
