"""The gateway over a real database, and a job with candidates for its agents."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from cli.gateway_client import GatewayClient
from fixtures.postgres import as_service
from fixtures.rows import compile_row, plan
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.trust import Trust
from kernelzoo.domain.workload import Workload
from kernelzoo.settings import Settings
from kernelzoo.store import tuning
from kernelzoo.store.blocking import execute, fetch_one
from services.gateway.app import application
from tests.database.client import OPERATOR_KEY
from tests.database.strangers import Crowd, crowd_of

WORKLOAD = Workload.of("matmul", (2, 3, 4))
RELAXED = ("relaxed-simd", "simd128")

Connection = psycopg.Connection[Any]


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings(
        database_url=as_service(database_url),
        # Nothing listens there: every message of these tests is lost, as the design allows.
        redis_url="redis://127.0.0.1:1/0",
        operator_key=SecretStr(OPERATOR_KEY),
        token_secret=SecretStr("a secret of the tests, 32 bytes long"),
        identities_per_network_per_day=2,
        # Most tests are of agents that name no application.
        trust=Trust.CROWD,
    )


@pytest.fixture
def owner(database_url: str) -> Iterator[Connection]:
    """Connects as migrations do."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
def db(database_url: str) -> Iterator[Connection]:
    """Connects as workers do: with no right to change the schema."""
    with psycopg.connect(as_service(database_url), autocommit=True) as connection:
        yield connection


@pytest.fixture
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that do not wait until an answer is a few seconds old."""
    monkeypatch.setattr("services.gateway.app.REMEMBERED_S", 0)


@pytest.fixture
def one_issue_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that compare bytes of manifests, which no turn of the hour may change meanwhile."""
    monkeypatch.setattr("services.gateway.manifests.ISSUED_EVERY_S", 10**11)


@pytest.fixture
def http(settings: Settings) -> Iterator[TestClient]:
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as client:
        yield client


@pytest.fixture
def gateway(http: TestClient) -> GatewayClient:
    """The command line's client, with the operator's key."""
    client = GatewayClient(url="http://zoo.test", operator_key=OPERATOR_KEY)
    client._http = http
    return client


@pytest.fixture
def come(settings: Settings) -> Iterator[Crowd]:
    """Strangers of networks of their own, as the test asks for them."""
    with crowd_of(settings) as crowd:
        yield crowd


def make_candidate(
    tile: int,
    requires: tuple[str, ...] = ("simd128",),
    target: TargetKind = TargetKind.WASM,
) -> Candidate:
    return Candidate(workload=WORKLOAD, target=target, config=(("tile", tile),), requires=requires)


def open_space(db: Connection, space: list[Candidate]) -> int:
    """The job of a new workload, planned; none of its candidates is compiled."""
    workload = space[0].workload
    execute(db, tuning.register_workload(workload))
    opened = fetch_one(db, tuning.open_job(workload.key, TargetKind.WASM))
    assert opened is not None
    plan(db, opened.id, space)
    return opened.id


@pytest.fixture
def job_id(db: Connection) -> int:
    """A planned job of four candidates, in order: two plain, one relaxed, one not compiled."""
    space = [make_candidate(0), make_candidate(1), make_candidate(2, RELAXED), make_candidate(3)]
    opened = open_space(db, space)
    for candidate in space[:3]:
        compile_row(db, candidate)
    return opened
