"""No secret reaches the log, however a request ends."""

import logging
import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import redis
import yaml
from fastapi.testclient import TestClient
from psycopg.conninfo import make_conninfo
from pydantic import SecretStr

from cli.stack.ports import free_port
from kernelzoo.settings import Settings
from kernelzoo.signing import new_seed
from kernelzoo.telemetry import configure_logging
from services.gateway.app import application
from tests.database.client import OPERATOR, OPERATOR_KEY, SESSION, open_agent
from tests.database.conftest import Connection
from tests.running import eventually

ROOT = Path(__file__).parents[2]
SEED = new_seed()
REDIS_PASSWORD = "password-of-redis"
DATABASE_PASSWORD = "password-of-postgres"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(
        update={
            "signing_key": SecretStr(SEED),
            "redis_url": f"redis://:{REDIS_PASSWORD}@127.0.0.1:1/0",
            "database_url": make_conninfo(settings.database_url, password=DATABASE_PASSWORD),
        }
    )


@pytest.fixture(autouse=True)
def root_logger() -> Iterator[None]:
    """Restores the root logger afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("job_id")
@pytest.mark.parametrize("as_json", [True, False])
def test_no_secret_is_logged(
    settings: Settings,
    owner: Connection,
    capfd: pytest.CaptureFixture[str],
    *,
    as_json: bool,
) -> None:
    configure_logging(as_json=as_json)
    logging.getLogger().setLevel(logging.DEBUG)
    app = application(settings)
    with TestClient(app, client=("127.0.0.1", 1), raise_server_exceptions=False) as http:
        told = _use_every_secret(http)
        owner.execute("ALTER TABLE workload_set RENAME TO gone")
        broken = http.get("/v1/sets", headers={**OPERATOR, "X-Kernelzoo-Key": told["key"]})
        assert broken.status_code == 500
    captured = capfd.readouterr()
    logged = captured.out + captured.err
    assert "broker away" in logged, "else nothing is tested"
    secrets = {
        **told,
        "operator": OPERATOR_KEY,
        "tokens": settings.token_secret.get_secret_value(),
        "signing": SEED,
        "redis": REDIS_PASSWORD,
        "database": DATABASE_PASSWORD,
    }
    assert [name for name, secret in secrets.items() if secret in logged] == []


def _use_every_secret(http: TestClient) -> dict[str, str]:
    """Rightly and wrongly; gives the secrets that the gateway handed out."""
    body = {"name": "shop", "origins": []}
    key = http.post("/v1/applications", json=body, headers=OPERATOR).json()["key"]
    agent = open_agent(http)
    lease = agent.lease(limit=1).json()
    agent.report(lease, [])
    for header, secret in (
        ("X-Kernelzoo-Key", key),
        ("X-Kernelzoo-Operator", OPERATOR_KEY),
        ("Authorization", f"Bearer {agent.token}"),
    ):
        job = {"workload": "matmul:f32:m7k3n4"}
        http.post("/v1/jobs", json=job, headers={header: secret})
        http.post("/v1/jobs", json=job, headers={header: f"{secret}x"})
        http.post("/v1/jobs", content=b"{", headers={header: secret})
        http.post("/v1/leases", json={}, headers={header: secret})
    http.post("/v1/sessions", json={**SESSION, "identity": agent.identity, "rho": agent.token})
    return {
        "key": key,
        "secret of the key": key.split("-", 2)[2],
        "token": agent.token,
        "identity": agent.identity,
        "nonce": lease["nonce"],
    }


def test_composes_redis_answers_nobody_without_the_password(tmp_path: Path) -> None:
    """The server is the one that compose.yaml starts, with another folder and port."""
    compose = yaml.safe_load((ROOT / "compose.yaml").read_text())
    script = compose["services"]["redis"]["command"][2]
    port = free_port()
    moved = script.replace("$$", "$").replace("/data", str(tmp_path))
    process = subprocess.Popen(
        ["sh", "-c", f"{moved.strip()} --port {port}"],
        env={**os.environ, "REDIS_PASSWORD": "s3cret"},
        stdout=subprocess.DEVNULL,
    )

    def answers() -> bool:
        with suppress(redis.ConnectionError):
            return bool(redis.Redis(port=port, password="s3cret").ping())
        return False

    try:
        eventually(answers, "Redis")
        with pytest.raises(redis.AuthenticationError):
            redis.Redis(port=port).ping()
        assert (tmp_path / "redis.conf").stat().st_mode & 0o777 == 0o600
    finally:
        process.terminate()
        process.wait()
