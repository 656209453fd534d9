"""A model as a class of devices is given it: its plan, where its weights are, and the kernels."""

import asyncio
import gzip
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
import structlog
from psycopg import AsyncConnection

from kernelzoo import jobs
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.dtype import DType
from kernelzoo.domain.precision import Precision
from kernelzoo.domain.target import DTYPES, MEASURED, TargetKind
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.plans import with_needs
from kernelzoo.linking import link, link_javascript
from kernelzoo.store import candidates, kernel_times, models, tuning
from kernelzoo.store.asynchronous import execute, fetch_all
from kernelzoo.store.models import CalledRow, PlanRow, StoredPlan
from services.gateway.answering import answer, hardware_of
from services.gateway.blobs import Blobs
from services.gateway.manifests import (
    Key,
    ServedManifest,
    class_name,
    hardware_text,
    issue_time,
    levels,
    served,
    sources,
)
from services.gateway.precision import Call, Expected, believed, choose, expected
from services.gateway.problems import Refusal
from services.gateway.state import State
from services.gateway.wire.artifacts import ArtifactWire, Kernel
from services.gateway.wire.models import (
    FileWire,
    ModelManifest,
    ModuleForRuns,
    ModuleWire,
    PrecisionWire,
)
from services.gateway.wire.zoo import ServedKernel

log = structlog.get_logger(__name__)

HARDWARE = "hardware"
AFTER = "after"
PRECISION = "precision"
"""The parameters of a request that are no dimensions."""
ANY_PRECISION = "auto"
_NO_PLAN = b'"plan":{}'
_GZIP_LEVEL = 6


def cache_key(name: str, device_class: str, query: Iterable[tuple[str, str]]) -> Key:
    """Key of an answer in memory, and what `build` takes: hardware as told, then dimensions, and
    among them the precision that is asked for, if any."""
    given = dict(query)
    if given.get(PRECISION) == ANY_PRECISION:
        del given[PRECISION]
    told = hardware_text(given.pop(HARDWARE, ""))
    given.pop(AFTER, None)
    dimensions = (f"{dimension}={extent}" for dimension, extent in sorted(given.items()))
    return f"model:{name}", class_name(device_class), told, *dimensions


async def build(state: State, key: Key) -> ServedManifest:
    """Compressed. Raises Refusal for a model, dimensions, a precision or a class that are not
    served."""
    named, class_text, told, *asked = key
    name = named.removeprefix("model:")
    device_class = DeviceClass.parse(class_text)
    target = device_class.target.kind
    async with state.pages.connection() as db:
        rows = await fitting(state, db, name, asked, target)
        called = {row.precision: await fetch_all(db, models.calls(row.id)) for row in rows}
        hardware = await hardware_of(db, told or None, device_class.device_id)
        every_key = [str(each.workload_key) for calls in called.values() for each in calls]
        found = await answer(
            db,
            state.programs,
            list(dict.fromkeys(every_key)),
            device_class,
            hardware,
            state.settings.quorum,
        )
        offered = {
            str(each.row.workload_key): (each.row.flops, served(each, target)) for each in found
        }
        # A plan that stands alone is compared with no other.
        alone = len(rows) == 1
        times_ns = {} if alone else await _times(state, db, offered.values(), device_class)
        offers = [
            _expected(precision, calls, offered, times_ns) for precision, calls in called.items()
        ]
        choice = choose(offers, asked=_asks(asked))
        (row,) = (each for each in rows if each.precision == choice.precision)
        keys = [str(each.workload_key) for each in called[row.precision]]
        kernels = {key: kernel for key in keys if (kernel := offered[key][1]) is not None}
        missing = [workload_key for workload_key in keys if workload_key not in kernels]
        every = tuple(kernels.values())
        module = None if missing else await _linked(db, [each.kernel for each in every], target)
        modules_by_runs = [
            ModuleForRuns(runs=runs, module=other)
            for runs in sorted({offer.runs for each in every for offer in each.by_runs})
            if module is not None
            and (other := await _linked(db, [_for(each, runs) for each in every], target))
        ]
    if missing and target not in MEASURED:
        await have_compiled(state, missing, target)
    compiling = await _compiling(state, missing, target) if missing else set()
    plan = await asyncio.to_thread(state.blobs.read, row.plan_sha256)
    if plan is None:
        raise lost(name, row.plan_sha256)
    document = ModelManifest(
        model=1,
        name=name,
        device_class=class_text,
        dimensions=dict(row.dimensions),
        precision=choice.precision,
        precision_reason=choice.reason,
        precisions=[
            await asyncio.to_thread(_compared, state.blobs, each, offer)
            for each, offer in zip(rows, offers, strict=True)
        ],
        plan={},
        weights=weights_of(row),
        golden=blob_url(row.golden_sha256, row.golden_bytes),
        module=module,
        modules_by_runs=modules_by_runs,
        kernels=kernels,
        missing=missing,
        compiling=[each for each in missing if each in compiling],
        issued_at=issue_time(),
        serial=row.serial,
        signatures=[],
    )
    head = document.model_dump_json(exclude={"signatures"}).encode()
    body = state.signer.seal(head.replace(_NO_PLAN, b'"plan":' + with_needs(plan), 1))
    return ServedManifest(
        body=await asyncio.to_thread(gzip.compress, body, _GZIP_LEVEL, mtime=0),
        # Weak: the same document is sent compressed or plain.
        etag=f'W/"{sha256(body).hexdigest()[:32]}"',
        issued_at=document.issued_at,
        levels=levels(kernels.values(), len(missing)),
        serial=document.serial,
        sources=sources([device_class], [found]),
    )


async def chosen(
    state: State,
    db: AsyncConnection[Any],
    name: str,
    asked: Sequence[str],
    target: TargetKind,
) -> PlanRow:
    """The first of the plans that fit: that of f32 unless another precision is asked for."""
    first, *_ = await fitting(state, db, name, asked, target)
    return first


async def fitting(
    state: State,
    db: AsyncConnection[Any],
    name: str,
    asked: Sequence[str],
    target: TargetKind,
) -> list[PlanRow]:
    """The plans for a target that have these dimensions, or else serve a range with them, of f16
    where there is one for it: one of each precision, that of f32 first, or the one that is asked
    for. Raises Refusal where there are none, or of several dimensions."""
    rows = suited(await fetch_all(db, models.plans(name)), target)
    if not rows:
        raise unknown(name)
    wanted = _wanted(asked)
    precision = wanted.pop(PRECISION, None)
    rows = _of_precision(name, rows, precision)
    found = [row for row in rows if _fits(row.dimensions, wanted)]
    if not found:
        found = await _serving(state.blobs, name, rows, wanted)
    if len({_query(row.dimensions) for row in found}) == 1:
        return sorted(found, key=lambda row: row.precision != Precision.F32)
    have = list(dict.fromkeys(_query(row.dimensions) for row in rows))
    raise Refusal(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"{name} has {len(have)} plans; say which: {' or '.join(have)}",
    )


def _wanted(asked: Sequence[str]) -> dict[str, str]:
    return dict(each.rpartition("=")[::2] for each in asked)


def _asks(asked: Sequence[str]) -> bool:
    """Returns whether a precision is asked for."""
    return PRECISION in _wanted(asked)


def _of_precision(name: str, rows: list[PlanRow], precision: str | None) -> list[PlanRow]:
    """Raises Refusal for a precision that is none, or that no plan has."""
    if precision is None:
        return rows
    if precision not in tuple(Precision):
        raise Refusal(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"precision is {ANY_PRECISION}, {' or '.join(Precision)}, not {precision[:32]!r}",
        )
    found = [row for row in rows if row.precision == precision]
    if found:
        return found
    have = " and ".join(sorted({str(row.precision) for row in rows}))
    remedy = (
        "`kernelzoo models add --quantize int8` adds one"
        if precision == Precision.INT8
        else "add the file that it was before it was quantised"
    )
    raise Refusal(
        HTTPStatus.NOT_FOUND, f"{name} has no plan of {precision}, only of {have}; {remedy}"
    )


async def _times(
    state: State,
    db: AsyncConnection[Any],
    offered: Iterable[tuple[int, ServedKernel | None]],
    device_class: DeviceClass,
) -> Mapping[str, float]:
    """The times of the kernels that are served, in ns, which those told whom the zoo believes."""
    settings = state.settings
    given = [each.kernel.candidate for _, each in offered if each is not None]
    strangers = settings.max_malicious_share > 0
    voices = kernel_times.by_voice(given, device_class, settings.trust, strangers=strangers)
    return believed(await fetch_all(db, voices), settings.quorum)


def _expected(
    precision: Precision,
    called: Sequence[CalledRow],
    offered: Mapping[str, tuple[int, ServedKernel | None]],
    times_ns: Mapping[str, float],
) -> Expected:
    calls = []
    for each in called:
        flops, kernel = offered[each.workload_key]
        candidate_id = None if kernel is None else kernel.kernel.candidate
        calls.append(Call(calls=each.calls, flops=flops, candidate_id=candidate_id))
    return expected(Precision(precision), calls, times_ns)


Plans = TypeVar("Plans", bound=StoredPlan)


def suited(plans: Sequence[Plans], target: TargetKind) -> list[Plans]:
    """The plans that pages of a target are given: of dimensions and a precision that have one with
    values of f16 and one of f32, the former where the target has f16."""
    if DType.F16 not in DTYPES[target]:
        return [each for each in plans if not each.f16]
    halved = [(each.dimensions, each.precision) for each in plans if each.f16]
    return [each for each in plans if each.f16 or (each.dimensions, each.precision) not in halved]


def unknown(name: str) -> Refusal:
    return Refusal(
        HTTPStatus.NOT_FOUND,
        f"there is no model {name[:64]}; GET /v1/models lists all, "
        "`kernelzoo models add` registers one",
    )


def lost(name: str, file: str) -> Refusal:
    """For a file that is gone from the folder."""
    return Refusal(
        HTTPStatus.SERVICE_UNAVAILABLE,
        f"the gateway's folder of models lacks the file {file} of {name}; "
        "the operator sends it again by `kernelzoo models add`",
        {"Retry-After": "60"},
    )


def weights_of(row: StoredPlan) -> FileWire:
    if row.weights_sha256 is None:
        return FileWire(url=row.weights_url, sha256=None, size_bytes=row.weights_bytes)
    return blob_url(row.weights_sha256, row.weights_bytes)


def original_of(row: StoredPlan) -> FileWire | None:
    if row.original_sha256 is None:
        return None
    return blob_url(row.original_sha256, row.original_bytes)


def blob_url(name: str, size_bytes: int) -> FileWire:
    return FileWire(url=f"/v1/blobs/{name}", sha256=name, size_bytes=size_bytes)


def _fits(dimensions: Mapping[str, int], wanted: Mapping[str, str]) -> bool:
    return wanted.items() <= {name: str(extent) for name, extent in dimensions.items()}.items()


async def _serving(
    blobs: Blobs, name: str, rows: Sequence[PlanRow], wanted: Mapping[str, str]
) -> list[PlanRow]:
    """The plans whose range has these dimensions, which only their files say. Raises Refusal where
    there are none."""
    extents = [await asyncio.to_thread(_extents, blobs, row) for row in rows]
    serving = [row for row, each in zip(rows, extents, strict=True) if _has(each, wanted)]
    if serving:
        return serving
    have = " or ".join(_query({axis: _text(n) for axis, n in each.items()}) for each in extents)
    raise Refusal(
        HTTPStatus.NOT_FOUND, f"{name} has no plan for {_query(wanted)[:200]}; ask for {have}"
    )


def _extents(blobs: Blobs, row: PlanRow) -> dict[str, range]:
    """The extents of each dimension that a plan serves. Raises Refusal where its file is gone."""
    told = _told(blobs, row)
    least = {each.name: each.least for each in (*told.axes, *((told.batch,) if told.batch else ()))}
    return {axis: range(least.get(axis, most), most + 1) for axis, most in row.dimensions.items()}


def _compared(blobs: Blobs, row: PlanRow, offer: Expected) -> PrecisionWire:
    """Raises Refusal where the file of the plan is gone."""
    return PrecisionWire(
        precision=offer.precision,
        expected_ms=None if offer.elapsed_ns is None else offer.elapsed_ns / 1e6,
        measured=offer.measured,
        error=_told(blobs, row).golden.storage_error,
    )


def _told(blobs: Blobs, row: PlanRow) -> "_PlanFile":
    """Raises Refusal where the file of a plan is gone."""
    try:
        return _plan_file(blobs, row.plan_sha256)
    except FileNotFoundError as error:
        raise lost(row.model, row.plan_sha256) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    name: str
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Golden:
    storage_error: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanFile:
    """The members of a plan's file that say what it has ranges of, and how far it is off."""

    golden: _Golden
    axes: tuple[_Range, ...] = ()
    batch: _Range | None = None


@lru_cache(maxsize=1024)
def _plan_file(blobs: Blobs, plan_sha256: str) -> _PlanFile:
    """The file never changes. Raises FileNotFoundError."""
    body = blobs.read(plan_sha256)
    if body is None:
        raise FileNotFoundError(plan_sha256)
    return msgspec.json.decode(body, type=_PlanFile)


def _has(extents: Mapping[str, range], wanted: Mapping[str, str]) -> bool:
    return all(axis in extents and _is_one(text, extents[axis]) for axis, text in wanted.items())


def _is_one(text: str, extents: range) -> bool:
    """An extent is written in one way, or each other one would have an answer built for it."""
    written = text.isdecimal() and len(text) <= len(str(extents[-1])) and str(int(text)) == text
    return written and int(text) in extents


def _text(extents: range) -> str:
    """The extents as `kernelzoo models add --dim` takes them."""
    return str(extents[0]) if len(extents) == 1 else f"{extents[0]}..{extents[-1]}"


def _query(dimensions: Mapping[str, object]) -> str:
    return "?" + "&".join(f"{name}={extent}" for name, extent in dimensions.items())


def _for(served: ServedKernel, runs: int) -> Kernel:
    """The best for so many runs."""
    return next((each.kernel for each in served.by_runs if each.runs >= runs), served.kernel)


async def _compiling(state: State, workload_keys: list[str], target: TargetKind) -> set[str]:
    async with state.pages.connection() as db:
        rows = await fetch_all(db, tuning.compiling(workload_keys, target))
    return {row.workload_key for row in rows}


_LINKERS: Mapping[TargetKind, Callable[[Sequence[bytes]], bytes]] = {
    TargetKind.WASM: link,
    TargetKind.JAVASCRIPT: link_javascript,
}


async def have_compiled(state: State, workload_keys: Sequence[str], target: TargetKind) -> None:
    """Opens the jobs of a target that no agent measures, for which nobody else asks."""
    opened: list[int] = []
    async with state.pool.connection() as db, db.transaction():
        for key in sorted(workload_keys):
            job = tuning.open_job(key, target)
            opened += [row.id for row in await fetch_all(db, job)]
    for job_id in opened:
        await asyncio.to_thread(state.send, jobs.plan_space(job_id))


async def _linked(
    db: AsyncConnection[Any], kernels: Sequence[Kernel], target: TargetKind
) -> ModuleWire | None:
    """None where they cannot be linked."""
    linker = _LINKERS.get(target)
    if linker is None:
        return None
    parts: list[ArtifactWire] = [*kernels, *(one.pack for each in kernels for one in each.layouts)]
    hashes = list(dict.fromkeys(part.sha256 for part in parts))
    bodies = {
        row.sha256: row.body for row in await fetch_all(db, candidates.bodies(hashes, target))
    }
    try:
        module = await asyncio.to_thread(linker, [bodies[each] for each in hashes])
    except (InvalidInput, KeyError) as error:
        log.warning("kernels not linked; they are served one by one", error=str(error))
        return None
    name = sha256(module).hexdigest()
    await execute(db, models.store_module(name, target, module))
    await execute(db, models.linked(name))
    return ModuleWire(
        url=f"/v1/artifacts/{name}.{target}",
        sha256=name,
        size_bytes=len(module),
        functions={each: f"f{place}" for place, each in enumerate(hashes)},
    )
