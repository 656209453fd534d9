"""Prometheus and Grafana find these in the cluster: ports of metrics, dashboards and alerts."""

import json
import shutil
from pathlib import Path
from typing import Any

import helm_python
import pytest
import yaml

from tests.chart.complaints import custom_complaints
from tests.chart.rendering import CHART, PLAIN, container, render
from tests.chart.test_features import PEERS


def test_metrics_have_a_port_that_no_visitor_reaches() -> None:
    monitoring = [{"podSelector": {"matchLabels": {"app": "prometheus"}}}]
    rendered = render(
        {
            "networkPolicy": {**PEERS, "monitoringPeers": monitoring},
            "monitoring": {"serviceMonitor": {"enabled": True}},
        }
    )
    for component in ("gateway", "compile", "aggregate"):
        ports = {
            p["name"]: p["containerPort"] for p in container(rendered.pods()[component])["ports"]
        }
        assert ports["metrics"] == 9464
        rules = rendered.of("NetworkPolicy")[component]["spec"]["ingress"]
        assert [r["from"] for r in rules if r["ports"] == [{"protocol": "TCP", "port": 9464}]] == [
            monitoring
        ]
    services = rendered.of("Service")
    assert [port["name"] for port in services["gateway"]["spec"]["ports"]] == ["http"]
    assert services["gateway-metrics"]["spec"]["clusterIP"] == "None"


@pytest.fixture
def stocked_chart(tmp_path: Path) -> Path:
    """The chart with a dashboard and alerts in the folders of the repository that it links to."""
    chart = tmp_path / "helm" / "kernelzoo"
    shutil.copytree(CHART, chart, symlinks=True)
    dashboards = tmp_path / "dashboards"
    (dashboards / "grafana").mkdir(parents=True)
    (dashboards / "grafana" / "serving.json").write_text('{"title": "Serving {{ $value }}"}')
    (dashboards / "alerts").mkdir()
    (dashboards / "alerts" / "serving.yaml").write_text(
        "groups:\n"
        "  - name: serving\n"
        "    rules:\n"
        "      - alert: Slow\n"
        "        expr: up == 0\n"
        "        annotations:\n"
        "          summary: '{{ $labels.pod }} is down'\n"
        "          runbook_url: '{{ $externalLabels.kernelzoo }}/runbook#slow'\n"
    )
    return chart


def test_dashboards_of_the_repository_become_config_maps(stocked_chart: Path) -> None:
    on = {**PLAIN, "monitoring": {"dashboards": {"enabled": True, "annotations": {"folder": "k"}}}}
    shown = render(on, stocked_chart).of("ConfigMap")["dashboard-serving"]
    assert json.loads(shown["data"]["serving.json"]) == {"title": "Serving {{ $value }}"}
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert shown["metadata"]["annotations"] == {"folder": "k"}
    assert not render(PLAIN, stocked_chart).of("ConfigMap")


def test_a_packaged_chart_holds_them_too(stocked_chart: Path, tmp_path: Path) -> None:
    on = {**PLAIN, "monitoring": {"dashboards": {"enabled": True}, "rules": {"enabled": True}}}
    archive = Path(helm_python.package(stocked_chart, destination=tmp_path))
    rendered = render(on, archive)
    assert rendered.of("ConfigMap").keys() == {"dashboard-serving"}
    assert rendered.of("PrometheusRule").keys() == {"serving"}


@pytest.mark.parametrize(
    ("values", "base"),
    [
        ({"ingress": {"enabled": True, "host": "zoo.example", "tlsSecretName": "t"}}, "https://zoo.example"),
        ({"monitoring": {"rules": {"gatewayUrl": "https://ops.example/zoo"}}}, "https://ops.example/zoo"),
    ],
)  # fmt: skip
def test_alerts_link_to_the_runbook_where_people_reach_a_gateway(
    stocked_chart: Path, values: dict[str, Any], base: str
) -> None:
    rules = {"enabled": True, **values.get("monitoring", {}).get("rules", {})}
    behind = {"gateway": {"trustedProxies": ["10.0.0.1"]}}
    on = {**PLAIN, **behind, **values, "monitoring": {"rules": rules}}
    spec = render(on, stocked_chart).of("PrometheusRule")["serving"]["spec"]
    annotations = spec["groups"][0]["rules"][0]["annotations"]
    assert annotations["runbook_url"] == f"{base}/runbook#slow"


def test_alerts_of_the_repository_become_rules(stocked_chart: Path) -> None:
    on = {**PLAIN, "monitoring": {"rules": {"enabled": True, "labels": {"release": "p"}}}}
    rule = render(on, stocked_chart).of("PrometheusRule")["serving"]
    assert custom_complaints([rule]) == ""
    assert rule["metadata"]["labels"]["release"] == "p"
    text = (stocked_chart.parents[1] / "dashboards" / "alerts" / "serving.yaml").read_text()
    inside = "http://kz-kernelzoo-gateway.zoo.svc:80"
    assert rule["spec"] == yaml.safe_load(text.replace("{{ $externalLabels.kernelzoo }}", inside))
    assert not render(PLAIN, stocked_chart).of("PrometheusRule")
