"""Database flows of kernels that fail on a class: denied, and taken back where they are served."""

from itertools import groupby

import structlog

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.trust import Defence, Trust
from kernelzoo.domain.zoo import EntryState
from kernelzoo.metrics import ROLLBACKS
from kernelzoo.store import denials, zoo
from kernelzoo.store.blocking import Database, execute, fetch_all, fetch_one
from services.aggregator.denial import Denial, Voice, denial, inhabited, suspicious
from services.aggregator.publishing import Rule

log = structlog.get_logger(__name__)


def deny_failing(db: Database, workload_key: str, device_class: DeviceClass, rule: Rule) -> bool:
    """Denies what fails, and returns whether anything is denied that had not been, to the class or
    for its device."""
    witnessed = Defence.WITNESSES in rule.defences
    execute(db, denials.heard(workload_key, device_class))
    suspects = [
        row.sha256
        for row in fetch_all(db, denials.suspects(workload_key, device_class, rule.trust))
        if suspicious(row.failed, row.ran, rule.malicious_share, operated=row.operated)
    ]
    rows = fetch_all(db, denials.voices(suspects, device_class, rule.trust)) if suspects else []
    found = False
    for sha256, voices in groupby(rows, lambda row: row.sha256):
        decided = denial([_voice(row) for row in voices], rule.malicious_share)
        if decided is None or (witnessed and not _may_deny(db, sha256, device_class, rule.trust)):
            continue
        _deny(db, sha256, device_class, decided)
        if not witnessed:
            execute(db, denials.set_device_wide(sha256, device_class, device_wide=True))
        found = True
    if not witnessed:
        return found
    return _weigh_on_device(db, workload_key, device_class, rule) or found


def _voice(row: denials.VoiceRow) -> Voice:
    return Voice(network=row.network, stage=row.stage)


def _may_deny(db: Database, sha256: str, device_class: DeviceClass, trust: Trust) -> bool:
    """Not for a class that nobody measures, and not the last kernel: the operator alone may."""
    measured = fetch_one(db, denials.measured_by(device_class, trust))
    if measured is None or not inhabited(measured.networks, measured.operated):
        return False
    other = fetch_one(db, denials.replaceable(sha256, device_class))
    if other is None or not other.replaceable:
        log.warning("not denied: no other kernel is left", artifact=sha256, of=str(device_class))
        return False
    return True


def _weigh_on_device(
    db: Database, workload_key: str, device_class: DeviceClass, rule: Rule
) -> bool:
    """Returns whether a denial to one class of a device begins or ceases to hold for the others."""
    denied = [
        row.sha256 for row in fetch_all(db, denials.denied_on_device(workload_key, device_class))
    ]
    # Asked only where there are any: merely to plan this takes 12 ms.
    rows = fetch_all(db, denials.device_voices(denied, device_class, rule.trust)) if denied else []
    changed = False
    for (sha256, denied_to, before), voices in groupby(
        rows, lambda row: (row.sha256, row.device_class, row.device_wide)
    ):
        after = denial([_voice(row) for row in voices], rule.malicious_share) is not None
        if after != before:
            execute(db, denials.set_device_wide(sha256, denied_to, device_wide=after))
            changed = True
    return changed


def _deny(db: Database, sha256: str, device_class: DeviceClass, found: Denial) -> None:
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
    log.warning("denied", artifact=sha256, device_class=str(device_class), evidence=evidence)


def roll_back(db: Database, workload_key: str, device_class: DeviceClass) -> bool:
    """Takes a live entry back that is denied: to the latest version that was served and is not
    denied, else to the default kernel. Whether there was one.
    """
    denied = fetch_one(db, zoo.denied_entry(workload_key, device_class))
    if denied is None:
        return False
    execute(db, zoo.retire(workload_key, device_class))
    if denied.state == EntryState.CONFIRMED:
        _publish_earlier(db, workload_key, device_class, denied)
    ROLLBACKS.inc()
    log.warning(
        "rolled back", workload=workload_key, device_class=str(device_class), why=denied.reason
    )
    return True


def _publish_earlier(
    db: Database, workload_key: str, device_class: DeviceClass, denied: zoo.DeniedEntry
) -> None:
    earlier = fetch_one(db, zoo.earlier(workload_key, device_class))
    default = fetch_one(db, zoo.default_of(workload_key, device_class))
    if earlier is None and default is None:
        return
    candidate_id = earlier.candidate_id if earlier else default.candidate_id if default else ""
    evidence = earlier.evidence if earlier else zoo.NO_EVIDENCE
    state = EntryState.CONFIRMED
    reason = f"version {denied.version} is denied: {denied.reason}"
    execute(db, zoo.publish(workload_key, device_class, candidate_id, state, evidence, reason))
