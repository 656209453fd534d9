"""Keeps what classes have in common up to date, for classes that have not voted."""

import structlog

from kernelzoo.domain.device import DeviceClass, Hardware
from kernelzoo.domain.kinship import families
from kernelzoo.store import chain, wake
from kernelzoo.store.blocking import Database, execute, fetch_all
from kernelzoo.store.query import Statement
from services.aggregator.common import ClassTime, CommonKernel, common_kernels

log = structlog.get_logger(__name__)

WORKLOADS = 32
"""Pooled in one task at most; the rest waits for the next."""


def pool_winners(db: Database, quorum: int) -> None:
    """Pools each workload with news. A task that dies half way leaves the rest to the next."""
    for row in fetch_all(db, chain.unpooled(WORKLOADS)):
        with db.transaction():
            execute(db, chain.lock_pool(row.workload_key))
            execute(db, chain.pooled(row.workload_key))
            times = fetch_all(db, chain.class_times(row.workload_key, quorum))
            kernels = common_kernels(_class_time(time) for time in times)
            execute(db, chain.forget(row.workload_key))
            execute(db, _put(row.workload_key, kernels))
            execute(db, wake.zoo_changed())
        log.info("pooled", workload=row.workload_key, kernels=len(kernels))


def _class_time(row: chain.ClassTimeRow) -> ClassTime:
    device_class = DeviceClass.parse(row.device_class)
    hardware = Hardware(
        cpu_architecture=row.cpu_architecture,
        logical_cores=row.logical_cores,
        gpu_vendor=row.gpu_vendor,
        gpu_architecture=row.gpu_architecture,
    )
    return ClassTime(
        device_class=device_class,
        families=families(hardware, device_class.target.kind),
        candidate_id=row.candidate_id,
        relative_time=row.relative_time,
        identities=row.identities,
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
