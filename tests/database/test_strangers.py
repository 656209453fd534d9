"""Whatever a stranger sends, the gateway answers with a refusal at worst.

`--hypothesis-profile=long` sends fifteen times as much.
"""

import json
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from schemathesis.core.result import Ok
from schemathesis.generation import GenerationMode
from schemathesis.openapi import from_dict
from schemathesis.schemas import APIOperation

from kernelzoo.settings import Settings
from services.gateway.openapi import document
from tests.database.client import OPERATOR, open_agent

FOUND = from_dict(json.loads(document())).get_all_operations()
OPERATIONS = [each.ok() for each in FOUND if isinstance(each, Ok)]
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
PATIENT = hypothesis_settings(
    max_examples=hypothesis_settings().max_examples * 2 // 5,
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
def settings(settings: Settings) -> Settings:
    """That refuse nobody for asking often: a limit would answer in place of what is tested."""
    rates = ("sessions_rate", "agent_rate", "application_rate")
    return settings.model_copy(update=dict.fromkeys(rates, NO_LIMIT))


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
