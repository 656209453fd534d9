"""Tells how the tuning of a model went on a class of devices."""

from fastapi import APIRouter, Request, Response

from kernelzoo.domain.device import DeviceClass
from kernelzoo.store import timelines
from kernelzoo.store.asynchronous import fetch_all
from services.gateway.manifests import Key
from services.gateway.models import cache_key, chosen
from services.gateway.routes.zoo import ClassText
from services.gateway.state import Shared, State
from services.gateway.timeline import timeline
from services.gateway.wire.models import ModelName, ModelTimeline, SwapWire

router = APIRouter(tags=["models"])


@router.get("/v1/models/{name}/{device_class}/timeline", response_model=ModelTimeline)
async def get_timeline(
    name: ModelName, device_class: ClassText, request: Request, state: Shared
) -> Response:
    """Tell what an inference was expected to take on a class, and each kernel that changed it. An
    answer is up to five seconds old. Parameters are dimensions, and `precision`; f32 unless told.
    """
    key = cache_key(name, device_class, request.query_params.items())

    async def make() -> bytes:
        return (await _timeline(state, name, key)).model_dump_json().encode()

    body = await state.remembered.get(("timeline", *key), make)
    return Response(body, media_type="application/json", headers={"Cache-Control": "no-cache"})


async def _timeline(state: State, name: str, key: Key) -> ModelTimeline:
    _, class_text, _, *asked = key
    device_class = DeviceClass.parse(class_text)
    async with state.pool.connection() as db:
        target = device_class.target.kind
        plan = await chosen(state, db, name, asked, target)
        first = await fetch_all(db, timelines.first_times(plan.id, device_class))
        found = timeline(first, await fetch_all(db, timelines.versions(plan.id, device_class)))
    return ModelTimeline(
        model=name,
        device_class=class_text,
        dimensions=dict(plan.dimensions),
        first_ms=None if found is None else found.first_ns / 1e6,
        measured=0.0 if found is None else found.measured,
        swaps=[
            SwapWire(
                at=swap.at.isoformat(),
                expected_ms=swap.elapsed_ns / 1e6,
                workload=swap.workload_key,
                candidate=swap.candidate_id,
                before_ms=swap.before_ns / 1e6,
                after_ms=swap.after_ns / 1e6,
                served=swap.served,
            )
            for swap in (found.swaps if found else ())
        ],
    )
