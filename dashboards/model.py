"""Dashboards as values, and the JSON that Grafana reads."""

from dataclasses import dataclass
from typing import Any

COLUMNS = 24
PROMETHEUS, POSTGRES = "${metrics}", "${database}"
COLOURS = {"confirmed": "green", "provisional": "yellow", "missing": "red"}
"""Colours of a zoo entry's states, wherever one is a cell of a table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A PromQL query. `empty` says why it may have no answer; with '' it always has one."""

    query: str
    legend: str = ""
    empty: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlQuery:
    """A query of PostgreSQL. `over_time`: its first column is `time`."""

    query: str
    over_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """`kind` is a panel plugin of Grafana; `unit` one of its units. `matrix`: the columns that
    make the columns, the rows and the cells of a table.
    """

    title: str
    text: str
    ask: tuple[Metric | SqlQuery, ...]
    kind: str = "timeseries"
    unit: str = "short"
    width: int = 8
    height: int = 8
    stacked: bool = False
    matrix: tuple[str, str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    uid: str
    title: str
    text: str
    panels: tuple[Panel, ...]
    span: str = "6h"


def document(dashboard: Dashboard) -> dict[str, Any]:
    return {
        "uid": dashboard.uid,
        "title": f"kernelzoo: {dashboard.title}",
        "description": dashboard.text,
        "tags": ["kernelzoo"],
        "schemaVersion": 39,
        "editable": False,
        "refresh": "30s",
        "time": {"from": f"now-{dashboard.span}", "to": "now"},
        "templating": {
            "list": [
                _source("metrics", "prometheus", "kernelzoo-prometheus"),
                _source("database", "grafana-postgresql-datasource", "kernelzoo-postgres"),
            ]
        },
        "links": [
            {
                "type": "dashboards",
                "title": "kernelzoo",
                "tags": ["kernelzoo"],
                "tooltip": "",
                "icon": "external link",
                "asDropdown": True,
                "keepTime": True,
                "includeVars": False,
                "targetBlank": False,
            }
        ],
        "panels": [
            _panel(number, panel, place)
            for number, (panel, place) in enumerate(_placed(dashboard.panels), start=1)
        ],
    }


def _source(name: str, plugin: str, uid: str) -> dict[str, Any]:
    """A data source that may be another where Grafana is not ours."""
    return {
        "name": name,
        "type": "datasource",
        "query": plugin,
        "current": {"text": uid, "value": uid},
        "hide": 0,
    }


def _placed(panels: tuple[Panel, ...]) -> list[tuple[Panel, dict[str, int]]]:
    """From left to right; a row is as high as its highest panel."""
    placed, x, y, row = [], 0, 0, 0
    for panel in panels:
        if x + panel.width > COLUMNS:
            x, y, row = 0, y + row, 0
        placed.append((panel, {"x": x, "y": y, "w": panel.width, "h": panel.height}))
        x, row = x + panel.width, max(row, panel.height)
    return placed


def _panel(number: int, panel: Panel, place: dict[str, int]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "gridPos": place,
        "datasource": _datasource(panel.ask[0]),
        "targets": [_target(chr(ord("A") + i), ask, panel) for i, ask in enumerate(panel.ask)],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel),
    }
    if panel.matrix is not None:
        column, row, value = panel.matrix
        fields = {"columnField": column, "rowField": row, "valueField": value}
        made["transformations"] = [{"id": "groupingToMatrix", "options": fields}]
    return made


def _datasource(ask: Metric | SqlQuery) -> dict[str, str]:
    match ask:
        case Metric():
            return {"type": "prometheus", "uid": PROMETHEUS}
        case SqlQuery():
            return {"type": "grafana-postgresql-datasource", "uid": POSTGRES}


def _target(name: str, ask: Metric | SqlQuery, panel: Panel) -> dict[str, Any]:
    made: dict[str, Any] = {"refId": name, "datasource": _datasource(ask)}
    match ask:
        case Metric():
            now = panel.kind != "timeseries"
            legend = ask.legend or "__auto"
            return {**made, "expr": ask.query, "legendFormat": legend, "instant": now}
        case SqlQuery():
            form = "time_series" if ask.over_time else "table"
            return {**made, "rawQuery": True, "rawSql": _straight(ask.query), "format": form}


def _straight(sql: str) -> str:
    return " ".join(sql.split())


def _defaults(panel: Panel) -> dict[str, Any]:
    found: dict[str, Any] = {"unit": panel.unit, "min": 0}
    if panel.kind == "timeseries":
        found["custom"] = {
            "fillOpacity": 20 if panel.stacked else 5,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none"},
        }
    if panel.kind == "table":
        colours = {name: {"color": colour, "text": name} for name, colour in COLOURS.items()}
        found["mappings"] = [{"type": "value", "options": colours}]
        found["custom"] = {"cellOptions": {"type": "color-text"}, "filterable": True}
        found["color"] = {"mode": "fixed", "fixedColor": "text"}
    return found


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "timeseries":
            return {"tooltip": {"mode": "multi"}, "legend": {"displayMode": "list"}}
        case "stat":
            return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value"}
        case _:
            return {}
