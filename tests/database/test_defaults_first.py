"""The default kernels of a new model are compiled before every other candidate."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner, Result

from cli import terminal
from cli.app import app
from cli.gateway_client import GatewayClient
from cli.models import command, importing, readiness
from cli.models.sending import ImportedModel
from kernelzoo import jobs
from kernelzoo.domain.artifact import Artifact
from kernelzoo.domain.candidate import Candidate
from kernelzoo.errors import KernelZooError, StackError
from kernelzoo.settings import Settings
from services.tuner.compile import compile_candidate
from tests.database.client import OPERATOR, OPERATOR_KEY
from tests.database.conftest import Connection
from tests.database.message_queue import CompileQueue
from tests.database.test_model_commands import network
from tests.database.test_models import CLASS
from tests.tiny_model import register, tiny_model
from workers import compiling, maintenance

OTHERS = 50
SIMPLE_CLASS = "0123456789abcdef:r0-0:wasm+simd128"


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    return settings.model_copy(update={"models_dir": tmp_path / "models"})


@pytest.fixture
def queue(db: Connection, monkeypatch: pytest.MonkeyPatch) -> CompileQueue:
    """Stands in for the broker, from before the gateway starts."""
    made = CompileQueue(db)
    monkeypatch.setattr(jobs, "celery_sender", lambda _: made)
    return made


@pytest.fixture
def zoo(queue: CompileQueue, http: TestClient) -> TestClient:
    del queue
    return http


def missing(http: TestClient, device_class: str = CLASS, name: str = "tiny") -> list[str]:
    return list(http.get(f"/v1/models/{name}/{device_class}").json()["missing"])


def compiled(db: Connection) -> set[str]:
    rows = db.execute("SELECT candidate_id FROM candidate WHERE state = 'compiled'").fetchall()
    return {row[0] for row in rows}


def crowd(http: TestClient, queue: CompileQueue, db: Connection) -> None:
    """Models whose defaults are compiled and whose other candidates wait, of all shares."""
    for number in range(OTHERS):
        model = tiny_model(number + 7, f"other-{number}")
        assert register(http, model).status_code == 201
    while queue.first_place == 0:
        queue.work()
    (waiting,) = db.execute(
        "SELECT count(*) FROM candidate WHERE state = 'waiting' AND NOT is_default"
    ).fetchone() or (0,)
    assert waiting > 20 * OTHERS


def test_a_new_model_is_ready_before_any_candidate_of_fifty_others(
    zoo: TestClient, queue: CompileQueue, db: Connection
) -> None:
    crowd(zoo, queue, db)
    before = compiled(db)
    assert register(zoo, tiny_model()).status_code == 201
    told = zoo.get("/v1/models/tiny/readiness").json()
    assert told == {"model": "tiny", "defaults": 2, "compiled": 0, "failed": []}
    while zoo.get("/v1/models/tiny/readiness").json()["compiled"] < 2:
        queue.work()
    new = compiled(db) - before
    rows = db.execute(
        "SELECT workload_key, is_default FROM candidate WHERE candidate_id = ANY (%s)", (list(new),)
    ).fetchall()
    assert {row[0] for row in rows} == set(tiny_model().plan.kernels), "no other model's"
    assert all(row[1] for row in rows), "nothing but defaults"
    for device_class in (CLASS, SIMPLE_CLASS):
        assert missing(zoo, device_class) == [], f"a page of {device_class} opens"


def test_what_fails_is_replaced_by_the_next_default_at_once(
    zoo: TestClient, queue: CompileQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused: list[str] = []

    def refuse_some(candidate: Candidate) -> Artifact:
        if len(refused) < 3:
            refused.append(candidate.candidate_id)
            raise KernelZooError("no code for it")
        return compile_candidate(candidate)

    monkeypatch.setattr(compiling, "compile_candidate", refuse_some)
    register(zoo, tiny_model())
    while queue.first_place == 0:
        queue.work()
    assert len(refused) == 3
    assert (missing(zoo), missing(zoo, SIMPLE_CLASS)) == ([], [])


def test_a_model_that_is_added_again_does_not_wait_for_lost_messages(
    zoo: TestClient, queue: CompileQueue, db: Connection
) -> None:
    register(zoo, tiny_model())
    queue.work()
    assert zoo.delete("/v1/models/tiny", headers=OPERATOR).status_code == 204
    while queue.first_place == 0:
        queue.work()
    assert compiled(db) == set(), "nobody wanted them"
    register(zoo, tiny_model())
    while queue.first_place == 0:
        queue.work()
    assert missing(zoo) == []


def test_defaults_whose_message_was_lost_are_sent_before_candidates(db: Connection) -> None:
    db.execute(
        "INSERT INTO workload (key, flops) VALUES ('relu:f32:n64', 64);"
        "INSERT INTO tuning_job (workload_key, target, space) VALUES ('relu:f32:n64', 'wasm', '')"
    )
    ((job_id,),) = db.execute("SELECT id FROM tuning_job").fetchall()
    first = compiling.plan_space(db, job_id, 16)
    db.execute("UPDATE candidate SET requeued_at = now() - interval '1 hour'")
    again = maintenance.stalled(db, 30, 16)
    needed = {str(each) for message in first if message.place == 0 for each in ids(message)}
    assert needed
    assert {each for message in again if message.place == 0 for each in ids(message)} == needed
    assert {message.place for message in again} == {0, jobs.LAST}


def ids(message: jobs.Message) -> list[str]:
    (found,) = message.arguments
    assert isinstance(found, list)
    return [str(each) for each in found]


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    file = tmp_path / "net.onnx"
    onnx.save(network(), file)
    return file


@pytest.fixture
def gateway(zoo: TestClient, monkeypatch: pytest.MonkeyPatch) -> GatewayClient:
    client = GatewayClient(url="http://zoo.test", operator_key=OPERATOR_KEY)
    client._http = zoo
    monkeypatch.setattr(GatewayClient, "__exit__", lambda *_: None)
    monkeypatch.setattr(command, "reach", lambda *_: client)
    return client


def typed(file: Path, *options: str) -> Result:
    words = ["models", "add", str(file), "--name", "net", "--dim", "sequence=4", *options]
    return CliRunner().invoke(app, words)


def test_add_ends_when_pages_can_run_the_model(
    gateway: GatewayClient,
    queue: CompileQueue,
    model_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker does one message whenever the command waits."""
    monkeypatch.setattr(terminal, "PLAIN_EVERY_S", 0)
    wait = readiness.wait_until_ready

    def work(_seconds: float) -> None:
        queue.work()

    monkeypatch.setattr(command, "wait_until_ready", lambda *given: wait(*given, sleep=work))
    added = typed(model_file, "--json")
    assert added.exit_code == 0, added.output
    assert json.loads(added.stdout)["model"]["name"] == "net", "nothing else is there"
    assert "net: default kernels ░░" in added.stderr
    assert " 0 of 1 compiled" in added.stderr
    assert missing(gateway._http, name="net") == []  # type: ignore[arg-type]
    again = typed(model_file)
    assert "net is ready for pages: 1 plan" in again.stdout
    without = typed(model_file, "--no-wait")
    assert "net is registered: 1 plan" in without.stdout


def test_add_says_what_to_do_where_nobody_compiles(
    gateway: GatewayClient, model_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del gateway
    wait = readiness.wait_until_ready
    monkeypatch.setattr(command, "wait_until_ready", lambda *given: wait(*given, idle_s=0.3))
    added = typed(model_file)
    assert isinstance(added.exception, StackError)
    assert "is registered, but not ready for pages: 0 of" in str(added.exception)
    assert "Start a compile worker: `kernelzoo up`" in str(added.exception)


def test_add_says_which_workload_no_kernel_compiles_of(
    gateway: GatewayClient, db: Connection, model_file: Path
) -> None:
    del gateway
    assert typed(model_file, "--no-wait").exit_code == 0
    db.execute("UPDATE tuning_job SET state = 'failed', detail = 'no space for it'")
    added = typed(model_file)
    assert isinstance(added.exception, StackError)
    assert "pages cannot run it" in str(added.exception)
    assert "for wasm among them (no space for it)" in str(added.exception)


def test_a_model_that_its_default_kernels_do_not_compute_is_told_when_it_is_added(
    gateway: GatewayClient,
    queue: CompileQueue,
    model_file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its golden outputs are wrong, as those of a faulty import are."""
    del gateway
    wait = readiness.wait_until_ready

    def work(_seconds: float) -> None:
        queue.work()

    def skewed(*given: Any, **options: Any) -> ImportedModel:
        made = importing.imported(*given, **options)
        (golden,) = made.golden
        (plan,) = made.plans
        wrong = bytes(golden[:-64]) + np.full(16, 7, np.float32).tobytes()
        changed = replace(plan.golden, sha256=sha256(wrong).hexdigest())
        return replace(made, golden=(wrong,), plans=(replace(plan, golden=changed),))

    monkeypatch.setattr(command, "wait_until_ready", lambda *given: wait(*given, sleep=work))
    assert typed(model_file).exit_code == 0
    monkeypatch.setattr(command, "imported", skewed)
    added = typed(model_file, "--replace")
    assert isinstance(added.exception, StackError)
    assert "its default kernels do not compute the golden y (sequence=4 of f32)" in str(
        added.exception
    )
    assert "a fault of this import, not of a device" in str(added.exception)
