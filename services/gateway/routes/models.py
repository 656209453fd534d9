"""Lists, registers and removes models, which the operator does."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, BackgroundTasks, Query, Response
from psycopg import AsyncConnection

from kernelzoo import jobs
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.plan import Plan, PlanTensor, Port, call_counts
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload, WorkloadKey
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.plans import read_plan
from kernelzoo.store import models, notifications, tuning
from kernelzoo.store.asynchronous import execute, fetch_all, fetch_one
from kernelzoo.store.models import AwaitedRow, ModelRow, PlanRow, StoredPlan
from services.gateway import programs
from services.gateway.blobs import Blobs
from services.gateway.lists import listed, telling
from services.gateway.models import (
    blob_url,
    lost,
    original_of,
    suited,
    unknown,
    weights_of,
)
from services.gateway.problems import Refusal, refuse_stranger
from services.gateway.purging import ZOO, tagged
from services.gateway.state import Operator, Shared
from services.gateway.wire.model import Sha256
from services.gateway.wire.models import (
    ListedModel,
    ModelDocument,
    ModelList,
    ModelName,
    ModelOfGraph,
    ModelRequest,
    ModelsOfGraph,
    OpenAxis,
    PlanRequest,
    PlanWire,
    PortWire,
    Registered,
)

router = APIRouter(tags=["models"])

MOST_OF_GRAPH = 8
"""Models of one graph that are told: the same network with several weights."""
OF_GRAPH_CACHE = "public, max-age=60, stale-if-error=86400"


@router.get("/v1/models")
async def list_models(state: Shared) -> ModelList:
    """Every model, by name."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, models.all_models())
    return ModelList(models=listed(rows, _listed))


@router.get("/v1/models/{name}")
async def get_model(name: ModelName, state: Shared) -> ModelDocument:
    """A model and its plans: one for each choice of what it leaves open."""
    async with state.pool.connection() as db:
        rows = await fetch_all(db, models.plans(name))
    if not rows:
        raise unknown(name)
    return await _document(state.blobs, rows)


@router.get("/v1/graphs/{graph}")
async def get_models_of_graph(graph: Sha256, response: Response, state: Shared) -> ModelsOfGraph:
    """The models that were imported from a file of ONNX, by the hash of its graph without weights.
    A page that has the file takes the one with the weights of the file.
    """
    async with state.pool.connection() as db:
        found = await fetch_all(db, models.of_graph(graph, MOST_OF_GRAPH))
        rows = [(each, await fetch_all(db, models.plans(each.name))) for each in found]
    told = []
    for each, plans in rows:
        with telling(each):
            if plans:
                document = await _document(state.blobs, plans)
                told.append(ModelOfGraph(weights=each.source_weights, model=document))
    response.headers.update({"Cache-Control": OF_GRAPH_CACHE, **tagged(ZOO)})
    return ModelsOfGraph(models=told)


@router.put("/v1/models/{name}", status_code=HTTPStatus.CREATED)
async def put_model(
    name: ModelName,
    body: ModelRequest,
    response: Response,
    state: Shared,
    operated: Operator,
    after: BackgroundTasks,
    replace: Annotated[bool, Query(description="Put it in the place of another.")] = False,
) -> Registered:
    """Register a model whose files were sent, and have its workloads tuned. Asking again for the
    same answers 200 and changes nothing but the targets that it is tuned for, which grow.
    """
    refuse_stranger(operated=operated)
    sent = await asyncio.to_thread(programs.read, body.programs)
    plans = [await asyncio.to_thread(_plan, state.blobs, name, each) for each in body.plans]
    keys = [key for plan in plans for key in plan.kernels]
    async with state.pool.connection() as db:
        workloads = await programs.registered(db, keys, sent)
        read = [
            await asyncio.to_thread(_read, state.blobs, plan, each, workloads)
            for plan, each in zip(plans, body.plans, strict=True)
        ]
        _refuse_equal(read)
        async with db.transaction():
            await execute(db, models.lock())
            before = await fetch_all(db, models.plans(name))
            if _same(before, read):
                response.status_code = HTTPStatus.OK
            else:
                _refuse_another(name, before, read, replace=replace)
                await execute(db, tuning.lock_workloads(alone=False))
                await programs.register(db, sent)
                await programs.registered(db, keys)
                await _register(db, name, body.source, state.blobs, read)
            if (told := body.source_hashes) is not None:
                await execute(db, models.put_source_hashes(name, told.graph, told.weights))
            opened = await _open_jobs(db, read, body.targets)
            await execute(db, models.prioritise())
            await execute(db, models.cancel_unused_jobs())
            rows = await fetch_all(db, models.plans(name))
            awaited = await fetch_all(db, models.awaited(name))
        await _clear(db, state.blobs, before)
    for message in _messages(awaited):
        after.add_task(state.send, message)
    return Registered(model=await _document(state.blobs, rows), jobs=len(opened))


def _messages(awaited: Sequence[AwaitedRow]) -> Iterator[jobs.Message]:
    """For all of it, whoever opened the jobs: messages of earlier ones may have been lost, or
    dropped while nobody wanted them."""
    yield from (jobs.plan_space(row.job_id) for row in awaited if row.job_id is not None)
    yield from jobs.compile_defaults(
        [row.candidate_id for row in awaited if row.candidate_id is not None]
    )


@router.delete("/v1/models/{name}", status_code=HTTPStatus.NO_CONTENT)
async def delete_model(name: ModelName, state: Shared, operated: Operator) -> None:
    """Serve a model no more, and remove its files. What was learned of its workloads stays."""
    refuse_stranger(operated=operated)
    async with state.pool.connection() as db:
        async with db.transaction():
            await execute(db, models.lock())
            before = await fetch_all(db, models.plans(name))
            if await execute(db, models.remove(name)) == 0:
                raise unknown(name)
            await execute(db, models.cancel_unused_jobs())
            await execute(db, notifications.zoo_changed())
        await _clear(db, state.blobs, before)


@dataclass(frozen=True, slots=True, kw_only=True)
class _ReadPlan:
    """`calls` of each workload in a run of the largest extents, in the order of the plan's kernels;
    `runs` count those of buckets as often as what they run in the place of."""

    stored: StoredPlan
    workloads: Mapping[WorkloadKey, Workload]
    calls: Mapping[str, int]
    runs: Mapping[str, int]

    @property
    def flops(self) -> dict[str, int]:
        """The operations of each workload in a run, those of a bucket in a run of it."""
        return {key: self.runs[key] * each.flops for key, each in self.workloads.items()}


def _plan(blobs: Blobs, name: str, asked: PlanRequest) -> Plan:
    """Raises Refusal or InvalidInput for a plan that was not sent, is none or has another name."""
    plan = read_plan(_body(blobs, asked.plan, "plan"))
    if plan.model != name:
        raise InvalidInput(f"the plan is of the model {plan.model!r}, not {name!r}")
    return plan


def _read(
    blobs: Blobs, plan: Plan, asked: PlanRequest, known: Mapping[WorkloadKey, Workload]
) -> _ReadPlan:
    """Raises Refusal or InvalidInput for a plan that does not fit its files or workloads."""
    golden_bytes = _size(blobs, plan.golden.sha256, "golden file")
    ends = (part.offset + part.bytes for part in (*plan.golden.inputs, *plan.golden.outputs))
    if max(ends, default=0) > golden_bytes:
        raise InvalidInput(f"the golden file has {golden_bytes} bytes, fewer than the plan says")
    if (asked.weights is None) == (asked.weights_url is None):
        raise InvalidInput("the weights are either a file that was sent, or at weights_url")
    if asked.weights is not None:
        _refuse_other_weights(plan, _size(blobs, asked.weights, "weights"))
    workloads = {WorkloadKey(key): known[WorkloadKey(key)] for key in plan.kernels}
    _refuse_unfit_calls(plan, tuple(workloads.values()))
    called = call_counts(plan)
    return _ReadPlan(
        stored=StoredPlan(
            dimensions=dict(plan.dimensions),
            plan_sha256=asked.plan,
            plan_bytes=_size(blobs, asked.plan, "plan"),
            weights_sha256=asked.weights,
            weights_bytes=plan.file_bytes,
            weights_url=asked.weights_url or "",
            original_sha256=asked.original,
            original_bytes=_size(blobs, asked.original, "map") if asked.original else 0,
            golden_sha256=plan.golden.sha256,
            golden_bytes=golden_bytes,
            f16=plan.has_f16,
            precision=Precision.of_kernels(plan.kernels),
        ),
        workloads=workloads,
        calls={key: called[key] for key in plan.kernels},
        runs={
            **called,
            **{plan.kernels[own]: called[plan.kernels[of]] for of, own in plan.bucket_kernels},
        },
    )


def _refuse_other_weights(plan: Plan, size_bytes: int) -> None:
    if size_bytes != plan.file_bytes:
        raise InvalidInput(f"the weights have {size_bytes} bytes; the plan says {plan.file_bytes}")


def _refuse_unfit_calls(plan: Plan, workloads: Sequence[Workload]) -> None:
    """A kernel would read and write beyond tensors that are smaller than it takes them for."""
    for number, call in enumerate(plan.calls):
        workload = workloads[call.kernel]
        given = [plan.tensors[index] for index in call.tensors]
        wanted = [(each.dtype, each.size_bytes) for each in workload.tensors]
        if [(each.dtype, each.size_bytes) for each in given] != wanted:
            raise InvalidInput(
                f"call {number} ({call.label}) gives {workload.key} other tensors than it takes"
            )
        for kernel, other in plan.bucket_kernels:
            if kernel == call.kernel and not _fits_first(workloads[other], given):
                raise InvalidInput(
                    f"call {number} ({call.label}) has no tensors that begin as those of "
                    f"{workloads[other].key}, which runs in its place for short extents"
                )


def _fits_first(workload: Workload, given: Sequence[PlanTensor]) -> bool:
    """Returns whether a kernel stays within tensors of which it takes the first entries."""
    return len(workload.tensors) == len(given) and all(
        wanted.dtype is tensor.dtype
        and (
            wanted.size_bytes == tensor.size_bytes
            or (wanted.size_bytes < tensor.size_bytes and tensor.weight is None)
        )
        for wanted, tensor in zip(workload.tensors, given, strict=True)
    )


def _body(blobs: Blobs, name: str, what: str) -> bytes:
    body = blobs.read(name)
    if body is None:
        raise _not_sent(name, what)
    return body


def _size(blobs: Blobs, name: str, what: str) -> int:
    size_bytes = blobs.size_bytes(name)
    if size_bytes is None:
        raise _not_sent(name, what)
    return size_bytes


def _not_sent(name: str, what: str) -> Refusal:
    return Refusal(
        HTTPStatus.CONFLICT, f"the {what} {name} is not here; PUT /v1/blobs/{name} first"
    )


def _refuse_equal(plans: Sequence[_ReadPlan]) -> None:
    seen: list[tuple[Mapping[str, int], Precision, bool]] = []
    for plan in plans:
        stored = plan.stored
        if (stored.dimensions, stored.precision, stored.f16) in seen:
            raise InvalidInput(
                f"two plans of {stored.precision} have the dimensions {dict(stored.dimensions)}"
            )
        if seen and set(stored.dimensions) != set(seen[0][0]):
            raise InvalidInput("all plans of a model need the same dimensions")
        seen.append((stored.dimensions, stored.precision, stored.f16))
    for plan in plans:
        other = (plan.stored.dimensions, plan.stored.precision, False)
        if plan.stored.f16 and other not in seen:
            raise InvalidInput(
                f"the plan of f16 for {dict(plan.stored.dimensions)} is for WebGPU alone; send "
                "that of f32, too"
            )


def _same(before: Sequence[PlanRow], plans: Sequence[_ReadPlan]) -> bool:
    sent = [_files_named(plan.stored) for plan in plans]
    return [_files_named(row) for row in before] == sent


def _files_named(plan: StoredPlan) -> tuple[str | None, ...]:
    return plan.plan_sha256, plan.weights_sha256, plan.weights_url, plan.original_sha256


def _refuse_another(
    name: str, before: Sequence[PlanRow], plans: Sequence[_ReadPlan], *, replace: bool
) -> None:
    """Plans may come to those that there are, such as those of another precision."""
    sent = {_files_named(plan.stored) for plan in plans}
    if not replace and any(_files_named(row) not in sent for row in before):
        raise Refusal(
            HTTPStatus.CONFLICT,
            f"there is another model {name}, of {before[0].source}; take another name, or put this "
            "in its place with --replace",
        )


async def _register(
    db: AsyncConnection[Any], name: str, source: str, blobs: Blobs, plans: Sequence[_ReadPlan]
) -> None:
    """Workloads are locked (`tuning.lock_workloads`)."""
    for plan in plans:
        # What was there before the lock may have gone with another model.
        for file in _files(plan.stored):
            _size(blobs, file, "file")
    await execute(db, models.remove(name))
    await execute(db, models.put_model(name, source))
    workloads = {key: each for plan in plans for key, each in plan.workloads.items()}
    for key in sorted(workloads):
        await execute(db, tuning.register_workload(workloads[key]))
    for position, plan in enumerate(plans):
        stored = await fetch_one(db, models.put_plan(name, position, plan.stored))
        assert stored is not None
        await execute(db, models.put_calls(stored.id, plan.calls))
    await execute(db, notifications.zoo_changed())


async def _open_jobs(
    db: AsyncConnection[Any], plans: Sequence[_ReadPlan], targets: Sequence[TargetKind]
) -> list[int]:
    """Creates jobs, and returns the new ones, of what takes most of an inference first."""
    shares = _largest_shares(plans)
    called = {target: _called_on(target, plans) for target in targets}
    opened: list[int] = []
    for key in sorted(shares, key=lambda each: (-shares[each], each)):
        for target in targets:
            if key in called[target]:
                job = tuning.open_job(key, target, priority=shares[key])
                opened += [row.id for row in await fetch_all(db, job)]
                await execute(db, tuning.resume_jobs(key, target))
    return opened


def _called_on(target: TargetKind, plans: Sequence[_ReadPlan]) -> set[str]:
    """The workloads of the plans that pages of a target are given."""
    given = {each.plan_sha256 for each in suited([plan.stored for plan in plans], target)}
    return {key for plan in plans if plan.stored.plan_sha256 in given for key in plan.workloads}


def _largest_shares(plans: Sequence[_ReadPlan]) -> dict[str, float]:
    """The largest share of the operations of any plan that each workload has; below 1."""
    shares: dict[str, float] = {}
    for plan in plans:
        flops = plan.flops
        total = sum(flops.values()) or 1
        for key, each in flops.items():
            shares[key] = max(shares.get(key, 0.0), min(each / total, 0.999))
    return shares


async def _clear(db: AsyncConnection[Any], blobs: Blobs, gone: Sequence[PlanRow]) -> None:
    """Removes files that no model names: those of plans that went, and others that are old."""
    async with db.transaction():
        await execute(db, models.lock())
        named = {row.sha256 for row in await fetch_all(db, models.files())}
        blobs.remove({file for row in gone for file in _files(row)} - named)
        await asyncio.to_thread(blobs.sweep, named)


def _files(plan: StoredPlan) -> tuple[str, ...]:
    files = plan.plan_sha256, plan.weights_sha256, plan.original_sha256, plan.golden_sha256
    return tuple(each for each in files if each is not None)


def _listed(row: ModelRow) -> ListedModel:
    return ListedModel.of(row, added_at=row.added_at.isoformat())


async def _document(blobs: Blobs, rows: Sequence[PlanRow]) -> ModelDocument:
    first = rows[0]
    return ModelDocument(
        name=first.model,
        source=first.source,
        added_at=first.added_at.isoformat(),
        plans=[await asyncio.to_thread(_described, blobs, row) for row in rows],
    )


def _described(blobs: Blobs, row: PlanRow) -> PlanWire:
    body = blobs.read(row.plan_sha256)
    if body is None:
        raise lost(row.model, row.plan_sha256)
    plan = read_plan(body)
    batch = plan.batch
    return PlanWire(
        dimensions=dict(row.dimensions),
        least={each.name: each.least for each in plan.ranges},
        dtype=DType.F16 if row.f16 else DType.F32,
        precision=Precision(row.precision),
        error=plan.golden.storage_error,
        plan=blob_url(row.plan_sha256, row.plan_bytes),
        weights=weights_of(row),
        original=original_of(row),
        golden=blob_url(row.golden_sha256, row.golden_bytes),
        # Pages give what has an extent, not the extent.
        inputs=[
            _port(plan, port, joined=bool(batch and place in batch.inputs))
            for place, port in enumerate(plan.inputs)
            if place not in plan.told_inputs
        ],
        outputs=[
            _port(plan, port, joined=bool(batch and place in batch.outputs))
            for place, port in enumerate(plan.outputs)
        ],
        memory={"weights": plan.memory.weights, "activations": plan.memory.activations},
        kernels=len(plan.kernels),
        calls=len(plan.calls),
    )


def _port(plan: Plan, port: Port, *, joined: bool) -> PortWire:
    """`joined`: its first axis is the plan's batch."""
    axes: list[OpenAxis] = []
    if joined and plan.batch is not None:
        axes.append(OpenAxis(place=0, dimension=plan.batch.name, most=plan.batch.most, step=1))
    for each in port.open_places:
        dimension, most = plan.axes[each.axis].name, port.shape[each.place]
        axes.append(OpenAxis(place=each.place, dimension=dimension, most=most, step=each.step))
    return PortWire(name=port.name, dtype=port.dtype, shape=list(port.shape), open=axes)
