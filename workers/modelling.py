"""Database flows around the cost model: load what it learns from, store what it says."""

import msgspec
import structlog

from kernelzoo.domain.device import DeviceClass, Engine, GpuProbeLevels, ProbeLevels
from kernelzoo.domain.kinship import STRANGER
from kernelzoo.domain.target import TargetKind
from kernelzoo.store import cost_models, evidence, models, notifications, orders, programs
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from services.tuner.cost_model.dataset import Observation, ProbedDevice
from services.tuner.cost_model.model import CostModel, costs_in_order, evaluation_order
from services.tuner.cost_model.training import TrainingResult, train_and_evaluate

log = structlog.get_logger(__name__)

RACES = 1_000
"""The latest that a model learns from. 908 take 3 s of a core (AMD EPYC, one thread)."""

PROBE_LEVELS: dict[TargetKind, type[ProbeLevels | GpuProbeLevels]] = {
    TargetKind.WASM: ProbeLevels,
    TargetKind.WEBGPU: GpuProbeLevels,
}


def train(db: Database, measurements: int) -> None:
    """`measurements`: how many had been judged, which is stored beside the model.

    One thread at the priority of compilations: a lower one would keep a place of the queue from
    them for longer than it saves others.
    """
    served = fetch_one(db, cost_models.served())
    result = train_and_evaluate(observations(db), CostModel.read(served.body) if served else None)
    if result is None:
        log.info("too little to learn from", measurements=measurements)
        return
    _store(db, result, measurements)


def order(db: Database, unordered: list[orders.UnorderedRow]) -> None:
    served = fetch_one(db, cost_models.served())
    model = CostModel.read(served.body) if served else None
    for row in unordered:
        with db.transaction():
            ranked, costs = _ranked(db, row, model)
            claims = fetch_all(db, evidence.claims(row.job_id))
            claimed = {claim.candidate_id: claim.relative_time for claim in claims}
            first = evaluation_order(ranked, claimed)
            execute(
                db,
                orders.put_order(
                    row.job_id,
                    row.device_class,
                    served.version if served else 0,
                    list(first),
                    costs_in_order(first, costs) if costs else None,
                ),
            )
            if model is not None:
                execute(db, notifications.order_changed(row.job_id))
    if model is not None:
        with db.transaction():
            execute(db, models.prioritise())


def _ranked(
    db: Database, row: orders.UnorderedRow, model: CostModel | None
) -> tuple[list[str], dict[str, float]]:
    """Candidate ids by the model with their costs, or by promise where it knows nothing of them."""
    configured = fetch_all(db, orders.orderable(row.job_id))
    known = programs.workloads(db, (each.workload_key for each in configured))
    space = [each.to_candidate(known[each.workload_key]) for each in configured]
    if model is not None:
        probed = fetch_one(db, cost_models.probe_of(row.device_class))
        device = _device(probed) if probed else _stranger(row.device_class)
        if (ranked := model.ranked(space, device)) is not None:
            costs = {candidate.candidate_id: cost for candidate, cost in ranked}
            return list(costs), costs
    return [candidate.candidate_id for candidate in space], {}


def observations(db: Database) -> list[Observation]:
    timed = fetch_all(db, cost_models.timed(RACES))
    known = programs.workloads(db, (row.workload_key for row in timed))
    return [
        Observation(
            device=_device(row),
            candidate=row.to_candidate(known[row.workload_key]),
            relative_time=row.relative_time,
        )
        for row in timed
    ]


def _device(row: cost_models.ProbeRow | cost_models.RaceRow) -> ProbedDevice:
    levels = PROBE_LEVELS[row.device_class.target.kind]
    return ProbedDevice(
        hardware=row.device_class.device_id,
        device_class=row.device_class,
        engine=Engine(name=row.engine_name, version=row.engine_version),
        peak_gflops=row.peak_gflops,
        probe=None if row.probe is None else msgspec.convert(row.probe, levels),
    )


def _stranger(device_class: DeviceClass) -> ProbedDevice:
    """Nothing is known but the features and the primitive vector."""
    return ProbedDevice(
        hardware=STRANGER,
        device_class=device_class,
        engine=Engine(name="", version=""),
    )


def _store(db: Database, result: TrainingResult, measurements: int) -> None:
    execute(
        db,
        cost_models.store(
            sha256=result.model.version,
            body=result.model.body,
            published=result.published,
            reason=result.reason,
            evaluation=msgspec.json.encode(result.evaluation).decode(),
            measurements=measurements,
        ),
    )
    log.info("trained", published=result.published, reason=result.reason)
