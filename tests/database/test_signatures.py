"""Signed manifests: what a page gets, from which keys, and what stays the same."""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.zoo import EntryState
from kernelzoo.settings import Settings
from kernelzoo.signing import Sealed, Signer, new_seed
from kernelzoo.store import denials, notifications, tuning, zoo
from kernelzoo.store.blocking import execute, fetch_one
from kernelzoo.store.query import Statement
from kernelzoo.store.zoo import NO_EVIDENCE
from services.gateway.app import application
from services.gateway.wire.zoo import Manifest
from tests.database.conftest import WORKLOAD, Connection, make_candidate
from tests.running import eventually

PATH = f"/v1/zoo/{WORKLOAD.key}/0123456789abcdef:r1-0:wasm+simd128"
OLD, NEW = new_seed(), new_seed()

Start = Callable[[str], TestClient]


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """A gateway with these signing keys."""
    with ExitStack() as stack:

        def started(seeds: str) -> TestClient:
            signing = settings.model_copy(update={"signing_key": SecretStr(seeds)})
            client = TestClient(application(signing), client=("127.0.0.1", 5000))
            return stack.enter_context(client)

        yield started


@pytest.mark.usefixtures("job_id")
def test_a_manifest_is_signed_with_the_hashes_of_its_kernels(start: Start) -> None:
    answer = start(OLD).get(PATH)
    sealed = Sealed.of(answer.content)
    assert sealed.signed_by(Signer.of(OLD).public_keys) is not None
    assert sealed.signed_by(Signer.of(NEW).public_keys) is None
    (entry,) = Manifest.model_validate_json(answer.content).entries
    assert entry.wasm is not None
    assert entry.wasm.kernel.sha256.encode() in sealed.document


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The clock of gateways: the last of these, in hours since 1970."""
    told = [500_000.25]
    monkeypatch.setattr(time, "time", lambda: told[-1] * 3600)
    return told


@pytest.mark.usefixtures("job_id")
def test_a_manifest_says_when_it_was_signed_and_is_signed_again_each_hour(
    start: Start, hours: list[float]
) -> None:
    http = start(OLD)
    first = http.get(PATH)
    assert first.json()["issued_at"] == "2027-01-15T08:00:00+00:00"
    hours.append(500_000.99)
    held = {"If-None-Match": first.headers["ETag"]}
    assert http.get(PATH, headers=held).status_code == 304
    hours.append(500_001.01)
    later = http.get(PATH, headers=held)
    assert later.json()["issued_at"] == "2027-01-15T09:00:00+00:00"
    assert Sealed.of(later.content).signed_by(Signer.of(OLD).public_keys) is not None


@pytest.mark.usefixtures("job_id")
def test_a_serial_grows_with_what_is_confirmed_retired_and_denied_and_with_nothing_else(
    start: Start, db: Connection
) -> None:
    http = start(OLD)
    device_class = PATH.rpartition("/")[2]
    candidate = make_candidate(1)
    seen: list[int] = [http.get(PATH).json()["serial"]]

    def after(change: Statement) -> int:
        execute(db, change)
        execute(db, notifications.zoo_changed())
        serial = fetch_one(db, tuning.workloads_of(WORKLOAD.key))
        assert serial is not None
        eventually(lambda: http.get(PATH).json()["serial"] == serial.serial, "the new manifest")
        seen.append(serial.serial)
        return serial.serial - seen[-2]

    key = (WORKLOAD.key, DeviceClass.parse(device_class))
    entry = (*key, candidate.candidate_id)
    assert after(zoo.publish(*entry, EntryState.PROVISIONAL, NO_EVIDENCE)) == 0
    assert after(zoo.update_evidence(*key, NO_EVIDENCE)) == 0
    assert after(zoo.retire(*key)) == 0
    assert after(zoo.publish(*entry, EntryState.CONFIRMED, NO_EVIDENCE)) > 0
    assert after(zoo.update_evidence(*key, NO_EVIDENCE)) == 0
    artifact = http.get(PATH).json()["entries"][0]["wasm"]["kernel"]["sha256"]
    denied = denials.decide(
        artifact,
        DeviceClass.parse(device_class),
        denied=True,
        stage="run",
        evidence="it traps",
        operated=False,
    )
    assert after(denied) > 0
    assert after(zoo.retire(*key)) > 0


@pytest.mark.usefixtures("job_id", "hours")
def test_every_gateway_with_the_key_has_the_same_bytes_and_tag(start: Start) -> None:
    first, second = start(OLD).get(PATH), start(OLD)
    same = second.get(PATH)
    assert (same.content, same.headers["ETag"]) == (first.content, first.headers["ETag"])
    asked = second.get(PATH, headers={"If-None-Match": first.headers["ETag"]})
    assert (asked.status_code, asked.content) == (304, b"")


@pytest.mark.usefixtures("job_id")
def test_a_rotation_has_both_signatures_and_is_no_304(start: Start) -> None:
    before, during = start(OLD).get(PATH), start(f"{OLD},{NEW}")
    after = during.get(PATH, headers={"If-None-Match": before.headers["ETag"]})
    assert after.status_code == 200
    for seed in (OLD, NEW):
        assert Sealed.of(after.content).signed_by(Signer.of(seed).public_keys) is not None
    served = [key["x"] for key in during.get("/v1/signing-keys").json()["keys"]]
    assert served == [*Signer.of(OLD).public_keys, *Signer.of(NEW).public_keys]


@pytest.mark.usefixtures("job_id")
def test_a_zoo_without_a_key_says_so_by_an_empty_list(start: Start) -> None:
    http = start("")
    assert http.get(PATH).json()["signatures"] == []
    assert http.get("/v1/signing-keys").json() == {"keys": []}


def test_a_malformed_key_ends_the_gateway_without_being_repeated(start: Start) -> None:
    with pytest.raises(Exception, match="a signing key is 32 bytes") as error:
        start("not a key")
    assert "not a key" not in str(error.value)
