"""Applications: what a key opens, what is whose, quotas under concurrency, origins, and scope."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx2 import Response

from kernelzoo.store import applications
from kernelzoo.store.blocking import connected, execute, fetch_one
from services.gateway.tokens import new_secret
from tests.database.client import OPERATOR, SESSION
from tests.database.conftest import WORKLOAD, Connection

Headers = dict[str, str]
PAGE = "https://www.example"


def create(http: TestClient, name: str = "shop", **quota: int) -> Headers:
    body = {"name": name, "origins": [PAGE], "quota": quota}
    answer = http.post("/v1/applications", json=body, headers=OPERATOR)
    assert answer.status_code == 201, answer.text
    return {"X-Kernelzoo-Key": answer.json()["key"]}


def open_job(http: TestClient, m: int, headers: Headers) -> Response:
    return http.post("/v1/jobs", json={"workload": f"matmul:f32:m{m}k3n4"}, headers=headers)


def put_set(http: TestClient, name: str, headers: Headers, workloads: int = 1) -> Response:
    body = {"workloads": [f"matmul:f32:m{m + 1}k3n4" for m in range(workloads)]}
    return http.put(f"/v1/sets/{name}", json=body, headers=headers)


def open_session(http: TestClient, **headers: str) -> Response:
    body = {**SESSION, "application": "shop"}
    return http.post("/v1/sessions", json=body, headers=headers)


def test_a_key_is_shown_once_and_kept_by_nobody(http: TestClient, db: Connection) -> None:
    key = create(http)["X-Kernelzoo-Key"]
    row = db.execute("SELECT a::text FROM application a").fetchone()
    assert row is not None
    assert key.split("-", 2)[2] not in row[0]
    assert key not in http.get("/v1/applications", headers=OPERATOR).text


def test_applications_are_the_operators(http: TestClient) -> None:
    own = create(http)
    for headers in ({}, own):
        assert http.get("/v1/applications", headers=headers).status_code == 401
        assert http.post("/v1/applications/shop/key", headers=headers).status_code == 401
        assert http.post("/v1/applications/shop/disable", headers=headers).status_code == 401
    body = {"name": "shop", "origins": []}
    assert http.post("/v1/applications", json=body, headers=OPERATOR).status_code == 409


@pytest.mark.parametrize("origin", ["www.example", "https://a/b", "https://A.example", "null", "*"])
def test_an_origin_that_no_browser_writes_is_refused(http: TestClient, origin: str) -> None:
    body = {"name": "shop", "origins": [origin]}
    assert http.post("/v1/applications", json=body, headers=OPERATOR).status_code == 422


@pytest.mark.parametrize("key", ["", "guess", f"kz-1-{'a' * 43}", f"kz-99-{'a' * 43}"])
def test_a_wrong_key_opens_nothing(http: TestClient, key: str) -> None:
    create(http)
    assert open_job(http, 2, {"X-Kernelzoo-Key": key}).status_code == 403
    assert http.get("/v1/jobs", headers={"X-Kernelzoo-Key": key}).status_code == 403


def test_rotation_ends_the_old_key_and_disabling_the_new_one(http: TestClient) -> None:
    old = create(http)
    changed = http.post("/v1/applications/shop/key", headers=OPERATOR).json()["key"]
    new = {"X-Kernelzoo-Key": changed}
    assert [open_job(http, 2, key).status_code for key in (old, new)] == [403, 201]
    assert http.post("/v1/applications/shop/disable", headers=OPERATOR).status_code == 204
    assert "is disabled" in open_job(http, 2, new).json()["detail"]
    assert open_session(http, Origin=PAGE).status_code == 403


def test_an_application_lists_its_own(http: TestClient) -> None:
    shop, blog = create(http), create(http, "blog")
    opened = [open_job(http, 2, shop), open_job(http, 3, blog), open_job(http, 2, blog)]
    assert [answer.status_code for answer in opened] == [201, 201, 200]
    put_set(http, "checkout", shop)
    put_set(http, "operators", OPERATOR)

    def listed(headers: Headers) -> tuple[list[str], list[str]]:
        jobs = http.get("/v1/jobs", headers=headers).json()["jobs"]
        sets = http.get("/v1/sets", headers=headers).json()["sets"]
        return [job["workload"] for job in jobs], [each["name"] for each in sets]

    assert listed(shop) == (["matmul:f32:m2k3n4"], ["checkout"])
    assert listed(blog) == (["matmul:f32:m3k3n4", "matmul:f32:m2k3n4"], [])
    assert listed(OPERATOR)[1] == ["checkout", "operators"]
    assert http.get("/v1/sets").status_code == 401


def test_nobody_takes_the_set_of_another(http: TestClient) -> None:
    shop, blog = create(http), create(http, "blog")
    assert put_set(http, "checkout", shop).status_code == 200
    assert put_set(http, "operators", OPERATOR).status_code == 200
    assert put_set(http, "checkout", shop, 2).status_code == 200
    for name in ("checkout", "operators"):
        refused = put_set(http, name, blog)
        assert (refused.status_code, "is another's" in refused.text) == (403, True)
    assert put_set(http, "checkout", OPERATOR).status_code == 200
    assert put_set(http, "checkout", shop).status_code == 200


def test_quotas_are_refused_with_their_number_and_what_is_refused_is_not_stored(
    http: TestClient, db: Connection
) -> None:
    key = create(http, jobs_per_day=2, sets=1, workloads_per_set=2)
    answers = [open_job(http, m, key) for m in (2, 3, 4, 3)]
    assert [answer.status_code for answer in answers] == [201, 201, 429, 200]
    assert answers[2].headers["Retry-After"] == "3600"
    assert "2 tuning jobs within 24 hours" in answers[2].json()["detail"]
    assert db.execute("SELECT count(*) FROM tuning_job").fetchone() == (2,)
    assert put_set(http, "one", key, 3).status_code == 403
    assert [put_set(http, name, key).status_code for name in ("one", "two")] == [200, 403]
    (used,) = http.get("/v1/applications", headers=OPERATOR).json()["applications"]
    assert (used["jobs_today"], used["sets"]) == (2, 1)


def keys_of(db: Connection) -> set[str]:
    return {key for (key,) in db.execute("SELECT key FROM workload").fetchall()}


def put_keys(http: TestClient, headers: Headers, *extents: int) -> Response:
    body = {"workloads": [f"matmul:f32:m{m}k5n7" for m in extents]}
    return http.put("/v1/sets/cart", json=body, headers=headers)


def test_rewriting_a_set_leaves_no_workload_behind(http: TestClient, db: Connection) -> None:
    key = create(http, sets=10, workloads_per_set=10)
    before = keys_of(db)
    for m in range(1, 20, 2):
        assert put_keys(http, key, m, m + 1).status_code == 200
    assert keys_of(db) - before == {"matmul:f32:m19k5n7", "matmul:f32:m20k5n7"}


def test_workloads_that_were_tuned_or_that_another_set_names_stay(
    http: TestClient, db: Connection
) -> None:
    key = create(http, sets=10)
    assert put_keys(http, key, 1, 2, 3).status_code == 200
    tuned = {"workload": "matmul:f32:m1k5n7"}
    assert http.post("/v1/jobs", json=tuned, headers=key).status_code == 201
    other = {"workloads": ["matmul:f32:m2k5n7"]}
    assert http.put("/v1/sets/other", json=other, headers=OPERATOR).status_code == 200
    assert put_keys(http, key, 4).status_code == 200
    left = {each for each in keys_of(db) if each.endswith("k5n7")}
    assert left == {f"matmul:f32:m{m}k5n7" for m in (1, 2, 4)}


def test_ever_new_workloads_are_refused_once_a_day_of_them_is_used_up(
    http: TestClient, db: Connection
) -> None:
    key = create(http, sets=2, workloads_per_set=3)
    assert put_keys(http, key, 1, 2, 3).status_code == 200
    assert put_keys(http, key, 4, 5, 6).status_code == 200
    refused = put_keys(http, key, 6, 7)
    assert refused.status_code == 429
    assert "may register 6 new workloads within 24 hours" in refused.json()["detail"]
    assert http.get("/v1/sets", headers=key).json()["sets"][0]["workloads"] == [
        f"matmul:f32:m{m}k5n7" for m in (4, 5, 6)
    ]
    assert put_keys(http, key, 6, 5).status_code == 200, "what it has is not new"
    db.execute("UPDATE application_workload SET registered_at = now() - interval '25 hours'")
    assert put_keys(http, key, 6, 7).status_code == 200, "the next day"
    assert db.execute("SELECT count(*) FROM application_workload").fetchone() == (1,)


def test_jobs_of_yesterday_are_not_counted(http: TestClient, db: Connection) -> None:
    key = create(http, jobs_per_day=1)
    open_job(http, 2, key)
    db.execute("UPDATE application_job SET asked_at = now() - interval '25 hours'")
    assert [open_job(http, m, key).status_code for m in (3, 4)] == [201, 429]


def test_a_quota_holds_however_many_ask_at_once(http: TestClient, db: Connection) -> None:
    key = create(http, jobs_per_day=3, sets=3)

    def ask(number: int) -> tuple[int, int]:
        job = open_job(http, number + 2, key).status_code
        return job, put_set(http, f"set-{number}", key).status_code

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, range(16)))
    assert sorted(job for job, _ in answers) == [201] * 3 + [429] * 13
    assert sorted(put for _, put in answers) == [200] * 3 + [403] * 13
    assert db.execute("SELECT count(*) FROM tuning_job").fetchone() == (3,)
    assert db.execute("SELECT count(*) FROM application_set").fetchone() == (3,)


def test_without_the_lock_a_quota_would_be_overrun(database_url: str) -> None:
    """Two that count before either has stored: what `lock` is for."""
    quota = applications.Quota(jobs_per_day=1, sets=1, workloads_per_set=1)
    with connected(database_url) as one, connected(database_url) as two:
        made = fetch_one(one, applications.create("shop", new_secret().hash, [], quota))
        assert made is not None
        with one.transaction(), two.transaction():
            execute(one, applications.lock(made.id))
            two.execute("SET LOCAL lock_timeout = '200ms'")
            with pytest.raises(Exception, match="lock timeout"):
                execute(two, applications.lock(made.id))


@pytest.mark.parametrize("headers", [{}, {"Origin": "https://evil.example"}, {"Origin": "null"}])
def test_pages_of_other_origins_do_not_measure_in_its_name(
    http: TestClient, headers: Headers
) -> None:
    create(http)
    refused = open_session(http, **headers)
    assert (refused.status_code, "may not measure for" in refused.text) == (403, True)


@pytest.mark.usefixtures("job_id")
def test_a_session_in_its_name_is_lent_its_workloads_and_nothing_else(
    http: TestClient, db: Connection
) -> None:
    key = create(http)
    opened = open_session(http, Origin=PAGE)
    assert opened.status_code == 201, opened.text
    bearer = {"Authorization": f"Bearer {opened.json()['token']}", "Origin": PAGE}
    row = db.execute("SELECT a.name FROM agent_session JOIN application a ON a.id = application_id")
    assert row.fetchone() == ("shop",)

    def lent() -> int:
        body: dict[str, Any] = {"limit": 1, "wait_s": 0}
        return http.post("/v1/leases", json=body, headers=bearer).status_code

    assert lent() == 204
    body = {"workloads": [WORKLOAD.key]}
    assert http.put("/v1/sets/checkout", json=body, headers=key).status_code == 200
    assert lent() == 200


@pytest.mark.usefixtures("job_id")
def test_manifests_are_for_everyone_and_their_caches(http: TestClient) -> None:
    body = {"workloads": [WORKLOAD.key]}
    http.put("/v1/sets/checkout", json=body, headers=create(http))
    path = "/v1/zoo/checkout/0123456789abcdef:r1-0:wasm+simd128"
    answer = http.get(path, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 200
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert "Vary" not in answer.headers


def test_an_application_cancels_what_it_alone_has_asked_for(http: TestClient) -> None:
    shop, blog = create(http), create(http, "blog")
    shared, own = (open_job(http, m, shop).json()["job"] for m in (2, 3))
    open_job(http, 2, blog)
    answers = [http.delete(f"/v1/jobs/{job}", headers=shop) for job in (shared, own)]
    assert [answer.status_code for answer in answers] == [403, 200]
    assert "others have asked" in answers[0].json()["detail"]
    assert http.delete(f"/v1/jobs/{own}", headers=blog).status_code == 403
