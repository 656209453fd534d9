"""Database flows of kernels that fail on a class: denied, and taken back where they are served."""

from itertools import groupby

import structlog

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState
from kernelzoo.metrics import ROLLBACKS
from kernelzoo.store import denials, rollbacks, zoo
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from services.aggregator.denial import Denial, Voice, denial

log = structlog.get_logger(__name__)


def deny_failing(db: Database, workload_key: str, device_class: str, liars: float) -> bool:
    """Whether anything was denied that had not been."""
    execute(db, denials.heard(workload_key, device_class))
    rows = fetch_all(db, denials.voices(workload_key, device_class))
    found = False
    for sha256, voices in groupby(rows, lambda row: row.sha256):
        heard = [Voice(network=row.network, stage=row.stage) for row in voices]
        decided = denial(heard, liars)
        if decided is not None:
            _deny(db, sha256, device_class, decided)
            found = True
    return found


def _deny(db: Database, sha256: str, device_class: str, found: Denial) -> None:
    who = "operated agents" if found.operated else "networks"
    evidence = f"failed for {found.failed} of {found.failed + found.ran} {who}"
    execute(
        db,
        denials.decide(
            sha256,
            device_class,
            denied=True,
            stage=found.stage,
            evidence=evidence,
            operated=False,
        ),
    )
    log.warning("denied", artifact=sha256, device_class=device_class, evidence=evidence)


def roll_back(db: Database, workload_key: str, device_class: str) -> bool:
    """Takes a live entry back that is denied: to the latest version that was served and is not
    denied, else to the default kernel. Whether there was one.
    """
    denied = fetch_one(db, rollbacks.denied_entry(workload_key, device_class))
    if denied is None:
        return False
    execute(db, zoo.retire(workload_key, device_class))
    if denied.state == EntryState.CONFIRMED:
        _publish_earlier(db, workload_key, device_class, denied)
    ROLLBACKS.inc()
    log.warning("rolled back", workload=workload_key, device_class=device_class, why=denied.reason)
    return True


def _publish_earlier(
    db: Database, workload_key: str, device_class: str, denied: rollbacks.DeniedEntry
) -> None:
    earlier = fetch_one(db, rollbacks.earlier(workload_key, device_class))
    default = fetch_one(db, zoo.default_of(workload_key, DeviceClass.parse(device_class)))
    if earlier is None and default is None:
        return
    candidate_id = earlier.candidate_id if earlier else default.candidate_id if default else ""
    evidence = earlier.evidence if earlier else rollbacks.NO_EVIDENCE
    state = EntryState.CONFIRMED
    reason = f"version {denied.version} is denied: {denied.reason}"
    execute(db, zoo.publish(workload_key, device_class, candidate_id, state, evidence, reason))
