"""Aggregates the winners of classes by family, for classes that have not voted."""

from collections.abc import Iterator, Mapping

import structlog

from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.kinship import families
from kernelzoo.domain.trust import Defence
from kernelzoo.store import chain, notifications
from kernelzoo.store.blocking import Database, execute, fetch_all
from kernelzoo.store.query import Statement
from services.aggregator.families import ClassTime, CommonKernel, common_kernels
from services.aggregator.publishing import Rule
from services.aggregator.speakers import Speaker, Voter, speakers

log = structlog.get_logger(__name__)

WORKLOADS = 32
"""Aggregated in one task at most; the rest waits for the next."""


def aggregate_by_family(db: Database, rule: Rule) -> None:
    """Aggregates each workload with news. A task that dies half way leaves the rest to the next."""
    for row in fetch_all(db, chain.unaggregated(WORKLOADS)):
        with db.transaction():
            execute(db, chain.lock_aggregation(row.workload_key))
            execute(db, chain.mark_aggregated(row.workload_key))
            heard = _speakers(db, row.workload_key, rule)
            kernels = common_kernels(
                _times(db, row.workload_key, heard, rule.quorum),
                malicious_share=rule.malicious_share if Defence.SPEAKERS in rule.defences else 0.0,
                minimum=rule.minimum,
            )
            execute(db, chain.forget(row.workload_key))
            execute(db, _put(row.workload_key, kernels))
            alone = [name for name, each in heard.items() if each.alone(rule.minimum)]
            execute(db, chain.speak(row.workload_key, alone))
            execute(db, notifications.offers_changed(row.workload_key))
        log.info("aggregated by family", workload=row.workload_key, kernels=len(kernels))


def _speakers(db: Database, workload_key: str, rule: Rule) -> Mapping[DeviceClass, Speaker]:
    voters = [
        Voter(
            device_class=row.device_class,
            identity=str(row.identity_id),
            network=row.network,
            attested=row.attested,
        )
        for row in fetch_all(db, chain.voters(workload_key, rule.quorum, rule.trust))
    ]
    return speakers(voters, rule.quorum, rule.defences)


def _times(
    db: Database, workload_key: str, heard: Mapping[DeviceClass, Speaker], quorum: int
) -> Iterator[ClassTime]:
    voters = [(name, identity) for name, each in heard.items() for identity in each.identities]
    rows = fetch_all(
        db,
        chain.class_times(
            workload_key,
            quorum,
            device_classes=[name for name, _ in voters],
            identities=[identity for _, identity in voters],
        ),
    )
    return (_class_time(row, heard[row.device_class]) for row in rows)


def _class_time(row: chain.ClassTimeRow, speaker: Speaker) -> ClassTime:
    hardware = Hardware(
        cpu_architecture=row.cpu_architecture,
        logical_cores=row.logical_cores,
        gpu_vendor=row.gpu_vendor,
        gpu_architecture=row.gpu_architecture,
    )
    return ClassTime(
        device_class=row.device_class,
        families=families(hardware, row.device_class.target.kind),
        candidate_id=row.candidate_id,
        relative_time=row.relative_time,
        identities=row.identities,
        voices=speaker.voices,
        operated=speaker.operated,
    )


def _put(workload_key: str, kernels: tuple[CommonKernel, ...]) -> Statement:
    return chain.put_common(
        workload_key,
        scopes=[kernel.group.scope for kernel in kernels],
        families=[kernel.group.family for kernel in kernels],
        rhos=[kernel.group.rho for kernel in kernels],
        candidate_ids=[kernel.candidate_id for kernel in kernels],
        relative_times=[kernel.relative_time for kernel in kernels],
        classes=[kernel.classes for kernel in kernels],
        identities=[kernel.identities for kernel in kernels],
    )
