"""`kernelzoo up --with-monitoring` as a plan: what Prometheus scrapes and Grafana is told."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.stack.monitoring import GrafanaPlan, MonitoringPlan, find_monitoring
from cli.stack.place import Keys, Place
from cli.stack.plan import StackOptions, plan_stack
from cli.stack.processes import ProcessSpec
from cli.up import _watching
from kernelzoo.errors import StackError

PLACE = Place(root=Path("/state"))
ROOT = Path(__file__).parents[3]
DATABASE = "postgresql://postgres:@/postgres?host=/state/postgres"
GRAFANA = GrafanaPlan(command=("/usr/bin/grafana", "server"), home=Path("/g"), port=3001)
Install = Callable[[str], Path]


def _watched(grafana: GrafanaPlan | None = None) -> MonitoringPlan:
    ports = {"gateway": 9001, "compile": 9002, "aggregate": 9003}
    return MonitoringPlan(prometheus="/bin/prometheus", port=9000, ports=ports, grafana=grafana)


def _plan(monitoring: MonitoringPlan | None) -> dict[str, ProcessSpec]:
    options = StackOptions(host="127.0.0.1", port=8787, redis_port=1, monitoring=monitoring)
    keys = Keys(operator="o", token_secret="t", signing="s")
    return {spec.name: spec for spec in plan_stack(PLACE, keys, DATABASE, options)}


def _file(spec: ProcessSpec, name: str) -> dict[str, Any]:
    (text,) = (text for path, text in spec.files if str(path).endswith(name))
    document: dict[str, Any] = json.loads(text)
    return document


def test_prometheus_scrapes_every_service_where_it_was_told_to_export() -> None:
    plan = _plan(_watched())
    assert "grafana" not in plan
    scraped = {
        job["job_name"].removeprefix("kernelzoo-"): job["static_configs"][0]["targets"]
        for job in _file(plan["prometheus"], "prometheus.yaml")["scrape_configs"]
    }
    exported = {
        name: [f"127.0.0.1:{dict(spec.env)['KERNELZOO_METRICS_PORT']}"]
        for name, spec in plan.items()
        if "KERNELZOO_METRICS_PORT" in dict(spec.env)
    }
    assert scraped == exported
    assert exported.keys() == {"gateway", "compile", "aggregate"}
    folders = {dict(plan[name].env)["PROMETHEUS_MULTIPROC_DIR"] for name in exported}
    assert len(folders) == 3


def test_without_monitoring_nothing_is_exported() -> None:
    plan = _plan(None)
    assert "prometheus" not in plan
    assert not any("METRICS" in name for spec in plan.values() for name, _ in spec.env)


def test_the_alerts_that_prometheus_reads_are_those_of_the_repository() -> None:
    (rules,) = _file(_plan(_watched())["prometheus"], "prometheus.yaml")["rule_files"]
    assert rules == str(ROOT / "dashboards" / "alerts" / "*.yaml")


def test_grafana_has_the_data_sources_of_the_images_and_the_dashboards_of_the_repository() -> None:
    grafana = _plan(_watched(GRAFANA))["grafana"]
    images = yaml.safe_load((ROOT / "docker/grafana/datasources/kernelzoo.yaml").read_text())
    ours = _file(grafana, "datasources/kernelzoo.yaml")

    def of(document: dict[str, Any]) -> list[tuple[str, str, str]]:
        return [(each["name"], each["uid"], each["type"]) for each in document["datasources"]]

    assert of(ours) == of(images)
    assert ours["datasources"][1]["url"] == "/state/postgres"
    assert ours["datasources"][1]["user"] == images["datasources"][1]["user"]
    provider = _file(grafana, "dashboards/kernelzoo.yaml")["providers"][0]
    assert provider["options"] == {"path": str(ROOT / "dashboards" / "grafana")}
    assert dict(grafana.env)["GF_SERVER_HTTP_ADDR"] == "127.0.0.1"


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Puts programs into the only folder of PATH."""
    folder = tmp_path / "grafana" / "bin"
    folder.mkdir(parents=True)
    monkeypatch.setenv("PATH", str(folder))

    def put(name: str) -> Path:
        program = folder / name
        program.touch()
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return program

    return put


def test_without_prometheus_it_is_said_how_to_get_it(install: Install) -> None:
    install("something else")
    with pytest.raises(StackError, match="apt-get install prometheus"):
        find_monitoring()


def test_without_grafana_it_is_said_what_works(install: Install) -> None:
    install("prometheus")
    plan = find_monitoring()
    assert plan.grafana is None
    said = dict(_watching(plan))
    assert "import" in said["Grafana"]
    assert "dashboards/grafana/*.json" in said["Grafana"]
    assert said["Prometheus"] == plan.url


@pytest.mark.parametrize(("name", "words"), [("grafana", ["server"]), ("grafana-server", [])])
def test_grafana_of_an_archive_is_found_with_its_pages(
    install: Install, name: str, words: list[str]
) -> None:
    install("prometheus")
    program = install(name)
    home = program.parents[1]
    (home / "conf").mkdir()
    (home / "conf" / "defaults.ini").touch()
    grafana = find_monitoring().grafana
    assert grafana is not None
    assert grafana.command == (str(program), *words)
    assert grafana.home == home
