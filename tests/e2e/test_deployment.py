"""A clone, a container engine, `make compose`: it ends with a kernel that five agents confirmed.

The images are built from the Dockerfile, on bases that are made here where the engine has none.
"""

from collections.abc import Iterator

import httpx2
import pytest

from scripts.deployment.bases import make_bases
from scripts.deployment.engine import STATE, no_engine, running_engine
from scripts.deployment.stack import SERVICES, Deployment, compose, confirmed_kernel, deployed
from tests.running import eventually

# The first test makes bases and four images: most of an hour on two cores that do nothing else.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3 * 3600)]
# Each is scraped by its name in the network of compose.yaml.
SCRAPED = {"kernelzoo-gateway", "kernelzoo-compile", "kernelzoo-aggregate"}


@pytest.fixture(scope="module")
def deployment() -> Iterator[Deployment]:
    if why := no_engine():
        pytest.skip(why)
    with running_engine(STATE) as engine:
        make_bases(engine, print)
        with deployed(engine, print) as stack:
            yield stack


def test_a_clone_deploys_to_a_confirmed_kernel(deployment: Deployment) -> None:
    assert "confirmed for" in confirmed_kernel(deployment)


def test_every_service_is_well(deployment: Deployment) -> None:
    running = compose(deployment, "ps", "--services", "--filter", "status=running").split()
    assert set(running) == {*SERVICES, "postgres", "redis"}
    told = compose(deployment, "ps", "--format", "{{.Service}} {{.Health}}")
    assert {line.split()[-1] for line in told.splitlines()} == {"healthy"}


def test_prometheus_scrapes_every_process_that_has_metrics(deployment: Deployment) -> None:
    def scraped() -> bool:
        url = f"{deployment.prometheus_url}/api/v1/query"
        found = httpx2.get(url, params={"query": "up == 1"}).json()["data"]["result"]
        return {series["metric"]["job"] for series in found} >= SCRAPED

    eventually(scraped, "a scrape of each", within_s=120)
