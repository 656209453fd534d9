"""`kernelzoo zoo export` and `import` over a real gateway and database."""

import pytest
from fastapi.testclient import TestClient

from cli.exports import (
    READERS,
    ExportFormat,
    ImportFormat,
    Wanted,
    claims_request,
    exported,
)
from cli.gateway_client import GatewayClient
from fixtures.analytic import CORES
from kernelzoo.domain.candidate import Candidate
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.results import TunerClaim
from kernelzoo.store import zoo
from kernelzoo.store.blocking import execute
from tests.database.client import OPERATOR_KEY
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.database.crowd import FIRST, SHAPES, paper_crowd

KEY = SHAPES[1].key


@pytest.fixture
def gateway(http: TestClient) -> GatewayClient:
    client = GatewayClient(url="http://testserver", operator_key=OPERATOR_KEY)
    client._http = http
    return client


@pytest.fixture
def crowd(db: Connection) -> dict[int, tuple[Candidate, ...]]:
    return paper_crowd(db)


@pytest.mark.usefixtures("crowd")
@pytest.mark.parametrize("form", list(ImportFormat))
def test_every_claim_of_a_file_of_ours_is_known_when_it_comes_back(
    gateway: GatewayClient, form: ImportFormat
) -> None:
    files = exported(gateway, ExportFormat(form), Wanted(workload=KEY))
    assert len(files) == 6
    claims = READERS[form](files[0].text)
    assert len(claims) == FIRST
    answer = gateway.claim(claims_request(files[0].name[:64], claims, None, TargetKind.WASM))
    assert (answer.accepted, answer.unknown) == (len(claims), 0)


@pytest.mark.usefixtures("job_id", "crowd")
@pytest.mark.parametrize("form", [ExportFormat.CPP, ExportFormat.TYPESCRIPT])
def test_the_zoo_becomes_a_table_by_vendor(
    gateway: GatewayClient, db: Connection, form: ExportFormat
) -> None:
    device_class = CORES[0].probed.device_class
    winner, evidence = (
        make_candidate(1).candidate_id,
        Evidence(ballots=5, weight=20, total_weight=75, relative_time=0.5),
    )
    execute(
        db,
        zoo.publish(
            WORKLOAD.key,
            DeviceClass.parse(str(device_class)),
            winner,
            EntryState.CONFIRMED,
            evidence,
        ),
    )
    (file,) = exported(gateway, form, Wanted(workload=WORKLOAD.key))
    assert file.text.count(f'"{WORKLOAD.key}"') == 2
    assert '"x86"' in file.text


def test_a_file_that_names_no_workload_needs_one_to_be_named() -> None:
    claim = TunerClaim(workload_key="vector_add", device="A100", config=(("tile", 1),), time=1.0)
    with pytest.raises(InvalidInput, match="'vector_add', which is no workload here"):
        claims_request("cache.json", (claim,), None, TargetKind.WASM)
    request = claims_request("cache.json", (claim,), WORKLOAD.key, TargetKind.WASM)
    assert request.claims[0].workload == WORKLOAD.key


def test_of_many_claims_the_fastest_of_each_device_are_sent() -> None:
    claims = tuple(
        TunerClaim(workload_key=WORKLOAD.key, device="A100", config=(("tile", n),), time=1000.0 - n)
        for n in range(500)
    )
    sent = claims_request("cache.json", claims, None, TargetKind.WASM).claims
    assert [each.config["tile"] for each in sent] == list(range(499, 483, -1))
