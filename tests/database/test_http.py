"""HTTP as its documents have it: HEAD, origins, and the media type of errors."""

import json

import pytest
from fastapi.testclient import TestClient

from tests.database.client import OPERATOR, open_agent
from tests.database.conftest import WORKLOAD
from tests.unit.gateway.test_openapi import CHECKED_IN


def test_head_has_the_status_and_headers_of_get(http: TestClient, job_id: int) -> None:
    device_class = open_agent(http).device_class
    paths = (
        *("/v1/overview", "/v1/devices", f"/v1/zoo/{WORKLOAD.key}/{device_class}"),
        *(f"/v1/jobs/{job_id}", "/v1/jobs/99", "/v1/identities/x", "/healthz", "/no-such-path"),
    )
    for path in paths:
        got, head = http.get(path), http.head(path)
        assert (head.status_code, head.content) == (got.status_code, b""), path
        assert head.headers["content-type"] == got.headers["content-type"]
        assert head.headers.get("content-length") == got.headers.get("content-length")
    assert http.head("/v1/sessions").status_code == 405


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://www.example", 201),
        ("http://localhost:8000", 201),
        ("http://[::1]:80", 201),
        ("http://[::::]", 422),
        ("http://[1:2]", 422),
        ("https://..", 422),
        ("https://-a.example", 422),
        ("https://www.example:99999", 422),
        ("https://www.example:0", 422),
    ],
)
def test_an_origin_that_no_page_can_have_is_refused(
    http: TestClient, origin: str, status: int
) -> None:
    body = {"name": "shop", "origins": [origin]}
    answer = http.post("/v1/applications", json=body, headers=OPERATOR)
    assert answer.status_code == status, answer.text


def test_errors_are_documented_as_they_are_sent(http: TestClient) -> None:
    document = http.get("/openapi.json").json()
    assert document == json.loads(CHECKED_IN.read_text())
    responses = [
        (status, response)
        for path in document["paths"].values()
        for operation in path.values()
        for status, response in operation["responses"].items()
        if status.startswith("4") and "content" in response
    ]
    assert len(responses) > 50
    refused = http.get("/v1/jobs/99")
    assert {kind for _, response in responses for kind in response["content"]} == {
        refused.headers["content-type"]
    }
    assert {status for status, _ in responses} <= {"4XX", "401"}
