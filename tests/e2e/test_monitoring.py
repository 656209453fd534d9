"""Every query of the dashboards and alerts, asked of a real Prometheus and a real PostgreSQL.

One stack with monitoring does some of everything first: kernels are compiled, measured, voted on,
published and served; a report is refused and an output rejected; a model is added.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, LiteralString

import httpx2
import psycopg
import pytest
import yaml
from psycopg.conninfo import make_conninfo

from cli.gateway_client import GatewayClient
from cli.stack.monitoring import find_monitoring
from cli.stack.ports import free_port
from cli.stack.supervisor import Stack
from dashboards.generate import ALL
from dashboards.model import Metric, Panel, SqlQuery
from kernelzoo.domain.target import TargetKind
from kernelzoo.domain.workload import Workload
from kernelzoo.store.roles import READER
from tests.e2e.scripted_agent import ScriptedAgent
from tests.reports import failure
from tests.running import eventually, rows, running_stack
from tests.tiny_model import TINY_NAME, add, tiny_model

pytestmark = pytest.mark.timeout(240)

ROOT = Path(__file__).parents[2]
WORKLOAD = Workload.of("matmul", (32, 32, 32))
STRANGER = "0123456789abcdef:r1-0:wasm+simd128"
SCRAPE_S = 1
CENSUS_S = 75
# What Grafana puts in for its variables: room for a few scrapes.
VARIABLES = {"$__rate_interval": "1m", "$__range": "5m"}


@dataclass(frozen=True, slots=True)
class Watched:
    stack: Stack
    prometheus: str

    def ask(self, path: str, **parameters: str) -> Any:
        answer = httpx2.get(f"{self.prometheus}/api/v1/{path}", params=parameters, timeout=10)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def query(self, promql: str) -> list[dict[str, Any]]:
        for variable, value in VARIABLES.items():
            promql = promql.replace(variable, value)
        found: list[dict[str, Any]] = self.ask("query", query=promql)["result"]
        return found

    def value(self, promql: str) -> float:
        found = self.query(promql)
        return float(found[0]["value"][1]) if found else 0.0


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    plan = replace(find_monitoring(), port=free_port(), scrape_s=SCRAPE_S, grafana=None)
    with running_stack(tmp_path_factory.mktemp("watched"), plan) as stack:
        _work(stack)
        yield Watched(stack, plan.url)


def _work(stack: Stack) -> None:
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        gateway.register(WORKLOAD, TargetKind.WASM)
    _await_compiled(stack)
    first, second = (ScriptedAgent(stack.url, stack.keys.operator) for _ in range(2))
    for agent in (first, second):
        agent.open()
    _disturb(first)
    for agent in (first, second):
        assert agent.measure_once()
    eventually(
        lambda: rows(stack, "SELECT ballots FROM zoo_entry WHERE state = 'confirmed'") == [(2,)],
        "an entry that two agents voted for",
    )
    _visit(stack)
    eventually(
        lambda: rows(stack, "SELECT sum(loads)::int FROM page_load") == [(4,)], "a count on disk"
    )
    _add_model(stack)


def _await_compiled(stack: Stack) -> None:
    """One query: between two of them the space could be written."""
    compiled = """
        SELECT bool_and(c.state = 'compiled') AND (
            SELECT count(*) FROM tuning_job WHERE state = 'waiting') = 0
        FROM candidate c
    """
    eventually(lambda: rows(stack, compiled) == [(True,)], "compiling")


def _add_model(stack: Stack) -> None:
    """A page finds it wrong."""
    with GatewayClient(url=stack.url, operator_key=stack.keys.operator) as gateway:
        add(gateway)
    _await_compiled(stack)
    assert httpx2.get(f"{stack.url}/v1/models/{TINY_NAME}/{STRANGER}").is_success
    asked = "SELECT loads::int FROM page_load WHERE name LIKE 'model:%'"
    eventually(lambda: rows(stack, asked) == [(1,)], "a page of the model on disk")
    wrong = {
        "model": TINY_NAME,
        "golden": tiny_model().plan.golden.sha256,
        "device_class": STRANGER,
        "output": "y",
    }
    assert httpx2.post(f"{stack.url}/v1/wrong-outputs", json=wrong).status_code == 202


def _disturb(agent: ScriptedAgent) -> None:
    """One report that fails, one whose output is wrong, and one under another's nonce."""
    lease = agent._insist("POST", "/v1/leases", {"limit": 2, "wait_s": 5}).json()
    path = f"/v1/leases/{lease['lease']}/measurements"
    lent = [kernel["candidate"] for kernel in lease["candidates"]]
    wrong = {
        **failure(lent[1], "ok"),
        "samples_ns": [1000.0],
        "reference_ns": [2000.0],
        "sampled_entries": [0.0] * 64,
    }
    body = {"nonce": lease["nonce"], "measurements": [failure(lent[0], "timeout"), wrong]}
    assert agent._insist("POST", path, {**body, "nonce": "guessed"}).status_code == 403
    assert agent._insist("POST", path, body).status_code == 202


def _visit(stack: Stack) -> None:
    """Three pages of the class that voted, and one of a class that nobody knows."""
    ((device_class,),) = rows(stack, "SELECT DISTINCT device_class FROM agent_session")
    for asked in (*[device_class] * 3, STRANGER):
        manifest = httpx2.get(f"{stack.url}/v1/zoo/{WORKLOAD.key}/{asked}").json()
        kernel = manifest["entries"][0]["wasm"]["kernel"]
        assert httpx2.get(f"{stack.url}{kernel['url']}").is_success


def test_prometheus_reaches_every_process(watched: Watched) -> None:
    eventually(lambda: len(watched.query("up == 1")) == 3, "three targets that are up")
    assert watched.query("up == 0") == []


COUNTED = {
    "sum(kernelzoo_manifest_kernels_total)": 4 + len(tiny_model().plan.kernels),
    'sum(kernelzoo_manifest_kernels_total{level="exact"})': 3,
    'sum(kernelzoo_measurements_refused_total{reason="nonce"})': 2,
    'sum(kernelzoo_verdicts_total{verdict="rejected"})': 1,
    'max(kernelzoo_agents_online{engine="Chromium"})': 2,
}


@pytest.mark.parametrize("promql", COUNTED)
def test_prometheus_learns_what_was_done(watched: Watched, promql: str) -> None:
    eventually(lambda: watched.value(promql) == COUNTED[promql], promql, within_s=CENSUS_S)


def test_the_processes_of_a_worker_are_counted_together(watched: Watched) -> None:
    _await_count(
        watched,
        'sum(kernelzoo_candidates_total{result="compiled"})',
        "SELECT count(*) FROM candidate",
    )
    _await_count(watched, "sum(kernelzoo_promotions_total)", "SELECT count(*) FROM zoo_entry")
    assert watched.value("sum(kernelzoo_queue_wait_seconds_count)") > 0


def _await_count(watched: Watched, promql: str, sql: LiteralString) -> None:
    """Rows may still come: their number is looked up with every value."""
    eventually(lambda: [(watched.value(promql),)] == rows(watched.stack, sql), promql)


PANELS = [
    pytest.param(panel, id=f"{each.uid}: {panel.title}") for each in ALL for panel in each.panels
]


@pytest.mark.parametrize("panel", PANELS)
def test_a_panel_shows_something(watched: Watched, panel: Panel) -> None:
    for ask in panel.ask:
        match ask:
            case Metric():
                _show_metric(watched, ask)
            case SqlQuery():
                assert _rows(watched, ask), "no rows"


def _show_metric(watched: Watched, ask: Metric) -> None:
    """Awaits a metric; one that may be empty must at least exist."""
    if not ask.empty:
        _await_any(watched, ask.query)
        return
    watched.query(ask.query)
    for name in re.findall(r"kernelzoo_\w+", ask.query):
        _await_any(watched, f"count({name})")


def _await_any(watched: Watched, promql: str) -> None:
    """The last scrape may be of a second ago, and the last census of a minute."""
    eventually(lambda: bool(watched.query(promql)), promql, within_s=CENSUS_S)


def _rows(watched: Watched, ask: SqlQuery) -> list[tuple[Any, ...]]:
    sql = re.sub(
        r"\$__timeFilter\(([\w.]+)\)", r"\1 BETWEEN now() - interval '1 hour' AND now()", ask.query
    )
    with psycopg.connect(make_conninfo(watched.stack.postgres.url, user=READER)) as connection:
        cursor = connection.execute(sql.encode())
        assert cursor.description is not None
        assert not ask.over_time or cursor.description[0].name == "time"
        return cursor.fetchall()


def test_coverage_says_what_pages_asked_for_and_did_not_get(watched: Watched) -> None:
    asked = "SELECT workload_key, device_class, state, loads::int FROM coverage"

    def covered() -> list[list[Any]]:
        return [found for key, *found in rows(watched.stack, asked) if key == WORKLOAD.key]

    # The clock adds loads up.
    missing = [STRANGER, "missing", 1]
    eventually(lambda: missing in covered(), "loads to be added", within_s=CENSUS_S)
    found = covered()
    assert [(state, loads) for name, state, loads in found if name != STRANGER] == [
        ("confirmed", 3)
    ]


ALERTS = yaml.safe_load((ROOT / "dashboards" / "alerts" / "kernelzoo.yaml").read_text())


def test_prometheus_evaluates_every_alert_and_none_is_critical(watched: Watched) -> None:
    names = {rule["alert"] for group in ALERTS["groups"] for rule in group["rules"]}

    def rules() -> list[dict[str, Any]]:
        return [rule for group in watched.ask("rules")["groups"] for rule in group["rules"]]

    eventually(lambda: {rule["health"] for rule in rules()} == {"ok"}, "an evaluation of all")
    assert {rule["name"] for rule in rules()} == names
    firing = [rule["name"] for rule in rules() if rule["state"] == "firing"]
    assert firing == []


@pytest.mark.parametrize(
    "rule", [pytest.param(r, id=r["alert"]) for g in ALERTS["groups"] for r in g["rules"]]
)
def test_an_alert_asks_for_metrics_that_there_are(watched: Watched, rule: dict[str, Any]) -> None:
    """A rule that does not fire has no answer, and so has one that misspells a metric."""
    for selector in re.findall(r"(?:kernelzoo_\w+|\bup\b)(?:\{[^}]*\})?", rule["expr"]):
        assert watched.query(f"count({selector})"), selector
