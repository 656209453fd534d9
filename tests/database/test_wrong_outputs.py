"""Pages say that models are wrong with default kernels, and the operator is told."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from kernelzoo.domain.trust import Trust
from kernelzoo.settings import Settings
from services.gateway.app import application
from tests.database.client import OPERATOR
from tests.database.conftest import Connection
from tests.tiny_model import register, tiny_model, tiny_with_f16

pytestmark = pytest.mark.usefixtures("nothing_remembered")

CLASS = "0123456789abcdef:r0-0:wasm+relaxed-simd+simd128"
OTHER_CLASS = "fedcba9876543210:r0-0:wasm+simd128"
GPU_CLASS = "0123456789abcdef:r101-0:webgpu"
TINY = tiny_model()


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"models_dir": tmp_path / "models"})


@pytest.fixture
def registered(http: TestClient) -> TestClient:
    assert register(http, TINY).status_code == 201
    return http


def tell(
    settings: Settings, network: int, headers: dict[str, str] | None = None, **changes: Any
) -> tuple[int, Any]:
    """A page of a network says that the model is wrong on its device."""
    body = {
        "model": "tiny",
        "golden": TINY.plan.golden.sha256,
        "device_class": CLASS,
        "output": "y",
    }
    with TestClient(application(settings), client=(f"10.1.{network}.1", 5000)) as http:
        answer = http.post("/v1/wrong-outputs", json={**body, **changes}, headers=headers)
        return answer.status_code, answer.json()


def wrong(http: TestClient) -> list[dict[str, Any]]:
    answer = http.get("/v1/models/tiny/coverage")
    assert answer.status_code == 200, answer.text
    return list(answer.json()["wrong"])


def age(db: Connection, days: int) -> None:
    """Everything was said so many days earlier."""
    db.execute(
        "UPDATE wrong_output SET first_at = first_at - make_interval(days => %(days)s),"
        " last_at = last_at - make_interval(days => %(days)s)",
        {"days": days},
    )


def test_the_operator_is_told_on_how_many_networks_of_a_class_and_since_when(
    settings: Settings, registered: TestClient, db: Connection
) -> None:
    assert tell(settings, 1) == (202, {"noted": True})
    age(db, 2)
    for network in (1, 2, 2, 3):
        assert tell(settings, network)[0] == 202
    tell(settings, 4, device_class=OTHER_CLASS)
    most, other = wrong(registered)
    assert (most["device_class"], most["networks"], most["outputs"]) == (CLASS, 3, ["y"])
    assert (most["dimensions"], most["dtype"]) == ({"sequence": 4}, "f32")
    assert most["since"][:10] < most["last_at"][:10], "the first one said so two days ago"
    assert (other["device_class"], other["networks"]) == (OTHER_CLASS, 1)
    manifest = registered.get(f"/v1/models/tiny/{CLASS}")
    assert manifest.status_code == 200, "it only informs"


def test_a_page_on_a_gpu_speaks_of_the_plan_that_it_was_given(
    settings: Settings, http: TestClient
) -> None:
    plain, halved, programs = tiny_with_f16()
    targets = ("wasm", "webgpu")
    assert register(http, plain, halved, targets=targets, programs=programs).status_code == 201
    for model, device_class in ((plain, CLASS), (halved, GPU_CLASS)):
        (output,) = model.plan.outputs
        golden = model.plan.golden.sha256
        told = tell(settings, 1, golden=golden, device_class=device_class, output=output.name)
        assert told[0] == 202
    assert {each["device_class"]: each["dtype"] for each in wrong(http)} == {
        CLASS: "f32",
        GPU_CLASS: "f16",
    }


def test_what_nobody_says_again_is_forgotten_and_another_model_starts_anew(
    settings: Settings, registered: TestClient, db: Connection
) -> None:
    tell(settings, 1)
    age(db, 31)
    assert wrong(registered) == []
    tell(settings, 2)
    (found,) = wrong(registered)
    assert found["networks"] == 1
    assert db.execute("SELECT count(*) FROM wrong_output").fetchone() == (1,)
    longer = tiny_model(6)
    assert register(registered, longer, replace=True).status_code == 201
    assert wrong(registered) == []
    assert tell(settings, 1)[0] == 404, "no plan has that golden file any more"


@pytest.mark.parametrize(
    ("changes", "status", "words"),
    [
        ({"model": "other"}, 404, "there is no model other"),
        ({"model": "../x"}, 422, "model"),
        ({"golden": "0" * 64}, 404, "ask for the model again"),
        ({"output": "z"}, 404, "ask for the model again"),
        ({"output": "\0"}, 422, "output"),
        ({"output": "y" * 257}, 422, "output"),
        ({"device_class": "nonsense"}, 422, "is malformed"),
    ],
)
def test_what_does_not_fit_a_model_is_refused_with_the_reason(
    settings: Settings,
    registered: TestClient,
    db: Connection,
    changes: dict[str, Any],
    status: int,
    words: str,
) -> None:
    assert wrong(registered) == []
    found = tell(settings, 1, **changes)
    assert found[0] == status
    assert words in found[1]["detail"]
    assert db.execute("SELECT count(*) FROM wrong_output").fetchone() == (0,)


def test_a_network_that_says_more_than_it_may_in_a_day_is_told_to_wait(
    settings: Settings, registered: TestClient
) -> None:
    few = settings.model_copy(update={"failures_per_network_per_day": 2})
    classes = [f"{digit * 16}:r0-0:wasm+simd128" for digit in "123"]
    answers = [tell(few, 1, device_class=each) for each in classes]
    assert [status for status, _ in answers] == [202, 202, 429]
    assert "2 wrong outputs within a day" in answers[-1][1]["detail"]
    assert len(wrong(registered)) == 2


def test_a_plan_keeps_so_many_voices_and_not_more(
    settings: Settings,
    registered: TestClient,
    db: Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kernelzoo.store.wrong_outputs.MOST_VOICES", 2)
    for network in (1, 2, 3):
        assert tell(settings, network)[0] == 202
    (found,) = wrong(registered)
    assert found["networks"] == 2
    age(db, 31)
    tell(settings, 3)
    (found,) = wrong(registered)
    assert found["networks"] == 1


def test_a_zoo_that_trusts_its_operator_alone_hears_no_page(
    settings: Settings, registered: TestClient
) -> None:
    own = settings.model_copy(update={"trust": Trust.OPERATOR})
    assert tell(own, 1)[0] == 403
    assert wrong(registered) == []
    assert tell(own, 1, OPERATOR)[0] == 202
    assert len(wrong(registered)) == 1
