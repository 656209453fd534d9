"""Whatever a stranger sends, the gateway answers with a refusal at worst.

`--hypothesis-profile=long` sends fifteen times as much.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyStrategyDefinition
from schemathesis.core.result import Ok
from schemathesis.core.transport import Response as TransportResponse
from schemathesis.generation import GenerationMode
from schemathesis.openapi import from_dict
from schemathesis.schemas import APIOperation

from kernelzoo.settings import Settings
from services.gateway.openapi import document
from tests.database.client import OPERATOR, open_agent
from tests.examples import examples

DOCUMENT: dict[str, Any] = json.loads(document())
FOUND = from_dict(DOCUMENT).get_all_operations()
OPERATIONS = [each.ok() for each in FOUND if isinstance(each, Ok)]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
PATIENT = hypothesis_settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)


NO_LIMIT = ""


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Settings that keep models, and refuse nobody for asking often: a limit would answer in place
    of what is tested."""
    rates = ("sessions_rate", "reports_rate", "agent_rate", "application_rate")
    limits = dict.fromkeys(rates, NO_LIMIT)
    return settings.model_copy(update={"models_dir": tmp_path / "models", **limits})


def label(operation: Any) -> str:
    return str(operation.label)


@pytest.mark.parametrize("operation", OPERATIONS, ids=label)
@pytest.mark.usefixtures("job_id")
def test_no_request_makes_the_gateway_fail(
    http: TestClient, operation: APIOperation[Any, Any, Any, Any]
) -> None:
    agent = open_agent(http)
    callers = st.sampled_from([{}, OPERATOR, agent.bearer, OPERATOR | agent.bearer])
    cases = st.one_of([operation.as_strategy(generation_mode=mode) for mode in MODES])

    @PATIENT
    @given(case=cases, caller=callers)
    def answered(case: Any, caller: dict[str, str]) -> None:
        if operation.path == "/v1/leases" and isinstance(case.body, dict):
            case.body["wait_s"] = 0
        answer = _send(http, case.as_transport_kwargs(), caller)
        assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text}"

    answered()


def _send(http: TestClient, request: dict[str, Any], caller: dict[str, str]) -> Response:
    """schemathesis speaks as the library requests does, in which raw bodies are called data."""
    body = {"content": request.pop("data")} if "data" in request else {}
    request.pop("cookies")
    headers = {**request.pop("headers"), **caller}
    return http.request(**request, **body, headers=headers)


LINKS: tuple[tuple[str, str, str, dict[str, str]], ...] = (
    ("/v1/jobs", "post", "201", {"get_job": "job=id", "get_progress": "job=id"}),
    ("/v1/sessions", "post", "201", {"lend": "", "vote": "", "get_manifest": "device_class"}),
    ("/v1/leases", "post", "200", {"report": "lease", "lend": ""}),
    ("/v1/leases/{lease}/measurements", "post", "202", {"vote": "", "lend": ""}),
    ("/v1/ballots", "put", "202", {"vote": "", "lend": ""}),
    ("/v1/sets/{name}", "put", "200", {"get_manifest": "name", "put_set": "name"}),
    ("/v1/applications", "post", "201", {"rotate": "name", "disable": "name", "put_set": ""}),
    ("/v1/zoo/{name}/{device_class}", "get", "200", {"report_failure": ""}),
)
"""Requests that may follow an answer: path, method, status, then operations with the parameter that
a field of the answer fills, `parameter=field` where their names differ."""


def linked() -> dict[str, Any]:
    """The interface's document with LINKS in the words of OpenAPI."""
    linked_document: dict[str, Any] = json.loads(json.dumps(DOCUMENT))
    paths = linked_document["paths"]
    operations = [operation for methods in paths.values() for operation in methods.values()]
    for path, method, status, followers in LINKS:
        links = paths[path][method]["responses"][status].setdefault("links", {})
        for follower, filled in followers.items():
            (operation_id,) = (
                operation["operationId"]
                for operation in operations
                if operation["operationId"].startswith(f"{follower}_v1_")
            )
            parameter, _, field = filled.partition("=")
            links[follower] = {
                "operationId": operation_id,
                "parameters": {parameter: f"$response.body#/{field or parameter}"}
                if filled
                else {},
            }
    return linked_document


ATTEMPTS = 4
"""Schemathesis chooses what follows by what was answered, which Hypothesis now and then cannot draw
again: an error of theirs, and none of the gateway's."""


@pytest.mark.usefixtures("job_id")
def test_no_sequence_of_requests_makes_the_gateway_fail(http: TestClient) -> None:
    """Tokens and keys in answers are used in what follows."""
    workflow = from_dict(linked()).as_state_machine()
    answered: set[str] = set()

    class Stranger(workflow):  # type: ignore[misc, valid-type]
        caller: dict[str, str]

        def setup(self) -> None:
            self.caller = OPERATOR | open_agent(http).bearer

        def call(self, case: Any, **_: Any) -> Any:
            if case.operation.path == "/v1/leases" and isinstance(case.body, dict):
                case.body["wait_s"] = 0
            request = case.as_transport_kwargs()
            answer = _send(http, dict(request), self.caller)
            assert answer.status_code < 500, f"{case.as_curl_command()}\n{answer.text}"
            if answer.is_success and answer.content.startswith(b"{"):
                answered.add(case.operation.label)
                self.caller |= _credentials(answer.json())
            return TransportResponse.from_any(answer)

        def validate_response(self, *_: Any, **__: Any) -> None:
            """`call` has judged it."""

    for attempt in range(ATTEMPTS):
        try:
            Stranger.run(settings=hypothesis_settings(PATIENT, stateful_step_count=16))
            break
        except FlakyStrategyDefinition:
            if attempt == ATTEMPTS - 1:
                raise
    assert len(answered) > 5, "hardly any request was understood, so that nothing was tried"


def _credentials(answer: dict[str, Any]) -> dict[str, str]:
    if isinstance(token := answer.get("token"), str):
        return {"Authorization": f"Bearer {token}"}
    if isinstance(key := answer.get("key"), str):
        return {"X-Kernelzoo-Key": key}
    return {}
