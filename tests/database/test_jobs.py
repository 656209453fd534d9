"""Jobs: which shapes are refused, and who may open one."""

import pytest
from fastapi.testclient import TestClient

from tests.database.client import OPERATOR
from tests.database.conftest import WORKLOAD, Connection


@pytest.mark.parametrize(
    ("workload", "words"),
    [
        ("matmul:f32:m0k768n768", "from 1 to 65536"),
        ("matmul:f32:m-4k768n768", "malformed"),
        ("matmul:f32:m65537k1n1", "from 1 to 65536"),
        ("matmul:f32:m65536k65536n65536", "at most 268435456"),
        ("matmul:f32:mXk768n768", "malformed"),
        ("matmul:f32:m004k768n768", "did you mean"),
        ("matmul:f64:m4k4n4", "dtype 'f64' is unknown"),
        ("matmul:f16:m4k4n4", "wasm has kernels of f32 alone, not of f16 as in matmul:f16:m4k4n4"),
        ("conv9d:f32:m4k4n4", "operator 'conv9d' is unknown"),
        ("matmul:f32:m4k4", "takes 3 extents"),
        ("", "at least 1"),
    ],
)
def test_shapes_that_mean_nothing_are_refused_with_the_allowed_range(
    http: TestClient, db: Connection, workload: str, words: str
) -> None:
    answer = http.post("/v1/jobs", json={"workload": workload}, headers=OPERATOR)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert db.execute("SELECT count(*) FROM workload").fetchone() == (0,)


def test_jobs_are_opened_once_and_by_the_operator_alone(http: TestClient, db: Connection) -> None:
    body = {"workload": WORKLOAD.key}
    assert http.post("/v1/jobs", json=body).status_code == 401
    statuses = [http.post("/v1/jobs", json=body, headers=OPERATOR).status_code for _ in range(2)]
    assert statuses == [201, 200]
    assert db.execute("SELECT count(*) FROM tuning_job").fetchone() == (1,)


def test_a_job_is_found_by_its_number(http: TestClient) -> None:
    opened = http.post("/v1/jobs", json={"workload": WORKLOAD.key}, headers=OPERATOR).json()
    assert http.get(f"/v1/jobs/{opened['job']}").json() == opened
    assert "no job 999" in http.get("/v1/jobs/999").json()["detail"]
