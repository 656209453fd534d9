"""While the database is away pages are given what was kept, and nothing that was denied since."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import LiteralString

import psycopg
import pytest
from fastapi.testclient import TestClient
from httpx2 import Response
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier

from kernelzoo.settings import Settings
from services.gateway.app import application
from tests.database.client import SESSION, open_agent
from tests.database.conftest import WORKLOAD, Connection
from tests.database.test_denials import CLASS, SECOND, THIRD, artifact_of, decide, publish, served
from tests.running import eventually
from tests.tiny_model import register, tiny_model

pytestmark = pytest.mark.usefixtures("job_id", "one_issue_time")

MANIFEST = f"/v1/zoo/{WORKLOAD.key}/{CLASS}"
OTHERWISE = MANIFEST.replace("relaxed-simd+simd128", "simd128+relaxed-simd+simd128")
"""Names the same class in another spelling."""
UNKNOWN = f"/v1/zoo/{WORKLOAD.key}/0123456789abcdef:r1-0:wasm+simd128"


@pytest.fixture
def keeping(settings: Settings, tmp_path: Path) -> Settings:
    folders = {"standby_dir": tmp_path / "standby", "models_dir": tmp_path / "models"}
    return settings.model_copy(update=folders)


@contextmanager
def gateway(settings: Settings) -> Iterator[TestClient]:
    with TestClient(application(settings), client=("127.0.0.1", 5000)) as http:
        yield http


@contextmanager
def database_away(url: str) -> Iterator[None]:
    """Ends all connections to the database, and lets it take none."""
    name = str(conninfo_to_dict(url)["dbname"])

    def allow(server: Connection, allowed: LiteralString) -> None:
        change = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
        server.execute(change.format(Identifier(name), SQL(allowed)))

    with psycopg.connect(make_conninfo(url, dbname="postgres"), autocommit=True) as server:
        allow(server, "false")
        try:
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,)
            )
            yield
        finally:
            allow(server, "true")


def status_of(http: TestClient) -> str:
    return str(http.get("/readyz").json().get("status"))


def page(http: TestClient) -> dict[str, Response]:
    """Fetches what a page of the class loads."""
    manifest = http.get(MANIFEST)
    artifact = manifest.json()["entries"][0]["wasm"]["kernel"]["url"]
    paths = (artifact, f"/v1/denied/{CLASS}", "/v1/signing-keys", f"/v1/models/tiny/{CLASS}")
    return {MANIFEST: manifest, **{path: http.get(path) for path in paths}}


def kept_manifests(settings: Settings) -> list[Path]:
    assert settings.standby_dir is not None
    return list((settings.standby_dir / "manifests").glob("*"))


def test_a_page_loads_the_same_bytes_without_a_database(
    keeping: Settings, db: Connection, database_url: str
) -> None:
    publish(db, SECOND)
    with gateway(keeping) as http:
        register(http, tiny_model())
        eventually(lambda: served(http)["kernel"]["candidate"] == SECOND, "the winner")
        before = page(http)
        # A second network asks: what one alone wants is not kept on the disk.
        http.get(f"/v1/models/tiny/{CLASS}")
        agent = open_agent(http)
        with database_away(database_url):
            eventually(lambda: status_of(http) == "read-only", "the gateway notices it")
            during = page(http)
            writes = [
                http.post("/v1/sessions", json=SESSION),
                agent.lease(),
                http.get(UNKNOWN),
            ]
        eventually(lambda: status_of(http) == "ready", "the gateway works again")
        after = page(http)
    assert {each.status_code for each in during.values()} == {200}
    for path, answer in before.items():
        assert during[path].content == answer.content == after[path].content, path
        assert during[path].headers.get("etag") == answer.headers.get("etag"), path
    assert int(during[MANIFEST].headers["age"]) >= 0
    assert "age" not in before[MANIFEST].headers
    assert {each.status_code for each in writes} == {503}
    assert all(int(each.headers["retry-after"]) >= 2 for each in writes)


def test_a_gateway_that_starts_without_a_database_gives_what_it_kept(
    keeping: Settings, db: Connection, database_url: str
) -> None:
    publish(db, SECOND)
    with gateway(keeping) as http:
        eventually(lambda: served(http)["kernel"]["candidate"] == SECOND, "the winner")
        before = http.get(MANIFEST)
        artifact = before.json()["entries"][0]["wasm"]["kernel"]["url"]
        kernel = http.get(artifact)
        eventually(lambda: _denied_is_kept(keeping), "what is denied is kept")
    with database_away(database_url), gateway(keeping) as http:
        eventually(lambda: status_of(http) == "read-only", "it starts")
        assert http.get(MANIFEST).content == before.content
        assert (
            http.get(MANIFEST, headers={"If-None-Match": before.headers["etag"]}).status_code == 304
        )
        assert http.get(artifact).content == kernel.content
        assert http.get(f"/v1/denied/{CLASS}").status_code == 200
        assert http.get(UNKNOWN).status_code == 503


def _denied_is_kept(settings: Settings) -> bool:
    assert settings.standby_dir is not None
    return (settings.standby_dir / "denied.json").exists()


def test_what_was_denied_since_is_not_given(
    keeping: Settings, db: Connection, database_url: str
) -> None:
    publish(db, SECOND, THIRD)
    with gateway(keeping) as http:
        eventually(lambda: served(http)["kernel"]["candidate"] == THIRD, "the winner")
        assert http.get(OTHERWISE).content == http.get(MANIFEST).content
        denied = artifact_of(db, THIRD)
        decide(http, denied, denied=True)
        assert keeping.standby_dir is not None
        note = keeping.standby_dir / "denied.json"
        eventually(lambda: note.exists() and denied in note.read_text(), "the denial is kept")
        with database_away(database_url):
            eventually(lambda: status_of(http) == "read-only", "the gateway notices it")
            assert http.get(MANIFEST).status_code == 503
            assert http.get(OTHERWISE).status_code == 503
            assert denied in http.get(f"/v1/denied/{CLASS}").json()["artifacts"]


def test_a_denial_is_kept_that_comes_when_the_list_has_just_been_read(
    keeping: Settings, db: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("services.gateway.denied.WATCHED_EVERY_S", 0.1)
    publish(db, SECOND, THIRD)
    with gateway(keeping) as http:
        eventually(lambda: _denied_is_kept(keeping), "what is denied is kept")
        denied = artifact_of(db, THIRD)
        assert denied not in http.get(f"/v1/denied/{CLASS}").text
        decide(http, denied, denied=True)
        assert keeping.standby_dir is not None
        note = keeping.standby_dir / "denied.json"
        eventually(lambda: denied in note.read_text(), "the denial is kept", within_s=15)


def test_a_gateway_that_kept_nothing_is_not_ready_without_a_database(
    keeping: Settings, database_url: str
) -> None:
    with gateway(keeping) as http, database_away(database_url):
        eventually(lambda: http.get("/readyz").status_code == 503, "it is not ready")


def test_a_torn_file_is_not_given(keeping: Settings, db: Connection, database_url: str) -> None:
    publish(db, SECOND)
    with gateway(keeping) as http:
        eventually(lambda: served(http)["kernel"]["candidate"] == SECOND, "the winner")
        artifact = served(http)["kernel"]["url"]
        http.get(artifact)
        eventually(lambda: _denied_is_kept(keeping), "what is denied is kept")
    assert keeping.standby_dir is not None
    for path in keeping.standby_dir.glob("*/*"):
        path.write_bytes(path.read_bytes()[:-7])
    with database_away(database_url), gateway(keeping) as http:
        eventually(lambda: status_of(http) == "read-only", "it starts")
        assert http.get(MANIFEST).status_code == 503
        assert http.get(artifact).status_code == 503
    assert kept_manifests(keeping) == []


def test_without_a_folder_nothing_is_given(
    http: TestClient, db: Connection, database_url: str
) -> None:
    publish(db, SECOND)
    eventually(lambda: served(http)["kernel"]["candidate"] == SECOND, "the winner")
    with database_away(database_url):
        eventually(lambda: http.get("/readyz").status_code == 503, "the gateway notices it")
        assert http.get(MANIFEST).status_code == 503
