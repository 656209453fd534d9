"""Kernels of tensors that are larger than agents hold: compiled and served, and lent to nobody."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from fixtures.rows import compile_row
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.workload import MAX_MEASURED_BYTES, Workload
from kernelzoo.store.blocking import execute, fetch_all
from kernelzoo.store.queue import queued
from kernelzoo.store.tuning import ask_for_job
from tests.database.client import open_agent
from tests.database.conftest import Connection, make_candidate, open_space

ENTRIES = MAX_MEASURED_BYTES // 4


@pytest.mark.parametrize("entries", [ENTRIES, ENTRIES + 1])
def test_what_agents_do_not_hold_is_served_and_never_lent(
    db: Connection, http: TestClient, entries: int
) -> None:
    workload = Workload.of("relu", (entries,))
    lent = entries == ENTRIES
    assert workload.is_measured is lent
    space = [replace(make_candidate(n), workload=workload) for n in range(2)]
    open_space(db, space)
    for each in space:
        compile_row(db, each)
    execute(db, ask_for_job(workload.key, space[0].target))

    agent = open_agent(http)
    assert agent.lease().status_code == (200 if lent else 204)
    device_class = DeviceClass.parse(agent.device_class)
    tried = [row.candidate_id for row in fetch_all(db, queued([workload.key], device_class, ""))]
    assert tried == ([space[1].candidate_id] if lent else [])
    served = http.get(f"/v1/zoo/{workload.key}/{agent.device_class}").json()
    (entry,) = served["entries"]
    assert entry["wasm"]["kernel"]["candidate"] == space[0].candidate_id
