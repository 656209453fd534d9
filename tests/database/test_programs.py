"""A program from its registration to what a page is served; its text is in one table alone."""

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from kernelzoo.domain.device import DeviceClass
from kernelzoo.domain.operators.parsing import MAX_TEXT_BYTES, parsed
from kernelzoo.domain.workload import Workload
from kernelzoo.settings import Settings
from services.aggregator.publishing import Rule
from services.gateway import programs
from services.gateway.app import application
from tests.database.client import OPERATOR, open_agent
from tests.database.conftest import Connection
from tests.reports import all_ok
from tests.tiny_model import send, tiny_model, with_plan
from workers import maintenance
from workers.aggregating import tally, verify_lease
from workers.compiling import compile_batch, plan_space

TEXT = (
    "scores: f32[12, 40]\nvalid: i32[40]\n"
    "masked[i: 12, j: 40] = (scores[i, j] if valid[j] != 0 else -1000.0)\n"
    "largest[i: 12] = max over k: 40 of masked[i, k]\n"
    "power[i: 12, j: 40] = exp(masked[i, j] - largest[i])\n"
    "total[i: 12] = sum over k: 40 of power[i, k]\n"
    "c[i: 12, j: 40] = power[i, j] / total[i]"
)
RULE = Rule(quorum=1, malicious_share=0)


def forget(http: TestClient) -> None:
    """Acts as another gateway, which has read no program."""
    http.app.state.kernelzoo.programs._kept.clear()  # type: ignore[attr-defined]


def register(http: TestClient, text: str = TEXT, name: str = "masked_softmax") -> Any:
    return http.post("/v1/programs", json={"name": name, "text": text}, headers=OPERATOR)


def opened(http: TestClient, key: str, target: str = "wasm") -> int:
    answer = http.post("/v1/jobs", json={"workload": key, "target": target}, headers=OPERATOR)
    assert answer.status_code == 201, answer.text
    return int(answer.json()["job"])


def test_a_program_that_a_target_has_no_kernels_for_is_refused_by_any_process(
    http: TestClient,
) -> None:
    key = register(http, "x: f16[8]\ny[i: 8] = x[i] * 0.5", "halves").json()["workload"]
    forget(http)
    given = {"workload": key, "target": "wasm"}
    answer = http.post("/v1/jobs", json=given, headers=OPERATOR)
    assert answer.status_code == 422, answer.text
    assert "wasm has kernels of f32 alone" in answer.text


def test_a_program_is_tuned_and_served_as_any_workload(http: TestClient, db: Connection) -> None:
    key = register(http).json()["workload"]
    assert key.startswith("program:masked_softmax:")
    job_id = opened(http, key)

    # The compile worker.
    assert plan_space(db, job_id, 8)
    rows = db.execute(
        "SELECT candidate_id FROM candidate WHERE workload_key = %s ORDER BY 1 LIMIT 2", (key,)
    ).fetchall()
    compile_batch(db, [row[0] for row in rows])
    states = "SELECT state, count(*) FROM candidate WHERE state <> 'waiting' GROUP BY 1"
    assert db.execute(states).fetchall() == [("compiled", 2)]

    # An agent, and what the aggregate worker makes of its report.
    agent = open_agent(http)
    lease = agent.lease().json()
    assert lease["workload"] == key
    assert 1e-8 < lease["tolerance"] < 1e-3
    tensors = lease["reference"]["tensors"]
    assert [(t["name"], t["dtype"]) for t in tensors] == [
        ("x0", "f32"), ("x1", "i32"), ("s4", "f32")
    ]  # fmt: skip
    report = all_ok(lease, Workload.of_program("masked_softmax", parsed(TEXT)))
    wrong = report[-1]
    wrong["sampled_entries"][5] += 0.01
    assert agent.report(lease, report).status_code == 202
    (message,) = verify_lease(db, int(lease["lease"]))
    assert message.arguments == (key, agent.device_class)
    verdicts = dict(db.execute("SELECT candidate_id, verdict FROM measurement").fetchall())
    assert verdicts[wrong["candidate"]] == "rejected"
    right = [each["candidate"] for each in report if verdicts[each["candidate"]] == "verified"]
    assert right

    # The vote, and a page.
    assert agent.vote(key, right).status_code == 202
    tally(db, key, DeviceClass.parse(agent.device_class), RULE)
    forget(http)
    answer = http.get(f"/v1/zoo/{key}/{agent.device_class}")
    assert answer.status_code == 200, answer.text
    (entry,) = answer.json()["entries"]
    assert entry["wasm"]["kernel"]["candidate"] in right
    assert entry["wasm"]["tolerance"] == lease["tolerance"]


def test_a_program_has_one_key_and_is_read_by_it(http: TestClient) -> None:
    first = register(http)
    again = register(http, TEXT.replace("masked", "m").replace("k:", "n:").replace("k]", "n]"))
    assert (first.status_code, again.json()) == (201, first.json())
    forget(http)
    key = first.json()["workload"]
    read = http.get(f"/v1/programs/{key}")
    assert read.json() == first.json()
    assert read.json()["text"].startswith("x0: f32[12, 40]\nx1: i32[40]\ns0[i0: 12, i1: 40] = ")
    assert http.get(f"/v1/programs/{key[:-1]}x").status_code == 422
    assert http.get("/v1/programs/program:a:0123456789abcdef").status_code == 404
    assert http.get("/v1/programs/relu:f32:n8").status_code == 404


def test_a_gateway_keeps_a_bounded_number_of_programs(
    http: TestClient, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "MOST_KEPT", 2)
    texts = [TEXT.replace("1000.0", f"{most}.0") for most in (1000, 2000, 3000)]
    keys = [register(http, text).json()["workload"] for text in texts]
    db.execute("UPDATE program SET roundings = 8 WHERE key <> %s", (keys[2],))
    read = [http.get(f"/v1/programs/{key}").json()["workload"] for key in (*keys, keys[0])]
    assert read == [*keys, keys[0]]
    kept = http.app.state.kernelzoo.programs._kept  # type: ignore[attr-defined]
    assert list(kept) == [keys[1], keys[0]], "what was asked for last, and nothing unevaluated"
    db.execute("UPDATE program SET roundings = 8")
    http.get(f"/v1/programs/{keys[2]}")
    assert list(kept) == [keys[0], keys[2]]


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("c[i: 3] = a[i]", "a", "'a' is no input"),
        ("a: f32[9]\nc[i: 9] = __import__('os')", "a", "no expression"),
        ("a: f32[9]\nc[i: 9] = " + "(" * 20_000, "a", "line 2 of the program"),
        ("x" * (MAX_TEXT_BYTES + 1), "a", "at most 65536"),
        ("a: f32[9]\nc[i: 67108864] = sum over k: 65536 of a[0]", "a", "FLOPs a call"),
        ("a: f32[9]\nc[i: 9] = a[i]", "A B", "pattern"),
        ("a: f32[9]\nc[i: 9] = a[i]\x00", "a", "pattern"),
    ],
)
def test_a_hostile_text_is_refused_with_a_reason(
    http: TestClient, db: Connection, text: str, name: str, words: str
) -> None:
    answer = register(http, text, name)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]
    assert db.execute("SELECT count(*) FROM program").fetchone() == (0,)


def test_the_operator_alone_registers_and_nothing_is_tuned_that_is_not_registered(
    http: TestClient,
) -> None:
    assert http.post("/v1/programs", json={"name": "a", "text": TEXT}).status_code == 401
    job = {"workload": "program:unheard_of:0123456789abcdef"}
    answer = http.post("/v1/jobs", json=job, headers=OPERATOR)
    assert answer.status_code == 422
    assert "is not registered" in answer.json()["detail"]


def test_a_program_that_reads_outside_of_a_tensor_is_planned_by_nobody(
    http: TestClient, db: Connection
) -> None:
    key = register(http, "a: f32[9]\nc[i: 9] = a[i + 1]").json()["workload"]
    job_id = opened(http, key)
    assert plan_space(db, job_id, 8) == ()
    job = http.get(f"/v1/jobs/{job_id}").json()
    assert job["state"] == "failed"
    assert "x0 is read outside of its axis 0" in job["detail"]


def test_a_model_brings_the_programs_that_it_calls(settings: Settings, tmp_path: Path) -> None:
    relu = Workload.of_program("relu", parsed("a: f32[64]\nc[i: 64] = max(a[i], 0.0)"))
    text = str(relu.program)
    tiny = tiny_model()
    tiny = with_plan(tiny, kernels=(tiny.plan.kernels[0], relu.key))
    changes = {"signing_key": SecretStr("A" * 43), "models_dir": tmp_path}
    app = application(settings.model_copy(update=changes))
    with TestClient(app, client=("127.0.0.1", 5000)) as http:
        send(http, tiny)
        forget(http)

        def put(programs: dict[str, str]) -> Any:
            body = {"source": "tiny.onnx", "plans": [tiny.request], "programs": programs}
            return http.put("/v1/models/tiny", json=body, headers=OPERATOR)

        for programs, words in (
            ({}, "is not registered"),
            ({relu.key: text.replace("0.0", "1.0")}, "under its own key"),
            ({"relu:f32:n8": text}, "no key of a program"),
        ):
            refused = put(programs)
            assert refused.status_code == 422
            assert words in refused.json()["detail"]
            assert http.get(f"/v1/programs/{relu.key}").status_code == 404
        assert put({relu.key: text}).status_code == 201
        assert http.get(f"/v1/programs/{relu.key}").json()["text"] == text
        jobs = {job["workload"] for job in http.get("/v1/jobs").json()["jobs"]}
        assert jobs == set(tiny.plan.kernels)


def test_a_program_that_nothing_was_tuned_for_is_removed_after_a_week(
    http: TestClient, db: Connection
) -> None:
    kept = register(http).json()["workload"]
    opened(http, kept)
    unused = register(http, TEXT.replace("1000.0", "2000.0")).json()["workload"]

    def stored(days: int) -> set[str]:
        db.execute("UPDATE program SET registered_at = now() - make_interval(days => %s)", (days,))
        assert maintenance.remove_old(db, 0, days=30, quorum=1) is None
        return {row[0] for row in db.execute("SELECT key FROM program").fetchall()}

    assert stored(6) == {kept, unused}
    assert stored(8) == {kept}
