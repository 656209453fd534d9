"""Prometheus beside the stack, and Grafana where it is installed, as values."""

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cli.stack.place import Place
from cli.stack.ports import LOOPBACK, free_port, preferred_port
from cli.stack.processes import Environment, ProcessSpec, Tier
from kernelzoo.errors import StackError
from kernelzoo.store.address import address_of
from kernelzoo.store.roles import READER

DASHBOARDS = Path(__file__).parents[2] / "dashboards"
PROMETHEUS_PORT, GRAFANA_PORT = 9090, 3000
EXPORTING = ("gateway", "compile", "aggregate")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrafanaPlan:
    """`home` holds Grafana's own pages, which the program does not find by itself."""

    command: tuple[str, ...]
    home: Path
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitoringPlan:
    """`ports` of the processes that export metrics, by name."""

    prometheus: str
    port: int
    ports: Mapping[str, int]
    scrape_s: int = 5
    grafana: GrafanaPlan | None = None

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"


def find_monitoring() -> MonitoringPlan:
    """Plans monitoring with what this machine has. Raises StackError where there is no
    Prometheus."""
    prometheus = shutil.which("prometheus")
    if prometheus is None:
        raise StackError(
            "--with-monitoring needs Prometheus, which is not on this machine: "
            "`apt-get install prometheus` installs it on Debian and Ubuntu"
        )
    return MonitoringPlan(
        prometheus=prometheus,
        port=preferred_port(PROMETHEUS_PORT),
        ports={name: free_port() for name in EXPORTING},
        grafana=_find_grafana(),
    )


def _find_grafana() -> GrafanaPlan | None:
    """Grafana's own packages put its pages in /usr/share; its archive, beside `bin`."""
    for name, command in (("grafana", ("server",)), ("grafana-server", ())):
        found = shutil.which(name)
        if found is None:
            continue
        homes = (Path("/usr/share/grafana"), Path(os.path.realpath(found)).parents[1])
        for home in homes:
            if (home / "conf" / "defaults.ini").exists():
                port = preferred_port(GRAFANA_PORT)
                return GrafanaPlan(command=(found, *command), home=home, port=port)
    return None


def exported(spec: ProcessSpec, place: Place, plan: MonitoringPlan) -> ProcessSpec:
    """The process, told where to export its metrics."""
    env: Environment = (
        *spec.env,
        ("KERNELZOO_METRICS_PORT", str(plan.ports[spec.name])),
        ("PROMETHEUS_MULTIPROC_DIR", str(place.metrics / spec.name)),
    )
    return replace(spec, env=env)


def plan_monitoring(
    place: Place, database_url: str, gateway_url: str, plan: MonitoringPlan
) -> tuple[ProcessSpec, ...]:
    prometheus = _prometheus(place, gateway_url, plan)
    if plan.grafana is None:
        return (prometheus,)
    return (prometheus, _grafana(place, database_url, plan, plan.grafana))


def _prometheus(place: Place, gateway_url: str, plan: MonitoringPlan) -> ProcessSpec:
    folder = place.root / "prometheus"
    config = folder / "prometheus.yaml"
    return ProcessSpec(
        name="prometheus",
        tier=Tier.SERVICE,
        command=(
            plan.prometheus,
            f"--config.file={config}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=30d",
            f"--web.listen-address={LOOPBACK}:{plan.port}",
        ),
        env=(),
        log=place.log("prometheus"),
        grace_s=10,
        ready_text="Server is ready to receive web requests.",
        files=((config, _prometheus_config(gateway_url, plan)),),
    )


def _prometheus_config(gateway_url: str, plan: MonitoringPlan) -> str:
    """JSON, which is YAML. Alerts link to the runbook of the gateway."""
    jobs = [
        {
            "job_name": f"kernelzoo-{name}",
            "static_configs": [{"targets": [f"{LOOPBACK}:{port}"]}],
        }
        for name, port in plan.ports.items()
    ]
    every = {
        "scrape_interval": f"{plan.scrape_s}s",
        "evaluation_interval": f"{plan.scrape_s}s",
        "external_labels": {"kernelzoo": gateway_url},
    }
    rules = [str(DASHBOARDS / "alerts" / "*.yaml")]
    return json.dumps({"global": every, "rule_files": rules, "scrape_configs": jobs}, indent=2)


def _grafana(
    place: Place, database_url: str, plan: MonitoringPlan, grafana: GrafanaPlan
) -> ProcessSpec:
    """Anyone on this machine may look; it listens nowhere else."""
    folder = place.root / "grafana"
    provisioning = folder / "provisioning"
    return ProcessSpec(
        name="grafana",
        tier=Tier.SERVICE,
        command=(*grafana.command, "--homepath", str(grafana.home)),
        env=(
            ("GF_PATHS_DATA", str(folder / "data")),
            ("GF_PATHS_LOGS", str(folder / "logs")),
            ("GF_PATHS_PROVISIONING", str(provisioning)),
            ("GF_SERVER_HTTP_ADDR", LOOPBACK),
            ("GF_SERVER_HTTP_PORT", str(grafana.port)),
            ("GF_AUTH_ANONYMOUS_ENABLED", "true"),
            ("GF_ANALYTICS_REPORTING_ENABLED", "false"),
            ("GF_ANALYTICS_CHECK_FOR_UPDATES", "false"),
            ("GF_ANALYTICS_CHECK_FOR_PLUGIN_UPDATES", "false"),
        ),
        log=place.log("grafana"),
        grace_s=10,
        files=(
            (provisioning / "datasources" / "kernelzoo.yaml", _sources(database_url, plan.url)),
            (provisioning / "dashboards" / "kernelzoo.yaml", _providers()),
        ),
    )


def _sources(database_url: str, prometheus_url: str) -> str:
    """The two that docker/grafana/datasources names, as they are here. Grafana takes a path for
    the folder of PostgreSQL's socket.
    """
    database = address_of(database_url)
    return json.dumps(
        {
            "apiVersion": 1,
            "datasources": [
                {
                    "name": "Prometheus",
                    "uid": "kernelzoo-prometheus",
                    "type": "prometheus",
                    "url": prometheus_url,
                    "isDefault": True,
                },
                {
                    "name": "kernelzoo",
                    "uid": "kernelzoo-postgres",
                    "type": "grafana-postgresql-datasource",
                    "url": database.host,
                    "user": READER,
                    "jsonData": {"database": database.name, "sslmode": "disable"},
                },
            ],
        },
        indent=2,
    )


def _providers() -> str:
    folder = str(DASHBOARDS / "grafana")
    provider = {"name": "kernelzoo", "folder": "kernelzoo", "options": {"path": folder}}
    return json.dumps({"apiVersion": 1, "providers": [provider]}, indent=2)
