"""compose.yaml: valid, hardened, told what its processes read, secrets by reference alone."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernelzoo.signing import Signer
from tests.environment import READ, SECRETS, SINGLE, missing, needless_secrets, unknown

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "compose.yaml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = (*READ, *SINGLE)


def _complaints(file: Path) -> str:
    """Returns what the Compose specification's schema says against a file."""
    checker = Path(sys.executable).with_name("check-jsonschema")
    command = [str(checker), "--builtin-schema", "vendor.compose-spec", str(file)]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if said.returncode == 0 else said.stdout


def test_it_is_valid_by_the_compose_specification() -> None:
    assert _complaints(ROOT / "compose.yaml") == ""


def test_a_misspelt_key_is_found(tmp_path: Path) -> None:
    bad = tmp_path / "compose.yaml"
    bad.write_text(TEXT.replace("read_only: true", "readonly: true"))
    assert "readonly" in _complaints(bad)


@pytest.mark.parametrize("process", OURS)
def test_every_process_is_told_what_it_reads_and_nothing_else(process: str) -> None:
    given = SERVICES[process]["environment"]
    assert missing(process, given) == set()
    assert unknown(process, given) == set()
    assert needless_secrets(process, given) == set()


def test_only_migrations_connect_as_the_owner_of_the_schema() -> None:
    roles = {
        process: re.findall(r"postgresql://(\w+):", str(SERVICES[process]["environment"]))
        for process in OURS
    }
    assert roles.pop("migrate") == ["kernelzoo"]
    assert roles.pop("fleet") == []
    assert set(map(tuple, roles.values())) == {("kernelzoo_service",)}
    assert SERVICES["migrate"]["command"][-2:] == ["--grant-to", "kernelzoo_service"]


def test_secrets_are_asked_for_and_never_written_out() -> None:
    for name, service in SERVICES.items():
        for variable, value in service.get("environment", {}).items():
            if variable in SECRETS or "PASSWORD" in variable:
                assert re.search(r"\$\{\w+:\?", str(value)), f"{name}: {variable}"


@pytest.mark.parametrize("name", SERVICES)
def test_every_service_has_a_read_only_root_and_cannot_gain_privileges(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["security_opt"] == ["no-new-privileges:true"]
    if name != "postgres":  # its image starts as root, to own its volume
        assert service["cap_drop"] == ["ALL"]


OPEN_TO_ALL = {"/tmp", "/var/run/postgresql"}


def test_a_temporary_folder_belongs_to_who_writes_there() -> None:
    """A tmpfs belongs to root and has the mode of the image's folder below it."""
    owned = {
        name: entry
        for name, service in SERVICES.items()
        for entry in service.get("tmpfs", [])
        if entry.split(":")[0] not in OPEN_TO_ALL
    }
    assert owned == {"redis": "/data:uid=999,gid=999,mode=0700"}
    assert SERVICES["redis"]["user"] == "redis"


def test_compile_workers_are_on_a_network_that_leads_nowhere() -> None:
    assert SERVICES["compile"]["networks"] == ["data"]
    assert COMPOSE["networks"]["data"] == {"internal": True}


def test_every_image_is_pinned_and_every_build_is_a_stage_of_ours() -> None:
    stages = re.findall(
        r"^FROM \S+ AS (\S+)$", (ROOT / "docker/Dockerfile").read_text(), re.MULTILINE
    )
    for service in SERVICES.values():
        assert re.search(r":v?\d|:\$\{KERNELZOO_VERSION:-\d", service["image"])
        if "build" in service:
            assert service["build"]["target"] in stages


def test_every_file_that_is_mounted_exists() -> None:
    mounts = re.findall(r"^ +- (\./[^:]+):", TEXT, re.MULTILINE)
    assert len(mounts) == 6
    for path in mounts:
        assert (ROOT / path).exists(), path


def test_the_keys_are_made_once_and_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    script = shutil.copy(ROOT / "docker" / "keys.sh", tmp_path / "docker")
    subprocess.run([script], check=True, capture_output=True)
    made = tmp_path / ".env"
    lines = made.read_text().splitlines()
    keys = dict(line.split("=") for line in lines)
    assert keys.keys() == set(re.findall(r"\$\{(\w+):\?", TEXT))
    assert len(Signer.of(keys["KERNELZOO_SIGNING_KEY"]).public_keys) == 1
    others = {key for name, key in keys.items() if name != "KERNELZOO_SIGNING_KEY"}
    assert all(re.fullmatch("[0-9a-f]{64}", key) for key in others)
    assert len(others) == len(keys) - 1
    assert made.stat().st_mode & 0o777 == 0o600
    subprocess.run([script], check=True, capture_output=True)
    assert made.read_text().splitlines() == lines


def test_keys_that_a_new_version_needs_are_added_and_the_others_stay(tmp_path: Path) -> None:
    (tmp_path / "docker").mkdir()
    script = shutil.copy(ROOT / "docker" / "keys.sh", tmp_path / "docker")
    made = tmp_path / ".env"
    made.write_text("KERNELZOO_OPERATOR_KEY=mine\nKERNELZOO_QUORUM=1\n")
    said = subprocess.run([script], check=True, capture_output=True, text=True).stdout
    lines = made.read_text().splitlines()
    assert lines[:2] == ["KERNELZOO_OPERATOR_KEY=mine", "KERNELZOO_QUORUM=1"]
    assert [line.split("=")[0] for line in lines[2:]] == said.split(":")[1].split()
    assert "KERNELZOO_SIGNING_KEY" in said
    assert made.stat().st_mode & 0o777 == 0o600


def test_scripts_can_be_run() -> None:
    for script in ("install.sh", "keys.sh", "postgres/reader.sh"):
        assert os.access(ROOT / "docker" / script, os.X_OK)


def test_grafana_and_prometheus_look_where_the_files_are() -> None:
    provider = yaml.safe_load((ROOT / "docker/grafana/dashboards/kernelzoo.yaml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert f"./dashboards/grafana:{folder}:ro" in SERVICES["grafana"]["volumes"]
    config = yaml.safe_load((ROOT / "docker/prometheus/prometheus.yaml").read_text())
    (rules,) = config["rule_files"]
    assert f"./dashboards/alerts:{Path(rules).parent}:ro" in SERVICES["prometheus"]["volumes"]


def test_prometheus_scrapes_every_process_that_exports_where_its_image_listens() -> None:
    config = yaml.safe_load((ROOT / "docker/prometheus/prometheus.yaml").read_text())
    found = {
        (name, discovery["port"])
        for job in config["scrape_configs"]
        for discovery in job.get("dns_sd_configs", [])
        for name in discovery["names"]
    }
    ports = re.findall(r"KERNELZOO_METRICS_PORT=(\d+)", (ROOT / "docker/Dockerfile").read_text())
    assert found == {(name, int(ports[0])) for name in ("gateway", "compile", "aggregate")}
    assert len(ports) == len(found)
    assert not any(
        port in str(service.get("ports")) for service in SERVICES.values() for port in ports
    )


def test_what_prometheus_is_told_is_valid() -> None:
    file = str(ROOT / "docker/prometheus/prometheus.yaml")
    command = ["promtool", "check", "config", "--syntax-only", file]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stdout + said.stderr
