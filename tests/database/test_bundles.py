"""Bundles: what is in them, and that nothing in them can be changed."""

import json
import tomllib
from collections.abc import Iterator
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from cli.bundle.collecting import collect, parse_classes
from cli.bundle.storing import read, write
from cli.bundle.verifying import refuse_older, verified
from cli.gateway_client import GatewayClient
from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState, Evidence
from kernelzoo.errors import InvalidInput
from kernelzoo.formats.bundle import INDEX
from kernelzoo.settings import Settings
from kernelzoo.signing import Signer, new_seed
from kernelzoo.store import zoo
from kernelzoo.store.blocking import execute
from services.gateway.app import application
from tests.database.client import OPERATOR, open_agent
from tests.database.conftest import WORKLOAD, Connection, make_candidate

SEED = new_seed()
KEYS = Signer.of(SEED).public_keys
SET = "my-model"
EVIDENCE = Evidence(ballots=5, weight=20, total_weight=25, relative_time=0.5)


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"signing_key": SecretStr(SEED)})


@pytest.fixture
def gateway(http: TestClient, job_id: int) -> Iterator[GatewayClient]:  # noqa: ARG001
    """A set of one tuned workload."""
    body = {"workloads": [WORKLOAD.key]}
    assert http.put(f"/v1/sets/{SET}", json=body, headers=OPERATOR).status_code == 200
    with GatewayClient(url="http://zoo.test") as client:
        client._http = http
        yield client


@pytest.fixture
def voted(http: TestClient, db: Connection, gateway: GatewayClient) -> str:  # noqa: ARG001
    """A class of devices with a confirmed kernel."""
    device_class = open_agent(http).device_class
    winner = make_candidate(1).candidate_id
    execute(
        db,
        zoo.publish(
            WORKLOAD.key, DeviceClass.parse(device_class), winner, EntryState.CONFIRMED, EVIDENCE
        ),
    )
    return device_class


@pytest.fixture
def files(gateway: GatewayClient, voted: str) -> dict[str, bytes]:  # noqa: ARG001
    return collect(gateway, SET, ())


def test_a_bundle_holds_the_classes_that_voted_and_any_other(
    files: dict[str, bytes], voted: str
) -> None:
    found = verified(files, KEYS)
    assert (found.head.set, found.head.zoo, found.keys) == (SET, "http://zoo.test", KEYS)
    listed = [each["device_classes"] for each in json.loads(files["bundle.json"])["manifests"]]
    assert listed == [
        [voted],
        ["0000000000000000:r0-0:wasm+relaxed-simd+simd128"],
        ["0000000000000000:r0-0:wasm+simd128"],
    ]
    assert sum(path.startswith("v1/artifacts/") for path in files) == 2


def test_the_lock_says_what_each_class_is_served_and_why(
    files: dict[str, bytes], voted: str
) -> None:
    kernels = tomllib.loads(files["zoo.lock"].decode())["kernel"]
    by_class = {kernel["device_class"]: kernel for kernel in kernels}
    own = by_class[voted]
    assert (own["level"], own["version"], own["state"]) == ("exact", 1, "confirmed")
    assert own["evidence"] == "5 ballots, 20 of 25, 0.500 of the default's time"
    assert own["candidate"] == make_candidate(1).candidate_id
    assert f"v1/artifacts/{own['artifact']}.wasm" in files
    lock = tomllib.loads(files["zoo.lock"].decode())
    signed = [json.loads(body) for path, body in files.items() if path.startswith("v1/manifests/")]
    assert lock["issued"] == min(each["issued_at"] for each in signed)
    assert lock["serial"] == min(each["serial"] for each in signed)
    assert lock["index"] == sha256(files["bundle.json"]).hexdigest()
    usual = by_class["0000000000000000:r0-0:wasm+simd128"]
    assert usual["artifact"] == own["fallback"]
    assert "evidence" not in usual


def test_no_byte_of_a_bundle_can_be_changed(files: dict[str, bytes]) -> None:
    free = files["zoo.lock"].index(b"made ="), files["zoo.lock"].index(b"keys =")
    for path, body in files.items():
        for at in range(0, len(body), max(1, len(body) // 23)):
            if path == "zoo.lock" and free[0] <= at < free[1]:
                continue
            changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
            with pytest.raises(InvalidInput):
                verified({**files, path: changed}, KEYS)


def test_a_bundle_that_was_signed_too_long_ago_is_refused_where_that_is_asked(
    files: dict[str, bytes],
) -> None:
    found = verified(files, KEYS)
    issued = datetime.fromisoformat(found.head.issued)
    refuse_older(found, issued)
    with pytest.raises(InvalidInput, match=r"was signed at .* make the bundle anew"):
        refuse_older(found, issued + timedelta(seconds=1))


def test_no_file_can_be_missing_or_added(files: dict[str, bytes]) -> None:
    for path in files:
        with pytest.raises(InvalidInput, match=r"missing|no list|no lock|belongs to no"):
            verified({each: files[each] for each in files if each != path}, KEYS)
    with pytest.raises(InvalidInput, match="belongs to no manifest"):
        verified({**files, "v1/extra.js": b""}, KEYS)


def test_a_bundle_of_another_zoo_is_refused_by_its_key(files: dict[str, bytes]) -> None:
    with pytest.raises(InvalidInput, match="the key is another zoo's"):
        verified(files, Signer.of(new_seed()).public_keys)
    assert verified(files, ()).keys == KEYS


@pytest.mark.parametrize("name", ["folder", "bundle.zip"])
def test_a_bundle_is_read_as_it_was_written(
    files: dict[str, bytes], tmp_path: Path, name: str
) -> None:
    write(files, tmp_path / name)
    assert read(tmp_path / name) == files


def test_a_damaged_zip_file_is_no_bundle(files: dict[str, bytes], tmp_path: Path) -> None:
    """Anyone may change the bytes that say how its parts are packed, encrypted and named."""
    place = tmp_path / "bundle.zip"
    write({INDEX: files[INDEX]}, place)
    whole = place.read_bytes()
    for at in range(len(whole)):
        place.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
        with pytest.raises(InvalidInput):
            verified(read(place), KEYS)


def test_a_folder_with_something_in_it_is_left_alone(
    files: dict[str, bytes], tmp_path: Path
) -> None:
    (tmp_path / "mine").touch()
    with pytest.raises(InvalidInput, match="not empty"):
        write(files, tmp_path)


def test_classes_are_those_that_a_page_asks_for() -> None:
    wasm, gpu = "0123456789abcdef:r1-0:wasm+simd128", "0123456789abcdef:r101-0:webgpu"
    assert parse_classes([wasm, f"{wasm}/{gpu}"]) == ((wasm,), (wasm, gpu))
    for wrong in (gpu, f"{gpu}/{wasm}", f"{wasm}/{gpu.replace('0123', '9999')}"):
        with pytest.raises(InvalidInput, match="neither a wasm class"):
            parse_classes([wrong])


def test_a_zoo_without_a_signing_key_makes_no_bundle(
    settings: Settings, gateway: GatewayClient
) -> None:
    unsigned = settings.model_copy(update={"signing_key": SecretStr("")})
    with TestClient(application(unsigned), client=("127.0.0.1", 5000)) as http:
        gateway._http = http
        with pytest.raises(InvalidInput, match="its zoo has no signing key"):
            collect(gateway, SET, ())
