"""Signed manifests: what a page gets, from which keys, and what stays the same."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from kernelzoo.settings import Settings
from kernelzoo.signing import Sealed, Signer, new_seed
from services.gateway.app import application
from services.gateway.wire.zoo import Manifest
from tests.database.conftest import WORKLOAD

PATH = f"/v1/zoo/{WORKLOAD.key}/0123456789abcdef:r1-0:wasm+simd128"
OLD, NEW = new_seed(), new_seed()

Start = Callable[[str], TestClient]


@pytest.fixture
def start(settings: Settings) -> Iterator[Start]:
    """A gateway with these signing keys."""
    with ExitStack() as stack:

        def started(seeds: str) -> TestClient:
            signing = settings.model_copy(update={"signing_key": SecretStr(seeds)})
            return stack.enter_context(TestClient(application(signing)))

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


@pytest.mark.usefixtures("job_id")
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
