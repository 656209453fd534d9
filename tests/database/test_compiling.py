"""Compile workers store and count each candidate once, however many of them take it."""

import pytest

from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.metrics import CANDIDATES, CompileOutcome
from kernelzoo.store import candidates
from kernelzoo.store.blocking import fetch_one
from services.tuner.schedules.registry import lite_space
from tests.database.conftest import Connection, open_space
from workers import compiling

WORKLOAD = Workload.of("matmul", (8, 8, 8))


def counted(result: CompileOutcome) -> float:
    return float(CANDIDATES.labels(TargetKind.WASM, result)._value.get())


@pytest.fixture
def candidate_id(db: Connection) -> str:
    """One that waits, of a space of one."""
    (candidate, *_) = lite_space(WORKLOAD, TargetKind.WASM)
    open_space(db, [candidate])
    return candidate.candidate_id


def test_a_candidate_that_two_workers_compile_is_counted_once(
    db: Connection, candidate_id: str
) -> None:
    """On a busy machine the first one needs longer than a worker that died."""
    before = counted(CompileOutcome.COMPILED)
    slow = fetch_one(db, candidates.claim(candidate_id))
    assert slow is not None
    compiling.compile_batch(db, [candidate_id])
    assert counted(CompileOutcome.COMPILED) == before + 1
    compiling._compile(db, slow, WORKLOAD)
    assert counted(CompileOutcome.COMPILED) == before + 1


def test_a_candidate_that_was_compiled_meanwhile_is_not_counted_as_refused(
    db: Connection, candidate_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counted(CompileOutcome.ABANDONED)
    claimed = fetch_one(db, candidates.claim(candidate_id))
    assert claimed is not None
    compiling.compile_batch(db, [candidate_id])
    monkeypatch.setattr(candidates, "MAX_ATTEMPTS", 0)
    compiling._compile(db, claimed, WORKLOAD)
    assert counted(CompileOutcome.ABANDONED) == before
    row = db.execute("SELECT state FROM candidate").fetchone()
    assert row == ("compiled",)
