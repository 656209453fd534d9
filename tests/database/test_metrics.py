"""The gateway counts requests, and asks the database when it is scraped."""

from collections.abc import Iterator
from functools import partial

import pytest
from celery.exceptions import TimeLimitExceeded
from fastapi.testclient import TestClient
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from psycopg import sql

from cli.stack.ports import free_port
from kernelzoo import jobs
from kernelzoo.exporter import exporting, registry
from kernelzoo.metrics import PERIODIC
from kernelzoo.settings import Settings, WorkerSettings
from services.gateway.app import application
from services.gateway.census import Census
from tests.database.client import open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.reports import all_ok, failure
from tests.running import eventually
from tests.scraping import scrape
from workers import learning
from workers.counting import take_census
from workers.tasks import register

EVERY = (
    *(jobs.requeue(), jobs.order_spaces(), jobs.aggregate_by_family(), jobs.take_census()),
    *(jobs.train_model(), jobs.remove_old()),
)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def http(settings: Settings, port: int) -> Iterator[TestClient]:
    exported = settings.model_copy(update={"metrics_port": port})
    with TestClient(application(exported), client=("127.0.0.1", 5000)) as client:
        yield client


class Growth:
    """Tells how much each value has grown since: this process has counted other tests before."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._before = scrape(port)

    def of(self, name: str) -> float:
        return scrape(self._port)[name] - self._before.get(name, 0)


def test_what_agents_do_is_counted(http: TestClient, job_id: int, port: int) -> None:
    since = Growth(port)
    agent = open_agent(http)
    lease = agent.lease(limit=2).json()
    reports = all_ok(lease)
    agent.report(lease, [reports[0], failure(lease["candidates"][1]["candidate"], "timeout")])
    agent.report(lease, reports[:1])
    agent.report({**lease, "nonce": "guessed"}, reports)
    agent.vote(WORKLOAD.key, [reports[0]["candidate"]])
    agent.vote(WORKLOAD.key, ["0" * 32])
    assert job_id
    assert since.of('kernelzoo_sessions_total{engine="Chromium",target="wasm"}') == 1
    assert since.of('kernelzoo_leases_total{target="wasm"}') == 1
    assert since.of('kernelzoo_leased_candidates_total{target="wasm"}') == 2
    assert since.of('kernelzoo_measurements_accepted_total{outcome="ok"}') == 1
    assert since.of('kernelzoo_measurements_accepted_total{outcome="timeout"}') == 1
    assert since.of('kernelzoo_measurements_refused_total{reason="answered"}') == 1
    assert since.of('kernelzoo_measurements_refused_total{reason="nonce"}') == 2
    assert since.of("kernelzoo_ballots_total") == 1
    assert since.of("kernelzoo_ballots_refused_total") == 1
    lost = 'kernelzoo_jobs_lost_total{task="verify_leases"}'
    eventually(lambda: since.of(lost) == 1, "no broker is there")
    assert since.of("kernelzoo_connection_pool_wait_seconds_count") > 5


def test_manifests_are_counted_by_level_and_source_and_requests_by_route(
    http: TestClient, job_id: int, port: int
) -> None:
    assert job_id
    since = Growth(port)
    path = f"/v1/zoo/{WORKLOAD.key}/{open_agent(http).device_class}"
    manifest = http.get(path).json()
    http.get(path)
    kernel = manifest["entries"][0]["wasm"]["kernel"]
    http.get(kernel["url"])
    http.get("/v1/nothing/here")
    route = 'route="/v1/zoo/{name}/{device_class}"'
    assert since.of('kernelzoo_manifest_kernels_total{level="default"}') == 2
    assert since.of('kernelzoo_manifest_duration_seconds_count{cache="miss"}') == 1
    assert since.of('kernelzoo_manifest_duration_seconds_count{cache="hit"}') == 1
    assert since.of(f'kernelzoo_http_requests_total{{{route},status="2xx"}}') == 2
    assert since.of(f"kernelzoo_http_request_duration_seconds_count{{{route}}}") == 2
    assert since.of('kernelzoo_http_requests_total{route="none",status="4xx"}') == 1
    assert since.of('kernelzoo_artifact_sent_bytes_total{target="wasm"}') == kernel["size_bytes"]


def is_loaded(http: TestClient, device_class: str) -> bool:
    return http.get(f"/v1/zoo/{WORKLOAD.key}/{device_class}").is_success


def test_page_loads_are_written_by_key_and_added_up(
    settings: Settings, db: Connection, job_id: int
) -> None:
    assert job_id
    device_class = "0123456789abcdef:r1-0:wasm+simd128"
    for _ in range(2):
        with TestClient(application(settings), client=("127.0.0.1", 5000)) as http:
            for _ in range(3):
                # A page load waits half a second for its connection, a slow machine longer.
                eventually(partial(is_loaded, http, device_class), "a page load")
            assert http.get(f"/v1/zoo/unknown/{device_class}").status_code == 404
    rows = db.execute("SELECT name, device_class, loads FROM page_load").fetchall()
    assert rows == [(WORKLOAD.key, device_class, 6)]


def test_what_waits_and_who_is_online_is_counted_by_a_task_and_read_when_scraped(
    http: TestClient, db: Connection, job_id: int, port: int
) -> None:
    assert job_id
    assert "kernelzoo_zoo_entries" not in str(scrape(port)), "nothing was counted yet"
    agent = open_agent(http)
    open_agent(http, identity=agent.identity, engine={"name": "Homemade", "version": "1"})
    lease = agent.lease(limit=2).json()
    agent.report(lease, all_ok(lease))
    take_census(db)
    said = scrape(port)
    assert said['kernelzoo_queue_depth{queue="compile"}'] == 1, "one candidate of the fixture"
    assert said['kernelzoo_queue_depth{queue="aggregate"}'] == 2, "both measurements"
    assert said['kernelzoo_queue_oldest_age_seconds{queue="compile"}'] > 0
    assert said['kernelzoo_agents_online{engine="Chromium"}'] == 1
    assert said['kernelzoo_agents_online{engine="other"}'] == 1
    assert said['kernelzoo_agents_online{engine="Safari"}'] == 0
    assert said['kernelzoo_zoo_entries{state="confirmed"}'] == 0
    assert said["kernelzoo_database_up"] == 1


@pytest.mark.usefixtures("job_id")
def test_coverage_is_counted_by_state_with_what_it_is_worth(
    settings: Settings, db: Connection
) -> None:
    for name, state, loads, relative_time in (
        ("0123456789abcdef", "confirmed", 10, 0.5),
        ("0123456789abcde0", "confirmed", 30, 1.0),
        ("0123456789abcde1", "provisional", 5, 0.25),
        ("0123456789abcde2", "missing", 15, None),
    ):
        db.execute(
            "INSERT INTO coverage (workload_key, device_class, state, loads, relative_time,"
            " best_ns, noted_at) VALUES (%s, %s, %s, %s, %s, 2e9, now())",
            (WORKLOAD.key, f"{name}:r1-0:wasm+simd128", state, loads, relative_time),
        )
    take_census(db)
    said = scraped(settings)
    assert said['kernelzoo_coverage_keys{coverage="confirmed"}'] == 2
    assert said['kernelzoo_coverage_keys{coverage="missing"}'] == 1
    assert said['kernelzoo_coverage_page_loads{coverage="missing"}'] == 15
    assert said['kernelzoo_coverage_page_loads{coverage="confirmed"}'] == 40
    assert said["kernelzoo_served_speed_up_ratio"] == 40 / (10 * 0.5 + 30 * 1.0)
    assert said["kernelzoo_saved_seconds"] == 10 * 2.0


def scraped(settings: Settings) -> dict[str, float]:
    """By name with labels."""
    text = generate_latest(registry(Census(settings.database_url))).decode()
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in lines}


def test_a_scrape_waits_for_no_table_that_grows(
    settings: Settings, owner: Connection, db: Connection
) -> None:
    take_census(db)
    kept = {"census", "periodic_task"}
    tables = owner.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    ).fetchall()
    with owner.transaction():
        for (table,) in tables:
            if table not in kept:
                lock = sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE")
                owner.execute(lock.format(sql.Identifier(table)))
        text = generate_latest(registry(Census(settings.database_url))).decode()
    assert 'kernelzoo_zoo_entries{state="confirmed"} 0.0' in text
    assert "kernelzoo_database_up 1.0" in text


def test_a_task_of_the_clock_that_fails_grows_old(
    settings: Settings, db: Connection, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise TimeLimitExceeded(jobs.TRAINING_LIMIT_S)

    db.execute("UPDATE periodic_task SET ended_at = now() - interval '1 hour'")
    celery = jobs.broker(settings.redis_url)
    register(celery, WorkerSettings(**settings.model_dump(include={"database_url", "redis_url"})))
    monkeypatch.setattr(learning, "train", killed)
    for job in EVERY:
        celery.tasks[job.name].apply(args=job.arguments)
    with exporting(
        settings.model_copy(update={"metrics_port": port}), Census(settings.database_url)
    ):
        said = scrape(port)
    ages = {
        task: said[f'kernelzoo_periodic_task_age_seconds{{periodic="{task}"}}'] for task in PERIODIC
    }
    assert ages.pop("train_model") > 3599
    assert max(ages.values()) < 60


def test_a_database_that_is_away_is_said_and_the_rest_still_exported() -> None:
    away = Census("postgresql://127.0.0.1:1/nowhere?connect_timeout=2")
    text = generate_latest(registry(away)).decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["kernelzoo_database_up"].samples[0].value == 0
    assert "kernelzoo_queue_depth" not in families
    assert "kernelzoo_ballots" in families
