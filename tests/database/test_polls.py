"""Attack by idle polls: one network that asks for leases ten thousand times at once.

What it cost before: as many sockets, and the gateway 93 % of a core and 481 MB.
"""

from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient

from kernelzoo.settings import Settings
from services.gateway.app import application
from services.gateway.rates import PER_IDENTITY
from tests.database.client import SESSION, Agent, open_agent

PER_NETWORK = 12
WAIT_S = 2.5


def stranger(http: TestClient) -> Agent:
    given = http.post("/v1/sessions", json=SESSION).json()
    return Agent(http, given["token"], given["identity"], given["device_class"])


def statuses(agents: list[Agent]) -> list[int]:
    """The statuses of polls that all agents send at once, and all of which wait."""
    with ThreadPoolExecutor(len(agents)) as asking:
        answers = list(asking.map(lambda agent: agent.lease(wait_s=WAIT_S), agents))
    for answer in answers:
        assert answer.status_code == 204 or answer.headers["Retry-After"] == "5"
    return sorted(answer.status_code for answer in answers)


def test_polls_of_an_agent_and_of_a_network_are_counted_until_they_end(
    settings: Settings,
) -> None:
    few = settings.model_copy(update={"polls_per_network": PER_NETWORK})
    with TestClient(application(few), client=("127.0.0.1", 5000)) as http:
        one, other, own, fleet = stranger(http), stranger(http), open_agent(http), open_agent(http)
        assert statuses([own] * 11) == [204] * PER_IDENTITY + [429] * 3
        assert statuses([one] * 8 + [other] * 8) == [204] * PER_NETWORK + [429] * 4
        assert statuses([own] * 8 + [fleet] * 8) == [204] * 16, "the operator's are no network"
        assert statuses([one] * 8 + [other] * 4) == [204] * PER_NETWORK, "all have ended"
