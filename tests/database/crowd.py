"""Measurements of devices on paper, stored as honest agents of theirs would have them stored."""

from fixtures.analytic import CORES, PaperCore
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.lease import LentRole
from kernelzoo.domain.measurement import Measurement, Outcome, Verdict
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store import agents, leases, measurements
from kernelzoo.store.blocking import execute, fetch_one
from services.tuner.schedules.registry import lite_space
from tests.database.conftest import Connection, open_space

SHAPES = tuple(Workload.of("matmul", (m, 768, n)) for m in (32, 128) for n in (96, 768, 1024))
FIRST = 12
"""Candidates of each space; the rest would only take time."""
REFERENCE_NS = 1e6


def open_paper_space(db: Connection, workload: Workload) -> tuple[int, tuple[Candidate, ...]]:
    space = lite_space(workload, TargetKind.WASM)[:FIRST]
    return open_space(db, list(space)), space


def measure(db: Connection, core: PaperCore, job_id: int, space: tuple[Candidate, ...]) -> None:
    """As an honest agent of this core would have it stored."""
    identity = fetch_one(db, agents.new_identity("network", operated=True, daily_cap=1))
    assert identity is not None
    device, device_class = core.probed, core.probed.device_class
    db.execute(
        "INSERT INTO device (device_id, cpu_architecture, logical_cores, gpu_vendor,"
        " gpu_architecture, gpu_model) VALUES (%s, 'x86', 2, '', '', 'any') ON CONFLICT DO NOTHING",
        (device_class.device_id,),
    )
    session = fetch_one(
        db,
        agents.open_session(
            identity.id,
            device_class,
            device.engine,
            network="network",
            peak_gflops=device.peak_gflops,
            isolated=True,
            probe=device.probe,
        ),
    )
    assert session is not None
    ids = [candidate.candidate_id for candidate in space]
    lease = fetch_one(
        db,
        leases.grant(
            session_id=session.id,
            identity_id=identity.id,
            device_class=device_class,
            job_id=job_id,
            reference_id=ids[0],
            items=dict.fromkeys(ids, LentRole.EXPLORE),
            complete=False,
            seed=1,
            nonce="",
            duration_s=60,
        ),
    )
    assert lease is not None
    for candidate in space:
        found = Measurement(
            candidate_id=candidate.candidate_id,
            outcome=Outcome.OK,
            samples_ns=(core.time(candidate) * REFERENCE_NS,),
            reference_ns=(REFERENCE_NS,),
            calls_per_sample=1,
            sampled_entries=(),
            detail="",
        )
        fetch_one(db, measurements.accept(lease.id, identity.id, "", (found,)))
        verdict = Verdict.VERIFIED
        execute(db, measurements.judge(lease.id, candidate.candidate_id, verdict, ""))


def paper_crowd(db: Connection) -> dict[int, tuple[Candidate, ...]]:
    """Six devices measure six shapes. Spaces by job."""
    spaces = dict(open_paper_space(db, workload) for workload in SHAPES)
    with db.transaction():
        for core in CORES[:6]:
            for job_id, space in spaces.items():
                measure(db, core, job_id, space)
    return spaces
