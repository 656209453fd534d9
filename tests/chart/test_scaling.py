"""The queries by which KEDA scales count the rows that wait, in the real schema."""

import psycopg
import pytest

from tests.chart.rendering import PLAIN, render

WORKLOAD = "INSERT INTO workload (key, flops) VALUES ('matmul:f32:m8k8n8', 1024)"
JOB = (
    "INSERT INTO tuning_job (workload_key, target, space, state)"
    " VALUES ('matmul:f32:m8k8n8', 'wasm', '', '{}')"
)
CANDIDATE = (
    "INSERT INTO candidate (candidate_id, workload_key, target, config, requires, state)"
    " VALUES (repeat('{0}', 32), 'matmul:f32:m8k8n8', 'wasm', '{{}}', '{{}}', '{1}')"
)
BALLOT = (
    "WITH voter AS (INSERT INTO identity (network, operated) VALUES ('n', true) RETURNING id)"
    " INSERT INTO ballot"
    " (identity_id, workload_key, device_class, candidate_ids, relative_times, tallied)"
    " SELECT id, 'matmul:f32:m8k8n8', 'd', '{{c}}', '{{1}}', {} FROM voter"
)


def _query(component: str) -> str:
    values = {**PLAIN, component: {"autoscaling": {"kind": "keda"}}}
    (trigger,) = render(values).of("ScaledObject")[component]["spec"]["triggers"]
    assert trigger["type"] == "postgresql"
    query: str = trigger["metadata"]["query"]
    return query


@pytest.mark.parametrize(
    ("component", "rows", "waiting"),
    [
        ("compile", (), 0),
        ("compile", (WORKLOAD, JOB.format("waiting")), 1),
        (
            "compile",
            (
                WORKLOAD,
                JOB.format("planned"),
                CANDIDATE.format(1, "waiting"),
                CANDIDATE.format(2, "waiting"),
                CANDIDATE.format(3, "failed"),
            ),
            2,
        ),
        ("aggregate", (), 0),
        ("aggregate", (WORKLOAD, BALLOT.format("false"), BALLOT.format("true")), 1),
    ],
)
def test_the_scaler_counts_the_rows_that_wait(
    database_url: str, component: str, rows: tuple[str, ...], waiting: int
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        for row in rows:
            connection.execute(row.encode())
        assert connection.execute(_query(component).encode()).fetchone() == (waiting,)
