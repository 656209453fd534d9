"""Reports of leases whose outputs are right."""

from collections.abc import Sequence

from kernelzoo.domain.measurement import Outcome
from kernelzoo.domain.workload import Workload
from services.aggregator.verification import expected_entries
from services.gateway.wire.leases import LeaseReport, MeasurementWire

SAMPLES = 7


def right_report(workload: Workload, seed: int, nonce: str, lent: Sequence[str]) -> LeaseReport:
    """Reports that all of the `lent` candidates took as long as the reference."""
    entries = [float(entry) for entry in expected_entries(workload, seed)]
    times_ns = [1e3 + place for place in range(SAMPLES)]
    measurements = [
        MeasurementWire(
            candidate=candidate,
            outcome=Outcome.OK,
            samples_ns=times_ns,
            reference_ns=times_ns,
            calls_per_sample=1,
            sampled_entries=entries,
            detail="",
        )
        for candidate in lent
    ]
    return LeaseReport(nonce=nonce, measurements=measurements)
